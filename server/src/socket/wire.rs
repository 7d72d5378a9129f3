//! WebSocket framing, both ways. In: bytes as they came, cut into messages and controls, every rule of RFC 6455 and our
//! own caps checked before anything is kept. Out: whole frames as shared bytes. No I/O here; `task` feeds it.

use bytes::Bytes;
use seatwire_proto::client::MAX_COMMAND_BYTES;
use seatwire_proto::code::CloseCode;
use std::io::Cursor;
use std::ops::ControlFlow;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode as WireCloseCode, Control, Data, OpCode};

/// Longest payload of a control frame (RFC 6455, 5.5).
const MAX_CONTROL_BYTES: u64 = 125;
const FIN_CLOSE: u8 = 0x88;
const FIN_PING: u8 = 0x89;
const FIN_PONG: u8 = 0x8a;

/// Something whole that came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inbound<'a> {
    /// A text message: valid UTF-8, at most `MAX_COMMAND_BYTES`.
    Text(&'a str),
    /// To be answered with the same bytes.
    Ping(&'a [u8]),
    /// Answers one of ours.
    Pong,
    /// The peer leaves; its code, if it named one.
    Close(Option<u16>),
}

/// What is kept of a message that has not come whole. Boxed by its owner and dropped as soon as it is empty, so that an
/// idle session has no buffer.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// An unfinished frame, header included: at most header + `MAX_COMMAND_BYTES`.
    frame: Vec<u8>,
    /// Finished fragments of an unfinished message, unmasked: at most `MAX_COMMAND_BYTES`.
    message: Vec<u8>,
    /// Whether the message has begun; it may begin with an empty fragment.
    is_fragmented: bool,
}

impl Assembly {
    fn is_empty(&self) -> bool {
        self.frame.is_empty() && !self.is_fragmented
    }
}

/// A frame's header, read.
struct Head {
    header: FrameHeader,
    /// Where the payload begins.
    payload_from: usize,
    /// Header and payload.
    total: usize,
}

impl Head {
    const fn is_control(&self) -> bool {
        matches!(self.header.opcode, OpCode::Control(_))
    }

    const fn is_continuation(&self) -> bool {
        matches!(self.header.opcode, OpCode::Data(Data::Continue))
    }

    /// Reads and checks the header at the front of `bytes`, before its payload has come; `None` while it is cut.
    fn read(bytes: &[u8], kept: Option<&Assembly>) -> Result<Option<Self>, CloseCode> {
        let mut cursor = Cursor::new(bytes);
        let Some((header, payload_bytes)) =
            FrameHeader::parse(&mut cursor).map_err(|_| CloseCode::ProtocolViolation)?
        else {
            return Ok(None);
        };
        let payload_from = usize::try_from(cursor.position()).expect("a header has at most 14 bytes");
        let mut head = Self { header, payload_from, total: payload_from };
        head.check(payload_bytes, kept)?;
        head.total += usize::try_from(payload_bytes).expect("bounded just above");
        Ok(Some(head))
    }

    fn check(&self, payload_bytes: u64, kept: Option<&Assembly>) -> Result<(), CloseCode> {
        let header = &self.header;
        if header.rsv1 || header.rsv2 || header.rsv3 || header.mask.is_none() {
            return Err(CloseCode::ProtocolViolation);
        }
        if self.is_control() {
            let fits = header.is_final && payload_bytes <= MAX_CONTROL_BYTES;
            return if fits { Ok(()) } else { Err(CloseCode::ProtocolViolation) };
        }
        if matches!(header.opcode, OpCode::Data(Data::Binary)) {
            return Err(CloseCode::Unsupported);
        }
        if self.is_continuation() != kept.is_some_and(|kept| kept.is_fragmented) {
            return Err(CloseCode::ProtocolViolation);
        }
        let message_bytes = kept.map_or(0, |kept| kept.message.len()) as u64;
        if payload_bytes > MAX_COMMAND_BYTES as u64 - message_bytes { Err(CloseCode::TooBig) } else { Ok(()) }
    }
}

/// Takes the bytes of one read, in place, and hands on what is whole, until `take` says stop. `assembly` carries what is
/// not whole to the next read.
///
/// # Errors
/// The close code of the first broken rule; the session is over then.
pub(super) fn receive(
    assembly: &mut Option<Box<Assembly>>,
    fresh: &mut [u8],
    mut take: impl FnMut(Inbound<'_>) -> ControlFlow<()>,
) -> Result<(), CloseCode> {
    let mut fresh = fresh;
    if let Some(kept) = assembly
        && !kept.frame.is_empty()
    {
        // Complete the one frame that was cut, then go on in place.
        loop {
            let head = Head::read(&kept.frame, Some(kept))?;
            let needed = head.map_or(kept.frame.len() + 1, |head| head.total);
            if kept.frame.len() == needed {
                break;
            }
            if fresh.is_empty() {
                return Ok(());
            }
            let (head, tail) = fresh.split_at_mut((needed - kept.frame.len()).min(fresh.len()));
            kept.frame.extend_from_slice(head);
            fresh = tail;
        }
        let mut frame = std::mem::take(&mut kept.frame);
        if kept.is_empty() {
            *assembly = None;
        }
        if take_frames(assembly, &mut frame, &mut take)?.is_break() {
            return Ok(());
        }
    }
    take_frames(assembly, fresh, &mut take).map(|_| ())
}

/// Hands on every whole frame in `bytes`; what is cut at the end goes into `assembly`.
fn take_frames(
    assembly: &mut Option<Box<Assembly>>,
    mut bytes: &mut [u8],
    take: &mut impl FnMut(Inbound<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, CloseCode> {
    while !bytes.is_empty() {
        match Head::read(bytes, assembly.as_deref())? {
            Some(head) if head.total <= bytes.len() => {
                let (frame, rest) = bytes.split_at_mut(head.total);
                bytes = rest;
                let payload = &mut frame[head.payload_from..];
                unmask(payload, head.header.mask.unwrap_or_default());
                if take_frame(assembly, &head.header, payload, take)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            _ => {
                assembly.get_or_insert_default().frame.extend_from_slice(bytes);
                break;
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn take_frame(
    assembly: &mut Option<Box<Assembly>>,
    header: &FrameHeader,
    payload: &[u8],
    take: &mut impl FnMut(Inbound<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, CloseCode> {
    match header.opcode {
        OpCode::Control(Control::Ping) => Ok(take(Inbound::Ping(payload))),
        OpCode::Control(Control::Pong) => Ok(take(Inbound::Pong)),
        OpCode::Control(Control::Close) => Ok(take(Inbound::Close(read_close(payload)?))),
        OpCode::Control(Control::Reserved(_)) => Err(CloseCode::ProtocolViolation),
        OpCode::Data(Data::Text) if header.is_final => {
            let text = std::str::from_utf8(payload).map_err(|_| CloseCode::BadUtf8)?;
            Ok(take(Inbound::Text(text)))
        }
        OpCode::Data(_) => {
            let kept = assembly.get_or_insert_default();
            kept.is_fragmented = true;
            kept.message.extend_from_slice(payload);
            if !header.is_final {
                return Ok(ControlFlow::Continue(()));
            }
            kept.is_fragmented = false;
            let message = std::mem::take(&mut kept.message);
            if kept.is_empty() {
                *assembly = None;
            }
            let text = std::str::from_utf8(&message).map_err(|_| CloseCode::BadUtf8)?;
            Ok(take(Inbound::Text(text)))
        }
    }
}

/// The code of a close frame; none is allowed, half a code is not.
fn read_close(payload: &[u8]) -> Result<Option<u16>, CloseCode> {
    match payload {
        [] => Ok(None),
        [_] => Err(CloseCode::ProtocolViolation),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            if !WireCloseCode::from(code).is_allowed() {
                return Err(CloseCode::ProtocolViolation);
            }
            std::str::from_utf8(reason).map_err(|_| CloseCode::BadUtf8)?;
            Ok(Some(code))
        }
    }
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let (words, rest) = payload.as_chunks_mut::<4>();
    let word_mask = u32::from_ne_bytes(mask);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ word_mask).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// A ping without payload, shared by all.
pub(super) const fn ping_frame() -> Bytes {
    Bytes::from_static(&[FIN_PING, 0])
}

/// The answer to a ping of at most 125 bytes.
pub(super) fn pong_frame(payload: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(2 + payload.len());
    frame.extend_from_slice(&[FIN_PONG, payload.len() as u8]);
    frame.extend_from_slice(payload);
    frame.into()
}

/// A close frame with a code and its name.
pub(super) fn close_frame(code: u16, reason: &str) -> Bytes {
    let mut frame = Vec::with_capacity(4 + reason.len());
    frame.extend_from_slice(&[FIN_CLOSE, (2 + reason.len()) as u8]);
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(reason.as_bytes());
    frame.into()
}

/// A close frame without a code, to answer one without.
pub(super) const fn empty_close_frame() -> Bytes {
    Bytes::from_static(&[FIN_CLOSE, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum Took {
        Text(String),
        Ping(Vec<u8>),
        Pong,
        Close(Option<u16>),
    }

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x11, 0x92, 0x33, 0xf4];
        let mut bytes = vec![first];
        if payload.len() <= 125 {
            bytes.push(0x80 | payload.len() as u8);
        } else {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        }
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// Feeds `bytes` in pieces of `piece`; what came out, and how it ended.
    fn feed(bytes: &[u8], piece: usize) -> (Vec<Took>, Result<(), CloseCode>, bool) {
        let mut assembly = None;
        let mut took = Vec::new();
        for chunk in bytes.chunks(piece) {
            let mut chunk = chunk.to_vec();
            let result = receive(&mut assembly, &mut chunk, |inbound| {
                took.push(match inbound {
                    Inbound::Text(text) => Took::Text(text.to_owned()),
                    Inbound::Ping(payload) => Took::Ping(payload.to_vec()),
                    Inbound::Pong => Took::Pong,
                    Inbound::Close(code) => Took::Close(code),
                });
                ControlFlow::Continue(())
            });
            if result.is_err() {
                return (took, result, assembly.is_some());
            }
        }
        (took, Ok(()), assembly.is_some())
    }

    #[test]
    fn messages_come_out_the_same_however_they_are_cut() {
        let long = "ä".repeat(2000);
        let mut bytes = frame(0x81, b"one");
        bytes.extend(frame(0x01, b"tw"));
        bytes.extend(frame(0x89, b"hi"));
        bytes.extend(frame(0x00, b""));
        bytes.extend(frame(0x80, b"o"));
        bytes.extend(frame(0x8a, b""));
        bytes.extend(frame(0x81, long.as_bytes()));
        bytes.extend(frame(0x88, &[0x03, 0xe8, b'b']));
        let expected = vec![
            Took::Text("one".into()),
            Took::Ping(b"hi".to_vec()),
            Took::Text("two".into()),
            Took::Pong,
            Took::Text(long),
            Took::Close(Some(1000)),
        ];
        for piece in [1, 2, 3, 5, 7, 64, 4096, bytes.len()] {
            let (took, result, keeps) = feed(&bytes, piece);
            assert_eq!((took, result, keeps), (expected_clone(&expected), Ok(()), false), "in pieces of {piece}");
        }
    }

    fn expected_clone(took: &[Took]) -> Vec<Took> {
        took.iter()
            .map(|took| match took {
                Took::Text(text) => Took::Text(text.clone()),
                Took::Ping(payload) => Took::Ping(payload.clone()),
                Took::Pong => Took::Pong,
                Took::Close(code) => Took::Close(*code),
            })
            .collect()
    }

    #[test]
    fn a_broken_rule_ends_the_session_with_its_code() {
        let unmasked = vec![0x81, 2, b'h', b'i'];
        let huge = [vec![0x81, 0x80 | 127], (1_u64 << 63).to_be_bytes().to_vec(), vec![0; 4]].concat();
        let grown = [frame(0x01, &[b'a'; 4000]), frame(0x80, &[b'a'; 97])].concat();
        let exact = [frame(0x01, &[b'a'; 4000]), frame(0x80, &[b'a'; 96])].concat();
        let ok = Ok(());
        for (name, bytes, expected) in [
            ("unmasked", unmasked, Err(CloseCode::ProtocolViolation)),
            ("announced 2^63", huge, Err(CloseCode::TooBig)),
            ("too long", frame(0x81, &[b'a'; 4097]), Err(CloseCode::TooBig)),
            ("just fits", frame(0x81, &[b'a'; 4096]), ok),
            ("grown by fragments", grown, Err(CloseCode::TooBig)),
            ("fragments that just fit", exact, ok),
            ("binary", frame(0x82, b"x"), Err(CloseCode::Unsupported)),
            ("reserved bit", frame(0xc1, b"x"), Err(CloseCode::ProtocolViolation)),
            ("reserved opcode", frame(0x83, b"x"), Err(CloseCode::ProtocolViolation)),
            ("reserved control", frame(0x8b, b"x"), Err(CloseCode::ProtocolViolation)),
            ("fragmented control", frame(0x09, b"x"), Err(CloseCode::ProtocolViolation)),
            ("long control", frame(0x89, &[0; 126]), Err(CloseCode::ProtocolViolation)),
            ("continuation of nothing", frame(0x80, b"x"), Err(CloseCode::ProtocolViolation)),
            ("new text in a message", [frame(1, b"x"), frame(0x81, b"y")].concat(), Err(CloseCode::ProtocolViolation)),
            ("half a close code", frame(0x88, &[3]), Err(CloseCode::ProtocolViolation)),
            ("reserved close code", frame(0x88, &[0x03, 0xed]), Err(CloseCode::ProtocolViolation)),
            ("bad reason", frame(0x88, &[0x03, 0xe8, 0xff]), Err(CloseCode::BadUtf8)),
            ("bad utf-8", frame(0x81, &[0xc3, 0x28]), Err(CloseCode::BadUtf8)),
            ("bad utf-8 over fragments", [frame(1, &[0xc3]), frame(0x80, b"(")].concat(), Err(CloseCode::BadUtf8)),
        ] {
            for piece in [1, bytes.len()] {
                assert_eq!(feed(&bytes, piece).1, expected, "{name} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn an_announced_length_is_refused_before_its_bytes_come() {
        let head = [vec![0x81, 0x80 | 126], 4097_u16.to_be_bytes().to_vec(), vec![0; 4]].concat();
        assert_eq!(feed(&head, 1).1, Err(CloseCode::TooBig));
    }

    #[test]
    fn our_frames_say_their_length() {
        assert_eq!(&close_frame(4002, "slow")[..], [0x88, 6, 0x0f, 0xa2, b's', b'l', b'o', b'w']);
        assert_eq!(&pong_frame(b"x")[..], [0x8a, 1, b'x']);
    }
}
