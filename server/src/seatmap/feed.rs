//! Changes as they are published, one channel an event, routed to the live events of this node. Pub/sub is a hint: what
//! it loses (a cut connection, a lagging buffer) is found by the gap or the beat and read again from the store.

use super::live::LiveEvent;
use crate::inventory::{FeedMessage, key};
use crate::sender::text_frame;
use crate::subscriber::{Hear, Subscriber, SubscriberError};
use dashmap::DashMap;
use std::sync::Arc;

/// What is said on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    Changes,
    Notices,
    /// That the facts are old.
    Facts,
}

/// Routes what is heard to the live events.
#[derive(Debug)]
pub struct Feed {
    subscriber: Subscriber,
    routes: Arc<Routes>,
}

/// By channel.
#[derive(Debug, Default)]
struct Routes(DashMap<String, (Tells, Arc<LiveEvent>)>);

impl Feed {
    /// Connects and begins to listen.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn connect(redis_url: &str) -> Result<Arc<Self>, SubscriberError> {
        let routes = Arc::new(Routes::default());
        let subscriber = Subscriber::connect(redis_url, Arc::clone(&routes) as Arc<dyn Hear>).await?;
        Ok(Arc::new(Self { subscriber, routes }))
    }

    /// Begins to hear an event; changes before the answer may be missed, those after it are not.
    pub(super) async fn follow(&self, live: &Arc<LiveEvent>) -> Result<(), SubscriberError> {
        for (tells, channel) in channels(live) {
            self.routes.0.insert(channel.clone(), (tells, Arc::clone(live)));
            if let Err(error) = self.subscriber.subscribe(&channel).await {
                self.leave(live).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Hears the event no longer; one of the same event that was begun meanwhile goes on hearing.
    pub(super) async fn leave(&self, live: &LiveEvent) {
        for (_, channel) in channels(live) {
            if self.routes.0.remove_if(&channel, |_, (_, route)| std::ptr::eq(Arc::as_ptr(route), live)).is_none() {
                continue;
            }
            if let Err(error) = self.subscriber.unsubscribe(&channel).await {
                tracing::debug!(%error, channel, "could not unsubscribe");
            }
            // It was begun again between the look and the command: listen again, and look what was missed.
            let Some(next) = self.routes.0.get(&channel).map(|next| Arc::clone(&next.1)) else { continue };
            if let Err(error) = self.subscriber.subscribe(&channel).await {
                tracing::warn!(%error, channel, "could not subscribe again");
            }
            next.suspect();
        }
    }
}

impl Hear for Routes {
    fn gap(&self) {
        self.0.iter().for_each(|route| route.1.suspect());
    }

    fn message(&self, channel: &str, payload: &[u8]) {
        let Some((tells, live)) = self.0.get(channel).map(|route| route.clone()) else { return };
        match tells {
            Tells::Facts => live.facts_are_old(),
            Tells::Notices => match std::str::from_utf8(payload) {
                Ok(text) => {
                    let frame = text_frame(text);
                    tokio::spawn(async move { live.notify_all(&frame).await });
                }
                Err(_) => tracing::warn!(channel, "a notice that is not text"),
            },
            Tells::Changes => match FeedMessage::decode(payload) {
                Ok(change) => {
                    live.take(&change);
                }
                Err(error) => {
                    tracing::warn!(channel, %error, "a change that cannot be read");
                    live.suspect();
                }
            },
        }
    }
}

fn channels(live: &LiveEvent) -> [(Tells, String); 3] {
    [
        (Tells::Changes, key::feed_channel(live.id())),
        (Tells::Notices, crate::sender::notice_channel(live.id())),
        (Tells::Facts, crate::sender::facts_channel(live.id())),
    ]
}
