//! The till, against real stores and the simulator.

mod admin;
mod alarm;
pub(crate) mod books;
mod cancelled;
mod circuit;
mod crash;
mod dead_node;
mod dead_steps;
mod dispute;
mod hearsay;
mod hook;
mod inbox;
mod instrument;
mod mail;
mod many;
mod notice;
mod order_push;
mod outage;
mod provider;
mod race;
mod refund;
mod settlement;
mod smtp;
mod stop;
mod storm;
mod ticket;
pub(crate) mod till;
mod told;
mod unknown;
mod webhook;

use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::{Draft, Stage};
use seatwire::clock::Clock;
use seatwire::shutdown::Shutdown;
use seatwire_proto::id::IdentityId;
use serde_json::{Value, json};
use till::{Buyer, Till, checkout_of, key};

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or_else(|| panic!("a refusal: {reply}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_order_has_tickets_and_everybody_sees_its_seats_sold() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[3, 4]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    assert_eq!(
        (&order["state"], &order["total_minor"], &order["currency"]),
        (&"paid".into(), &9500.into(), &"EUR".into())
    );
    let tickets = order["tickets"].as_array().expect("tickets");
    assert_eq!(tickets.iter().map(|t| t["seat"].as_u64().expect("a seat")).collect::<Vec<_>>(), [3, 4]);
    assert!(tickets.iter().all(|t| t["state"] == "valid" && t["code"].as_str().is_some_and(|code| code.len() >= 26)));
    assert_ne!(tickets[0]["code"], tickets[1]["code"]);
    assert_eq!(order["reference"].as_str().map(str::len), Some(8));
    let pay_url = order["pay_url"].as_str().expect("a URL");
    assert!(pay_url.contains(&format!("/pay/{}#", order["id"].as_str().expect("an id"))), "{pay_url}");
    till.until_seat(3, 2).await;
    till.until_seat(4, 2).await;
    assert_eq!(till.money(&order["id"]).await, (vec![9500], 0));
    // The hold is used up: its owner may hold again.
    let again = till.call(buyer, "hold", json!({"event": till.event, "seats": [5]})).await;
    assert_eq!(again["hold"]["lines"].as_array().map(Vec::len), Some(1), "{again}");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_an_area_have_a_ticket_each() {
    let till = Till::open().await;
    let buyer = Buyer(IdentityId::generate());
    let reply = till.call(buyer, "hold_area", json!({"event": till.event, "area": 0, "quantity": 3})).await;
    let order = till.bought(buyer, &reply["hold"], "pm_card_visa").await;
    let tickets = order["tickets"].as_array().expect("tickets");
    assert_eq!((tickets.len(), &tickets[2]["area"]), (3, &0.into()));
    assert_eq!(order["total_minor"], 3 * 4750);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_decline_the_seats_stay_and_another_card_pays() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[7]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa_chargeDeclinedInsufficientFunds").await;
    assert_eq!(
        (&order["state"], &order["decline"]["reason"]),
        (&"payment_declined".into(), &"insufficient_funds".into())
    );
    assert_eq!(till.seat(7).await, 1, "viewers see it held");
    let refused = till.call(buyer, "hold", json!({"event": till.event, "seats": [8]})).await;
    assert_eq!((code(&refused), &refused["error"]["data"]["order"]), ("hold_locked", &order["id"]));
    let paid =
        till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_mastercard"}})).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    assert!(paid["order"].get("decline").is_none());
    let again = till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(code(&again), "already_paid");
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn five_declines_are_enough_and_time_gives_the_seats_back() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[9]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    let pay = json!({"order": order["id"], "payment": {"method": "pm_card_chargeDeclined"}});
    for _ in 0..4 {
        let reply = till.call(buyer, "pay", pay.clone()).await;
        assert_eq!(reply["order"]["state"], "payment_declined", "{reply}");
    }
    assert_eq!(code(&till.call(buyer, "pay", pay).await), "pay_refused");
    till.until(buyer, &order["id"], "cancelled").await;
    till.until_seat(9, 0).await;
    assert_eq!(till.money(&order["id"]).await, (vec![], 0));
    let (_, other) = till.buyer_with(&[9]).await;
    assert_eq!(other["lines"][0]["seat"], 9);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_order_frees_its_seats_and_takes_no_payment() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[11]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    let cancelled = till.call(buyer, "cancel", json!({"order": order["id"]})).await;
    assert_eq!(cancelled["order"]["state"], "cancelled", "{cancelled}");
    till.until_seat(11, 0).await;
    let pay = till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(code(&pay), "pay_refused");
    let (buyer, hold) = till.buyer_with(&[12]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    assert_eq!(code(&till.call(buyer, "cancel", json!({"order": order["id"]})).await), "cancel_refused");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_pays_and_a_refusal_at_the_bank_is_a_decline() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[20]).await;
    let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
    assert_eq!((&order["state"], &order["action"]["type"]), (&"action_required".into(), &"redirect".into()));
    let open = till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(code(&open), "payment_open");
    till.press(&order, "approve").await;
    till.until(buyer, &order["id"], "paid").await;

    let (buyer, hold) = till.buyer_with(&[21]).await;
    let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
    till.press(&order, "fail").await;
    let declined = till.until(buyer, &order["id"], "payment_declined").await;
    assert_eq!(declined["decline"]["reason"], "authentication_failed");
    assert!(declined.get("action").is_none());

    let (buyer, hold) = till.buyer_with(&[22]).await;
    let order = till.bought(buyer, &hold, "pm_card_authenticationRequired").await;
    till.until(buyer, &order["id"], "cancelled").await;
    till.until_seat(22, 0).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_is_the_same_answer_and_another_body_is_refused() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[30]).await;
    let mut fields = checkout_of(&hold, "pm_card_visa");
    fields["key"] = key().into();
    let first = till.call(buyer, "checkout", fields.clone()).await;
    let again = till.call(buyer, "checkout", fields.clone()).await;
    assert_eq!((&first["order"], &again["replayed"]), (&again["order"], &true.into()));
    assert!(first.get("replayed").is_none());
    let mut other = fields.clone();
    other["payment"]["method"] = "pm_card_mastercard".into();
    assert_eq!(code(&till.call(buyer, "checkout", other).await), "key_reused");
    let mut cancel = json!({"order": first["order"]["id"]});
    cancel["key"] = fields["key"].clone();
    assert_eq!(code(&till.call(buyer, "cancel", cancel).await), "key_reused", "one scope for all commands");
    // Keys are scoped to the identity.
    let (stranger, hold) = till.buyer_with(&[31]).await;
    let mut fields_of_stranger = checkout_of(&hold, "pm_card_visa");
    fields_of_stranger["key"] = fields["key"].clone();
    assert_eq!(till.call(stranger, "checkout", fields_of_stranger).await["ok"], true);
    assert_eq!(till.money(&first["order"]["id"]).await, (vec![4750], 0));
    // A refusal is remembered as well.
    let mut gone = checkout_of(&hold, "pm_card_visa");
    gone["key"] = key().into();
    let refused = till.call(stranger, "checkout", gone.clone()).await;
    assert_eq!(code(&refused), "hold_not_found");
    let again = till.call(stranger, "checkout", gone).await;
    assert_eq!((code(&again), &again["replayed"]), ("hold_not_found", &true.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_running_is_in_use_and_a_double_click_charges_once() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[32]).await;
    let mut fields = checkout_of(&hold, "pm_sim_delay_2s");
    fields["key"] = key().into();
    let (first, second) =
        tokio::join!(till.call(buyer, "checkout", fields.clone()), till.call(buyer, "checkout", fields.clone()));
    let (answered, busy) = if first["ok"] == true { (first, second) } else { (second, first) };
    assert_eq!(answered["order"]["state"], "paid", "{answered}");
    assert_eq!((code(&busy), &busy["error"]["retry"]), ("key_in_use", &"ask".into()));
    assert_eq!(till.money(&answered["order"]["id"]).await, (vec![4750], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tabs_that_pay_again_charge_once() {
    let till = Till::open().await;
    for seat in 40..45 {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
        let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
        let (a, b) = tokio::join!(till.call(buyer, "pay", pay.clone()), till.call(buyer, "pay", pay.clone()));
        assert!(a["ok"] == true || b["ok"] == true, "{a} {b}");
        let order = till.until(buyer, &order["id"], "paid").await;
        assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
    }
    // Two checkouts of one hold under different keys: one order.
    let (buyer, hold) = till.buyer_with(&[46]).await;
    let (a, b) = tokio::join!(till.checkout(buyer, &hold, "pm_card_visa"), till.checkout(buyer, &hold, "pm_card_visa"));
    let (paid, refused) = if a["ok"] == true { (a, b) } else { (b, a) };
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    assert!(matches!(code(&refused), "hold_locked" | "hold_not_found"), "{refused}");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_ended_and_changed_holds_are_refused() {
    let till = Till::open_with(&Draft { hold_ttl_ms: 8_000, ..Draft::default() }, &[]).await;
    let (buyer, hold) = till.buyer_with(&[50]).await;
    let stranger = Buyer(IdentityId::generate());
    assert_eq!(code(&till.checkout(stranger, &hold, "pm_card_visa").await), "hold_not_found");
    let mut cheaper = hold.clone();
    cheaper["total_minor"] = 1.into();
    let refused = till.checkout(buyer, &cheaper, "pm_card_visa").await;
    assert_eq!((code(&refused), &refused["error"]["data"]["total_minor"]), ("price_changed", &4750.into()));
    till.until_seat(50, 0).await;
    assert_eq!(code(&till.checkout(buyer, &hold, "pm_card_visa").await), "hold_expired");
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), Some(0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_its_identitys_alone() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[60]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    let stranger = Buyer(IdentityId::generate());
    let id = &order["id"];
    assert_eq!(code(&till.call(stranger, "order", json!({"order": id})).await), "order_not_found");
    let pay = json!({"order": id, "payment": {"method": "pm_card_visa"}});
    assert_eq!(code(&till.call(stranger, "pay", pay).await), "order_not_found");
    assert_eq!(code(&till.call(stranger, "cancel", json!({"order": id})).await), "order_not_found");
    assert!(till.app.checkout.orders(stranger.0, None, 100).await.expect("reads").is_empty());
    assert!(till.app.checkout.open_orders(stranger.0).await.expect("reads").is_empty());
    let own = till.app.checkout.orders(buyer.0, None, 100).await.expect("reads");
    assert_eq!(own.len(), 1);
    assert_eq!(till.app.checkout.open_orders(buyer.0).await.expect("reads"), own);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_pay_is_paid_without_the_provider() {
    let till = Till::open_with(&Draft { tier_a_minor: (0, 0), ..Draft::default() }, &[]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    assert_eq!(hold["total_minor"], 0);
    let order = till.bought(buyer, &hold, "pm_none").await;
    assert_eq!((&order["state"], order["tickets"].as_array().map(Vec::len)), (&"paid".into(), Some(1)));
    till.until_seat(1, 2).await;
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), Some(0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_a_second_sale_even_when_redis_is_wrong() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[70]).await;
    // The truth: somebody else has the seat, and this Redis does not know.
    let pool = till.app.store.pool();
    let event: seatwire_proto::id::EventId = till.event.parse().expect("an id");
    let other = seatwire_proto::id::OrderId::generate();
    let taken = seatwire::store::taken_seat::reserve(
        pool,
        event,
        other,
        IdentityId::generate(),
        1,
        &[seatwire_proto::seat::SeatIndex(70)],
    );
    taken.await.expect("reserves");
    let refused = till.checkout(buyer, &hold, "pm_card_visa").await;
    assert_eq!((code(&refused), &refused["error"]["data"]["seats"]), ("seat_taken", &json!([70])));
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), Some(0));
    // The hold is not locked any more.
    let released = till.call(buyer, "release", json!({"hold": hold["id"]})).await;
    assert_eq!(released["ok"], true, "{released}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_holds_in_postgres_as_well() {
    let till = Till::open_with(&Draft { seats_per_identity: 2, ..Draft::default() }, &[]).await;
    let (buyer, hold) = till.buyer_with(&[80, 81]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    eventually("the limit to hold", || async {
        let refused = till.call(buyer, "hold", json!({"event": till.event, "seats": [82]})).await;
        (code(&refused) == "limit_exceeded").then_some(())
    })
    .await;
    let over =
        seatwire::store::identity_use::add(till.app.store.pool(), till.event.parse().expect("an id"), buyer.0, 1, 2);
    assert_eq!(
        over.await.as_ref().map_err(seatwire::store::constraint::broken),
        Err(Some(seatwire::store::constraint::Constraint::IdentityLimit))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_reaches_every_session_of_its_buyer_on_any_node_and_nobody_else() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let sim = seatwire::paysim::start(listener, Default::default(), Clock::system(), Shutdown::new()).await;
    let payment_url = sim.expect("starts").url();
    let settings = [("SEATWIRE_PAYMENT_URL", payment_url.as_str()), ("SEATWIRE_PUBLIC_URL", "https://tickets.example")];
    let (here, there) = tokio::join!(stage.node_with(&settings), stage.node_with(&settings));
    let (mut buyer, guest) = Client::guest(&here.url).await;
    let mut phone = Client::hello(&there.url, Some(&guest.token)).await;
    let (mut stranger, _) = Client::guest(&there.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": [1]})).await;
    let mut fields = checkout_of(&reply["hold"], "pm_sim_delay_300ms");
    fields["key"] = "c".into();
    let paid = buyer.call("checkout", fields).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    for session in [&mut buyer, &mut phone] {
        let push = session.push_where("order.update", |push| push["order"]["state"] == "paid").await;
        assert_eq!(push["order"], paid["order"]);
    }
    // Asked on the other node: the same order; a stranger's session hears and sees nothing of it.
    let read = phone.call("order", json!({"order": paid["order"]["id"]})).await;
    assert_eq!(read["order"], paid["order"]);
    assert_eq!(code(&stranger.call("order", json!({"order": paid["order"]["id"]})).await), "order_not_found");
    assert!(!stranger.has_push("order.update"));
    let hello = stranger.call("hello", json!({"token": guest.token})).await;
    assert_eq!(code(&hello), "forbidden");
    let (status, body) = guest.get("/v1/orders").await;
    assert_eq!((status, &body["items"][0]), (200, &paid["order"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_loses_a_seat_to_a_late_charge_is_told_what_and_what_is_left() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let sim = seatwire::paysim::start(listener, Default::default(), Clock::system(), Shutdown::new()).await;
    let payment_url = sim.expect("starts").url();
    let node = stage.node_with(&[("SEATWIRE_PAYMENT_URL", payment_url.as_str())]).await;
    for (mine, theirs, left) in [([1, 2], vec![1], None), ([5, 6], vec![5, 7], Some(7))] {
        let (mut buyer, _) = Client::guest(&node.url).await;
        let reply = buyer.call("hold", json!({"key": "h", "event": event, "seats": mine})).await;
        let mut fields = checkout_of(&reply["hold"], "pm_card_chargeDeclined");
        fields["key"] = "c".into();
        let order = buyer.call("checkout", fields).await["order"]["id"].clone();
        let cancelled = buyer.call("cancel", json!({"key": "x", "order": order})).await;
        assert_eq!(cancelled["order"]["state"], "cancelled", "{cancelled}");
        let (mut other, _) = Client::guest(&node.url).await;
        // The shelf learns of the cancellation a little after the buyer.
        let began = std::time::Instant::now();
        let held = loop {
            let held = other.call("hold", json!({"key": key(), "event": event, "seats": theirs})).await;
            if held["ok"] == true {
                break held;
            }
            assert!(began.elapsed() < crate::support::PATIENCE, "{held}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        // The charge comes after all: the order has its seats in Postgres, and the shelf is told.
        let id: seatwire_proto::id::OrderId = order.as_str().expect("an id").parse().expect("an id");
        let pool = stage.store.pool();
        let set = "update orders set state = 'fulfilled', captured_minor = total_minor where order_id = $1";
        sqlx::query(set).bind(id.uuid()).execute(pool).await.expect("sets");
        let now_ms = Clock::system().now_ms();
        let errand = seatwire::store::outbox::Errand::Sell;
        let event: seatwire_proto::id::EventId = event.parse().expect("an id");
        seatwire::store::outbox::insert(pool, event, id, errand, now_ms).await.expect("kept");
        let revoked = other.push("hold.revoked").await;
        assert_eq!((&revoked["hold"]["id"], &revoked["hold"]["lines"]), (&held["hold"]["id"], &held["hold"]["lines"]));
        assert_eq!(revoked["reason"], "sold");
        let mine_again =
            |push: &Value| push["id"] == held["hold"]["id"] && push["hold"]["lines"] != held["hold"]["lines"];
        let update = other.push_where("hold.update", mine_again).await;
        let seat_left = update["hold"].is_object().then(|| update["hold"]["lines"][0]["seat"].as_u64()).flatten();
        assert_eq!(seat_left, left, "{update}");
    }
}
