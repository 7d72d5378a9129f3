-- The Redis (run and replication history) an event's epoch lives in. Another Redis than this one has lost it.
alter table event_epochs add column redis_identity text not null default '';
