//! Publishes on the master that serves a channel, on connections of its own. The courier's batches and what everyone who
//! looks at an event is told come in here.

use crate::masters::line::Line;
use crate::masters::resp::encode_publish;
use crate::masters::{Connector, Masters};
use crate::metrics::{Metrics, StoreLabels, StoreName};
use fred::error::{Error, ErrorKind};
use fred::types::config::Config;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for a publication; a push that takes longer is worth nothing.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// Between two looks whether Redis is back.
const RECONNECT_LOOK: Duration = Duration::from_millis(20);

/// Publishes on the master that serves a channel.
pub(super) struct Publisher {
    masters: Masters<PublisherConnector>,
    /// The last publication failed: said once an outage.
    is_failing: AtomicBool,
    metrics: Arc<Metrics>,
}

impl Publisher {
    /// Connects to every master.
    pub(super) async fn connect(redis_url: &str, metrics: Arc<Metrics>) -> Result<Self, Error> {
        let masters = Masters::connect(redis_url, PublisherConnector).await?;
        Ok(Self { masters, is_failing: AtomicBool::new(false), metrics })
    }

    /// Whether a channel belongs to one of several masters.
    pub(super) fn is_cluster(&self) -> bool {
        self.masters.is_cluster()
    }

    /// What is counted of it.
    pub(super) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Publishes once, and once more when the channel's master is another one now. Returns how many heard it, of a cluster
    /// those at the channel's master; `None` when Redis does not answer, and the push is lost.
    pub(super) async fn publish(&self, channel: &str, payload: &[u8]) -> Option<u64> {
        let mut published = self.try_publish(channel, payload).await;
        if published.as_ref().is_err_and(|error| error.starts_with("MOVED")) {
            self.masters.moved().await;
            published = self.try_publish(channel, payload).await;
        }
        let was_failing = self.is_failing.swap(published.is_err(), Ordering::Relaxed);
        match published {
            Ok(listeners) => Some(listeners),
            Err(error) => {
                self.metrics.store_failures.get_or_create(&StoreLabels { store: StoreName::redis }).inc();
                if !was_failing {
                    tracing::warn!(error, channel, "pushes cannot be published");
                }
                None
            }
        }
    }

    async fn try_publish(&self, channel: &str, payload: &[u8]) -> Result<u64, String> {
        let line = self.masters.of(channel).ok_or_else(|| "no master serves the channel".to_owned())?;
        // A cut of a moment loses nothing.
        let waited = Instant::now();
        while !line.is_connected() && waited.elapsed() < COMMAND_TIMEOUT {
            tokio::time::sleep(RECONNECT_LOOK).await;
        }
        let is_sharded = self.masters.is_cluster();
        let answer = line.ask(|out| encode_publish(out, is_sharded, channel, payload)).await;
        let listeners = answer.map_err(|error| error.to_string())??;
        Ok(listeners.as_u64().unwrap_or_default())
    }
}

#[derive(Debug)]
struct PublisherConnector;

impl Connector for PublisherConnector {
    type Link = Line;

    async fn connect(&self, config: Config) -> Result<Line, Error> {
        let line = Line::connect(config, COMMAND_TIMEOUT).await;
        line.map_err(|error| Error::new(ErrorKind::IO, error.to_string()))
    }

    /// It ends with the last who holds it.
    async fn close(_: &Line) {}
}
