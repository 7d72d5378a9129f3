//! The waitlist: who waits is offered what becomes free, in order, one at a time, and nobody else can get it in between.

use super::{Viewer, code};
use crate::support::admin::Admin;
use crate::support::client::{Client, Guest};
use crate::support::eventually;
use crate::support::map::Map;
use crate::support::node::Node;
use crate::support::stage::{Draft, Stage};
use seatwire::organiser::Scope;
use serde_json::{Value, json};

/// A sold-out event of four seats: 0 and 1 are sold, 2 and 3 blocked, so that they can be put on sale later.
pub(super) struct SoldOut {
    pub(super) stage: Stage,
    pub(super) event: String,
    pub(super) nodes: Vec<Node>,
    pub(super) admin: Admin,
    /// Of what is sold.
    order: Value,
}

impl SoldOut {
    pub(super) async fn new(settings: &[(&str, &str)]) -> Self {
        Self::with(vec![1, 3], &[2, 3], settings).await
    }

    /// The same of these rows, with these seats blocked; the last row costs tier B.
    pub(super) async fn with(rows: Vec<u32>, blocked: &[u32], settings: &[(&str, &str)]) -> Self {
        Self::of(Draft { rows, blocked: blocked.to_vec(), ..Draft::default() }, settings).await
    }

    /// The same of this event: what is not blocked is sold; it has no areas.
    pub(super) async fn of(draft: Draft, settings: &[(&str, &str)]) -> Self {
        let sold: Vec<u32> = (0..draft.seat_count()).filter(|seat| !draft.blocked.contains(seat)).collect();
        let draft = Draft { areas: vec![], has_waitlist: true, ..draft };
        let (stage, event) = Stage::with_event(&draft).await;
        let nodes = vec![stage.node_with(settings).await, stage.node_with(settings).await];
        let admin = Admin::new(&stage, &nodes[0], &[Scope::Inventory, Scope::Events, Scope::Read, Scope::Orders]).await;
        let mut sold_out = Self { stage, event, nodes, admin, order: Value::Null };
        let closed = Guest::new(&sold_out.nodes[1].url).await;
        let (status, answer) = sold_out.join(&closed, "early", json!({})).await;
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("waitlist_closed")), "seats are on sale: {answer}");
        let mut buyer = Client::guest(&sold_out.nodes[1].url).await.0;
        let held = buyer.call("hold", json!({"key": "1", "event": sold_out.event, "seats": sold})).await;
        let body = json!({"key": "c", "hold": held["hold"]["id"], "buyer": {"name": "A", "email": "a@example.org"},
            "payment": {"method": "pm_card_visa"}, "expect_total_minor": held["hold"]["total_minor"]});
        let paid = buyer.call("checkout", body).await;
        assert_eq!(paid["order"]["state"], "paid", "{paid}");
        sold_out.order = paid["order"].clone();
        sold_out.until_state("sold_out").await;
        sold_out
    }

    pub(super) async fn until_state(&mut self, state: &str) {
        for node in &self.nodes {
            let guest = Guest::new(&node.url).await;
            eventually("the state", async || {
                let (_, page) = guest.get(&format!("/v1/events/{}", self.event)).await;
                (page["state"] == state).then_some(())
            })
            .await;
        }
    }

    async fn join(&self, guest: &Guest, key: &str, body: Value) -> (u16, Value) {
        guest.post(&format!("/v1/events/{}/waitlist", self.event), key, body).await
    }

    pub(super) async fn unblock(&self, seats: &[u32]) {
        let path = format!("/v1/admin/events/{}/unblock", self.event);
        eventually("the seats are unblocked", async || {
            let (status, _) = self.admin.call("POST", &path, json!({"seats": seats})).await;
            (status == 200).then_some(())
        })
        .await;
    }

    /// Somebody who waits, with a socket on the second node.
    pub(super) async fn waiter(&self, body: Value) -> (Client, Guest) {
        let guest = Guest::new(&self.nodes[1].url).await;
        let client = Client::hello(&self.nodes[1].url, Some(&guest.token)).await;
        let (status, answer) = self.join(&guest, "join", body).await;
        assert_eq!((status, &answer["place"]["state"]), (201, &json!("waiting")), "{answer}");
        (client, guest)
    }

    pub(super) async fn place(&self, guest: &Guest) -> (u16, Value) {
        guest.get(&format!("/v1/events/{}/waitlist", self.event)).await
    }
}

pub(super) fn seats(hold: &Value) -> Vec<u64> {
    hold["lines"].as_array().expect("lines").iter().filter_map(|line| line["seat"].as_u64()).collect()
}

#[tokio::test]
async fn freed_seats_are_offered_in_order_and_never_show_as_available() {
    let sold_out = SoldOut::new(&[("SEATWIRE_OFFER_MS", "8000")]).await;
    let event = sold_out.event.clone();
    let (mut first, first_guest) = sold_out.waiter(json!({"quantity": 2})).await;
    let (mut second, second_guest) = sold_out.waiter(json!({"quantity": 2})).await;
    let (_, place) = sold_out.place(&second_guest).await;
    assert_eq!((&place["place"]["place"], &place["place"]["quantity"]), (&json!(2), &json!(2)), "{place}");
    let mut viewer = Viewer::of(&sold_out.nodes[1].url, &event).await;
    sold_out.unblock(&[2, 3]).await;

    let offer = first.push("waitlist.offer").await;
    let hold = &offer["hold"];
    assert_eq!((seats(hold), &hold["offer"]), (vec![2, 3], &json!(true)), "{offer}");
    assert_eq!(sold_out.place(&first_guest).await.1["place"]["state"], "offered");
    let (_, place) = sold_out.place(&second_guest).await;
    assert_eq!(place["place"]["place"], 1, "next: {place}");
    assert!(!second.has_push("waitlist.offer"), "one at a time");
    let (mut stranger, _) = Client::guest(&sold_out.nodes[0].url).await;
    let refused = stranger.call("hold", json!({"key": "1", "event": event, "seats": [2]})).await;
    assert_eq!(code(&refused), "sold_out", "{refused}");

    // The first lets it lapse: the second has its chance, and pays.
    let lapsed = first.push("hold.expired").await;
    assert_eq!(lapsed["hold"]["id"], hold["id"]);
    let offer = second.push("waitlist.offer").await;
    assert_eq!(seats(&offer["hold"]), [2, 3], "{offer}");
    let body = json!({"key": "c", "hold": offer["hold"]["id"], "buyer": {"name": "B", "email": "b@example.org"},
        "payment": {"method": "pm_card_visa"}, "expect_total_minor": offer["hold"]["total_minor"]});
    let paid = second.call("checkout", body).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    let sold = |map: &Map| map.states == [2, 2, 2, 2];
    let was_available = |map: &Map| map.states[2] == 0 || map.states[3] == 0;
    while !sold(&viewer.map) {
        let frame = viewer.client.frame().await;
        viewer.map.take(&frame);
        assert!(!was_available(&viewer.map), "nobody but who waited could get them");
    }
    for guest in [&first_guest, &second_guest] {
        eventually("the places are over", async || {
            let (status, answer) = sold_out.place(guest).await;
            (status == 404 && answer["error"]["code"] == "place_unknown").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_place_is_joined_changed_and_left_under_a_key() {
    let sold_out = SoldOut::new(&[]).await;
    let (mut client, guest) = sold_out.waiter(json!({"quantity": 2, "price_tiers": ["A"]})).await;
    let (status, again) = sold_out.join(&guest, "join", json!({"quantity": 2, "price_tiers": ["A"]})).await;
    assert_eq!((status, &again["replayed"]), (201, &json!(true)), "{again}");
    let (status, reused) = sold_out.join(&guest, "join", json!({"quantity": 3})).await;
    assert_eq!((status, &reused["error"]["code"]), (422, &json!("key_reused")), "{reused}");
    let (_other, other_guest) = sold_out.waiter(json!({})).await;
    let changed = client.call("waitlist_join", json!({"key": "2", "event": sold_out.event, "quantity": 1})).await;
    let place = &changed["place"];
    assert_eq!(
        (&place["place"], &place["quantity"], &place["price_tiers"]),
        (&json!(1), &json!(1), &json!([])),
        "{changed}"
    );
    let counted: i64 = sqlx::query_scalar("select count(*) from waitlist_places")
        .fetch_one(sold_out.stage.store.pool())
        .await
        .expect("a count");
    assert_eq!(counted, 2, "one place an identity and event");
    for (fields, wanted) in [
        (json!({"quantity": 0}), "bad_field"),
        (json!({"quantity": 11}), "limit_exceeded"),
        (json!({"quantity": 1, "price_tiers": ["Z"]}), "bad_field"),
        (json!({"quantity": 1, "price_tiers": ["A", "A"]}), "bad_field"),
        (json!({"quantity": 1, "price_tiers": []}), "bad_field"),
    ] {
        let mut body = fields;
        body["event"] = sold_out.event.as_str().into();
        body["key"] = wanted.into();
        let reply = client.call("waitlist_join", body.clone()).await;
        assert_eq!(code(&reply), wanted, "{body}: {reply}");
    }
    let (status, refused) = other_guest.post(&format!("/v1/events/{}/waitlist", sold_out.event), "", json!({})).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("bad_field")), "without a key: {refused}");
    let left = client.call("waitlist_leave", json!({"key": "l", "event": sold_out.event})).await;
    assert_eq!((code(&left), &left["place"]), ("ok", &Value::Null), "{left}");
    let left = client.call("waitlist_leave", json!({"key": "l2", "event": sold_out.event})).await;
    assert_eq!((code(&left), &left["error"]["number"]), ("place_unknown", &json!(4103)), "{left}");
    assert_eq!(sold_out.place(&other_guest).await.1["place"]["place"], 1, "moved up");
    let mut nobody = Client::hello(&sold_out.nodes[0].url, None).await;
    let refused = nobody.call("waitlist_join", json!({"key": "n", "event": sold_out.event})).await;
    assert_eq!(code(&refused), "unauthorized");
}

#[tokio::test]
async fn who_leaves_with_an_offer_gives_it_to_the_next() {
    let sold_out = SoldOut::new(&[]).await;
    let (mut first, first_guest) = sold_out.waiter(json!({"quantity": 2})).await;
    let (mut second, second_guest) = sold_out.waiter(json!({"quantity": 2})).await;
    sold_out.unblock(&[2, 3]).await;
    assert_eq!(seats(&first.push("waitlist.offer").await["hold"]), [2, 3]);
    // On another device and node.
    let mut other_device = Client::hello(&sold_out.nodes[0].url, Some(&first_guest.token)).await;
    assert!(!other_device.has_push("hold.update"));
    let left = first.call("waitlist_leave", json!({"key": "l", "event": sold_out.event})).await;
    assert_eq!((&left["ok"], &left["place"]), (&json!(true), &Value::Null), "{left}");
    for client in [&mut first, &mut other_device] {
        let gone = loop {
            let update = client.push("hold.update").await;
            if update["hold"].is_null() {
                break update;
            }
        };
        assert!(gone["id"].as_str().is_some_and(|id| id.starts_with("hld_")), "{gone}");
    }
    let offer = second.push("waitlist.offer").await;
    assert_eq!(seats(&offer["hold"]), [2, 3], "{offer}");
    assert_eq!(sold_out.place(&first_guest).await.0, 404);
    // One whose payment has begun keeps it: it is paid, whatever becomes of the place.
    let body = json!({"key": "c", "hold": offer["hold"]["id"], "buyer": {"name": "B", "email": "b@example.org"},
        "payment": {"method": "pm_card_authenticationRequired"}, "expect_total_minor": offer["hold"]["total_minor"]});
    let begun = second.call("checkout", body).await;
    assert_eq!(begun["order"]["state"], "action_required", "{begun}");
    second.call("waitlist_leave", json!({"key": "l", "event": sold_out.event})).await;
    let (_, hold) = second_guest.get(&format!("/v1/holds/{}", offer["hold"]["id"].as_str().expect("an id"))).await;
    assert_eq!((&hold["hold"]["locked"], seats(&hold["hold"])), (&json!(true), vec![2, 3]), "{hold}");
}

#[tokio::test]
async fn what_a_refund_gives_back_is_for_those_who_wait() {
    let sold_out = SoldOut::new(&[]).await;
    let (mut first, _) = sold_out.waiter(json!({"quantity": 2})).await;
    let mut viewer = Viewer::of(&sold_out.nodes[1].url, &sold_out.event).await;
    let Admin { url, key } = &sold_out.admin;
    let url = format!("{url}/v1/admin/orders/{}/refunds", sold_out.order["id"].as_str().expect("an id"));
    let refund = reqwest::Client::new().post(url).bearer_auth(key).header("Idempotency-Key", "refund");
    let refunded = refund.json(&json!({"all": true, "reason": "x"})).send().await.expect("answers");
    assert!(refunded.status().is_success(), "{refunded:?}");
    let mut offered = seats(&first.push("waitlist.offer").await["hold"]);
    offered.sort_unstable();
    assert_eq!(offered, [0, 1]);
    while viewer.map.states[..2] != [1, 1] {
        let frame = viewer.client.frame().await;
        viewer.map.take(&frame);
        assert!(!viewer.map.states[..2].contains(&0), "nobody but who waited could get them");
    }
}

#[tokio::test]
async fn no_seat_is_offered_to_two_whatever_races() {
    let sold_out = SoldOut::new(&[("SEATWIRE_OFFER_MS", "1000")]).await;
    let mut waiters = Vec::new();
    for _ in 0..6 {
        waiters.push(sold_out.waiter(json!({})).await);
    }
    sold_out.unblock(&[2, 3]).await;
    let mut watching = Vec::new();
    for (mut client, _) in waiters {
        watching.push(tokio::spawn(async move {
            let offer = client.push("waitlist.offer").await;
            let hold = &offer["hold"];
            let ms = |name: &str| hold[name].as_u64().expect("ms");
            (seats(hold), ms("server_ms"), ms("expires_ms"))
        }));
    }
    let mut offers = Vec::new();
    for watch in watching {
        offers.push(watch.await.expect("runs"));
    }
    offers.sort_by_key(|(_, _, expires_ms)| *expires_ms);
    for seat in [2, 3] {
        let mine: Vec<_> = offers.iter().filter(|(seats, ..)| *seats == [seat]).collect();
        assert_eq!(mine.len(), 3, "six offers for two seats: {offers:?}");
        for pair in mine.windows(2) {
            assert!(pair[1].1 >= pair[0].2, "an offer begins after the one before is over: {offers:?}");
        }
    }
}

#[tokio::test]
async fn an_old_offer_is_not_one_of_the_new_place_and_cannot_be_made_longer() {
    let sold_out = SoldOut::new(&[("SEATWIRE_OFFER_MS", "6000")]).await;
    let (mut client, guest) = sold_out.waiter(json!({"quantity": 2})).await;
    sold_out.unblock(&[2, 3]).await;
    let first = client.push("waitlist.offer").await;
    // As if seat 3 was their own: a basket that is more than what was offered is not given back with the place, though it
    // has no more seats than were waited for.
    let sql = "update waitlist_places set offered_seats = '{2}' where offered_seats = '{2, 3}'";
    let grown = sqlx::query(sql).execute(sold_out.stage.store.pool()).await.expect("sql");
    assert_eq!(grown.rows_affected(), 1, "what was offered is noted");
    let longer = client.call("extend", json!({"key": "e", "hold": first["hold"]["id"]})).await;
    assert_eq!((code(&longer), &longer["error"]["number"]), ("extend_refused", &json!(2104)), "{longer}");
    assert_eq!(longer["error"]["message"], "an offer of the waitlist cannot be extended", "it never was: {longer}");
    let left = client.call("waitlist_leave", json!({"key": "l", "event": sold_out.event})).await;
    assert_eq!(code(&left), "ok", "{left}");
    let joined = client.call("waitlist_join", json!({"key": "j", "event": sold_out.event})).await;
    assert_eq!(joined["place"]["state"], "waiting", "{joined}");
    let lapsed = client.push("hold.expired").await;
    assert_eq!(lapsed["hold"]["id"], first["hold"]["id"]);
    let second = client.push("waitlist.offer").await;
    assert_ne!(second["hold"]["id"], first["hold"]["id"], "not the old one again: {second}");
    assert_eq!(sold_out.place(&guest).await.1["place"]["hold"], second["hold"]["id"]);
}

#[tokio::test]
async fn places_end_with_their_event() {
    for end in ["update events set state = 'closed'", "update events set starts_ms = 1"] {
        let sold_out = SoldOut::new(&[]).await;
        let (_client, guest) = sold_out.waiter(json!({"quantity": 1})).await;
        sqlx::query(end).execute(sold_out.stage.store.pool()).await.expect("written");
        eventually("the place to be over", async || {
            let (status, answer) = sold_out.place(&guest).await;
            (status == 404 && answer["error"]["code"] == "place_unknown").then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn an_offer_may_be_taken_after_the_event_was_closed_and_one_given_back_is_free() {
    let sold_out = SoldOut::new(&[]).await;
    let (mut first, first_guest) = sold_out.waiter(json!({})).await;
    let (mut second, second_guest) = sold_out.waiter(json!({})).await;
    let (_third, third_guest) = sold_out.waiter(json!({})).await;
    let mut viewer = Viewer::of(&sold_out.nodes[0].url, &sold_out.event).await;
    sold_out.unblock(&[2, 3]).await;
    let taken = first.push("waitlist.offer").await["hold"].clone();
    let left = second.push("waitlist.offer").await["hold"].clone();
    let path = format!("/v1/admin/events/{}/state", sold_out.event);
    sold_out.admin.done("PUT", &path, json!({"state": "closed"})).await;
    let is_over = async |guest: &Guest| {
        eventually("the place to be over", async || (sold_out.place(guest).await.0 == 404).then_some(())).await;
    };
    is_over(&third_guest).await;
    assert_eq!(sold_out.place(&first_guest).await.1["place"]["state"], "offered", "it has its turn");
    let order = first.pay(&taken).await;
    assert_eq!(order["state"], "paid", "{order}");
    let given = second.call("release", json!({"key": "r", "hold": left["id"]})).await;
    assert_eq!(code(&given), "ok", "{given}");
    viewer
        .until("one sold, one free", |map| {
            let states = [seats(&taken)[0], seats(&left)[0]].map(|seat| map.states[seat as usize]);
            states == [2, 0]
        })
        .await;
    is_over(&first_guest).await;
    is_over(&second_guest).await;
    let kinds: Vec<String> = sqlx::query_scalar(
        "select kind from event_log where kind like 'waitlist.%' and kind <> 'waitlist.joined' order by kind",
    )
    .fetch_all(sold_out.stage.store.pool())
    .await
    .expect("rows");
    let expected = ["waitlist.lapsed", "waitlist.left", "waitlist.offered", "waitlist.offered", "waitlist.taken"];
    assert_eq!(kinds, expected);
    assert!(!first.has_push("hold.revoked") && !second.has_push("hold.revoked"));
}

#[tokio::test]
async fn a_refused_wish_is_remembered_with_what_the_buyer_has_and_a_key_is_one_for_all_events() {
    let sold_out = SoldOut::new(&[]).await;
    let (mut client, guest) = sold_out.waiter(json!({"quantity": 1})).await;
    // Two bought, so that nine more are too many.
    let pool = sold_out.stage.store.pool();
    let identity: seatwire_proto::id::IdentityId = guest.identity.parse().expect("an id");
    sqlx::query("insert into identity_use (event_id, identity_id, used, limit_n) select id, $1, 2, 10 from events")
        .bind(identity.uuid())
        .execute(pool)
        .await
        .expect("written");
    let join = |key: &str, quantity: u32| json!({"key": key, "event": sold_out.event, "quantity": quantity});
    let refused = client.call("waitlist_join", join("k", 9)).await;
    assert_eq!((code(&refused), &refused["error"]["data"]), ("limit_exceeded", &json!({"limit": 10, "used": 2})));
    assert_eq!(code(&client.call("waitlist_join", join("fits", 8)).await), "ok");
    // First the key: what was refused stays refused under it, on both roads and nodes.
    sqlx::query("delete from identity_use where identity_id = $1")
        .bind(identity.uuid())
        .execute(pool)
        .await
        .expect("ok");
    let again = client.call("waitlist_join", join("k", 9)).await;
    assert_eq!((&again["replayed"], &again["error"]), (&json!(true), &refused["error"]), "{again}");
    let (status, again) = sold_out.join(&guest, "k", json!({"quantity": 9})).await;
    assert_eq!((status, &again["error"]["data"]["used"]), (409, &json!(2)), "{again}");
    for (key, quantity) in [("k", 1), ("fits", 9), ("fits", 200)] {
        let reused = client.call("waitlist_join", join(key, quantity)).await;
        assert_eq!(code(&reused), "key_reused", "{reused}");
    }
    let leave = json!({"key": "fits", "event": sold_out.event});
    assert_eq!(code(&client.call("waitlist_leave", leave).await), "key_reused", "nor for another command");
    let other = crate::support::stage::enter_event(&sold_out.stage.store, &Draft::default()).await.to_string();
    let elsewhere = json!({"key": "fits", "event": other, "quantity": 8});
    assert_eq!(code(&client.call("waitlist_join", elsewhere).await), "key_reused", "nor in another event");
    assert_eq!(code(&client.call("waitlist_join", join("k2", 9)).await), "ok", "a new key is decided anew");
}

#[tokio::test]
async fn many_who_want_much_do_not_stand_before_one_whom_it_fits() {
    let sold_out = SoldOut::new(&[("SEATWIRE_WAITLIST_KEEP_MS", "600000")]).await;
    let event: seatwire_proto::id::EventId = sold_out.event.parse().expect("an id");
    sqlx::query(
        "insert into waitlist_places (event_id, identity_id, quantity, price_tiers, state, joined_ms)
         select $1, gen_random_uuid(), 10, '{}', 'waiting', 0 from generate_series(1, 250)",
    )
    .bind(event.uuid())
    .execute(sold_out.stage.store.pool())
    .await
    .expect("places");
    let (mut client, _) = sold_out.waiter(json!({"quantity": 2})).await;
    sold_out.unblock(&[2, 3]).await;
    assert_eq!(seats(&client.push("waitlist.offer").await["hold"]), [2, 3]);
}

#[tokio::test]
async fn neighbours_of_one_row_come_before_seats_with_indices_in_a_row() {
    let sold_out = SoldOut::with(vec![4, 4], &[3, 4, 6, 7], &[]).await;
    let (mut client, _) = sold_out.waiter(json!({"quantity": 2})).await;
    sold_out.unblock(&[3, 4, 6, 7]).await;
    assert_eq!(seats(&client.push("waitlist.offer").await["hold"]), [6, 7]);
}
