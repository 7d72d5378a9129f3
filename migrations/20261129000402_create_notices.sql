-- What others are told: mails to buyers, and an ordered log of what happened that organisers read or have sent to them.
-- Rows are written in the transaction of their cause.

-- In the order of their transactions: a reader behind the oldest running one misses nothing.
create table event_log (
    log_id bigint generated always as identity,
    xid xid8 not null default pg_current_xact_id(),
    event_id uuid not null,
    kind text not null,
    body jsonb not null,
    created_ms bigint not null,
    constraint event_log_pkey primary key (log_id)
);
create index event_log_order on event_log (xid, log_id);

create table mails (
    mail_id bigint generated always as identity,
    kind text not null,
    event_id uuid not null,
    order_id uuid not null,
    -- The ticket that was passed on; null: the order's buyer is written to.
    ticket_id uuid,
    due_ms bigint not null,
    tries_n integer not null default 0,
    failure text,
    sent_ms bigint,
    created_ms bigint not null,
    constraint mails_pkey primary key (mail_id),
    constraint mails_kind check (kind in ('order_paid', 'order_cancelled', 'order_refunded', 'ticket_passed_on'))
);
create index mails_due on mails (due_ms) where sent_ms is null;

-- Where organisers want to be told. Secrets: newest first; an older one signs as well until its time.
create table webhook_endpoints (
    endpoint_id uuid not null,
    url text not null,
    secrets jsonb not null,
    created_ms bigint not null,
    -- Since when nothing is sent any more, and why.
    disabled_ms bigint,
    disabled_reason text,
    -- How far the log was put on its way.
    cursor_xid xid8 not null,
    cursor_id bigint not null,
    constraint webhook_endpoints_pkey primary key (endpoint_id)
);

create table webhook_deliveries (
    endpoint_id uuid not null references webhook_endpoints (endpoint_id) on delete cascade,
    log_id bigint not null,
    due_ms bigint not null,
    tries_n integer not null default 0,
    failure text,
    sent_ms bigint,
    constraint webhook_deliveries_pkey primary key (endpoint_id, log_id)
);
create index webhook_deliveries_due on webhook_deliveries (due_ms) where sent_ms is null;

-- The language a buyer is written to in.
alter table orders add column lang text not null default 'en';
