//! What one session still has to be sent, and the writing itself. Shared frames are written straight from the fan-out;
//! only what the kernel did not take is remembered: the rest of one frame, some direct texts, and that the viewer is
//! behind. Nothing is queued for slow viewers: they are caught up from the ring, or with the shared snapshot.

mod backlog;
mod sub;

use super::{Door, wire};
use crate::seatmap::{Delivery, MapFrame, Next};
use backlog::{Backlog, Partial};
use bytes::Bytes;
use seatwire_proto::client::Position;
use seatwire_proto::code::CloseCode;
use seatwire_proto::frame::FrameKind;
use smallvec::SmallVec;
use std::io;
use std::task::Waker;
use std::time::Duration;
use sub::Snapshots;
pub(super) use sub::Sub;
use tokio::net::TcpStream;

/// Replies and pushes waiting for a socket that takes nothing; more closes it with 4002.
const MAX_QUEUED_FRAMES: usize = 128;
/// Their bytes; more closes it with 4002. An order with 200 tickets has about 30 KB.
const MAX_QUEUED_BYTES: usize = 256 << 10;
/// A viewer that took no whole frame for so long is closed with 4002.
pub(super) const MAX_BLOCKED: Duration = Duration::from_secs(15);
/// Catching-up snapshots within a minute; more closes with 4002.
const MAX_SNAPSHOTS_PER_MINUTE: u32 = 10;
/// After a close frame, how long the peer may take to close its side.
pub(super) const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Before the first snapshot.
const NOWHERE: Position = Position { epoch: 0, seq: 0 };

/// The stream to write to, and the door it came in by.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) door: &'a Door,
}

/// How far a session is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serving.
    Open,
    /// The close frame waits behind what was queued before it.
    Closing,
    /// The close frame is written and our side shut; reading on until the peer shuts its own.
    Closed,
    /// The stream is of no more use.
    Gone,
}

/// All that one session has not been sent yet. Rare things are boxed.
#[derive(Debug)]
pub(super) struct Out {
    waker: Option<Waker>,
    backlog: Option<Box<Backlog>>,
    snapshots: Option<Box<Snapshots>>,
    /// Most sessions look at one event: it lies here, not in a list elsewhere.
    pub(super) subs: SmallVec<[Sub; 1]>,
    /// When the peer is pinged next.
    pub(super) next_ping_ms: u64,
    /// Pings it has not answered.
    pub(super) unanswered_pings: u8,
    pub(super) phase: Phase,
    /// As the heartbeat has seen it.
    pub(super) is_greeted: bool,
}

/// Whether a frame went out.
enum Wrote {
    All,
    Part,
}

impl Out {
    pub(super) const fn new(next_ping_ms: u64) -> Self {
        Self {
            waker: None,
            backlog: None,
            snapshots: None,
            subs: SmallVec::new_const(),
            next_ping_ms,
            unanswered_pings: 0,
            phase: Phase::Open,
            is_greeted: false,
        }
    }

    /// The session's own task, to be woken when there is something to do that the fan-out did not.
    pub(super) fn set_waker(&mut self, waker: &Waker) {
        match &self.waker {
            Some(known) if known.will_wake(waker) => {}
            _ => self.waker = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Whether the socket must become writable before anything can go on.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since_ms() != 0 && !matches!(self.phase, Phase::Closed | Phase::Gone)
    }

    /// Since when the socket took no whole frame; 0 while it takes them.
    pub(super) fn blocked_since_ms(&self) -> u64 {
        self.backlog.as_ref().map_or(0, |backlog| backlog.blocked_since_ms)
    }

    /// When the close frame was queued; 0 before.
    pub(super) fn closing_since_ms(&self) -> u64 {
        self.backlog.as_ref().map_or(0, |backlog| backlog.closing_since_ms)
    }

    /// Since when part of a message from the peer waits for the rest; 0 while none does.
    pub(super) fn unfinished_since_ms(&self) -> u64 {
        self.backlog.as_ref().map_or(0, |backlog| backlog.unfinished_since_ms)
    }

    /// Part of a message came at `now_ms`, if not before; `None` when nothing waits for its rest.
    pub(super) fn set_unfinished(&mut self, now_ms: Option<u64>) {
        match (now_ms, &mut self.backlog) {
            (None, None) => {}
            (None, Some(backlog)) => {
                backlog.unfinished_since_ms = 0;
                self.tidy();
            }
            (Some(now_ms), _) => {
                let backlog = self.backlog();
                if backlog.unfinished_since_ms == 0 {
                    backlog.unfinished_since_ms = now_ms;
                }
            }
        }
    }

    fn backlog(&mut self) -> &mut Backlog {
        self.backlog.get_or_insert_default()
    }

    fn tidy(&mut self) {
        if self.backlog.as_ref().is_some_and(|backlog| backlog.is_over()) {
            self.backlog = None;
        }
    }

    fn is_clear(&self) -> bool {
        self.backlog.as_ref().is_none_or(|backlog| backlog.partial.is_none() && backlog.texts.is_empty())
    }

    fn gone(&mut self) {
        self.phase = Phase::Gone;
        self.backlog = None;
        self.wake();
    }

    fn block(&mut self, line: Line<'_>) {
        let backlog = self.backlog();
        if backlog.blocked_since_ms == 0 {
            backlog.blocked_since_ms = line.door.now_ms();
        }
        self.wake();
    }

    /// The socket is slow but alive.
    fn took_a_frame(&mut self, line: Line<'_>) {
        if let Some(backlog) = &mut self.backlog
            && backlog.blocked_since_ms != 0
        {
            backlog.blocked_since_ms = line.door.now_ms();
        }
    }

    /// A shared frame, from the fan-out. No allocation and no queue: what does not fit makes the viewer stale.
    pub(super) fn deliver(&mut self, line: Line<'_>, frame: &MapFrame) -> Delivery {
        if self.phase != Phase::Open {
            return Delivery::Skipped;
        }
        let is_clear = self.is_clear();
        let Some(sub) = self.subs.iter_mut().find(|sub| sub.live.channel() == frame.channel) else {
            return Delivery::Skipped;
        };
        if sub.is_stale {
            return Delivery::Skipped;
        }
        let is_beacon = frame.kind == FrameKind::Beacon;
        if frame.epoch != sub.epoch || frame.seq_from > sub.seq + u64::from(!is_beacon) {
            sub.is_stale = true;
            self.wake();
            return Delivery::Skipped;
        }
        if frame.seq_to < sub.seq || (frame.seq_to == sub.seq && !is_beacon) {
            return Delivery::Skipped;
        }
        if !is_clear {
            sub.is_stale |= !is_beacon;
            sub.is_slow = true;
            return Delivery::Skipped;
        }
        match line.stream.try_write(&frame.bytes) {
            Ok(written) if written == frame.bytes.len() => {
                sub.seq = frame.seq_to;
                Delivery::Sent
            }
            Ok(written) => {
                sub.seq = frame.seq_to;
                sub.is_slow = true;
                self.backlog().partial = Some(Partial { frame: frame.bytes.clone(), written });
                self.block(line);
                Delivery::Sent
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sub.is_stale |= !is_beacon;
                sub.is_slow = true;
                self.block(line);
                Delivery::Skipped
            }
            Err(_) => {
                self.gone();
                Delivery::Skipped
            }
        }
    }

    /// The event began a new life.
    pub(super) fn restart(&mut self, line: Line<'_>, channel: u32) {
        if let Some(sub) = self.subs.iter_mut().find(|sub| sub.live.channel() == channel) {
            sub.rewind(NOWHERE);
            self.pump(line);
        }
    }

    /// A reply or push: before the next shared frame, at a frame boundary.
    pub(super) fn send(&mut self, line: Line<'_>, frame: Bytes) {
        if self.phase != Phase::Open {
            return;
        }
        // Nearly always nothing waits: then nothing is queued, and no memory taken for it.
        if self.backlog.is_none() {
            match self.write(line, frame) {
                Ok(Wrote::All) if self.subs.iter().all(|sub| !sub.is_stale) => {}
                Ok(_) => self.pump(line),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.block(line),
                Err(_) => self.gone(),
            }
            return;
        }
        self.enqueue(frame);
        let backlog = self.backlog();
        if backlog.texts.len() > MAX_QUEUED_FRAMES || backlog.text_bytes > MAX_QUEUED_BYTES {
            self.close(line, CloseCode::Slow);
            return;
        }
        self.pump(line);
    }

    /// Says goodbye behind what was queued before.
    pub(super) fn close(&mut self, line: Line<'_>, code: CloseCode) {
        self.close_with(line, wire::close_frame(code.number(), code.as_str()));
    }

    /// As [`Out::close`], with a frame made already.
    pub(super) fn close_with(&mut self, line: Line<'_>, frame: Bytes) {
        if self.phase != Phase::Open {
            return;
        }
        self.begin_closing(line.door.now_ms(), frame);
        self.pump(line);
        self.wake();
    }

    fn begin_closing(&mut self, now_ms: u64, frame: Bytes) {
        self.phase = Phase::Closing;
        self.backlog().closing_since_ms = now_ms.max(1);
        self.enqueue(frame);
    }

    fn enqueue(&mut self, frame: Bytes) {
        let backlog = self.backlog();
        backlog.text_bytes += frame.len();
        backlog.texts.push_back(frame);
    }

    /// Writes what can be written: the rest of a frame, then texts, then what stale viewers missed.
    pub(super) fn pump(&mut self, line: Line<'_>) {
        let done = loop {
            if let Some(backlog) = self.backlog.as_mut()
                && let Some(partial) = backlog.partial.as_mut()
            {
                match line.stream.try_write(&partial.frame[partial.written..]) {
                    Ok(written) => {
                        partial.written += written;
                        if partial.written == partial.frame.len() {
                            backlog.partial = None;
                            self.took_a_frame(line);
                        }
                        continue;
                    }
                    Err(error) => break Err(error),
                }
            }
            let next = match self.next_text() {
                Some(text) => Some(text),
                None if self.phase == Phase::Closing => {
                    // Only our side: what the peer has sent would else make the kernel throw the close frame away.
                    let _ = socket2::SockRef::from(line.stream).shutdown(std::net::Shutdown::Write);
                    self.phase = Phase::Closed;
                    break Ok(());
                }
                None if self.phase != Phase::Open => break Ok(()),
                None => self.next_frame(line),
            };
            let Some(frame) = next else { if self.phase == Phase::Open { break Ok(()) } else { continue } };
            match self.write(line, frame) {
                Ok(Wrote::All) => self.took_a_frame(line),
                Ok(Wrote::Part) => {}
                Err(error) => break Err(error),
            }
        };
        match done {
            Ok(()) => {
                if let Some(backlog) = &mut self.backlog {
                    backlog.blocked_since_ms = 0;
                    self.tidy();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.block(line),
            Err(_) => self.gone(),
        }
    }

    fn next_text(&mut self) -> Option<Bytes> {
        let backlog = self.backlog.as_mut()?;
        let frame = backlog.texts.pop_front()?;
        backlog.text_bytes -= frame.len();
        Some(frame)
    }

    /// What the first stale viewer needs next. The position moves at once: the frame will be written, now or as the rest.
    fn next_frame(&mut self, line: Line<'_>) -> Option<Bytes> {
        for index in 0..self.subs.len() {
            let sub = &mut self.subs[index];
            if !sub.is_stale {
                continue;
            }
            let frame = match sub.live.next_after(sub.position(), sub.encoding, sub.is_slow) {
                Next::UpToDate => {
                    sub.is_stale = false;
                    sub.is_slow = false;
                    continue;
                }
                Next::Frame(frame) => frame,
            };
            // The first snapshot of a subscription and that of a new epoch are not the viewer's doing.
            if frame.kind == FrameKind::Snapshot && frame.epoch == sub.epoch {
                let times = self.snapshots.get_or_insert_default();
                let now_ms = line.door.now_ms();
                if !times.allow(now_ms) {
                    continue;
                }
                if times.in_minute > MAX_SNAPSHOTS_PER_MINUTE {
                    let frame = wire::close_frame(CloseCode::Slow.number(), CloseCode::Slow.as_str());
                    self.begin_closing(now_ms, frame);
                    return None;
                }
                line.door.metrics.resnapshots.inc();
            }
            let sub = &mut self.subs[index];
            sub.arrive(&frame);
            return Some(frame.bytes);
        }
        None
    }

    fn write(&mut self, line: Line<'_>, frame: Bytes) -> io::Result<Wrote> {
        match line.stream.try_write(&frame) {
            Ok(written) if written == frame.len() => Ok(Wrote::All),
            Ok(written) => {
                self.backlog().partial = Some(Partial { frame, written });
                Ok(Wrote::Part)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.backlog().partial = Some(Partial { frame, written: 0 });
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The peer does not close; the stream is dropped.
    pub(super) fn give_up(&mut self) {
        self.gone();
    }

    /// Whether somebody is behind although the socket takes everything: a snapshot that had to wait for its time.
    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Open && self.blocked_since_ms() == 0 && self.subs.iter().any(|sub| sub.is_stale)
    }
}
