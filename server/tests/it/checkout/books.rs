//! The judge of a sale: joins what the provider did with what the database says, and names everything that does not fit.
//! It shares nothing with the till but table names. Invariants by the numbers of the design: I1 to I4, and I3 in full.

use seatwire_proto::id::OrderId;
use serde_json::Value;
use sqlx::{PgPool, Row};
use std::collections::HashMap;

/// Rules of the database alone: what each counts must not exist.
const RULES: [(&str, &str); 9] = [
    (
        "I13: money kept for void tickets",
        "select count(*) from orders o where o.state in ('fulfilled', 'partially_refunded')
                and o.captured_minor - o.refunded_minor > coalesce((select sum((o.lines->k.line_n->>'price_minor')::bigint
                    + (o.lines->k.line_n->>'fee_minor')::bigint) from tickets k where k.order_id = o.order_id
                    and k.event_id = o.event_id and k.state in ('valid', 'used')), 0)",
    ),
    (
        "I1: a seat with two live tickets",
        "select count(*) from (select 1 from tickets where seat_index is not null and state in ('valid', 'used')
             group by event_id, seat_index having count(*) > 1) x",
    ),
    (
        "I1: a sold seat without a ticket, or a ticket without a seat",
        "select count(*) from taken_seats t full join
             (select * from tickets where seat_index is not null and state in ('valid', 'used')) k
             on k.event_id = t.event_id and k.seat_index = t.seat_index and k.order_id = t.order_id
         where (t.state = 'sold') is distinct from (k.ticket_id is not null)",
    ),
    (
        "a reserved seat without an open order",
        "select count(*) from taken_seats t where state = 'reserved' and not exists (
             select 1 from orders o where o.order_id = t.order_id and o.state in ('creating', 'payable', 'confirming',
             'action_required', 'processing', 'payment_unknown', 'cancelling'))",
    ),
    ("I2: an area above its capacity", "select count(*) from area_stock where reserved + sold > capacity"),
    (
        "I2: an area whose count is not its tickets and reservations",
        "select count(*) from area_stock s where
             sold <> (select count(*) from tickets k where k.event_id = s.event_id and k.area_index = s.area_index
                 and k.state in ('valid', 'used'))
             or reserved <> (select coalesce(sum((line->>'quantity')::int), 0) from orders o,
                 jsonb_array_elements(o.lines) line where o.event_id = s.event_id
                 and (line->>'area')::int = s.area_index and o.state in ('creating', 'payable', 'confirming',
                 'action_required', 'processing', 'payment_unknown', 'cancelling'))",
    ),
    (
        "an identity whose count is not its reserved and sold places",
        "select count(*) from identity_use u where used <> (
             select coalesce(sum(seats_n), 0) from orders o where o.identity_id = u.identity_id
             and o.event_id = u.event_id and o.state in ('creating', 'payable', 'confirming', 'action_required',
             'processing', 'payment_unknown', 'cancelling')) + (select count(*) from tickets k
             where k.identity_id = u.identity_id and k.event_id = u.event_id and k.state in ('valid', 'used'))",
    ),
    (
        "I4: a live ticket of an order that was not paid",
        "select count(*) from tickets k join orders o using (order_id)
         where k.state in ('valid', 'used') and o.captured_minor <> o.total_minor",
    ),
    (
        "an order with more tickets than places",
        "select count(*) from orders o where seats_n < (select count(*) from tickets k where k.order_id = o.order_id
             and k.event_id = o.event_id and k.state in ('valid', 'used'))",
    ),
];

/// What does not fit; empty when all does. `is_settled`: nothing may be open any more.
pub(crate) async fn violations(pool: &PgPool, ledger: &Value, is_settled: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (rule, sql) in RULES {
        let n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect(rule);
        if n > 0 {
            found.push(format!("{n} x {rule}"));
        }
    }
    let sql = "select order_id, state, total_minor, captured_minor, refunded_minor, refunding_minor, intent_id,
        (select count(*) from tickets k where k.order_id = o.order_id and k.event_id = o.event_id
         and k.state in ('valid', 'used')) as live_n from orders o";
    let mut taken: HashMap<String, (i64, i64, i64)> = HashMap::new();
    for intent in ledger["intents"].as_array().expect("a list") {
        let order = intent["metadata"]["order"].as_str().expect("an order").to_owned();
        let entry = taken.entry(order).or_default();
        for charge in intent["charges"].as_array().expect("a list").iter().filter(|charge| charge["paid"] == true) {
            entry.0 += 1;
            entry.1 += charge["amount"].as_i64().expect("an amount");
            entry.2 += charge["amount_refunded"].as_i64().expect("an amount");
        }
    }
    for row in sqlx::query(sql).fetch_all(pool).await.expect("orders") {
        let id = OrderId::from_uuid(row.get("order_id")).to_string();
        let state: String = row.get("state");
        let minor = |name: &str| row.get::<i64, _>(name);
        let (captured, refunded) = (minor("captured_minor"), minor("refunded_minor"));
        let (charges_n, taken_minor, back_minor) = taken.remove(&id).unwrap_or_default();
        let shown = format!(
            "{id} {state} captured {captured} refunded {refunded}; provider {charges_n} charges of {taken_minor}, back {back_minor}"
        );
        if charges_n > 1 {
            found.push(format!("I3: charged more than once: {shown}"));
        }
        if captured > taken_minor || refunded > back_minor {
            found.push(format!("I3: we believe in money that is not there: {shown}"));
        }
        let has_tickets = row.get::<i64, _>("live_n") > 0;
        let is_open = !matches!(
            state.as_str(),
            "fulfilled" | "partially_refunded" | "refunded" | "cancelled" | "refund_failed" | "disputed"
        );
        if is_open {
            if is_settled {
                found.push(format!("never settled: {shown}"));
            }
            continue;
        }
        if captured != taken_minor || refunded != back_minor {
            found.push(format!("I3: money that is not in the books: {shown}"));
        }
        let is_given_back = taken_minor == back_minor;
        if state == "cancelled" && !is_given_back {
            found.push(format!("I3: charged and cancelled: {shown}"));
        }
        if state == "fulfilled" && !has_tickets {
            found.push(format!("I13: paid and without tickets: {shown}"));
        }
        if has_tickets && minor("total_minor") > 0 && is_given_back {
            found.push(format!("I4: live tickets whose money went back whole: {shown}"));
        }
    }
    for (order, (charges_n, ..)) in taken {
        if charges_n > 0 {
            found.push(format!("I3: a charge of an order that is not there: {order}"));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_judge_sees_each_kind_of_wrong_book() {
    let till = super::till::Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    till.bought(buyer, &hold, "pm_card_visa").await;
    let place = serde_json::json!({"event": till.event, "area": 0, "quantity": 2});
    let other = super::Buyer(seatwire_proto::id::IdentityId::generate());
    let reply = till.call(other, "hold_area", place).await;
    till.bought(other, &reply["hold"], "pm_card_visa").await;
    let pool = till.app.store.pool();
    let ledger = till.ledger().await;
    assert_eq!(violations(pool, &ledger, true).await, Vec::<String>::new());
    let seen = async |sql: &'static str, words: &str| {
        let mut transaction = seatwire::store::begin(pool).await.expect("begins");
        sqlx::query(sql).execute(&mut *transaction).await.expect(sql);
        transaction.commit().await.expect("commits");
        let found = violations(pool, &ledger, true).await;
        assert!(found.iter().any(|line| line.contains(words)), "{sql}: {found:?}");
    };
    seen("update taken_seats set state = 'reserved'", "without an open order").await;
    seen("update area_stock set sold = 1", "whose count").await;
    seen("update identity_use set used = 0 where used = 1", "an identity").await;
    seen("update orders set captured_minor = 0 where seats_n = 1", "not in the books").await;
    seen("update orders set state = 'cancelled' where seats_n = 1", "charged and cancelled").await;
    seen("update tickets set state = 'void' where seat_index is null", "without tickets").await;
    seen("delete from orders where seats_n = 2", "not there").await;
}
