//! What ends or wakes sessions by time: one walk over all of them, instead of a timer each. Pings, missing hellos, half
//! messages, viewers that take nothing, peers that do not close.

use super::Door;
use super::conn::Conn;
use super::out::{CLOSE_WITHIN, MAX_BLOCKED, Phase};
use super::transport::Transport;
use super::wire;
use seatwire_proto::code::CloseCode;
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two walks. All limits here are seconds, and a walk over thirty thousand sessions costs a fortieth of
/// what ten thousand holds do.
const LONGEST_WALK: Duration = Duration::from_secs(2);
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
    let pause = (door.config.heartbeat / 4).min(door.config.hello_timeout / 2).min(LONGEST_WALK);
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
    let config = &conn.door().config;
    let mut out = conn.out.lock();
    // Most have said hello long ago: then the session, which lies elsewhere, is not looked at.
    if !out.is_greeted {
        drop(out);
        let (since_ms, is_greeted) = {
            let session = conn.session().lock();
            (session.awaits_hello_since(), session.is_greeted())
        };
        if since_ms.is_some_and(|since_ms| now_ms >= since_ms + millis(config.hello_timeout)) {
            conn.close(CloseCode::HelloTimeout);
        }
        out = conn.out.lock();
        out.is_greeted = is_greeted;
    }
    match out.phase {
        Phase::Gone => return,
        Phase::Closing | Phase::Closed => {
            if now_ms >= out.closing_since_ms() + millis(CLOSE_WITHIN) {
                out.give_up();
            }
            return;
        }
        Phase::Open => {}
    }
    if out.unfinished_since_ms() != 0 && now_ms >= out.unfinished_since_ms() + millis(MESSAGE_WITHIN) {
        out.close(conn.line(), CloseCode::Unknown);
    } else if out.blocked_since_ms() != 0 {
        // A ping behind a full socket would only be late.
        if now_ms >= out.blocked_since_ms() + millis(MAX_BLOCKED) {
            out.close(conn.line(), CloseCode::Slow);
        }
    } else if now_ms >= out.next_ping_ms {
        out.next_ping_ms = now_ms + millis(config.heartbeat);
        if out.unanswered_pings >= MAX_UNANSWERED {
            out.close(conn.line(), CloseCode::HeartbeatTimeout);
        } else {
            out.unanswered_pings += 1;
            out.send(conn.line(), wire::ping_frame());
        }
    } else if out.is_waiting() {
        out.pump(conn.line());
    }
}
