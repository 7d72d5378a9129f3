//! A shelf to test with: a Redis and a database of its own, an event made of numbers, and an ear on the event's feed.

use crate::support::redis::Redis;
use crate::support::{HURRIED, eventually, postgres};
use fred::interfaces::{ClientLike, EventInterface, KeysInterface, PubsubInterface};
use fred::types::Builder;
use fred::types::config::Config as RedisConfig;
use parking_lot::Mutex;
use seatwire::catalogue::{AllocationFacts, AreaFacts, EventFacts, SectionFacts, code_hash};
use seatwire::config::Config;
use seatwire::inventory::{
    Answer, Caller, ChangeOutcome, FeedMessage, HoldOutcome, HoldRecord, Inventory, InventoryError, Refusal,
    ReleaseWhat, key,
};
use seatwire::metrics::Metrics;
use seatwire::store::Store;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::{AllocationId, EventId, HoldId, IdentityId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use seatwire_proto::server::{PriceTier, SalesMode};
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct Shelf {
    pub(crate) inventory: Inventory,
    pub(crate) redis: Redis,
    pub(crate) store: Store,
    pub(crate) event: Arc<EventFacts>,
    /// Everything published for the event, in order.
    pub(crate) heard: Arc<Mutex<Vec<FeedMessage>>>,
    _ear: fred::clients::Client,
    _lease: postgres::Lease,
}

/// Forty seats: 0 to 29 are tier 0 (45.00 + 2.50), 30 to 39 tier 1 (20.00); 30 to 39 sell best available only; seat 29 is
/// kept back; two areas of 5 and 100 places.
pub(crate) fn facts() -> EventFacts {
    let tier = |code: &str, price_minor, fee_minor| PriceTier {
        code: code.into(),
        name: code.into(),
        color: "#336699".into(),
        price_minor,
        fee_minor,
    };
    let section = |name: &str, first, end, sales_mode| SectionFacts {
        name: name.into(),
        first: SeatIndex(first),
        end: SeatIndex(end),
        sales_mode,
    };
    let area = |capacity| AreaFacts { name: "Floor".into(), price_tier: 1, capacity };
    let seat_tiers = (0..40).map(|seat| u8::from(seat >= 30)).collect();
    let mut facts = EventFacts {
        number: 7,
        sections: vec![
            section("Stalls", 0, 30, SalesMode::PickSeat),
            section("Circle", 30, 40, SalesMode::BestAvailable),
        ],
        areas: vec![area(5), area(100)],
        blocked: [29].into_iter().collect(),
        ..EventFacts::on_sale(vec![tier("A", 4500, 250), tier("B", 2000, 0)], seat_tiers)
    };
    facts.rules.seats_per_identity = 6;
    facts
}

/// Seats kept for whoever knows the code `code SLOT`, at any time.
pub(crate) fn allocation(event: EventId, slot: u8, seats: Range<u32>) -> AllocationFacts {
    AllocationFacts {
        id: AllocationId::generate(),
        name: format!("Club {slot}"),
        slot,
        code_hash: code_hash(event, &format!("code {slot}")),
        seats: seats.collect(),
        from_ms: 0,
        until_ms: u64::MAX,
        is_closed: false,
    }
}

impl Shelf {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A shelf whose event is changed a little.
    pub(crate) async fn with(change: impl FnOnce(&mut EventFacts)) -> Self {
        let mut facts = facts();
        change(&mut facts);
        Self::of(facts, &[]).await
    }

    pub(crate) async fn of(facts: EventFacts, redis_settings: &[&str]) -> Self {
        let redis = Redis::start_with(redis_settings).await;
        let config =
            Config::from_pairs([("SEATWIRE_DB_CONNECTIONS", "4"), ("SEATWIRE_DB_ACQUIRE_MS", "10000")]).expect("fits");
        let database_url = postgres::fresh_database().await;
        let store = Store::connect(&database_url, &config.store).await.expect("Postgres answers");
        let inventory = node(&redis, &store, PATIENT).await;
        let event = Arc::new(facts);
        let ear = Builder::from_config(RedisConfig::from_url(&redis.url()).expect("a URL")).build().expect("a client");
        ear.init().await.expect("Redis answers");
        let mut messages = ear.message_rx();
        ear.subscribe(key::feed_channel(event.id)).await.expect("subscribes");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok(message) = messages.recv().await {
                let bytes = message.value.as_bytes().expect("bytes");
                into.lock().push(FeedMessage::decode(bytes).expect("a feed message"));
            }
        });
        Self { inventory, redis, store, event, heard, _ear: ear, _lease: postgres::Lease::of(&database_url) }
    }

    /// Another node on the same stores.
    pub(crate) async fn another_node(&self) -> Inventory {
        node(&self.redis, &self.store, PATIENT).await
    }

    /// Another one that waits for Redis as a shop does: for a test of how long that is.
    pub(crate) async fn hurried_node(&self) -> Inventory {
        node(&self.redis, &self.store, HURRIED[1]).await
    }

    pub(crate) fn caller(&self, identity: IdentityId) -> Caller {
        Caller { event: Arc::clone(&self.event), identity, key: None, fingerprint: [0; 32] }
    }

    /// A caller with a key; the fingerprint is made of `body`.
    pub(crate) fn keyed(&self, identity: IdentityId, name: &str, body: u8) -> Caller {
        let key = IdempotencyKey::parse(name);
        assert!(key.is_some(), "a key that fits");
        Caller { key, fingerprint: [body; 32], ..self.caller(identity) }
    }

    pub(crate) async fn hold(&self, identity: IdentityId, seats: &[u32]) -> HoldOutcome {
        self.try_hold(self.caller(identity), seats).await.expect("Redis answers").outcome
    }

    pub(crate) async fn try_hold(&self, caller: Caller, seats: &[u32]) -> Result<Answer<HoldOutcome>, InventoryError> {
        self.inventory.hold(caller, &indices(seats)).await
    }

    pub(crate) async fn hold_area(&self, identity: IdentityId, area: u32, quantity: u32) -> HoldOutcome {
        let answer = self.inventory.hold_area(self.caller(identity), AreaIndex(area), quantity).await;
        answer.expect("Redis answers").outcome
    }

    /// A hold that must succeed.
    pub(crate) async fn held(&self, identity: IdentityId, seats: &[u32]) -> HoldRecord {
        match self.hold(identity, seats).await {
            HoldOutcome::Held { hold, .. } => hold,
            HoldOutcome::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    pub(crate) async fn release(&self, identity: IdentityId, hold: HoldId, what: ReleaseWhat) -> ChangeOutcome {
        self.inventory.release(self.caller(identity), hold, what).await.expect("Redis answers").outcome
    }

    pub(crate) async fn extend(&self, identity: IdentityId, hold: HoldId) -> ChangeOutcome {
        self.inventory.extend(self.caller(identity), hold).await.expect("Redis answers").outcome
    }

    pub(crate) async fn open_hold(&self, identity: IdentityId) -> Option<HoldRecord> {
        self.inventory.open_hold(&self.event, identity).await.expect("Redis answers")
    }

    /// The event's time.
    pub(crate) fn now_ms(&self) -> u64 {
        self.inventory.event_ms(self.event.id)
    }

    /// Moves Redis' clock, as the event sees it: its record of where the clock stood moves the other way, and with it
    /// everything that is compared with the clock.
    pub(crate) async fn move_clock_ms(&self, by_ms: i64) {
        let client = self.plain_client().await;
        self.edit_clock(&client, by_ms, false).await;
        client.quit().await.expect("quits");
    }

    /// Lets time pass for the event, as if nobody but the sweeper had called meanwhile.
    pub(crate) async fn pass_ms(&self, client: &fred::clients::Client, by_ms: u64) {
        self.edit_clock(client, by_ms as i64, true).await;
    }

    async fn edit_clock(&self, client: &fred::clients::Client, by_ms: i64, is_noticed: bool) {
        let (epoch, _) = self.position().await;
        let key = format!("{{{}}}:{epoch}:m", self.event.id);
        let meta: fred::bytes::Bytes = client.get(&key).await.expect("Redis answers");
        let skew = i64::from_le_bytes(meta[39..47].try_into().expect("eight bytes")) - by_ms;
        let bytes = fred::types::Value::from(&skew.to_le_bytes()[..]);
        let _: u64 = client.setrange(&key, 39, bytes).await.expect("Redis answers");
        if is_noticed {
            let high = i64::from_le_bytes(meta[31..39].try_into().expect("eight bytes")) + by_ms;
            let bytes = fred::types::Value::from(&high.to_le_bytes()[..]);
            let _: u64 = client.setrange(&key, 31, bytes).await.expect("Redis answers");
            // So that the node knows, too.
            self.position().await;
        }
    }

    /// A client of an operator.
    pub(crate) async fn plain_client(&self) -> fred::clients::Client {
        let config = RedisConfig::from_url(&self.redis.url()).expect("a URL");
        let client = Builder::from_config(config).build().expect("a client");
        client.init().await.expect("Redis answers");
        client
    }

    /// The map as digits, one a seat.
    pub(crate) async fn map(&self) -> String {
        let map = self.inventory.read_map(&self.event).await.expect("Redis answers");
        map.states.iter().map(|state| char::from(b'0' + state)).collect()
    }

    pub(crate) async fn areas(&self) -> Vec<u32> {
        self.inventory.read_map(&self.event).await.expect("Redis answers").areas
    }

    pub(crate) async fn position(&self) -> (u32, u64) {
        let map = self.inventory.read_map(&self.event).await.expect("Redis answers");
        (map.epoch, map.seq)
    }

    /// What was published as this change.
    pub(crate) async fn published(&self, seq: u64) -> FeedMessage {
        eventually("the change to be published", || async {
            self.heard.lock().iter().find(|message| message.seq == seq).cloned()
        })
        .await
    }
}

/// As long as a node may wait for Redis: a busy machine stops it for a while, and every call here must be answered.
const PATIENT: (&str, &str) = ("SEATWIRE_REDIS_TIMEOUT_MS", "10000");

async fn node(redis: &Redis, store: &Store, timeout: (&str, &str)) -> Inventory {
    let config = Config::from_pairs([timeout]).expect("fits").inventory;
    Inventory::connect(&config, &redis.url(), store.clone(), Arc::new(Metrics::new())).await.expect("Redis answers")
}

pub(crate) fn indices(seats: &[u32]) -> Vec<SeatIndex> {
    seats.iter().map(|&seat| SeatIndex(seat)).collect()
}

pub(crate) fn refused(outcome: HoldOutcome) -> Refusal {
    match outcome {
        HoldOutcome::Refused(refusal) => refusal,
        HoldOutcome::Held { hold, .. } => panic!("held: {hold:?}"),
    }
}

pub(crate) fn seats_of(hold: &HoldRecord) -> Vec<u32> {
    hold.lines
        .iter()
        .filter_map(|line| match line.place {
            seatwire::inventory::Place::Seat(seat) => Some(seat.0),
            seatwire::inventory::Place::Area(_) => None,
        })
        .collect()
}
