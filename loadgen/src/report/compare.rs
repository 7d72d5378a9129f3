//! Two reports side by side: every timing, counter and number with its ratio. For before and after, and for two machines.

use super::{RunReport, text};
use std::fmt::Write as _;

/// Rows of name, left, right, ratio.
pub(crate) fn compare(a: &RunReport, b: &RunReport) -> String {
    let mut out = String::new();
    let name = |report: &RunReport| {
        format!("{} seed {}", report.scenario["name"].as_str().unwrap_or("run"), report.place.seed)
    };
    let _ = writeln!(out, "{:<34}{:>20}{:>20}{:>9}", "", name(a), name(b), "ratio");
    let _ = writeln!(out, "{:<34}{:>20}{:>20}", "verdict", a.verdict.word(), b.verdict.word());
    let mut line = |name: &str, left: f64, right: f64, show: &dyn Fn(f64) -> String| {
        let ratio = if left == 0.0 { String::new() } else { format!("{:.2}", right / left) };
        let _ = writeln!(out, "{name:<34}{:>20}{:>20}{ratio:>9}", show(left), show(right));
    };
    for (name, left) in &a.timings {
        let Some(right) = b.timings.get(name) else { continue };
        line(&format!("{name} p50"), left.p50_us as f64, right.p50_us as f64, &text::time);
        line(&format!("{name} p99"), left.p99_us as f64, right.p99_us as f64, &text::time);
        line(&format!("{name} max"), left.max_us as f64, right.max_us as f64, &text::time);
    }
    for (name, left) in &a.numbers {
        if let Some(right) = b.numbers.get(name) {
            line(name, *left, *right, &text::number);
        }
    }
    for (name, left) in &a.counts {
        match b.counts.get(name) {
            Some(right) if *left > 0 || *right > 0 => line(name, *left as f64, *right as f64, &text::number),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::good;
    use super::*;
    use crate::tally::Count;

    #[test]
    fn a_change_shows_as_a_ratio() {
        let (scenario, place, facts, window) = good();
        let a = RunReport::new(&scenario, place, facts, &window, &window);
        let (scenario, place, facts, mut window) = good();
        window.add(Count::HoldsWon, 90);
        let b = RunReport::new(&scenario, place, facts, &window, &window);
        let text = compare(&a, &b);
        let line = text.lines().find(|line| line.starts_with("holds_won ")).expect("it is compared");
        assert!(line.contains("90") && line.contains("180") && line.ends_with("2.00"), "{line}");
        assert!(text.lines().any(|line| line.starts_with("hold.won p99") && line.ends_with("1.00")), "{text}");
    }
}
