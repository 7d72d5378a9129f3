//! The sale on HASH-partitioned tables, so that a busy event can live in a partition of its own: each hot table knows its
//! event and refers to nothing outside it. The schema is made of the migrated one by `hot_tables.sql`, which puts the event
//! in front of the keys that are unique without it. scripts/test.sh runs all of `checkout` on it as well.

use crate::checkout::till::Till;
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::postgres::is_partitioned;
use crate::support::stage::{Draft, Stage, enter_event};
use crate::support::{UNHURRIED, eventually};
use seatwire::checkout::order::OrderState;
use seatwire::organiser::Scope;
use seatwire::store::StoreError;
use seatwire::store::constraint::{Constraint, broken};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use std::process::{Command, Output};

/// Makes the hot tables of a migrated database partitioned ones.
pub(crate) async fn partition(pool: &PgPool) {
    // All of it counts as one statement, which on a slow machine takes longer than one of a node may.
    let mut making = seatwire::store::begin(pool).await.expect("begins");
    sqlx::raw_sql("set local statement_timeout = 0").execute(&mut *making).await.expect("sets");
    sqlx::raw_sql(include_str!("partition/hot_tables.sql")).execute(&mut *making).await.expect("partitions");
    making.commit().await.expect("commits");
}

/// A stage whose hot tables are partitioned.
async fn partitioned() -> Stage {
    let stage = Stage::new().await;
    if !is_partitioned() {
        partition(stage.store.pool()).await;
    }
    stage
}

async fn count(stage: &Stage, query: &str) -> i64 {
    let query = AssertSqlSafe(query.to_owned());
    sqlx::query_scalar(query).fetch_one(stage.store.pool()).await.expect("a number")
}

/// In how many partitions the events lie.
const PARTITIONS: &str = "select count(distinct n) from events, generate_series(0, 3) as n
    where satisfies_hash_partition('public.taken_seats'::regclass, 4, n, id)";

/// Holds seats and places, and pays for them.
async fn buy(url: &str, event: &str, seats: &[u32], places: u32) -> (Client, Value) {
    let (mut client, _) = Client::guest(url).await;
    let held = client.call("hold", json!({"key": "1", "event": event, "seats": seats})).await;
    assert_eq!(held["ok"], true, "{held}");
    let mut hold = held["hold"].clone();
    if places > 0 {
        let more = client.call("hold_area", json!({"key": "2", "event": event, "area": 0, "quantity": places})).await;
        hold = more["hold"].clone();
    }
    let body = json!({"key": "c", "hold": hold["id"], "buyer": {"name": "A", "email": "a@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": hold["total_minor"]});
    let paid = client.call("checkout", body).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    (client, paid["order"].clone())
}

#[tokio::test]
async fn the_sale_runs_on_partitioned_tables_and_every_rule_keeps_its_name() {
    let mut stage = partitioned().await;
    let mut events = Vec::new();
    let draft = Draft { areas: vec![3], ..Draft::default() };
    // Until they lie in two partitions, as chance has it.
    while events.len() < 4 || count(&stage, PARTITIONS).await < 2 {
        events.push(enter_event(&stage.store, &draft).await.to_string());
    }
    let sold = 2 * events.len() as i64;
    let nodes = [stage.node().await, stage.node().await];
    for (number, event) in events.iter().enumerate() {
        let url = &nodes[number % 2].url;
        let (mut client, order) = buy(url, event, &[1, 2], 2).await;
        assert_eq!(order["tickets"].as_array().map(Vec::len), Some(4), "{order}");
        let (mut second, _) = Client::guest(&nodes[0].url).await;
        let refused = second.call("hold", json!({"key": "1", "event": event, "seats": [2]})).await;
        assert_eq!(refused["error"]["code"], "seat_taken", "{refused}");
        let refused = second.call("hold_area", json!({"key": "2", "event": event, "area": 0, "quantity": 2})).await;
        assert_eq!(refused["error"]["code"], "area_full", "{refused}");
        // A declined order is given back.
        let held = client.call("hold", json!({"key": "3", "event": event, "seats": [9]})).await;
        let body = json!({"key": "d", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
            "payment": {"method": "pm_card_visa_chargeDeclined"}, "expect_total_minor": 4750});
        let declined = client.call("checkout", body).await;
        assert_eq!(declined["order"]["state"], "payment_declined", "{declined}");
        let cancelled = client.call("cancel", json!({"key": "e", "order": declined["order"]["id"]})).await;
        assert_eq!(cancelled["order"]["state"], "cancelled", "{cancelled}");
    }
    eventually("the outbox is told", async || (count(&stage, "select count(*) from outbox").await == 0).then_some(()))
        .await;
    assert_eq!(count(&stage, "select count(*) from taken_seats where state = 'sold'").await, sold);
    assert_eq!(
        count(&stage, "select count(*) from seat_log where state = 'sold'").await,
        sold,
        "the triggers came along"
    );
    assert!(count(&stage, "select count(distinct tableoid) from taken_seats").await > 1, "in more than one partition");

    for (rule, breach) in breaches() {
        let failed = sqlx::raw_sql(breach).execute(stage.store.pool()).await;
        let error = StoreError::from(failed.expect_err(breach));
        assert_eq!(broken(&error), Some(rule), "{breach}: {error}");
    }
    for append_only in ["delete from seat_log", "update seat_log set state = 'x'", "delete from event_epochs"] {
        assert!(sqlx::raw_sql(append_only).execute(stage.store.pool()).await.is_err(), "{append_only}");
    }

    // A new life is read from the partitions as well, and everything agrees.
    stage.redis.kill();
    stage.redis.restart().await;
    let guest = Guest::new(&nodes[0].url).await;
    for event in &events {
        eventually("the event is open", async || {
            let (mut buyer, _) = Client::guest(&nodes[0].url).await;
            let reply = buyer.call("hold", json!({"key": "again", "event": event, "seats": [30]})).await;
            (reply["ok"] == true).then_some(())
        })
        .await;
        let (_, map) = guest.get(&format!("/v1/events/{event}/snapshot?format=json")).await;
        assert_eq!(map["states"].as_str().map(|states| &states[..4]), Some("0220"), "{map}");
        let audit = audit(&stage, event);
        assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    }
}

#[tokio::test]
async fn a_refund_feeds_the_waitlist_on_partitioned_tables() {
    let stage = partitioned().await;
    let draft = Draft { rows: vec![2], areas: vec![], has_waitlist: true, ..Draft::default() };
    let event = enter_event(&stage.store, &draft).await.to_string();
    let node = stage.node().await;
    let admin = Admin::new(&stage, &node, &[Scope::Orders]).await;
    let (_buyer, order) = buy(&node.url, &event, &[0, 1], 0).await;
    let mut waiter = eventually("the event to be sold out", async || {
        let (mut client, _) = Client::guest(&node.url).await;
        let joined = client.call("waitlist_join", json!({"key": "j", "event": event, "quantity": 2})).await;
        (joined["ok"] == true).then_some(client)
    })
    .await;
    let url = format!("{}/v1/admin/orders/{}/refunds", admin.url, order["id"].as_str().expect("an id"));
    let refund = reqwest::Client::new().post(url).bearer_auth(&admin.key).header("Idempotency-Key", "r");
    let refunded = refund.json(&json!({"all": true, "reason": "x"})).send().await.expect("answers");
    assert!(refunded.status().is_success(), "{refunded:?}");
    let hold = waiter.push("waitlist.offer").await["hold"].clone();
    let body = json!({"key": "c", "hold": hold["id"], "buyer": {"name": "B", "email": "b@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": hold["total_minor"]});
    let paid = waiter.call("checkout", body).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    eventually("the outbox is told", async || (count(&stage, "select count(*) from outbox").await == 0).then_some(()))
        .await;
    let agrees = audit(&stage, &event);
    assert!(agrees.status.success(), "{}", String::from_utf8_lossy(&agrees.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_success_takes_its_seats_again_or_goes_back_on_partitioned_tables() {
    let stage = partitioned().await;
    let event = enter_event(&stage.store, &Draft::default()).await.to_string();
    let till = Till::open_on(stage, event).await;
    let late = async |seats: &[u32]| {
        let (buyer, hold) = till.buyer_with(seats).await;
        (buyer, till.bought(buyer, &hold, "pm_sim_late_success_40m").await["id"].clone())
    };
    let (first, taken_again) = late(&[5]).await;
    let (second, gone) = late(&[7, 8]).await;
    for seat in [5, 7, 8] {
        till.until_seat(seat, 0).await;
    }
    for order in [&taken_again, &gone] {
        assert_eq!(till.inner_state(order).await, OrderState::ReleasedUnresolved);
    }
    let (other, hold) = till.buyer_with(&[8]).await;
    till.bought(other, &hold, "pm_card_visa").await;
    let paid = till.until(first, &taken_again, "paid").await;
    assert_eq!(paid["tickets"][0]["seat"], 5, "{paid}");
    let refunded = till.until(second, &gone, "refunded").await;
    assert_eq!(refunded["refunded_minor"], 9500, "{refunded}");
    assert_eq!(till.money(&gone).await, (vec![9500], 9500));
    for (seat, state) in [(5, 2), (7, 0), (8, 2)] {
        till.until_seat(seat, state).await;
    }
    till.check_books().await;
    let agrees = async || (count(&till.stage, "select count(*) from outbox").await == 0).then_some(());
    eventually("the outbox is told", agrees).await;
    let audit = audit(&till.stage, &till.event);
    assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
}

fn audit(stage: &Stage, event: &str) -> Output {
    Command::new(crate::support::program())
        .args(["audit", event])
        .envs(UNHURRIED)
        .env("DATABASE_URL", &stage.database_url)
        .env("REDIS_URL", stage.redis.url())
        .output()
        .expect("runs")
}

/// A statement for every rule whose breach is an answer.
fn breaches() -> Vec<(Constraint, &'static str)> {
    const ORDER: &str = "insert into orders select (jsonb_populate_record(o, jsonb_build_object(
        'order_id', gen_random_uuid(), 'reference', 'ZZZZZZZZ', 'command_key', 'other', 'intent_id', null))).*
        from orders o where o.state <> 'cancelled' limit 1";
    vec![
        (Constraint::SeatTaken, "insert into taken_seats select * from taken_seats limit 1"),
        (
            Constraint::SeatTaken,
            "insert into tickets select (jsonb_populate_record(t, jsonb_build_object('ticket_id', gen_random_uuid(), 'code', 'x'))).*
             from tickets t where seat_index is not null limit 1",
        ),
        (Constraint::AreaFull, "update area_stock set capacity = sold - 1"),
        (Constraint::IdentityLimit, "update identity_use set limit_n = used - 1 where used > 0"),
        (Constraint::InstrumentLimit, "insert into instrument_use select event_id, 'card', 2, 1 from orders limit 1"),
        (Constraint::OrderExists, "insert into orders select * from orders limit 1"),
        (Constraint::HoldHasOrder, ORDER),
        (
            Constraint::AttemptOpen,
            "insert into payment_attempts select (jsonb_populate_record(p, jsonb_build_object('charge_id', null, 'idempotency_key', 'x'))).*
             from payment_attempts p limit 1",
        ),
        (
            Constraint::OverRefund,
            "update orders set refunding_minor = captured_minor - refunded_minor + 1 where captured_minor > 0",
        ),
    ]
}
