//! What can happen to Redis while buyers race: each time nothing is sold twice, nobody is charged for nothing, every hold
//! ends, and the audit finds nothing.

use super::race::{Race, draft};
use crate::support::cluster::Cluster;
use crate::support::eventually;
use crate::support::redis::Redis;
use crate::support::stage::{Stage, enter_event};
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand, Value as RedisValue};
use parking_lot::Mutex;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

/// A plain command of an operator.
pub(crate) async fn command(url: &str, words: &[&str]) -> RedisValue {
    let client = Builder::from_config(Config::from_url(url).expect("a URL")).build().expect("a client");
    client.init().await.expect("Redis answers");
    let command = CustomCommand::new(words[0].to_owned(), ClusterHash::Random, false);
    let rest: Vec<RedisValue> = words[1..].iter().map(|&word| RedisValue::from(word)).collect();
    let value = client.custom(command, rest).await.expect("runs");
    client.quit().await.expect("quits");
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_without_persistence() {
    let race = Race::start(&[], None).await;
    let fault = async {
        let before = race.epoch().await;
        let mut stage = race.stage.lock().await;
        stage.redis.kill();
        stage.redis.restart().await;
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert!(race.epoch().await > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_with_a_stale_file() {
    let race =
        Race::start(&["--appendonly", "yes", "--appendfsync", "no", "--enable-debug-command", "local"], None).await;
    let fault = async {
        let before = race.epoch().await;
        let mut stage = race.stage.lock().await;
        let file = stage.redis.folder().join("appendonlydir");
        let kept = stage.redis.folder().join("kept");
        // A file as it was a while ago.
        command(&stage.redis.url(), &["BGREWRITEAOF"]).await;
        copy_folder(&file, &kept);
        race.more_grants(100).await;
        stage.redis.kill();
        std::fs::remove_dir_all(&file).expect("removes");
        std::fs::rename(&kept, &file).expect("renames");
        stage.redis.restart().await;
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert!(race.epoch().await > before);
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}

/// Keys of events as they were a while ago, put back while the same Redis goes on: neither its identity nor the epoch says so,
/// the counter does.
#[tokio::test(flavor = "multi_thread")]
async fn older_keys_put_back_in_the_same_redis() {
    const KEEP: &str =
        "for _, key in ipairs(redis.call('KEYS', '{*')) do redis.call('COPY', key, 'kept:' .. key) end return 1";
    const PUT_BACK: &str = "for _, key in ipairs(redis.call('KEYS', '{*')) do redis.call('UNLINK', key) end
        for _, key in ipairs(redis.call('KEYS', 'kept:*')) do redis.call('RENAME', key, string.sub(key, 6)) end return 1";
    let race = Race::start(&[], None).await;
    let fault = async {
        let url = race.stage.lock().await.redis.url();
        let before = race.epoch().await;
        command(&url, &["EVAL", KEEP, "0"]).await;
        race.more_grants(100).await;
        command(&url, &["EVAL", PUT_BACK, "0"]).await;
        eventually("the next life", || async { (race.epoch().await > before).then_some(()) }).await;
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert!(race.epoch().await > before);
}

/// Of a cluster: the master of the event dies, and its replica goes on with what it has.
#[tokio::test(flavor = "multi_thread")]
async fn the_master_of_the_event_killed() {
    let mut cluster = Cluster::start().await;
    let (mut stage, event) = Stage::with_event(&draft()).await;
    stage.elsewhere = Some(cluster.url());
    let race = Race::on(stage, event, Some(&cluster.url())).await;
    let fault = async {
        let before = race.epoch().await;
        let master = Cluster::master_of(&race.event);
        cluster.kill(master);
        cluster.promoted(master).await;
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert!(race.epoch().await > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn flushed() {
    let race = Race::start(&[], None).await;
    let fault = async {
        let url = race.stage.lock().await.redis.url();
        let before = race.epoch().await;
        command(&url, &["FLUSHALL"]).await;
        eventually("the next life", || async { (race.epoch().await > before).then_some(()) }).await;
        race.more_grants(20).await;
        let flushed = race.epoch().await;
        command(&url, &["SCRIPT", "FLUSH"]).await;
        flushed
    };
    let flushed = Box::pin(race.clone().run(fault)).await;
    assert_eq!(race.epoch().await, flushed, "scripts alone are loaded again");
}

#[tokio::test(flavor = "multi_thread")]
async fn full() {
    let race = Race::start(&["--maxmemory-policy", "noeviction"], None).await;
    let fault = async {
        let url = race.stage.lock().await.redis.url();
        let before = race.epoch().await;
        // One place each; the area may be full at that moment.
        let basket = async || loop {
            let token = race.identity().await;
            let wish = json!({"area": 0, "quantity": 1});
            let held = race.post(&race.holds_path(), &token, "h", &wish).await;
            if held["hold"].is_object() {
                return (token, held["hold"].clone());
            }
        };
        let id = |hold: &serde_json::Value| hold["id"].as_str().expect("an id").to_owned();
        // Holds live for seconds here: on a slow machine the first ones may be over before their turn comes.
        eventually("what is taken back and what is paid", || async {
            let ((one, kept), (two, bought)) = (basket().await, basket().await);
            command(&url, &["CONFIG", "SET", "maxmemory", "1"]).await;
            let token = race.identity().await;
            eventually("a plain refusal", || async {
                let busy = race.try_post(&race.holds_path(), &token, "k", &json!({"seats": [0]})).await?;
                // The machine may be too slow for the nodes, which stand as in a shop.
                if ["timeout_unknown", "key_in_use", "unavailable"].iter().any(|code| busy["error"]["code"] == *code) {
                    return None;
                }
                assert_eq!(
                    (&busy["error"]["code"], &busy["error"]["retry"]),
                    (&"overloaded".into(), &"after".into()),
                    "{busy}"
                );
                Some(())
            })
            .await;
            // Neither is refused for the memory's sake, however often it is asked for.
            let path = format!("/v1/holds/{}/release", id(&kept));
            let released = race.post(&path, &one, "r", &json!({})).await;
            let body = json!({
                "buyer": {"name": "Ada", "email": "ada@example.org"},
                "payment": {"method": "pm_card_visa"},
                "expect_total_minor": bought["total_minor"],
            });
            let path = format!("/v1/holds/{}/checkout", id(&bought));
            let paid = race.post(&path, &two, "c", &body).await;
            command(&url, &["CONFIG", "SET", "maxmemory", "0"]).await;
            if [&released, &paid].iter().any(|answer| answer["error"]["code"] == "hold_expired") {
                return None;
            }
            assert!(released.get("error").is_none(), "{released}");
            assert_eq!(paid["order"]["state"], "paid", "{paid}");
            Some(())
        })
        .await;
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert_eq!(race.epoch().await, before);
}

/// A socket that leads to one Redis, and later to another: what a failover does to an address.
struct Switch {
    folder: PathBuf,
    to: Arc<Mutex<PathBuf>>,
    cut: Arc<Notify>,
}

impl Switch {
    fn new(to: PathBuf, name: &str) -> Self {
        let folder = PathBuf::from(format!("/tmp/seatwire-it-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let listener = UnixListener::bind(folder.join("redis.sock")).expect("binds");
        let (to, cut) = (Arc::new(Mutex::new(to)), Arc::new(Notify::new()));
        let switch = Self { folder, to: to.clone(), cut: cut.clone() };
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (to, cut) = (to.clone(), cut.clone());
                tokio::spawn(async move {
                    let cut = cut.notified();
                    let path = to.lock().clone();
                    let Ok(mut far) = UnixStream::connect(path).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        () = cut => {}
                    }
                });
            }
        });
        switch
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.folder.join("redis.sock").display())
    }

    fn lead_to(&self, to: PathBuf) {
        *self.to.lock() = to;
        self.cut.notify_waiters();
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_replica_promoted() {
    let (master, port) = Redis::start_on_port(&["--repl-diskless-sync-delay", "0"]).await;
    let stage = Stage::on(master).await;
    let event = enter_event(&stage.store, &draft()).await.to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port.to_string()]).await;
    eventually("the replica to follow", || async {
        let role = command(&replica.url(), &["INFO", "replication"]).await.as_string().unwrap_or_default();
        role.contains("master_link_status:up").then_some(())
    })
    .await;
    let switch = Switch::new(stage.redis.folder().join("redis.sock"), "switch");
    let race = Race::on(stage, event, Some(&switch.url())).await;
    let fault = async {
        // It no longer hears of what the master acknowledges, and then it is the master.
        let before = race.epoch().await;
        command(&replica.url(), &["REPLICAOF", "NO", "ONE"]).await;
        race.more_grants(100).await;
        race.stage.lock().await.redis.kill();
        switch.lead_to(replica.folder().join("redis.sock"));
        // From here on the audit looks where the nodes look.
        race.stage.lock().await.redis = replica;
        before
    };
    let before = Box::pin(race.clone().run(fault)).await;
    assert!(race.epoch().await > before);
}
