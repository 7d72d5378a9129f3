//! What a mail says is true when it is sent: of amounts, of tickets that admit no longer, of who cancelled, and of money that
//! came back after all.

use super::admin::{bought, refund};
use super::checkout_of;
use super::dead_node::Scene;
use crate::support::admin::Admin;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::stage::Draft;
use seatwire::organiser::Scope;
use serde_json::{Value, json};
use sqlx::PgPool;
use std::path::PathBuf;

/// The folder mails are written to.
struct Letterbox {
    data: PathBuf,
}

impl Letterbox {
    fn new() -> Self {
        let name = format!("/tmp/seatwire-it-{}-box{}", std::process::id(), super::key());
        Self { data: PathBuf::from(name) }
    }

    fn path(&self) -> &str {
        self.data.to_str().expect("text")
    }

    fn all(&self) -> Vec<String> {
        let Ok(folder) = std::fs::read_dir(self.data.join("mail")) else { return Vec::new() };
        folder
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "eml"))
            // Lines that are only broken for the way are whole again.
            .filter_map(|entry| Some(std::fs::read_to_string(entry.path()).ok()?.replace("=\r\n", "")))
            .collect()
    }

    async fn until(&self, words: &[&str]) -> String {
        eventually(&format!("a mail with {words:?}"), || async {
            self.all().into_iter().find(|mail| words.iter().all(|word| mail.contains(word)))
        })
        .await
    }

    /// Every mail is taken out and falls due once more, as if none had been sent before.
    async fn send_again(&self, pool: &PgPool) {
        self.until_sent(pool).await;
        std::fs::remove_dir_all(self.data.join("mail")).expect("mails are there");
        std::fs::create_dir(self.data.join("mail")).expect("a folder");
        sqlx::query("update mails set sent_ms = null, due_ms = 0").execute(pool).await.expect("sql");
        self.until_sent(pool).await;
    }

    async fn until_sent(&self, pool: &PgPool) {
        eventually("all mails to be sent", || async {
            let sql = "select count(*) from mails where sent_ms is null";
            let open_n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
            (open_n == 0).then_some(())
        })
        .await;
    }
}

impl Drop for Letterbox {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

async fn until_back(pool: &PgPool, wanted_minor: i64) {
    eventually("the money to be back", || async {
        let sql = "select refunded_minor from orders where refunding_minor = 0 and state <> 'refund_due'";
        let back: Option<i64> = sqlx::query_scalar(sql).fetch_optional(pool).await.expect("sql");
        (back == Some(wanted_minor)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refund_is_told_by_its_own_amount_and_one_that_comes_back_as_well() {
    let letterbox = Letterbox::new();
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let node = scene.node(&[("SEATWIRE_DATA", letterbox.path())]).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    let (_, order) = bought(&node, &scene.event, &[1, 2], "pm_card_visa").await;
    for (key, amount_minor, all_minor) in [("r1", 500, 500), ("r2", 700, 1_200)] {
        let body = json!({"amount_minor": amount_minor, "reason": "x"});
        assert_eq!(refund(&admin, &order, key, body).await.0, 200);
        until_back(pool, all_minor).await;
    }
    // Both are written only now that both have gone.
    letterbox.send_again(pool).await;
    letterbox.until(&["Refund of your order", "of 95.00 EUR", "given back 5.00 EUR"]).await;
    letterbox.until(&["Refund of your order", "of 95.00 EUR", "given back 7.00 EUR"]).await;

    let ledger = scene.ledger().await;
    let refunds = ledger["refunds"].as_array().expect("a list");
    let second = refunds.iter().find(|refund| refund["amount"] == 700).expect("it was made");
    scene.sim(&format!("refunds/{}/fail", second["id"].as_str().expect("an id")), &[]).await;
    letterbox.until(&["A refund of your order", "7.00 EUR", "came back to us"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_that_admit_nobody_are_not_called_attached_and_their_holder_hears_of_it() {
    let letterbox = Letterbox::new();
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let node = scene.node(&[("SEATWIRE_DATA", letterbox.path())]).await;
    let admin = Admin::new(&scene.stage, &node, &[Scope::Orders]).await;
    let (guest, order) = bought(&node, &scene.event, &[1, 2], "pm_card_visa").await;
    let path = format!(
        "/v1/orders/{}/tickets/{}/transfer",
        order["id"].as_str().expect("an id"),
        order["tickets"][0]["id"].as_str().expect("an id")
    );
    let to = json!({"to": {"name": "Bob", "email": "bob@example.org"}});
    assert_eq!(guest.post(&path, "t", to).await.0, 200);
    letterbox.until(&["Your tickets", "ada@example.org", "application/pdf"]).await;
    letterbox.until(&["A ticket for you", "bob@example.org", "application/pdf"]).await;

    assert_eq!(refund(&admin, &order, "r", json!({"all": true, "reason": "x"})).await.0, 200);
    let void = letterbox.until(&["Your ticket is no longer valid", "bob@example.org"]).await;
    assert!(!void.contains(order["reference"].as_str().expect("text")), "the order is its buyer's: {void}");
    until_back(pool, 9_500).await;
    // The refund is there before the mails.
    letterbox.send_again(pool).await;
    let paid = letterbox.until(&["Your order", "is paid", "none of its tickets"]).await;
    assert!(!paid.contains("application/pdf") && !paid.contains("attached"), "{paid}");
    let mails = letterbox.all();
    // Paid, refunded, void: what was passed on is no longer sent.
    assert_eq!(mails.len(), 3, "{mails:?}");
    assert_eq!(mails.iter().filter(|mail| mail.contains("bob@example.org")).count(), 1, "{mails:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_order_is_told_as_asked_for_only_to_whom_asked_for_it() {
    let letterbox = Letterbox::new();
    let scene = Scene::new(&Draft::default()).await;
    let node = scene.node(&[("SEATWIRE_DATA", letterbox.path())]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    let (mut buyer, _) = Client::guest(&node.url).await;
    let reply = buyer.call("hold", json!({"key": "h", "event": scene.event, "seats": [1]})).await;
    let mut fields = checkout_of(&reply["hold"], "pm_card_visa_chargeDeclined");
    fields["key"] = "c".into();
    let declined = buyer.call("checkout", fields).await["order"].clone();
    let given_up = buyer.call("cancel", json!({"key": "x", "order": declined["id"]})).await;
    assert_eq!(given_up["order"]["state"], "cancelled", "{given_up}");
    let reference = |order: &Value| order["reference"].as_str().expect("text").to_owned();
    let mail = letterbox.until(&[&reference(&declined)]).await;
    assert!(mail.contains("is cancelled, as you asked. Nothing was charged"), "{mail}");

    let (_, waiting) = bought(&node, &scene.event, &[2], "pm_card_authenticationRequired").await;
    assert_eq!(waiting["state"], "action_required", "{waiting}");
    admin.done("PUT", &format!("/v1/admin/events/{}/state", scene.event), json!({"state": "cancelled"})).await;
    let mail = letterbox.until(&[&reference(&waiting)]).await;
    assert!(mail.contains("we made sure") && !mail.contains("as you asked"), "{mail}");
}
