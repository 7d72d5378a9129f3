-- Orders a person must look at, and refunds that are asked for again without being made twice.
-- Why a person must look at an order; settled orders keep it as a note.
alter table orders add column concern text;
create index orders_unsettled on orders (order_id) where state in (
    'payment_unknown', 'processing', 'cancelling', 'released_unresolved', 'late_success',
    'refund_due', 'refund_submitted', 'refund_pending', 'refund_failed', 'disputed');

-- Times the provider was asked for a refund; past the first it is looked for before it is asked for again.
alter table refunds add column tries_n integer not null default 0;
-- The provider remembers a failure under its key: once it is certain that nothing went back, another key is used.
alter table refunds add column key_n integer not null default 1;
