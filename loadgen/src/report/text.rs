//! Numbers as people read them, and the summary a terminal shows at the end.

use super::{Judged, RunReport, Summary};
use crate::terminal::Paint;
use std::fmt::Write as _;

/// Microseconds with three digits that matter.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 10_000_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// A whole number in groups of three digits.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the unit that fits.
pub(crate) fn bytes(n: f64) -> String {
    match n {
        n if n < 1e3 => format!("{n:.0} B"),
        n if n < 1e6 => format!("{:.1} kB", n / 1e3),
        n if n < 1e9 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.2} GB", n / 1e9),
    }
}

/// A number with as many places as it needs.
pub(crate) fn number(n: f64) -> String {
    if n.fract() == 0.0 && n.abs() < 1e15 {
        count(n.abs() as u64)
    } else if n.abs() < 100.0 {
        format!("{n:.2}")
    } else {
        count(n.abs().round() as u64)
    }
}

/// What was measured for a threshold.
pub(crate) fn judged_value(judged: &Judged) -> String {
    match judged.actual {
        None => "not measured".to_owned(),
        Some(actual) if judged.is_time => time(actual),
        Some(actual) => number(actual),
    }
}

/// The columns of a timing.
pub(crate) fn columns(summary: &Summary) -> [String; 7] {
    [
        count(summary.count),
        time(summary.p50_us as f64),
        time(summary.p90_us as f64),
        time(summary.p99_us as f64),
        time(summary.p999_us as f64),
        time(summary.max_us as f64),
        time(summary.mean_us),
    ]
}

/// Everything on one screen.
pub(crate) fn summary(report: &RunReport, paint: Paint) -> String {
    let mut text = String::new();
    let place = &report.place;
    let _ = writeln!(
        text,
        "\n{}  {}  {} ({} seats)  seed {}  {:.1} s",
        paint.bold(report.scenario["name"].as_str().unwrap_or("run")),
        place.url,
        place.event_name,
        count(u64::from(place.seat_count)),
        place.seed,
        report.seconds
    );
    let _ = writeln!(text, "{}\n", paint.dim(&report.level));
    let heads = ["samples", "p50", "p90", "p99", "p99.9", "max", "mean"];
    let _ = writeln!(text, "  {:<24}{}", "from the intended time", paint.dim(&row(&heads.map(str::to_owned))));
    for (name, summary) in &report.timings {
        let _ = writeln!(text, "  {name:<24}{}", row(&columns(summary)));
    }
    text.push('\n');
    let n = |name: &str| count(report.counts.get(name).copied().unwrap_or(0));
    let number_of = |name: &str| report.numbers.get(name).copied().map_or_else(|| "-".to_owned(), number);
    let _ = writeln!(
        text,
        "  holds     {} won, {} lost, {} refused of {} arrivals ({}/s); {} released, {} let go",
        n("holds_won"),
        n("holds_lost"),
        n("holds_refused"),
        n("arrivals"),
        number_of("holds_won_per_s"),
        n("releases"),
        n("let_go")
    );
    let _ = writeln!(
        text,
        "  orders    {} paid ({} seats), {} declined, {} refused, {} settled late, {} outcomes unknown",
        n("paid"),
        n("seats_sold"),
        n("declined"),
        n("checkouts_refused"),
        n("checkouts_unsettled"),
        n("unknown_outcomes")
    );
    let _ = writeln!(
        text,
        "  map       {} frames ({}/s), {} snapshots, {} deliveries ({} before the holder's reply), {}/viewer/s",
        n("frames"),
        number_of("frames_per_s"),
        n("snapshots"),
        n("deliveries"),
        n("early_deliveries"),
        bytes(report.numbers.get("bytes_per_viewer_s").copied().unwrap_or(0.0))
    );
    let _ = writeln!(
        text,
        "  repairs   {} gaps, {} resyncs, {} reconnects, {} closed for good, {} absent at the end",
        n("gaps"),
        n("resyncs"),
        n("reconnects"),
        n("closed_for_good"),
        number_of("viewers_absent")
    );
    if !report.by_name.is_empty() {
        let names: Vec<String> = report.by_name.iter().map(|(name, n)| format!("{name} {}", count(*n))).collect();
        let _ = writeln!(text, "  also      {}", names.join(", "));
    }
    let workers: Vec<String> = report.own.workers.iter().map(|w| format!("{} {:.0} %", w.role, w.cpu_pct)).collect();
    let _ = writeln!(
        text,
        "  generator timers late {} at p99; of a core: {}",
        time(report.own.lag_p99_us as f64),
        workers.join(", ")
    );
    for process in &report.server {
        let _ = writeln!(
            text,
            "  server    {:<16} {:>5.0} % of a core, heap {} at most",
            process.name,
            process.cpu_pct,
            bytes(process.heap_bytes_max as f64)
        );
    }
    text.push('\n');
    for invariant in &report.invariants {
        let holds = invariant.violations == 0;
        let _ = writeln!(
            text,
            "  {} {}: {}",
            paint.mark(holds),
            invariant.name,
            if holds { invariant.means.clone() } else { format!("{} violations", count(invariant.violations)) }
        );
    }
    for judged in &report.thresholds {
        let _ = writeln!(
            text,
            "  {} {} {}  ({})",
            paint.mark(judged.passed),
            judged.name,
            judged.bound,
            judged_value(judged)
        );
    }
    let _ = writeln!(text, "\n{}", paint.verdict(report.verdict.word(), report.exit_code));
    for reason in &report.reasons {
        let _ = writeln!(text, "  {reason}");
    }
    text
}

fn row(columns: &[String]) -> String {
    columns.iter().map(|column| format!("{column:>12}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(time(999.0), "999 us");
        assert_eq!(time(1_500.0), "1.5 ms");
        assert_eq!(time(399_700.0), "400 ms");
        assert_eq!(time(12_340_000.0), "12.3 s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(12.345), "12.35");
        assert_eq!(bytes(1_500.0), "1.5 kB");
    }
}
