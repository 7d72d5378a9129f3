-- Who may change what is on sale, what they changed, and what an event needs to be changed while it sells.

-- Keys of operators and their systems. The secret itself is shown once, when the key is made, and kept nowhere.
create table admin_keys (
    key_id uuid not null,
    name text not null,
    secret_hash bytea not null,
    scopes text[] not null,
    created_ms bigint not null,
    revoked_ms bigint,
    constraint admin_keys_pkey primary key (key_id),
    constraint admin_keys_name check (name <> ''),
    constraint admin_keys_secret check (octet_length(secret_hash) = 32),
    constraint admin_keys_scopes check (cardinality(scopes) > 0)
);

-- One row a change, written in the transaction of the change.
create table admin_log (
    log_id bigint generated always as identity,
    at_ms bigint not null,
    -- Null: the command line, or the server itself.
    key_id uuid,
    key_name text not null,
    action text not null,
    event_id uuid,
    detail jsonb not null,
    constraint admin_log_pkey primary key (log_id)
);
create index admin_log_of_event on admin_log (event_id, log_id desc);
create trigger admin_log_append_only before update or delete on admin_log
    for each row execute function forbid_change();

alter table events
    -- When holders of a presale code may buy; null: no presale.
    add column presale_ms bigint check (presale_ms >= 0),
    -- Why the event is in its state, for people.
    add column state_reason text;

-- Up to which revision the shelf (Redis) was told of an event; behind the event's own = it must be told.
create table event_shelves (
    event_id uuid not null,
    revision bigint not null,
    constraint event_shelves_pkey primary key (event_id)
);
