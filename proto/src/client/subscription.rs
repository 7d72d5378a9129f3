//! Commands about the map of an event: begin, end, and find the way back after a gap.
//! What they are answered with is in `server/session.rs`; the frames that follow are in `frame`.

use crate::id::EventId;
use serde::{Deserialize, Serialize};

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum From {
    /// With a whole map.
    #[default]
    Snapshot,
    /// With whatever comes next.
    Live,
    /// Behind this position.
    Position {
        /// Life of the inventory.
        epoch: u32,
        /// Counter within it.
        seq: u64,
    },
}

impl Serialize for From {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            From::Snapshot => serializer.serialize_str("snapshot"),
            From::Live => serializer.serialize_str("live"),
            From::Position { epoch, seq } => Position { epoch: *epoch, seq: *seq }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for From {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Word(String),
            Position(Position),
        }
        match Wire::deserialize(deserializer) {
            Ok(Wire::Word(word)) if word == "snapshot" => Ok(From::Snapshot),
            Ok(Wire::Word(word)) if word == "live" => Ok(From::Live),
            Ok(Wire::Position(Position { epoch, seq })) => Ok(From::Position { epoch, seq }),
            _ => Err(serde::de::Error::custom("expected \"snapshot\", \"live\" or {epoch,seq}")),
        }
    }
}

/// A place in the life of an event's map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Life of the inventory, from 1.
    pub epoch: u32,
    /// Counter within it.
    pub seq: u64,
}

/// Asks for an event's map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribe {
    /// Which event.
    pub event: EventId,
    /// Where to begin.
    #[serde(default)]
    pub from: From,
    /// Replaces hello's list for this event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepts: Option<Vec<String>>,
}

/// Ends a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsubscribe {
    /// The number the subscription was answered with.
    pub channel: u32,
}

/// The client lost its place; frames without a hole follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resync {
    /// The subscription.
    pub channel: u32,
    /// Last epoch applied.
    pub epoch: u32,
    /// Last change applied; 0 asks for a snapshot.
    pub seq: u64,
}
