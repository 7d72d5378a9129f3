//! The envelope of an answer: the id of the command, and its body or why not.
//! Built by the counter, remembered for its key, and written to the socket as text; over HTTP only body and error travel.

use crate::client::Position;
use crate::code::{ErrorCode, Retry};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a command was refused or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// Name.
    pub code: ErrorCode,
    /// Number.
    pub number: u16,
    /// What to do.
    pub retry: Retry,
    /// For `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// For developers, English.
    pub message: String,
    /// What the code promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// The code with its number and retry advice, a text for developers and no data.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            number: code.number(),
            retry: code.retry(),
            retry_after_ms: None,
            message: message.into(),
            data: None,
        }
    }

    /// With data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// With a time to wait.
    #[must_use]
    pub fn with_retry_after_ms(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }
}

/// One answer, ready to be written. The body of an `ok` is kept as the JSON object it will be, so that a remembered
/// answer is given again byte for byte.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The command's id; `None` is written as null.
    pub id: Option<u32>,
    /// The body's JSON object, or why not.
    pub result: Result<String, ErrorObject>,
    /// For inventory commands.
    pub position: Option<Position>,
    /// Whether this is a remembered answer.
    pub is_replayed: bool,
}

impl Reply {
    /// A reply of `body`.
    ///
    /// # Errors
    /// Never for the bodies of this module.
    pub fn ok<T: Serialize>(id: u32, body: &T) -> serde_json::Result<Self> {
        Ok(Self { id: Some(id), result: Ok(serde_json::to_string(body)?), position: None, is_replayed: false })
    }

    /// A refusal or failure.
    #[must_use]
    pub fn error(id: Option<u32>, error: ErrorObject) -> Self {
        Self { id, result: Err(error), position: None, is_replayed: false }
    }

    /// The text message.
    #[must_use]
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::with_capacity(self.result.as_ref().map_or(256, |body| body.len() + 96));
        match self.id {
            Some(id) => write!(text, r#"{{"id":{id}"#),
            None => write!(text, r#"{{"id":null"#),
        }
        .expect("a String takes everything");
        match &self.result {
            Ok(body) => {
                text.push_str(r#","ok":true"#);
                let body = body.trim();
                let fields = body.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
                if !fields.is_empty() {
                    text.push(',');
                    text.push_str(fields);
                }
            }
            Err(error) => {
                text.push_str(r#","ok":false,"error":"#);
                text.push_str(&serde_json::to_string(error).expect("an error object is plain data"));
            }
        }
        if let Some(position) = self.position {
            write!(text, r#","epoch":{},"seq":{}"#, position.epoch, position.seq).expect("a String takes everything");
        }
        if self.is_replayed {
            text.push_str(r#","replayed":true"#);
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{UnlockReply, UnlockedAllocation};
    use super::*;
    use crate::id::AllocationId;

    #[test]
    fn a_reply_is_its_body_in_an_envelope() {
        let body = UnlockReply {
            allocation: UnlockedAllocation { id: AllocationId::generate(), name: "fan {club}".into(), until_ms: 9 },
            seats: String::new(),
        };
        let mut reply = Reply::ok(4, &body).expect("plain data");
        reply.position = Some(Position { epoch: 2, seq: 17 });
        reply.is_replayed = true;
        let value: Value = serde_json::from_str(&reply.to_text()).expect("JSON");
        assert_eq!(value["id"], 4);
        assert_eq!(value["ok"], true);
        assert_eq!(value["allocation"]["name"], "fan {club}");
        assert_eq!((&value["epoch"], &value["seq"], &value["replayed"]), (&2.into(), &17.into(), &true.into()));
    }

    #[test]
    fn an_empty_body_and_a_nested_end_stay_json() {
        let empty = Reply::ok(1, &serde_json::json!({})).expect("plain data").to_text();
        assert_eq!(empty, r#"{"id":1,"ok":true}"#);
        let nested = Reply::ok(1, &serde_json::json!({"a": {"b": {}}})).expect("plain data").to_text();
        assert_eq!(nested, r#"{"id":1,"ok":true,"a":{"b":{}}}"#);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let error = ErrorObject::new(ErrorCode::RateLimited, "slow down").with_retry_after_ms(200);
        let value: Value = serde_json::from_str(&Reply::error(None, error).to_text()).expect("JSON");
        assert_eq!(value["id"], Value::Null);
        assert_eq!(
            value["error"],
            serde_json::json!({"code":"rate_limited","number":1201,"retry":"after","retry_after_ms":200,"message":"slow down"})
        );
    }
}
