//! Tickets of an order: one a seat, one a place of an area, each with a code nobody can guess. `seal` signs what their QR
//! codes say, `pdf` puts them on paper, `door` admits them once and passes them on.

mod door;
pub(super) mod pdf;
mod place;
pub(super) mod seal;
mod wallet;

pub(super) use door::starts;
pub use door::{Admission, PassOn};

use crate::store::order::OrderRow;
use crate::store::ticket::NewTicket;
use hmac::{Hmac, KeyInit, Mac};
use seatwire_proto::id::TicketId;
use sha2::Sha256;

/// Letters of codes and references: no 0, 1, I, L, O, U, so that they survive handwriting and reading aloud.
const LETTERS: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 28 letters of 30 are 137 bits.
const CODE_LEN: usize = 28;
/// 8 letters of 30 are 39 bits: a name for people, not a secret.
const REFERENCE_LEN: usize = 8;
/// As long as a code; opens an order's page.
const SECRET_LEN: usize = 28;

fn letters(length: usize) -> String {
    // The thread's generator is seeded by the system and is a cryptographic one.
    (0..length).map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())])).collect()
}

/// A code as somebody typed it: in small letters, in groups.
fn typed(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-').collect::<String>().to_ascii_uppercase()
}

/// A new reference; the database refuses one that is in use.
pub(super) fn draw_reference() -> String {
    letters(REFERENCE_LEN)
}

/// A new secret for `pay_url`.
pub(super) fn draw_secret() -> String {
    letters(SECRET_LEN)
}

/// Whether a secret is the right one, in a time that does not depend on where the two differ.
pub(super) fn is_secret(right: &str, given: &str) -> bool {
    // Digests by a key of this call: what the comparison could tell of them tells nothing of the secret.
    let key: [u8; 32] = rand::random();
    let mac = |text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        mac
    };
    mac(right).verify(&mac(given).finalize().into_bytes()).is_ok()
}

/// The tickets of a sold order, with codes nobody had before.
pub(super) fn draw(row: &OrderRow) -> Vec<NewTicket> {
    row.lines
        .iter()
        .enumerate()
        .flat_map(|(line_n, line)| {
            (0..line.quantity).map(move |_| NewTicket {
                id: TicketId::generate(),
                line_n: line_n as u32,
                seat: line.seat,
                area: line.area,
                code: letters(CODE_LEN),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_opens_an_order() {
        let secret = draw_secret();
        assert!(is_secret(&secret, &secret));
        for wrong in ["", &secret[1..], &secret[..27], &secret.to_ascii_lowercase(), &draw_secret()] {
            assert!(!is_secret(&secret, wrong), "{wrong}");
        }
    }

    #[test]
    fn a_code_is_the_same_however_it_was_typed() {
        let code = letters(CODE_LEN);
        let spaced = format!(" {} {}-{}\n", &code[..4], &code[4..8], &code[8..]);
        for text in [code.clone(), code.to_ascii_lowercase(), spaced.to_ascii_lowercase()] {
            assert_eq!(typed(&text), code, "{text}");
        }
    }

    #[test]
    fn codes_are_long_plain_and_new_each_time() {
        let codes: std::collections::HashSet<String> = (0..1_000).map(|_| letters(CODE_LEN)).collect();
        assert_eq!(codes.len(), 1_000);
        assert!(codes.iter().all(|code| code.len() == CODE_LEN && !code.contains(['0', '1', 'O', 'I', 'L', 'U'])));
        assert!((LETTERS.len() as f64).log2() * CODE_LEN as f64 > 128.0);
        assert!((LETTERS.len() as f64).log2() * SECRET_LEN as f64 > 128.0);
    }
}
