-- In which life of the inventory the offer was last seen: an offer that is gone in another one may have been lost with it.
alter table waitlist_places add column offered_epoch integer;

-- A key is the identity's, whatever event it was used for.
create index waitlist_commands_key on waitlist_commands (identity_id, command_key);
