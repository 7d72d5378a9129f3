//! What a session's socket did not take yet.

use bytes::Bytes;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Partial {
    pub(super) frame: Bytes,
    pub(super) written: usize,
}

/// What stands between a session and an empty line: boxed, since most sessions have none of it, and given back when it
/// is over.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pub(super) partial: Option<Partial>,
    pub(super) texts: VecDeque<Bytes>,
    pub(super) text_bytes: usize,
    /// Since when the socket took no whole frame; 0 while it takes them.
    pub(super) blocked_since_ms: u64,
    /// When the close frame was queued.
    pub(super) closing_since_ms: u64,
    /// Since when part of a message from the peer waits for the rest; 0 while none does.
    pub(super) unfinished_since_ms: u64,
}

impl Backlog {
    pub(super) fn is_over(&self) -> bool {
        self.partial.is_none()
            && self.texts.is_empty()
            && self.blocked_since_ms == 0
            && self.closing_since_ms == 0
            && self.unfinished_since_ms == 0
    }
}
