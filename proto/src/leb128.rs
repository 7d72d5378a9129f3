//! Unsigned LEB128 as frames and compact layouts use it: 32 bits, minimal, at most 5 bytes.
//! One number has one spelling, so a longer one is damage and is refused.

/// Longest encoding of a `u32`.
const MAX_BYTES: usize = 5;

/// Appends `value`.
pub(crate) fn write(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes `write` appends for `value`.
pub(crate) const fn len(value: u32) -> u32 {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Takes one number off the front of `input`; `None` if it is cut short, not minimal or above 32 bits.
pub(crate) fn read(input: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u64;
    for at in 0..MAX_BYTES {
        let byte = *input.get(at)?;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            if byte == 0 && at > 0 {
                return None;
            }
            *input = &input[at + 1..];
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_at_every_length() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455, 268_435_456, u32::MAX] {
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            assert_eq!(bytes.len(), len(value) as usize);
            bytes.push(9);
            let mut input = &bytes[..];
            assert_eq!(read(&mut input), Some(value));
            assert_eq!(input, [9]);
        }
    }

    #[test]
    fn long_spellings_overflow_and_cut_numbers_are_refused() {
        for bytes in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0x80; 6], &[0x80], &[]] {
            assert_eq!(read(&mut &bytes[..]), None, "{bytes:?}");
        }
    }
}
