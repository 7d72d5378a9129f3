//! Foreign compact layouts: what decodes is valid, and survives being written and read again.
//! With a first byte that is odd, the rest is the inflated form, put into stored deflate blocks here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seatwire_proto::layout_compact::{decode, encode};

/// Encoding tries many curves; larger plans would spend all of the time there.
const MAX_SEATS_ENCODED: u32 = 500;

fuzz_target!(|input: &[u8]| {
    let Some((shape, rest)) = input.split_first() else { return };
    let bytes = if shape & 1 == 1 { stored(rest) } else { rest.to_vec() };
    if let Ok(layout) = decode(&bytes) {
        assert_eq!(layout.validate(), Ok(()));
        if layout.seat_count <= MAX_SEATS_ENCODED {
            assert_eq!(decode(&encode(&layout)).as_ref(), Ok(&layout));
        }
    }
});

fn stored(inflated: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'S', b'L', 1, 0];
    bytes.extend_from_slice(&(inflated.len() as u32).to_le_bytes());
    let mut blocks = inflated.chunks(0xffff).peekable();
    if blocks.peek().is_none() {
        bytes.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        bytes.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&(!length).to_le_bytes());
        bytes.extend_from_slice(block);
    }
    bytes
}
