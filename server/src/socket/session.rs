//! One session: plain state and what to do with a message. It decodes, spends the budget, keeps order, and hands commands
//! to the counter; who moves its bytes it does not know (`Transport`). `task` brings messages in; `greeting` answers hello,
//! `work` keeps the order of commands.

mod greeting;
mod work;

use super::Door;
use super::budget::Bucket;
use super::transport::{Subscribed, Transport};
use crate::command::{Spoken, hello, ping, resync, subscribe};
use crate::error;
use crate::seatmap::SnapshotEncoding;
use greeting::{await_hello_again, greet, reply_of, welcome};
use seatwire_proto::client::{self, ClientMessage, Command, Position};
use seatwire_proto::code::{CloseCode, ErrorCode};
use seatwire_proto::id::{EventId, IdentityId, SessionId};
use seatwire_proto::server::{ErrorObject, Push, Reply};
use std::sync::Arc;
use work::{Target, Work};

/// Commands of one session that wait; further ones are answered rate_limited. Above the default burst.
const MAX_WAITING: usize = 32;
/// What `retry_after_ms` says when too many wait.
const WAITING_RETRY_MS: u64 = 500;
/// Protocol errors within a minute that end the session.
const MAX_PROTOCOL_ERRORS: u32 = 10;
/// Commands over budget within a minute that end the session with 4008: nobody means so many.
const MAX_OVER_BUDGET: u32 = 200;
/// Maps one session may look at; further ones are answered rate_limited.
pub(super) const MAX_SUBSCRIPTIONS: usize = 32;

/// `budget.low` is told when no more than one part in so many of the burst is left.
const LOW_SHARE: u32 = 5;
/// An event that is put away while it is subscribed to is looked up again so often.
const MAX_PUT_AWAY: u32 = 3;

/// How far `hello` has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    /// Not asked, or refused and to be asked again.
    Awaited,
    /// Asked; what comes behind it waits.
    Running,
    /// Answered.
    Done,
}

/// Counts within a minute.
#[derive(Debug, Clone, Copy, Default)]
struct PerMinute {
    began_ms: u64,
    count: u32,
}

impl PerMinute {
    fn count(&mut self, now_ms: u64) -> u32 {
        if now_ms >= self.began_ms + 60_000 {
            *self = Self { began_ms: now_ms, count: 0 };
        }
        self.count += 1;
        self.count
    }
}

/// The state of one session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Boxed, since most viewers have none.
    bearer: Option<Box<Bearer>>,
    greeting: Greeting,
    /// From when the time for `hello` counts.
    greeting_since_ms: u64,
    encoding: SnapshotEncoding,
    budget: Bucket,
    is_low_told: bool,
    trouble: Option<Box<Trouble>>,
    work: Option<Box<Work>>,
}

/// Whom a token named.
#[derive(Debug)]
struct Bearer {
    identity: IdentityId,
    token_expires_ms: u64,
}

/// What a session did wrong; boxed, since most never do.
#[derive(Debug, Default)]
struct Trouble {
    errors: PerMinute,
    over_budget: PerMinute,
}

impl Session {
    pub(super) fn new(burst: u32, now_ms: u64) -> Self {
        Self {
            id: SessionId::generate(),
            bearer: None,
            greeting: Greeting::Awaited,
            greeting_since_ms: now_ms,
            encoding: SnapshotEncoding::Roaring,
            budget: Bucket::full(burst, now_ms),
            is_low_told: false,
            trouble: None,
            work: None,
        }
    }

    /// Who, once known.
    pub(super) fn identity(&self) -> Option<IdentityId> {
        self.bearer.as_ref().map(|bearer| bearer.identity)
    }

    /// Whether no command runs or waits and every reply is written.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.work.is_none()
    }

    /// Since when `hello` is awaited; `None` once it is answered or being answered.
    pub(super) const fn awaits_hello_since(&self) -> Option<u64> {
        match self.greeting {
            Greeting::Awaited => Some(self.greeting_since_ms),
            Greeting::Running | Greeting::Done => None,
        }
    }

    /// Whether `hello` is answered.
    pub(super) fn is_greeted(&self) -> bool {
        self.greeting == Greeting::Done
    }

    fn is_unanswered(&self, id: u32) -> bool {
        self.work.as_ref().is_some_and(|work| work.has(id))
    }
}

/// What a message led to, decided under the session's lock and done outside it.
enum Step {
    Answer(Reply),
    /// Answer, and count it as a protocol error.
    Refuse(Reply),
    /// Nothing more now.
    Wait,
    Run(ClientMessage),
}

/// Takes one text message.
pub(super) fn receive<T: Transport>(transport: &Arc<T>, text: &str) {
    let door = transport.door();
    let read_ms = door.clock.now_ms();
    let step = match client::decode(text.as_bytes()) {
        Err(refused) => {
            let position = refused.field.as_ref().and_then(|_| position_of(door, text));
            Step::Refuse(Reply { position, ..Reply::error(refused.id, error::refused(&refused)) })
        }
        Ok(message) => admit(transport, message, read_ms),
    };
    match step {
        Step::Answer(reply) => transport.reply(&reply),
        Step::Refuse(reply) => {
            transport.reply(&reply);
            let count = transport.session().lock().trouble.get_or_insert_default().errors.count(door.now_ms());
            if count >= MAX_PROTOCOL_ERRORS {
                transport.close(CloseCode::ProtocolError);
            }
        }
        Step::Wait => {}
        Step::Run(message) => run(transport, message),
    }
}

/// Commands whose refusals say where the map of their event stands.
const SAYS_POSITION: [&str; 4] = ["hold", "hold_best", "hold_area", "unlock"];

/// Where the map stands for one of them that cannot be read whole, as far as its event can be.
fn position_of(door: &Door, text: &str) -> Option<Position> {
    #[derive(serde::Deserialize)]
    struct Peek<'a> {
        op: &'a str,
        event: EventId,
    }
    let Peek { op, event } = serde_json::from_str(text).ok()?;
    SAYS_POSITION.contains(&op).then(|| door.seatmap.live_now(event)).flatten().map(|live| live.position())
}

fn refuse(id: u32, code: ErrorCode) -> Reply {
    Reply::error(Some(id), error::refuse(code))
}

/// Decides whether a command is answered at once, waits, or runs.
fn admit<T: Transport>(transport: &Arc<T>, message: ClientMessage, read_ms: u64) -> Step {
    let id = message.id;
    let door = transport.door();
    let mut session = transport.session().lock();
    if session.is_unanswered(id) {
        return Step::Refuse(refuse(id, ErrorCode::DuplicateId));
    }
    let is_hello = matches!(message.command, Command::Hello(_));
    if session.greeting == Greeting::Awaited && !is_hello {
        return Step::Answer(refuse(id, ErrorCode::NotReady));
    }
    if let Err(retry_after_ms) = spend(transport, &mut session) {
        let count = session.trouble.get_or_insert_default().over_budget.count(door.now_ms());
        drop(session);
        if count > MAX_OVER_BUDGET {
            transport.close(CloseCode::RateLimited);
        }
        let error = error::refuse(ErrorCode::RateLimited).with_retry_after_ms(retry_after_ms);
        return Step::Answer(Reply::error(Some(id), error));
    }
    if let (Greeting::Done, Command::Ping(body)) = (session.greeting, &message.command) {
        return Step::Answer(ping::answer(id, body, read_ms, door.clock.now_ms()));
    }
    if is_hello && session.greeting == Greeting::Awaited {
        session.greeting = Greeting::Running;
        session.work.get_or_insert_default().running.push((id, None));
        return Step::Run(message);
    }
    let is_greeting = session.greeting == Greeting::Running;
    let work = session.work.get_or_insert_default();
    if !is_greeting && work.running.is_empty() && work.waiting.is_empty() {
        work.running.push((id, Target::of(&message.command)));
        return Step::Run(message);
    }
    if work.waiting.len() >= MAX_WAITING {
        let error = error::refuse(ErrorCode::RateLimited).with_retry_after_ms(WAITING_RETRY_MS);
        return Step::Answer(Reply::error(Some(id), error));
    }
    work.waiting.push_back(message);
    if is_greeting {
        return Step::Wait;
    }
    work.next().map_or(Step::Wait, Step::Run)
}

/// Spends the session's budget, then the identity's; tells the client when it runs low.
fn spend<T: Transport>(transport: &Arc<T>, session: &mut Session) -> Result<(), u64> {
    let door = transport.door();
    let (burst, per_s, now_ms) = (door.config.command_burst, door.config.commands_per_s, door.now_ms());
    session.budget.spend(burst, per_s, now_ms)?;
    if let Some(identity) = session.identity() {
        door.spend_identity(identity, now_ms)?;
    }
    let remaining = session.budget.left();
    if remaining * LOW_SHARE <= burst {
        if !std::mem::replace(&mut session.is_low_told, true) {
            transport.push(&Push::BudgetLow { remaining, per_s });
        }
    } else if remaining * 2 > burst {
        session.is_low_told = false;
    }
    Ok(())
}

/// Runs a command that has its place: on the spot where nothing needs waiting for, else on a task of its own.
fn run<T: Transport>(transport: &Arc<T>, message: ClientMessage) {
    let mut next = Some(message);
    while let Some(message) = next.take() {
        match on_the_spot(transport, &message) {
            Some(reply) => next = finish(transport, message.id, reply),
            None => {
                let guard = Running {
                    transport: Arc::clone(transport),
                    id: message.id,
                    is_hello: matches!(message.command, Command::Hello(_)),
                    is_answered: false,
                };
                tokio::spawn(answer(guard, message));
            }
        }
    }
}

/// A reply, or that the transport has written one already.
#[expect(clippy::large_enum_variant, reason = "made once a command and taken apart at once")]
enum Answer {
    Spoken(Spoken),
    Written,
}

impl<T: Into<Spoken>> From<T> for Answer {
    fn from(spoken: T) -> Self {
        Self::Spoken(spoken.into())
    }
}

/// Answers what needs no store; `None` for the rest.
fn on_the_spot<T: Transport>(transport: &Arc<T>, message: &ClientMessage) -> Option<Answer> {
    let id = message.id;
    match &message.command {
        Command::Hello(body) => {
            let is_anonymous = body.token.is_none() && transport.session().lock().bearer.is_none();
            let reply = is_anonymous.then(|| welcome(transport, body, None, hello::Basket::default()))?;
            Some(reply_of(id, Ok(reply)).into())
        }
        Command::Ping(body) => {
            let now_ms = transport.door().clock.now_ms();
            Some(ping::answer(id, body, now_ms, now_ms).into())
        }
        Command::Unsubscribe(body) => Some(if transport.unsubscribe(body.channel) {
            Reply { id: Some(id), result: Ok("{}".into()), position: None, is_replayed: false }.into()
        } else {
            Reply::error(Some(id), resync::no_such_channel()).into()
        }),
        Command::Resync(body) => Some(if transport.resync(id, body) {
            Answer::Written
        } else {
            Reply::error(Some(id), resync::no_such_channel()).into()
        }),
        Command::Subscribe(body) => {
            // Most viewers come to an event that is live already.
            let live = transport.door().seatmap.live_now(body.event)?;
            let encoding = transport.session().lock().encoding;
            match transport.subscribe(id, subscribe::grant(live, body, encoding)) {
                Subscribed::Done => Some(Answer::Written),
                Subscribed::TooMany => Some(too_many_maps(id).into()),
                Subscribed::PutAway => None,
            }
        }
        _ => None,
    }
}

fn too_many_maps(id: u32) -> Reply {
    let error = ErrorObject::new(ErrorCode::RateLimited, "too many subscriptions; unsubscribe first");
    Reply::error(Some(id), error.with_retry_after_ms(WAITING_RETRY_MS))
}

/// Makes sure that a command is answered and its place given back, also when its task dies.
struct Running<T: Transport> {
    transport: Arc<T>,
    id: u32,
    is_hello: bool,
    is_answered: bool,
}

impl<T: Transport> Running<T> {
    fn answered(mut self, answer: Answer) {
        self.is_answered = true;
        if let Some(next) = finish(&self.transport, self.id, answer) {
            run(&self.transport, next);
        }
    }
}

impl<T: Transport> Drop for Running<T> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        if self.is_hello {
            await_hello_again(&self.transport);
        }
        let reply = Reply::error(Some(self.id), error::internal(&"the task of a command died"));
        if let Some(next) = finish(&self.transport, self.id, reply.into()) {
            run(&self.transport, next);
        }
    }
}

/// Gives the command's id and place back, writes its reply, and says what runs next. The id is free before the client
/// can know that it is.
fn finish<T: Transport>(transport: &Arc<T>, id: u32, answer: Answer) -> Option<ClientMessage> {
    let work = |session: &mut Session| {
        if let Some(work) = &mut session.work {
            work.running.retain(|(running, _)| *running != id);
        }
    };
    work(&mut transport.session().lock());
    if let Answer::Spoken(spoken) = answer {
        transport.speak(&spoken);
    }
    let mut session = transport.session().lock();
    if session.greeting == Greeting::Running {
        return None;
    }
    let work = session.work.as_mut()?;
    let next = work.next();
    if work.running.is_empty() && work.waiting.is_empty() {
        session.work = None;
    }
    next
}

async fn answer<T: Transport>(guard: Running<T>, message: ClientMessage) {
    let transport = Arc::clone(&guard.transport);
    let id = message.id;
    let answer = match &message.command {
        Command::Hello(body) => match Box::pin(greet(&transport, body)).await {
            Some(result) => reply_of(id, result).into(),
            None => Answer::Written,
        },
        Command::Subscribe(body) => Box::pin(watch(&transport, id, body)).await,
        _ => {
            let (who, session, is_expired) = {
                let session = transport.session().lock();
                let now_ms = transport.door().clock.now_ms();
                let is_expired = session.bearer.as_ref().is_some_and(|bearer| bearer.token_expires_ms <= now_ms);
                (session.identity(), session.id, is_expired)
            };
            let needs_token = !matches!(message.command, Command::RoomWatch(_) | Command::RoomUnwatch(_));
            if is_expired && needs_token {
                refuse(id, ErrorCode::TokenExpired).into()
            } else {
                transport.door().counter.run(who, session, message).await.into()
            }
        }
    };
    guard.answered(answer);
}

/// Subscribes to an event that is not live on this node yet.
async fn watch<T: Transport>(transport: &Arc<T>, id: u32, body: &client::Subscribe) -> Answer {
    let door = transport.door();
    for _ in 0..MAX_PUT_AWAY {
        let live = match subscribe::find(&*door.counter, &door.seatmap, body.event).await {
            Ok(live) => live,
            Err(error) => return Reply::error(Some(id), error).into(),
        };
        let encoding = transport.session().lock().encoding;
        match transport.subscribe(id, subscribe::grant(live, body, encoding)) {
            Subscribed::Done => return Answer::Written,
            Subscribed::TooMany => return too_many_maps(id).into(),
            // It was put away between the look and the subscription; look again.
            Subscribed::PutAway => tokio::task::yield_now().await,
        }
    }
    refuse(id, ErrorCode::Overloaded).into()
}
