//! From bytes to a command or a refusal, and back. The one door of the text messages of a socket.
//! Over HTTP only `parse_body` is used: there the envelope (id, op, key) is path and header.

use super::bounds::FieldError;
use super::key::IdempotencyKey;
use super::{Command, HoldSeats};
use crate::code::ErrorCode;
use crate::id::EventId;
use crate::seat::SeatIndex;
use serde_json::{Map, Value};

/// A command as it came: with its id and, if it changes something, its key.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientMessage {
    /// Unique among the unanswered.
    pub id: u32,
    /// Present exactly when the command is mutating.
    pub key: Option<IdempotencyKey>,
    /// What is asked.
    pub command: Command,
}

/// Bytes that are not a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The id, if one could be read.
    pub id: Option<u32>,
    /// `bad_json`, `unknown_op` or `bad_field`.
    pub code: ErrorCode,
    /// Where and why, for `bad_field`.
    pub field: Option<FieldError>,
}

/// Reads one text message. Bounds ([`Command::validate`]) are left to whoever knows the event, since an unknown event is
/// refused before them.
///
/// # Errors
/// `bad_json` for anything but a JSON object, `unknown_op`, `bad_field` with a JSON Pointer; with the id where one could be read.
pub fn decode(text: &[u8]) -> Result<ClientMessage, Refused> {
    if let Some(hold) = decode_hold(text) {
        return Ok(hold);
    }
    let mut fields: Map<String, Value> =
        serde_json::from_slice(text).map_err(|_| Refused { id: None, code: ErrorCode::BadJson, field: None })?;
    let id = fields.remove("id").as_ref().and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let bad_field = |path: &str, message: &str| Refused {
        id,
        code: ErrorCode::BadField,
        field: Some(FieldError::new(path, message)),
    };
    let Some(message_id) = id else {
        return Err(bad_field("/id", "expected an unsigned 32-bit integer"));
    };
    let op = match fields.remove("op") {
        Some(Value::String(op)) => op,
        Some(_) => return Err(bad_field("/op", "expected a string")),
        None => return Err(bad_field("/op", "missing")),
    };
    let key = fields.remove("key");
    let command = match Command::parse(&op, Value::Object(fields)) {
        None => return Err(Refused { id, code: ErrorCode::UnknownOp, field: None }),
        Some(Err(field)) => return Err(Refused { id, code: ErrorCode::BadField, field: Some(field) }),
        Some(Ok(command)) => command,
    };
    let key = if command.is_mutating() {
        let key = key.as_ref().and_then(Value::as_str).and_then(IdempotencyKey::parse);
        Some(key.ok_or_else(|| bad_field("/key", "expected 1 to 64 printable ASCII characters"))?)
    } else {
        None
    };
    Ok(ClientMessage { id: message_id, key, command })
}

/// A `hold` as nearly all clients write it, straight into its type: the command of a rush, and building a tree of values first
/// costs three times as much. Whatever is unusual about it is left to the long way, which also says what is wrong.
fn decode_hold(text: &[u8]) -> Option<ClientMessage> {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        id: u32,
        op: &'a str,
        key: &'a str,
        event: EventId,
        seats: Vec<SeatIndex>,
    }
    if !std::str::from_utf8(text).ok()?.contains(r#""op":"hold""#) {
        return None;
    }
    let line: Line<'_> = serde_json::from_slice(text).ok().filter(|line: &Line<'_>| line.op == "hold")?;
    let key = Some(IdempotencyKey::parse(line.key)?);
    Some(ClientMessage { id: line.id, key, command: Command::Hold(HoldSeats { event: line.event, seats: line.seats }) })
}

/// The text of a command, as a client sends it.
///
/// # Errors
/// Never for commands built from this module's types.
pub fn encode(message: &ClientMessage) -> serde_json::Result<String> {
    let mut fields = match message.command.body_json()? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.insert("id".into(), message.id.into());
    fields.insert("op".into(), message.command.op().into());
    if let Some(key) = &message.key {
        fields.insert("key".into(), key.as_str().into());
    }
    serde_json::to_string(&fields)
}

/// Reads one struct out of JSON and says where it failed.
///
/// # Errors
/// The JSON Pointer of the field and what was expected there.
pub fn parse_body<T: serde::de::DeserializeOwned>(fields: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(fields).map_err(|error| {
        use serde_path_to_error::Segment;
        let mut path = String::new();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => path.push_str(&format!("/{index}")),
                Segment::Map { key } | Segment::Enum { variant: key } => {
                    path.push('/');
                    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                Segment::Unknown => {}
            }
        }
        let message = error.inner().to_string();
        if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            path.push('/');
            path.push_str(name);
            return FieldError::new(path, "missing");
        }
        FieldError::new(path, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Refused {
        let bounds = |message: ClientMessage| {
            message.command.validate().map_err(|field| Refused {
                id: Some(message.id),
                code: ErrorCode::BadField,
                field: Some(field),
            })
        };
        decode(text.as_bytes()).and_then(bounds).expect_err(text)
    }

    fn event() -> EventId {
        "evt_01h455vb4pex5vsknk084sn02q".parse().expect("a literal")
    }

    #[test]
    fn a_command_survives_its_text() {
        let message = ClientMessage {
            id: 7,
            key: IdempotencyKey::parse("k1"),
            command: Command::Hold(HoldSeats { event: event(), seats: vec![SeatIndex(1), SeatIndex(2)] }),
        };
        let text = encode(&message).expect("encodes");
        assert_eq!(decode(text.as_bytes()), Ok(message));
    }

    #[test]
    fn a_hold_means_the_same_by_the_short_way_and_by_the_long_one() {
        let event = event();
        let short = format!(r#"{{"id":7,"op":"hold","key":"k1","event":"{event}","seats":[1,2]}}"#);
        let message = decode_hold(short.as_bytes()).expect("the usual form");
        let unusual = [
            format!(r#"{{"id":7,"op" : "hold","key":"k1","event":"{event}","seats":[1,2]}}"#),
            format!(r#"{{"id":7,"op":"hold","key":"\u006b1","event":"{event}","seats":[1,2]}}"#),
            format!(r#"{{"id":7,"op":"hold","key":"k1","event":"{event}","seats":[3],"seats":[1,2]}}"#),
        ];
        for text in unusual {
            assert_eq!(decode_hold(text.as_bytes()), None, "{text}");
            assert_eq!(decode(text.as_bytes()), Ok(message.clone()), "{text}");
        }
        let more = short.replace("{\"id\"", "{\"later\":{\"op\":\"hold\"},\"id\"");
        assert_eq!(decode(more.as_bytes()), Ok(message));
        let other = r#"{"id":7,"op":"ping","note":"\"op\":\"hold\""}"#;
        assert_eq!(decode_hold(other.as_bytes()), None);
        for broken in [
            short.replace("k1", ""),
            short.replace("[1,2]", "[-1]"),
            short.replace("evt_", "hld_"),
            short.replace(":7,", ":-7,"),
        ] {
            assert_eq!(decode_hold(broken.as_bytes()), None, "{broken}");
            assert_eq!(refused(&broken).code, ErrorCode::BadField, "{broken}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_bad_json_with_id_null() {
        for text in ["", "{", "[1]", "12", "\u{0}"] {
            assert_eq!(refused(text), Refused { id: None, code: ErrorCode::BadJson, field: None }, "{text}");
        }
    }

    #[test]
    fn an_unreadable_id_is_named() {
        for text in [
            r#"{"op":"ping"}"#,
            r#"{"id":-1,"op":"ping"}"#,
            r#"{"id":4294967296,"op":"ping"}"#,
            r#"{"id":"1","op":"ping"}"#,
        ] {
            let refused = refused(text);
            assert_eq!((refused.id, refused.field.map(|f| f.path)), (None, Some("/id".into())), "{text}");
        }
    }

    #[test]
    fn an_unknown_op_keeps_its_id() {
        assert_eq!(
            refused(r#"{"id":3,"op":"steal"}"#),
            Refused { id: Some(3), code: ErrorCode::UnknownOp, field: None }
        );
    }

    #[test]
    fn a_bad_field_is_pointed_at() {
        let e = "evt_01h455vb4pex5vsknk084sn02q";
        for (body, path) in [
            (r#""op":"hold","key":"k","event":"x","seats":[1]"#.to_owned(), "/event"),
            (r#""op":"hold","key":"k","seats":[1]"#.to_owned(), "/event"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[1,"2"]"#), "/seats/1"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[1,1]"#), "/seats/1"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[]"#), "/seats"),
            (format!(r#""op":"hold","key":"k","event":"{e}","seats":[1.5]"#), "/seats/0"),
            (format!(r#""op":"hold","key":"","event":"{e}","seats":[1]"#), "/key"),
            (format!(r#""op":"hold","event":"{e}","seats":[1]"#), "/key"),
            (format!(r#""op":"hold","key":"ä","event":"{e}","seats":[1]"#), "/key"),
            (format!(r#""op":"hold_area","key":"k","event":"{e}","area":0,"quantity":0"#), "/quantity"),
            (format!(r#""op":"hold_best","key":"k","event":"{e}","quantity":2,"accessible":3"#), "/accessible"),
            (format!(r#""op":"hold_best","key":"k","event":"{e}","quantity":2,"together":"maybe"#) + "\"", "/together"),
            (format!(r#""op":"subscribe","event":"{e}","from":"yesterday""#), "/from"),
            (r#""op":"checkout","key":"k","hold":"hld_01h455vb4pex5vsknk084sn02q","buyer":{"name":"A","email":"no"},"payment":{"method":"m"},"expect_total_minor":1"#.to_owned(), "/buyer/email"),
            (r#""op":"checkout","key":"k","hold":"hld_01h455vb4pex5vsknk084sn02q","buyer":{"name":"A","email":"a@b.cd"},"payment":{},"expect_total_minor":1"#.to_owned(), "/payment/method"),
            (r#""op":"checkout","key":"k","hold":"hld_01h455vb4pex5vsknk084sn02q","buyer":{"name":"A","email":"a@b.cd"},"payment":{"method":"m"},"expect_total_minor":-1"#.to_owned(), "/expect_total_minor"),
        ] {
            let refused = refused(&format!("{{\"id\":1,{body}}}"));
            assert_eq!((refused.code, refused.field.map(|f| f.path)), (ErrorCode::BadField, Some(path.into())), "{body}");
        }
    }

    #[test]
    fn the_fingerprint_ignores_id_key_and_unknown_fields_but_no_value() {
        let text = |id: u32, key: &str, seat: u32| {
            let text =
                format!(r#"{{"id":{id},"key":"{key}","op":"hold","extra":1,"event":"{}","seats":[{seat}]}}"#, event());
            decode(text.as_bytes()).expect("decodes").command.fingerprint()
        };
        assert_eq!(text(1, "a", 5), text(2, "b", 5));
        assert_ne!(text(1, "a", 5), text(1, "a", 6));
    }
}
