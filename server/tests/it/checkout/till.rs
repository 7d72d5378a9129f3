//! A node inside the test process with a simulator of its own, on a clock the test moves: deadlines of minutes pass in
//! milliseconds. Commands go in as the JSON a socket would bring.

use crate::support::UNHURRIED;
use crate::support::stage::{Draft, Stage};
use seatwire::app::{Addresses, App};
use seatwire::checkout::order::OrderState;
use seatwire::clock::Clock;
use seatwire::config::Config;
use seatwire::metrics::JobLabels;
use seatwire::paysim::{PaysimConfig, start};
use seatwire::shutdown::Shutdown;
use seatwire::store::order;
use seatwire::{command, job};
use seatwire_proto::client::decode;
use seatwire_proto::id::{IdentityId, OrderId};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// For those who make the provider hang: so long it is waited for. What it answers takes a small part of that.
pub(crate) const GIVES_UP: (&str, &str) = ("SEATWIRE_PAYMENT_TIMEOUT_MS", "2000");

/// Where twenty pay at once and all but the last call of each must be answered in that time, also on a slow machine.
pub(crate) const GIVES_UP_LATE: (&str, &str) = ("SEATWIRE_PAYMENT_TIMEOUT_MS", "6000");

static NEXT_KEY: AtomicU32 = AtomicU32::new(0);

/// A key nobody used.
pub(crate) fn key() -> String {
    format!("k{}", NEXT_KEY.fetch_add(1, Ordering::Relaxed))
}

/// The till of one event.
pub(crate) struct Till {
    pub(crate) stage: Stage,
    pub(crate) event: String,
    pub(crate) app: Arc<App>,
    pub(crate) clock: Clock,
    pub(crate) payment_url: String,
    http: reqwest::Client,
}

/// A buyer at the counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buyer(pub(crate) IdentityId);

impl Till {
    pub(crate) async fn open() -> Self {
        Self::open_with(&Draft::default(), &[]).await
    }

    pub(crate) async fn open_with(draft: &Draft, settings: &[(&str, &str)]) -> Self {
        let (stage, event) = Stage::with_event(draft).await;
        let database_url = stage.database_url.clone();
        Self::open_at(stage, event, &database_url, settings).await
    }

    /// Of an event on a stage that was set up otherwise.
    pub(crate) async fn open_on(stage: Stage, event: String) -> Self {
        let database_url = stage.database_url.clone();
        Self::open_at(stage, event, &database_url, &[]).await
    }

    /// With a line to Postgres that can be cut.
    pub(crate) async fn open_behind_a_line(settings: &[(&str, &str)]) -> (Self, super::outage::Line) {
        let (stage, event) = Stage::with_event(&Draft::default()).await;
        let line = super::outage::Line::to(&stage.database_url).await;
        let database_url = line.url.clone();
        (Self::open_at(stage, event, &database_url, settings).await, line)
    }

    async fn open_at(stage: Stage, event: String, database_url: &str, settings: &[(&str, &str)]) -> Self {
        let clock = Clock::manual(Clock::system().now_ms());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let sim = start(listener, PaysimConfig::default(), clock.clone(), Shutdown::new()).await.expect("starts");
        let till = Self {
            app: Self::node(&stage, database_url, &clock, &sim.url(), settings).await,
            payment_url: sim.url(),
            stage,
            event,
            clock,
            http: reqwest::Client::new(),
        };
        till.run_jobs();
        till
    }

    async fn node(
        stage: &Stage,
        database_url: &str,
        clock: &Clock,
        payment_url: &str,
        settings: &[(&str, &str)],
    ) -> Arc<App> {
        // Mails lie beside the stage's Redis and go with it.
        let data = stage.redis.folder().to_string_lossy().into_owned();
        let mut pairs = vec![
            ("SEATWIRE_DATA", data.as_str()),
            ("SEATWIRE_DB_CONNECTIONS", "6"),
            // Whoever makes the provider hang says how long it is waited for.
            ("SEATWIRE_PAYMENT_TIMEOUT_MS", "15000"),
            ("SEATWIRE_ANSWER_WITHIN_MS", "15000"),
            ("SEATWIRE_RECONCILE_MS", "20"),
        ];
        pairs.extend(UNHURRIED);
        pairs.extend(settings.iter().copied());
        let config = Config::from_pairs(pairs).expect("fits");
        let addresses = Addresses {
            database_url: database_url.to_owned(),
            redis_url: stage.redis.url(),
            payment_url: payment_url.to_owned(),
        };
        App::start(config, clock.clone(), &addresses, Shutdown::new()).await.expect("the node starts")
    }

    fn run_jobs(&self) {
        tokio::spawn(job::run(self.app.clone()));
    }

    /// One command of a buyer, as JSON in and out.
    pub(crate) async fn call(&self, buyer: Buyer, op: &str, mut fields: Value) -> Value {
        fields["id"] = 1.into();
        fields["op"] = op.into();
        if fields.get("key").is_none() && !matches!(op, "order") {
            fields["key"] = key().into();
        }
        let message = decode(fields.to_string().as_bytes()).unwrap_or_else(|error| panic!("{op}: {error:?}"));
        let reply = command::run(&self.app, Some(buyer.0), message).await.to_text();
        serde_json::from_str(&reply).expect("JSON")
    }

    /// A new buyer with these seats in the basket; also the hold.
    pub(crate) async fn buyer_with(&self, seats: &[u32]) -> (Buyer, Value) {
        let buyer = Buyer(IdentityId::generate());
        let reply = self.call(buyer, "hold", json!({"event": self.event, "seats": seats})).await;
        assert_eq!(reply["ok"], true, "{reply}");
        (buyer, reply["hold"].clone())
    }

    /// Pays a hold as shown.
    pub(crate) async fn checkout(&self, buyer: Buyer, hold: &Value, method: &str) -> Value {
        self.call(buyer, "checkout", checkout_of(hold, method)).await
    }

    /// The order of a reply; panics when it is none.
    pub(crate) async fn bought(&self, buyer: Buyer, hold: &Value, method: &str) -> Value {
        let reply = self.checkout(buyer, hold, method).await;
        assert_eq!(reply["ok"], true, "{reply}");
        reply["order"].clone()
    }

    /// A command that needs the provider, again and again until it is not refused for the provider's sake. How long it is left
    /// alone is a matter of the clock.
    pub(crate) async fn until_admitted(&self, buyer: Buyer, op: &str, fields: &Value) -> Value {
        self.soon(&format!("{op} to be let through"), || async {
            let answer = self.call(buyer, op, fields.clone()).await;
            let is_kept_out = ["unavailable", "overloaded"].iter().any(|code| answer["error"]["code"] == *code);
            (!is_kept_out).then_some(answer)
        })
        .await
    }

    pub(crate) async fn order(&self, buyer: Buyer, id: &Value) -> Value {
        let reply = self.call(buyer, "order", json!({"order": id})).await;
        assert_eq!(reply["ok"], true, "{reply}");
        reply["order"].clone()
    }

    /// Lets time pass until the order is in this public state; faster after the first half minute.
    pub(crate) async fn until(&self, buyer: Buyer, id: &Value, state: &str) -> Value {
        let passed = AtomicU32::new(0);
        crate::support::eventually(&format!("{id} to be {state}"), || async {
            let order = self.order(buyer, id).await;
            if order["state"] == state {
                return Some(order);
            }
            self.pass(passed.fetch_add(1, Ordering::Relaxed)).await;
            None
        })
        .await
    }

    /// Lets time pass, a second at first, later more.
    async fn pass(&self, steps: u32) {
        self.step(if steps < 30 { 1_000 } else { 15_000 }).await;
    }

    /// Lets so much time pass, and the reconciler do what is due then. The clock must not outrun it: a deadline would come
    /// before what it is just finding.
    pub(crate) async fn step(&self, by_ms: u64) {
        self.clock.advance_ms(by_ms);
        if self.app.config.checkout.reconcile_interval > Duration::from_secs(1) {
            return;
        }
        // The round that runs now may have begun before; the next one did not.
        self.until_runs("reconcile_payments", self.runs("reconcile_payments") + 2).await;
    }

    fn runs(&self, job: &'static str) -> u64 {
        self.app.metrics.job_runs.get_or_create(&JobLabels { job }).get()
    }

    /// Waits until a job has run so often.
    pub(crate) async fn until_runs(&self, job: &'static str, n: u64) {
        crate::support::eventually(&format!("{n} runs of {job}"), || async { (self.runs(job) >= n).then_some(()) })
            .await;
    }

    /// As [`eventually`](crate::support::eventually), with a clock that goes on about as it does on a wall: what was put off
    /// for a moment has its turn, and no deadline comes.
    pub(crate) async fn soon<T, F: Future<Output = Option<T>>>(&self, what: &str, mut look: impl FnMut() -> F) -> T {
        crate::support::eventually(what, || {
            self.clock.advance_ms(20);
            look()
        })
        .await
    }

    /// The state only the database knows.
    pub(crate) async fn inner_state(&self, id: &Value) -> OrderState {
        let id: OrderId = id.as_str().expect("an id").parse().expect("an id");
        order::read(self.app.store.pool(), id).await.expect("reads").expect("the order").state
    }

    /// What everyone sees of a seat: `0` available, `1` held, `2` sold.
    pub(crate) async fn seat(&self, seat: usize) -> u8 {
        let event = self.event.parse().expect("an id");
        let facts = self.app.catalogue.event(event).await.expect("reads").expect("the event");
        self.app.inventory.read_map(&facts).await.expect("the map").states[seat]
    }

    /// Waits until everyone sees a seat so.
    pub(crate) async fn until_seat(&self, seat: usize, state: u8) {
        let passed = AtomicU32::new(0);
        crate::support::eventually(&format!("seat {seat} to be {state}"), || async {
            if self.seat(seat).await == state {
                return Some(());
            }
            self.pass(passed.fetch_add(1, Ordering::Relaxed)).await;
            None
        })
        .await;
    }

    /// Money the provider took for an order, and gave back.
    pub(crate) async fn money(&self, id: &Value) -> (Vec<i64>, i64) {
        let ledger = self.ledger().await;
        let intents = ledger["intents"].as_array().expect("a list");
        let of_order = |intent: &&Value| &intent["metadata"]["order"] == id;
        let charges = intents.iter().filter(of_order).flat_map(|i| i["charges"].as_array().expect("a list"));
        let paid: Vec<&Value> = charges.filter(|charge| charge["paid"] == true).collect();
        let back = paid.iter().filter_map(|charge| charge["amount_refunded"].as_i64()).sum();
        (paid.iter().filter_map(|charge| charge["amount"].as_i64()).collect(), back)
    }

    /// Everything the provider did.
    pub(crate) async fn ledger(&self) -> Value {
        self.http
            .get(format!("{}/_sim/ledger", self.payment_url))
            .send()
            .await
            .expect("answers")
            .json()
            .await
            .expect("JSON")
    }

    /// Switches faults of the provider.
    pub(crate) async fn faults(&self, form: &[(&str, &str)]) {
        self.http.post(format!("{}/_sim/faults", self.payment_url)).form(form).send().await.expect("answers");
    }

    /// Presses a button on the page of the bank.
    pub(crate) async fn press(&self, order: &Value, button: &str) {
        let page = order["action"]["url"].as_str().expect("a page").replace('?', &format!("/{button}?"));
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let back = http.post(page).send().await.expect("answers");
        assert_eq!(back.status(), 303);
    }

    /// What must always be true: seats and tickets agree with the orders, and money with both.
    pub(crate) async fn check_books(&self) {
        let found = super::books::violations(self.app.store.pool(), &self.ledger().await, false).await;
        assert_eq!(found, Vec::<String>::new());
    }
}

/// The fields of a checkout of this hold.
pub(crate) fn checkout_of(hold: &Value, method: &str) -> Value {
    json!({
        "hold": hold["id"],
        "buyer": {"name": "Ada", "email": "ada@example.org"},
        "payment": {"method": method},
        "expect_total_minor": hold["total_minor"],
    })
}
