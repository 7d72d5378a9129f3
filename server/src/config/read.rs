//! Reads single values out of the environment and says plainly what is wrong with them.

use super::prefix::{AddressPrefix, PrefixError};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct ConfigError {
    name: String,
    problem: String,
}

impl ConfigError {
    pub(super) fn new(name: &str, problem: impl Into<String>) -> Self {
        Self { name: name.to_owned(), problem: problem.into() }
    }
}

pub(super) struct Env(HashMap<String, String>);

impl Env {
    pub(super) fn process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    pub(super) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    /// The value, if it is set and not blank.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    pub(super) fn prefixes(&self, name: &str) -> Result<Vec<AddressPrefix>, ConfigError> {
        let parse = |text: &String| {
            text.parse().map_err(|error: PrefixError| ConfigError::new(name, format!("{error}, got {text:?}")))
        };
        self.list(name).iter().map(parse).collect()
    }

    pub(super) fn parse<T: FromStr>(&self, name: &str, expected: &str, default: T) -> Result<T, ConfigError> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| ConfigError::new(name, format!("expected {expected}, got {text:?}")))
            }
        }
    }

    pub(super) fn number(&self, name: &str, bounds: RangeInclusive<u32>, default: u32) -> Result<u32, ConfigError> {
        let expected = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let value = self.parse(name, &expected, default)?;
        if !bounds.contains(&value) {
            return Err(ConfigError::new(name, format!("expected {expected}, got {value}")));
        }
        Ok(value)
    }

    pub(super) fn millis(
        &self,
        name: &str,
        bounds: RangeInclusive<u32>,
        default: u32,
    ) -> Result<Duration, ConfigError> {
        self.number(name, bounds, default).map(|ms| Duration::from_millis(u64::from(ms)))
    }
}

/// Descriptors kept back for stores, listeners and files.
const DESCRIPTORS_KEPT_BACK: u32 = 512;
/// Where the limit cannot be read.
const FALLBACK_DESCRIPTOR_LIMIT: u32 = 1024;

/// One a core; one is left to the stores where they are ours.
pub(super) fn default_workers(env: &Env) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let is_embedded = env.text("DATABASE_URL").is_none() && env.text("REDIS_URL").is_none();
    cores.saturating_sub(u32::from(is_embedded)).max(1)
}

/// The soft limit of open files of this process, less what the process itself needs.
pub(super) fn default_max_connections() -> u32 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|soft| soft.parse().ok())
        .unwrap_or(FALLBACK_DESCRIPTOR_LIMIT);
    limit.saturating_sub(DESCRIPTORS_KEPT_BACK).max(64)
}
