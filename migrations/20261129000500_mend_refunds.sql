-- What a refund was asked for as, so that its key does not stand for another one; inbox rows that are forgotten are found.
-- SHA-256 of the operator's request; null: the server asked.
alter table refunds add column fingerprint bytea;
create index webhook_inbox_applied on webhook_inbox (received_ms) where applied_ms is not null;
-- Orders of which the provider said something that could not be applied, whatever their state.
create index orders_unapplied on orders (order_id) where concern = 'event_not_applied';
