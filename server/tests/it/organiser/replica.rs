//! The catalogue read from a replica: taken from it while it answers, from the primary while it does not, and never older
//! than what is known.

use crate::support::admin::Admin;
use crate::support::client::Guest;
use crate::support::postgres::fresh_database;
use crate::support::stage::{Draft, Stage, enter_event};
use crate::support::{UNHURRIED, eventually};
use seatwire::catalogue::Catalogue;
use seatwire::clock::Clock;
use seatwire::config::Config;
use seatwire::organiser::Scope;
use seatwire::store::Store;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

/// Copies the catalogue of one database into another, as a replica has it.
async fn copy(from: &Store, to: &Store) {
    for table in ["venues", "layouts", "events", "event_price_tiers", "event_sections", "event_areas"] {
        let read = AssertSqlSafe(format!("select to_jsonb(t) from {table} t"));
        let rows: Vec<Value> = sqlx::query_scalar(read).fetch_all(from.pool()).await.expect("rows");
        for row in rows {
            let write = format!(
                "insert into {table} overriding system value select * from jsonb_populate_record(null::{table}, $1)"
            );
            sqlx::query(AssertSqlSafe(write)).bind(row).execute(to.pool()).await.expect("a copy");
        }
    }
}

#[tokio::test]
async fn reads_come_from_the_replica_and_from_the_primary_while_it_is_down() {
    let (stage, event) = Stage::with_event(&Draft::default()).await;
    let replica_url = fresh_database().await;
    let config = Config::from_pairs([("SEATWIRE_DB_CONNECTIONS", "2"), UNHURRIED[0]]).expect("fits");
    let replica = Store::connect(&replica_url, &config.store).await.expect("answers");
    copy(&stage.store, &replica).await;
    // Marks by which one sees who answered.
    sqlx::query("update events set name = 'from the replica'").execute(replica.pool()).await.expect("marks");
    let late = enter_event(&stage.store, &Draft::default()).await.to_string();
    let node = stage.node_with(&[("DATABASE_READ_URL", &replica_url)]).await;
    let guest = Guest::new(&node.url).await;
    let names = async || {
        let (status, list) = guest.get(&format!("/v1/events?limit=100&from_ms={}", rand::random::<u32>())).await;
        assert_eq!(status, 200, "{list}");
        list["items"].as_array().expect("items").iter().map(|item| item["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["\"from the replica\""]);
    let (_, page) = guest.get(&format!("/v1/events/{event}")).await;
    assert_eq!(page["name"], "from the replica", "{page}");
    let (status, page) = guest.get(&format!("/v1/events/{late}")).await;
    assert_eq!(status, 200, "not there yet, so the primary is asked: {page}");

    // What is known to be newer does not go back to what the replica says.
    let admin = Admin::new(&stage, &node, &[Scope::Events]).await;
    for name in ["first", "second"] {
        admin.done("PATCH", &format!("/v1/admin/events/{event}"), json!({"name": name})).await;
    }
    let clock = Clock::manual(Clock::system().now_ms());
    let store = stage.store.clone().with_replica(&replica_url, &config.store).expect("a URL");
    let catalogue = Catalogue::new(store, clock.clone());
    let id = event.parse().expect("an id");
    let name = async || catalogue.page(id).await.expect("answers").expect("is there").body.summary.name.clone();
    assert_eq!(name().await, "from the replica", "as nobody said that there is more");
    catalogue.refresh(id).await.expect("answers");
    for _ in 0..3 {
        clock.advance_ms(10_000);
        assert_eq!(name().await, "second", "looked at again, and not older");
    }

    replica.close().await;
    let (address, _) = replica_url.split_once('?').unwrap_or((&replica_url, ""));
    let (_, name) = address.rsplit_once('/').expect("a URL with a database");
    let gone = AssertSqlSafe(format!("drop database {name} with (force)"));
    sqlx::raw_sql(gone).execute(stage.store.pool()).await.expect("the replica dies");
    eventually("the primary answers", async || {
        let names = names().await;
        (names.len() == 2 && names.iter().any(|name| name == "\"second\"")).then_some(())
    })
    .await;
    let (status, answer) = guest.get("/v1/events/evt_01h455vb4pex5vsknk084sn02q").await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("event_unknown")), "{answer}");
}
