//! Listening to Redis: channels in, messages and gaps out. `seatmap` (changes, notices) and `sender` (pushes to identities)
//! each have connections of their own (`subscriber/ear.rs`), so that neither falls behind because of the other. In a cluster
//! a channel is sharded: it is heard at the master that serves its name, and followed when that is another one.

mod ear;

use crate::masters::{Connector, Masters};
use dashmap::DashMap;
use ear::{Context, Ear, Verb};
use fred::error::{Error, ErrorKind};
use fred::types::config::Config;
use futures_util::future::join_all;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// Channels of a cluster that are subscribed again at once.
const RESUBSCRIBE_BATCH: usize = 500;
/// Between two attempts for channels of a cluster that nobody serves now.
const RETRY: Duration = Duration::from_millis(250);
/// No master: a channel that is not subscribed.
const NOWHERE: u64 = 0;

/// Why a channel could not be subscribed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("redis subscriber: {0}")]
pub struct SubscriberError(String);

impl From<Error> for SubscriberError {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Channels of a cluster, each with the number of the ear that hears it.
type Channels = DashMap<String, u64>;

/// Whoever listens. Called by the task that reads, so it neither blocks nor waits.
pub trait Hear: std::fmt::Debug + Send + Sync {
    /// A message; those of a channel in order.
    fn message(&self, channel: &str, payload: &[u8]);
    /// Messages may have been lost on any channel.
    fn gap(&self);
}

/// Connections that listen; cheap to clone.
#[derive(Debug, Clone)]
pub struct Subscriber(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ears: Masters<EarConnector>,
    context: Context,
}

impl Subscriber {
    /// Connects; afterwards lost connections are made anew and their channels subscribed again.
    ///
    /// # Errors
    /// A bad URL, or Redis cannot be reached now.
    pub async fn connect(redis_url: &str, hear: Arc<dyn Hear>) -> Result<Self, SubscriberError> {
        let context = Context {
            hear,
            next: Arc::new(AtomicU64::new(NOWHERE + 1)),
            channels: Arc::default(),
            doubt: Arc::default(),
        };
        let ears = Masters::connect(redis_url, EarConnector(context.clone())).await?;
        let inner = Arc::new(Inner { ears, context });
        if inner.ears.is_cluster() {
            tokio::spawn(keep(Arc::downgrade(&inner), inner.ears.changes(), Arc::clone(&inner.context.doubt)));
        }
        Ok(Self(inner))
    }

    /// Subscribes; when this returns, whatever is published from then on is heard.
    ///
    /// # Errors
    /// When Redis does not answer in time. In a cluster the channel is subscribed as soon as its master answers all the same.
    pub async fn subscribe(&self, channel: &str) -> Result<(), SubscriberError> {
        let inner = &self.0;
        if inner.ears.is_cluster() {
            inner.context.channels.insert(channel.to_owned(), NOWHERE);
            if inner.listen_to(channel).await.is_ok() {
                return Ok(());
            }
            inner.ears.moved().await;
            let listened = inner.listen_to(channel).await;
            if listened.is_err() {
                inner.context.doubt.notify_one();
            }
            return listened;
        }
        for ear in inner.ears.all() {
            ear.ask(Verb::Subscribe, channel).await?;
        }
        Ok(())
    }

    /// Unsubscribes.
    ///
    /// # Errors
    /// When Redis does not answer in time.
    pub async fn unsubscribe(&self, channel: &str) -> Result<(), SubscriberError> {
        let inner = &self.0;
        if inner.ears.is_cluster() {
            let Some((_, number)) = inner.context.channels.remove(channel) else { return Ok(()) };
            // A master that no longer serves the channel has forgotten it by itself.
            if let Some(ear) = inner.ears.of(channel).filter(|ear| ear.number() == number) {
                ear.ask(Verb::UnsubscribeSharded, channel).await?;
            }
            return Ok(());
        }
        for ear in inner.ears.all() {
            ear.ask(Verb::Unsubscribe, channel).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Subscribes a channel of a cluster where it is served, if it is still wanted.
    async fn listen_to(&self, channel: &str) -> Result<(), SubscriberError> {
        let ear = self.ears.of(channel).ok_or_else(|| SubscriberError(format!("no master serves {channel}")))?;
        if !ear.is_connected() {
            return Err(SubscriberError(format!("the master of {channel} is away")));
        }
        ear.ask(Verb::SubscribeSharded, channel).await
    }

    /// Subscribes every channel that is not heard where it is served; whether there were any, and whether all are now.
    async fn follow(&self) -> (bool, bool) {
        let is_astray = |channel: &str, number: u64| self.ears.of(channel).is_none_or(|ear| ear.number() != number);
        let astray: Vec<String> = self
            .context
            .channels
            .iter()
            .filter(|entry| is_astray(entry.key(), *entry.value()))
            .map(|entry| entry.key().clone())
            .collect();
        let mut is_whole = true;
        for batch in astray.chunks(RESUBSCRIBE_BATCH) {
            for listened in join_all(batch.iter().map(|channel| self.listen_to(channel))).await {
                if let Err(error) = listened {
                    tracing::debug!(%error, "a channel could not be subscribed again");
                    is_whole = false;
                }
            }
        }
        (!astray.is_empty(), is_whole)
    }
}

/// Follows the channels of a cluster to the masters that serve them.
async fn keep(inner: Weak<Inner>, mut changes: tokio::sync::watch::Receiver<()>, doubt: Arc<Notify>) {
    let mut is_whole = true;
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = doubt.notified() => {}
            () = tokio::time::sleep(RETRY), if !is_whole => {}
        }
        let Some(inner) = inner.upgrade() else { return };
        let (had_astray, whole) = inner.follow().await;
        is_whole = whole;
        if had_astray {
            inner.context.hear.gap();
        }
    }
}

#[derive(Debug)]
struct EarConnector(Context);

impl Connector for EarConnector {
    type Link = Ear;

    async fn connect(&self, config: Config) -> Result<Ear, Error> {
        let ear = Ear::connect(config, self.0.clone()).await;
        ear.map_err(|error| Error::new(ErrorKind::IO, error.to_string()))
    }

    /// It ends with the last who holds it.
    async fn close(_: &Ear) {}
}
