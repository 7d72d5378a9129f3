//! Foreign layout JSON: what is accepted is stored and read back the same, under the same hash.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seatwire_proto::layout::Layout;

fuzz_target!(|input: &[u8]| {
    if let Ok(layout) = Layout::from_json(input) {
        let stored = layout.stored_json();
        assert_eq!(Layout::from_json(&stored).as_ref(), Ok(&layout));
        assert_eq!(Layout::from_json(&Layout::served_json(&stored)).map(|layout| layout.hash()), Ok(layout.hash()));
    }
});
