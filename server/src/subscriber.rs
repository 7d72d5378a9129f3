//! Listening to Redis: channels in, messages and gaps out. The only place that knows how our client library subscribes;
//! `seatmap` (changes, notices) and `sender` (pushes to identities) each have connections of their own, so that neither
//! falls behind because of the other. In a cluster a channel is sharded: it is heard at the master that serves its name,
//! and followed when that is another one.

use crate::masters::{Connector, Masters};
use bytes::Bytes;
use dashmap::DashMap;
use fred::clients::SubscriberClient;
use fred::prelude::*;
use fred::types::RespVersion;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, mpsc};

/// Messages the library holds for us. When we lag behind so far, the rest is lost and told as a gap.
const BUFFERED_MESSAGES: usize = 8192;
/// Messages on the way from the masters to whoever hears; behind them the library's buffer fills.
const MERGED_MESSAGES: usize = 64;
/// Longest wait for a subscription.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// Between attempts to reach a Redis that is gone: 20 ms doubling to this, for ever.
const MAX_RECONNECT_MS: u32 = 500;
/// Channels named in one command after a reconnect; of a cluster, where each takes its own, commands under way.
const RESUBSCRIBE_BATCH: usize = 500;
/// Between two attempts for channels of a cluster that nobody serves now.
const RETRY: Duration = Duration::from_millis(250);
/// No master: a channel that is not subscribed.
const NOWHERE: u64 = 0;

/// Why a channel could not be subscribed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("redis subscriber: {0}")]
pub struct SubscriberError(String);

impl From<fred::error::Error> for SubscriberError {
    fn from(error: fred::error::Error) -> Self {
        Self(error.to_string())
    }
}

/// What came in.
#[derive(Debug)]
pub enum Heard {
    /// A message.
    Message {
        /// Where it was published.
        channel: String,
        /// Its bytes.
        payload: Bytes,
    },
    /// Messages may have been lost on any channel.
    Gap,
    /// The client is gone.
    End,
}

/// Connections that listen; cheap to clone.
#[derive(Debug, Clone)]
pub struct Subscriber(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ears: Masters<EarConnector>,
    /// Channels of a cluster, each with the number of the ear that hears it.
    channels: DashMap<String, u64>,
    /// Says that a channel may have to be subscribed again.
    doubt: Arc<Notify>,
    heard: mpsc::Sender<Heard>,
}

/// The messages of a subscriber, those of each channel in order.
#[derive(Debug)]
pub struct Hearing(mpsc::Receiver<Heard>);

impl Hearing {
    /// The next message; after a reconnect or a lag, first a gap.
    pub async fn next(&mut self) -> Heard {
        self.0.recv().await.unwrap_or(Heard::End)
    }
}

impl Subscriber {
    /// Connects; afterwards lost connections are made anew and their channels subscribed again.
    ///
    /// # Errors
    /// A bad URL, or Redis cannot be reached now.
    pub async fn connect(redis_url: &str) -> Result<(Self, Hearing), SubscriberError> {
        let (heard, hearing) = mpsc::channel(MERGED_MESSAGES);
        let doubt = Arc::new(Notify::new());
        let connector = EarConnector {
            heard: heard.clone(),
            doubt: Arc::clone(&doubt),
            next: Arc::new(AtomicU64::new(NOWHERE + 1)),
        };
        let ears = Masters::connect(redis_url, connector).await?;
        let inner = Arc::new(Inner { ears, channels: DashMap::new(), doubt, heard });
        if inner.ears.is_cluster() {
            tokio::spawn(keep(Arc::downgrade(&inner), inner.ears.changes(), Arc::clone(&inner.doubt)));
        }
        Ok((Self(inner), Hearing(hearing)))
    }

    /// Subscribes; when this returns, whatever is published from then on is heard.
    ///
    /// # Errors
    /// When Redis does not answer in time. In a cluster the channel is subscribed as soon as its master answers all the same.
    pub async fn subscribe(&self, channel: &str) -> Result<(), SubscriberError> {
        let inner = &self.0;
        if inner.ears.is_cluster() {
            inner.channels.insert(channel.to_owned(), NOWHERE);
            if inner.listen_to(channel).await.is_ok() {
                return Ok(());
            }
            inner.ears.moved().await;
            let listened = inner.listen_to(channel).await;
            if listened.is_err() {
                inner.doubt.notify_one();
            }
            return listened;
        }
        for ear in inner.ears.all() {
            ear.client.subscribe(channel).await?;
            // Replies come in order with the pushes, so that a PING behind a SUBSCRIBE proves it.
            ear.client.ping::<()>(None).await?;
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
            let Some((_, number)) = inner.channels.remove(channel) else { return Ok(()) };
            // A master that no longer serves the channel has forgotten it by itself.
            if let Some(ear) = inner.ears.of(channel).filter(|ear| ear.number() == number) {
                ear.client.sunsubscribe(channel).await?;
            }
            return Ok(());
        }
        for ear in inner.ears.all() {
            ear.client.unsubscribe(channel).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Subscribes a channel of a cluster where it is served, if it is still wanted.
    async fn listen_to(&self, channel: &str) -> Result<(), SubscriberError> {
        let ear = self.ears.of(channel).ok_or_else(|| SubscriberError(format!("no master serves {channel}")))?;
        if !ear.client.is_connected() {
            return Err(SubscriberError(format!("the master of {channel} is away")));
        }
        // Before the command: if the connection is made anew meanwhile, the channel counts as astray.
        let number = ear.number();
        // One channel a command: the library waits for one answer, and Redis gives one a channel.
        ear.client.ssubscribe(channel).await?;
        if let Some(mut heard_by) = self.channels.get_mut(channel) {
            *heard_by = number;
        }
        Ok(())
    }

    /// Subscribes every channel that is not heard where it is served; whether there were any, and whether all are now.
    async fn follow(&self) -> (bool, bool) {
        let is_astray = |channel: &str, number: u64| self.ears.of(channel).is_none_or(|ear| ear.number() != number);
        let astray: Vec<String> = self
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
        if had_astray && inner.heard.send(Heard::Gap).await.is_err() {
            return;
        }
    }
}

#[derive(Debug)]
struct EarConnector {
    heard: mpsc::Sender<Heard>,
    doubt: Arc<Notify>,
    next: Arc<AtomicU64>,
}

/// A connection that listens to one Redis.
#[derive(Debug)]
struct Ear {
    client: SubscriberClient,
    /// Another one after every reconnect, as the channels of the connection before are gone.
    number: Arc<AtomicU64>,
}

impl Ear {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

impl Connector for EarConnector {
    type Link = Ear;

    async fn connect(&self, mut config: Config) -> Result<Ear, fred::error::Error> {
        // Replies come in order with the pushes.
        config.version = RespVersion::RESP3;
        let client = Builder::from_config(config)
            .with_performance_config(|performance| {
                performance.broadcast_channel_capacity = BUFFERED_MESSAGES;
                performance.default_command_timeout = COMMAND_TIMEOUT;
            })
            .with_connection_config(|connection| {
                connection.connection_timeout = COMMAND_TIMEOUT;
                connection.internal_command_timeout = COMMAND_TIMEOUT;
            })
            .set_policy(ReconnectPolicy::new_exponential(0, 20, MAX_RECONNECT_MS, 2))
            .build_subscriber_client()?;
        let messages = client.message_rx();
        client.init().await?;
        let reconnects = client.reconnect_rx();
        let number = Arc::new(AtomicU64::new(self.next.fetch_add(1, Ordering::Relaxed)));
        let listening = Listening {
            client: client.clone(),
            messages,
            reconnects,
            number: Arc::clone(&number),
            next: Arc::clone(&self.next),
            doubt: Arc::clone(&self.doubt),
        };
        tokio::spawn(listening.run(self.heard.clone()));
        Ok(Ear { client, number })
    }

    async fn close(link: &Ear) {
        if let Err(error) = link.client.quit().await {
            tracing::debug!(%error, "a master's connection could not be closed");
        }
    }
}

/// The task that takes what one connection hears to whoever listens.
#[derive(Debug)]
struct Listening {
    client: SubscriberClient,
    messages: Receiver<fred::types::Message>,
    reconnects: Receiver<fred::types::config::Server>,
    number: Arc<AtomicU64>,
    next: Arc<AtomicU64>,
    doubt: Arc<Notify>,
}

impl Listening {
    /// Until the client is gone, or nobody listens any more.
    async fn run(mut self, heard: mpsc::Sender<Heard>) {
        while let Some(next) = self.next().await {
            if heard.send(next).await.is_err() {
                return;
            }
        }
    }

    /// The next message; after a reconnect or a lag, first a gap.
    async fn next(&mut self) -> Option<Heard> {
        loop {
            tokio::select! {
                biased;
                reconnected = self.reconnects.recv() => {
                    if matches!(reconnected, Err(RecvError::Closed)) {
                        return None;
                    }
                    // Sharded channels are followed by `keep`, which also tells the gap.
                    self.number.store(self.next.fetch_add(1, Ordering::Relaxed), Ordering::Release);
                    self.doubt.notify_one();
                    if self.resubscribe().await {
                        return Some(Heard::Gap);
                    }
                }
                message = self.messages.recv() => match message {
                    Ok(message) => {
                        let channel = message.channel.to_string();
                        if let Some(payload) = message.value.into_bytes() {
                            return Some(Heard::Message { channel, payload });
                        }
                    }
                    Err(RecvError::Lagged(lost)) => {
                        tracing::warn!(lost, "the feed lagged behind");
                        return Some(Heard::Gap);
                    }
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }

    /// Whether all channels are subscribed again; if not, the next reconnect tries anew.
    async fn resubscribe(&self) -> bool {
        let channels: Vec<Key> = self.client.tracked_channels().into_iter().map(Into::into).collect();
        for batch in channels.chunks(RESUBSCRIBE_BATCH) {
            if let Err(error) = self.client.subscribe(batch.to_vec()).await {
                tracing::warn!(%error, "channels could not be subscribed again");
                return false;
            }
        }
        match self.client.ping::<()>(None).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "channels could not be subscribed again");
                false
            }
        }
    }
}
