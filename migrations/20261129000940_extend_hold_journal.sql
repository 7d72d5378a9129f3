-- How far the journal had come when the life before ended: what was answered until then and is not in the new life was given
-- back since, not lost.
alter table journal_positions
    add column before_epoch integer,
    add column before_seq bigint;
