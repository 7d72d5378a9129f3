//! Which Postgres and Redis a subcommand talks to: the given ones, the embedded ones that run already, or embedded ones
//! started for as long as the subcommand lasts.

use crate::config::{Config, Secret};
use crate::embedded::{self, Embedded, EmbeddedConfig};
use crate::store::Store;

/// Addresses of both stores, and the children behind them when they are ours.
pub(super) struct Stores {
    pub(super) database_url: Secret,
    pub(super) redis_url: Secret,
    embedded: Option<Embedded>,
}

impl Stores {
    /// Finds or starts them.
    ///
    /// # Errors
    /// One line that says what is missing and how to get it.
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        if let (Some(database_url), Some(redis_url)) = (&config.database_url, &config.redis_url) {
            return Ok(Self { database_url: database_url.clone(), redis_url: redis_url.clone(), embedded: None });
        }
        if config.database_url.is_some() != config.redis_url.is_some() {
            anyhow::bail!("give both DATABASE_URL and REDIS_URL, or neither to start private ones");
        }
        let embedded = Embedded::start(EmbeddedConfig::new(&config.data)).await?;
        Ok(Self {
            database_url: Secret::new(embedded.database_url()),
            redis_url: Secret::new(embedded.redis_url()),
            embedded: Some(embedded),
        })
    }

    /// As `open`, but uses the embedded stores of a server that runs on the same folder.
    ///
    /// # Errors
    /// As `open`.
    pub(super) async fn attach_or_open(config: &Config) -> anyhow::Result<Self> {
        if config.database_url.is_none()
            && config.redis_url.is_none()
            && let Some(urls) = embedded::attach(&config.data).await
        {
            return Ok(Self {
                database_url: Secret::new(urls.database_url),
                redis_url: Secret::new(urls.redis_url),
                embedded: None,
            });
        }
        Self::open(config).await
    }

    /// Finds or starts them, does the work on the database, and closes everything again, also when the work failed.
    ///
    /// # Errors
    /// As `open`, or the work's own.
    pub(super) async fn with_database<T>(
        config: &Config,
        work: impl AsyncFnOnce(&Store) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let stores = Self::attach_or_open(config).await?;
        let done = async {
            let store = Store::connect(stores.database_url.reveal(), &config.store).await?;
            let done = work(&store).await;
            store.close().await;
            done
        };
        let done = done.await;
        stores.close().await;
        done
    }

    /// Whether the stores are private children of this process.
    pub(super) const fn are_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Stops what was started.
    pub(super) async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}
