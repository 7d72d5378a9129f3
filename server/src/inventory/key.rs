//! Names: every Redis key of an event, and hold ids that say which event they belong to.
//! All keys of an event share the hash tag `{evt_..}`, so they live in one slot and a script may touch them together; the
//! epoch stands in each of them, so a late command of an old life finds nothing.

use seatwire_proto::id::{EventId, HoldId};
use uuid::Uuid;

/// Bits of an event's short number inside a hold id.
const NUMBER_BITS: u32 = 28;

/// Keys of one life of an event. Letters, because each is repeated in memory and on the wire:
/// `m` meta (string, record.rs), `s` owner word of each seat (4 bytes), `a` what is left of each area (4 bytes, signed),
/// `k` seats kept back (1 byte each: 0 open, 1 blocked, 2 and up an allocation; absent when there are none),
/// `p` records of identities (hash), `n` number -> identity, end, status (24 bytes), `o` orders settled here (hash),
/// `x<quarter second>` numbers of holds that end then, `f<minute>` identities to forget, `r<five minutes>` older answers,
/// `w` seats kept for the waitlist (sorted by when they were freed), `v` places kept for it of each area (4 bytes), `z` places each area has (4 bytes),
/// `g<minute>` wrong codes of identities, `c` changes (capped stream). But for `g` none has a time to live: the sweeper ends
/// them by the event's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) event: EventId,
    pub(super) epoch: u32,
}

impl Life {
    pub(super) fn key(self, name: &str) -> String {
        format!("{{{}}}:{}:{name}", self.event, self.epoch)
    }
}

/// The newest epoch a rebuild has begun, so that one that was overtaken stays closed.
pub(super) fn newest_epoch_key(event: EventId) -> String {
    format!("{{{event}}}:epoch")
}

/// Where an event's changes are published; the payload is a [`FeedMessage`](super::feed_message::FeedMessage).
#[must_use]
pub fn feed_channel(event: EventId) -> String {
    format!("{{{event}}}:feed")
}

/// A hold id of this event: a UUIDv7 whose first 28 random bits are the event's short number.
///
/// # Panics
/// Never for numbers below 2^28, the most the catalogue gives out.
#[must_use]
pub fn compose_hold_id(now_ms: u64, event_number: u32, random: u64) -> HoldId {
    debug_assert!(event_number < 1 << NUMBER_BITS, "event numbers have 28 bits");
    let number = u128::from(event_number);
    let bits = (u128::from(now_ms) & 0xffff_ffff_ffff) << 80
        | 0x7 << 76
        | (number >> 16 & 0xfff) << 64
        | 0b10 << 62
        | (number & 0xffff) << 46
        | u128::from(random) & 0x3fff_ffff_ffff;
    HoldId::from_uuid(Uuid::from_u128(bits))
}

/// The short number of the event a hold belongs to.
#[must_use]
pub fn event_number_of(hold: HoldId) -> u32 {
    let bits = hold.uuid().as_u128();
    ((bits >> 64 & 0xfff) << 16 | bits >> 46 & 0xffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_id_carries_its_event() {
        for number in [0, 1, 0xabcd, (1 << NUMBER_BITS) - 1] {
            let id = compose_hold_id(1_790_000_000_123, number, u64::MAX);
            assert_eq!(event_number_of(id), number);
            assert_eq!(id.uuid().get_version_num(), 7);
            assert_eq!(id.uuid().get_timestamp().map(|t| t.to_unix().0), Some(1_790_000_000));
        }
    }

    #[test]
    fn the_feed_channel_has_the_length_the_scripts_cut_by() {
        let event = EventId::generate();
        let meta = Life { event, epoch: 17 }.key("m");
        assert_eq!(format!("{}feed", &meta[..33]), feed_channel(event));
    }
}
