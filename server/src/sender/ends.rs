//! Holds that their owners gave back at this node a moment ago. Redis carries the word of it to other nodes and keeps it for
//! the next life of the event; when it is lost at that moment, a node that answered for the hold before would take it for
//! lost with Redis. `Sender::hold_changed` comes in here, and after a loss `job/tell_restored` has them told once more.

use super::Change;
use bytes::Bytes;
use parking_lot::Mutex;
use seatwire_proto::id::IdentityId;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// As long as a node remembers what it answered (`inventory/told.rs`).
const KEEP: Duration = Duration::from_secs(8);
/// Ends kept, about 4 MB; of more the oldest go, whose word has long arrived.
const MAX_ENDS: usize = 20_000;

/// The ends of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Ends(Mutex<VecDeque<(Instant, End)>>);

/// Whose, what, and as it is told.
type End = (IdentityId, Change, Bytes);

impl Ends {
    pub(super) fn note(&self, identity: IdentityId, end: Change, frame: &Bytes) {
        let now = Instant::now();
        let mut ends = self.0.lock();
        while let Some((at, _)) = ends.front()
            && (ends.len() >= MAX_ENDS || now.saturating_duration_since(*at) >= KEEP)
        {
            ends.pop_front();
        }
        ends.push_back((now, (identity, end, frame.clone())));
    }

    /// Those that are not too old to matter.
    pub(super) fn recent(&self) -> Vec<End> {
        let now = Instant::now();
        let is_recent = |(at, _): &&(Instant, End)| now.saturating_duration_since(*at) < KEEP;
        self.0.lock().iter().filter(is_recent).map(|(_, end)| end.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatwire_proto::id::HoldId;

    #[test]
    fn the_newest_are_kept() {
        let ends = Ends::default();
        let identities: Vec<_> = (0..MAX_ENDS + 2).map(|_| IdentityId::generate()).collect();
        for &identity in &identities {
            ends.note(identity, Change::HoldEnd { hold: HoldId::generate(), at: None }, &Bytes::new());
        }
        let kept: Vec<_> = ends.recent().into_iter().map(|(identity, ..)| identity).collect();
        assert_eq!(kept, identities[2..]);
    }
}
