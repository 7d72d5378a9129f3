//! Typed ids: a prefix that names the kind and 26 characters of a UUIDv7 (TypeID spelling).
//! Ids are parsed here, before any key, SQL or log line is built from them; nothing else accepts a bare string.
//! The registry of prefixes is the list at the end of this file.

use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Crockford's base 32 in lower case, as the TypeID specification orders it.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of the suffix: 130 bits hold the 128 of a UUID, so the first character is at most `7`.
const SUFFIX_LEN: usize = 26;

/// Why a string is not an id of the kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an id that starts with {prefix}_ and has 26 base32 characters")]
pub struct IdError {
    /// The prefix that was expected, without the underscore.
    pub prefix: &'static str,
}

fn encode(prefix: &str, uuid: Uuid, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let value = uuid.as_u128();
    let mut suffix = [0u8; SUFFIX_LEN];
    for (i, slot) in suffix.iter_mut().enumerate() {
        let shift = 5 * (SUFFIX_LEN - 1 - i);
        *slot = ALPHABET[((value >> shift) & 31) as usize];
    }
    let suffix = std::str::from_utf8(&suffix).expect("the alphabet is ASCII");
    write!(f, "{prefix}_{suffix}")
}

fn decode(prefix: &'static str, text: &str) -> Result<Uuid, IdError> {
    let bad = IdError { prefix };
    let suffix = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or(bad)?;
    if suffix.len() != SUFFIX_LEN || suffix.as_bytes()[0] > b'7' {
        return Err(bad);
    }
    let mut value: u128 = 0;
    for byte in suffix.bytes() {
        let digit = ALPHABET.iter().position(|&a| a == byte).ok_or(bad)?;
        value = (value << 5) | digit as u128;
    }
    Ok(Uuid::from_u128(value))
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix of this kind, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A new id, ordered by the time of its making.
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id over these 128 bits.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The 128 bits, as a database column or a packed key holds them.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode(Self::PREFIX, self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                decode(Self::PREFIX, text).map(Self)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

typed_ids! {
    /// One performance on sale.
    EventId = "evt";
    /// A place.
    VenueId = "ven";
    /// One identity's open basket in one event.
    HoldId = "hld";
    /// What is paid, or is to be.
    OrderId = "ord";
    /// The right to enter.
    TicketId = "tkt";
    /// Who the limit counts.
    IdentityId = "idn";
    /// Seats kept for a channel.
    AllocationId = "alc";
    /// Who plays.
    PerformerId = "prf";
    /// One socket.
    SessionId = "ses";
    /// One server process.
    NodeId = "nod";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        let id = EventId::generate();
        let text = id.to_string();
        assert_eq!(text.len(), 4 + SUFFIX_LEN);
        assert_eq!(text.parse::<EventId>(), Ok(id));
    }

    #[test]
    fn the_spelling_is_that_of_the_typeid_specification() {
        let uuid = Uuid::parse_str("01890a5d-ac96-774b-bcce-b302099a8057").expect("a literal");
        assert_eq!(EventId::from_uuid(uuid).to_string(), "evt_01h455vb4pex5vsknk084sn02q");
    }

    #[test]
    fn other_kinds_other_lengths_and_other_letters_are_refused() {
        let hold = HoldId::generate().to_string();
        assert!(hold.parse::<EventId>().is_err());
        for bad in [
            "",
            "evt",
            "evt_",
            "evt_01h455vb4pex5vsknk084sn02",
            "evt_01h455vb4pex5vsknk084sn02Q",
            "evt_81h455vb4pex5vsknk084sn02q",
            "evt_01h455vb4pex5vsknk084sn0\0q",
            "evt_{1h455vb4pex5vsknk084sn02q",
        ] {
            assert!(bad.parse::<EventId>().is_err(), "{bad:?}");
        }
    }
}
