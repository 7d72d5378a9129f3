//! One signal from the outside, many listeners inside: not ready, draining, gone.

use std::time::Duration;
use tokio::sync::watch;

/// How far the node is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Serving,
    /// Told to stop: not ready, no new sockets, viewers are asked to leave.
    Draining,
    /// Viewers are gone or out of time: jobs stop and stores close.
    Stopping,
}

/// The node's way out; cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A node that serves.
    #[must_use]
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Serving) }
    }

    /// Moves on; never back.
    pub fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let moves = *phase < to;
            if moves {
                *phase = to;
            }
            moves
        });
    }

    /// Where the node is now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until the node is at least there.
    pub async fn reached(&self, at_least: Phase) {
        let mut phase = self.phase.subscribe();
        // The sender lives in `self`, so the wait can only end by reaching the phase.
        let _ = phase.wait_for(|phase| *phase >= at_least).await;
    }

    /// Waits until the node stops, and so much longer: what is under way then has had its time.
    pub async fn stopping_for(&self, patience: Duration) {
        self.reached(Phase::Stopping).await;
        tokio::time::sleep(patience).await;
    }
}

/// Waits for SIGTERM or Ctrl-C.
///
/// # Errors
/// When the process may not listen for signals.
pub async fn signal() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}
