//! A network of addresses, e.g. `10.0.0.0/8`; a single address is one of full length.

use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPrefix {
    address: IpAddr,
    bits: u8,
}

/// The text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an address or a network such as 10.0.0.0/8")]
pub struct PrefixError;

impl AddressPrefix {
    /// Whether the address belongs to it; an IPv4 address in IPv6 clothes counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u32::from(own).checked_shr(32 - u32::from(self.bits))
                    == u32::from(other).checked_shr(32 - u32::from(self.bits))
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                u128::from(own).checked_shr(128 - u32::from(self.bits))
                    == u128::from(other).checked_shr(128 - u32::from(self.bits))
            }
            _ => false,
        }
    }
}

impl FromStr for AddressPrefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| PrefixError)?)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| PrefixError)?.to_canonical();
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(longest);
        if bits > longest {
            return Err(PrefixError);
        }
        Ok(Self { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_its_addresses_and_no_others() {
        let contains = |network: &str, address: &str| {
            network.parse::<AddressPrefix>().expect("a network").contains(address.parse().expect("an address"))
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("192.0.2.7", "::ffff:192.0.2.7"));
        assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:9::1") && !contains("2001:db8::/32", "2001:db9::1"));
        assert!(contains("::1", "::1") && !contains("::1", "::2"));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "example.org", "10.0.0.0/-1"] {
            assert!(bad.parse::<AddressPrefix>().is_err(), "{bad}");
        }
    }
}
