//! What a run counts and times: HDR histograms and counters in windows of one second, so that workers can ship them
//! as they close and the coordinator can add them up in any order. `README.md` defines every name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest time a histogram tells apart, in microseconds; longer ones are recorded as this long.
const MAX_TIME_US: u64 = 120_000_000;
/// Digits a histogram keeps: 0.1 %.
const DIGITS: u8 = 3;

macro_rules! names {
    ($(#[$doc:meta])* $kind:ident { $($name:ident = $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $kind { $($name,)* }

        impl $kind {
            pub(crate) const ALL: &'static [$kind] = &[$($kind::$name,)*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $($kind::$name => $text,)* }
            }

            pub(crate) fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some($kind::$name),)* _ => None }
            }
        }
    };
}

names! {
    /// What is timed.
    Timing {
        Connect = "connect";
        Hello = "hello";
        Snapshot = "snapshot";
        Ready = "ready";
        HoldWon = "hold.won";
        HoldWonUncorrected = "hold.won.uncorrected";
        HoldLost = "hold.lost";
        HoldLostUncorrected = "hold.lost.uncorrected";
        Release = "release";
        ReleaseUncorrected = "release.uncorrected";
        Checkout = "checkout";
        CheckoutUncorrected = "checkout.uncorrected";
        CommitToViewer = "commit_to_viewer";
        IntentToViewer = "intent_to_viewer";
        LagViewers = "lag.viewers";
        LagBuyers = "lag.buyers";
    }
}

names! {
    /// What is counted.
    Count {
        Connects = "connects";
        ConnectFailures = "connect_failures";
        Reconnects = "reconnects";
        ClosedForGood = "closed_for_good";
        HeartbeatTimeouts = "heartbeat_timeouts";
        BytesIn = "bytes_in";
        Frames = "frames";
        Snapshots = "snapshots";
        Deltas = "deltas";
        Beacons = "beacons";
        Gaps = "gaps";
        Resyncs = "resyncs";
        DigestMismatches = "digest_mismatches";
        DigestDisagreements = "digest_disagreements";
        InvalidFrames = "invalid_frames";
        ProtocolViolations = "protocol_violations";
        Deliveries = "deliveries";
        EarlyDeliveries = "early_deliveries";
        LateCommits = "late_commits";
        Arrivals = "arrivals";
        WaitedForBuyer = "waited_for_buyer";
        ArrivalsDropped = "arrivals_dropped";
        Identities = "identities";
        HoldsWon = "holds_won";
        HoldsLost = "holds_lost";
        HoldsRefused = "holds_refused";
        Releases = "releases";
        ReleasesRefused = "releases_refused";
        LetGo = "let_go";
        Paid = "paid";
        Declined = "declined";
        CheckoutsUnsettled = "checkouts_unsettled";
        CheckoutsRefused = "checkouts_refused";
        SeatsSold = "seats_sold";
        Retries = "retries";
        RateLimited = "rate_limited";
        UnknownOutcomes = "unknown_outcomes";
        Commits = "commits";
    }
}

pub(crate) type Times = Histogram<u64>;

/// An empty histogram of microseconds.
pub(crate) fn times() -> Times {
    Histogram::new_with_bounds(1, MAX_TIME_US, DIGITS).expect("the bounds are constants that fit")
}

/// One second of a run.
#[derive(Debug, Default)]
pub(crate) struct Window {
    timings: BTreeMap<Timing, Times>,
    counts: BTreeMap<Count, u64>,
    /// Counted by a name only the server knows: refusal codes, close codes.
    by_name: BTreeMap<String, u64>,
}

impl Window {
    pub(crate) fn timing(&self, timing: Timing) -> Option<&Times> {
        self.timings.get(&timing)
    }

    pub(crate) fn count(&self, count: Count) -> u64 {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    pub(crate) const fn by_name(&self) -> &BTreeMap<String, u64> {
        &self.by_name
    }

    pub(crate) fn record_n(&mut self, timing: Timing, time_us: u64, n: u64) {
        self.timings.entry(timing).or_insert_with(times).saturating_record_n(time_us.max(1), n);
    }

    pub(crate) fn add(&mut self, count: Count, n: u64) {
        *self.counts.entry(count).or_default() += n;
    }

    pub(crate) fn add_named(&mut self, name: &str, n: u64) {
        match self.by_name.get_mut(name) {
            Some(slot) => *slot += n,
            None => {
                self.by_name.insert(name.to_owned(), n);
            }
        }
    }

    /// Adds another window's content.
    pub(crate) fn merge(&mut self, other: &Window) {
        for (timing, theirs) in &other.timings {
            self.timings.entry(*timing).or_insert_with(times).add(theirs).expect("all histograms share their bounds");
        }
        for (count, n) in &other.counts {
            self.add(*count, *n);
        }
        for (name, n) in &other.by_name {
            self.add_named(name, *n);
        }
    }
}

/// The windows of one process that were not shipped yet.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    windows: BTreeMap<u32, Window>,
}

impl Tally {
    /// The window of a time of the run.
    pub(crate) fn at(&mut self, at_us: u64) -> &mut Window {
        self.windows.entry((at_us / 1_000_000) as u32).or_default()
    }

    /// Takes the windows of seconds before `second`.
    pub(crate) fn take_before(&mut self, second: u32) -> Vec<WindowLine> {
        let later = self.windows.split_off(&second);
        let closed = std::mem::replace(&mut self.windows, later);
        closed.iter().map(|(second, window)| WindowLine::of(*second, window)).collect()
    }
}

/// A window as it crosses a pipe: histograms in the HDR V2 form, base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WindowLine {
    pub(crate) second: u32,
    timings: BTreeMap<String, String>,
    counts: BTreeMap<String, u64>,
    by_name: BTreeMap<String, u64>,
}

/// A window that does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadWindow(pub(crate) String);

impl WindowLine {
    fn of(second: u32, window: &Window) -> Self {
        let timings = window.timings.iter().map(|(timing, times)| (timing.as_str().to_owned(), pack(times))).collect();
        let counts = window.counts.iter().map(|(count, n)| (count.as_str().to_owned(), *n)).collect();
        Self { second, timings, counts, by_name: window.by_name.clone() }
    }

    /// The window.
    pub(crate) fn window(&self) -> Result<Window, BadWindow> {
        let mut window = Window { by_name: self.by_name.clone(), ..Window::default() };
        for (name, packed) in &self.timings {
            let timing = Timing::parse(name).ok_or_else(|| BadWindow(format!("no timing is called {name}")))?;
            let times = unpack(packed).ok_or_else(|| BadWindow(format!("the histogram of {name} does not read")))?;
            window.timings.insert(timing, times);
        }
        for (name, n) in &self.counts {
            let count = Count::parse(name).ok_or_else(|| BadWindow(format!("no counter is called {name}")))?;
            window.counts.insert(count, *n);
        }
        Ok(window)
    }
}

/// A histogram as text.
pub(crate) fn pack(times: &Times) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(times, &mut bytes).expect("a Vec takes everything");
    STANDARD_NO_PAD.encode(bytes)
}

/// The histogram in a text.
pub(crate) fn unpack(text: &str) -> Option<Times> {
    let bytes = STANDARD_NO_PAD.decode(text).ok()?;
    let mut times = times();
    times.add(Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).ok()?).ok()?;
    Some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_shipped_apart_add_up_to_the_whole() {
        let (mut whole, mut left, mut right) = (Tally::default(), Tally::default(), Tally::default());
        for i in 1..=2_000_u64 {
            let half = if i % 3 == 0 { &mut left } else { &mut right };
            for tally in [&mut whole, half] {
                tally.at(5_000_000).record_n(Timing::HoldWon, i * 37, 1);
                tally.at(5_000_000).add(Count::HoldsWon, 1);
                tally.at(5_000_000).add_named("refused.seat_taken", i % 2);
            }
        }
        let mut sum = Window::default();
        for tally in [&mut left, &mut right] {
            for line in tally.take_before(6) {
                let text = serde_json::to_string(&line).expect("plain data");
                let line: WindowLine = serde_json::from_str(&text).expect("its own text");
                sum.merge(&line.window().expect("its own window"));
            }
        }
        let whole = whole.take_before(6)[0].window().expect("its own window");
        assert_eq!(sum.timing(Timing::HoldWon), whole.timing(Timing::HoldWon));
        assert_eq!(sum.count(Count::HoldsWon), 2_000);
        assert_eq!(sum.by_name()["refused.seat_taken"], 1_000);
        let p99 = sum.timing(Timing::HoldWon).expect("recorded").value_at_quantile(0.99);
        assert!((73_000..=73_400).contains(&p99), "{p99}");
    }

    #[test]
    fn only_closed_seconds_are_taken() {
        let mut tally = Tally::default();
        tally.at(1_999_999).add(Count::Frames, 1);
        tally.at(2_000_000).add(Count::Frames, 1);
        assert_eq!(tally.take_before(2).iter().map(|line| line.second).collect::<Vec<_>>(), [1]);
        assert_eq!(tally.take_before(9).iter().map(|line| line.second).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_time_beyond_the_longest_is_kept_as_the_longest() {
        let mut window = Window::default();
        window.record_n(Timing::Release, u64::MAX, 1);
        assert!(window.timing(Timing::Release).expect("recorded").max() >= MAX_TIME_US);
    }
}
