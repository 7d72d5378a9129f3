-- A refund names the lines whose tickets it voids; null = money only. An inbox row that cannot be applied yet waits.
alter table refunds add column lines jsonb;
alter table webhook_inbox add column due_ms bigint not null default 0;
drop index webhook_inbox_open;
create index webhook_inbox_due on webhook_inbox (due_ms) where applied_ms is null;
