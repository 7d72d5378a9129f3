-- A change that begins in Redis says here, before it touches Redis, that it must be told: also where it ends half way.
alter table event_shelves
    add column owed_n bigint not null default 0,
    add column told_n bigint not null default 0;

-- An offer the identity had before it took this place: it is not this place's.
alter table waitlist_places add column earlier_hold_id uuid;
