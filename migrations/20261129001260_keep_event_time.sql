-- How far an event's time, by which its holds end, is ahead of Postgres' clock: so it goes on in another Redis.
alter table journal_positions add column clock_ahead_ms bigint;
