//! Changes as they are published, one channel an event, routed to the live events of this node. Pub/sub is a hint: what
//! it loses (a cut connection, a lagging buffer) is found by the gap or the beat and read again from the store.

use super::live::LiveEvent;
use crate::inventory::{FeedMessage, key};
use crate::sender::text_frame;
use crate::subscriber::{Heard, Hearing, Subscriber, SubscriberError};
use dashmap::DashMap;
use std::sync::Arc;

/// Routes what is heard to the live events.
#[derive(Debug)]
pub struct Feed {
    subscriber: Subscriber,
    routes: DashMap<String, Arc<LiveEvent>>,
}

impl Feed {
    /// Connects and begins to listen.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn connect(redis_url: &str) -> Result<Arc<Self>, SubscriberError> {
        let (subscriber, hearing) = Subscriber::connect(redis_url).await?;
        let feed = Arc::new(Self { subscriber, routes: DashMap::new() });
        tokio::spawn(Arc::clone(&feed).listen(hearing));
        Ok(feed)
    }

    /// Begins to hear an event; changes before the answer may be missed, those after it are not.
    pub(super) async fn follow(&self, live: &Arc<LiveEvent>) -> Result<(), SubscriberError> {
        for channel in channels(live) {
            self.routes.insert(channel.clone(), Arc::clone(live));
            if let Err(error) = self.subscriber.subscribe(&channel).await {
                self.leave(live).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Hears the event no longer; one of the same event that was begun meanwhile goes on hearing.
    pub(super) async fn leave(&self, live: &LiveEvent) {
        for channel in channels(live) {
            if self.routes.remove_if(&channel, |_, route| std::ptr::eq(Arc::as_ptr(route), live)).is_none() {
                continue;
            }
            if let Err(error) = self.subscriber.unsubscribe(&channel).await {
                tracing::debug!(%error, channel, "could not unsubscribe");
            }
            // It was begun again between the look and the command: listen again, and look what was missed.
            let Some(next) = self.routes.get(&channel).map(|next| Arc::clone(&next)) else { continue };
            if let Err(error) = self.subscriber.subscribe(&channel).await {
                tracing::warn!(%error, channel, "could not subscribe again");
            }
            next.suspect();
        }
    }

    async fn listen(self: Arc<Self>, mut hearing: Hearing) {
        loop {
            match hearing.next().await {
                Heard::Message { channel, payload } => self.route(&channel, &payload),
                Heard::Gap => self.routes.iter().for_each(|live| live.suspect()),
                Heard::End => return,
            }
        }
    }

    fn route(&self, channel: &str, payload: &[u8]) {
        let Some(live) = self.routes.get(channel).map(|live| Arc::clone(&live)) else { return };
        if channel == crate::sender::facts_channel(live.id()) {
            live.facts_are_old();
            return;
        }
        if channel == notice_channel(&live) {
            match std::str::from_utf8(payload) {
                Ok(text) => {
                    let frame = text_frame(text);
                    tokio::spawn(async move { live.notify_all(&frame).await });
                }
                Err(_) => tracing::warn!(channel, "a notice that is not text"),
            }
            return;
        }
        match FeedMessage::decode(payload) {
            Ok(change) => {
                live.take(&change);
            }
            Err(error) => {
                tracing::warn!(channel, %error, "a change that cannot be read");
                live.suspect();
            }
        }
    }
}

fn notice_channel(live: &LiveEvent) -> String {
    crate::sender::notice_channel(live.id())
}

fn channels(live: &LiveEvent) -> [String; 3] {
    [key::feed_channel(live.id()), notice_channel(live), crate::sender::facts_channel(live.id())]
}
