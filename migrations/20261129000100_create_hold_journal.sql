-- What Redis knows of buyers, written after it: when Redis is lost, the next life of an event begins with these.
-- Rows live as long as their record in Redis does, so the journal is as large as what is open, not as what ever was.

-- How far an event's stream of changes has been written, and by which node.
create table journal_positions (
    event_id uuid not null,
    epoch integer not null,
    -- The last entry written; an entry is named seq-step.
    seq bigint not null default 0,
    step bigint not null default 0,
    -- Rows of an earlier copy than this are of records that are gone, once the copy is whole.
    copy_n integer not null default 0,
    is_whole boolean not null default false,
    writer uuid,
    constraint journal_positions_pkey primary key (event_id)
);

-- Nodes that write the journal, by Postgres' clock.
create table journal_writers (
    writer uuid not null,
    alive_until_ms bigint not null,
    constraint journal_writers_pkey primary key (writer)
);

-- The newest record of an identity, byte for byte as Redis has it.
create table journal_records (
    event_id uuid not null,
    identity_id uuid not null,
    seq bigint not null,
    copy_n integer not null,
    has_hold boolean not null,
    record bytea not null,
    constraint journal_records_pkey primary key (event_id, identity_id)
) with (fillfactor = 70);

create index journal_records_holds on journal_records (identity_id) where has_hold;

-- Remembered answers that found no room in their identity's record.
create table journal_answers (
    event_id uuid not null,
    identity_id uuid not null,
    answer_key bytea not null,
    -- Fingerprint of the command (8 bytes), then the answer.
    answer bytea not null,
    given_s bigint not null,
    constraint journal_answers_pkey primary key (event_id, identity_id, answer_key)
);

create index journal_answers_given on journal_answers (given_s);
