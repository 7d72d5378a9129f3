-- Organisers choose what they are told and hear why they are no longer; mails nobody will take are left to a person.

alter table webhook_endpoints
    -- What it wants, e.g. {order.paid,ticket}: types, or all of a kind. Null: everything but holds.
    add column types text[],
    -- Since when every delivery failed; null: the last one was taken.
    add column failing_since_ms bigint;

alter table mails
    -- When it was given up: the server refused it for good, or it was tried for too long.
    add column given_up_ms bigint;
create index mails_given_up on mails (given_up_ms) where given_up_ms is not null;
drop index mails_due;
create index mails_due on mails (due_ms) where sent_ms is null and given_up_ms is null;

-- Openings by time that are in the log: nobody's call is their cause.
create table event_openings (
    event_id uuid not null,
    kind text not null,
    at_ms bigint not null,
    constraint event_openings_pkey primary key (event_id, kind, at_ms),
    constraint event_openings_kind check (kind in ('presale', 'on_sale'))
);
