//! What must hold for a run to pass: `"hold.won.p99" = "< 80ms"`. Read with the scenario, judged with the report.

use crate::tally::{Count, Timing};

/// A statistic of a timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stat {
    /// A quantile, in hundredths of a percent.
    Quantile(u32),
    Min,
    Max,
    Mean,
    Samples,
}

/// What a threshold looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Timing(Timing, Stat),
    Count(Count),
    /// A counter divided by the seconds of the phases.
    Rate(Count),
    /// A number of the report by its name there.
    Number(&'static str),
}

/// Numbers of the report that are neither timed nor counted by workers.
pub(crate) const NUMBERS: &[&str] = &[
    "oversells",
    "viewers_behind",
    "viewers_absent",
    "lost_workers",
    "bytes_per_viewer_s",
    "deliveries_per_s",
    "server_cpu_pct",
    "server_cpu_us_per_frame",
    "server_cpu_us_per_hold",
    "redis_cpu_us_per_hold",
    "server_cpu_per_redis_cpu",
    "server_heap_mb",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
}

/// What a bound is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Us,
    Ms,
    S,
    Plain,
}

/// One line of `[thresholds]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Threshold {
    pub(crate) name: String,
    /// As written.
    pub(crate) bound: String,
    pub(crate) subject: Subject,
    operator: Operator,
    /// In microseconds for timings.
    value: f64,
}

impl Threshold {
    /// Reads name and bound.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub(crate) fn parse(name: &str, bound: &str) -> Result<Self, String> {
        let subject = subject(name)?;
        let (operator, rest) = operator(bound.trim())
            .ok_or_else(|| format!("\"{bound}\" must begin with <, <=, >, >= or =, as in \"< 80ms\""))?;
        let rest = rest.trim();
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let value: f64 = rest[..digits].parse().map_err(|_| format!("\"{bound}\" has no number"))?;
        let unit = match rest[digits..].trim() {
            "us" => Unit::Us,
            "ms" => Unit::Ms,
            "s" => Unit::S,
            "" => Unit::Plain,
            other => return Err(format!("\"{other}\" is no unit: us, ms, s or none")),
        };
        let is_time = matches!(&subject, Subject::Timing(_, stat) if *stat != Stat::Samples);
        let value = match (unit, is_time) {
            (Unit::Us, true) => value,
            (Unit::Ms, true) => value * 1e3,
            (Unit::S, true) => value * 1e6,
            (Unit::Plain, false) => value,
            (Unit::Plain, true) => return Err(format!("\"{bound}\" needs a unit: us, ms or s")),
            (_, false) => return Err(format!("{name} is a number without unit")),
        };
        Ok(Self { name: name.to_owned(), bound: bound.to_owned(), subject, operator, value })
    }

    /// Whether `actual` (microseconds for timings) passes.
    pub(crate) fn passes(&self, actual: f64) -> bool {
        match self.operator {
            Operator::Below => actual < self.value,
            Operator::AtMost => actual <= self.value,
            Operator::Above => actual > self.value,
            Operator::AtLeast => actual >= self.value,
            Operator::Equal => (actual - self.value).abs() < 1e-9,
        }
    }
}

fn operator(bound: &str) -> Option<(Operator, &str)> {
    let operators = [
        ("<=", Operator::AtMost),
        (">=", Operator::AtLeast),
        ("==", Operator::Equal),
        ("<", Operator::Below),
        (">", Operator::Above),
        ("=", Operator::Equal),
    ];
    operators.iter().find_map(|(text, operator)| bound.strip_prefix(text).map(|rest| (*operator, rest)))
}

fn subject(name: &str) -> Result<Subject, String> {
    if let Some(number) = NUMBERS.iter().find(|number| **number == name) {
        return Ok(Subject::Number(number));
    }
    if let Some(count) = Count::parse(name) {
        return Ok(Subject::Count(count));
    }
    if let Some(count) = name.strip_suffix(".per_s").and_then(Count::parse) {
        return Ok(Subject::Rate(count));
    }
    let Some((timing, stat)) = name.rsplit_once('.').and_then(|(timing, stat)| Some((Timing::parse(timing)?, stat)))
    else {
        return Err(format!("nothing measured is called \"{name}\""));
    };
    let stat = match stat {
        "p50" => Stat::Quantile(5_000),
        "p90" => Stat::Quantile(9_000),
        "p95" => Stat::Quantile(9_500),
        "p99" => Stat::Quantile(9_900),
        "p999" => Stat::Quantile(9_990),
        "p9999" => Stat::Quantile(9_999),
        "min" => Stat::Min,
        "max" => Stat::Max,
        "mean" => Stat::Mean,
        "count" => Stat::Samples,
        other => {
            return Err(format!("\"{other}\" is no statistic: p50, p90, p95, p99, p999, p9999, min, max, mean, count"));
        }
    };
    Ok(Subject::Timing(timing, stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_read_in_its_unit_and_judged_in_microseconds() {
        let threshold = Threshold::parse("commit_to_viewer.p99", "< 0.4s").expect("it is good");
        assert_eq!(threshold.subject, Subject::Timing(Timing::CommitToViewer, Stat::Quantile(9_900)));
        assert!(threshold.passes(399_999.0));
        assert!(!threshold.passes(400_000.0));
        assert!(Threshold::parse("oversells", "= 0").expect("it is good").passes(0.0));
        assert!(!Threshold::parse("holds_won.per_s", ">= 450").expect("it is good").passes(449.9));
    }

    #[test]
    fn a_time_needs_a_unit_and_a_number_has_none() {
        assert!(Threshold::parse("hold.won.p99", "< 80").is_err());
        assert!(Threshold::parse("hold.won.count", "> 80").is_ok());
        assert!(Threshold::parse("frames", "< 80ms").is_err());
        assert!(Threshold::parse("frames", "< 80kg").is_err());
    }
}
