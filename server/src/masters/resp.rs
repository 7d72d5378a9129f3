//! The bytes of Redis' protocol, version 2: commands out, answers in. An answer shares the buffer it was read into; what a
//! subscription is told is read where it lies.

use bytes::{Buf as _, Bytes, BytesMut};
use fred::types::Value;
use smallvec::SmallVec;
use std::io;

/// Longest answer: the map of the largest event is a few hundred KB. A longer one is not an answer of ours.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Digits of the longest number, its sign included.
const MAX_DIGITS: usize = 20;
/// Parts of what a connection that listens is told; it has three.
const MAX_PARTS: i64 = 8;
/// Lists in lists in an answer; ours have three.
const MAX_DEPTH: u32 = 8;

/// What Redis said to a command: a value, or its error's text.
pub(crate) type Answer = Result<Value, String>;

/// What a connection that listens is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told<'a> {
    /// A list of strings and numbers, as text: messages and answers to subscriptions.
    List(SmallVec<[&'a [u8]; 3]>),
    /// A plain word.
    Word(&'a [u8]),
    /// A command was refused.
    Error(&'a [u8]),
}

/// Appends a call of a loaded script.
pub(crate) fn encode_evalsha(out: &mut Vec<u8>, sha: &str, keys: &[&str], args: &[&[u8]]) {
    head(out, b'*', 3 + keys.len() + args.len());
    bulk(out, b"EVALSHA");
    bulk(out, sha.as_bytes());
    number(out, keys.len() as i64);
    for key in keys {
        bulk(out, key.as_bytes());
    }
    args.iter().for_each(|arg| bulk(out, arg));
}

/// Appends a command of plain words.
pub(crate) fn encode_command(out: &mut Vec<u8>, words: &[&str]) {
    head(out, b'*', words.len());
    words.iter().for_each(|word| bulk(out, word.as_bytes()));
}

/// Appends a publication, in a cluster on a channel that belongs to one master.
pub(crate) fn encode_publish(out: &mut Vec<u8>, is_sharded: bool, channel: &str, payload: &[u8]) {
    head(out, b'*', 3);
    bulk(out, if is_sharded { b"SPUBLISH" } else { b"PUBLISH" });
    bulk(out, channel.as_bytes());
    bulk(out, payload);
}

fn head(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    out.extend_from_slice(digits(&mut [0; MAX_DIGITS], len as i64));
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, number: i64) {
    let mut text = [0; MAX_DIGITS];
    bulk(out, digits(&mut text, number));
}

/// The number's digits, at the end of `text`: ten of them a call are worth more than what formatting costs.
fn digits(text: &mut [u8; MAX_DIGITS], number: i64) -> &[u8] {
    let mut at = MAX_DIGITS;
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    &text[at..]
}

/// Takes the first whole answer out of what was read; `None` until it is whole. An error in place of an answer is its text.
pub(crate) fn take(read: &mut BytesMut) -> io::Result<Option<Answer>> {
    let Some(end) = end_of(read, 0, 0)? else {
        return if read.len() > MAX_ANSWER_BYTES { Err(malformed("an answer without an end")) } else { Ok(None) };
    };
    let mut bytes = read.split_to(end).freeze();
    if bytes[0] == b'-' {
        let text = String::from_utf8_lossy(&bytes[1..end - 2]).into_owned();
        return Ok(Some(Err(text)));
    }
    Ok(Some(Ok(value(&mut bytes)?)))
}

/// The first whole thing that a connection which listens was told, and its length; `None` until it is whole.
pub(crate) fn told(bytes: &[u8]) -> io::Result<Option<(usize, Told<'_>)>> {
    let Some((head_end, parts_n)) = line(bytes, 0)? else {
        return if bytes.len() > MAX_ANSWER_BYTES { Err(malformed("a line without an end")) } else { Ok(None) };
    };
    match bytes[0] {
        b'+' => return Ok(Some((head_end, Told::Word(&bytes[1..head_end - 2])))),
        b'-' => return Ok(Some((head_end, Told::Error(&bytes[1..head_end - 2])))),
        b'*' if parts_n <= MAX_PARTS => {}
        _ => return Err(malformed("nothing that a subscription is told")),
    }
    let mut parts = SmallVec::new();
    let mut at = head_end;
    for _ in 0..parts_n {
        let Some((text, number)) =
            bytes.get(at..).filter(|rest| !rest.is_empty()).map_or(Ok(None), |_| line(bytes, at))?
        else {
            return Ok(None);
        };
        let (part, end) = match bytes[at] {
            b'$' if number < 0 => (&[][..], text),
            b'$' if number as usize > MAX_ANSWER_BYTES => return Err(malformed("a string too long")),
            b'$' => {
                let end = text + number as usize;
                let Some(part) = bytes.get(text..end).filter(|_| bytes.len() >= end + 2) else { return Ok(None) };
                (part, end + 2)
            }
            b':' => (&bytes[at + 1..text - 2], text),
            _ => return Err(malformed("a part that is neither string nor number")),
        };
        parts.push(part);
        at = end;
    }
    Ok(Some((at, Told::List(parts))))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Where the line that begins at `at` ends, its line feed included, and the number in it; 0 of a line that is text.
fn line(bytes: &[u8], at: usize) -> io::Result<Option<(usize, i64)>> {
    let rest = bytes.get(at + 1..).unwrap_or_default();
    let Some(len) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let text = rest[..len].strip_suffix(b"\r").ok_or_else(|| malformed("a line without its end"))?;
    let number = match bytes[at] {
        b'+' | b'-' => 0,
        _ => read_number(text).ok_or_else(|| malformed("no number"))?,
    };
    Ok(Some((at + 1 + len + 1, number)))
}

/// Reads digits with a sign or without: every part of every answer has its length.
fn read_number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0i64, |number, byte| {
        let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
        let number = number.checked_mul(10)?;
        if is_negative { number.checked_sub(digit) } else { number.checked_add(digit) }
    })
}

/// Where the value that begins at `at` ends; `None` when it is not whole.
fn end_of(bytes: &[u8], at: usize, depth: u32) -> io::Result<Option<usize>> {
    let Some(&kind) = bytes.get(at) else { return Ok(None) };
    let Some((mut end, number)) = line(bytes, at)? else { return Ok(None) };
    match kind {
        b'+' | b'-' | b':' => {}
        b'$' | b'*' if number < 0 => {}
        b'$' if number as usize > MAX_ANSWER_BYTES => return Err(malformed("a string too long")),
        b'$' => {
            end += number as usize + 2;
            if bytes.len() < end {
                return Ok(None);
            }
        }
        b'*' if depth < MAX_DEPTH => {
            for _ in 0..number {
                let Some(next) = end_of(bytes, end, depth + 1)? else { return Ok(None) };
                end = next;
            }
        }
        _ => return Err(malformed("an unknown kind of answer")),
    }
    Ok(Some(end))
}

/// Reads a value that is whole.
fn value(bytes: &mut Bytes) -> io::Result<Value> {
    let kind = bytes[0];
    let (end, number) = line(bytes, 0)?.ok_or_else(|| malformed("cut short"))?;
    let head = bytes.split_to(end);
    Ok(match kind {
        b'+' | b'-' => Value::from(String::from_utf8_lossy(&head[1..end - 2]).into_owned()),
        b':' => Value::Integer(number),
        b'$' | b'*' if number < 0 => Value::Null,
        b'$' => {
            let text = bytes.split_to(number as usize);
            bytes.advance(2);
            // Numbers come as text when they are beyond a Lua integer.
            match std::str::from_utf8(&text) {
                Ok(digits) if digits.len() <= 20 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Value::from(digits)
                }
                _ => Value::Bytes(text),
            }
        }
        _ => Value::Array((0..number).map(|_| value(bytes)).collect::<io::Result<_>>()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_written_as_redis_reads_it() {
        let mut out = Vec::new();
        encode_evalsha(&mut out, "ab", &["k"], &[b"\r\n", b"-12", b"x"]);
        let text = "*7\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$1\r\nk\r\n$2\r\n\r\n\r\n$3\r\n-12\r\n$1\r\nx\r\n";
        assert_eq!(String::from_utf8(out).expect("text"), text);
        for (is_sharded, text) in [
            (false, "*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$2\r\n\r\n\r\n"),
            (true, "*3\r\n$8\r\nSPUBLISH\r\n$1\r\nc\r\n$2\r\n\r\n\r\n"),
        ] {
            let mut out = Vec::new();
            encode_publish(&mut out, is_sharded, "c", b"\r\n");
            assert_eq!(String::from_utf8(out).expect("text"), text);
        }
    }

    #[test]
    fn numbers_are_written_as_everywhere() {
        for number in [0, 7, 10, -1, 1_234_567_890, i64::MAX, i64::MIN] {
            assert_eq!(digits(&mut [0; MAX_DIGITS], number), number.to_string().as_bytes());
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written_and_nothing_else_is_one() {
        for number in [0, 7, 10, -1, 1_234_567_890, i64::MAX, i64::MIN] {
            assert_eq!(read_number(number.to_string().as_bytes()), Some(number));
        }
        for text in ["", "-", "+1", "1 ", "a", "1a", "--1", "9223372036854775808", "-9223372036854775809"] {
            assert_eq!(read_number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn answers_are_read_whole_wherever_they_were_cut() {
        let bytes = b"*6\r\n$4\r\ndone\r\n:-17\r\n$-1\r\n*0\r\n$20\r\n18446744073709551615\r\n*2\r\n$3\r\n\x80\r\n\r\n+OK\r\n-ERR no\r\n:1\r\n";
        let whole = Value::Array(vec![
            Value::Bytes("done".into()),
            Value::Integer(-17),
            Value::Null,
            Value::Array(Vec::new()),
            Value::from("18446744073709551615"),
            Value::Array(vec![Value::Bytes(Bytes::from_static(b"\x80\r\n")), Value::from("OK")]),
        ]);
        for cut in 0..bytes.len() {
            let mut read = BytesMut::from(&bytes[..cut]);
            let mut taken = Vec::new();
            let mut rest = &bytes[cut..];
            loop {
                while let Some(answer) = take(&mut read).expect("well formed") {
                    taken.push(answer);
                }
                let Some((next, behind)) = rest.split_first() else { break };
                read.extend_from_slice(&[*next]);
                rest = behind;
            }
            assert_eq!(taken, [Ok(whole.clone()), Err("ERR no".to_owned()), Ok(Value::Integer(1))], "cut at {cut}");
            assert!(read.is_empty());
        }
    }

    #[test]
    fn what_a_subscription_is_told_is_read_whole_wherever_it_was_cut() {
        let bytes = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\n\r\n*\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:12\r\n+PONG\r\n-ERR no\r\n*2\r\n$-1\r\n$0\r\n\r\n";
        let list = |parts: &[&'static [u8]]| Told::List(parts.into());
        let all = [
            list(&[b"message", b"c", b"\r\n*"]),
            list(&[b"subscribe", b"d", b"12"]),
            Told::Word(b"PONG"),
            Told::Error(b"ERR no"),
            list(&[b"", b""]),
        ];
        for cut in 0..=bytes.len() {
            let (mut at, mut heard) = (0, Vec::new());
            for known in [&bytes[..cut], &bytes[..]] {
                while at < known.len()
                    && let Some((len, told)) = told(&known[at..]).expect("well formed")
                {
                    heard.push(told);
                    at += len;
                }
            }
            assert_eq!(heard, all, "cut at {cut}");
            assert_eq!(at, bytes.len());
        }
        for bytes in [&b"!\r\n"[..], b"*x\r\n", b"*1\r\n*0\r\n", b"*1\r\n$99999999999\r\n", b"*9\r\n", b":1\r\n"] {
            assert!(told(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_not_a_wait_without_end() {
        for bytes in [
            &b"!\r\n"[..],
            b"$x\r\n",
            b":1\n",
            b"$99999999999\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        ] {
            assert!(take(&mut BytesMut::from(bytes)).is_err(), "{bytes:?}");
        }
    }
}
