//! What every command must know of an event, in one immutable value shared by every room that needs prices, rules or
//! the shape of the place. Replaced whole when the organiser changes something; a command works on what it began with.

use roaring::RoaringBitmap;
use seatwire_proto::id::{AllocationId, EventId};
use seatwire_proto::money::Currency;
use seatwire_proto::seat::{AreaIndex, SeatIndex, SectionIndex};
use seatwire_proto::server::{EventState, OrphanRule, PriceTier, Rules, SalesMode};
use sha2::{Digest, Sha256};

/// Everything a command must know of an event before it touches a store.
#[derive(Debug, Clone)]
pub struct EventFacts {
    /// Its id.
    pub id: EventId,
    /// Its short number, which hold ids carry (see `inventory::key`).
    pub number: u32,
    /// Grows with every change the organiser makes.
    pub revision: u64,
    /// State set by the organiser or by time, when the facts were read. See [`EventFacts::state_at`].
    pub state: EventState,
    /// Why it is in this state, for people.
    pub state_reason: Option<String>,
    /// When holders of a presale code may buy; `None` = no presale.
    pub presale_ms: Option<u64>,
    /// When selling begins.
    pub on_sale_ms: u64,
    /// Of every amount.
    pub currency: Currency,
    /// Hash of the layout.
    pub layout: String,
    /// Priced classes, at most 256.
    pub price_tiers: Vec<PriceTier>,
    /// One byte a seat: index into `price_tiers`. Its length is the seat count.
    pub seat_tiers: Vec<u8>,
    /// Sections in layout order.
    pub sections: Vec<SectionFacts>,
    /// Areas in layout order.
    pub areas: Vec<AreaFacts>,
    /// Seats that are not for sale through the open channel.
    pub blocked: RoaringBitmap,
    /// Seats kept for those who have a code; closed ones included.
    pub allocations: Vec<AllocationFacts>,
    /// Limits and times.
    pub rules: Rules,
    /// Seats and places one payment instrument may pay for; `None` = no limit.
    pub seats_per_instrument: Option<u32>,
    /// Whether buyers must be admitted first.
    pub has_waiting_room: bool,
    /// Whether released seats go to a list once sold out.
    pub has_waitlist: bool,
    /// Name, description, performers, venue and start as one number, for comparing within this process: another one when one
    /// of them is another.
    pub page: u64,
}

/// A section's seats are consecutive indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionFacts {
    /// For people.
    pub name: String,
    /// Its first seat.
    pub first: SeatIndex,
    /// One past its last seat.
    pub end: SeatIndex,
    /// How it sells.
    pub sales_mode: SalesMode,
}

/// A general-admission area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaFacts {
    /// For people.
    pub name: String,
    /// Index into `price_tiers`.
    pub price_tier: u8,
    /// Places in all.
    pub capacity: u32,
}

/// Seats kept for a channel, opened by a presale code.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocationFacts {
    /// Its id.
    pub id: AllocationId,
    /// For people.
    pub name: String,
    /// Its bit, 0 to 30, never used again within the event.
    pub slot: u8,
    /// SHA-256 of the event's id and the code.
    pub code_hash: [u8; 32],
    /// Its seats.
    pub seats: RoaringBitmap,
    /// From when on the code opens it.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// Whether its seats are given back to everyone.
    pub is_closed: bool,
}

impl AllocationFacts {
    /// Whether its seats may be bought with the code at a moment.
    #[must_use]
    pub fn is_open_at(&self, now_ms: u64) -> bool {
        !self.is_closed && (self.from_ms..self.until_ms).contains(&now_ms)
    }
}

/// What is stored of a presale code: SHA-256 of the event's id and the code without surrounding blanks.
#[must_use]
pub fn code_hash(event: EventId, code: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(event.uuid().as_bytes());
    hash.update(code.trim());
    hash.finalize().into()
}

impl EventFacts {
    /// An event that sells, at these prices and with one index into them a seat; everything else is as plain as it gets.
    /// Tests and benches begin with it and say what they are about.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn on_sale(price_tiers: Vec<PriceTier>, seat_tiers: Vec<u8>) -> Self {
        Self {
            id: EventId::generate(),
            number: 1,
            revision: 1,
            state: EventState::OnSale,
            state_reason: None,
            presale_ms: None,
            on_sale_ms: 0,
            currency: "EUR".parse().expect("three capitals"),
            layout: String::new(),
            price_tiers,
            seat_tiers,
            sections: Vec::new(),
            areas: Vec::new(),
            blocked: RoaringBitmap::new(),
            allocations: Vec::new(),
            rules: Rules { seats_per_identity: 10, hold_ttl_ms: 600_000, orphans: OrphanRule::Off },
            seats_per_instrument: None,
            has_waiting_room: false,
            has_waitlist: false,
            page: 0,
        }
    }

    /// Seats in the layout.
    #[must_use]
    pub fn seat_count(&self) -> u32 {
        self.seat_tiers.len() as u32
    }

    /// Areas in the layout.
    #[must_use]
    pub fn area_count(&self) -> u32 {
        self.areas.len() as u32
    }

    /// The price tier of a seat; `None` for a seat the event does not have.
    #[must_use]
    pub fn seat_tier(&self, seat: SeatIndex) -> Option<(u8, &PriceTier)> {
        let tier = *self.seat_tiers.get(seat.position())?;
        Some((tier, self.price_tiers.get(usize::from(tier))?))
    }

    /// The price tier of an area.
    #[must_use]
    pub fn area_tier(&self, area: AreaIndex) -> Option<(u8, &PriceTier)> {
        let tier = self.areas.get(area.position())?.price_tier;
        Some((tier, self.price_tiers.get(usize::from(tier))?))
    }

    /// The state at a moment: what is scheduled goes on sale by itself, to the millisecond, and not before.
    #[must_use]
    pub const fn state_at(&self, now_ms: u64) -> EventState {
        effective_state(self.state, self.presale_ms, self.on_sale_ms, now_ms)
    }

    /// Orders facts of one event: a later revision is newer, and within one what time has opened.
    #[must_use]
    pub const fn rank(&self) -> u64 {
        let phase = match self.state {
            EventState::Scheduled => 0,
            EventState::Presale => 1,
            _ => 2,
        };
        self.revision << 2 | phase
    }

    /// Seats and places that could be sold at all through the open channel.
    #[must_use]
    pub fn saleable(&self) -> u32 {
        let places = self.areas.iter().fold(0_u32, |sum, area| sum.saturating_add(area.capacity));
        let open = self.allocations.iter().filter(|allocation| !allocation.is_closed);
        let kept = open.fold(self.blocked.clone(), |kept, allocation| kept | &allocation.seats);
        self.seat_count().saturating_sub(kept.len() as u32).saturating_add(places)
    }

    /// Mask of the allocations that may be bought from at a moment, by slot.
    #[must_use]
    pub fn open_allocations(&self, now_ms: u64) -> u32 {
        self.allocations
            .iter()
            .filter(|allocation| allocation.is_open_at(now_ms))
            .fold(0, |mask, allocation| mask | 1 << allocation.slot)
    }

    /// The section a seat stands in: sections are in the order of their seats.
    #[must_use]
    pub fn section_of(&self, seat: SeatIndex) -> Option<(SectionIndex, &SectionFacts)> {
        let after = self.sections.partition_point(|section| section.first <= seat);
        let index = after.checked_sub(1)?;
        let section = &self.sections[index];
        (seat < section.end).then_some((SectionIndex(index as u32), section))
    }
}

/// `scheduled`, `presale` and `on_sale` are one word of the organiser; the time decides which of them it is. An organiser
/// may also begin a presale by hand, where none has a time.
pub(super) const fn effective_state(
    state: EventState,
    presale_ms: Option<u64>,
    on_sale_ms: u64,
    now_ms: u64,
) -> EventState {
    match (state, presale_ms) {
        (EventState::Scheduled | EventState::Presale | EventState::OnSale, _) if now_ms >= on_sale_ms => {
            EventState::OnSale
        }
        (EventState::Presale, None) => EventState::Presale,
        (EventState::Scheduled | EventState::Presale | EventState::OnSale, Some(presale_ms))
            if now_ms >= presale_ms =>
        {
            EventState::Presale
        }
        (EventState::Scheduled | EventState::Presale | EventState::OnSale, _) => EventState::Scheduled,
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scheduled_goes_on_sale_by_itself_and_not_before() {
        use EventState::{OnSale, Paused, Presale, Scheduled, SoldOut};
        for (state, presale_ms, now_ms, wanted) in [
            (Scheduled, None, 99, Scheduled),
            (Scheduled, None, 100, OnSale),
            (OnSale, None, 99, Scheduled),
            (Paused, None, 200, Paused),
            (SoldOut, None, 200, SoldOut),
            (Scheduled, Some(50), 49, Scheduled),
            (Scheduled, Some(50), 50, Presale),
            (Scheduled, Some(50), 100, OnSale),
            (Presale, Some(50), 49, Scheduled),
            (Presale, None, 1, Presale),
            (Presale, None, 100, OnSale),
        ] {
            assert_eq!(effective_state(state, presale_ms, 100, now_ms), wanted, "{state:?} {presale_ms:?} {now_ms}");
        }
    }
}
