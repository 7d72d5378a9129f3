//! What the benches with stores stand on: a Postgres and a Redis of their own in a folder that goes with them, and what Redis
//! says it has used. `hold`, `best`, `expire` and `rebuild` come in.

use fred::interfaces::ClientLike;
use fred::types::Builder;
use fred::types::config::Config as RedisConfig;
use seatwire::embedded::{Embedded, EmbeddedConfig};
use std::path::PathBuf;

/// Both stores.
pub(crate) struct Ground {
    pub(crate) embedded: Embedded,
    pub(crate) data: PathBuf,
}

impl Ground {
    pub(crate) async fn prepare() -> Self {
        let data = std::env::temp_dir().join(format!("seatwire-bench-{}", std::process::id()));
        let config = EmbeddedConfig {
            guard_program: Some(env!("CARGO_BIN_EXE_seatwire").into()),
            durable: false,
            ..EmbeddedConfig::new(&data)
        };
        let embedded = Embedded::start(config).await.expect("Postgres and Redis start");
        Self { embedded, data }
    }

    /// A number Redis tells of itself; `None` while there is no Redis. A connection each time: the last may be dead.
    pub(crate) async fn look(&self, name: &str) -> Option<f64> {
        let config = RedisConfig::from_url(&self.embedded.redis_url()).expect("a URL");
        let client = Builder::from_config(config).build().expect("a client");
        client.init().await.ok()?;
        let info = client.info::<String>(None).await.ok();
        client.quit().await.ok()?;
        info?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
    }

    pub(crate) async fn info(&self, name: &str) -> f64 {
        self.look(name).await.expect("Redis answers")
    }

    /// Seconds of CPU Redis has used.
    pub(crate) async fn redis_cpu(&self) -> f64 {
        self.info("used_cpu_user").await + self.info("used_cpu_sys").await
    }

    pub(crate) async fn clear(self) {
        self.embedded.stop().await;
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
