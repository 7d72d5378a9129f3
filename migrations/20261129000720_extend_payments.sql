-- Seats one payment instrument may pay for in an event, and which one an order counts for.
alter table events add column seats_per_instrument integer
    constraint events_seats_per_instrument check (seats_per_instrument >= 1);
-- The provider's fingerprint of the card the order was last tried with, where the event limits cards.
alter table orders add column instrument text;

-- Payments whose buyers' banks want the money back. What the provider said last; won and lost are final.
create table disputes (
    provider text not null,
    dispute_id text not null,
    order_id uuid not null,
    event_id uuid not null,
    charge_id text,
    amount_minor bigint not null,
    currency text not null,
    reason text not null,
    status text not null,
    -- Whether the provider has taken the money off our account.
    is_withdrawn boolean not null default false,
    created_ms bigint not null,
    final_ms bigint,
    constraint disputes_pkey primary key (provider, dispute_id),
    constraint disputes_amount check (amount_minor >= 0)
);

create index disputes_of_order on disputes (order_id);
-- Orders a person must look at because of a dispute, whatever their state.
create index orders_disputed on orders (order_id) where concern in ('disputed', 'dispute_lost');

-- Signed words of the provider that nobody can read: kept for a person, byte for byte.
create table unreadable_events (
    provider text not null,
    -- SHA-256 of the body: a repetition is the same word.
    body_hash bytea not null,
    body bytea not null,
    received_ms bigint not null,
    constraint unreadable_events_pkey primary key (provider, body_hash)
);

-- Scratch of `seatwire audit --settlement`: the file of one run, line by line, removed when the run ends.
create unlogged table settlement_rows (
    run_id uuid not null,
    line_n bigint not null,
    kind text not null,
    -- The provider's name for the charge, refund or dispute.
    name text,
    intent text,
    -- As the file signs it: charges positive, refunds and disputes negative.
    amount_minor bigint not null,
    currency text not null,
    constraint settlement_rows_pkey primary key (run_id, line_n),
    constraint settlement_rows_kind check (kind in ('charge', 'refund', 'refund_failure', 'dispute', 'dispute_reversal'))
);

create index settlement_rows_name on settlement_rows (run_id, name);
create index settlement_rows_intent on settlement_rows (run_id, intent);
