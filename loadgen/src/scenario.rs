//! What a run does: TOML with phases, the mix of buyers, limits of the generator itself and thresholds to pass.
//! `run` and `plan` read it; presets ship inside the program (`scenario/`). Every refusal names the line.

mod threshold;

pub(crate) use threshold::{Stat, Subject, Threshold};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;

/// The scenarios inside the program: name and text.
pub(crate) const PRESETS: &[(&str, &str)] = &[
    ("smoke", include_str!("../scenario/smoke.toml")),
    ("onsale_5k", include_str!("../scenario/onsale_5k.toml")),
    ("holds_500", include_str!("../scenario/holds_500.toml")),
    ("holds_10k", include_str!("../scenario/holds_10k.toml")),
];

/// Largest group that buys together: a hold of up to this many seats.
pub(crate) const MAX_GROUP: usize = 10;

/// How arrivals are spread within a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrivals {
    /// Independent of each other, as people are.
    #[default]
    Poisson,
    /// At equal distances.
    Uniform,
}

/// A stretch of time with a rate of arrivals. A step is two phases; a spike is a short one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phase {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) seconds: f64,
    /// Arrivals a second over all buyers, each of which wants one hold.
    pub(crate) holds_per_s: f64,
    /// Rate at the end of the phase, reached evenly; absent = the rate stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ramp_to: Option<f64>,
}

/// How viewers join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Joining {
    /// New sockets a second over all workers.
    pub(crate) connects_per_s: f64,
    /// Share of viewers that keep the whole map and check every digest; the others follow headers.
    pub(crate) whole_map_share: f64,
    /// At least this many keep the whole map.
    pub(crate) whole_map_at_least: u32,
    /// Whether viewers accept the packed snapshot.
    pub(crate) accepts_packed2: bool,
}

impl Default for Joining {
    fn default() -> Self {
        Self { connects_per_s: 1_000.0, whole_map_share: 0.01, whole_map_at_least: 50, accepts_packed2: false }
    }
}

/// What buyers do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Buying {
    /// Weights of groups of 1, 2, 3 .. seats.
    pub(crate) group_weights: Vec<f64>,
    /// Weight of holds given back.
    pub(crate) release: f64,
    /// Weight of holds that are paid for.
    pub(crate) buy: f64,
    /// Weight of holds whose buyer walks away.
    pub(crate) let_go: f64,
    /// Weight of holds kept for the same buyer's next arrival, which adds to them; with all it may have it looks on.
    pub(crate) add: f64,
    /// Time between the answer to a hold and what follows, shortest and longest.
    pub(crate) think_ms: [u64; 2],
    /// Share of groups that go for the hot seats without looking at the map.
    pub(crate) hot_share: f64,
    /// How many seats are hot: those with the lowest indices.
    pub(crate) hot_seats: u32,
    /// Payment methods and their weights.
    pub(crate) methods: BTreeMap<String, f64>,
}

impl Default for Buying {
    fn default() -> Self {
        Self {
            group_weights: vec![0.25, 0.45, 0.1, 0.2],
            release: 0.6,
            buy: 0.3,
            let_go: 0.1,
            add: 0.0,
            think_ms: [200, 800],
            hot_share: 0.1,
            hot_seats: 500,
            methods: BTreeMap::from([("pm_card_visa".to_owned(), 1.0)]),
        }
    }
}

/// When the generator itself is too slow for its numbers to be believed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OwnLimits {
    /// How late the loop of a worker may run its timers, 99th percentile.
    pub(crate) lag_p99_ms: f64,
    /// CPU of the busiest worker, of the one core it can use.
    pub(crate) cpu_pct: f64,
    /// Arrivals that found no buyer free.
    pub(crate) waited_pct: f64,
}

impl Default for OwnLimits {
    fn default() -> Self {
        Self { lag_p99_ms: 10.0, cpu_pct: 85.0, waited_pct: 1.0 }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) viewers: u32,
    pub(crate) buyers: u32,
    pub(crate) arrivals: Arrivals,
    pub(crate) phases: Vec<Phase>,
    pub(crate) joining: Joining,
    pub(crate) buying: Buying,
    pub(crate) own_limits: OwnLimits,
    #[serde(serialize_with = "as_text")]
    pub(crate) thresholds: Vec<Threshold>,
}

fn as_text<S: serde::Serializer>(thresholds: &[Threshold], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(thresholds.iter().map(|threshold| (&threshold.name, &threshold.bound)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    #[serde(default)]
    about: String,
    viewers: u32,
    buyers: u32,
    #[serde(default)]
    arrivals: Arrivals,
    #[serde(default)]
    phases: Vec<Spanned<Phase>>,
    #[serde(default)]
    joining: Option<Spanned<Joining>>,
    #[serde(default)]
    buying: Option<Spanned<Buying>>,
    #[serde(default)]
    own_limits: OwnLimits,
    #[serde(default)]
    thresholds: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// Why a scenario is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadScenario {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl std::fmt::Display for BadScenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for BadScenario {}

impl Scenario {
    /// Reads a scenario.
    pub(crate) fn parse(text: &str) -> Result<Self, BadScenario> {
        let line_at = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let bad = |offset: usize, message: String| BadScenario { line: line_at(offset), message };
        let parsed: Text = toml::from_str(text).map_err(|error| {
            bad(error.span().map_or(0, |span| span.start), error.message().lines().collect::<Vec<_>>().join("; "))
        })?;
        for phase in &parsed.phases {
            check_phase(phase.get_ref()).map_err(|message| bad(phase.span().start, message))?;
        }
        if let Some(joining) = &parsed.joining {
            check_joining(joining.get_ref()).map_err(|message| bad(joining.span().start, message))?;
        }
        if let Some(buying) = &parsed.buying {
            check_buying(buying.get_ref()).map_err(|message| bad(buying.span().start, message))?;
        }
        let mut thresholds = Vec::new();
        for (name, bound) in &parsed.thresholds {
            let threshold = Threshold::parse(name.get_ref(), bound.get_ref());
            thresholds.push(threshold.map_err(|message| bad(name.span().start, message))?);
        }
        Ok(Self {
            name: parsed.name,
            about: parsed.about,
            viewers: parsed.viewers,
            buyers: parsed.buyers,
            arrivals: parsed.arrivals,
            phases: parsed.phases.into_iter().map(Spanned::into_inner).collect(),
            joining: parsed.joining.map(Spanned::into_inner).unwrap_or_default(),
            buying: parsed.buying.map(Spanned::into_inner).unwrap_or_default(),
            own_limits: parsed.own_limits,
            thresholds,
        })
    }

    /// A preset by name.
    pub(crate) fn preset(name: &str) -> Option<Self> {
        let (_, text) = PRESETS.iter().find(|(preset, _)| *preset == name)?;
        Some(Self::parse(text).expect("a test reads every preset"))
    }

    /// Length of all phases.
    pub(crate) fn seconds(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }

    /// Stretches or shortens all phases alike.
    pub(crate) fn set_seconds(&mut self, seconds: f64) {
        let now = self.seconds();
        if now > 0.0 {
            for phase in &mut self.phases {
                phase.seconds *= seconds / now;
            }
        } else {
            self.phases = vec![Phase { name: String::new(), seconds, holds_per_s: 0.0, ramp_to: None }];
        }
    }

    /// Raises or lowers all phases alike, to this mean rate.
    pub(crate) fn set_holds_per_s(&mut self, holds_per_s: f64) {
        let expected: f64 =
            self.phases.iter().map(|p| (p.holds_per_s + p.ramp_to.unwrap_or(p.holds_per_s)) / 2.0 * p.seconds).sum();
        let mean = expected / self.seconds();
        for phase in &mut self.phases {
            if mean > 0.0 {
                phase.holds_per_s *= holds_per_s / mean;
                phase.ramp_to = phase.ramp_to.map(|to| to * holds_per_s / mean);
            } else {
                phase.holds_per_s = holds_per_s;
            }
        }
    }
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn check_phase(phase: &Phase) -> Result<(), String> {
    if !(phase.seconds.is_finite() && phase.seconds > 0.0) {
        return Err("a phase lasts more than 0 seconds".to_owned());
    }
    if !is_rate(phase.holds_per_s) || !phase.ramp_to.is_none_or(is_rate) {
        return Err("a rate is a number from 0 up".to_owned());
    }
    Ok(())
}

fn check_joining(joining: &Joining) -> Result<(), String> {
    if !(joining.connects_per_s.is_finite() && joining.connects_per_s > 0.0) {
        return Err("connects_per_s must be above 0".to_owned());
    }
    if !(0.0..=1.0).contains(&joining.whole_map_share) {
        return Err("whole_map_share is a share from 0 to 1".to_owned());
    }
    Ok(())
}

fn check_buying(buying: &Buying) -> Result<(), String> {
    let weights = [buying.release, buying.buy, buying.let_go, buying.add];
    if !weights.iter().all(|weight| is_rate(*weight)) || weights.iter().sum::<f64>() <= 0.0 {
        return Err("release, buy, let_go and add are weights from 0 up, not all 0".to_owned());
    }
    if buying.group_weights.len() > MAX_GROUP
        || !buying.group_weights.iter().all(|weight| is_rate(*weight))
        || buying.group_weights.iter().sum::<f64>() <= 0.0
    {
        return Err(format!("group_weights are 1 to {MAX_GROUP} weights from 0 up, not all 0"));
    }
    if buying.think_ms[0] > buying.think_ms[1] {
        return Err("think_ms is [shortest, longest]".to_owned());
    }
    if !(0.0..=1.0).contains(&buying.hot_share) {
        return Err("hot_share is a share from 0 to 1".to_owned());
    }
    if !buying.methods.values().all(|weight| is_rate(*weight)) || buying.methods.values().sum::<f64>() <= 0.0 {
        return Err("methods are payment methods with weights from 0 up, not all 0".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"x\"\nviewers = 1\nbuyers = 1\n";

    fn line_of(text: &str) -> (usize, String) {
        let bad = Scenario::parse(text).expect_err("it is bad");
        (bad.line, bad.message)
    }

    #[test]
    fn every_preset_reads_and_is_called_as_its_file() {
        for (name, _) in PRESETS {
            let scenario = Scenario::preset(name).expect("it exists");
            assert_eq!(scenario.name, *name);
            assert!(scenario.seconds() > 0.0 && !scenario.thresholds.is_empty());
        }
    }

    #[test]
    fn a_refusal_names_the_line() {
        let cases = [
            ("viewerz = 3\n", 4, "viewerz"),
            ("viewers\n", 4, ""),
            ("\n[[phases]]\nseconds = 1\nholds_per_s = -1.0\n", 5, "rate"),
            ("\n[[phases]]\nseconds = 0\nholds_per_s = 1.0\n", 5, "more than 0"),
            ("[buying]\nrelease = 0.0\nbuy = 0.0\nlet_go = 0.0\n", 4, "weights"),
            ("[thresholds]\n\"frames\" = \"> 1\"\n\"hold.won.p98\" = \"< 1ms\"\n", 6, "p98"),
            ("[thresholds]\n\"nothing\" = \"< 1\"\n", 5, "nothing"),
            ("[thresholds]\n\"hold.won.p99\" = \"under 80\"\n", 5, "under 80"),
        ];
        for (rest, line, part) in cases {
            let (at, message) = line_of(&format!("{GOOD}{rest}"));
            assert_eq!(at, line, "{rest:?}: {message}");
            assert!(message.contains(part), "{rest:?}: {message}");
        }
    }

    #[test]
    fn another_length_and_another_rate_keep_the_shape() {
        let text = format!(
            "{GOOD}[[phases]]\nseconds = 10\nholds_per_s = 10\nramp_to = 30\n[[phases]]\nseconds = 30\nholds_per_s = 20\n"
        );
        let mut scenario = Scenario::parse(&text).expect("it is good");
        scenario.set_seconds(8.0);
        scenario.set_holds_per_s(40.0);
        assert_eq!(scenario.phases.iter().map(|phase| phase.seconds).collect::<Vec<_>>(), [2.0, 6.0]);
        assert_eq!(scenario.phases[0].ramp_to, Some(60.0));
        assert_eq!(scenario.phases[1].holds_per_s, 40.0);
    }
}
