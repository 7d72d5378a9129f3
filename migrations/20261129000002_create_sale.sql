-- The ledger of sales. Redis holds a seat first; here it becomes durable, before any money moves.
-- Times are epoch milliseconds of the server's clock, money is minor units. Ids are the 128 bits behind the TypeIDs.
-- Hot tables begin their key with event_id and refer to nothing outside their event, so that they can be partitioned.

-- The life of an event's inventory in Redis. Every rebuild begins a new one; none comes back.
create table event_epochs (
    event_id uuid not null,
    epoch integer not null,
    constraint event_epochs_pkey primary key (event_id),
    constraint event_epochs_positive check (epoch >= 1)
);

create function forbid_epoch_decrease() returns trigger language plpgsql as $$
begin
    if new.event_id <> old.event_id or new.epoch < old.epoch then
        raise exception 'epoch of event % may not go from % to %', old.event_id, old.epoch, new.epoch
            using errcode = 'check_violation', constraint = 'event_epochs_never_decrease';
    end if;
    return new;
end $$;

create trigger event_epochs_never_decrease before update on event_epochs
    for each row execute function forbid_epoch_decrease();

create function forbid_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;

create trigger event_epochs_never_deleted before delete on event_epochs
    for each row execute function forbid_change();

-- One row a reserved or sold seat; an available seat has none. The key refuses a second taker.
create table taken_seats (
    event_id uuid not null,
    seat_index integer not null,
    state text not null,
    order_id uuid not null,
    identity_id uuid not null,
    epoch integer not null,
    constraint taken_seats_pkey primary key (event_id, seat_index),
    constraint taken_seats_seat check (seat_index >= 0),
    constraint taken_seats_state check (state in ('reserved', 'sold'))
);

create index taken_seats_order on taken_seats (event_id, order_id);

-- What ever happened to a seat. Written by the triggers below, so no path can forget it.
create table seat_log (
    event_id uuid not null,
    log_id bigint generated always as identity,
    seat_index integer not null,
    state text not null,
    order_id uuid not null,
    epoch integer not null,
    logged_ms bigint not null,
    constraint seat_log_pkey primary key (event_id, log_id)
);

create trigger seat_log_append_only before update or delete on seat_log
    for each row execute function forbid_change();

create function log_taken_seats() returns trigger language plpgsql as $$
begin
    insert into seat_log (event_id, seat_index, state, order_id, epoch, logged_ms)
    select event_id, seat_index, state, order_id, epoch, (extract(epoch from clock_timestamp()) * 1000)::bigint
    from changed;
    return null;
end $$;

create function log_freed_seats() returns trigger language plpgsql as $$
begin
    insert into seat_log (event_id, seat_index, state, order_id, epoch, logged_ms)
    select event_id, seat_index, 'available', order_id, epoch, (extract(epoch from clock_timestamp()) * 1000)::bigint
    from changed;
    return null;
end $$;

create trigger taken_seats_logged_on_insert after insert on taken_seats
    referencing new table as changed for each statement execute function log_taken_seats();
create trigger taken_seats_logged_on_update after update on taken_seats
    referencing new table as changed for each statement execute function log_taken_seats();
create trigger taken_seats_logged_on_delete after delete on taken_seats
    referencing old table as changed for each statement execute function log_freed_seats();

-- Places of an area that are reserved or sold. The row appears with the first reservation.
create table area_stock (
    event_id uuid not null,
    area_index integer not null,
    capacity integer not null,
    reserved integer not null default 0,
    sold integer not null default 0,
    constraint area_stock_pkey primary key (event_id, area_index),
    constraint area_stock_within_capacity check (reserved >= 0 and sold >= 0 and reserved + sold <= capacity)
);

-- Seats and places an identity has reserved or bought in an event, and the limit that held at the last change.
create table identity_use (
    event_id uuid not null,
    identity_id uuid not null,
    used integer not null,
    limit_n integer not null,
    constraint identity_use_pkey primary key (event_id, identity_id),
    constraint identity_use_within_limit check (used >= 0 and used <= limit_n)
);

-- The same per payment instrument, by the provider's fingerprint of the card.
create table instrument_use (
    event_id uuid not null,
    fingerprint text not null,
    used integer not null,
    limit_n integer not null,
    constraint instrument_use_pkey primary key (event_id, fingerprint),
    constraint instrument_use_within_limit check (used >= 0 and used <= limit_n)
);

-- An order and where its saga stands. States: server/src/checkout/order.rs.
create table orders (
    order_id uuid not null,
    event_id uuid not null,
    identity_id uuid not null,
    hold_id uuid not null,
    epoch integer not null,
    reference text not null,
    command_key text not null,
    state text not null,
    lines jsonb not null,
    seats_n integer not null,
    total_minor bigint not null,
    captured_minor bigint not null default 0,
    refunding_minor bigint not null default 0,
    refunded_minor bigint not null default 0,
    currency text not null,
    buyer_name text not null,
    buyer_email text not null,
    pay_secret text not null,
    provider text not null,
    intent_id text,
    decline_reason text,
    action jsonb,
    attempts_n integer not null default 0,
    -- When the present state was entered.
    state_since_ms bigint not null,
    -- When the lock on the hold in Redis ends unless it is renewed.
    lock_until_ms bigint not null,
    -- When the reconciler looks next; null once nothing is open.
    check_at_ms bigint,
    checks_n integer not null default 0,
    -- Since when we do not know whether money moved.
    unknown_since_ms bigint,
    created_ms bigint not null,
    constraint orders_pkey primary key (order_id),
    constraint orders_reference unique (reference),
    constraint orders_command_key unique (identity_id, command_key),
    constraint orders_intent unique (provider, intent_id),
    constraint orders_state check (state in (
        'creating', 'payable', 'confirming', 'action_required', 'processing', 'payment_unknown', 'cancelling',
        'released_unresolved', 'late_success', 'paid', 'fulfilled', 'refund_due', 'refund_submitted',
        'refund_pending', 'refund_failed', 'partially_refunded', 'refunded', 'disputed', 'cancelled')),
    constraint orders_total check (total_minor >= 0),
    constraint orders_money check (
        captured_minor >= 0 and refunded_minor >= 0 and refunding_minor >= 0
        and refunded_minor + refunding_minor <= captured_minor)
);

create index orders_of_identity on orders (identity_id, order_id desc);
create index orders_of_event on orders (event_id, order_id);
create index orders_to_check on orders (check_at_ms) where check_at_ms is not null;
-- A hold is paid once: a second order of it can only follow a cancelled one.
create unique index orders_open_hold on orders (hold_id) where state <> 'cancelled';

-- First answers of checkout, pay and cancel by the client's key. A checkout's row names the order it will make and stands
-- before the hold is locked, so that a lock whose checkout died is found and undone.
create table order_commands (
    identity_id uuid not null,
    command_key text not null,
    fingerprint bytea not null,
    order_id uuid not null,
    -- What a checkout locks; null for other commands.
    hold_id uuid,
    -- Null while the command runs.
    answer jsonb,
    -- Until then this run has it to itself; past it another may take over.
    run_id uuid not null,
    running_until_ms bigint not null,
    created_ms bigint not null,
    constraint order_commands_pkey primary key (identity_id, command_key)
);

create index order_commands_running on order_commands (running_until_ms) where answer is null;
create index order_commands_created on order_commands (created_ms);

-- One try to move money, committed before the provider is asked.
create table payment_attempts (
    order_id uuid not null,
    attempt_n integer not null,
    event_id uuid not null,
    provider text not null,
    idempotency_key text not null,
    method text not null,
    amount_minor bigint not null,
    state text not null,
    charge_id text,
    decline_reason text,
    created_ms bigint not null,
    final_ms bigint,
    constraint payment_attempts_pkey primary key (order_id, attempt_n),
    constraint payment_attempts_key unique (provider, idempotency_key),
    constraint payment_attempts_charge unique (provider, charge_id),
    constraint payment_attempts_state check (state in ('open', 'succeeded', 'declined', 'cancelled')),
    constraint payment_attempts_final check ((state = 'open') = (final_ms is null))
);

create unique index payment_attempts_one_open on payment_attempts (order_id) where state = 'open';

-- Money on its way back. The sum is bounded by orders_money.
create table refunds (
    refund_id uuid not null,
    order_id uuid not null,
    event_id uuid not null,
    provider text not null,
    idempotency_key text not null,
    provider_refund_id text,
    amount_minor bigint not null,
    reason text not null,
    state text not null,
    failure text,
    created_ms bigint not null,
    final_ms bigint,
    constraint refunds_pkey primary key (refund_id),
    constraint refunds_key unique (provider, idempotency_key),
    constraint refunds_provider_refund unique (provider, provider_refund_id),
    constraint refunds_amount check (amount_minor > 0),
    constraint refunds_state check (state in ('due', 'submitted', 'pending', 'succeeded', 'failed'))
);

create index refunds_of_order on refunds (order_id);

-- What the provider told us, kept before it is applied.
create table webhook_inbox (
    provider text not null,
    provider_event_id text not null,
    kind text not null,
    intent_id text,
    body text not null,
    received_ms bigint not null,
    applied_ms bigint,
    tries_n integer not null default 0,
    constraint webhook_inbox_pkey primary key (provider, provider_event_id)
);

create index webhook_inbox_open on webhook_inbox (received_ms) where applied_ms is null;

-- How far the provider's list of events has been read.
create table provider_cursors (
    provider text not null,
    cursor text not null,
    constraint provider_cursors_pkey primary key (provider)
);

-- What the world must still be told, written in the transaction of its cause and deleted once acknowledged.
create table outbox (
    outbox_id bigint generated always as identity,
    event_id uuid not null,
    order_id uuid not null,
    kind text not null,
    body jsonb not null,
    due_ms bigint not null,
    tries_n integer not null default 0,
    created_ms bigint not null,
    constraint outbox_pkey primary key (outbox_id),
    constraint outbox_kind check (kind in ('sell', 'free', 'order_update'))
);

create index outbox_due on outbox (due_ms, outbox_id);
create index outbox_of_order on outbox (order_id, outbox_id);

-- The right to enter. The partial index is the second, independent guard against selling a seat twice.
create table tickets (
    event_id uuid not null,
    ticket_id uuid not null,
    order_id uuid not null,
    identity_id uuid not null,
    line_n integer not null,
    seat_index integer,
    area_index integer,
    code text not null,
    state text not null,
    created_ms bigint not null,
    constraint tickets_pkey primary key (event_id, ticket_id),
    constraint tickets_code unique (event_id, code),
    constraint tickets_place check ((seat_index is null) <> (area_index is null)),
    constraint tickets_state check (state in ('valid', 'used', 'transferred', 'void'))
);

create unique index tickets_one_live_seat on tickets (event_id, seat_index) where state in ('valid', 'used');
create index tickets_of_order on tickets (event_id, order_id);
