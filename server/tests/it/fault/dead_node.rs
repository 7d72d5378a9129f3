//! A node dies by SIGKILL in the middle of a rebuild: the life it began never opens, and the next node begins another one and
//! fills it; buyers who race meanwhile lose nothing.

use super::race::Race;
use crate::support::eventually;
use std::time::{Duration, Instant};

/// As long as the event may be closed from the moment the next node can begin, and time for a busy machine.
const OPEN_WITHIN: Duration = crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_rebuild_the_next_node_finishes_it() {
    let race = Race::start(&[], None).await;
    // Buyers at the first node; the second one sleeps while the first begins the rebuild.
    let second = race.urls.lock().pop().expect("two nodes");
    let fault = async {
        let mut stage = race.stage.lock().await;
        // The rebuild reads the truth after it has begun the next life; there it waits for what nobody else reads now.
        let mut held_up = seatwire::store::begin(stage.store.pool()).await.expect("begins");
        race.nodes.lock()[1].signal("STOP");
        stage.redis.kill();
        sqlx::raw_sql("lock table waitlist_places in access exclusive mode")
            .execute(&mut *held_up)
            .await
            .expect("locks");
        stage.redis.restart().await;
        eventually("the rebuild to wait in its middle", || async {
            let waiting = "select count(*) from pg_stat_activity where datname = current_database()
                             and wait_event_type = 'Lock' and query like 'select exists (select 1 from waitlist_places%'";
            let n: i64 = sqlx::query_scalar(waiting).fetch_one(stage.store.pool()).await.expect("counts");
            (n > 0).then_some(())
        })
        .await;
        let first = race.nodes.lock().remove(0);
        first.signal("KILL");
        first.ended().await;
        let event: seatwire_proto::id::EventId = race.event.parse().expect("an id");
        let begun = seatwire::store::epoch::current(stage.store.pool(), event).await.expect("reads").unwrap_or(0);
        assert!(begun >= 2, "a life was begun");
        held_up.rollback().await.expect("lets go");
        race.nodes.lock()[0].signal("CONT");
        drop(stage);
        let dead = std::mem::replace(&mut *race.urls.lock(), vec![second.clone()]);
        assert_eq!(dead.len(), 1);
        let began = Instant::now();
        eventually("a life of the next node", || async { (race.epoch().await > u64::from(begun)).then_some(()) }).await;
        race.more_grants(1).await;
        assert!(began.elapsed() < OPEN_WITHIN, "closed for {:?}", began.elapsed());
    };
    Box::pin(race.clone().run(fault)).await;
}
