//! What ends or wakes sessions by time: one walk over all of them, instead of a timer each. Pings, missing hellos, half
//! messages, viewers that take nothing, peers that do not close.

use super::Door;
use super::conn::Conn;
use super::out::{CLOSE_WITHIN, MAX_BLOCKED, Phase};
use super::transport::Transport;
use super::wire;
use seatwire_proto::code::CloseCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest time between two walks; all limits here are seconds.
const LONGEST_WALK: Duration = Duration::from_secs(1);
/// Sessions looked at before others get the thread.
const CHUNK: usize = 512;
/// Pings without an answer that end a session.
const MAX_UNANSWERED: u8 = 2;
/// A message must be whole within this time of its first byte.
const MESSAGE_WITHIN: Duration = Duration::from_secs(5);

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

/// Walks for ever.
pub(super) async fn run(door: Arc<Door>) {
    let pause = (door.config.heartbeat / 4).min(door.config.hello_timeout / 4).min(LONGEST_WALK);
    let mut chunk: Vec<Arc<Conn>> = Vec::new();
    loop {
        tokio::time::sleep(pause).await;
        let place_count = door.sessions.place_count();
        for at in (0..place_count).step_by(CHUNK) {
            door.sessions.copy(at..at + CHUNK, &mut chunk);
            let now_ms = door.now_ms();
            for conn in chunk.drain(..) {
                look(&conn, now_ms);
            }
            tokio::task::yield_now().await;
        }
    }
}

fn look(conn: &Conn, now_ms: u64) {
    let door = &conn.door;
    let (phase, is_clear) = {
        let mut out = conn.out.lock();
        match out.phase {
            Phase::Gone => return,
            Phase::Closing | Phase::Closed => {
                if now_ms >= out.closing_since_ms + millis(CLOSE_WITHIN) {
                    out.give_up();
                }
                return;
            }
            Phase::Open => {}
        }
        if out.blocked_since_ms != 0 && now_ms >= out.blocked_since_ms + millis(MAX_BLOCKED) {
            out.close(conn.line(), CloseCode::Slow);
            return;
        }
        if out.is_waiting() {
            out.pump(conn.line());
        }
        (out.phase, out.blocked_since_ms == 0)
    };
    if phase != Phase::Open {
        return;
    }
    if let Some(since_ms) = conn.session().lock().awaits_hello_since()
        && now_ms >= since_ms + millis(door.config.hello_timeout)
    {
        conn.close(CloseCode::HelloTimeout);
        return;
    }
    let partial_since_ms = conn.partial_since_ms.load(Ordering::Relaxed);
    if partial_since_ms != 0 && now_ms >= partial_since_ms + millis(MESSAGE_WITHIN) {
        conn.close(CloseCode::Unknown);
        return;
    }
    // A ping behind a full socket would only be late; whoever takes nothing is ended above.
    if is_clear {
        beat(conn, now_ms);
    }
}

fn beat(conn: &Conn, now_ms: u64) {
    let is_dead = {
        let mut pulse = conn.pulse.lock();
        if now_ms < pulse.next_ping_ms {
            return;
        }
        pulse.next_ping_ms = now_ms + millis(conn.door.config.heartbeat);
        let is_dead = pulse.unanswered >= MAX_UNANSWERED;
        pulse.unanswered += 1;
        is_dead
    };
    if is_dead {
        conn.close(CloseCode::HeartbeatTimeout);
    } else {
        conn.send(wire::ping_frame());
    }
}
