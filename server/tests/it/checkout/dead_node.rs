//! A node dies by SIGKILL in the middle of a checkout, seen from outside: the provider or Redis holds it where it is to
//! die, and a second node on the same stores finds what is left. The order ends sold once, or nothing was charged.

use super::books::violations;
use super::checkout_of;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::node::Node;
use crate::support::stage::{Draft, Stage};
use seatwire::clock::Clock;
use seatwire::paysim::PaysimConfig;
use seatwire::shutdown::Shutdown;
use serde_json::{Value, json};

/// Two lives of one node, and the provider between them.
pub(super) struct Scene {
    pub(super) stage: Stage,
    pub(super) event: String,
    pub(super) payment_url: String,
    http: reqwest::Client,
}

impl Scene {
    pub(super) async fn new(draft: &Draft) -> Self {
        let (stage, event) = Stage::with_event(draft).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let config = PaysimConfig { hang: std::time::Duration::from_secs(20), ..PaysimConfig::default() };
        let sim = seatwire::paysim::start(listener, config, Clock::system(), Shutdown::new()).await;
        Self { stage, event, payment_url: sim.expect("starts").url(), http: reqwest::Client::new() }
    }

    pub(super) async fn node(&self, settings: &[(&str, &str)]) -> Node {
        let mut all = vec![
            ("SEATWIRE_PAYMENT_URL", self.payment_url.as_str()),
            ("SEATWIRE_PAYMENT_KEY", "sk_test_it"),
            ("SEATWIRE_WEBHOOK_SECRETS", "whsec_it"),
        ];
        all.extend(settings);
        let node = self.stage.node_with(&all).await;
        self.sim("webhooks", &[("url", &format!("{}/v1/webhooks/payment", node.url)), ("secret", "whsec_it")]).await;
        node
    }

    /// Switches something at the simulator.
    pub(super) async fn sim(&self, what: &str, form: &[(&str, &str)]) {
        self.http.post(format!("{}/_sim/{what}", self.payment_url)).form(form).send().await.expect("answers");
    }

    pub(super) async fn ledger(&self) -> Value {
        let asked = self.http.get(format!("{}/_sim/ledger", self.payment_url)).send().await.expect("answers");
        asked.json().await.expect("JSON")
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.stage.store.pool()).await.expect(sql)
    }
}

/// Where the node dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Seats are reserved, the provider is being told.
    AfterReserve,
    /// The intent stands, the provider works on the confirmation and has not charged.
    BeforeCharge,
    /// The provider has charged, its answer has not come.
    AfterCharge,
    /// The sale is committed; the buyer was not answered and Redis was not told.
    AfterCommit,
}

/// Checks a buyer out, kills the node at the point, starts another; what the buyer ends with.
async fn die_at(death: Death) {
    let scene = Scene::new(&Draft::default()).await;
    let settings = [("SEATWIRE_PAYMENT_TIMEOUT_MS", "15000")];
    let node = scene.node(&settings).await;
    let (mut buyer, guest) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": scene.event, "seats": [1]})).await;
    let method = match death {
        Death::BeforeCharge => "pm_sim_delay_20s",
        Death::AfterCharge => "pm_sim_timeout_charged",
        Death::AfterReserve | Death::AfterCommit => "pm_card_visa",
    };
    if death == Death::AfterReserve {
        scene.sim("faults", &[("delay_ms", "20000")]).await;
    }
    // Nothing tells the till but its own questions.
    scene.sim("webhooks", &[("url", "none")]).await;
    let mut fields = checkout_of(&reply["hold"], method);
    fields["key"] = "c".into();
    if death == Death::AfterCommit {
        // Slow enough for Redis to be stopped between the reservation and the sale.
        fields["payment"]["method"] = "pm_sim_delay_4s".into();
    }
    buyer.command("checkout", fields.clone()).await;
    let reached = match death {
        Death::AfterReserve => "select count(*) from orders where state = 'creating'",
        Death::BeforeCharge | Death::AfterCharge => "select count(*) from orders where state = 'confirming'",
        Death::AfterCommit => "select count(*) from orders o join outbox using (order_id) where state = 'fulfilled'",
    };
    if death == Death::AfterCommit {
        let confirming = "select count(*) from orders where state = 'confirming'";
        eventually("the charge to be asked for", || async { (scene.count(confirming).await == 1).then_some(()) }).await;
        scene.stage.redis.signal("STOP");
    }
    eventually("the point of death", || async { (scene.count(reached).await == 1).then_some(()) }).await;
    if matches!(death, Death::AfterCharge) {
        eventually("the charge", || async { (charges(&scene.ledger().await) == 1).then_some(()) }).await;
    }
    node.signal("KILL");
    node.ended().await;
    if death == Death::AfterCommit {
        scene.stage.redis.signal("CONT");
    }
    scene.sim("faults", &[("delay_ms", "0")]).await;

    let node = scene.node(&[("SEATWIRE_PAYMENT_TIMEOUT_MS", "4000"), ("SEATWIRE_UNKNOWN_SOFT_MS", "4000")]).await;
    let guest = Guest { url: node.url.clone(), ..guest };
    let order = eventually(&format!("the order to settle after {death:?}"), || async {
        let (_, body) = guest.get("/v1/orders").await;
        let order = body["items"][0].clone();
        let state = order["state"].as_str().unwrap_or_default();
        matches!(state, "paid" | "payment_declined" | "cancelled").then_some(order)
    })
    .await;
    let taken = charges(&scene.ledger().await);
    match death {
        // Nothing was begun: the seats are still the buyer's, who pays again.
        Death::AfterReserve => {
            assert_eq!((&order["state"], taken), (&json!("payment_declined"), 0), "{order}");
            let id = order["id"].as_str().expect("an id");
            let pay = json!({"payment": {"method": "pm_card_visa"}});
            let (status, body) = guest.post(&format!("/v1/orders/{id}/pay"), "p", pay).await;
            assert_eq!(status, 201, "{body}");
        }
        // The provider went on with what it was asked: its word counts, whichever it is.
        Death::BeforeCharge => assert_eq!((order["state"] == "paid", taken), (taken == 1, taken), "{order}"),
        Death::AfterCharge | Death::AfterCommit => assert_eq!((&order["state"], taken), (&json!("paid"), 1), "{order}"),
    }
    // The same key still has one answer.
    let path = format!("/v1/holds/{}/checkout", fields["hold"].as_str().expect("an id"));
    let body = json!({"buyer": fields["buyer"], "payment": fields["payment"], "expect_total_minor": fields["expect_total_minor"]});
    eventually("the key to be free", || async {
        let (status, again) = guest.post(&path, "c", body.clone()).await;
        if again["error"]["code"] == "key_in_use" {
            return None;
        }
        assert!(status < 500 && again["order"]["id"] == order["id"], "{status} {again}");
        Some(())
    })
    .await;
    let sold = matches!(death, Death::AfterReserve) || order["state"] == "paid";
    let event = scene.event.clone();
    eventually("everyone to see it", || async {
        let asked = scene.http.get(format!("{}/v1/events/{event}/snapshot?format=json", node.url)).send().await;
        let map: Value = asked.expect("answers").json().await.expect("JSON");
        let seat = map["states"].as_str().expect("digits").as_bytes()[1];
        (seat == if sold { b'2' } else { b'0' }).then_some(())
    })
    .await;
    assert_eq!(violations(scene.stage.store.pool(), &scene.ledger().await, true).await, Vec::<String>::new());
}

pub(super) fn charges(ledger: &Value) -> usize {
    let intents = ledger["intents"].as_array().expect("a list");
    let charges = intents.iter().flat_map(|intent| intent["charges"].as_array().expect("a list"));
    charges.filter(|charge| charge["paid"] == true).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_reservation_nothing_is_charged_and_the_buyer_goes_on() {
    die_at(Death::AfterReserve).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_charge_the_providers_word_counts() {
    die_at(Death::BeforeCharge).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_charge_the_order_is_sold_once() {
    die_at(Death::AfterCharge).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_the_commit_the_sale_stands_and_everyone_is_told() {
    die_at(Death::AfterCommit).await;
}
