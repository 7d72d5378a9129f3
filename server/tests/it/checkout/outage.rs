//! Postgres goes away and comes back: nothing is charged that cannot be written down, and what was charged is not lost.
//! Redis goes away: an order in hand is paid, and the map learns of it later.

use super::code;
use super::till::{Till, checkout_of, key};
use crate::support::eventually;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Notify;

/// A line to Postgres that can be cut.
pub(crate) struct Line {
    pub(super) url: String,
    is_cut: Arc<AtomicBool>,
    cut: Arc<Notify>,
}

impl Line {
    /// A line to the database of this URL, which names a socket's folder.
    pub(super) async fn to(database_url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (base, query) = database_url.split_once('?').expect("a folder");
        let folder = query.split('&').find_map(|pair| pair.strip_prefix("host=")).expect("a folder");
        let folder = folder.replace("%2F", "/");
        let (user, name) = {
            let rest = base.split_once("://").expect("a scheme").1;
            (rest.split('@').next().expect("a user").to_owned(), rest.rsplit('/').next().expect("a name").to_owned())
        };
        let socket = std::fs::read_dir(&folder)
            .expect("the folder")
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.to_string_lossy().contains(".s.PGSQL.") && path.extension().is_none_or(|e| e != "lock"))
            .expect("a socket");
        let (is_cut, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let line = Self {
            url: format!("postgres://{user}@127.0.0.1:{port}/{name}?sslmode=disable"),
            is_cut: is_cut.clone(),
            cut: cut.clone(),
        };
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (is_cut, cut, socket) = (is_cut.clone(), cut.clone(), socket.clone());
                tokio::spawn(async move {
                    let cut = cut.notified();
                    if is_cut.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(mut far) = UnixStream::connect(&socket).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        () = cut => {}
                    }
                });
            }
        });
        line
    }

    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        self.cut.notify_waiters();
    }

    pub(super) fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_postgres_nothing_is_charged_and_the_same_key_goes_on_later() {
    let (till, line) = Till::open_behind_a_line(&[]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let mut fields = checkout_of(&hold, "pm_card_visa");
    fields["key"] = key().into();
    line.cut();
    let refused = till.call(buyer, "checkout", fields.clone()).await;
    assert_eq!((code(&refused), &refused["error"]["retry"]), ("unavailable", &"after".into()));
    assert_eq!(till.ledger().await["intents"].as_array().map(Vec::len), Some(0));
    line.mend();
    let paid = eventually("the till to work again", || async {
        let reply = till.call(buyer, "checkout", fields.clone()).await;
        (reply["ok"] == true).then_some(reply)
    })
    .await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    assert_eq!(till.money(&paid["order"]["id"]).await, (vec![4750], 0));
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_cannot_be_written_down_at_once_is_not_lost() {
    // Longer than the charge takes, so that the answer is given up over what cannot be written.
    let (till, line) = Till::open_behind_a_line(&[("SEATWIRE_ANSWER_WITHIN_MS", "12000")]).await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let checkout = till.checkout(buyer, &hold, "pm_sim_delay_8s");
    let cut = async {
        eventually("the attempt to be at the provider's", || async {
            let ledger = till.ledger().await;
            (ledger["intents"].as_array().map(Vec::len) == Some(1)).then_some(())
        })
        .await;
        // The order knows its intent before the provider is asked to charge it, and that takes the provider a while.
        eventually("the order to wait for the charge", || async {
            let confirming = "select count(*) from orders where state = 'confirming'";
            let n: i64 = sqlx::query_scalar(confirming).fetch_one(till.stage.store.pool()).await.expect("counts");
            (n == 1).then_some(())
        })
        .await;
        line.cut();
    };
    let (reply, ()) = tokio::join!(checkout, cut);
    assert_eq!((code(&reply), &reply["error"]["retry"]), ("timeout_unknown", &"ask".into()));
    line.mend();
    let order = eventually("the order to be paid", || async {
        let orders = till.app.checkout.orders(buyer.0, None, 10).await.ok()?;
        let order = json!(orders.first()?);
        (order["state"] == "paid").then_some(order)
    })
    .await;
    assert_eq!(till.money(&order["id"]).await, (vec![4750], 0));
    till.until_seat(1, 2).await;
    till.check_books().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_an_order_in_hand_is_paid_and_the_map_learns_later() {
    let mut till = Till::open().await;
    let (buyer, hold) = till.buyer_with(&[1]).await;
    let order = till.bought(buyer, &hold, "pm_card_chargeDeclined").await;
    till.stage.redis.kill();
    let paid = till.call(buyer, "pay", json!({"order": order["id"], "payment": {"method": "pm_card_visa"}})).await;
    assert_eq!(paid["order"]["state"], "paid", "{paid}");
    till.stage.redis.restart().await;
    // The new life of the event is rebuilt from the truth, and the outbox empties.
    eventually("the map to know", || async {
        till.clock.advance_ms(500);
        let event = till.event.parse().expect("an id");
        let facts = till.app.catalogue.event(event).await.expect("reads").expect("the event");
        let map = till.app.inventory.read_map(&facts).await.ok()?;
        let waiting = seatwire::store::outbox::count(till.app.store.pool()).await.expect("counts");
        (map.states[1] == 2 && waiting == 0).then_some(())
    })
    .await;
    till.check_books().await;
}
