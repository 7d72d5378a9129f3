-- Seats kept for a channel, such as a fan club, opened by a presale code. The map shows them blocked to everyone else.
-- Never deleted: a closed one tells each node which seats to give back, and its slot is never used again.
create table event_allocations (
    event_id   uuid     not null references events (id) on delete cascade,
    -- A bit of what Redis keeps of each identity.
    slot       smallint not null check (slot between 0 and 30),
    id         uuid     not null,
    name       text     not null check (name <> ''),
    -- SHA-256 of the event's id and the code.
    code_hash  bytea    not null check (octet_length(code_hash) = 32),
    -- Roaring set (portable format).
    seats      bytea    not null,
    from_ms    bigint   not null check (from_ms >= 0),
    until_ms   bigint   not null,
    closed_ms  bigint,
    created_ms bigint   not null,
    primary key (event_id, slot),
    constraint event_allocations_id_key unique (id),
    constraint event_allocations_code_key unique (event_id, code_hash),
    constraint event_allocations_window check (from_ms < until_ms)
);
create trigger event_allocations_touch after insert or update or delete on event_allocations
    for each row execute function touch_event();
