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
/// Letters of every prefix.
const PREFIX_LEN: usize = 3;
/// No letter of the alphabet.
const NO_DIGIT: u8 = 255;
/// What each letter is worth.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

/// Why a string is not an id of the kind asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an id that starts with {prefix}_ and has 26 base32 characters")]
pub struct IdError {
    /// The prefix that was expected, without the underscore.
    pub prefix: &'static str,
}

/// An id as text. A hold writes and reads a dozen, so neither takes memory or the long way of formatting.
struct Text([u8; PREFIX_LEN + 1 + SUFFIX_LEN]);

impl Text {
    fn of(prefix: &str, uuid: Uuid) -> Self {
        let mut text = [b'_'; PREFIX_LEN + 1 + SUFFIX_LEN];
        text[..PREFIX_LEN].copy_from_slice(prefix.as_bytes());
        let mut rest = uuid.as_u128();
        for letter in text[PREFIX_LEN + 1..].iter_mut().rev() {
            *letter = ALPHABET[(rest & 31) as usize];
            rest >>= 5;
        }
        Self(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("prefixes and the alphabet are ASCII")
    }
}

fn decode(prefix: &'static str, text: &str) -> Result<Uuid, IdError> {
    let bad = IdError { prefix };
    let suffix = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or(bad)?;
    if suffix.len() != SUFFIX_LEN || suffix.as_bytes()[0] > b'7' {
        return Err(bad);
    }
    let mut value: u128 = 0;
    for byte in suffix.bytes() {
        let digit = DIGITS[usize::from(byte)];
        if digit == NO_DIGIT {
            return Err(bad);
        }
        value = (value << 5) | u128::from(digit);
    }
    Ok(Uuid::from_u128(value))
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        const _: () = assert!($prefix.len() == PREFIX_LEN, "every prefix has three letters");

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
                f.write_str(Text::of(Self::PREFIX, self.0).as_str())
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
                serializer.serialize_str(Text::of(Self::PREFIX, self.0).as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Read;
                impl serde::de::Visitor<'_> for Read {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("an id that starts with ", $prefix, "_"))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Read)
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
    fn an_id_is_read_from_json_wherever_the_text_lies() {
        let id = EventId::generate();
        let json = serde_json::to_string(&id).expect("text");
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<EventId>(&json).expect("reads"), id);
        assert_eq!(serde_json::from_value::<EventId>(json[1..31].into()).expect("reads"), id);
        assert_eq!(serde_json::from_str::<EventId>(&json.replacen('e', "\\u0065", 1)).expect("reads"), id);
        assert!(serde_json::from_str::<EventId>("7").is_err());
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
