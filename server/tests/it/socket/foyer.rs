//! A door with one event behind it: the test changes seats, publishes or forgets to publish, and answers commands.

use crate::support::client::Client;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use seatwire::catalogue::{AreaFacts, EventFacts, SectionFacts};
use seatwire::clock::Clock;
use seatwire::command::{Basket, Counter, Spoken};
use seatwire::config::{Config, Secret};
use seatwire::identity::Identities;
use seatwire::inventory::{FeedMessage, InventoryError, MapState};
use seatwire::metrics::Metrics;
use seatwire::seatmap::{LiveEvent, MapSource, SeatMap};
use seatwire::sender::Sender;
use seatwire::socket::{Behind, Door};
use seatwire_proto::client::{ClientMessage, Command, Position};
use seatwire_proto::code::ErrorCode;
use seatwire_proto::id::{EventId, IdentityId, NodeId, SessionId};
use seatwire_proto::seat::{AreaIndex, SeatIndex, SeatState};
use seatwire_proto::server::{ErrorObject, Reply, SalesMode};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The inventory in memory.
#[derive(Debug)]
pub(crate) struct Shelf {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    map: MapState,
    /// What `changes_since` still has.
    changes: VecDeque<FeedMessage>,
    is_down: bool,
    reads: u32,
}

impl MapSource for Shelf {
    fn read_map<'a>(&'a self, _: &'a Arc<EventFacts>) -> BoxFuture<'a, Result<MapState, InventoryError>> {
        async {
            let mut kept = self.kept.lock();
            kept.reads += 1;
            if kept.is_down { Err(InventoryError::Unavailable("down".into())) } else { Ok(kept.map.clone()) }
        }
        .boxed()
    }

    fn changes_since<'a>(
        &'a self,
        _: &'a Arc<EventFacts>,
        position: Position,
    ) -> BoxFuture<'a, Result<Option<Vec<FeedMessage>>, InventoryError>> {
        async move {
            let kept = self.kept.lock();
            if kept.is_down {
                return Err(InventoryError::Unavailable("down".into()));
            }
            let reaches = kept.map.seq - kept.changes.len() as u64 <= position.seq;
            if position.epoch != kept.map.epoch || !reaches {
                return Ok(None);
            }
            Ok(Some(kept.changes.iter().filter(|change| change.seq > position.seq).cloned().collect()))
        }
        .boxed()
    }
}

/// Answers commands: whatever it is given, once a permit is there.
#[derive(Debug)]
pub(crate) struct Clerk {
    facts: Arc<EventFacts>,
    /// Permits to answer; none = commands stay unanswered.
    pub(crate) permits: Semaphore,
    /// Ops in the order in which they began.
    pub(crate) begun: Mutex<Vec<String>>,
}

impl Counter for Clerk {
    fn run(&self, who: Option<IdentityId>, _: SessionId, message: ClientMessage) -> BoxFuture<'_, Spoken> {
        async move {
            let key = message.key.as_ref().map_or("", |key| key.as_str());
            self.begun.lock().push(format!("{} {key}", message.command.op()));
            self.permits.acquire().await.expect("never closed").forget();
            if matches!(message.command, Command::Unlock(_)) {
                panic!("the clerk faints");
            }
            let reply = match who {
                Some(_) => Reply::ok(message.id, &serde_json::json!({})).expect("plain data"),
                None => Reply::error(Some(message.id), ErrorObject::new(ErrorCode::Unauthorized, "who?")),
            };
            reply.into()
        }
        .boxed()
    }

    fn basket(&self, _: IdentityId) -> BoxFuture<'_, Result<Basket, ErrorObject>> {
        async { Ok(Basket::default()) }.boxed()
    }

    fn event(&self, event: EventId) -> BoxFuture<'_, Result<Arc<EventFacts>, ErrorObject>> {
        async move {
            if event == self.facts.id {
                Ok(Arc::clone(&self.facts))
            } else {
                Err(ErrorObject::new(ErrorCode::EventUnknown, "no such event"))
            }
        }
        .boxed()
    }
}

/// The door and all behind it.
pub(crate) struct Foyer {
    pub(crate) url: String,
    pub(crate) event: EventId,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) clerk: Arc<Clerk>,
    pub(crate) seatmap: SeatMap,
    pub(crate) sender: Sender,
    pub(crate) identities: Identities,
    pub(crate) clock: Clock,
    pub(crate) door: Arc<Door>,
    pub(crate) stop: Arc<tokio::sync::Notify>,
    pub(crate) served: tokio::task::JoinHandle<()>,
    facts: Arc<EventFacts>,
}

fn facts(seat_count: u32) -> EventFacts {
    let half = |name: &str, first: u32, end: u32| SectionFacts {
        name: name.into(),
        first: SeatIndex(first),
        end: SeatIndex(end),
        sales_mode: SalesMode::PickSeat,
    };
    EventFacts {
        layout: "0".repeat(32),
        sections: vec![half("left", 0, seat_count / 2), half("right", seat_count / 2, seat_count)],
        areas: vec![AreaFacts { name: "floor".into(), price_tier: 0, capacity: 500 }],
        ..EventFacts::on_sale(Vec::new(), vec![0; seat_count as usize])
    }
}

impl Foyer {
    pub(crate) async fn open(seat_count: u32) -> Self {
        Self::open_with(seat_count, &[]).await
    }

    pub(crate) async fn open_with(seat_count: u32, settings: &[(&str, &str)]) -> Self {
        let config = Config::from_pairs(settings.iter().copied()).expect("settings fit");
        let facts = Arc::new(facts(seat_count));
        let shelf = Arc::new(Shelf {
            kept: Mutex::new(Kept {
                map: MapState {
                    epoch: 1,
                    seq: 10,
                    server_ms: 1_700_000_000_000,
                    states: vec![0; seat_count as usize],
                    areas: vec![500],
                },
                changes: VecDeque::new(),
                is_down: false,
                reads: 0,
            }),
        });
        let clerk =
            Arc::new(Clerk { facts: Arc::clone(&facts), permits: Semaphore::new(1_000), begun: Mutex::default() });
        let clock = Clock::manual(1_700_000_000_000);
        let metrics = Arc::new(Metrics::new());
        let source = Arc::clone(&shelf) as Arc<dyn MapSource>;
        let seatmap = SeatMap::new(config.seatmap.clone(), clock.clone(), Arc::clone(&metrics), source, None);
        let sender = Sender::local();
        let identities = Identities::new(Secret::new("test"), clock.clone());
        let door = Door::open(Behind {
            node: NodeId::generate(),
            config: config.socket.clone(),
            is_loopback_limited: config.http.is_loopback_limited,
            clock: clock.clone(),
            metrics: Arc::clone(&metrics),
            seatmap: seatmap.clone(),
            sender: sender.clone(),
            identities: identities.clone(),
            counter: Arc::clone(&clerk) as Arc<dyn Counter>,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let stop = Arc::new(tokio::sync::Notify::new());
        let (stopping, serving) = (Arc::clone(&stop), Arc::clone(&door));
        let router = axum::Router::new().route("/hello", axum::routing::get(|| async { "world" }));
        let served =
            tokio::spawn(
                async move { serving.serve(listener, router, async move { stopping.notified().await }).await },
            );
        let event = facts.id;
        Self { url, event, shelf, clerk, seatmap, sender, identities, clock, door, stop, served, facts }
    }

    /// An anonymous client that has said hello.
    pub(crate) async fn viewer(&self) -> Client {
        Client::hello(&self.url, None).await
    }

    /// A client of this identity.
    pub(crate) async fn client_of(&self, identity: IdentityId) -> Client {
        let token = self.identities.issue_for(identity, std::time::Duration::from_secs(3_600)).token;
        Client::hello(&self.url, Some(&token)).await
    }

    /// Changes seats and areas; nobody is told.
    pub(crate) fn change(&self, seats: &[(u32, SeatState)], areas: &[(u32, u32)]) -> FeedMessage {
        let mut kept = self.shelf.kept.lock();
        kept.map.seq += 1;
        for (seat, state) in seats {
            kept.map.states[*seat as usize] = *state as u8;
        }
        for (area, remaining) in areas {
            kept.map.areas[*area as usize] = *remaining;
        }
        let change = FeedMessage {
            epoch: kept.map.epoch,
            seq: kept.map.seq,
            server_ms: self.clock.now_ms(),
            seats: seats.iter().map(|(seat, state)| (SeatIndex(*seat), *state)).collect(),
            areas: areas.iter().map(|(area, remaining)| (AreaIndex(*area), *remaining)).collect(),
        };
        kept.changes.push_back(change.clone());
        change
    }

    /// Changes seats and areas, and tells the map.
    pub(crate) fn publish(&self, seats: &[(u32, SeatState)], areas: &[(u32, u32)]) {
        let change = self.change(seats, areas);
        self.seatmap.take(self.event, &change);
    }

    /// Everything in the stream of changes is gone.
    pub(crate) fn forget_changes(&self) {
        self.shelf.kept.lock().changes.clear();
    }

    /// The inventory was lost and built again: a new life, with these seats sold.
    pub(crate) fn rebuild(&self, sold: &[u32]) -> FeedMessage {
        {
            let mut kept = self.shelf.kept.lock();
            kept.changes.clear();
            kept.map.epoch += 1;
            kept.map.seq = 0;
            kept.map.states.fill(0);
            for seat in sold {
                kept.map.states[*seat as usize] = SeatState::Sold as u8;
            }
        }
        self.change(&[], &[])
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.shelf.kept.lock().is_down = is_down;
    }

    /// How often the whole map was read.
    pub(crate) fn reads(&self) -> u32 {
        self.shelf.kept.lock().reads
    }

    /// Position and states as they truly are.
    pub(crate) fn truth(&self) -> MapState {
        self.shelf.kept.lock().map.clone()
    }

    pub(crate) async fn live(&self) -> Arc<LiveEvent> {
        self.seatmap.live(&self.facts).await.expect("the shelf answers")
    }
}
