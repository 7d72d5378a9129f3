//! The counter: every command a client may send, one file each, answered the same whether it came by socket or HTTP.
//! Doors come in with who asks and what; `inventory`, `checkout` and `catalogue` stand behind. What needs the state of a
//! socket (hello, ping, subscribe, unsubscribe, resync) is answered by `socket::session` with the files of this room.

mod cancel;
mod checkout;
mod counter;
mod extend;
pub(crate) mod hello;
mod hold;
mod hold_area;
mod hold_best;
mod order;
mod pay;
pub(crate) mod ping;
mod release;
pub(crate) mod resync;
pub(crate) mod subscribe;
mod unlock;
mod waitlist_join;
mod waitlist_leave;

pub use counter::Counter;
pub use hello::Basket;

use crate::app::App;
use crate::catalogue::EventFacts;
use crate::checkout::{CheckoutAnswer, CheckoutError, OrderRequest};
use crate::error;
use crate::inventory::{Answer, Caller, HoldRecord, InventoryError};
use crate::metrics::{CommandLabels, CommandOp};
use crate::sender::OwnPush;
use futures_util::future::BoxFuture;
use seatwire_proto::client::{ClientMessage, Command, IdempotencyKey, Position};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, HoldId, IdentityId, OrderId, SessionId};
use seatwire_proto::server::{ErrorObject, OrderReply, Reply, hold_update_text};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// Who asks, under which key, with which body.
struct Asked {
    who: Option<IdentityId>,
    key: Option<IdempotencyKey>,
    fingerprint: [u8; 32],
    began: Instant,
}

/// An answer before it has an id.
struct Answered {
    result: Result<String, ErrorObject>,
    position: Option<Position>,
    is_replayed: bool,
    /// What all sessions of the identity are told of it.
    told: Option<HoldTold>,
}

/// A change of a hold, to be told to its owner.
struct HoldTold {
    id: HoldId,
    /// `hold.update`, written.
    text: String,
    is_over: bool,
}

/// A reply, and the framed push that the session which asked is told together with it.
#[derive(Debug)]
pub struct Spoken {
    /// The reply.
    pub reply: Reply,
    /// Written behind it, in the same breath: a buyer costs one write a command.
    pub push: Option<OwnPush>,
}

impl From<Reply> for Spoken {
    fn from(reply: Reply) -> Self {
        Self { reply, push: None }
    }
}

impl Answered {
    fn ok(body: &impl Serialize) -> Self {
        let result = serde_json::to_string(body).map_err(|error| error::internal(&error));
        Self { result, position: None, is_replayed: false, told: None }
    }

    /// An inventory answer: its position and whether it is remembered travel along, also with refusals.
    fn of<T>(answer: &Answer<T>, result: Result<impl Serialize, ErrorObject>) -> Self {
        let result = result.and_then(|body| serde_json::to_string(&body).map_err(|error| error::internal(&error)));
        Self { result, position: Some(answer.position), is_replayed: answer.is_replayed, told: None }
    }

    /// The hold as it is now, `None` when it is over: the answer, and what all sessions of the identity are told.
    fn of_hold<T>(answer: &Answer<T>, event: &EventFacts, id: HoldId, hold: Option<&HoldRecord>) -> Self {
        let json = match hold.map(|hold| hold.to_json(event, answer.server_ms)).transpose() {
            Ok(json) => json,
            Err(failure) => return error::internal(&failure).into(),
        };
        let body = [r#"{"hold":"#, json.as_deref().unwrap_or("null"), "}"].concat();
        let answered =
            Self { result: Ok(body), position: Some(answer.position), is_replayed: answer.is_replayed, told: None };
        answered.telling(id, json.as_deref())
    }

    /// Has the identity's sessions told what became of its basket. A remembered answer was told when it was new.
    fn telling(self, id: HoldId, hold_json: Option<&str>) -> Self {
        if self.is_replayed {
            return self;
        }
        let text = hold_update_text(id, hold_json);
        Self { told: Some(HoldTold { id, text, is_over: hold_json.is_none() }), ..self }
    }
}

impl From<ErrorObject> for Answered {
    fn from(error: ErrorObject) -> Self {
        Self { result: Err(error), position: None, is_replayed: false, told: None }
    }
}

impl Asked {
    /// Who asks.
    ///
    /// # Errors
    /// `unauthorized` for anonymous sessions.
    fn identity(&self) -> Result<IdentityId, ErrorObject> {
        self.who.ok_or_else(|| error::refuse(ErrorCode::Unauthorized))
    }

    /// A command about an order of the identity.
    fn order_request(&self, order: OrderId) -> Result<OrderRequest, ErrorObject> {
        let key = self.key.clone().ok_or_else(|| error::refuse(ErrorCode::BadField))?;
        Ok(OrderRequest { identity: self.identity()?, key, fingerprint: self.fingerprint, order })
    }

    fn caller(&self, event: Arc<EventFacts>) -> Result<Caller, ErrorObject> {
        Ok(Caller { event, identity: self.identity()?, key: self.key.clone(), fingerprint: self.fingerprint })
    }
}

/// Times a command is asked again because the event was changed while it was on its way: changes come one by one, so two in
/// a row are rare, and nothing has happened yet.
const MAX_FRESH_TURNS: usize = 4;

/// Answers one command. Never fails: whatever goes wrong is a reply with a code.
pub async fn run(app: &App, who: Option<IdentityId>, message: ClientMessage) -> Reply {
    speak(app, who, None, message).await.reply
}

/// The same for a command that came in by `session`, which gets its own push back instead of being told.
async fn speak(app: &App, who: Option<IdentityId>, session: Option<SessionId>, message: ClientMessage) -> Spoken {
    let ClientMessage { id, key, command } = message;
    let op = command.op();
    let began = Instant::now();
    let asked = Asked { who, key, fingerprint: command.fingerprint(), began };
    let mut answered = answer(app, &asked, &command).await;
    for _ in 0..MAX_FRESH_TURNS {
        let (Err(object), Some(event)) = (&answered, taken_event(&command)) else { break };
        if !error::is_stale(object) || Box::pin(app.catalogue.refresh(event)).await.is_err() {
            break;
        }
        answered = answer(app, &asked, &command).await;
    }
    let mut answered = answered.unwrap_or_else(Answered::from);
    if answered.result.as_ref().is_err_and(error::is_stale) {
        // The event is changed faster than it can be read; nothing was taken.
        answered.result = Err(error::inventory(&InventoryError::Overloaded("the event changes".into())));
    }
    if let (None, Err(refused)) = (answered.position, &answered.result) {
        // Boxed: only what is refused before the shelf was asked comes here.
        answered.position = Box::pin(position(app, &command, refused.code)).await;
    }
    let outcome = answered.result.as_ref().err().map_or("ok", |error| error.code.as_str());
    app.metrics.commands.get_or_create(&CommandLabels { op, outcome }).inc();
    app.metrics.command_seconds.get_or_create(&CommandOp { op }).observe(began.elapsed().as_secs_f64());
    let push = who.zip(answered.told).and_then(|(identity, told)| {
        app.sender.hold_changed(identity, told.id, answered.position, told.is_over, session, &told.text)
    });
    let reply =
        Reply { id: Some(id), result: answered.result, position: answered.position, is_replayed: answered.is_replayed };
    Spoken { reply, push }
}

/// The event of a command that takes seats or places.
const fn taken_event(command: &Command) -> Option<EventId> {
    match command {
        Command::Hold(body) => Some(body.event),
        Command::HoldBest(body) => Some(body.event),
        Command::HoldArea(body) => Some(body.event),
        _ => None,
    }
}

/// Where the map stands for an inventory command that was refused before the shelf was asked: as this node follows it, else
/// as the shelf says now. `None` for other commands, for an event or hold nobody knows, and while the shelf is silent.
async fn position(app: &App, command: &Command, refused: ErrorCode) -> Option<Position> {
    let event = match command {
        Command::Unlock(body) => find_event(app, body.event).await,
        Command::Extend(body) => find_event_of_hold(app, body.hold).await,
        Command::Release(body) => find_event_of_hold(app, body.hold).await,
        other => find_event(app, taken_event(other)?).await,
    };
    let event = event.ok()?;
    if let Some(live) = app.seatmap.live_now(event.id) {
        return Some(live.position());
    }
    // A store that was asked in vain a moment ago is not asked again.
    let is_down = matches!(
        refused,
        ErrorCode::Unavailable | ErrorCode::Overloaded | ErrorCode::TimeoutUnknown | ErrorCode::Internal
    );
    if is_down { None } else { app.inventory.position(&event).await.ok() }
}

impl Counter for App {
    fn run(&self, who: Option<IdentityId>, session: SessionId, message: ClientMessage) -> BoxFuture<'_, Spoken> {
        Box::pin(speak(self, who, Some(session), message))
    }

    fn basket(&self, identity: IdentityId) -> BoxFuture<'_, Result<Basket, ErrorObject>> {
        Box::pin(hello::basket(self, identity))
    }

    fn event(&self, event: EventId) -> BoxFuture<'_, Result<Arc<EventFacts>, ErrorObject>> {
        Box::pin(find_event(self, event))
    }

    fn make_ready(&self, event: &EventFacts) {
        let (catalogue, layout) = (self.catalogue.clone(), event.layout.clone());
        tokio::spawn(async move {
            if let Err(error) = catalogue.layout(&layout).await {
                tracing::debug!(%error, layout, "a plan could not be read ahead; the first command reads it");
            }
        });
    }
}

/// The rarer commands are boxed: what is not runs in a task as large as the largest of them, made anew for each hold.
async fn answer(app: &App, asked: &Asked, command: &Command) -> Result<Answered, ErrorObject> {
    match command {
        Command::Hold(body) => hold::run(app, asked, command, body).await,
        Command::HoldBest(body) => Box::pin(hold_best::run(app, asked, command, body)).await,
        Command::Unlock(body) => Box::pin(unlock::run(app, asked, command, body)).await,
        Command::HoldArea(body) => Box::pin(hold_area::run(app, asked, command, body)).await,
        Command::WaitlistJoin(body) => Box::pin(waitlist_join::run(app, asked, command, body)).await,
        Command::WaitlistLeave(body) => Box::pin(waitlist_leave::run(app, asked, command, body)).await,
        Command::Extend(body) => Box::pin(extend::run(app, asked, body)).await,
        Command::Release(body) => Box::pin(release::run(app, asked, command, body)).await,
        Command::Checkout(body) => Box::pin(checkout::run(app, asked, command, body)).await,
        Command::Pay(body) => Box::pin(pay::run(app, asked, command, body)).await,
        Command::Cancel(body) => Box::pin(cancel::run(app, asked, body)).await,
        Command::Order(body) => Box::pin(order::run(app, asked, body)).await,
        Command::Admit(_) | Command::RoomWatch(_) | Command::RoomUnwatch(_) => Err(error::refuse(ErrorCode::UnknownOp)),
        Command::Hello(_) | Command::Ping(_) | Command::Subscribe(_) | Command::Unsubscribe(_) | Command::Resync(_) => {
            // These belong to a socket; over HTTP no route builds them.
            Err(error::refuse(ErrorCode::UnknownOp))
        }
    }
}

/// An answer of the till.
fn settled(
    app: &App,
    identity: IdentityId,
    answer: Result<CheckoutAnswer, CheckoutError>,
) -> Result<Answered, ErrorObject> {
    let answer = answer.map_err(|error| error::checkout(&error))?;
    let mut answered = match answer.outcome {
        Ok(order) => {
            app.sender.shows_order(identity, &order);
            Answered::ok(&OrderReply { order })
        }
        Err(refusal) => Answered::from(error::checkout_refusal(&refusal)),
    };
    answered.is_replayed = answer.is_replayed;
    Ok(answered)
}

/// The event by its id.
///
/// # Errors
/// `event_unknown`, or a store is down.
async fn find_event(app: &App, event: EventId) -> Result<Arc<EventFacts>, ErrorObject> {
    let found = app.catalogue.event(event).await.map_err(|error| error::store(&error))?;
    found.ok_or_else(|| error::refuse(ErrorCode::EventUnknown))
}

/// The event a hold belongs to: its number stands in the hold's id.
///
/// # Errors
/// `hold_not_found` for ids we never gave out, or a store is down.
async fn find_event_of_hold(app: &App, hold: HoldId) -> Result<Arc<EventFacts>, ErrorObject> {
    let number = crate::inventory::key::event_number_of(hold);
    let found = app.catalogue.event_by_number(number).await.map_err(|error| error::store(&error))?;
    found.ok_or_else(|| error::refuse(ErrorCode::HoldNotFound))
}

/// Bounds that need no store.
///
/// # Errors
/// `bad_field`.
fn check_bounds(command: &Command) -> Result<(), ErrorObject> {
    command.validate().map_err(|field| error::bad_field(&field))
}
