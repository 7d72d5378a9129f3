//! So many seats for one card, whoever uses it: counted before anything is charged, given back with the seats, and kept by
//! the database when two identities pay with one card at the same moment.

use super::code;
use super::till::{GIVES_UP, GIVES_UP_LATE, Till, checkout_of, key};
use seatwire::checkout::RefundWhat;
use seatwire_proto::id::EventId;
use serde_json::{Value, json};

async fn limited(seats: i32) -> Till {
    let till = Till::open_with(&Default::default(), &[GIVES_UP]).await;
    limit(&till, seats).await;
    till
}

async fn limit(till: &Till, seats: i32) {
    let event: EventId = till.event.parse().expect("an id");
    let sql = "update events set seats_per_instrument = $2, revision = revision + 1 where id = $1";
    sqlx::query(sql).bind(event.uuid()).bind(seats).execute(till.app.store.pool()).await.expect("sets");
    till.app.catalogue.refresh(event).await.expect("reads").expect("the event");
}

async fn used(till: &Till) -> i64 {
    let sql = "select coalesce(sum(used), 0)::bigint from instrument_use";
    sqlx::query_scalar(sql).fetch_one(till.app.store.pool()).await.expect("counts")
}

fn limit_of(reply: &Value) -> (&str, &Value) {
    (code(reply), &reply["error"]["data"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_pays_for_so_many_seats_whoever_uses_it() {
    let till = limited(3).await;
    let (first, hold) = till.buyer_with(&[1, 2]).await;
    till.bought(first, &hold, "pm_card_visa").await;
    let (second, hold) = till.buyer_with(&[3, 4]).await;
    let refused = till.checkout(second, &hold, "pm_card_visa").await;
    assert_eq!(limit_of(&refused), ("limit_exceeded", &json!({"limit": 3, "used": 2, "of": "card"})));
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("card")), "{refused}");
    // No order was made, nothing was charged, and the basket is as it was.
    assert!(till.app.checkout.orders(second.0, None, 10).await.expect("reads").is_empty());
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), Some(1));
    let paid = till.bought(second, &hold, "pm_card_mastercard").await;
    assert_eq!(paid["state"], "paid");
    let (third, hold) = till.buyer_with(&[5]).await;
    assert_eq!(till.bought(third, &hold, "pm_card_visa").await["state"], "paid", "one more fits");
    assert_eq!(used(&till).await, 5);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_card_takes_the_count_over_and_a_full_one_is_refused_before_it_is_asked() {
    let till = limited(2).await;
    let (first, hold) = till.buyer_with(&[1, 2]).await;
    till.bought(first, &hold, "pm_card_visa").await;
    let (second, hold) = till.buyer_with(&[3]).await;
    let order = till.bought(second, &hold, "pm_card_chargeDeclined").await;
    assert_eq!(order["state"], "payment_declined");
    let pay = |method: &str| json!({"order": order["id"], "payment": {"method": method}});
    let refused = till.call(second, "pay", pay("pm_card_visa")).await;
    assert_eq!(limit_of(&refused), ("limit_exceeded", &json!({"limit": 2, "used": 2, "of": "card"})));
    assert_eq!(till.order(second, &order["id"]).await["state"], "payment_declined", "nothing changed");
    assert_eq!(used(&till).await, 3);
    assert_eq!(till.call(second, "pay", pay("pm_card_mastercard")).await["order"]["state"], "paid");
    assert_eq!(used(&till).await, 3, "the declined card counts no more");
    // A cancelled order gives back what it counted.
    let (third, hold) = till.buyer_with(&[5, 6]).await;
    let order = till.bought(third, &hold, "pm_card_chargeDeclined").await;
    assert_eq!(used(&till).await, 5);
    till.call(third, "cancel", json!({"order": order["id"]})).await;
    till.until_seat(5, 0).await;
    assert_eq!(used(&till).await, 3);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_identities_that_pay_with_one_card_at_once_do_not_pass_its_limit() {
    let till = limited(2).await;
    for round in 0..6 {
        let seats = [20 * round, 20 * round + 1, 20 * round + 2, 20 * round + 3].map(|seat| seat as u32);
        let method = ["visa", "mastercard", "amex", "discover", "diners", "jcb"][round];
        let method = format!("pm_card_{method}");
        let (a, hold_a) = till.buyer_with(&seats[..2]).await;
        let (b, hold_b) = till.buyer_with(&seats[2..]).await;
        let (x, y) = tokio::join!(till.checkout(a, &hold_a, &method), till.checkout(b, &hold_b, &method));
        let (paid, refused) = if x["ok"] == true { (x, y) } else { (y, x) };
        assert_eq!(paid["order"]["state"], "paid", "{paid}");
        assert_eq!(limit_of(&refused), ("limit_exceeded", &json!({"limit": 2, "used": 2, "of": "card"})));
    }
    assert_eq!(used(&till).await, 12);
    till.check_books().await;
}

/// What is charged for each of them, where cards are not limited.
const NOT_COUNTED: [&str; 11] = [
    "pm_sim_no_fingerprint",
    "pm_sim_hidden_400",
    "pm_sim_hidden_402",
    "pm_sim_hidden_404",
    "pm_sim_hidden_410",
    // Not known, or no name at all.
    "pm_nobody",
    "../refunds",
    "a/b?c=d&e#f",
    "..",
    "%2e%2e",
    "pm_card_visa ",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_method_whose_card_is_not_shown_is_refused_where_cards_are_limited_and_nothing_is_made() {
    let till = limited(2).await;
    let (declined, hold) = till.buyer_with(&[140]).await;
    let order = till.bought(declined, &hold, "pm_card_chargeDeclined").await;
    let intents_n = till.ledger().await["intents"].as_array().map(Vec::len);
    let (buyer, hold) = till.buyer_with(&[1]).await;
    for method in NOT_COUNTED {
        let refused = till.checkout(buyer, &hold, method).await;
        assert_eq!(limit_of(&refused), ("bad_field", &json!({"path": "/payment/method"})), "{method}");
        assert_eq!(refused["error"]["retry"], "never");
        let pay = json!({"order": order["id"], "payment": {"method": method}});
        let refused = till.call(declined, "pay", pay).await;
        assert_eq!(limit_of(&refused), ("bad_field", &json!({"path": "/payment/method"})), "{method}");
    }
    // No order was made, the basket is not locked, no try was used up, the provider heard of nothing.
    assert!(till.app.checkout.orders(buyer.0, None, 10).await.expect("reads").is_empty());
    let more = till.call(buyer, "hold", json!({"event": till.event, "seats": [2]})).await;
    assert_eq!(more["ok"], true, "{more}");
    assert_eq!(till.order(declined, &order["id"]).await["state"], "payment_declined");
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), intents_n);
    assert_eq!(used(&till).await, 1, "only the declined card's");
    let paid = till.bought(buyer, &more["hold"], "pm_card_visa").await;
    assert_eq!(paid["state"], "paid");
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_says_what_card_it_is_nothing_is_begun_and_the_same_key_goes_on_later() {
    let till = limited(2).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let mut fields = checkout_of(&hold, "pm_card_visa");
    fields["key"] = key().into();
    let faults = [("outage", "fail"), ("outage", "hang"), ("outage", "garbage"), ("busy_percent", "100")];
    for (fault, how) in faults {
        till.faults(&[(fault, how)]).await;
        let refused = till.call(buyer, "checkout", fields.clone()).await;
        assert_eq!((code(&refused), &refused["error"]["retry"]), ("unavailable", &json!("after")), "{fault} {how}");
        till.faults(&[("outage", "none"), ("busy_percent", "0")]).await;
    }
    assert!(till.app.checkout.orders(buyer.0, None, 10).await.expect("reads").is_empty());
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), Some(0));
    let paid = till.call(buyer, "checkout", fields).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    for status in [500, 503] {
        let (buyer, hold) = till.buyer_with(&[status % 100 + 20]).await;
        let refused = till.checkout(buyer, &hold, &format!("pm_sim_hidden_{status}")).await;
        assert_eq!(code(&refused), "unavailable");
    }
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_cards_are_not_limited_nobody_asks_whose_they_are() {
    let till = Till::open().await;
    for (n, method) in ["pm_sim_hidden_404", "pm_sim_hidden_500", "pm_sim_no_fingerprint"].into_iter().enumerate() {
        let (buyer, hold) = till.buyer_with(&[20 * n as u32]).await;
        assert_eq!(till.bought(buyer, &hold, method).await["state"], "paid", "{method}");
    }
    // What no provider knows is a decline like any other.
    for (n, method) in ["pm_nobody", "../refunds", "a/b?c=d&e#f", "%2e%2e"].into_iter().enumerate() {
        let (buyer, hold) = till.buyer_with(&[20 * n as u32 + 5]).await;
        let order = till.bought(buyer, &hold, method).await;
        assert_eq!(order["state"], "payment_declined", "{method}: {order}");
    }
    assert_eq!(used(&till).await, 0);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_back_more_than_was_counted_leaves_nothing_and_does_not_fail() {
    let till = limited(3).await;
    let (buyer, hold) = till.buyer_with(&[1, 2]).await;
    let order = till.bought(buyer, &hold, "pm_card_visa").await;
    // As if one of its seats had been sold while the event limited no cards.
    let sql = "update instrument_use set used = 1";
    sqlx::query(sql).execute(till.app.store.pool()).await.expect("sets");
    till.refund(&order["id"], RefundWhat::All).await.expect("begins");
    till.until(buyer, &order["id"], "refunded").await;
    assert_eq!(used(&till).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_takes_no_turn_of_an_open_circuit_away() {
    let till = Till::open_with(&Default::default(), &[GIVES_UP_LATE]).await;
    // Charges fail again and again, reads do not: one buyer each time may try.
    futures_util::future::join_all((100..120).map(|seat| {
        let till = &till;
        async move {
            let (buyer, hold) = till.buyer_with(&[seat]).await;
            till.checkout(buyer, &hold, "pm_sim_timeout_not_charged").await
        }
    }))
    .await;
    assert!(!till.app.checkout.is_provider_open(), "twenty charges in a row have failed");
    limit(&till, 3).await;
    let (refused, basket) = till.buyer_with(&[1]).await;
    let (good, hold) = till.buyer_with(&[3]).await;
    let uncounted = async || till.checkout(refused, &basket, "pm_sim_no_fingerprint").await;
    till.clock.advance_ms(5_000);
    till.soon("a turn", || async { (code(&uncounted().await) != "unavailable").then_some(()) }).await;
    for _ in 0..3 {
        let answer = uncounted().await;
        assert_ne!(code(&answer), "unavailable", "who was refused has left the turn: {answer}");
    }
    let paid = till.checkout(good, &hold, "pm_card_visa").await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    assert!(till.app.checkout.is_provider_open());
}
