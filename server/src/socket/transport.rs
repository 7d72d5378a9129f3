//! The seam between a session and whoever moves its bytes. A session decides what is said; a transport says it, at frame
//! boundaries, and keeps a viewer in step with the events it looks at. `conn` (a task a connection) is the one there is.

use super::Door;
use super::session::Session;
use crate::command::Spoken;
use crate::command::subscribe::Grant;
use crate::seatmap::Viewer;
use crate::sender::{Recipient, frame_text, text_frame};
use bytes::Bytes;
use parking_lot::Mutex;
use seatwire_proto::client::Resync;
use seatwire_proto::code::CloseCode;
use seatwire_proto::server::{Push, Reply};
use std::sync::Arc;

/// What became of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subscribed {
    /// The reply is written and frames follow it.
    Done,
    /// The session looks at as many events as it may.
    TooMany,
    /// The event was put away just now: look it up again.
    PutAway,
}

/// Moves the bytes of one session. Every method returns at once; what the socket does not take is finished later.
pub(super) trait Transport: Viewer + Recipient + Sized + 'static {
    /// The door it came in by.
    fn door(&self) -> &Arc<Door>;

    /// The session's state.
    fn session(&self) -> &Mutex<Session>;

    /// Whether the session has ended.
    fn is_over(&self) -> bool;

    /// Sends a framed text before the next shared frame.
    fn send(&self, frame: Bytes);

    /// Ends the session, behind what was sent before.
    fn close(&self, code: CloseCode);

    /// Writes the reply to a subscription and lets its frames follow.
    fn subscribe(self: &Arc<Self>, id: u32, grant: Grant) -> Subscribed;

    /// Ends a subscription; `false` when there is none.
    fn unsubscribe(&self, channel: u32) -> bool;

    /// Writes the reply to a resync and lets frames without a hole follow; `false` when there is no such channel.
    fn resync(&self, id: u32, body: &Resync) -> bool;

    /// Sends a reply.
    fn reply(&self, reply: &Reply) {
        self.send(text_frame(&reply.to_text()));
    }

    /// Sends a reply and what goes with it, in one write.
    fn speak(&self, spoken: &Spoken) {
        let mut bytes = Vec::new();
        frame_text(&mut bytes, &spoken.reply.to_text());
        match &spoken.push {
            None => self.send(bytes.into()),
            Some(push) => self.door().sender.speak(push, |push| {
                bytes.extend_from_slice(push.map_or(&[], |push| &push[..]));
                self.send(bytes.into());
            }),
        }
    }

    /// Sends a push to this session alone.
    fn push(&self, push: &Push) {
        match serde_json::to_string(push) {
            Ok(text) => self.send(text_frame(&text)),
            Err(error) => tracing::error!(%error, "a push that cannot be written"),
        }
    }
}
