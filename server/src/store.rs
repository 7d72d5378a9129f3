//! The ledger: Postgres is the truth about what is sold and paid. SQL lives only here, in `store/` and in migrations.
//! Functions take an executor, so that the caller owns the transaction; a broken constraint comes back as an outcome.

pub mod admin_key;
pub mod admin_log;
pub mod allocation;
pub mod area_stock;
pub mod audit;
pub mod constraint;
pub mod dispute;
pub mod epoch;
pub mod event;
pub mod event_change;
pub mod event_life;
pub mod event_log;
pub mod hold_journal;
pub mod identity_use;
pub mod instrument_use;
pub mod layout;
pub mod mail;
pub mod money_audit;
pub mod open_payment;
pub mod order;
pub mod order_batch;
pub mod order_command;
pub mod order_state;
pub mod order_step;
pub mod outbox;
pub mod payment_attempt;
pub mod refund;
pub mod server_key;
pub mod settlement;
pub mod taken_seat;
pub mod ticket;
pub mod unreadable_event;
pub mod venue;
pub mod waitlist;
pub mod webhook_delivery;
pub mod webhook_endpoint;
pub mod webhook_inbox;

use crate::config::StoreConfig;
use parking_lot::Mutex;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, migrate::Migrator};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Longest a transaction may sit idle before Postgres ends it: a node that hangs must not hold locks.
const IDLE_IN_TRANSACTION_MS: u64 = 10_000;
/// Longest wait for a lock; behind it stands an `unavailable` or a retry.
const LOCK_TIMEOUT_MS: u64 = 2_000;
/// Of several nodes that start on one new schema one brings it up to date and the others wait: who gave up would not start.
const MIGRATION_SETTINGS: [(&str, &str); 2] = [("lock_timeout", "60000"), ("statement_timeout", "600000")];
/// Connections for batches: one for each kind of batch, of which one runs at a time.
const BATCH_CONNECTIONS: u32 = 5;
/// A batch is planned once a connection and not anew for each number of rows: planning would cost more than running it. Such a
/// plan must also be right when tables have grown since, so it may only look rows up.
const BATCH_SETTINGS: [(&str, &str); 4] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];
/// A connection that has rested so long is looked at before it is used.
const TESTED_AFTER_IDLE: Duration = Duration::from_secs(1);
/// Longest wait for Postgres to come up when the server starts.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the ledger could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Postgres is down, too busy or was restarted under us.
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] sqlx::Error),
    /// A statement failed: a defect of ours or of the schema.
    #[error("the store refused a statement: {0}")]
    Failed(#[source] sqlx::Error),
    /// Migrations could not be applied.
    #[error("the schema could not be brought up to date: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// A row that does not make sense.
    #[error("unexpected data: {0}")]
    Malformed(String),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let is_outage = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Protocol(_) => true,
            // 08: connection, 57: operator intervention (shutdown, cannot connect now), 53: out of resources, 25006: read
            // only, 55P03: a lock that did not come in time.
            sqlx::Error::Database(error) => error.code().is_some_and(|code| {
                code.starts_with("08")
                    || code.starts_with("57")
                    || code.starts_with("53")
                    || code == "25006"
                    || code == "55P03"
            }),
            _ => false,
        };
        if is_outage { Self::Unavailable(error) } else { Self::Failed(error) }
    }
}

/// Handle to Postgres; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    batches: PgPool,
    replica: Option<Arc<Replica>>,
}

/// A copy of the primary that answers reads of the catalogue.
#[derive(Debug)]
struct Replica {
    pool: PgPool,
    /// Not asked before this: it did not answer.
    rests_until: Mutex<Option<Instant>>,
}

/// How long a replica that did not answer is left alone: a dead one costs one reader so often a wait.
const REPLICA_REST: Duration = Duration::from_secs(2);

impl Store {
    /// Connects and brings the schema up to date.
    ///
    /// # Errors
    /// `Unavailable` when Postgres does not answer, `Migration` when the schema cannot be applied.
    pub async fn connect(url: &str, config: &StoreConfig) -> Result<Self, StoreError> {
        let options = options(url, config)?;
        let first = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(FIRST_CONNECT_TIMEOUT)
            .connect_with(options.clone().options(MIGRATION_SETTINGS))
            .await?;
        MIGRATIONS.run(&first).await?;
        first.close().await;
        let pool = pool_options(config).connect_with(options.clone()).await?;
        let batches = pool_options(config)
            .max_connections(BATCH_CONNECTIONS.min(config.max_connections))
            .connect_lazy_with(options.options(BATCH_SETTINGS));
        Ok(Self { pool, batches, replica: None })
    }

    /// With a replica for reads of the catalogue. It need not be there: it is asked when it is.
    ///
    /// # Errors
    /// A URL that is none.
    pub fn with_replica(mut self, url: &str, config: &StoreConfig) -> Result<Self, StoreError> {
        let pool = pool_options(config).connect_lazy_with(options(url, config)?);
        self.replica = Some(Arc::new(Replica { pool, rests_until: Mutex::new(None) }));
        Ok(self)
    }

    /// Reads what may be moments old: from the replica where there is one that answers, else from the primary.
    ///
    /// # Errors
    /// The primary's own.
    pub async fn read<T, F>(&self, read: impl Fn(PgPool) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        if let Some(replica) = &self.replica {
            let rests = replica.rests_until.lock().is_some_and(|until| Instant::now() < until);
            if !rests {
                match read(replica.pool.clone()).await {
                    Ok(found) => return Ok(found),
                    Err(error) => {
                        tracing::warn!(%error, "the replica does not answer; the primary is asked");
                        *replica.rests_until.lock() = Some(Instant::now() + REPLICA_REST);
                    }
                }
            }
        }
        read(self.pool.clone()).await
    }

    /// The same for one thing: what the replica does not have yet, the primary may have.
    ///
    /// # Errors
    /// The primary's own.
    pub async fn find<T, F>(&self, read: impl Fn(PgPool) -> F) -> Result<Option<T>, StoreError>
    where
        F: Future<Output = Result<Option<T>, StoreError>>,
    {
        match self.read(&read).await? {
            None if self.replica.is_some() => read(self.pool.clone()).await,
            found => Ok(found),
        }
    }

    /// The pool, for functions of `store` that take an executor.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// For the statements of `order_batch`, which find every row by its key.
    #[must_use]
    pub const fn batches(&self) -> &PgPool {
        &self.batches
    }

    /// Gives all connections back; waits for those in use.
    pub async fn close(&self) {
        self.pool.close().await;
        self.batches.close().await;
        if let Some(replica) = &self.replica {
            replica.pool.close().await;
        }
    }

    /// Whether Postgres answers.
    ///
    /// # Errors
    /// `Unavailable` when it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::raw_sql("select 1").execute(&self.pool).await?;
        Ok(())
    }
}

fn options(url: &str, config: &StoreConfig) -> Result<PgConnectOptions, StoreError> {
    Ok(PgConnectOptions::from_str(url)?.application_name("seatwire").options([
        ("statement_timeout", config.statement_timeout.as_millis().to_string()),
        ("lock_timeout", LOCK_TIMEOUT_MS.to_string()),
        // The rollback below mostly has nothing to roll back, and Postgres would say so each time.
        ("client_min_messages", "error".to_owned()),
        ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_MS.to_string()),
    ]))
}

fn pool_options(config: &StoreConfig) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(config.max_connections)
        .acquire_timeout(config.acquire_timeout)
        .test_before_acquire(false)
        // Each look at a connection is a round trip, and a checkout takes several: only one that has rested is looked at,
        // to see whether it still lives. `begin` keeps Postgres from warning that there was nothing to roll back.
        .before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for < TESTED_AFTER_IDLE {
                    return Ok(true);
                }
                Ok(sqlx::raw_sql("begin; rollback").execute(&mut *connection).await.is_ok())
            })
        })
}

/// Begins a transaction, also when the caller goes away: a begin that is dropped half way would leave its connection in a
/// transaction nobody knows of, and the next one's writes in it. One that was begun rolls back when it is dropped.
///
/// # Errors
/// When Postgres cannot answer.
pub async fn begin(pool: &PgPool) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, StoreError> {
    let pool = pool.clone();
    #[expect(clippy::disallowed_methods, reason = "on a task of its own, which nobody drops")]
    let begun = tokio::spawn(async move { pool.begin().await }).await;
    match begun {
        Ok(begun) => Ok(begun?),
        Err(_) => Err(StoreError::Unavailable(sqlx::Error::WorkerCrashed)),
    }
}
