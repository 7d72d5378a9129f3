//! One connection as the fan-out and the commands see it: a stream anybody may write whole frames to, and what could not
//! be written yet. The fan-out writes straight to the socket, without waking the connection's task; the task (`task`)
//! reads, and finishes what the kernel did not take.

use super::accept::Admission;
use super::out::{Line, Out, Phase, Sub};
use super::session::{self, Session};
use super::transport::{Subscribed, Transport};
use super::{Door, wire};
use crate::command::resync;
use crate::command::subscribe::Grant;
use crate::seatmap::{Delivery, MapFrame, Viewer};
use crate::sender::{Recipient, text_frame};
use crate::slots::Slot;
use bytes::Bytes;
use parking_lot::Mutex;
use seatwire_proto::client::{Position, Resync};
use seatwire_proto::code::CloseCode;
use seatwire_proto::id::SessionId;
use seatwire_proto::server::Reply;
use std::sync::Arc;
use tokio::net::TcpStream;

/// One connection.
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    /// Taken alone, or inside `session`; never the other way round.
    pub(super) out: Mutex<Out>,
    session: Mutex<Session>,
    /// Counts against the caps of the listener until the connection is gone.
    admission: Admission,
}

impl Conn {
    pub(super) fn new(stream: TcpStream, admission: Admission) -> Self {
        let door = admission.door();
        let now_ms = door.now_ms();
        let heartbeat_ms = door.config.heartbeat.as_millis() as u64;
        // Jittered, so that viewers who came together are not pinged together.
        let first_ping_ms = now_ms + rand::random_range(heartbeat_ms / 2..=heartbeat_ms);
        Self {
            stream,
            out: Mutex::new(Out::new(first_ping_ms)),
            session: Mutex::new(Session::new(door.config.command_burst, now_ms)),
            admission,
        }
    }

    pub(super) fn line(&self) -> Line<'_> {
        Line { stream: &self.stream, door: self.admission.door() }
    }

    /// Takes something whole that came in.
    pub(super) fn receive(self: &Arc<Self>, inbound: &wire::Inbound<'_>) {
        match inbound {
            wire::Inbound::Text(text) => session::receive(self, text),
            wire::Inbound::Ping(payload) => self.send(wire::pong_frame(payload)),
            wire::Inbound::Pong => self.out.lock().unanswered_pings = 0,
            wire::Inbound::Close(code) => {
                let answer = code.map_or_else(wire::empty_close_frame, |code| wire::close_frame(code, ""));
                self.out.lock().close_with(self.line(), answer);
            }
        }
    }

    /// Takes the connection out of every list. Its descriptor closes when the last command on its behalf is done.
    pub(super) fn end(&self, place: Slot) {
        let subs = {
            let mut out = self.out.lock();
            out.phase = Phase::Gone;
            std::mem::take(&mut out.subs)
        };
        self.door().metrics.viewers.dec_by(subs.len() as i64);
        for sub in subs {
            sub.live.leave(sub.slot);
        }
        let (identity, id) = {
            let session = self.session.lock();
            (session.identity(), session.id)
        };
        if let Some(identity) = identity {
            self.door().sender.unregister(identity, id);
        }
        self.door().sessions.leave(place);
        self.door().metrics.sockets.dec();
        let _ = socket2::SockRef::from(&self.stream).shutdown(std::net::Shutdown::Both);
    }
}

impl Viewer for Conn {
    fn deliver(&self, frame: &MapFrame) -> Delivery {
        self.out.lock().deliver(self.line(), frame)
    }

    fn restart(&self, channel: u32) {
        self.out.lock().restart(self.line(), channel);
    }

    fn notice(&self, text: &Bytes) {
        self.send(text.clone());
    }
}

impl Recipient for Conn {
    fn session_id(&self) -> SessionId {
        self.session.lock().id
    }

    fn tell(&self, text: &Bytes) {
        self.send(text.clone());
    }

    fn dismiss(&self, code: CloseCode) {
        self.close(code);
    }
}

impl Transport for Conn {
    fn door(&self) -> &Arc<Door> {
        self.admission.door()
    }

    fn session(&self) -> &Mutex<Session> {
        &self.session
    }

    fn is_over(&self) -> bool {
        self.out.lock().phase == Phase::Gone
    }

    fn send(&self, frame: Bytes) {
        self.out.lock().send(self.line(), frame);
    }

    fn close(&self, code: CloseCode) {
        self.out.lock().close(self.line(), code);
    }

    fn subscribe(self: &Arc<Self>, id: u32, grant: Grant) -> Subscribed {
        let Grant { live, start, encoding } = grant;
        // A second subscription to the same event begins again where it says; the channel stays.
        let known = {
            let out = self.out.lock();
            if out.subs.len() >= session::MAX_SUBSCRIPTIONS {
                return Subscribed::TooMany;
            }
            out.subs.iter().any(|sub| sub.live.channel() == live.channel())
        };
        let entered = Arc::clone(&live);
        let _entering = entered.entering();
        let viewer = Arc::clone(self) as Arc<dyn Viewer>;
        let slot = if known {
            live.rejoin(&viewer);
            None
        } else {
            live.join(viewer)
        };
        if !known && slot.is_none() {
            return Subscribed::PutAway;
        }
        let body = live.subscribe_reply(start.is_recovered());
        let from = start.position(Position { epoch: body.epoch, seq: body.seq });
        let reply = match Reply::ok(id, &body) {
            Ok(reply) => reply,
            Err(error) => Reply::error(Some(id), crate::error::internal(&error)),
        };
        let frame = text_frame(&reply.to_text());
        let mut out = self.out.lock();
        if out.phase != Phase::Open {
            drop(out);
            slot.into_iter().for_each(|slot| live.leave(slot));
            return Subscribed::Done;
        }
        out.send(self.line(), frame);
        match (out.subs.iter().position(|sub| sub.live.channel() == live.channel()), slot) {
            (Some(at), _) => out.subs[at].restart_at(from, encoding),
            (None, Some(slot)) => {
                out.subs.push(Sub::new(live, slot, from, encoding));
                self.door().metrics.viewers.inc();
            }
            (None, None) => {}
        }
        out.pump(self.line());
        Subscribed::Done
    }

    fn unsubscribe(&self, channel: u32) -> bool {
        let sub = {
            let mut out = self.out.lock();
            let Some(at) = out.subs.iter().position(|sub| sub.live.channel() == channel) else { return false };
            out.subs.swap_remove(at)
        };
        sub.live.leave(sub.slot);
        self.door().metrics.viewers.dec();
        true
    }

    fn resync(&self, id: u32, body: &Resync) -> bool {
        let mut out = self.out.lock();
        let Some(at) = out.subs.iter().position(|sub| sub.live.channel() == body.channel) else { return false };
        let ok = Reply { id: Some(id), result: Ok("{}".into()), position: None, is_replayed: false };
        out.send(self.line(), text_frame(&ok.to_text()));
        let current = out.subs[at].live.position();
        out.subs[at].rewind(resync::begin_at(body, current));
        out.pump(self.line());
        true
    }
}

impl std::fmt::Debug for Conn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conn").field("stream", &self.stream).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stays_small() {
        // The rest of the kilobyte is tokio's: its task and its registration, 256 bytes each before rounding.
        assert!(size_of::<Conn>() <= 240, "{} bytes", size_of::<Conn>());
        assert!(size_of::<crate::socket::task::Task>() <= 24);
        assert!(size_of::<Sub>() <= 32);
    }
}
