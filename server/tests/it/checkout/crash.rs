//! The process dies between two durable steps: whatever the step, the order ends sold once with one charge, or nothing was
//! charged and the seats are free or still the buyer's.

use super::till::{Till, checkout_of, key};
use crate::support::eventually;
use seatwire::checkout::CrashPoint;
use serde_json::{Value, json};

/// Money and seats after everything has settled.
async fn settled(till: &Till, seat: usize) -> (u8, usize) {
    let ledger = till.ledger().await;
    let intents = ledger["intents"].as_array().expect("a list").clone();
    let charges = intents.iter().flat_map(|intent| intent["charges"].as_array().expect("a list").clone());
    (till.seat(seat).await, charges.filter(|charge| charge["paid"] == true).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_purchase_is_settled_without_the_buyer() {
    for &point in CrashPoint::ALL {
        let till = Till::open().await;
        let (buyer, hold) = till.buyer_with(&[1]).await;
        let order = if point == CrashPoint::Fenced {
            let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
            till.app.checkout.crash_at(point);
            till.call(buyer, "cancel", json!({"order": order["id"]})).await;
            Some(order)
        } else {
            till.app.checkout.crash_at(point);
            let reply = till.checkout(buyer, &hold, "pm_card_visa").await;
            assert_eq!(reply["error"]["code"], "internal", "{point:?}: {reply}");
            None
        };
        // Wherever it died, time alone settles it: nothing open is left, and the seat is sold or free.
        eventually(&format!("the order that died at {point:?} to settle"), || async {
            till.clock.advance_ms(2_000);
            let open = till.app.checkout.open_orders(buyer.0).await.expect("reads");
            let (seat, _) = settled(&till, 1).await;
            let is_locked = {
                let reply = till.call(buyer, "release", json!({"hold": hold["id"]})).await;
                reply["error"]["code"] == "hold_locked"
            };
            (open.is_empty() && !is_locked && seat != 1).then_some(())
        })
        .await;
        let (seat, charges) = settled(&till, 1).await;
        let expected = if point == CrashPoint::Confirmed { (2, 1) } else { (0, 0) };
        assert_eq!((seat, charges), expected, "{point:?}");
        if let Some(order) = order {
            assert_eq!(till.order(buyer, &order["id"]).await["state"], "cancelled");
        }
        till.check_books().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_purchase_goes_on_when_the_buyer_repeats_the_key() {
    for &point in CrashPoint::ALL {
        if point == CrashPoint::Fenced {
            continue;
        }
        let till = Till::open().await;
        let (buyer, hold) = till.buyer_with(&[1]).await;
        let mut fields = checkout_of(&hold, "pm_card_visa");
        fields["key"] = key().into();
        till.app.checkout.crash_at(point);
        let reply = till.call(buyer, "checkout", fields.clone()).await;
        assert_eq!(reply["error"]["code"], "internal", "{point:?}: {reply}");
        // The dead run's claim blocks the key for a while; then the same key goes on with the same order.
        let order = eventually("the key to be free", || async {
            till.clock.advance_ms(1_000);
            let reply = till.call(buyer, "checkout", fields.clone()).await;
            match reply["error"]["code"].as_str() {
                Some("key_in_use") => None,
                Some(other) => panic!("{point:?}: {other}"),
                None => Some(reply["order"].clone()),
            }
        })
        .await;
        let order = finish(&till, buyer, order).await;
        if point == CrashPoint::AttemptRecorded {
            // Whether the provider was asked is not known, so it is not asked again: the fence ends it.
            assert_eq!(order["state"], "cancelled");
            assert_eq!(till.money(&order["id"]).await, (vec![], 0));
            till.until_seat(1, 0).await;
        } else {
            assert_eq!(order["state"], "paid", "{point:?}");
            assert_eq!(till.money(&order["id"]).await, (vec![4750], 0), "{point:?}");
            till.until_seat(1, 2).await;
        }
        till.check_books().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_dead_node_has_claimed_is_free_before_its_time() {
    let till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let mut fields = checkout_of(&hold, "pm_card_visa");
    fields["key"] = key().into();
    till.app.checkout.crash_at(CrashPoint::Claimed);
    assert_eq!(till.call(buyer, "checkout", fields.clone()).await["error"]["code"], "internal");
    // The clock stands: the claim's own time is never over. Whether this node's own word comes in time is the machine's affair,
    // so the claim is made another's, who says nothing for itself.
    let pool = till.app.store.pool();
    let others = "with other as (
            insert into journal_writers (writer, alive_until_ms)
            values (gen_random_uuid(), (extract(epoch from now()) * 1000)::bigint + 3600000) returning writer)
        update order_commands set node = (select writer from other)";
    sqlx::query(others).execute(pool).await.expect("is another's");
    assert_eq!(till.call(buyer, "checkout", fields.clone()).await["error"]["code"], "key_in_use", "its node lives");
    let dies = "update journal_writers w set alive_until_ms = (extract(epoch from now()) * 1000)::bigint - 1
        from order_commands c where c.node = w.writer";
    sqlx::query(dies).execute(pool).await.expect("dies");
    let paid = till.call(buyer, "checkout", fields).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    till.check_books().await;
}

/// As a buyer would: waits while it is unknown, pays again after a decline.
async fn finish(till: &Till, buyer: super::till::Buyer, mut order: Value) -> Value {
    for _ in 0..500 {
        match order["state"].as_str().expect("a state") {
            "paid" | "cancelled" => return order,
            "payment_declined" => {
                let pay = json!({"order": order["id"], "payment": {"method": "pm_card_visa"}});
                till.call(buyer, "pay", pay).await;
            }
            _ => till.step(1_000).await,
        }
        order = till.order(buyer, &order["id"]).await;
    }
    panic!("never settled: {order}");
}
