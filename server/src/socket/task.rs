//! The task of one connection: reads into a buffer that all connections of a thread share, and finishes writes the kernel
//! did not take. It holds nothing while it sleeps but a pointer and, seldom, an unfinished message.

use super::conn::Conn;
use super::out::Phase;
use super::transport::Transport;
use super::wire::{self, Assembly};
use crate::slots::Slot;
use socket2::SockRef;
use std::cell::RefCell;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::Interest;

/// Bytes read at once: a whole command fits several times.
const SCRATCH_BYTES: usize = 16 << 10;
/// Reads of one connection before others get their turn.
const READS_PER_TURN: u32 = 8;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// Runs until the connection is over.
pub(super) struct Task {
    conn: Arc<Conn>,
    place: Slot,
    assembly: Option<Box<Assembly>>,
}

impl Task {
    pub(super) const fn new(conn: Arc<Conn>, place: Slot) -> Self {
        Self { conn, place, assembly: None }
    }

    /// Takes bytes that came with the handshake.
    pub(super) fn feed(&mut self, mut bytes: Vec<u8>) {
        self.take(&mut bytes);
    }

    fn take(&mut self, bytes: &mut [u8]) {
        let conn = &self.conn;
        let result = wire::receive(&mut self.assembly, bytes, |inbound| {
            conn.receive(&inbound);
            if conn.out.lock().phase == Phase::Open { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Err(code) = result {
            conn.close(code);
        }
        let unfinished = self.assembly.is_some().then(|| conn.door().now_ms().max(1));
        conn.out.lock().set_unfinished(unfinished);
    }

    /// Writes what waits for a writable socket; whether the connection is over.
    fn poll_out(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut out = self.conn.out.lock();
        out.set_waker(cx.waker());
        loop {
            if out.phase == Phase::Gone {
                return Poll::Ready(());
            }
            if !out.is_blocked() {
                // Behind although the socket takes everything: caught up now. A snapshot that must wait for its time is
                // sent by the heartbeat.
                if out.is_waiting() {
                    out.pump(self.conn.line());
                }
                if !out.is_blocked() {
                    return Poll::Pending;
                }
            }
            match self.conn.stream.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => out.pump(self.conn.line()),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads once. A read that did not fill the buffer drained the socket, which the runtime is told at once: else each
    /// command would cost a second read that fails. It is told from within the read, so that what comes meanwhile counts.
    fn read(&self, scratch: &mut [u8]) -> io::Result<usize> {
        let mut short = None;
        let read = self.conn.stream.try_io(Interest::READABLE, || {
            let read = (&*SockRef::from(&self.conn.stream)).read(scratch)?;
            if read == 0 || read == scratch.len() {
                return Ok(read);
            }
            short = Some(read);
            Err(io::ErrorKind::WouldBlock.into())
        });
        short.map_or(read, Ok)
    }

    /// Reads what came; whether the connection is over.
    fn poll_in(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..READS_PER_TURN {
            match self.conn.stream.poll_read_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
            let is_over = SCRATCH.with_borrow_mut(|scratch| match self.read(scratch) {
                Ok(0) => true,
                Ok(read) => {
                    // Once we said goodbye, whatever still comes is thrown away.
                    if self.conn.out.lock().phase == Phase::Open {
                        self.take(&mut scratch[..read]);
                    }
                    false
                }
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            });
            if is_over {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_out(cx).is_ready() || self.poll_in(cx).is_ready() {
            return Poll::Ready(());
        }
        // What was just read may have led to a write the kernel did not take, or to the end.
        self.poll_out(cx)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.conn.end(self.place);
    }
}
