//! Seats as numbers: dense indices inside one layout, and the four states everyone may see.
//! Index kinds never mix: a seat, an area and a section are counted apart.

use serde::{Deserialize, Serialize};

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a position in a slice.
            #[must_use]
            pub const fn position(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

indices! {
    /// `0..seat_count` in the event's layout.
    SeatIndex;
    /// `0..area_count` in the event's layout.
    AreaIndex;
    /// A section's place in the layout's list of sections.
    SectionIndex;
}

/// What everyone may know of a seat. The numbers are those of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum SeatState {
    /// Free to hold.
    #[default]
    Available = 0,
    /// In somebody's basket, or being paid for.
    Held = 1,
    /// Paid.
    Sold = 2,
    /// Not for sale through this channel.
    Blocked = 3,
}

impl SeatState {
    /// The state with this number on the wire.
    #[must_use]
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Available),
            1 => Some(Self::Held),
            2 => Some(Self::Sold),
            3 => Some(Self::Blocked),
            _ => None,
        }
    }
}
