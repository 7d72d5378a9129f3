//! What the journal reads: the stream of changes from where it stopped, or, when some of that is gone, every record. Both
//! by scripts of the event's life, so nothing is taken from a Redis that may be behind. `job/journal_holds` writes it.

use super::call::{Head, call_with};
use super::record::{IdentityRecord, decode_hold};
use super::script::Verb;
use super::{HoldRecord, Inner, Inventory, InventoryError};
use crate::catalogue::EventFacts;
use crate::store::hold_journal::{JournalAnswer, JournalRecord};
use fred::types::Value;
use seatwire_proto::id::IdentityId;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Entries of the stream read at once: about 200 KB, a millisecond of Redis. Whoever is farther behind asks again.
pub(super) const MAX_ENTRIES: u32 = 1_024;
/// Records copied at once.
const MAX_COPIED: u32 = 500;

/// A place in the stream of changes: an entry is named `seq-step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct StreamPosition {
    /// Seq of the map.
    pub seq: u64,
    /// Counts the entries of one seq.
    pub step: u64,
}

impl StreamPosition {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (seq, step) = std::str::from_utf8(bytes).ok()?.split_once('-')?;
        Some(Self { seq: seq.parse().ok()?, step: step.parse().ok()? })
    }
}

impl std::fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.seq, self.step)
    }
}

/// The hold in a record, if it is not over: a locked one never is by itself.
fn hold_of(identity: IdentityId, record: &[u8], now_ms: u64) -> Result<Option<HoldRecord>, InventoryError> {
    let hold = decode_hold(identity, &IdentityRecord::decode(record)?.hold)?;
    Ok(hold.filter(|hold| hold.locked_by.is_some() || hold.expires_ms > now_ms))
}

/// What came behind a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// Of this life, without a hole.
    Found {
        /// The newest record of each identity that changed.
        records: Vec<JournalRecord>,
        /// Answers that found no room in a record.
        answers: Vec<JournalAnswer>,
        /// The last entry read.
        to: StreamPosition,
        /// There may be more.
        is_full: bool,
    },
    /// Some of it is gone, or the event lives another life: copy everything.
    Gone,
}

/// How far a copy has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyCursor {
    part: usize,
    within: String,
}

impl Default for CopyCursor {
    /// The beginning.
    fn default() -> Self {
        Self { part: 0, within: "0".into() }
    }
}

/// What a copy reads: the records, then the buckets of answers that are still asked for.
const COPIED_PARTS: [&str; 4] = ["p", "0", "1", "2"];

/// Some records of a life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The life they are of.
    pub epoch: u32,
    /// The records.
    pub records: Vec<JournalRecord>,
    /// Answers that found no room in a record.
    pub answers: Vec<JournalAnswer>,
    /// Where to go on; `None`: that was all.
    pub next: Option<CopyCursor>,
    /// The newest change when these were read.
    pub newest: StreamPosition,
}

impl Inventory {
    /// The hold in a record of the journal, its time over or not.
    ///
    /// # Errors
    /// `Malformed` for bytes that are no record.
    pub fn any_journalled_hold(identity: IdentityId, record: &[u8]) -> Result<Option<HoldRecord>, InventoryError> {
        decode_hold(identity, &IdentityRecord::decode(record)?.hold)
    }

    /// The hold in a record of the journal, if its time is not over by the event's time: what was known a moment ago, while Redis is silent.
    ///
    /// # Errors
    /// `Malformed` for bytes that are no record.
    pub fn journalled_hold(
        identity: IdentityId,
        record: &[u8],
        event_ms: u64,
    ) -> Result<Option<HoldRecord>, InventoryError> {
        hold_of(identity, record, event_ms)
    }

    /// What the journal must still learn of this life, from a position in its stream on.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn journal_changes(
        &self,
        event: &Arc<EventFacts>,
        epoch: u32,
        from: StreamPosition,
    ) -> Result<Changes, InventoryError> {
        changes(&self.0, event, epoch, from).await
    }

    /// Some records of the event's life, for a journal that is not whole; from `cursor` on.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn journal_copy(&self, event: &Arc<EventFacts>, cursor: &CopyCursor) -> Result<Copied, InventoryError> {
        copy(&self.0, event, cursor).await
    }
}

fn nobody(event: &Arc<EventFacts>) -> Head<'_> {
    Head::without_key(event, IdentityId::from_uuid(Uuid::nil()))
}

async fn changes(
    inner: &Arc<Inner>,
    event: &Arc<EventFacts>,
    epoch: u32,
    from: StreamPosition,
) -> Result<Changes, InventoryError> {
    let most = [(MAX_ENTRIES + 1).to_string().into_bytes()];
    let head = nobody(event);
    let (current, reply) = call_with(inner, Verb::Changes, &head, from.to_string().as_bytes(), &most).await?;
    if current != epoch {
        return Ok(Changes::Gone);
    }
    let entries = reply.list(0);
    let mut to = from;
    let mut newest: HashMap<IdentityId, JournalRecord> = HashMap::with_capacity(entries.len());
    let mut answers = Vec::new();
    let mut is_joined = false;
    for entry in entries {
        let Value::Array(parts) = entry else { return Err(malformed("an entry")) };
        let [id, Value::Array(fields)] = &parts[..] else { return Err(malformed("an entry")) };
        let at = id.as_bytes().and_then(StreamPosition::parse).ok_or_else(|| malformed("the name of an entry"))?;
        if !is_joined {
            is_joined = true;
            // The entry known last is still there, or nothing was known and this is the first that ever was.
            let is_first = from == StreamPosition::default() && at.seq + at.step == 1;
            if at == from {
                continue;
            }
            if !is_first {
                return Ok(Changes::Gone);
            }
        }
        to = at;
        for pair in fields.chunks_exact(2) {
            let (Some(name), Some(bytes)) = (pair[0].as_bytes(), pair[1].as_bytes()) else {
                return Err(malformed("a field of an entry"));
            };
            match name.len() {
                IDENTITY_BYTES => {
                    let identity = identity_of(name);
                    newest.insert(identity, record(event, identity, at.seq, bytes)?);
                }
                SPILLED_BYTES => answers.push(answer(event, name, bytes)?),
                // The change of the map.
                _ => {}
            }
        }
    }
    // Nothing at all is there, but something was known: the stream was lost with its life still standing.
    if !is_joined && from != StreamPosition::default() {
        return Ok(Changes::Gone);
    }
    let is_full = entries.len() > MAX_ENTRIES as usize;
    Ok(Changes::Found { records: newest.into_values().collect(), answers, to, is_full })
}

async fn copy(inner: &Arc<Inner>, event: &Arc<EventFacts>, cursor: &CopyCursor) -> Result<Copied, InventoryError> {
    let part = COPIED_PARTS.get(cursor.part).copied().unwrap_or("p");
    let more = [MAX_COPIED.to_string().into(), part.into()];
    let (epoch, reply) = call_with(inner, Verb::Records, &nobody(event), cursor.within.as_bytes(), &more).await?;
    let within = String::from_utf8_lossy(reply.bytes(0)).into_owned();
    let newest = StreamPosition::parse(reply.bytes(1)).ok_or_else(|| malformed("the name of an entry"))?;
    let given_s = reply.int(3).max(0) as u64;
    // A scan may name a field twice.
    let (mut records, mut answers) = (HashMap::new(), HashMap::new());
    for pair in reply.list(2).chunks_exact(2) {
        let (Some(name), Some(bytes)) = (pair[0].as_bytes(), pair[1].as_bytes()) else {
            return Err(malformed("a record"));
        };
        if name.len() == IDENTITY_BYTES {
            let identity = identity_of(name);
            let record = record(event, identity, newest.seq, bytes)?;
            if record.record.is_some() {
                records.insert(identity, record);
            }
        } else if name.len() == SPILLED_BYTES {
            let (identity, key) = (identity_of(name), name[IDENTITY_BYTES..].to_vec());
            let answer = JournalAnswer { event: event.id, identity, key, answer: bytes.to_vec(), given_s };
            answers.insert(name.to_vec(), answer);
        }
    }
    let next = match &*within {
        "0" if cursor.part + 1 == COPIED_PARTS.len() => None,
        "0" => Some(CopyCursor { part: cursor.part + 1, ..CopyCursor::default() }),
        _ => Some(CopyCursor { part: cursor.part, within }),
    };
    let (records, answers) = (records.into_values().collect(), answers.into_values().collect());
    Ok(Copied { epoch, records, answers, next, newest })
}

const IDENTITY_BYTES: usize = 16;
const KEY_BYTES: usize = 8;
/// Identity and key.
const SPILLED_BYTES: usize = IDENTITY_BYTES + KEY_BYTES;

fn identity_of(bytes: &[u8]) -> IdentityId {
    let mut uuid = [0; IDENTITY_BYTES];
    uuid.copy_from_slice(&bytes[..IDENTITY_BYTES]);
    IdentityId::from_uuid(Uuid::from_bytes(uuid))
}

/// The row of a record; one without bytes removes the row.
fn record(event: &EventFacts, identity: IdentityId, seq: u64, bytes: &[u8]) -> Result<JournalRecord, InventoryError> {
    let known = match bytes {
        [] => None,
        bytes => Some(IdentityRecord::decode(bytes)?).filter(IdentityRecord::is_worth_keeping),
    };
    Ok(JournalRecord {
        event: event.id,
        identity,
        seq,
        has_hold: known.as_ref().is_some_and(|record| !record.hold.is_empty()),
        record: known.map(|_| bytes.to_vec()),
    })
}

fn answer(event: &EventFacts, name: &[u8], bytes: &[u8]) -> Result<JournalAnswer, InventoryError> {
    let (given, answer) = bytes.split_first_chunk().ok_or_else(|| malformed("an answer"))?;
    Ok(JournalAnswer {
        event: event.id,
        identity: identity_of(name),
        key: name[IDENTITY_BYTES..].to_vec(),
        answer: answer.to_vec(),
        given_s: u64::from(u32::from_le_bytes(*given)),
    })
}

fn malformed(what: &str) -> InventoryError {
    InventoryError::Malformed(format!("{what} cannot be read"))
}
