//! Writes what Redis knows of buyers to Postgres, a moment after it: a lost Redis begins again with it. One node writes an
//! event; the others look every second whether it is still alive and go on where it stopped. A node that cannot read on,
//! because the stream went on without it or a new life began, copies every record once and then follows again.

mod tell;

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::inventory::{Changes, CopyCursor, InventoryError, StreamPosition};
use crate::shutdown::Phase;
use crate::store::hold_journal::{self, JournalAnswer, JournalPosition, JournalRecord};
use crate::store::{self, event_log};
use futures_util::future::join_all;
use seatwire_proto::id::EventId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Between two rounds: with the round itself a change is in Postgres within 100 ms.
const TICK: Duration = Duration::from_millis(40);
/// After a round that failed; the stream keeps what comes meanwhile, and what it does not keep is copied.
const FAILED_PAUSE: Duration = Duration::from_millis(250);
/// How often a node says that it lives and looks for journals nobody writes.
const BEAT_INTERVAL: Duration = Duration::from_millis(500);
/// A node that was silent for so long is taken for dead: what it has claimed is free.
const ALIVE_FOR_MS: u64 = 4_000;
/// After so long another node goes on with its journals. Sooner, because all that the journal is behind is lost with Redis;
/// and a writer that was only slow loses nothing, as what it writes late is refused and the other one has it.
const WRITES_WITHIN_MS: u64 = 1_500;
/// Events whose streams are read at once; a round goes through all of them in such groups.
const MAX_EVENTS_AT_ONCE: usize = 32;
/// Events without open holds that are looked at in one round, in turn: with few of them that is all of them.
const MAX_QUIET_PER_ROUND: usize = 24;
/// Rounds without a pause while there is more to read; then the beat and the other events have their turn.
const MAX_ROUNDS_AT_ONCE: usize = 16;
/// Answers are kept for ten minutes; what is older than this has been forgotten by Redis too.
const ANSWERS_KEPT_S: u64 = 1_200;
/// How often old answers are removed.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);
/// Longest last round of a node that stops.
const LAST_ROUND_WITHIN: Duration = Duration::from_secs(5);

/// Follows every event of the node until it stops; then once more, so that a clean stop loses nothing.
pub(super) async fn run(app: &App) {
    let mut journal = Journal {
        app,
        writer: app.node.uuid(),
        positions: HashMap::new(),
        copies: HashMap::new(),
        others: HashSet::new(),
        beaten: None,
        forgotten: Instant::now(),
        turn: 0,
    };
    let stopping = app.shutdown.reached(Phase::Stopping);
    tokio::pin!(stopping);
    loop {
        let pause = match journal.rounds().await {
            Ok(()) => TICK,
            Err(error) => {
                tracing::warn!(error = %format!("{error:#}"), "the journal of holds waits");
                FAILED_PAUSE
            }
        };
        tokio::select! {
            () = &mut stopping => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    let until = Instant::now() + LAST_ROUND_WITHIN;
    let last = async {
        while journal.round(true).await? && Instant::now() < until {}
        anyhow::Ok(hold_journal::leave(app.store.pool(), journal.writer).await?)
    };
    if let Err(error) = last.await {
        tracing::warn!(error = %format!("{error:#}"), "the journal of holds was not finished");
    }
}

struct Journal<'a> {
    app: &'a App,
    /// This run of this node.
    writer: Uuid,
    /// Where each event stands that this node writes.
    positions: HashMap<EventId, JournalPosition>,
    /// Copies under way: where to go on, and the newest change when they began.
    copies: HashMap<EventId, (CopyCursor, StreamPosition)>,
    /// Events another node writes, or that were never opened, until the next beat.
    others: HashSet<EventId>,
    beaten: Option<Instant>,
    forgotten: Instant,
    /// Whose turn it is among the quiet events.
    turn: usize,
}

/// What one event has to be written.
struct Read {
    to: JournalPosition,
    records: Vec<JournalRecord>,
    answers: Vec<JournalAnswer>,
    is_full: bool,
}

impl Journal<'_> {
    async fn rounds(&mut self) -> anyhow::Result<()> {
        for _ in 0..MAX_ROUNDS_AT_ONCE {
            self.beat().await?;
            if !self.round(false).await? {
                break;
            }
        }
        Ok(())
    }

    async fn beat(&mut self) -> anyhow::Result<()> {
        let touched = self.app.inventory.touched_events();
        let is_due = self.beaten.is_none_or(|beaten| beaten.elapsed() >= BEAT_INTERVAL);
        if is_due {
            self.others.clear();
        }
        let is_new = |event: &EventId| !self.positions.contains_key(event) && !self.others.contains(event);
        let new: Vec<EventId> = touched.iter().map(|(event, _)| event.id).filter(is_new).collect();
        if new.is_empty() && !is_due {
            return Ok(());
        }
        let pool = self.app.store.pool();
        if !touched.is_empty() {
            hold_journal::beat(pool, self.writer, ALIVE_FOR_MS).await?;
        }
        self.beaten = Some(Instant::now());
        if !new.is_empty() {
            self.others.extend(&new);
            let mut transaction = crate::store::begin(pool).await?;
            let taken = hold_journal::take(&mut transaction, self.writer, &new, ALIVE_FOR_MS, WRITES_WITHIN_MS).await?;
            transaction.commit().await?;
            self.positions.extend(taken.into_iter().map(|at| (at.event, at)));
        }
        if self.forgotten.elapsed() >= FORGET_INTERVAL {
            self.forgotten = Instant::now();
            hold_journal::forget_answers(pool, ANSWERS_KEPT_S).await?;
        }
        Ok(())
    }

    /// Reads what is new of the events of this node and writes it; whether there is more.
    async fn round(&mut self, is_last: bool) -> anyhow::Result<bool> {
        let mut events = Vec::new();
        let mut quiet = Vec::new();
        for (event, may_have_holds) in self.app.inventory.touched_events() {
            if self.positions.contains_key(&event.id) {
                if may_have_holds || is_last { &mut events } else { &mut quiet }.push(event);
            }
        }
        if !quiet.is_empty() {
            let n = quiet.len();
            events.extend((0..n.min(MAX_QUIET_PER_ROUND)).map(|i| Arc::clone(&quiet[(self.turn + i) % n])));
            self.turn = (self.turn + MAX_QUIET_PER_ROUND) % n;
        }
        let mut is_full = false;
        for group in events.chunks(MAX_EVENTS_AT_ONCE) {
            let reads = join_all(group.iter().map(|event| self.read(event))).await;
            let mut found = Vec::new();
            for (event, read) in group.iter().zip(reads) {
                match read {
                    Ok(Some(read)) => found.push(read),
                    Ok(None) => {}
                    // Redis is down or the event closed: others go on.
                    Err(error) => tracing::debug!(event = %event.id, %error, "not journalled now"),
                }
            }
            is_full |= self.write(found).await?;
            for event in group {
                if self.positions.get(&event.id).is_some_and(|at| !at.is_whole) {
                    is_full |= self.copy(event).await?;
                }
            }
        }
        Ok(is_full)
    }

    /// What is new of one event; `None` when nothing is, or when it must be copied first.
    async fn read(&self, event: &Arc<EventFacts>) -> Result<Option<Read>, InventoryError> {
        let Some(at) = self.positions.get(&event.id).filter(|at| at.is_whole) else { return Ok(None) };
        let from = StreamPosition { seq: at.seq, step: at.step };
        Ok(match self.app.inventory.journal_changes(event, at.epoch, from).await? {
            Changes::Gone => Some(Read {
                to: JournalPosition { is_whole: false, ..*at },
                records: Vec::new(),
                answers: Vec::new(),
                is_full: true,
            }),
            Changes::Found { to, .. } if to == from => None,
            Changes::Found { records, answers, to, is_full } => {
                let to = JournalPosition { seq: to.seq, step: to.step, ..*at };
                Some(Read { to, records, answers, is_full })
            }
        })
    }

    async fn write(&mut self, reads: Vec<Read>) -> anyhow::Result<bool> {
        if reads.is_empty() {
            return Ok(false);
        }
        let is_full = reads.iter().any(|read| read.is_full);
        let to: Vec<JournalPosition> = reads.iter().map(|read| read.to).collect();
        let (mut records, mut answers) = (Vec::new(), HashMap::new());
        for read in reads {
            records.extend(read.records);
            // The same key may have been put aside twice; the later answer counts.
            answers.extend(
                read.answers.into_iter().map(|answer| ((answer.event, answer.identity, answer.key.clone()), answer)),
            );
        }
        let answers: Vec<JournalAnswer> = answers.into_values().collect();
        let written = self.write_all(&to, &records, &answers).await?;
        self.app.metrics.journal_records.inc_by(records.len() as u64);
        for to in to {
            if written.contains(&to.event) {
                self.positions.insert(to.event, to);
            } else {
                // Another life began or another node took over: asked again at once.
                self.lose(to.event);
            }
        }
        Ok(is_full)
    }

    /// Writes records and answers; where organisers want to hear of holds, what they mean stands in the log with them.
    async fn write_all(
        &self,
        to: &[JournalPosition],
        records: &[JournalRecord],
        answers: &[JournalAnswer],
    ) -> anyhow::Result<Vec<EventId>> {
        let pool = self.app.store.pool();
        let to: Vec<_> = to.iter().map(|at| (*at, self.app.inventory.event_ms(at.event))).collect();
        if !self.app.config.notice.tells_holds {
            return Ok(hold_journal::write(pool, self.writer, &to, records, answers).await?);
        }
        let mut transaction = store::begin(pool).await?;
        let before = hold_journal::before(&mut *transaction, records).await?;
        let written = hold_journal::write(&mut *transaction, self.writer, &to, records, answers).await?;
        let now_ms = self.app.clock.now_ms();
        for (event, rows) in tell::changes(&before, records) {
            if written.contains(&event) {
                event_log::insert_all(&mut *transaction, event, &rows, now_ms).await?;
            }
        }
        transaction.commit().await?;
        Ok(written)
    }

    fn lose(&mut self, event: EventId) {
        self.positions.remove(&event);
        self.copies.remove(&event);
        self.beaten = None;
    }

    /// One step of a copy; whether there is more.
    async fn copy(&mut self, event: &Arc<EventFacts>) -> anyhow::Result<bool> {
        let Some(at) = self.positions.get(&event.id).copied() else { return Ok(false) };
        let pool = self.app.store.pool();
        if !self.copies.contains_key(&event.id) {
            let Some(copy_n) = hold_journal::begin_copy(pool, self.writer, event.id, at.epoch).await? else {
                self.lose(event.id);
                return Ok(true);
            };
            self.positions.insert(event.id, JournalPosition { copy_n, ..at });
        }
        let Some(at) = self.positions.get(&event.id).copied() else { return Ok(false) };
        let cursor = self.copies.get(&event.id).map_or_else(CopyCursor::default, |(cursor, _)| cursor.clone());
        let copied = match self.app.inventory.journal_copy(event, &cursor).await {
            Ok(copied) => copied,
            Err(error) => {
                tracing::debug!(event = %event.id, %error, "not copied now");
                return Ok(false);
            }
        };
        if copied.epoch != at.epoch {
            self.lose(event.id);
            return Ok(true);
        }
        let began = self.copies.get(&event.id).map_or(copied.newest, |(_, began)| *began);
        let written = self.write_all(&[at], &copied.records, &copied.answers).await?;
        self.app.metrics.journal_records.inc_by(copied.records.len() as u64);
        if written.is_empty() {
            self.lose(event.id);
        } else if let Some(next) = copied.next {
            self.copies.insert(event.id, (next, began));
        } else {
            self.copies.remove(&event.id);
            let at = JournalPosition { seq: began.seq, step: began.step, is_whole: true, ..at };
            if hold_journal::finish_copy(pool, self.writer, &at).await? {
                self.app.metrics.journal_copies.inc();
                self.positions.insert(event.id, at);
            } else {
                self.lose(event.id);
            }
        }
        Ok(true)
    }
}
