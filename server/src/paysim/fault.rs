//! Faults that hit every call, whatever the card: switched by `POST /_sim/faults`, read by the API before it works.

use super::form::Form;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::time::Duration;

/// How the provider is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Outage {
    /// It is not.
    #[default]
    None,
    /// Every call is answered 500 and does nothing.
    Fail,
    /// No call is answered.
    Hang,
    /// Every call is answered with something that is not JSON, after it ran.
    Garbage,
}

impl Outage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fail => "fail",
            Self::Hang => "hang",
            Self::Garbage => "garbage",
        }
    }
}

/// What is switched on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Switched {
    /// Whether and how it is down.
    pub outage: Outage,
    /// Every call waits this long first.
    pub delay: Duration,
    /// One call in a hundred is answered 429 for each unit.
    pub busy_percent: u8,
    /// Of a hundred changes, answered 500 instead of done; the answer is kept for the key.
    pub fail_before_percent: u8,
    /// Of a hundred changes, done and answered 500; the answer is kept for the key.
    pub fail_after_percent: u8,
    /// Of a hundred changes, done and never answered.
    pub silent_percent: u8,
}

/// What befalls one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Nothing.
    None,
    /// 500, and nothing was done.
    FailBefore,
    /// 500, though it was done.
    FailAfter,
    /// No answer, though it was done.
    Silent,
}

impl Switched {
    /// Draws what befalls one change.
    pub(super) fn draw(&self) -> Mishap {
        let drawn = rand::random_range(0..100);
        let before = self.fail_before_percent;
        let after = before.saturating_add(self.fail_after_percent);
        let silent = after.saturating_add(self.silent_percent);
        match drawn {
            drawn if drawn < before => Mishap::FailBefore,
            drawn if drawn < after => Mishap::FailAfter,
            drawn if drawn < silent => Mishap::Silent,
            _ => Mishap::None,
        }
    }
}

/// The switches.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Switched>);

impl Faults {
    /// As they stand.
    #[must_use]
    pub(super) fn now(&self) -> Switched {
        *self.0.lock()
    }

    /// Sets what the form names: `outage` = none, fail, hang, garbage; `delay_ms`; `busy_percent`, `fail_before_percent`,
    /// `fail_after_percent`, `silent_percent`.
    pub(super) fn set(&self, form: &Form) -> Value {
        let mut switched = self.0.lock();
        match form.get("outage") {
            Some("none") => switched.outage = Outage::None,
            Some("fail") => switched.outage = Outage::Fail,
            Some("hang") => switched.outage = Outage::Hang,
            Some("garbage") => switched.outage = Outage::Garbage,
            _ => {}
        }
        if let Some(delay_ms) = form.get("delay_ms").and_then(|text| text.parse().ok()) {
            switched.delay = Duration::from_millis(delay_ms);
        }
        let percent = |name: &str, value: &mut u8| {
            if let Some(percent) = form.get(name).and_then(|text| text.parse::<u8>().ok()) {
                *value = percent.min(100);
            }
        };
        percent("busy_percent", &mut switched.busy_percent);
        percent("fail_before_percent", &mut switched.fail_before_percent);
        percent("fail_after_percent", &mut switched.fail_after_percent);
        percent("silent_percent", &mut switched.silent_percent);
        json!({
            "outage": switched.outage.as_str(),
            "delay_ms": switched.delay.as_millis() as u64,
            "busy_percent": switched.busy_percent,
            "fail_before_percent": switched.fail_before_percent,
            "fail_after_percent": switched.fail_after_percent,
            "silent_percent": switched.silent_percent,
        })
    }
}
