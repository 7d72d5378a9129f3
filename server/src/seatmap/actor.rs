//! The life of a live event: wait for changes, tick, beacon, look at the store when something may have been lost, and
//! end when nobody has looked for minutes. One task an event; asleep while nothing happens.

use super::Shared;
use super::batch::Pace;
use super::board::{Applied, Board};
use super::hub::{Delivery, MapFrame};
use super::live::{HOT_FOR, LiveEvent};
use crate::inventory::InventoryError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After the last frame of a hot event. The protocol says 1 s; the rest is for the round itself.
const HOT_BEACON: Duration = Duration::from_millis(900);
/// After the last frame of a quiet one. The protocol says 5 s.
const QUIET_BEACON: Duration = Duration::from_millis(4_500);
/// Between looks at the store, to find a silent loss: hot events.
const HOT_BEAT: Duration = Duration::from_millis(500);
/// Quiet events with viewers: within the 6 s in which every viewer must be right again.
const QUIET_BEAT: Duration = Duration::from_secs(4);
/// Events without viewers, which only answer HTTP.
const UNSEEN_BEAT: Duration = Duration::from_secs(20);
/// Without viewers and changes for so long, an event is put away.
const PUT_AWAY_AFTER: Duration = Duration::from_secs(300);
/// Changes that go on arriving while they are read are read again so often before the whole map is taken.
const MAX_CHANGE_READS: u32 = 3;
/// Between looks while the store does not answer.
const RETRY: Duration = Duration::from_millis(250);

/// Runs the event until it is put away or the node stops.
pub(super) async fn run(shared: Arc<Shared>, live: Arc<LiveEvent>) {
    let mut actor = Actor {
        pace: Pace::new(shared.config.tick_min, shared.config.tick_max),
        next_tick: Instant::now(),
        last_cut: Instant::now(),
        next_beat: Instant::now() + QUIET_BEAT,
        last_seen: Instant::now(),
        shared,
        live,
    };
    loop {
        let wake = actor.step().await;
        let Some(wake) = wake else { break };
        tokio::select! {
            () = actor.live.nudge.notified() => {}
            () = tokio::time::sleep_until(wake.into()) => {}
        }
    }
}

struct Actor {
    shared: Arc<Shared>,
    live: Arc<LiveEvent>,
    pace: Pace,
    next_tick: Instant,
    last_cut: Instant,
    next_beat: Instant,
    last_seen: Instant,
}

impl Actor {
    /// Does what is due; when to look again, `None` when the event was put away.
    async fn step(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let viewer_count = self.live.viewer_count();
        if viewer_count > 0 {
            self.last_seen = now;
        }
        let is_behind = self.live.is_behind();
        if is_behind {
            self.shared.metrics.feed_gaps.inc();
        }
        if is_behind || now >= self.next_beat {
            self.look().await;
        }
        if std::mem::take(&mut self.live.core.lock().is_restarted) {
            let channel = self.live.channel();
            self.live
                .hub
                .each(|viewer| {
                    viewer.restart(channel);
                    Delivery::Sent
                })
                .await;
        }
        let now = Instant::now();
        if now >= self.next_tick
            && let Some((frame, since_ms)) = self.live.cut()
        {
            self.send(&frame, since_ms).await;
            let changes = frame.seq_to.saturating_sub(frame.seq_from) + 1;
            let took = now.duration_since(std::mem::replace(&mut self.last_cut, now)).max(self.shared.config.tick_min);
            self.next_tick = now + self.pace.tick(viewer_count, changes as f64 / took.as_secs_f64());
        }
        let (last_frame, last_change, is_dirty) = {
            let core = self.live.core.lock();
            (core.last_frame, core.last_change, core.board.position() != core.sent)
        };
        let now = Instant::now();
        let is_hot = now.duration_since(last_change) < HOT_FOR;
        let mut wake = self.next_beat;
        if is_dirty {
            wake = wake.min(self.next_tick);
        } else if viewer_count > 0 {
            let due = last_frame + if is_hot { HOT_BEACON } else { QUIET_BEACON };
            if now >= due {
                let beacon = self.live.beacon();
                self.send(&beacon, None).await;
                wake = wake.min(Instant::now() + if is_hot { HOT_BEACON } else { QUIET_BEACON });
            } else {
                wake = wake.min(due);
            }
        }
        let is_unused = viewer_count == 0
            && now.duration_since(self.last_seen) > PUT_AWAY_AFTER
            && now.duration_since(last_change) > PUT_AWAY_AFTER;
        if is_unused && self.live.hub.close_if_empty() {
            self.shared.put_away(&self.live).await;
            return None;
        }
        Some(wake)
    }

    async fn send(&mut self, frame: &MapFrame, since_ms: Option<u64>) {
        let began = Instant::now();
        let round = self.live.hub.each(|viewer| viewer.deliver(frame)).await;
        self.pace.measured(round, began.elapsed());
        let metrics = &self.shared.metrics;
        metrics.deliveries.inc_by(round.sent);
        metrics.delivered_bytes.inc_by(round.sent * frame.bytes.len() as u64);
        if let Some(since_ms) = since_ms {
            metrics.ticks.inc();
            let waited_ms = self.shared.clock.now_ms().saturating_sub(since_ms);
            metrics.commit_to_fanout_seconds.observe(waited_ms as f64 / 1_000.0);
        }
    }

    /// Asks the store what is missing.
    async fn look(&mut self) {
        self.live.core.lock().is_suspect = false;
        match catch_up(&self.shared, &self.live).await {
            Ok(()) => {
                let is_hot = self.live.core.lock().last_change.elapsed() < HOT_FOR;
                let beat = match (self.live.viewer_count(), is_hot) {
                    (0, false) => UNSEEN_BEAT,
                    (_, true) => HOT_BEAT,
                    (_, false) => QUIET_BEAT,
                };
                self.next_beat = Instant::now() + beat;
            }
            Err(error) => {
                tracing::debug!(event = %self.live.id(), %error, "the map could not be compared with the store");
                self.next_beat = Instant::now() + RETRY;
            }
        }
    }
}

/// Brings the board to where the store is: by its changes where they are still there, else by the whole map.
async fn catch_up(shared: &Shared, live: &LiveEvent) -> Result<(), InventoryError> {
    let facts = live.facts();
    for _ in 0..MAX_CHANGE_READS {
        let Some(changes) = shared.source.changes_since(&facts, live.position()).await? else { break };
        let is_whole = changes.iter().all(|change| live.take(change) != Applied::Gap);
        if is_whole && !live.is_behind() {
            return Ok(());
        }
    }
    let map = shared.source.read_map(&facts).await?;
    let board = Board::new(&facts, &map, shared.clock.now_ms())
        .map_err(|error| InventoryError::Malformed(error.to_string()))?;
    live.replace(board);
    Ok(())
}
