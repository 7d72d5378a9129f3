-- Events whose freed seats may be kept for those who wait: noted before the first is kept, removed once nobody has a place
-- and everything kept is on the map, so that nothing stays kept for nobody.
create table waitlist_keepings (
    event_id uuid not null,
    constraint waitlist_keepings_pkey primary key (event_id)
);
-- One of before this list may keep for nobody: each is looked at once.
insert into waitlist_keepings (event_id) select id from events where has_waitlist;

-- Whose presale or on-sale begins next is found without reading every event.
create index events_presale_opening on events (presale_ms) where state in ('scheduled', 'presale', 'on_sale');
create index events_on_sale_opening on events (on_sale_ms) where state in ('scheduled', 'presale', 'on_sale');
