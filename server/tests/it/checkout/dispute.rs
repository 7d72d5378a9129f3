//! Buyers' banks that want the money back: open, won, lost, told by webhook or by the provider's list, late and twice. And
//! refunds that come back after they had succeeded.

use super::till::{Buyer, Till};
use seatwire::checkout::order::OrderState;
use seatwire::checkout::{OrderRequest, RefundWhat};
use seatwire::store::dispute::{self, DisputeRow, Word};
use seatwire::store::refund::RefundLine;
use seatwire_proto::client::IdempotencyKey;
use seatwire_proto::id::OrderId;
use serde_json::{Value, json};

const QUICK: [(&str, &str); 2] = [("SEATWIRE_POLL_PROVIDER_MS", "50"), ("SEATWIRE_WEBHOOK_SECRETS", "whsec_new")];

impl Till {
    /// Something a script makes the provider do.
    async fn script(&self, path: &str, form: &[(&str, &str)]) -> Value {
        let call = reqwest::Client::new().post(format!("{}/_sim/{path}", self.payment_url)).form(form);
        let answer = call.send().await.expect("answers");
        assert_eq!(answer.status(), 200);
        answer.json().await.expect("JSON")
    }

    /// The provider's name for the latest payment.
    pub(super) async fn last_intent(&self) -> String {
        let ledger = self.ledger().await;
        let intents = ledger["intents"].as_array().expect("a list");
        intents.last().expect("a payment")["id"].as_str().expect("an id").to_owned()
    }

    async fn concern(&self, order: &Value) -> Option<String> {
        let open = self.app.checkout.open_payments(None, 100).await.expect("reads");
        open.into_iter().find(|open| json!(open.id) == order["id"])?.concern
    }

    async fn until_concern(&self, order: &Value, wanted: Option<&str>) {
        self.soon(&format!("the concern {wanted:?}"), || async {
            (self.concern(order).await.as_deref() == wanted).then_some(())
        })
        .await;
    }

    /// An operator gives this much back, and it arrives.
    async fn give_back(&self, buyer: Buyer, order: &Value, what: RefundWhat, state: &str) {
        let request = OrderRequest {
            identity: buyer.0,
            key: IdempotencyKey::parse(&format!("refund {}", rand::random::<u32>())).expect("a key"),
            fingerprint: [0; 32],
            order: order["id"].as_str().expect("an id").parse().expect("an id"),
        };
        let asked = self.app.checkout.refund(request, "it".into(), what, "test".into()).await.expect("works");
        asked.outcome.expect("begins");
        self.until(buyer, &order["id"], state).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispute_is_told_to_people_and_won_it_leaves_nothing() {
    let till = Till::open_with(&Default::default(), &QUICK).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.last_intent().await;
    let dispute = till.script("disputes", &[("payment_intent", &intent), ("reason", "fraudulent")]).await;
    till.until_concern(&order, Some("disputed")).await;
    let id = order["id"].as_str().expect("an id").parse().expect("an id");
    let shown = till.app.checkout.file(id).await.expect("reads").expect("the order").disputes;
    assert_eq!(shown.len(), 1);
    assert_eq!(
        (shown[0].status.as_str(), shown[0].amount_minor, shown[0].reason.as_str()),
        ("needs_response", 4750, "fraudulent")
    );
    till.soon("the money to be seen off the account", || async {
        till.app.checkout.file(id).await.expect("reads").expect("the order").disputes[0].is_withdrawn.then_some(())
    })
    .await;
    // The ticket stands while nothing is decided.
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")));
    till.script(&format!("disputes/{}", dispute["id"].as_str().expect("an id")), &[("status", "won")]).await;
    till.until_concern(&order, None).await;
    let shown = till.app.checkout.file(id).await.expect("reads").expect("the order").disputes;
    assert_eq!(shown[0].status, "won");
    till.soon("the money to be seen back", || async {
        let shown = till.app.checkout.file(id).await.expect("reads").expect("the order").disputes;
        (!shown[0].is_withdrawn).then_some(())
    })
    .await;
    assert_eq!(till.order(buyer, &order["id"]).await["tickets"][0]["state"], "valid");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispute_that_is_lost_voids_the_tickets_and_late_words_change_nothing() {
    let till = Till::open_with(&Default::default(), &[QUICK[1]]).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_createDispute").await;
    assert_eq!(order["state"], "paid");
    let ledger = till.ledger().await;
    let dispute = ledger["disputes"][0]["id"].as_str().expect("a dispute").to_owned();
    till.script(&format!("disputes/{dispute}"), &[("status", "lost")]).await;
    // Only webhooks tell, the end first, the beginning last, and everything twice.
    let events = till.events().await;
    let mut told: Vec<&Value> =
        events.iter().filter(|e| e["type"].as_str().is_some_and(|kind| kind.contains("dispute"))).collect();
    assert_eq!(told.len(), 3);
    told.reverse();
    for event in told.iter().chain(&told) {
        till.tell("whsec_new", event).await;
    }
    till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(till.inner_state(&order["id"]).await, OrderState::Disputed);
    till.until_seat(1, 0).await;
    till.until_seat(2, 0).await;
    till.soon("all to be applied", || async {
        let sql = "select count(*) from webhook_inbox where applied_ms is null";
        let n: i64 = sqlx::query_scalar(sql).fetch_one(till.app.store.pool()).await.expect("counts");
        (n == 0).then_some(())
    })
    .await;
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("refunded"), &json!("void")));
    assert_eq!(till.concern(&order).await.as_deref(), Some("dispute_lost"));
    let id = order["id"].as_str().expect("an id").parse().expect("an id");
    assert_eq!(till.app.checkout.file(id).await.expect("reads").expect("the order").disputes[0].status, "lost");
    // What the bank took cannot be given back as well.
    let request = OrderRequest {
        identity: buyer.0,
        key: IdempotencyKey::parse("r").expect("a key"),
        fingerprint: [0; 32],
        order: id,
    };
    let refused = till.app.checkout.refund(request, "it".into(), RefundWhat::All, "test".into()).await.expect("works");
    assert_eq!(refused.outcome, Err(seatwire::checkout::CheckoutRefusal::RefundRefused));
    // The organisers' log has it, once for all the words.
    let sql = "select body from event_log where kind = 'order.disputed'";
    let logged: Vec<Value> = sqlx::query_scalar(sql).fetch_all(till.app.store.pool()).await.expect("reads");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!((&logged[0]["order"], &logged[0]["event"]), (&order["id"], &json!(till.event)), "{logged:?}");
    // The seat sells again.
    let (other, hold) = till.buyer_with(&[1]).await;
    till.bought(other, &hold, "pm_card_visa").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_dispute_of_a_part_leaves_the_order_to_a_person() {
    let till = Till::open_with(&Default::default(), &QUICK).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.last_intent().await;
    // Something that was noted of it long ago and does not matter any more must not hide what comes.
    let sql = "update orders set concern = 'amount_differs'";
    sqlx::query(sql).execute(till.app.store.pool()).await.expect("notes");
    let dispute = till.script("disputes", &[("payment_intent", &intent), ("amount", "1000")]).await;
    till.script(&format!("disputes/{}", dispute["id"].as_str().expect("an id")), &[("status", "lost")]).await;
    till.until_concern(&order, Some("dispute_lost")).await;
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["tickets"][0]["state"]), (&json!("paid"), &json!("valid")));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_comes_back_is_listed_and_can_be_made_again() {
    let till = Till::open_with(&Default::default(), &QUICK).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    till.give_back(buyer, &order, RefundWhat::All, "refunded").await;
    till.until_seat(1, 0).await;
    let refund = till.ledger().await["refunds"][0]["id"].as_str().expect("an id").to_owned();
    till.script(&format!("refunds/{refund}/fail"), &[]).await;
    till.until_concern(&order, Some("refund_failed")).await;
    let now = till.order(buyer, &order["id"]).await;
    assert_eq!((&now["state"], &now["refunded_minor"]), (&json!("refund_due"), &json!(0)));
    assert_eq!(till.inner_state(&order["id"]).await, OrderState::RefundFailed);
    till.check_books().await;
    till.give_back(buyer, &order, RefundWhat::All, "refunded").await;
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 4750));
    assert_eq!(till.concern(&order).await, None);
    // Told twice, also after it was made again: the second refund stands.
    let failed = till.events().await.into_iter().find(|event| event["type"] == "refund.failed").expect("told");
    let mut again = failed.clone();
    again["id"] = "evt_again".into();
    till.tell("whsec_new", &again).await;
    till.soon("it to be applied", || async {
        let sql = "select count(*) from webhook_inbox where provider_event_id = 'evt_again' and applied_ms is not null";
        let n: i64 = sqlx::query_scalar(sql).fetch_one(till.app.store.pool()).await.expect("counts");
        (n == 1).then_some(())
    })
    .await;
    assert_eq!(till.order(buyer, &order["id"]).await["state"], "refunded");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_owed_for_a_void_ticket_is_listed_until_all_of_it_went_back() {
    let till = Till::open_with(&Default::default(), &QUICK).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let first = RefundWhat::Lines(vec![RefundLine { line: 0, quantity: 1 }]);
    till.give_back(buyer, &order, first, "partially_refunded").await;
    let refund = till.ledger().await["refunds"][0]["id"].as_str().expect("an id").to_owned();
    till.script(&format!("refunds/{refund}/fail"), &[]).await;
    till.until_concern(&order, Some("refund_failed")).await;
    let owes = async |back_minor: i64| {
        till.soon("what went back", || async {
            (till.order(buyer, &order["id"]).await["refunded_minor"] == back_minor).then_some(())
        })
        .await;
        till.until_concern(&order, Some("refund_failed")).await;
        assert_eq!(till.inner_state(&order["id"]).await, OrderState::RefundFailed);
        till.check_books().await;
    };
    // By us and on the provider's pages: less than the ticket cost.
    till.give_back(buyer, &order, RefundWhat::Amount(100), "refund_due").await;
    owes(100).await;
    let intent = till.last_intent().await;
    let form = [("payment_intent", intent.as_str()), ("amount", "150")];
    let call = reqwest::Client::new().post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
    call.form(&form).send().await.expect("answers").error_for_status().expect("goes back");
    owes(250).await;
    till.give_back(buyer, &order, RefundWhat::Amount(4500), "partially_refunded").await;
    assert_eq!(till.concern(&order).await, None);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_of_the_providers_pages_that_comes_back_is_noticed_as_well() {
    let till = Till::open_with(&Default::default(), &QUICK).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    let intent = till.last_intent().await;
    let form = [("payment_intent", intent.as_str()), ("amount", "1000")];
    let call = reqwest::Client::new().post(format!("{}/v1/refunds", till.payment_url)).bearer_auth("sk_test_it");
    let refund: Value = call.form(&form).send().await.expect("answers").json().await.expect("JSON");
    till.until(buyer, &order["id"], "partially_refunded").await;
    till.script(&format!("refunds/{}/fail", refund["id"].as_str().expect("an id")), &[]).await;
    till.until_concern(&order, Some("refund_failed")).await;
    assert_eq!(till.order(buyer, &order["id"]).await["refunded_minor"], 0);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_words_of_a_dispute_the_newer_counts_whichever_comes_first() {
    let till = Till::open().await;
    let pool = till.app.store.pool();
    let (order, event) = (OrderId::generate(), till.event.parse().expect("an id"));
    let say = async |status: &str, said_s: i64, is_first: bool, withdrawn: Option<bool>| {
        let said = DisputeRow {
            id: "du_1".into(),
            charge: None,
            amount_minor: 4750,
            currency: "EUR".into(),
            reason: "general".into(),
            status: status.into(),
            is_withdrawn: false,
            created_ms: 0,
        };
        let word = Word { said_s, is_first, withdrawn };
        let mut connection = pool.acquire().await.expect("a connection");
        dispute::upsert(&mut connection, "paysim", order, event, &said, word, 1).await.expect("writes");
        let now = dispute::list_of_order(pool, order).await.expect("reads").remove(0);
        (now.status, now.is_withdrawn)
    };
    assert_eq!(say("under_review", 20, false, None).await, ("under_review".into(), false));
    assert_eq!(say("needs_response", 10, true, None).await, ("under_review".into(), false));
    assert_eq!(say("needs_response", 20, true, None).await, ("under_review".into(), false), "in the same second");
    assert_eq!(say("under_review", 30, false, Some(false)).await, ("under_review".into(), false));
    assert_eq!(say("under_review", 15, false, Some(true)).await, ("under_review".into(), false));
    assert_eq!(say("under_review", 30, false, Some(true)).await, ("under_review".into(), false));
    assert_eq!(say("lost", 25, false, None).await, ("lost".into(), false));
    assert_eq!(say("lost", 40, false, Some(true)).await, ("lost".into(), true));
    assert_eq!(say("under_review", 50, false, None).await, ("lost".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_comes_back_while_the_provider_is_away_is_never_dropped() {
    let till = Till::open_with(&Default::default(), &QUICK).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    till.give_back(buyer, &order, RefundWhat::All, "refunded").await;
    let refund = till.ledger().await["refunds"][0].clone();
    till.faults(&[("outage", "fail")]).await;
    let mut object = json!({"object": "refund", "id": refund["id"], "payment_intent": till.last_intent().await});
    object["status"] = "failed".into();
    let event = json!({"id": "evt_back", "type": "refund.failed", "created": 1, "data": {"object": object}});
    till.tell("whsec_new", &event).await;
    let pool = till.app.store.pool();
    let tries = async || {
        let sql = "select tries_n, applied_ms is not null from webhook_inbox where provider_event_id = 'evt_back'";
        sqlx::query_as::<_, (i32, bool)>(sql).fetch_one(pool).await.expect("reads")
    };
    till.soon("a first try", async || (tries().await.0 > 0).then_some(())).await;
    // Two days later, and after many tries. Again until it is taken: the first try may still be writing when it is due.
    let sql = "update webhook_inbox set received_ms = 1, due_ms = 0, tries_n = 8
        where provider_event_id = 'evt_back' and tries_n <= 8";
    till.soon("another try", async || {
        sqlx::query(sql).execute(pool).await.expect("ages");
        (tries().await.0 > 8).then_some(())
    })
    .await;
    till.until_concern(&order, Some("event_not_applied")).await;
    assert!(!tries().await.1);
    till.script(&format!("refunds/{}/fail", refund["id"].as_str().expect("an id")), &[]).await;
    till.faults(&[("outage", "none")]).await;
    let sql = "update webhook_inbox set due_ms = 0 where provider_event_id = 'evt_back'";
    sqlx::query(sql).execute(pool).await.expect("is due");
    till.until_concern(&order, Some("refund_failed")).await;
    till.check_books().await;
}
