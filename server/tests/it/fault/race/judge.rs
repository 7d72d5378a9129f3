//! What must be true when the race is over: at what was said, in the order of (epoch, seq), and at what everybody sees.

use super::super::audit;
use super::{Race, SEATS, Told};
use crate::checkout::books;
use crate::organiser::Viewer;
use crate::support::stage::Stage;
use crate::support::{PATIENCE, eventually};
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// So long after everything is calm every viewer is right, also when Redis was lost: six seconds, as the bench measures it, and
/// the rest for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(40);

impl Race {
    /// I10: when nothing changes any more each viewer sees what Postgres has: sold seats and nothing else.
    async fn judge_viewers(&self, stage: &Stage, viewers: &mut [Viewer]) {
        let event: seatwire_proto::id::EventId = self.event.parse().expect("an id");
        let sold = "select seat_index from taken_seats where event_id = $1 and state = 'sold'";
        let sold: Vec<i32> =
            sqlx::query_scalar(sold).bind(event.uuid()).fetch_all(stage.store.pool()).await.expect("reads");
        let mut truth = vec![0; SEATS as usize];
        sold.into_iter().for_each(|seat| truth[seat as usize] = 2);
        let began = std::time::Instant::now();
        for viewer in viewers {
            viewer.until("what Postgres has", |map| map.states == truth).await;
        }
        assert!(began.elapsed() < SEEN_WITHIN, "I10: right only {:?} after everything was calm", began.elapsed());
    }

    #[expect(clippy::print_stdout, reason = "figures of the run, for whoever asks with --nocapture")]
    pub(super) async fn judge(&self, mut viewers: Vec<Viewer>) {
        // I18: whatever was not bought is free again, and everything agrees.
        let stage = self.stage.lock().await;
        let event: seatwire_proto::id::EventId = self.event.parse().expect("an id");
        let began = std::time::Instant::now();
        let held = "select count(*) from journal_records where event_id = $1 and has_hold";
        while sqlx::query_scalar::<_, i64>(held).bind(event.uuid()).fetch_one(stage.store.pool()).await.expect("counts")
            > 0
        {
            if began.elapsed() > PATIENCE {
                let states = "select state || ' ' || count(*) from orders group by state order by state";
                let states: Vec<String> =
                    sqlx::query_scalar(states).fetch_all(stage.store.pool()).await.expect("reads");
                let (_, said) = audit::audit(&stage, &self.event).await;
                panic!("I18: not every hold ends; orders: {}\n{said}", states.join(", "));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let said = audit::clean(&stage, &self.event).await;
        assert!(said.contains(" 0 holds of "), "{said}");
        self.judge_viewers(&stage, &mut viewers).await;
        let ledger = self.http.get(format!("{}/_sim/ledger", self.payment_url)).send().await.expect("answers");
        let ledger: Value = ledger.json().await.expect("JSON");
        eventually("the books to be right", || async {
            books::violations(stage.store.pool(), &ledger, true).await.is_empty().then_some(())
        })
        .await;
        let history = self.history.lock();
        assert!(history.wrongs.is_empty(), "{:#?}", history.wrongs);
        let (mut paid_n, mut lost_n) = (0, 0);
        for (seat, told) in &history.of_seats {
            let mut told = told.clone();
            told.sort_by_key(|(at, ..)| *at);
            let paid: Vec<_> = told.iter().filter(|(_, _, what)| matches!(what, Told::Paid)).collect();
            assert!(paid.len() <= 1, "I1: seat {seat} was paid for twice: {told:?}");
            paid_n += paid.len();
            let grants: Vec<_> = told
                .iter()
                .filter_map(|(at, who, what)| match what {
                    Told::Granted { until_ms, at_ms } => Some((*at, who, *until_ms, *at_ms)),
                    _ => None,
                })
                .collect();
            for pair in grants.windows(2) {
                let [(at, who, until_ms, _), (next_at, next_who, _, next_ms)] = pair else { continue };
                if who == next_who {
                    continue;
                }
                let is_paid = paid.iter().any(|(_, buyer, _)| buyer == *who);
                assert!(!is_paid, "I9: seat {seat} was sold to {who} and given to {next_who}: {told:?}");
                let is_released = told.iter().any(|(given_at, giver, what)| {
                    giver == *who && matches!(what, Told::Released) && given_at >= at && given_at <= next_at
                });
                if is_released || next_ms >= until_ms {
                    continue;
                }
                assert!(
                    next_at.0 > at.0,
                    "I6: seat {seat} is {who}'s until {until_ms}, but {next_who} got it: {told:?}"
                );
                lost_n += 1;
            }
        }
        println!(
            "{} holds, {paid_n} seats paid, {lost_n} seats lost to a new life",
            self.granted_n.load(Ordering::Relaxed)
        );
    }
}
