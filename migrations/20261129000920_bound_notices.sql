-- What was told is kept for a while and then forgotten, and an endpoint is given up for days of failures, not for two of them.

alter table webhook_endpoints
    -- Failures since failing_since_ms, and when the last one was: days of silence between two failures are no failing.
    add column failures_n integer not null default 0,
    add column last_failed_ms bigint,
    -- What happened up to this time was forgotten before it was taken; null: nothing was missed.
    add column missed_until_ms bigint;

-- The newest row of the log that was forgotten: whoever stands before it has missed something. At most one row.
create table event_log_floor (
    floor_id integer not null default 1,
    xid xid8 not null,
    log_id bigint not null,
    created_ms bigint not null,
    constraint event_log_floor_pkey primary key (floor_id),
    constraint event_log_floor_one check (floor_id = 1)
);

create index mails_sent on mails (sent_ms) where sent_ms is not null;
create index unreadable_events_received on unreadable_events (received_ms);
