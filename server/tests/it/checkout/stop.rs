//! A node that is told to stop while much is owed to receivers that say nothing: it ends soon, gives back what was under way,
//! and the next start sends it.

use super::admin::bought;
use super::dead_node::Scene;
use super::notice::Receiver;
use crate::support::admin::Admin;
use crate::support::eventually;
use crate::support::stage::Draft;
use seatwire::organiser::Scope;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Far below what one round of silent receivers takes, and above what a stop may.
const ENDS_WITHIN: Duration = Duration::from_secs(14);

/// Takes connections and never says a word; how many it took.
async fn black_hole() -> (Arc<AtomicUsize>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            kept.push(stream);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (taken, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_much_to_tell_the_silent_ends_soon_and_the_next_one_goes_on() {
    let scene = Scene::new(&Draft::default()).await;
    let pool = scene.stage.store.pool();
    let (taken, hole) = black_hole().await;
    let (mails_taken, mail_hole) = black_hole().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    let smtp = format!("smtp://{mail_hole}");
    let node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true"), ("SEATWIRE_SMTP_URL", &smtp)]).await;
    let admin = Admin::new(&scene.stage, &node, &Scope::ALL).await;
    for url in [format!("http://{hole}/"), format!("http://{closed}/")] {
        admin.done("POST", "/v1/admin/webhooks", json!({"url": url})).await;
    }
    let sql = "insert into event_log (event_id, kind, body, created_ms)
        select id, 'order.paid', '{}', (extract(epoch from now()) * 1000)::bigint from events, generate_series(1, 2000)";
    sqlx::query(sql).execute(pool).await.expect("sql");
    bought(&node, &scene.event, &[1], "pm_card_visa").await;
    eventually("webhooks to be under way", || async { (taken.load(Ordering::Relaxed) > 0).then_some(()) }).await;
    eventually("a mail to be under way", || async { (mails_taken.load(Ordering::Relaxed) > 0).then_some(()) }).await;
    let told = Instant::now();
    node.signal("TERM");
    assert_eq!(node.ended().await, Some(0));
    assert!(told.elapsed() < ENDS_WITHIN, "{:?}", told.elapsed());
    // What nobody answered counts as no try and is due.
    for (what, sql) in [
        (
            "webhooks",
            "select count(*) from webhook_deliveries d join webhook_endpoints e using (endpoint_id)
             where strpos(e.url, $1) > 0 and d.failure is null and d.sent_ms is null
                 and (d.tries_n > 0 or d.due_ms > (extract(epoch from now()) * 1000)::bigint)",
        ),
        (
            "mails",
            "select count(*) from mails where sent_ms is null and $1 <> '' and failure is null
                 and (tries_n > 0 or due_ms > (extract(epoch from now()) * 1000)::bigint)",
        ),
    ] {
        let left_n: i64 = sqlx::query_scalar(sql).bind(&hole).fetch_one(pool).await.expect(what);
        assert_eq!(left_n, 0, "{what}");
    }
    // The receiver lives, and a node.
    let (receiver, url) = Receiver::start().await;
    sqlx::query("update webhook_endpoints set url = $1").bind(&url).execute(pool).await.expect("sql");
    let _node = scene.node(&[("SEATWIRE_WEBHOOKS_PRIVATE", "true")]).await;
    eventually("what was given back", || async { (receiver.count() > 100).then_some(()) }).await;
    eventually("the mail", || async {
        let sql = "select count(*) from mails where sent_ms is null";
        let open_n: i64 = sqlx::query_scalar(sql).fetch_one(pool).await.expect("sql");
        (open_n == 0).then_some(())
    })
    .await;
}
