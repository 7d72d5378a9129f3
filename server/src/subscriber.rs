//! Listening to Redis: channels in, messages and gaps out. The only place that knows how our client library subscribes;
//! `seatmap` (changes, notices) and `sender` (pushes to identities) each have a connection of their own, so that neither
//! falls behind because of the other.

use bytes::Bytes;
use fred::clients::SubscriberClient;
use fred::prelude::*;
use fred::types::RespVersion;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Messages the library holds for us. When we lag behind so far, the rest is lost and told as a gap.
const BUFFERED_MESSAGES: usize = 8192;
/// Longest wait for a subscription.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// Between attempts to reach a Redis that is gone: 20 ms doubling to this, for ever.
const MAX_RECONNECT_MS: u32 = 500;
/// Channels named in one command after a reconnect.
const RESUBSCRIBE_BATCH: usize = 500;

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

/// A connection that listens; cheap to clone.
#[derive(Debug, Clone)]
pub struct Subscriber {
    client: SubscriberClient,
}

/// The messages of a subscriber, in order.
#[derive(Debug)]
pub struct Hearing {
    client: SubscriberClient,
    messages: Receiver<fred::types::Message>,
    reconnects: Receiver<fred::types::config::Server>,
}

impl Subscriber {
    /// Connects; afterwards lost connections are made anew and their channels subscribed again.
    ///
    /// # Errors
    /// A bad URL, or Redis cannot be reached now.
    pub async fn connect(redis_url: &str) -> Result<(Self, Hearing), SubscriberError> {
        let mut config = Config::from_url(redis_url)?;
        // Replies come in order with the pushes, so that a PING behind a SUBSCRIBE proves it.
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
        let hearing = Hearing { client: client.clone(), messages, reconnects };
        Ok((Self { client }, hearing))
    }

    /// Subscribes; when this returns, whatever is published from then on is heard.
    ///
    /// # Errors
    /// When Redis does not answer in time. The channel is subscribed at the next reconnect all the same.
    pub async fn subscribe(&self, channel: &str) -> Result<(), SubscriberError> {
        self.client.subscribe(channel).await?;
        self.client.ping::<()>(None).await?;
        Ok(())
    }

    /// Unsubscribes.
    ///
    /// # Errors
    /// When Redis does not answer in time.
    pub async fn unsubscribe(&self, channel: &str) -> Result<(), SubscriberError> {
        Ok(self.client.unsubscribe(channel).await?)
    }
}

impl Hearing {
    /// The next message; after a reconnect or a lag, first a gap.
    pub async fn next(&mut self) -> Heard {
        loop {
            tokio::select! {
                biased;
                reconnected = self.reconnects.recv() => {
                    if matches!(reconnected, Err(RecvError::Closed)) {
                        return Heard::End;
                    }
                    if self.resubscribe().await {
                        return Heard::Gap;
                    }
                }
                message = self.messages.recv() => match message {
                    Ok(message) => {
                        let channel = message.channel.to_string();
                        if let Some(payload) = message.value.into_bytes() {
                            return Heard::Message { channel, payload };
                        }
                    }
                    Err(RecvError::Lagged(lost)) => {
                        tracing::warn!(lost, "the feed lagged behind");
                        return Heard::Gap;
                    }
                    Err(RecvError::Closed) => return Heard::End,
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
