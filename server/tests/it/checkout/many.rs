//! Many buyers at the same step: they share statements and commits, and what befalls one of them befalls no other.

use super::code;
use super::till::{Buyer, Till, checkout_of, key};
use crate::support::eventually;
use futures_util::future::join_all;
use seatwire_proto::id::{EventId, IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};
use serde_json::{Value, json};

/// Buyers with one of these seats each in their baskets, and the fields they will pay with.
async fn buyers(till: &Till, seats: std::ops::Range<u32>) -> Vec<(Buyer, Value)> {
    let mut buyers = Vec::new();
    for seat in seats {
        let (buyer, hold) = till.buyer_with(&[seat]).await;
        let mut fields = checkout_of(&hold, "pm_card_visa");
        fields["key"] = key().into();
        buyers.push((buyer, fields));
    }
    buyers
}

/// All pay at once; their replies.
async fn all_pay(till: &Till, buyers: &[(Buyer, Value)]) -> Vec<Value> {
    join_all(buyers.iter().map(|(buyer, fields)| till.call(*buyer, "checkout", fields.clone()))).await
}

async fn count(till: &Till, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(till.app.store.pool()).await.expect("counts")
}

#[tokio::test(flavor = "multi_thread")]
async fn buyers_who_pay_together_share_commits_and_each_has_its_own_order_and_answer() {
    let till = Till::open().await;
    let buyers = buyers(&till, 0..40).await;
    let replies = all_pay(&till, &buyers).await;
    for (seat, ((buyer, fields), reply)) in buyers.iter().zip(&replies).enumerate() {
        let order = &reply["order"];
        assert_eq!((&order["state"], &order["tickets"][0]["seat"]), (&"paid".into(), &seat.into()), "{reply}");
        // What the answer says was remembered with the sale, and is what stands in the books.
        let again = till.call(*buyer, "checkout", fields.clone()).await;
        assert_eq!((&again["order"], &again["replayed"]), (order, &true.into()));
        assert_eq!(&till.order(*buyer, &order["id"]).await, order);
        assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
        till.until_seat(seat, 2).await;
    }
    for table in ["taken_seats", "tickets", "payment_attempts", "orders"] {
        let sql = format!("select count(distinct xmin::text) from {table}");
        let commits_n: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(till.app.store.pool()).await.expect("counts");
        assert!(commits_n < 40, "{commits_n} commits of {table}");
    }
    // In the organisers' log a ticket stands before its order's payment, as when it is sold alone.
    let late = "select count(*) from event_log t join event_log p on p.body ->> 'order' = t.body ->> 'order'
        where t.kind = 'ticket.issued' and p.kind = 'order.paid' and t.log_id > p.log_id";
    assert_eq!(count(&till, late).await, 0);
    assert_eq!(count(&till, "select count(*) from event_log where kind = 'order.paid'").await, 40);
    till.check_books().await;
}

/// Buyers with two places of the area each in their baskets.
async fn standing(till: &Till, n: usize) -> Vec<(Buyer, Value)> {
    let mut buyers = Vec::new();
    for _ in 0..n {
        let buyer = Buyer(IdentityId::generate());
        let held = till.call(buyer, "hold_area", json!({"event": till.event, "area": 0, "quantity": 2})).await;
        let mut fields = checkout_of(&held["hold"], "pm_card_visa");
        fields["key"] = key().into();
        buyers.push((buyer, fields));
    }
    buyers
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_areas_are_reserved_and_sold_in_shared_commits_and_counted_once() {
    let till = Till::open().await;
    let mut buyers = standing(&till, 20).await;
    buyers.extend(self::buyers(&till, 0..10).await);
    for ((buyer, fields), reply) in buyers.iter().zip(all_pay(&till, &buyers).await) {
        assert_eq!(reply["order"]["state"], "paid", "{reply}");
        let again = till.call(*buyer, "checkout", fields.clone()).await;
        assert_eq!((&again["order"], &again["replayed"]), (&reply["order"], &true.into()));
    }
    let reserved = "select max(n) from (select count(*) as n from event_log where kind = 'order.created'
        and body -> 'lines' -> 0 ->> 'area' is not null group by xmin::text) commits";
    let sold = "select max(n) from (select count(distinct order_id) as n from tickets where area_index = 0
        group by xmin::text) commits";
    for most in [reserved, sold] {
        assert!(count(&till, most).await > 1, "{most}");
    }
    let stock = "select count(*) from area_stock where reserved = 0 and sold = 40";
    assert_eq!(count(&till, stock).await, 1);
    assert_eq!(count(&till, "select count(*) from tickets where area_index = 0").await, 40);
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_for_whom_an_area_has_no_place_left_takes_nobody_along() {
    let till = Till::open().await;
    let buyers = standing(&till, 12).await;
    // Fewer places than this Redis knows of: for eleven and a half of them.
    let event: EventId = till.event.parse().expect("an id");
    let pool = till.app.store.pool();
    seatwire::store::area_stock::set_capacity(pool, event, AreaIndex(0), 23).await.expect("is set");
    let replies = all_pay(&till, &buyers).await;
    let paid_n = replies.iter().filter(|reply| reply["order"]["state"] == "paid").count();
    let refused: Vec<_> = replies.iter().filter(|reply| reply["ok"] == false).map(code).collect();
    assert_eq!((paid_n, refused), (11, vec!["area_full"]));
    assert_eq!(count(&till, "select count(*) from area_stock where reserved = 0 and sold = 22").await, 1);
    assert_eq!(count(&till, "select count(*) from orders").await, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_cannot_have_the_seat_takes_nobody_along() {
    let till = Till::open().await;
    let buyers = buyers(&till, 0..20).await;
    // Somebody else has the seat, and this Redis does not know.
    let event: EventId = till.event.parse().expect("an id");
    let (other, identity) = (OrderId::generate(), IdentityId::generate());
    let pool = till.app.store.pool();
    seatwire::store::taken_seat::reserve(pool, event, other, identity, 1, &[SeatIndex(9)]).await.expect("reserves");
    for (seat, reply) in all_pay(&till, &buyers).await.iter().enumerate() {
        if seat == 9 {
            assert_eq!((code(reply), &reply["error"]["data"]["seats"]), ("seat_taken", &json!([9])));
        } else {
            assert_eq!(reply["order"]["state"], "paid", "seat {seat}: {reply}");
        }
    }
    assert_eq!(count(&till, "select count(*) from orders").await, 19);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_seat_is_lost_before_it_is_sold_gets_no_ticket_and_the_others_do() {
    let till = Till::open().await;
    let plant = "create function lose_a_seat() returns trigger language plpgsql as $$ begin
            delete from taken_seats where order_id = new.order_id and seat_index = 5; return null; end $$;
        create trigger planted after insert on payment_attempts for each row execute function lose_a_seat()";
    sqlx::raw_sql(plant).execute(till.app.store.pool()).await.expect("planted");
    let buyers = buyers(&till, 0..12).await;
    for (seat, reply) in all_pay(&till, &buyers).await.iter().enumerate() {
        let state = if seat == 5 { "payment_pending" } else { "paid" };
        assert_eq!(reply["order"]["state"], state, "seat {seat}: {reply}");
    }
    assert_eq!(count(&till, "select count(*) from tickets").await, 11);
    assert_eq!(count(&till, "select count(*) from orders where state = 'fulfilled'").await, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_event_takes_no_money_from_those_who_are_just_paying() {
    let till = Till::open().await;
    // Cancelled behind the back of this node, between the reservation and the attempt.
    let plant = "create function cancel_it() returns trigger language plpgsql as $$ begin
            update events set state = 'cancelled'; return null; end $$;
        create trigger planted after insert on orders for each statement execute function cancel_it()";
    sqlx::raw_sql(plant).execute(till.app.store.pool()).await.expect("planted");
    let buyers = buyers(&till, 0..6).await;
    let replies = all_pay(&till, &buyers).await;
    assert!(replies.iter().all(|reply| reply["order"]["state"] != "paid"), "{replies:?}");
    let ledger = till.ledger().await;
    let intents = ledger["intents"].as_array().expect("a list");
    assert!(intents.iter().all(|intent| intent["charges"] == json!([])), "{ledger}");
    assert_eq!(count(&till, "select count(*) from payment_attempts").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_till_is_busy_while_many_wait_and_mails_come_all_the_same() {
    let till = Till::open_with(&Default::default(), &[("SEATWIRE_PAYMENT_TIMEOUT_MS", "20000")]).await;
    let (buyer, hold) = till.buyer_with(&[30]).await;
    let mut slow = Vec::new();
    for seat in 0..10 {
        slow.push(till.buyer_with(&[seat]).await);
    }
    assert!(!till.app.checkout.is_busy());
    let waiting = join_all(slow.iter().map(|(buyer, hold)| till.checkout(*buyer, hold, "pm_sim_delay_10s")));
    let meanwhile = async {
        eventually("the till to be busy", || async { till.app.checkout.is_busy().then_some(()) }).await;
        let order = till.bought(buyer, &hold, "pm_card_visa").await;
        assert_eq!(order["state"], "paid");
        eventually("a mail while it is busy", || async {
            (count(&till, "select count(*) from mails where sent_ms is not null").await == 1).then_some(())
        })
        .await;
        assert!(till.app.checkout.is_busy(), "those who wait still do");
    };
    tokio::join!(waiting, meanwhile);
    assert!(!till.app.checkout.is_busy());
}
