-- Who waits for seats of a sold-out event. A place lives until it is left, or its offer was taken or ran out.
create table waitlist_places (
    event_id uuid not null,
    identity_id uuid not null,
    -- Earlier is first.
    place_n bigint generated always as identity,
    quantity integer not null,
    -- Codes; empty = any.
    price_tiers text[] not null,
    state text not null,
    -- The offer: its hold.
    hold_id uuid,
    joined_ms bigint not null,
    constraint waitlist_places_pkey primary key (event_id, identity_id),
    constraint waitlist_places_quantity check (quantity between 1 and 200),
    constraint waitlist_places_state check (state in ('waiting', 'offered')),
    constraint waitlist_places_offer check ((state = 'offered') = (hold_id is not null))
);
create index waitlist_places_order on waitlist_places (event_id, place_n) where state = 'waiting';

-- First answers of joining and leaving, by the client's key.
create table waitlist_commands (
    event_id uuid not null,
    identity_id uuid not null,
    command_key text not null,
    fingerprint bytea not null,
    answer jsonb not null,
    created_ms bigint not null,
    constraint waitlist_commands_pkey primary key (event_id, identity_id, command_key)
);
create index waitlist_commands_created on waitlist_commands (created_ms);
