-- What can be sold: places, their plans, who plays, and the events with their prices and rules.
-- Read often and changed rarely. Which seat is taken stands elsewhere; an unsold seat has no row anywhere.

-- Keys this installation signs with, shared by its nodes. Several versions of a purpose overlap while a key is changed.
create table server_keys (
    purpose    text    not null check (purpose <> ''),
    version    integer not null check (version >= 1),
    secret     bytea   not null check (octet_length(secret) >= 32),
    created_ms bigint  not null,
    primary key (purpose, version)
);

create table venues (
    id         uuid primary key,
    name       text             not null check (name <> ''),
    city       text             not null,
    country    text             not null check (country ~ '^[A-Z]{2}$'),
    lat        double precision not null check (lat between -90 and 90),
    lon        double precision not null check (lon between -180 and 180),
    time_zone  text             not null,
    created_ms bigint           not null,
    constraint venues_name_city_key unique (name, city)
);

-- A plan is named by its content and never changes. `categories` and what follows it are the importer's proposal for
-- price tiers and capacities; an event decides.
create table layouts (
    hash            text primary key check (hash ~ '^[0-9a-f]{32}$'),
    venue_id        uuid    not null references venues (id),
    name            text    not null,
    seat_count      integer not null check (seat_count between 0 and 1048576),
    area_count      integer not null check (area_count between 0 and 4096),
    -- JSON as hashed, without the member `hash`; compressed by Postgres itself.
    stored_json     bytea   not null,
    -- [{"name", "color"}], at most 256.
    categories      jsonb   not null,
    -- One byte a seat: index into categories.
    seat_categories bytea   not null check (octet_length(seat_categories) = seat_count),
    -- [{"category", "capacity"}], one an area.
    area_proposals  jsonb   not null check (jsonb_array_length(area_proposals) = area_count),
    created_ms      bigint  not null
);
create index layouts_venue_idx on layouts (venue_id);

create table performers (
    id         uuid primary key,
    name       text   not null check (name <> ''),
    created_ms bigint not null,
    constraint performers_name_key unique (name)
);

create table events (
    id                 uuid primary key,
    -- Short number carried inside hold ids: 28 bits there.
    number             integer generated always as identity unique check (number between 1 and 268435455),
    venue_id           uuid    not null references venues (id),
    layout_hash        text    not null references layouts (hash),
    name               text    not null check (name <> ''),
    description        text    not null default '',
    starts_ms          bigint  not null check (starts_ms >= 0),
    on_sale_ms         bigint  not null check (on_sale_ms >= 0),
    state              text    not null check (state in
        ('scheduled', 'presale', 'on_sale', 'paused', 'sold_out', 'closed', 'cancelled')),
    currency           text    not null check (currency ~ '^[A-Z]{3}$'),
    seats_per_identity integer not null check (seats_per_identity between 1 and 200),
    hold_ttl_ms        bigint  not null check (hold_ttl_ms between 1000 and 86400000),
    orphans            text    not null check (orphans in ('off', 'lenient', 'strict')),
    has_waiting_room   boolean not null default false,
    has_waitlist       boolean not null default false,
    seat_count         integer not null check (seat_count between 0 and 1048576),
    -- One byte a seat: position of its price tier.
    seat_tiers         bytea   not null check (octet_length(seat_tiers) = seat_count),
    -- Roaring set (portable format) of the seats the open channel does not sell.
    blocked            bytea   not null,
    -- Grows with every change, also of the tables below; nodes notice a change by it.
    revision           bigint  not null default 1,
    created_ms         bigint  not null
);
-- Lists are in order of the date.
create index events_starts_idx on events (starts_ms, id);
create index events_venue_idx on events (venue_id);

create table event_performers (
    event_id     uuid     not null references events (id) on delete cascade,
    position     smallint not null check (position >= 0),
    performer_id uuid     not null references performers (id),
    primary key (event_id, position)
);
create index event_performers_performer_idx on event_performers (performer_id);

create table event_price_tiers (
    event_id    uuid     not null references events (id) on delete cascade,
    position    smallint not null check (position between 0 and 255),
    code        text     not null check (octet_length(code) between 1 and 16),
    name        text     not null,
    color       text     not null check (color ~ '^#[0-9a-f]{6}$'),
    price_minor bigint   not null check (price_minor between 0 and 9007199254740991),
    fee_minor   bigint   not null check (fee_minor between 0 and 9007199254740991),
    primary key (event_id, position),
    constraint event_price_tiers_code_key unique (event_id, code)
);

-- The seats of a section are consecutive: first_seat .. end_seat, the latter not included.
create table event_sections (
    event_id      uuid    not null references events (id) on delete cascade,
    section_index integer not null check (section_index >= 0),
    name          text    not null,
    first_seat    integer not null check (first_seat >= 0),
    end_seat      integer not null check (end_seat >= first_seat),
    sales_mode    text    not null check (sales_mode in ('pick_seat', 'best_available')),
    primary key (event_id, section_index)
);

create table event_areas (
    event_id   uuid     not null references events (id) on delete cascade,
    area_index integer  not null check (area_index >= 0),
    name       text     not null,
    price_tier smallint not null check (price_tier between 0 and 255),
    capacity   integer  not null check (capacity >= 0),
    primary key (event_id, area_index)
);

create function bump_event_revision() returns trigger language plpgsql as $$
begin
    new.revision := old.revision + 1;
    return new;
end
$$;
create trigger events_revision before update on events
    for each row execute function bump_event_revision();

-- A change beside the event counts as a change of the event.
create function touch_event() returns trigger language plpgsql as $$
begin
    update events set revision = revision
        where id = case when tg_op = 'DELETE' then old.event_id else new.event_id end;
    return null;
end
$$;
create trigger event_performers_touch after update or delete on event_performers
    for each row execute function touch_event();
create trigger event_price_tiers_touch after update or delete on event_price_tiers
    for each row execute function touch_event();
create trigger event_sections_touch after update or delete on event_sections
    for each row execute function touch_event();
create trigger event_areas_touch after update or delete on event_areas
    for each row execute function touch_event();
