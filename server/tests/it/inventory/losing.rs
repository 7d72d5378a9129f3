//! Losing Redis, whole or in part: the next life begins from what Postgres knows, and nothing of the old one works.

use super::shelf::{Shelf, indices, refused, seats_of};
use crate::support::eventually;
use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use seatwire::inventory::{ChangeOutcome, HoldOutcome, InventoryError, Place, Refusal, ReleaseWhat};
use seatwire::store::{area_stock, epoch, identity_use, taken_seat};
use seatwire_proto::id::{IdentityId, OrderId};
use seatwire_proto::seat::{AreaIndex, SeatIndex};

/// A command is waited for half a second, and nobody waits for a line that is being made again; the rest is for a busy
/// machine.
const SOON: std::time::Duration = std::time::Duration::from_secs(4);

impl Shelf {
    /// A plain command of an operator.
    async fn redis_cli(&self, words: &[&str]) {
        let client = self.plain_client().await;
        let command = CustomCommand::new(words[0].to_owned(), ClusterHash::Random, false);
        let rest: Vec<Value> = words[1..].iter().map(|&word| Value::from(word)).collect();
        let _: Value = client.custom(command, rest).await.expect("runs");
        client.quit().await.expect("quits");
    }

    /// Every key there is.
    async fn keys(&self) -> Vec<String> {
        let client = self.plain_client().await;
        let command = CustomCommand::new_static("KEYS", ClusterHash::Random, false);
        let keys = client.custom(command, vec![Value::from("*")]).await.expect("runs");
        client.quit().await.expect("quits");
        keys
    }

    /// What a checkout writes: these seats of an order, reserved or sold.
    async fn reserve(&self, order: OrderId, identity: IdentityId, seats: &[u32], places: u32) {
        let pool = self.store.pool();
        taken_seat::reserve(pool, self.event.id, order, identity, 1, &indices(seats)).await.expect("free");
        if places > 0 {
            area_stock::reserve(pool, self.event.id, AreaIndex(0), 5, places).await.expect("room");
        }
        let all = seats.len() as u32 + places;
        identity_use::add(pool, self.event.id, identity, all, 10).await.expect("within the limit");
    }
}

/// The next answer that is not "ask again".
async fn healed<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, InventoryError>>,
{
    eventually(what, || {
        let asked = ask();
        async move { asked.await.ok() }
    })
    .await
}

#[tokio::test]
async fn redis_killed_and_back_empty_is_a_new_life_with_every_sale_intact() {
    let mut shelf = Shelf::new().await;
    let hurried = shelf.hurried_node().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[1]).await;
    healed("a look", || hurried.read_map(&shelf.event)).await;
    let (paid, open) = (OrderId::generate(), OrderId::generate());
    shelf.reserve(paid, bob, &[5, 6], 2).await;
    taken_seat::sell(shelf.store.pool(), shelf.event.id, paid).await.expect("sold");
    area_stock::sell(shelf.store.pool(), shelf.event.id, AreaIndex(0), 2).await.expect("sold");
    shelf.reserve(open, ann, &[7], 1).await;

    shelf.redis.kill();
    let began = std::time::Instant::now();
    let error = hurried.hold(shelf.caller(ann), &indices(&[2])).await.expect_err("Redis is gone");
    assert!(matches!(error, InventoryError::Unavailable(_) | InventoryError::TimeoutUnknown), "{error:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    eventually("a plain refusal", || async {
        let asked = shelf.try_hold(shelf.caller(ann), &[2]).await;
        matches!(asked, Err(InventoryError::Unavailable(_))).then_some(())
    })
    .await;

    shelf.redis.restart().await;
    let map = healed("the rebuild", || shelf.inventory.read_map(&shelf.event)).await;
    assert_eq!((map.epoch, map.seq), (2, 0));
    assert_eq!(map.areas, [2, 100]);
    assert_eq!(map.states[5..8], [2, 2, 1], "sold, sold, reserved: viewers see held");
    assert_eq!(epoch::current(shelf.store.pool(), shelf.event.id).await.expect("there"), Some(2));
    for seat in [5, 7] {
        let refusal = refused(shelf.hold(IdentityId::generate(), &[seat]).await);
        assert_eq!(refusal, Refusal::SeatTaken(indices(&[seat])));
    }
    assert_eq!(refused(shelf.hold(bob, &[1, 2, 3]).await), Refusal::LimitExceeded { limit: 6, used: 4 });
    shelf.held(bob, &[1]).await;
}

#[tokio::test]
async fn what_was_reserved_before_the_loss_is_sold_or_freed_after_it() {
    let mut shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.position().await;
    let (first, second) = (OrderId::generate(), OrderId::generate());
    shelf.reserve(first, ann, &[1, 2], 0).await;
    shelf.reserve(second, bob, &[3], 2).await;
    for (order, identity) in [(first, ann), (second, bob)] {
        insert_order(&shelf, order, identity).await;
    }
    shelf.redis.kill();
    shelf.redis.restart().await;
    healed("the rebuild", || shelf.inventory.read_map(&shelf.event)).await;
    assert_eq!((&shelf.map().await[..5], shelf.areas().await[0]), ("01110", 3));
    let seat = |seat| (Place::Seat(SeatIndex(seat)), 1);
    for _ in 0..2 {
        shelf.inventory.sell(&shelf.event, first, ann, &[seat(1), seat(2)]).await.expect("Redis answers");
        let places = [seat(3), (Place::Area(AreaIndex(0)), 2)];
        shelf.inventory.free(&shelf.event, second, bob, &places).await.expect("Redis answers");
    }
    assert_eq!((&shelf.map().await[..5], shelf.areas().await[0]), ("02200", 5));
    assert_eq!(refused(shelf.hold(ann, &[4, 5, 6, 7, 8]).await), Refusal::LimitExceeded { limit: 6, used: 2 });
    shelf.held(bob, &[3, 4, 5, 6, 7, 8]).await;
}

/// An order that is not paid yet, as a checkout leaves it.
async fn insert_order(shelf: &Shelf, order: OrderId, identity: IdentityId) {
    sqlx::query(
        "insert into orders (order_id, event_id, identity_id, hold_id, epoch, reference, command_key, state, lines, seats_n,
           total_minor, currency, buyer_name, buyer_email, pay_secret, provider, state_since_ms, lock_until_ms, created_ms)
         values ($1, $2, $3, $1, 1, $4, $4, 'confirming', '[]', 1, 100, 'EUR', 'n', 'e', 's', 'paysim', 1, 1, 1)",
    )
    .bind(order.uuid())
    .bind(shelf.event.id.uuid())
    .bind(identity.uuid())
    .bind(order.to_string())
    .execute(shelf.store.pool())
    .await
    .expect("inserts");
}

#[tokio::test]
async fn scripts_flushed_are_loaded_again_and_nothing_else_happens() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[1]).await;
    shelf.redis_cli(&["SCRIPT", "FLUSH"]).await;
    shelf.held(ann, &[2]).await;
    assert_eq!(shelf.position().await, (1, 2));
}

#[tokio::test]
async fn everything_flushed_is_a_new_life_for_every_node_and_the_old_one_is_dead() {
    let shelf = Shelf::new().await;
    let other = shelf.another_node().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1]).await;
    other.read_map(&shelf.event).await.expect("Redis answers");
    shelf.redis_cli(&["FLUSHALL"]).await;
    let (one, two) = tokio::join!(
        healed("the rebuild", || shelf.inventory.read_map(&shelf.event)),
        healed("the rebuild", || other.read_map(&shelf.event))
    );
    let epochs = (one.epoch, two.epoch);
    assert_eq!(epochs, (2, 2), "one rebuild, whoever asked first");
    let gone = ChangeOutcome::Refused(Refusal::HoldNotFound);
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, gone);
    let message = eventually("the new life to be told", || async {
        shelf.heard.lock().iter().find(|message| message.epoch == 2).cloned()
    })
    .await;
    assert_eq!((message.seq, message.seats), (0, vec![]));
    assert_eq!(shelf.inventory.changes_since(&shelf.event, 1, 0).await.expect("Redis answers"), None);
}

#[tokio::test]
async fn a_restart_with_old_data_on_disk_is_not_trusted() {
    let folder_settings = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut shelf = Shelf::of(super::shelf::facts(), &folder_settings).await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[1]).await;
    shelf.redis.kill();
    shelf.redis.restart().await;
    let map = healed("the rebuild", || shelf.inventory.read_map(&shelf.event)).await;
    assert_eq!(map.epoch, 2);
    // A node that starts later finds the same life.
    assert_eq!(shelf.another_node().await.read_map(&shelf.event).await.expect("Redis answers").epoch, 2);
}

#[tokio::test]
async fn a_life_that_has_gone_back_is_over() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[1]).await;
    let meta = format!("{{{}}}:1:m", shelf.event.id);
    let copy = format!("{meta}.copy");
    shelf.redis_cli(&["COPY", &meta, &copy]).await;
    shelf.held(ann, &[2]).await;
    shelf.redis_cli(&["COPY", &copy, &meta, "REPLACE"]).await;
    let seats = indices(&[3]);
    let answer = healed("the rebuild", || shelf.inventory.hold(shelf.caller(ann), &seats)).await;
    let HoldOutcome::Held { hold, .. } = answer.outcome else { panic!("refused") };
    assert_eq!(seats_of(&hold), [3]);
    assert_eq!(shelf.position().await, (2, 1));
}

#[tokio::test]
async fn a_full_redis_says_busy_to_holds_and_still_takes_back() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    let hold = shelf.held(ann, &[1]).await;
    shelf.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = shelf.try_hold(shelf.caller(ann), &[2]).await.expect_err("full");
    assert!(matches!(error, InventoryError::Overloaded(_)), "{error:?}");
    assert_eq!(shelf.release(ann, hold.id, ReleaseWhat::All).await, ChangeOutcome::Done(None));
    shelf.redis_cli(&["CONFIG", "SET", "maxmemory", "0"]).await;
    shelf.held(ann, &[2]).await;
}

#[tokio::test]
async fn a_command_that_comes_too_late_does_nothing() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[1]).await;
    let hurried = shelf.hurried_node().await;
    healed("a look", || hurried.read_map(&shelf.event)).await;
    shelf.redis.signal("STOP");
    let began = std::time::Instant::now();
    let error = hurried.hold(shelf.caller(ann), &indices(&[2])).await.expect_err("Redis is asleep");
    assert!(matches!(error, InventoryError::TimeoutUnknown), "{error:?}");
    let asleep = began.elapsed();
    let error = hurried.open_hold(&shelf.event, ann).await.expect_err("Redis is asleep");
    assert!(matches!(error, InventoryError::Unavailable(_)), "a read changes nothing: {error:?}");
    assert!(asleep < SOON, "{asleep:?}");
    // The deadline passes while the command lies in Redis' socket.
    let deadline_ms = shelf.now_ms() + 100;
    eventually("the deadline", || async { (shelf.now_ms() > deadline_ms).then_some(()) }).await;
    shelf.redis.signal("CONT");
    healed("Redis to wake", || shelf.inventory.open_hold(&shelf.event, ann)).await;
    assert_eq!(seats_of(&shelf.open_hold(ann).await.expect("held before")), [1]);
    assert_eq!(&shelf.map().await[..4], "0100");
}

#[tokio::test]
async fn a_late_success_in_a_full_area_leaves_no_phantom_places() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    let HoldOutcome::Held { hold, .. } = shelf.hold_area(ann, 0, 5).await else { panic!("refused") };
    // Three places that were given back before the money came are sold all the same.
    let places = [(Place::Area(AreaIndex(0)), 3)];
    shelf.inventory.sell(&shelf.event, OrderId::generate(), bob, &places).await.expect("Redis answers");
    assert_eq!(shelf.areas().await[0], 0);
    assert_eq!(refused(shelf.hold_area(IdentityId::generate(), 0, 1).await), Refusal::AreaFull { remaining: 0 });
    shelf.release(ann, hold.id, ReleaseWhat::All).await;
    assert_eq!(shelf.areas().await[0], 2);
    let (_, seq) = shelf.position().await;
    assert_eq!(shelf.published(seq).await.areas, [(AreaIndex(0), 2)]);
}

#[tokio::test]
async fn nothing_of_an_old_life_is_left_behind_even_of_holds_that_last_for_hours() {
    let shelf = Shelf::with(|facts| facts.rules.hold_ttl_ms = 6 * 3_600_000).await;
    for seat in 0..20 {
        shelf.held(IdentityId::generate(), &[seat]).await;
    }
    let old = |keys: &[String]| keys.iter().filter(|key| key.contains(":1:")).count();
    assert!(old(&shelf.keys().await) > 5);
    // The life is over although Redis still has all of it: its meta is from another time.
    shelf.redis_cli(&["DEL", &format!("{{{}}}:1:m", shelf.event.id)]).await;
    assert_eq!(shelf.position().await.0, 2);
    eventually("the old life to be gone", || async { (old(&shelf.keys().await) == 0).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_slow_while_a_life_is_filled_costs_no_further_epoch() {
    let shelf = Shelf::new().await;
    let (ann, bob) = (IdentityId::generate(), IdentityId::generate());
    shelf.held(ann, &[1]).await;
    // A node that has not seen the event yet: it looks, finds nothing, and begins the next life.
    let node = shelf.hurried_node().await;
    shelf.redis_cli(&["FLUSHALL"]).await;
    // Longer than a command is waited for: what is written comes late, and has been said again by then.
    shelf.redis_cli(&["CLIENT", "PAUSE", "900", "WRITE"]).await;
    let map = healed("the next life", || node.read_map(&shelf.event)).await;
    assert_eq!(map.epoch, 2);
    let wanted = indices(&[2, 3]);
    let hold = healed("a hold", || node.hold(shelf.caller(bob), &wanted)).await;
    assert!(matches!(hold.outcome, HoldOutcome::Held { .. }), "{hold:?}");
    let map = healed("a look", || node.read_map(&shelf.event)).await;
    assert_eq!((map.epoch, &map.states[..4]), (2, &[0, 0, 1, 1][..]), "what came late has undone nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_is_slow_while_the_truth_is_read_costs_no_further_epoch() {
    let shelf = Shelf::new().await;
    shelf.held(IdentityId::generate(), &[1]).await;
    let pool = shelf.store.pool();
    let mut slow = seatwire::store::begin(pool).await.expect("begins");
    sqlx::query("lock table taken_seats in access exclusive mode").execute(&mut *slow).await.expect("locked");
    shelf.redis_cli(&["FLUSHALL"]).await;
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let is_waiting = async |is: bool| {
        eventually("the rebuild to wait, and to give up for now", async || {
            let n: i64 = sqlx::query_scalar(waits).fetch_one(pool).await.ok()?;
            ((n > 0) == is).then_some(())
        })
        .await;
    };
    let node = shelf.hurried_node().await;
    let rebuilt = healed("the next life", || node.read_map(&shelf.event));
    let (map, ()) = tokio::join!(rebuilt, async {
        is_waiting(true).await;
        is_waiting(false).await;
        slow.rollback().await.expect("ends");
    });
    assert_eq!(map.epoch, 2);
}

#[tokio::test]
async fn an_older_copy_of_a_life_is_seen_by_the_journal_when_no_node_lives_that_saw_more() {
    let shelf = Shelf::new().await;
    let ann = IdentityId::generate();
    shelf.held(ann, &[1]).await;
    let meta = format!("{{{}}}:1:m", shelf.event.id);
    let copy = format!("{meta}.copy");
    shelf.redis_cli(&["COPY", &meta, &copy]).await;
    shelf.held(ann, &[2]).await;
    let journalled = "update journal_positions set seq = 2, is_whole = true";
    sqlx::query(journalled).execute(shelf.store.pool()).await.expect("writes");
    let as_it_is = shelf.another_node().await.read_map(&shelf.event).await.expect("Redis answers");
    assert_eq!((as_it_is.epoch, as_it_is.seq), (1, 2), "no older than the journal");
    shelf.redis_cli(&["COPY", &copy, &meta, "REPLACE"]).await;
    let map = shelf.another_node().await.read_map(&shelf.event).await.expect("Redis answers");
    assert_eq!(map.epoch, 2, "a life that has gone back is over");
}
