//! The journal of holds: what Redis knows of buyers, written after it by one node an event and read by a rebuild. A write
//! moves the event's position in the same statement, and only from the epoch, the copy and the writer it was made for: so a
//! node that was overtaken, or that speaks of an old life, writes nothing.

use super::StoreError;
use seatwire_proto::id::{EventId, IdentityId};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// How far the journal of an event has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalPosition {
    /// Which event.
    pub event: EventId,
    /// The life it follows.
    pub epoch: u32,
    /// The last entry of the stream that is written: `seq-step`.
    pub seq: u64,
    /// See `seq`.
    pub step: u64,
    /// Rows of an earlier copy are of records that are gone.
    pub copy_n: u32,
    /// Whether every record of this life is in it; otherwise all must be copied first.
    pub is_whole: bool,
}

/// A record to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    /// Of which event.
    pub event: EventId,
    /// Whose.
    pub identity: IdentityId,
    /// Of which change.
    pub seq: u64,
    /// Whether a hold is in it.
    pub has_hold: bool,
    /// The bytes; `None` removes the row.
    pub record: Option<Vec<u8>>,
}

/// A remembered answer to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalAnswer {
    /// Of which event.
    pub event: EventId,
    /// Whose.
    pub identity: IdentityId,
    /// The key, hashed to 8 bytes.
    pub key: Vec<u8>,
    /// Fingerprint and answer.
    pub answer: Vec<u8>,
    /// The event's time in seconds when it was given.
    pub given_s: u64,
}

/// Says that this node writes the journal, until it has been silent for so long; forgets nodes that are gone.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn beat(executor: impl PgExecutor<'_>, writer: Uuid, for_ms: u64) -> Result<(), StoreError> {
    sqlx::query!(
        "with clock as (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms),
              gone as (delete from journal_writers w using clock where w.alive_until_ms < now_ms - 60000)
         insert into journal_writers (writer, alive_until_ms) select $1, now_ms + $2 from clock
         on conflict (writer) do update set alive_until_ms = excluded.alive_until_ms",
        writer,
        for_ms.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// Lets other nodes go on at once where this one stopped.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn leave(executor: impl PgExecutor<'_>, writer: Uuid) -> Result<(), StoreError> {
    sqlx::query!("delete from journal_writers where writer = $1", writer).execute(executor).await?;
    Ok(())
}

/// Takes over the journals of these events whose writers have said nothing for `patience_ms`; returns all of them that are
/// this node's now. `for_ms`: what every node says to [`beat`].
///
/// # Errors
/// When Postgres cannot answer.
pub async fn take(
    transaction: &mut PgConnection,
    writer: Uuid,
    events: &[EventId],
    for_ms: u64,
    patience_ms: u64,
) -> Result<Vec<JournalPosition>, StoreError> {
    let events: Vec<Uuid> = events.iter().map(|event| event.uuid()).collect();
    // Events that were opened before there was a journal.
    sqlx::query!(
        "insert into journal_positions (event_id, epoch) select event_id, epoch from event_epochs where event_id = any($1)
         on conflict do nothing",
        &events
    )
    .execute(&mut *transaction)
    .await?;
    let rows = sqlx::query!(
        "update journal_positions p set writer = $1
         where p.event_id = any($2)
           and (p.writer is null or p.writer = $1 or not exists (
             select 1 from journal_writers w
             where w.writer = p.writer
               and w.alive_until_ms > (extract(epoch from clock_timestamp()) * 1000)::bigint + $3))
         returning event_id, epoch, seq, step, copy_n, is_whole",
        writer,
        &events,
        for_ms.saturating_sub(patience_ms).cast_signed()
    )
    .fetch_all(transaction)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| JournalPosition {
            event: EventId::from_uuid(row.event_id),
            epoch: row.epoch.cast_unsigned(),
            seq: row.seq.cast_unsigned(),
            step: row.step.cast_unsigned(),
            copy_n: row.copy_n.cast_unsigned(),
            is_whole: row.is_whole,
        })
        .collect())
}

/// Writes records and answers and moves to these positions, for the events that are still this writer's, in this epoch and
/// copy; returns those. Each position comes with the event's time now: see [`event_ms`]. Each identity of an event at most once. Not waited for by the disk: what is lost with Postgres'
/// last moments is lost only if Redis goes at the same time.
///
/// # Errors
/// When Postgres cannot answer: nothing is written.
pub async fn write(
    executor: impl PgExecutor<'_>,
    writer: Uuid,
    to: &[(JournalPosition, u64)],
    records: &[JournalRecord],
    answers: &[JournalAnswer],
) -> Result<Vec<EventId>, StoreError> {
    let kept: Vec<(&JournalRecord, &Vec<u8>)> =
        records.iter().filter_map(|record| Some((record, record.record.as_ref()?))).collect();
    let gone: Vec<&JournalRecord> = records.iter().filter(|record| record.record.is_none()).collect();
    let event_ids = |events: &mut dyn Iterator<Item = EventId>| events.map(EventId::uuid).collect::<Vec<_>>();
    let moved = sqlx::query_scalar!(
        r#"with quick as materialized (select set_config('synchronous_commit', 'off', true)),
           moved as (
             update journal_positions p set seq = t.seq, step = t.step,
               clock_ahead_ms = t.event_ms - (extract(epoch from clock_timestamp()) * 1000)::bigint
             from quick, unnest($2::uuid[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[], $7::bigint[])
               as t(event_id, epoch, copy_n, seq, step, event_ms)
             where p.event_id = t.event_id and p.epoch = t.epoch and p.copy_n = t.copy_n and p.writer = $1
             returning p.event_id, p.copy_n),
           kept as (
             insert into journal_records (event_id, identity_id, seq, copy_n, has_hold, record)
             select event_id, identity_id, seq, copy_n, has_hold, record
             from unnest($8::uuid[], $9::uuid[], $10::bigint[], $11::boolean[], $12::bytea[])
               as t(event_id, identity_id, seq, has_hold, record) join moved using (event_id)
             on conflict (event_id, identity_id) do update
             set seq = excluded.seq, copy_n = excluded.copy_n, has_hold = excluded.has_hold, record = excluded.record),
           gone as (
             delete from journal_records r
             using unnest($13::uuid[], $14::uuid[]) as t(event_id, identity_id) join moved using (event_id)
             where r.event_id = t.event_id and r.identity_id = t.identity_id),
           answers as (
             insert into journal_answers (event_id, identity_id, answer_key, answer, given_s)
             select event_id, identity_id, answer_key, answer, given_s
             from unnest($15::uuid[], $16::uuid[], $17::bytea[], $18::bytea[], $19::bigint[])
               as t(event_id, identity_id, answer_key, answer, given_s) join moved using (event_id)
             on conflict (event_id, identity_id, answer_key) do update
             set answer = excluded.answer, given_s = excluded.given_s)
           select event_id as "event_id!" from moved"#,
        writer,
        &event_ids(&mut to.iter().map(|(to, _)| to.event)),
        &to.iter().map(|(to, _)| to.epoch.cast_signed()).collect::<Vec<_>>(),
        &to.iter().map(|(to, _)| to.copy_n.cast_signed()).collect::<Vec<_>>(),
        &to.iter().map(|(to, _)| to.seq.cast_signed()).collect::<Vec<_>>(),
        &to.iter().map(|(to, _)| to.step.cast_signed()).collect::<Vec<_>>(),
        &to.iter().map(|(_, event_ms)| event_ms.cast_signed()).collect::<Vec<_>>(),
        &event_ids(&mut kept.iter().map(|(record, _)| record.event)),
        &kept.iter().map(|(record, _)| record.identity.uuid()).collect::<Vec<_>>(),
        &kept.iter().map(|(record, _)| record.seq.cast_signed()).collect::<Vec<_>>(),
        &kept.iter().map(|(record, _)| record.has_hold).collect::<Vec<_>>(),
        &kept.iter().map(|(_, bytes)| (*bytes).clone()).collect::<Vec<_>>() as &[Vec<u8>],
        &event_ids(&mut gone.iter().map(|record| record.event)),
        &gone.iter().map(|record| record.identity.uuid()).collect::<Vec<_>>(),
        &event_ids(&mut answers.iter().map(|answer| answer.event)),
        &answers.iter().map(|answer| answer.identity.uuid()).collect::<Vec<_>>(),
        &answers.iter().map(|answer| answer.key.clone()).collect::<Vec<_>>() as &[Vec<u8>],
        &answers.iter().map(|answer| answer.answer.clone()).collect::<Vec<_>>() as &[Vec<u8>],
        &answers.iter().map(|answer| answer.given_s.cast_signed()).collect::<Vec<_>>()
    )
    .fetch_all(executor)
    .await?;
    Ok(moved.into_iter().map(EventId::from_uuid).collect())
}

/// Begins to copy every record of a life anew; the number of the copy, `None` when the event is no longer this writer's.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn begin_copy(
    executor: impl PgExecutor<'_>,
    writer: Uuid,
    event: EventId,
    epoch: u32,
) -> Result<Option<u32>, StoreError> {
    let copy_n = sqlx::query_scalar!(
        "update journal_positions set copy_n = copy_n + 1, is_whole = false
         where event_id = $1 and epoch = $2 and writer = $3 returning copy_n",
        event.uuid(),
        epoch.cast_signed(),
        writer
    )
    .fetch_optional(executor)
    .await?;
    Ok(copy_n.map(i32::cast_unsigned))
}

/// The copy is whole: what it did not find is gone. Returns whether it counts.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn finish_copy(
    executor: impl PgExecutor<'_>,
    writer: Uuid,
    at: &JournalPosition,
) -> Result<bool, StoreError> {
    let done = sqlx::query_scalar!(
        r#"with whole as (
             update journal_positions set is_whole = true, seq = $5, step = $6
             where event_id = $1 and epoch = $2 and writer = $3 and copy_n = $4 returning event_id, copy_n),
           gone as (
             delete from journal_records r using whole where r.event_id = whole.event_id and r.copy_n < whole.copy_n)
           select count(*) as "n!" from whole"#,
        at.event.uuid(),
        at.epoch.cast_signed(),
        writer,
        at.copy_n.cast_signed(),
        at.seq.cast_signed(),
        at.step.cast_signed()
    )
    .fetch_one(executor)
    .await?;
    Ok(done == 1)
}

/// A new life begins: whoever still writes of the old one writes nothing from here on.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn begin_epoch(executor: impl PgExecutor<'_>, event: EventId, epoch: u32) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into journal_positions (event_id, epoch) values ($1, $2)
         on conflict (event_id) do update
         set before_epoch = case when journal_positions.is_whole then journal_positions.epoch
                                 else journal_positions.before_epoch end,
             before_seq = case when journal_positions.is_whole then journal_positions.seq
                               else journal_positions.before_seq end,
             epoch = $2, seq = 0, step = 0, is_whole = false",
        event.uuid(),
        epoch.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(())
}

/// The event's time now, as the journal carries it by Postgres' clock from one Redis to the next: holds end by it, and Redis'
/// clock may have been moved, or be another's. `None` before anything was written.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn event_ms(executor: impl PgExecutor<'_>, event: EventId) -> Result<Option<u64>, StoreError> {
    let now_ms = sqlx::query_scalar!(
        r#"select (extract(epoch from clock_timestamp()) * 1000)::bigint + clock_ahead_ms as "now_ms!"
           from journal_positions where event_id = $1 and clock_ahead_ms is not null"#,
        event.uuid()
    )
    .fetch_optional(executor)
    .await?;
    Ok(now_ms.map(i64::cast_unsigned))
}

/// How far the journal has followed this life; `None` when it follows another one.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn seq_of(executor: impl PgExecutor<'_>, event: EventId, epoch: u32) -> Result<Option<u64>, StoreError> {
    let seq = sqlx::query_scalar!(
        "select seq from journal_positions where event_id = $1 and epoch = $2",
        event.uuid(),
        epoch.cast_signed()
    )
    .fetch_optional(executor)
    .await?;
    Ok(seq.map(i64::cast_unsigned))
}

/// Until where the journal knew all of the last life that it followed to its end: epoch and seq. `None` when it never did.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn known_of_life_before(
    executor: impl PgExecutor<'_>,
    event: EventId,
) -> Result<Option<(u32, u64)>, StoreError> {
    let row = sqlx::query!(
        r#"select before_epoch as "epoch!", before_seq as "seq!" from journal_positions
           where event_id = $1 and before_epoch is not null"#,
        event.uuid()
    )
    .fetch_optional(executor)
    .await?;
    Ok(row.map(|row| (row.epoch.cast_unsigned(), row.seq.cast_unsigned())))
}

/// A record as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRecord {
    /// Whose.
    pub identity: IdentityId,
    /// The bytes.
    pub record: Vec<u8>,
}

/// Every record of an event, the newest change first.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn of_event(executor: impl PgExecutor<'_>, event: EventId) -> Result<Vec<WrittenRecord>, StoreError> {
    let rows = sqlx::query!(
        "select identity_id, record from journal_records where event_id = $1 order by seq desc, identity_id",
        event.uuid()
    )
    .fetch_all(executor)
    .await?;
    let written = |row_identity, record| WrittenRecord { identity: IdentityId::from_uuid(row_identity), record };
    Ok(rows.into_iter().map(|row| written(row.identity_id, row.record)).collect())
}

/// What stands of the identities of these records before they are written.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn before(
    executor: impl PgExecutor<'_>,
    records: &[JournalRecord],
) -> Result<Vec<(EventId, WrittenRecord)>, StoreError> {
    let rows = sqlx::query!(
        "select r.event_id, r.identity_id, r.record from journal_records r
         join unnest($1::uuid[], $2::uuid[]) as t(event_id, identity_id) using (event_id, identity_id)",
        &records.iter().map(|record| record.event.uuid()).collect::<Vec<_>>(),
        &records.iter().map(|record| record.identity.uuid()).collect::<Vec<_>>()
    )
    .fetch_all(executor)
    .await?;
    let written = |identity, record| WrittenRecord { identity: IdentityId::from_uuid(identity), record };
    Ok(rows.into_iter().map(|row| (EventId::from_uuid(row.event_id), written(row.identity_id, row.record))).collect())
}

/// Answers of an event that were given since then.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn answers_of_event(
    executor: impl PgExecutor<'_>,
    event: EventId,
    since_s: u64,
) -> Result<Vec<JournalAnswer>, StoreError> {
    let rows = sqlx::query!(
        "select identity_id, answer_key, answer, given_s from journal_answers where event_id = $1 and given_s >= $2",
        event.uuid(),
        since_s.cast_signed()
    )
    .fetch_all(executor)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| JournalAnswer {
            event,
            identity: IdentityId::from_uuid(row.identity_id),
            key: row.answer_key,
            answer: row.answer,
            given_s: row.given_s.cast_unsigned(),
        })
        .collect())
}

/// Forgets answers that were given longer ago than this, by each event's own time; how many. At most 10,000 a call.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn forget_answers(executor: impl PgExecutor<'_>, kept_s: u64) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "delete from journal_answers a using (
           select o.tableoid, o.ctid from journal_answers o left join journal_positions p using (event_id)
           where o.given_s < extract(epoch from clock_timestamp())::bigint + coalesce(p.clock_ahead_ms, 0) / 1000 - $1
           limit 10000) b
         where a.tableoid = b.tableoid and a.ctid = b.ctid",
        kept_s.cast_signed()
    )
    .execute(executor)
    .await?;
    Ok(done.rows_affected())
}

/// A record with a hold in it, and the event's time now, as the journal knows both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalledHold {
    /// Of which event.
    pub event: EventId,
    /// The bytes.
    pub record: Vec<u8>,
    /// See [`event_ms`].
    pub event_ms: Option<u64>,
}

/// Records of the identity with a hold in it, as the journal was last written; at most `most`.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn with_hold(
    executor: impl PgExecutor<'_>,
    identity: IdentityId,
    most: u32,
) -> Result<Vec<JournalledHold>, StoreError> {
    let rows = sqlx::query!(
        r#"select r.event_id, r.record,
             (extract(epoch from clock_timestamp()) * 1000)::bigint + p.clock_ahead_ms as event_ms
           from journal_records r left join journal_positions p using (event_id)
           where r.identity_id = $1 and r.has_hold limit $2"#,
        identity.uuid(),
        i64::from(most)
    )
    .fetch_all(executor)
    .await?;
    let hold = |event, record, event_ms: Option<i64>| JournalledHold {
        event: EventId::from_uuid(event),
        record,
        event_ms: event_ms.map(i64::cast_unsigned),
    };
    Ok(rows.into_iter().map(|row| hold(row.event_id, row.record, row.event_ms)).collect())
}
