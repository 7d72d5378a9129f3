//! `hello`: who the session is, what it holds, and what is still open for it. `session` comes in with the first command and
//! with each later one that renews a token.

use super::{Bearer, Greeting, refuse};
use crate::command::hello;
use crate::error;
use crate::seatmap::SnapshotEncoding;
use crate::sender::Recipient;
use crate::socket::transport::Transport;
use seatwire_proto::client;
use seatwire_proto::code::{CloseCode, ErrorCode};
use seatwire_proto::id::IdentityId;
use seatwire_proto::server::{Budget, ErrorObject, HelloReply, Reply};
use std::sync::Arc;

/// Answers `hello`; `None` when the session ends instead.
pub(super) async fn greet<T: Transport>(
    transport: &Arc<T>,
    body: &client::Hello,
) -> Option<Result<HelloReply, ErrorObject>> {
    let door = Arc::clone(transport.door());
    let (known, is_first) = {
        let session = transport.session().lock();
        (session.identity(), session.greeting != Greeting::Done)
    };
    let identified = match hello::identify(&door.identities, known, body) {
        Ok(identified) => identified,
        Err(hello::NotIdentified::BadToken) if is_first => {
            transport.close(CloseCode::BadToken);
            return None;
        }
        Err(why) => {
            if is_first {
                await_hello_again(transport);
            }
            return Some(Err(why.error()));
        }
    };
    let identity = match identified {
        Some(verified) => {
            let is_new = {
                let mut session = transport.session().lock();
                let bearer = Bearer { identity: verified.identity, token_expires_ms: verified.expires_ms };
                session.bearer.replace(Box::new(bearer)).is_none()
            };
            if is_new {
                register(transport, verified.identity);
            }
            Some(verified.identity)
        }
        None => known,
    };
    let basket = match identity {
        Some(identity) => match door.counter.basket(identity).await {
            Ok(basket) => basket,
            Err(why) => {
                // It may say hello again on this socket: nothing else of it is wrong.
                if is_first {
                    await_hello_again(transport);
                }
                return Some(Err(why));
            }
        },
        None => hello::Basket::default(),
    };
    Some(Ok(welcome(transport, body, identity, basket)))
}

/// `hello` is answered: what waited behind it may run.
pub(super) fn welcome<T: Transport>(
    transport: &Arc<T>,
    body: &client::Hello,
    identity: Option<IdentityId>,
    basket: hello::Basket,
) -> HelloReply {
    let door = transport.door();
    let session = {
        let mut session = transport.session().lock();
        if session.greeting != Greeting::Done || !body.accepts.is_empty() {
            session.encoding = SnapshotEncoding::of(&body.accepts);
        }
        session.greeting = Greeting::Done;
        session.id
    };
    HelloReply {
        session,
        node: door.node,
        server_ms: door.clock.now_ms(),
        identity,
        heartbeat_ms: door.config.heartbeat.as_millis() as u64,
        budget: Budget { burst: door.config.command_burst, per_s: door.config.commands_per_s },
        max_command_bytes: client::MAX_COMMAND_BYTES,
        holds: basket.holds,
        orders: basket.orders,
    }
}

pub(super) fn reply_of(id: u32, result: Result<HelloReply, ErrorObject>) -> Reply {
    match result.map(|body| Reply::ok(id, &body)) {
        Ok(Ok(reply)) => reply,
        Ok(Err(failure)) => Reply::error(Some(id), error::internal(&failure)),
        Err(error) => Reply::error(Some(id), error),
    }
}

/// Makes pushes to the identity reach this session, and the oldest of too many sessions go.
fn register<T: Transport>(transport: &Arc<T>, identity: IdentityId) {
    let door = transport.door();
    door.sender.register(identity, Arc::clone(transport) as Arc<dyn Recipient>);
    for oldest in door.sender.surplus(identity, door.config.max_sockets_per_identity) {
        oldest.dismiss(CloseCode::Replaced);
    }
    // It may have ended while it was registered; whoever comes second takes it off.
    if transport.is_over() {
        // Not while the session is locked: `unregister` asks every recipient who it is.
        let id = transport.session().lock().id;
        door.sender.unregister(identity, id);
    }
}

/// `hello` was refused and may be tried again; what was sent behind it came too early.
pub(super) fn await_hello_again<T: Transport>(transport: &Arc<T>) {
    let early = {
        let mut session = transport.session().lock();
        session.greeting = Greeting::Awaited;
        session.greeting_since_ms = transport.door().now_ms();
        session.work.as_mut().map(|work| std::mem::take(&mut work.waiting)).unwrap_or_default()
    };
    for message in early {
        transport.reply(&refuse(message.id, ErrorCode::NotReady));
    }
}
