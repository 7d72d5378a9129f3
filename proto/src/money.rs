//! Money: whole minor units, never floating point. One currency (ISO 4217) an event.

use serde::{Deserialize, Serialize};

/// The largest amount on the wire: integers stay below 2^53 so that every client can hold them.
pub const MAX_MINOR: i64 = (1 << 53) - 1;

/// A three-letter ISO 4217 code in capitals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency([u8; 3]);

/// The text is not a currency code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected three capital letters such as EUR")]
pub struct CurrencyError;

impl Currency {
    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("only capital letters are let in")
    }
}

impl std::str::FromStr for Currency {
    type Err = CurrencyError;
    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        match text.as_bytes() {
            &[a, b, c] if [a, b, c].iter().all(u8::is_ascii_uppercase) => Ok(Self([a, b, c])),
            _ => Err(CurrencyError),
        }
    }
}

impl std::fmt::Display for Currency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Digits behind the point of an amount: how many of its minor units make a major one, as a power of ten (ISO 4217, with
/// the ariary counted whole as payment providers do). Whoever writes or reads an amount in major units comes here.
#[must_use]
pub fn digits(currency: &str) -> u32 {
    match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "MGA" | "PYG" | "RWF" | "UGX" | "UYI"
        | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    }
}

/// Sum of `quantity x (price + fee)`; `None` when it would pass [`MAX_MINOR`] or a part is negative.
#[must_use]
pub fn total_minor(lines: impl IntoIterator<Item = (u32, i64, i64)>) -> Option<i64> {
    lines.into_iter().try_fold(0i64, |sum, (quantity, price, fee)| {
        if price < 0 || fee < 0 {
            return None;
        }
        let line = price.checked_add(fee)?.checked_mul(i64::from(quantity))?;
        sum.checked_add(line).filter(|&total| total <= MAX_MINOR)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_quantity_times_price_and_fee() {
        assert_eq!(total_minor([(1, 4500, 250), (3, 1000, 0)]), Some(7750));
    }

    #[test]
    fn a_total_refuses_overflow_and_negative_parts() {
        assert_eq!(total_minor([(2, MAX_MINOR, 0)]), None);
        assert_eq!(total_minor([(u32::MAX, i64::MAX, 1)]), None);
        assert_eq!(total_minor([(1, -1, 0)]), None);
    }

    #[test]
    fn a_currency_has_its_own_smallest_unit() {
        for (currency, wanted) in [("EUR", 2), ("HUF", 2), ("JPY", 0), ("KRW", 0), ("ISK", 0), ("KWD", 3), ("TND", 3)] {
            assert_eq!(digits(currency), wanted, "{currency}");
        }
    }

    #[test]
    fn a_currency_is_three_capitals() {
        assert!("EUR".parse::<Currency>().is_ok());
        for bad in ["", "eur", "EURO", "E1R"] {
            assert!(bad.parse::<Currency>().is_err(), "{bad}");
        }
    }
}
