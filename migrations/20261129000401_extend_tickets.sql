-- Tickets that change hands and tickets at the door.
alter table tickets
    -- To whom it was passed on; null: the order's buyer has it.
    add column holder_name text,
    add column holder_email text,
    -- The ticket it came from.
    add column from_ticket_id uuid,
    -- When it was used, at which door, and the name of that scan: the same scan repeated is the same admission.
    add column used_ms bigint,
    add column used_door text,
    add column used_scan text;
