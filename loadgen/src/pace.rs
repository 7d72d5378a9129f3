//! When people come: an open model. Arrivals are laid out before the run from phases and a seed, and nothing the server
//! does moves them, so a slow server is measured and not spared. `buyer` follows the schedule, `plan` prints it.

use crate::scenario::{Arrivals, Phase};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// A stream of chance for one purpose: runs of one seed share it whatever else they draw.
pub(crate) fn chance(seed: u64, purpose: &str, no: u64) -> Xoshiro256PlusPlus {
    // FNV-1a over purpose and number, so that streams differ in every bit of their seed.
    let mut mixed = 0xcbf2_9ce4_8422_2325_u64;
    for byte in purpose.bytes().chain(no.to_le_bytes()).chain(seed.to_le_bytes()) {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

/// Arrivals in microseconds after the start, ascending.
///
/// A phase of `s` seconds going from rate `a` to rate `b` expects `(a + b) / 2 * s` arrivals. A Poisson process of
/// changing rate is one of rate 1 seen through the inverse of the expected count, and so is the uniform schedule with
/// steps of exactly 1.
pub(crate) fn schedule(phases: &[Phase], arrivals: Arrivals, seed: u64) -> Vec<u64> {
    let mut chance = chance(seed, "arrivals", 0);
    let mut step = || match arrivals {
        Arrivals::Poisson => -(1.0 - chance.random::<f64>()).ln(),
        Arrivals::Uniform => 1.0,
    };
    let mut schedule = Vec::new();
    let mut expected = step();
    let (mut phase_start_s, mut phase_expected) = (0.0, 0.0);
    for phase in phases {
        let (from, to) = (phase.holds_per_s, phase.ramp_to.unwrap_or(phase.holds_per_s));
        let in_phase = (from + to) / 2.0 * phase.seconds;
        while expected <= phase_expected + in_phase && in_phase > 0.0 {
            let at_s = phase_start_s + seconds_until(expected - phase_expected, from, to, phase.seconds);
            schedule.push((at_s * 1e6) as u64);
            expected += step();
        }
        phase_start_s += phase.seconds;
        phase_expected += in_phase;
    }
    schedule
}

/// Solves `from * t + (to - from) / (2 * seconds) * t^2 = count` for t, in the form that stays exact when from = to.
fn seconds_until(count: f64, from: f64, to: f64, seconds: f64) -> f64 {
    let slope = (to - from) / seconds;
    let root = (from * from + 2.0 * slope * count).max(0.0).sqrt();
    let sum = from + root;
    if sum > 0.0 { (2.0 * count / sum).min(seconds) } else { seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(seconds: f64, holds_per_s: f64, ramp_to: Option<f64>) -> Phase {
        Phase { name: String::new(), seconds, holds_per_s, ramp_to }
    }

    #[test]
    fn one_seed_is_one_schedule_and_another_is_another() {
        let phases = [phase(5.0, 100.0, None)];
        let first = schedule(&phases, Arrivals::Poisson, 42);
        assert_eq!(first, schedule(&phases, Arrivals::Poisson, 42));
        assert_ne!(first, schedule(&phases, Arrivals::Poisson, 43));
        assert_eq!(first[..3], [576, 35_487, 49_482], "the schedule of seed 42 must never change");
    }

    #[test]
    fn a_poisson_phase_has_the_rate_and_the_spread_of_one() {
        let times = schedule(&[phase(100.0, 200.0, None)], Arrivals::Poisson, 7);
        assert!((19_500..=20_500).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted() && times.iter().all(|at| *at <= 100_000_000));
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 5_000.0).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance - 1.0).abs() < 0.1, "exponential gaps have variance 1, these {variance}");
    }

    #[test]
    fn a_ramp_grows_evenly_and_silence_stays_silent() {
        let phases = [phase(10.0, 0.0, Some(100.0)), phase(5.0, 0.0, None), phase(10.0, 10.0, None)];
        let times = schedule(&phases, Arrivals::Uniform, 1);
        assert_eq!(times.len(), 600);
        let before = |s: u64| times.iter().filter(|at| **at < s * 1_000_000).count();
        assert!((124..=125).contains(&before(5)), "a quarter of 500 by half time, not {}", before(5));
        assert_eq!(before(15), before(11), "the silent phase");
    }
}
