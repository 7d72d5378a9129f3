//! Foreign text messages: a command that is read can be written and read again, as the same command.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seatwire_proto::client::{decode, encode};

fuzz_target!(|input: &[u8]| {
    if let Ok(message) = decode(input) {
        let _ = message.command.validate();
        let text = encode(&message).expect("plain data");
        let again = decode(text.as_bytes()).expect("our own text");
        assert_eq!(again.command.fingerprint(), message.command.fingerprint());
        assert_eq!((again.id, again.key), (message.id, message.key));
    }
});
