-- What an offer was made of: who leaves gives back just that, and nothing that was added to the basket since. Empty: not
-- known, as of an offer found after a crash; then it stands until its time is over.
alter table waitlist_places
    add column offered_seats integer[] not null default '{}',
    -- An area of which as many places were offered as were waited for.
    add column offered_area integer;
