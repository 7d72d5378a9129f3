-- What is due is taken endpoint by endpoint, so that one with a long tail is not walked through for the others.
drop index webhook_deliveries_due;
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, due_ms, log_id) where sent_ms is null;
