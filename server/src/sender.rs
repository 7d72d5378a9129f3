//! What a session is told besides answers: pushes to one identity wherever its sockets are, to everyone who looks at an
//! event, to all. Rooms above publish; sessions register as recipients. This node's sockets are told at once. To the other
//! nodes, if there are any (`sender/company.rs`), pushes travel by Redis: those to identities in batches that every node
//! hears (`sender/courier.rs`), those to an event on a channel of its own. They are hints: what matters is read again at the
//! next `hello`.

mod company;
mod courier;
mod ends;
mod listeners;
mod publisher;

use crate::metrics::Metrics;
use crate::subscriber::{Hear, Subscriber, SubscriberError};
use bytes::Bytes;
use company::Company;
use courier::Courier;
pub use courier::cluster_channel;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use ends::Ends;
use listeners::Listeners;
use parking_lot::RwLock;
use publisher::Publisher;
use seatwire_proto::client::Position;
use seatwire_proto::code::CloseCode;
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId, SessionId};
use seatwire_proto::server::{Order, OrderState, Push};
use std::sync::Arc;

/// Somebody who is told things.
pub trait Recipient: Send + Sync {
    /// Which session.
    fn session_id(&self) -> SessionId;
    /// Takes a framed text; neither blocks nor waits.
    fn tell(&self, text: &Bytes);
    /// Ends the session.
    fn dismiss(&self, code: CloseCode);
}

/// What a push changes, and its place among others about the same, so that pushes that meet in the wrong order can be told
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A hold, at this moment of its event's life.
    Hold { hold: HoldId, at: Position },
    /// The hold is over, at this moment if that is known. Nothing follows but, where Redis lost that it ended, the same hold in
    /// a later life of the event.
    HoldEnd { hold: HoldId, at: Option<Position> },
    /// The hold was taken away: nothing to whoever knows that it was over before.
    HoldLoss { hold: HoldId },
    /// An order, by the number of what caused the push.
    Order { order: OrderId, at: u64, is_final: bool },
}

impl Change {
    fn of(push: &Push, at: Option<Position>) -> Option<Self> {
        match push {
            Push::HoldUpdate { id, hold: None } => Some(Self::HoldEnd { hold: *id, at }),
            Push::HoldUpdate { id, .. } => Some(Self::Hold { hold: *id, at: at? }),
            Push::HoldRevoked { hold, .. } => Some(Self::HoldLoss { hold: hold.id }),
            _ => None,
        }
    }
}

/// Whether an order that stands so never again waits for its payment: whatever says so is older.
const fn is_final(state: OrderState) -> bool {
    match state {
        OrderState::PaymentPending
        | OrderState::ActionRequired
        | OrderState::PaymentDeclined
        | OrderState::PaymentUnknown => false,
        OrderState::Paid
        | OrderState::Cancelled
        | OrderState::RefundDue
        | OrderState::PartiallyRefunded
        | OrderState::Refunded => true,
    }
}

/// A push about what a session asked for: it gets it together with its reply, the others of the identity at that moment.
#[derive(Debug)]
pub struct OwnPush {
    identity: IdentityId,
    session: SessionId,
    change: Option<Change>,
    frame: Bytes,
}

/// Publishes and delivers; cheap to clone.
#[derive(Clone)]
pub struct Sender {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("identities", &self.inner.identities.0.len()).finish_non_exhaustive()
    }
}

struct Inner {
    /// `None` in tests and benches on one node without Redis: pushes stay local.
    remote: Option<Remote>,
    identities: Arc<Identities>,
    ends: Ends,
    everyone: RwLock<Option<Arc<dyn Everyone>>>,
}

/// The sessions of every identity here.
#[derive(Default)]
struct Identities(DashMap<IdentityId, Listeners>);

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identities").field("len", &self.0.len()).finish()
    }
}

impl Identities {
    fn tell(&self, identity: IdentityId, change: Option<&Change>, frame: &Bytes) {
        if let Some(mut listeners) = self.0.get_mut(&identity) {
            listeners.tell(change, None, frame);
        }
    }
}

/// Hears the batches of other nodes.
#[derive(Debug)]
struct Post {
    company: Arc<Company>,
    identities: Arc<Identities>,
}

impl Hear for Post {
    fn message(&self, _: &str, payload: &[u8]) {
        let unread = courier::unpack(&self.company, payload, |identity, change, frame| {
            if self.identities.0.contains_key(&identity) {
                self.identities.tell(identity, change.as_ref(), &Bytes::copy_from_slice(frame));
            }
        });
        if unread > 0 {
            tracing::warn!(bytes = unread, "a batch of pushes that cannot be read to its end");
        }
    }

    /// Pushes are hints: hold and order stand in Redis and Postgres.
    fn gap(&self) {}
}

struct Remote {
    publisher: Arc<Publisher>,
    courier: Courier,
}

/// All sessions of the node; the door registers itself.
pub trait Everyone: Send + Sync {
    /// Takes a framed text to every session.
    fn tell_all(&self, text: &Bytes);
}

impl Sender {
    /// Connects to Redis and begins to listen.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn connect(redis_url: &str, metrics: Arc<Metrics>) -> Result<Self, SubscriberError> {
        let company = Arc::new(Company::new(rand::random(), Arc::clone(&metrics)));
        let identities = Arc::<Identities>::default();
        let post = Arc::new(Post { company: Arc::clone(&company), identities: Arc::clone(&identities) });
        let subscriber = Subscriber::connect(redis_url, post).await?;
        let publisher = Arc::new(Publisher::connect(redis_url, metrics).await?);
        let courier = Courier::start(&publisher, subscriber, company).await?;
        Ok(Self::with(Some(Remote { publisher, courier }), identities))
    }

    /// A sender that reaches only this node's sockets.
    #[must_use]
    pub fn local() -> Self {
        Self::with(None, Arc::default())
    }

    fn with(remote: Option<Remote>, identities: Arc<Identities>) -> Self {
        Self { inner: Arc::new(Inner { remote, identities, ends: Ends::default(), everyone: RwLock::new(None) }) }
    }

    /// Pushes to every session of the identity, on any node. Lost when Redis is down, but for the sockets of this node.
    pub fn to_identity(&self, identity: IdentityId, push: &Push) {
        self.to_identity_at(identity, None, push);
    }

    /// The same of a change of a hold whose place among others is known.
    pub fn to_identity_at(&self, identity: IdentityId, at: Option<Position>, push: &Push) {
        if let Some(frame) = framed(push) {
            self.tell_everywhere(identity, Change::of(push, at), &frame);
        }
    }

    /// The same of a hold that changed or is over, as it is written. What a session asked for is handed back, to be spoken
    /// ([`Sender::speak`]) with its reply.
    pub fn hold_changed(
        &self,
        identity: IdentityId,
        hold: HoldId,
        at: Option<Position>,
        is_over: bool,
        session: Option<SessionId>,
        text: &str,
    ) -> Option<OwnPush> {
        let frame = text_frame(text);
        let change = if is_over { Some(Change::HoldEnd { hold, at }) } else { at.map(|at| Change::Hold { hold, at }) };
        if let Some(end) = change.filter(|_| is_over) {
            self.inner.ends.note(identity, end, &frame);
        }
        let Some(session) = session else {
            self.tell_everywhere(identity, change, &frame);
            return None;
        };
        self.carry(identity, change, &frame);
        Some(OwnPush { identity, session, change, frame })
    }

    /// Tells once more which holds came to their end here in the last seconds: a Redis that is lost may have taken the word of
    /// it along.
    pub fn tell_ends_again(&self) {
        for (identity, end, frame) in self.inner.ends.recent() {
            self.tell_everywhere(identity, Some(end), &frame);
        }
    }

    /// The same of an order as it stands at `at`, a number that grows with each change of the order. One that stood so earlier
    /// than what a session knows is not told.
    pub fn order_to_identity(&self, identity: IdentityId, at: u64, order: Order) {
        let change = Change::Order { order: order.id, at, is_final: is_final(order.state) };
        if let Some(frame) = framed(&Push::OrderUpdate { order }) {
            self.tell_everywhere(identity, Some(change), &frame);
        }
    }

    /// An order is about to be shown in a reply: if it is final, sessions of this node are not told of it as it stood before.
    pub fn shows_order(&self, identity: IdentityId, order: &Order) {
        if is_final(order.state)
            && let Some(mut listeners) = self.inner.identities.0.get_mut(&identity)
        {
            listeners.note_final(order.id);
        }
    }

    /// Has a reply written, with what the session is told behind it unless something later was told meanwhile; tells the
    /// other sessions of the identity.
    pub fn speak(&self, push: &OwnPush, write: impl FnOnce(Option<&Bytes>)) {
        match self.inner.identities.0.get_mut(&push.identity) {
            // Under the entry's lock, as all that the identity is told: nothing later can come in between.
            Some(mut listeners) => {
                let is_news = listeners.tell(push.change.as_ref(), Some(push.session), &push.frame);
                write(is_news.then_some(&push.frame));
            }
            None => write(Some(&push.frame)),
        }
    }

    /// Pushes to everyone who looks at the event, on any node.
    pub async fn to_event(&self, event: EventId, push: &Push) {
        if let (Some(text), Some(remote)) = (encode(push), &self.inner.remote) {
            remote.publisher.publish(&notice_channel(event), text.as_bytes()).await;
        }
    }

    /// Tells every node that looks at the event to read its facts anew. Nodes that miss it find out within about a second.
    pub async fn event_changed(&self, event: EventId) {
        if let Some(remote) = &self.inner.remote {
            remote.publisher.publish(&facts_channel(event), &[]).await;
        }
    }

    /// Pushes to every session of this node.
    pub fn to_all(&self, push: &Push) {
        let everyone = self.inner.everyone.read().clone();
        if let (Some(everyone), Some(text)) = (everyone, encode(push)) {
            everyone.tell_all(&text_frame(&text));
        }
    }

    /// Names who all sessions are.
    pub fn set_everyone(&self, everyone: Arc<dyn Everyone>) {
        *self.inner.everyone.write() = Some(everyone);
    }

    /// Adds a session of the identity; the oldest stands first.
    pub fn register(&self, identity: IdentityId, recipient: Arc<dyn Recipient>) {
        self.inner.identities.0.entry(identity).or_default().recipients.push(recipient);
    }

    /// Takes the oldest sessions off, so that at most `most` are left, and hands them back to be dismissed.
    #[must_use]
    pub fn surplus(&self, identity: IdentityId, most: usize) -> Vec<Arc<dyn Recipient>> {
        let Some(mut listeners) = self.inner.identities.0.get_mut(&identity) else { return Vec::new() };
        let recipients = &mut listeners.recipients;
        let surplus = recipients.len().saturating_sub(most);
        recipients.drain(..surplus).collect()
    }

    /// Removes a session of the identity.
    pub fn unregister(&self, identity: IdentityId, session: SessionId) {
        let Entry::Occupied(mut entry) = self.inner.identities.0.entry(identity) else { return };
        entry.get_mut().recipients.retain(|recipient| recipient.session_id() != session);
        if entry.get().recipients.is_empty() {
            entry.remove();
        }
    }

    fn tell_everywhere(&self, identity: IdentityId, change: Option<Change>, frame: &Bytes) {
        self.inner.identities.tell(identity, change.as_ref(), frame);
        self.carry(identity, change, frame);
    }

    fn carry(&self, identity: IdentityId, change: Option<Change>, frame: &Bytes) {
        if let Some(remote) = &self.inner.remote {
            remote.courier.carry(identity, change, frame);
        }
    }
}

/// Where it is said that an event's facts changed.
#[must_use]
pub fn facts_channel(event: EventId) -> String {
    format!("{{{event}}}:facts")
}

/// Where pushes to everyone who looks at an event are published.
#[must_use]
pub fn notice_channel(event: EventId) -> String {
    format!("seatwire:notice:{event}")
}

/// A push as every viewer of this node gets it; `None` for one that cannot be written.
#[must_use]
pub fn framed(push: &Push) -> Option<Bytes> {
    encode(push).map(|text| text_frame(&text))
}

fn encode(push: &Push) -> Option<String> {
    match serde_json::to_string(push) {
        Ok(text) => Some(text),
        Err(error) => {
            tracing::error!(%error, "a push that cannot be written");
            None
        }
    }
}

/// A text as one unmasked WebSocket frame, to be shared by all who get it.
#[must_use]
pub fn text_frame(text: &str) -> Bytes {
    let mut frame = Vec::new();
    frame_text(&mut frame, text);
    frame.into()
}

/// Appends a text as a frame; room for as much again stays where a push may follow it.
pub(crate) fn frame_text(frame: &mut Vec<u8>, text: &str) {
    const FIN_TEXT: u8 = 0x81;
    frame.push(FIN_TEXT);
    match text.len() {
        len @ 0..=125 => frame.push(len as u8),
        len @ 126..=0xffff => {
            frame.push(126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            frame.push(127);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_frame_says_its_length() {
        assert_eq!(&text_frame("hi")[..], [0x81, 2, b'h', b'i']);
        assert_eq!(&text_frame(&"a".repeat(126))[..4], [0x81, 126, 0, 126]);
        assert_eq!(&text_frame(&"a".repeat(65536))[..10], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
