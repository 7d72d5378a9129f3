//! What the node counts, for Prometheus. One registry an `App`; names carry their unit. Rooms add their own family here
//! so that the whole list can be read in one place.

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Labels of a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CommandLabels {
    /// The op.
    pub op: &'static str,
    /// `ok` or the code's name.
    pub outcome: &'static str,
}

/// Labels of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JobLabels {
    /// Its name.
    pub job: &'static str,
}

/// Labels of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StoreLabels {
    /// Which.
    pub store: StoreName,
}

/// The two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "the variant is the label")]
pub enum StoreName {
    /// Postgres.
    postgres,
    /// Redis.
    redis,
}

/// Everything counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Commands by op and outcome, socket and HTTP.
    pub commands: Family<CommandLabels, Counter>,
    /// From decoded command to encoded reply.
    pub command_seconds: Family<CommandOp, Histogram, fn() -> Histogram>,
    /// Open sockets.
    pub sockets: Gauge,
    /// Maps looked at, over all sockets.
    pub viewers: Gauge,
    /// Sockets refused before the upgrade.
    pub sockets_refused: Counter,
    /// Frames handed to viewers.
    pub deliveries: Counter,
    /// Bytes of these frames.
    pub delivered_bytes: Counter,
    /// Ticks that sent a frame.
    pub ticks: Counter,
    /// From Redis' change to the last viewer's write.
    pub commit_to_fanout_seconds: Histogram,
    /// Holes found in a feed.
    pub feed_gaps: Counter,
    /// Slow viewers caught up with a snapshot.
    pub resnapshots: Counter,
    /// Events live on this node.
    pub live_events: Gauge,
    /// Rebuilds of an event's inventory.
    pub rebuilds: Counter,
    /// Records of identities written to the journal of holds.
    pub journal_records: Counter,
    /// Times a journal was copied whole because its stream went on without it.
    pub journal_copies: Counter,
    /// Script calls made for best seats: compared with the `hold_best` commands, how often a first try misses.
    pub best_calls: Counter,
    /// Webhooks whose signature is not ours.
    pub webhooks_forged: Counter,
    /// Keys presented to the listeners of operators and doors that opened nothing.
    pub keys_refused: Counter,
    /// Runs of jobs that ended, well or not: a job whose count stands still hangs.
    pub job_runs: Family<JobLabels, Counter>,
    /// Orders by state reached.
    pub orders: Family<OrderLabels, Counter>,
    /// Payments whose outcome is not known.
    pub payments_unknown: Gauge,
    /// Orders whose money only a person can settle.
    pub payments_for_people: Gauge,
    /// Signed words of the provider nobody can read; a person must.
    pub webhooks_unreadable: Gauge,
    /// Mails that were given up; a person must look.
    pub mails_for_people: Gauge,
    /// 1 while the provider is asked for money, 0 while its circuit is open.
    pub provider_open: Gauge,
    /// 1 while nobody begins to pay because the provider says that it is busy.
    pub provider_busy: Gauge,
    /// Places where money, seats and tickets do not agree.
    pub books_violations: Gauge,
    /// Outbox rows waiting.
    pub outbox_waiting: Gauge,
    /// Calls that a store did not answer.
    pub store_failures: Family<StoreLabels, Counter>,
    /// Pushes that found too many waiting for Redis: only sockets of this node were told.
    pub pushes_dropped: Counter,
    /// 1 while other nodes listen to this one's pushes, or it is not known; 0 while it is alone.
    pub has_company: Gauge,
}

/// Labels of a command's time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CommandOp {
    /// The op.
    pub op: &'static str,
}

/// Labels of an order's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OrderLabels {
    /// The public state.
    pub state: &'static str,
}

fn seconds() -> Histogram {
    // 0.5 ms to 8 s, doubling.
    Histogram::new(exponential_buckets(0.0005, 2.0, 15))
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All families, registered.
    #[must_use]
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("seatwire"),
            commands: Family::default(),
            command_seconds: Family::new_with_constructor(seconds),
            sockets: Gauge::default(),
            viewers: Gauge::default(),
            sockets_refused: Counter::default(),
            deliveries: Counter::default(),
            delivered_bytes: Counter::default(),
            ticks: Counter::default(),
            commit_to_fanout_seconds: seconds(),
            feed_gaps: Counter::default(),
            resnapshots: Counter::default(),
            live_events: Gauge::default(),
            rebuilds: Counter::default(),
            journal_records: Counter::default(),
            journal_copies: Counter::default(),
            best_calls: Counter::default(),
            webhooks_forged: Counter::default(),
            keys_refused: Counter::default(),
            job_runs: Family::default(),
            orders: Family::default(),
            payments_unknown: Gauge::default(),
            payments_for_people: Gauge::default(),
            webhooks_unreadable: Gauge::default(),
            mails_for_people: Gauge::default(),
            provider_open: Gauge::default(),
            provider_busy: Gauge::default(),
            books_violations: Gauge::default(),
            outbox_waiting: Gauge::default(),
            store_failures: Family::default(),
            pushes_dropped: Counter::default(),
            has_company: Gauge::default(),
        };
        let r = &mut metrics.registry;
        r.register("commands", "Commands by op and outcome", metrics.commands.clone());
        r.register_with_unit(
            "command_duration",
            "Decoded command to encoded reply",
            Unit::Seconds,
            metrics.command_seconds.clone(),
        );
        r.register("sockets", "Open sockets", metrics.sockets.clone());
        r.register("viewers", "Maps looked at, over all sockets", metrics.viewers.clone());
        r.register("sockets_refused", "Sockets refused before the upgrade", metrics.sockets_refused.clone());
        r.register("deliveries", "Frames handed to viewers", metrics.deliveries.clone());
        r.register_with_unit(
            "delivered",
            "Size of frames handed to viewers",
            Unit::Bytes,
            metrics.delivered_bytes.clone(),
        );
        r.register("ticks", "Ticks that sent a frame", metrics.ticks.clone());
        r.register_with_unit(
            "commit_to_fanout",
            "Change in Redis to the last viewer's write",
            Unit::Seconds,
            metrics.commit_to_fanout_seconds.clone(),
        );
        r.register("feed_gaps", "Holes found in a feed", metrics.feed_gaps.clone());
        r.register("resnapshots", "Slow viewers caught up with a snapshot", metrics.resnapshots.clone());
        r.register("live_events", "Events live on this node", metrics.live_events.clone());
        r.register("best_calls", "Script calls made for best seats", metrics.best_calls.clone());
        r.register("keys_refused", "Keys of operators and doors that opened nothing", metrics.keys_refused.clone());
        r.register("webhooks_forged", "Webhooks whose signature is not ours", metrics.webhooks_forged.clone());
        r.register("rebuilds", "Rebuilds of an event's inventory", metrics.rebuilds.clone());
        r.register("journal_records", "Records written to the journal of holds", metrics.journal_records.clone());
        r.register("journal_copies", "Journals of an event copied whole", metrics.journal_copies.clone());
        r.register("job_runs", "Runs of jobs that ended, well or not", metrics.job_runs.clone());
        r.register("orders", "Orders by state reached", metrics.orders.clone());
        r.register("payments_unknown", "Payments whose outcome is not known", metrics.payments_unknown.clone());
        r.register(
            "payments_for_people",
            "Orders whose money only a person can settle",
            metrics.payments_for_people.clone(),
        );
        r.register(
            "webhooks_unreadable",
            "Signed words of the provider nobody can read",
            metrics.webhooks_unreadable.clone(),
        );
        r.register("mails_for_people", "Mails that were given up", metrics.mails_for_people.clone());
        r.register(
            "provider_busy",
            "Whether nobody begins to pay because the provider is busy",
            metrics.provider_busy.clone(),
        );
        r.register("provider_open", "Whether the provider is asked for money", metrics.provider_open.clone());
        r.register(
            "books_violations",
            "Places where money, seats and tickets do not agree",
            metrics.books_violations.clone(),
        );
        r.register("outbox_waiting", "Outbox rows waiting", metrics.outbox_waiting.clone());
        r.register("pushes_dropped", "Pushes that other nodes were not told", metrics.pushes_dropped.clone());
        r.register("has_company", "Whether other nodes listen to pushes of this one", metrics.has_company.clone());
        r.register("store_failures", "Calls that a store did not answer", metrics.store_failures.clone());
        metrics
    }

    /// The text exposition.
    ///
    /// # Errors
    /// Never: a `String` takes everything.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_in_the_names() {
        let metrics = Metrics::new();
        metrics.commands.get_or_create(&CommandLabels { op: "hold", outcome: "ok" }).inc();
        metrics.delivered_bytes.inc_by(62);
        let text = metrics.encode().expect("encodes");
        for line in [
            "seatwire_commands_total{op=\"hold\",outcome=\"ok\"} 1",
            "seatwire_delivered_bytes_total 62",
            "seatwire_commit_to_fanout_seconds_bucket",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
