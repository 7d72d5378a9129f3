//! A WebSocket client of a few hundred bytes: own handshake on a raw TCP stream, masked frames out, an incremental
//! decoder in that keeps nothing while nothing is partial. Many thousands of these live in one worker; `viewer` and
//! `buyer` come in. The usual client would keep a 128 KiB read buffer a socket.

use rand::RngExt;
use seatwire_proto::frame::HEADER_BYTES;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Longest head of a handshake's answer; a longer one is no answer of ours.
const MAX_ANSWER_BYTES: usize = 8 * 1024;
/// Longest frame taken: a snapshot of a stadium is some 10 KB, the contract's bound is 4 MiB inflated.
pub(crate) const MAX_FRAME_BYTES: usize = 8 << 20;
/// A handshake that takes longer has failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Sockets that share a source address: well below the 28,000 ports the kernel gives out an address.
const SOCKETS_PER_SOURCE: u32 = 5_000;

pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// Where the sockets go.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// For the Host header.
    pub(crate) authority: String,
}

/// Why there is no socket.
#[derive(Debug)]
pub(crate) enum ConnectError {
    Io(io::Error),
    TimedOut,
    /// Answered, but not with 101.
    Refused(String),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::TimedOut => f.write_str("no handshake within 20 s"),
            Self::Refused(line) => write!(f, "answered {line:?} instead of an upgrade"),
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The source address of the no-th socket of a run: on loopback every few thousand get an address of their own
/// (127.x.y.z), so that ports never run out and those of an earlier run in TIME_WAIT do not matter.
pub(crate) fn source(target: &Target, run: u32, no: u32) -> Option<Ipv4Addr> {
    match target.address.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => {
            let group = run.wrapping_mul(97).wrapping_add(no / SOCKETS_PER_SOURCE) % (250 * 250);
            Some(Ipv4Addr::new(127, 20 + (run % 200) as u8, 1 + (group / 250) as u8, 1 + (group % 250) as u8))
        }
        _ => None,
    }
}

/// An open socket and the bytes that came behind the handshake.
pub(crate) async fn connect(target: &Target, source: Option<Ipv4Addr>) -> Result<(TcpStream, Vec<u8>), ConnectError> {
    tokio::time::timeout(CONNECT_TIMEOUT, shake_hands(target, source)).await.unwrap_or(Err(ConnectError::TimedOut))
}

async fn shake_hands(target: &Target, source: Option<Ipv4Addr>) -> Result<(TcpStream, Vec<u8>), ConnectError> {
    let socket = if target.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = source {
        socket.bind((source, 0).into())?;
    }
    let mut stream = socket.connect(target.address).await?;
    SockRef::from(&stream).set_tcp_nodelay(true)?;
    // The key proves that a WebSocket server answers, nothing more: chance is chance enough.
    let key = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, rand::rng().random::<[u8; 16]>());
    let request = format!(
        "GET /v1/socket HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: seatwire.v1\r\n\r\n",
        target.authority
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(512);
    let head_bytes = loop {
        if let Some(at) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(ConnectError::Refused("an endless head".to_owned()));
        }
        if stream.read_buf(&mut answer).await? == 0 {
            let so_far = String::from_utf8_lossy(&answer).lines().next().unwrap_or("nothing").to_owned();
            return Err(ConnectError::Refused(so_far));
        }
    };
    let rest = answer.split_off(head_bytes);
    check_answer(&String::from_utf8_lossy(&answer), &derive_accept_key(key.as_bytes()))?;
    Ok((stream, rest))
}

fn check_answer(head: &str, accept_key: &str) -> Result<(), ConnectError> {
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("101") {
        return Err(ConnectError::Refused(status.to_owned()));
    }
    let header = |name: &str| {
        head.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|h| h.1.trim())
    };
    if header("sec-websocket-accept") != Some(accept_key) {
        return Err(ConnectError::Refused("101 with a wrong Sec-WebSocket-Accept".to_owned()));
    }
    if header("sec-websocket-protocol") != Some("seatwire.v1") {
        return Err(ConnectError::Refused("101 without seatwire.v1".to_owned()));
    }
    Ok(())
}

/// Appends a masked client frame.
pub(crate) fn put_frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    out.push(0x80 | opcode);
    match payload.len() {
        len @ 0..126 => out.push(0x80 | len as u8),
        len @ 126..65_536 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    let mask: [u8; 4] = rand::rng().random();
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// A frame off the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received<'a> {
    pub(crate) opcode: u8,
    /// The payload; of a binary frame followed by header only, its first 48 bytes.
    pub(crate) payload: &'a [u8],
    /// The payload's whole length.
    pub(crate) payload_bytes: usize,
}

/// What no server of ours sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireError {
    /// Masked, fragmented, with reserved bits or of an unknown opcode.
    Framing,
    TooLong,
}

/// A binary frame whose rest is passed over.
#[derive(Debug)]
struct Skipped {
    head: [u8; HEADER_BYTES],
    left_bytes: usize,
    payload_bytes: usize,
}

/// Cuts a stream into frames.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a frame; without allocation between frames.
    partial: Vec<u8>,
    skipped: Option<Box<Skipped>>,
}

struct Head {
    opcode: u8,
    head_bytes: usize,
    payload_bytes: usize,
}

fn head(bytes: &[u8]) -> Result<Option<Head>, WireError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let opcode = first & 0x0f;
    if first & 0xf0 != 0x80 || second & 0x80 != 0 || !matches!(opcode, TEXT | BINARY | CLOSE | PING | PONG) {
        return Err(WireError::Framing);
    }
    let (head_bytes, payload_bytes) = match second & 0x7f {
        126 => match rest.first_chunk::<2>() {
            Some(len) => (4, usize::from(u16::from_be_bytes(*len))),
            None => return Ok(None),
        },
        127 => match rest.first_chunk::<8>() {
            Some(len) => (10, usize::try_from(u64::from_be_bytes(*len)).unwrap_or(usize::MAX)),
            None => return Ok(None),
        },
        len => (2, usize::from(len)),
    };
    if payload_bytes > MAX_FRAME_BYTES {
        return Err(WireError::TooLong);
    }
    Ok(Some(Head { opcode, head_bytes, payload_bytes }))
}

impl Decoder {
    /// Takes what was read and hands on every frame that is now complete. Without `whole_binary` the payload of a
    /// binary frame is passed over behind its first 48 bytes and never stored.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        whole_binary: bool,
        mut each: impl FnMut(Received<'_>),
    ) -> Result<(), WireError> {
        if self.partial.is_empty() {
            let rest = self.cut(bytes, whole_binary, &mut each)?;
            self.partial = rest.to_vec();
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(bytes);
        let rest_bytes = self.cut(&joined, whole_binary, &mut each)?.len();
        if rest_bytes == joined.len() {
            self.partial = joined;
        } else {
            self.partial = joined[joined.len() - rest_bytes..].to_vec();
        }
        Ok(())
    }

    /// Returns what belongs to a frame that is not complete.
    fn cut<'a>(
        &mut self,
        mut bytes: &'a [u8],
        whole_binary: bool,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<&'a [u8], WireError> {
        loop {
            if let Some(mut skipped) = self.skipped.take() {
                let taken = skipped.left_bytes.min(bytes.len());
                skipped.left_bytes -= taken;
                bytes = &bytes[taken..];
                if skipped.left_bytes > 0 {
                    self.skipped = Some(skipped);
                    return Ok(bytes);
                }
                each(Received { opcode: BINARY, payload: &skipped.head, payload_bytes: skipped.payload_bytes });
            }
            let Some(Head { opcode, head_bytes, payload_bytes }) = head(bytes)? else { return Ok(bytes) };
            let behind = &bytes[head_bytes..];
            let is_skipped = opcode == BINARY && !whole_binary;
            if behind.len() >= payload_bytes {
                let shown = if is_skipped { payload_bytes.min(HEADER_BYTES) } else { payload_bytes };
                each(Received { opcode, payload: &behind[..shown], payload_bytes });
                bytes = &behind[payload_bytes..];
            } else if let (true, Some(head)) = (is_skipped, behind.first_chunk::<HEADER_BYTES>()) {
                let left_bytes = payload_bytes - behind.len();
                self.skipped = Some(Box::new(Skipped { head: *head, left_bytes, payload_bytes }));
                return Ok(&[]);
            } else {
                return Ok(bytes);
            }
        }
    }
}

/// The code of a close frame's payload; 1005 without one.
pub(crate) fn close_code(payload: &[u8]) -> u16 {
    payload.first_chunk::<2>().map_or(1005, |code| u16::from_be_bytes(*code))
}

/// Whether a client comes back after this close code. No code at all (1006) is a reason to come back too.
pub(crate) fn is_reconnect(code: u16) -> bool {
    matches!(code, 1000 | 1001 | 1005 | 1006 | 1012 | 4000..=4499)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x80 | opcode];
        if payload.len() < 126 {
            frame.push(payload.len() as u8);
        } else if payload.len() < 65_536 {
            frame.push(126);
            frame.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        } else {
            frame.push(127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_same_frames() {
        let long: Vec<u8> = (0..70_000_u32).map(|i| i as u8).collect();
        let parts: [(u8, &[u8]); 6] = [
            (TEXT, b"{}"),
            (BINARY, &long[..300]),
            (PING, b""),
            (BINARY, &long),
            (BINARY, &long[..10]),
            (TEXT, &long[..130]),
        ];
        let stream: Vec<u8> = parts.iter().flat_map(|(opcode, payload)| server_frame(*opcode, payload)).collect();
        for whole_binary in [true, false] {
            for piece in [1, 2, 3, 7, 49, 51, 1_000, 65_536, stream.len()] {
                let mut decoder = Decoder::default();
                let mut seen = Vec::new();
                for bytes in stream.chunks(piece) {
                    decoder
                        .feed(bytes, whole_binary, |frame| {
                            seen.push((frame.opcode, frame.payload.to_vec(), frame.payload_bytes));
                        })
                        .expect("good frames");
                }
                let expected: Vec<_> = parts
                    .iter()
                    .map(|(opcode, payload)| {
                        let shown =
                            if whole_binary || *opcode != BINARY { payload.len() } else { payload.len().min(48) };
                        (*opcode, payload[..shown].to_vec(), payload.len())
                    })
                    .collect();
                assert_eq!(seen, expected, "pieces of {piece}, whole {whole_binary}");
                assert_eq!(decoder.partial.capacity(), 0, "nothing is kept between frames");
            }
        }
    }

    #[test]
    fn what_a_server_must_not_send_is_refused() {
        for bad in [&[0x02, 0x01, 0][..], &[0x82, 0x81, 0, 0, 0, 0, 0], &[0xc2, 0x01, 0], &[0x80, 0x00], &[0x83, 0x00]]
        {
            assert_eq!(Decoder::default().feed(bad, true, |_| ()), Err(WireError::Framing), "{bad:?}");
        }
        let endless = [0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(Decoder::default().feed(&endless, false, |_| ()), Err(WireError::TooLong));
    }

    #[test]
    fn a_client_frame_is_masked() {
        for len in [0, 5, 125, 126, 65_535, 65_536] {
            let payload = vec![7; len];
            let mut out = Vec::new();
            put_frame(&mut out, TEXT, &payload);
            let head_bytes = out.len() - len - 4;
            assert_eq!(out[0], 0x81);
            assert_eq!(out[1] & 0x80, 0x80);
            let mask = &out[head_bytes..head_bytes + 4];
            let clear: Vec<u8> = out[head_bytes + 4..].iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m).collect();
            assert_eq!(clear, payload);
        }
    }

    #[test]
    fn sources_are_loopback_and_change() {
        let target = Target { address: ([127, 0, 0, 1], 80).into(), authority: String::new() };
        let of = |no| source(&target, 3, no).expect("the target is loopback");
        assert!(of(0).is_loopback());
        assert_eq!(of(0), of(SOCKETS_PER_SOURCE - 1));
        assert_ne!(of(0), of(SOCKETS_PER_SOURCE));
        let away = Target { address: ([192, 0, 2, 1], 80).into(), authority: String::new() };
        assert_eq!(source(&away, 3, 0), None);
    }
}
