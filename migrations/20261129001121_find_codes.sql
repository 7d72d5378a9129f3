-- A code is looked up by itself too: at the door of another event.
alter table tickets drop constraint tickets_code, add constraint tickets_code unique (code, event_id);
