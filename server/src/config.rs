//! Every setting, read once at boot from the environment: one struct a concern, each field with its meaning, unit,
//! default and what breaks when it is too high or too low. A bad value stops the start with one plain line.

mod prefix;
mod read;

pub use prefix::AddressPrefix;
pub use read::ConfigError;
use read::Env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The API of the provider `stripe`.
const STRIPE_URL: &str = "https://api.stripe.com";
/// After this hardly a bank still thinks.
const IDLE: Duration = Duration::from_secs(30);

/// A secret: Debug shows that it is there, not what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself; only where it is used.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// All settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Public listener: map, socket, HTTP. `SEATWIRE_LISTEN`, default 127.0.0.1:8080.
    pub listen: SocketAddr,
    /// Admin listener: metrics and operations; keep it off the internet. `SEATWIRE_ADMIN_LISTEN`, default 127.0.0.1:8081.
    pub admin_listen: SocketAddr,
    /// Listener of the doors: the page that scans, and the check-in it asks; all that those at the entrance reach.
    /// `SEATWIRE_DOOR_LISTEN`, default 127.0.0.1:8082.
    pub door_listen: SocketAddr,
    /// Where embedded stores and generated files live. `SEATWIRE_DATA`, default `data`.
    pub data: PathBuf,
    /// Postgres; absent = embedded. `DATABASE_URL`.
    pub database_url: Option<Secret>,
    /// A replica of it for reads of the catalogue (what is on sale, plans, lists), which may be behind by moments; while it
    /// does not answer the primary is asked. `DATABASE_READ_URL`, default none.
    pub database_read_url: Option<Secret>,
    /// Redis; absent = embedded. `redis://host:port`, `redis+unix:///path`, or any members of a Redis Cluster of version 7 or
    /// later as `redis-cluster://host:port,host:port`. `REDIS_URL`.
    pub redis_url: Option<Secret>,
    /// The ledger's connections.
    pub store: StoreConfig,
    /// Threads that drive sockets and commands. `SEATWIRE_WORKERS`, default: one a core, but one less in embedded mode, where
    /// Redis and Postgres share the machine: waking each other across cores costs more than the second core brings.
    pub workers: usize,
    /// The shelf's connections.
    pub inventory: InventoryConfig,
    /// Sockets.
    pub socket: SocketConfig,
    /// The map's fan-out.
    pub seatmap: SeatmapConfig,
    /// Plain HTTP.
    pub http: HttpConfig,
    /// Checkout and payments.
    pub checkout: CheckoutConfig,
    /// Mails and outgoing webhooks.
    pub notice: NoticeConfig,
    /// Waitlists of sold-out events.
    pub waitlist: WaitlistConfig,
}

/// Postgres.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Connections of this node. `SEATWIRE_DB_CONNECTIONS`, default 16. Too low: checkouts queue; too high: Postgres
    /// spends its time switching.
    pub max_connections: u32,
    /// Longest wait for a connection before the answer is `unavailable`. `SEATWIRE_DB_ACQUIRE_MS`, default 250 ms.
    pub acquire_timeout: Duration,
    /// Longest statement. `SEATWIRE_DB_STATEMENT_MS`, default 5,000 ms.
    pub statement_timeout: Duration,
}

/// Redis.
#[derive(Debug, Clone)]
pub struct InventoryConfig {
    /// Connections for scripts, to each master; commands of many sessions share them, so that they travel in one write.
    /// `SEATWIRE_REDIS_CONNECTIONS`, default 1. More: fewer calls a write, for both sides.
    pub connections: usize,
    /// Longest wait for a script. `SEATWIRE_REDIS_TIMEOUT_MS`, default 500 ms. Too low: ghost outcomes that only the key
    /// resolves; too high: buyers wait on a dead store.
    pub command_timeout: Duration,
    /// Between two looks for holds that ended. `SEATWIRE_SWEEP_MS`, default 250 ms.
    pub sweep_interval: Duration,
}

/// Sockets.
#[derive(Debug, Clone)]
pub struct SocketConfig {
    /// Most connections of this process; further ones are refused before the upgrade. `SEATWIRE_MAX_CONNECTIONS`,
    /// default: the file descriptor limit less 512.
    pub max_connections: usize,
    /// New sockets a second, burst twice that. `SEATWIRE_HANDSHAKES_PER_S`, default 5,000.
    pub handshakes_per_s: u32,
    /// Commands a session may send at once. `SEATWIRE_COMMAND_BURST`, default 10.
    pub command_burst: u32,
    /// Commands a second after that. `SEATWIRE_COMMANDS_PER_S`, default 5.
    pub commands_per_s: u32,
    /// Between WebSocket pings. `SEATWIRE_HEARTBEAT_MS`, default 20,000 ms.
    pub heartbeat: Duration,
    /// Longest wait for `hello`. Default 5 s.
    pub hello_timeout: Duration,
    /// Sockets of one identity on this node; the oldest makes room. Default 8.
    pub max_sockets_per_identity: usize,
    /// Time given to viewers to leave when the node stops. `SEATWIRE_DRAIN_MS`, default 5,000 ms.
    pub drain: Duration,
    /// Origins besides our own whose pages may open a socket. `SEATWIRE_ORIGINS`, comma-separated, default none.
    pub allowed_origins: Vec<String>,
}

/// The map's fan-out.
#[derive(Debug, Clone)]
pub struct SeatmapConfig {
    /// Shortest tick of a busy event. `SEATWIRE_TICK_MIN_MS`, default 50 ms.
    pub tick_min: Duration,
    /// Longest tick. `SEATWIRE_TICK_MAX_MS`, default 500 ms.
    pub tick_max: Duration,
}

/// Plain HTTP.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Proxies whose X-Forwarded-For is believed: addresses or prefixes. `SEATWIRE_TRUSTED_PROXIES`, default none.
    pub trusted_proxies: Vec<AddressPrefix>,
    /// Requests a second of one address. `SEATWIRE_HTTP_PER_S`, default 20.
    pub requests_per_s: u32,
    /// Requests at once of one address. `SEATWIRE_HTTP_BURST`, default 60.
    pub request_burst: u32,
    /// Requests a second of one address at the doors' listener, with a burst of three times as many.
    /// `SEATWIRE_DOOR_PER_S`, default 200: all scanners of a house may stand behind one address. Too low: scans count as
    /// made without a network.
    pub door_requests_per_s: u32,
    /// Whether loopback addresses are limited too. `SEATWIRE_LIMIT_LOOPBACK`, default false.
    pub is_loopback_limited: bool,
    /// Longest body. Default 64 KiB.
    pub max_body_bytes: usize,
    /// Where buyers reach us, for links in notices and at the payment provider. `SEATWIRE_PUBLIC_URL`, default
    /// `http://<listen>`.
    pub public_url: Option<String>,
}

/// Mails and outgoing webhooks.
#[derive(Debug, Clone)]
pub struct NoticeConfig {
    /// The SMTP server, e.g. `smtps://user:password@mail.example.org`. `SEATWIRE_SMTP_URL`; absent = mails are files in
    /// [`Self::mail_folder`], and nobody gets them.
    pub smtp_url: Option<Secret>,
    /// Where mails lie without a server: `mail` in `SEATWIRE_DATA`.
    pub mail_folder: PathBuf,
    /// Who writes. `SEATWIRE_MAIL_FROM`, default `Seatwire <tickets@localhost>`.
    pub mail_from: String,
    /// Whether webhooks may go to plain and to private addresses. `SEATWIRE_WEBHOOKS_PRIVATE`, default false. True lets
    /// whoever has a key of the admin API reach servers of your own network.
    pub may_call_private: bool,
    /// How long what was told is kept: the organisers' log with its deliveries, and mails. `SEATWIRE_LOG_KEPT_DAYS`, default
    /// 30, at least 4: a webhook is tried for three days. Too short: whoever reads the log too seldom must begin again.
    pub kept: Duration,
    /// Whether holds are told to organisers as well. `SEATWIRE_TELL_HOLDS`, default false. True adds a row of the log for
    /// nearly every hold and release: in an on-sale thousands a second.
    pub tells_holds: bool,
}

/// Checkout and payments.
#[derive(Debug, Clone)]
pub struct CheckoutConfig {
    /// The provider's API. `SEATWIRE_PAYMENT_URL`; absent = the embedded simulator, or with
    /// `SEATWIRE_PAYMENT_PROVIDER=stripe` https://api.stripe.com.
    pub payment_url: Option<String>,
    /// The provider's secret key. `SEATWIRE_PAYMENT_KEY`, default `sk_test_paysim`; `stripe` needs one of its own.
    pub payment_key: Secret,
    /// Secrets the provider signs webhooks with; two while one is rotated. `SEATWIRE_WEBHOOK_SECRETS`, comma-separated,
    /// default none: webhooks are refused, and the provider's list of events is read instead.
    pub webhook_secrets: Vec<Secret>,
    /// Between two reads of the provider's list of events. `SEATWIRE_POLL_PROVIDER_MS`, default 60,000 ms. Too high: with
    /// a dead webhook endpoint buyers wait longer; too low: the provider's budget is spent on looking.
    pub poll_interval: Duration,
    /// Longest wait for the provider. `SEATWIRE_PAYMENT_TIMEOUT_MS`, default 20,000 ms; not above `SEATWIRE_UNKNOWN_SOFT_MS`.
    pub payment_timeout: Duration,
    /// Longest wait of a buyer before the answer goes on by push. Default 5,000 ms.
    pub answer_within: Duration,
    /// How long an unknown payment may stay unknown before we try to cancel it. `SEATWIRE_UNKNOWN_SOFT_MS`, default 5 min.
    pub unknown_soft: Duration,
    /// How long after a lost answer an intent that the provider calls idle is cancelled. `SEATWIRE_UNKNOWN_IDLE_MS`, default
    /// 30 s, or what is next to it between the longest wait and the soft deadline, where it must lie. Too low: what a slow
    /// bank would still approve is given up; too high: buyers wait for what never began.
    pub unknown_idle: Duration,
    /// How long seats stay reserved while it is unknown. `SEATWIRE_UNKNOWN_HARD_MS`, default 15 min.
    pub unknown_hard: Duration,
    /// How long a buyer may take at the provider's (3-D Secure). `SEATWIRE_ACTION_MS`, default 10 min.
    pub action_deadline: Duration,
    /// Between two rounds of the reconciler. `SEATWIRE_RECONCILE_MS`, default 1,000 ms.
    pub reconcile_interval: Duration,
}

/// Waitlists of sold-out events.
#[derive(Debug, Clone)]
pub struct WaitlistConfig {
    /// How long an offer stands. `SEATWIRE_OFFER_MS`, default 10 min. Too short: nobody is at hand; too long: seats stand
    /// empty while the next one waits.
    pub offer_life: Duration,
    /// How long seats that fit nobody who waits are kept for somebody they might fit, before they go on the map.
    /// `SEATWIRE_WAITLIST_KEEP_MS`, default 1 min.
    pub keep_longest: Duration,
}

impl CheckoutConfig {
    /// The provider's name in the books.
    #[must_use]
    pub const fn provider_name(&self) -> &'static str {
        if self.payment_url.is_some() { "stripe" } else { "paysim" }
    }
}

impl Config {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// The name of the variable and what was expected, in one line.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::read(&Env::process())
    }

    /// Reads these variables only; tests use it.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ConfigError> {
        Self::read(&Env::of(pairs))
    }

    fn read(env: &Env) -> Result<Self, ConfigError> {
        let is_stripe = match env.text("SEATWIRE_PAYMENT_PROVIDER").as_deref() {
            None | Some("paysim") => false,
            Some("stripe") => true,
            Some(_) => return Err(ConfigError::new("SEATWIRE_PAYMENT_PROVIDER", "expected paysim or stripe")),
        };
        if is_stripe && env.text("SEATWIRE_PAYMENT_KEY").is_none() {
            return Err(ConfigError::new("SEATWIRE_PAYMENT_KEY", "must be set with SEATWIRE_PAYMENT_PROVIDER=stripe"));
        }
        let payment_timeout = env.millis("SEATWIRE_PAYMENT_TIMEOUT_MS", 100..=120_000, 20_000)?;
        let unknown_soft = env.millis("SEATWIRE_UNKNOWN_SOFT_MS", 100..=86_400_000, 300_000)?;
        let idle_default_ms = IDLE.min(unknown_soft).max(payment_timeout).as_millis() as u32;
        let config = Self {
            listen: env.parse(
                "SEATWIRE_LISTEN",
                "an address and port such as 127.0.0.1:8080",
                ([127, 0, 0, 1], 8080).into(),
            )?,
            admin_listen: env.parse(
                "SEATWIRE_ADMIN_LISTEN",
                "an address and port such as 127.0.0.1:8081",
                ([127, 0, 0, 1], 8081).into(),
            )?,
            door_listen: env.parse(
                "SEATWIRE_DOOR_LISTEN",
                "an address and port such as 127.0.0.1:8082",
                ([127, 0, 0, 1], 8082).into(),
            )?,
            data: env.text("SEATWIRE_DATA").map_or_else(|| PathBuf::from("data"), PathBuf::from),
            database_url: env.text("DATABASE_URL").map(Secret::new),
            database_read_url: env.text("DATABASE_READ_URL").map(Secret::new),
            redis_url: env.text("REDIS_URL").map(Secret::new),
            store: StoreConfig {
                max_connections: env.number("SEATWIRE_DB_CONNECTIONS", 2..=1000, 16)?,
                acquire_timeout: env.millis("SEATWIRE_DB_ACQUIRE_MS", 10..=60_000, 250)?,
                statement_timeout: env.millis("SEATWIRE_DB_STATEMENT_MS", 100..=600_000, 5_000)?,
            },
            workers: env.number("SEATWIRE_WORKERS", 1..=1_024, read::default_workers(env))? as usize,
            inventory: InventoryConfig {
                connections: env.number("SEATWIRE_REDIS_CONNECTIONS", 1..=64, 1)? as usize,
                command_timeout: env.millis("SEATWIRE_REDIS_TIMEOUT_MS", 50..=10_000, 500)?,
                sweep_interval: env.millis("SEATWIRE_SWEEP_MS", 20..=1_000, 250)?,
            },
            socket: SocketConfig {
                max_connections: env.number(
                    "SEATWIRE_MAX_CONNECTIONS",
                    1..=10_000_000,
                    read::default_max_connections(),
                )? as usize,
                handshakes_per_s: env.number("SEATWIRE_HANDSHAKES_PER_S", 1..=1_000_000, 5_000)?,
                command_burst: env.number("SEATWIRE_COMMAND_BURST", 1..=100_000, 10)?,
                commands_per_s: env.number("SEATWIRE_COMMANDS_PER_S", 1..=100_000, 5)?,
                heartbeat: env.millis("SEATWIRE_HEARTBEAT_MS", 200..=300_000, 20_000)?,
                hello_timeout: env.millis("SEATWIRE_HELLO_TIMEOUT_MS", 100..=60_000, 5_000)?,
                max_sockets_per_identity: env.number("SEATWIRE_SOCKETS_PER_IDENTITY", 1..=1_000, 8)? as usize,
                drain: env.millis("SEATWIRE_DRAIN_MS", 0..=300_000, 5_000)?,
                allowed_origins: env.list("SEATWIRE_ORIGINS"),
            },
            seatmap: SeatmapConfig {
                tick_min: env.millis("SEATWIRE_TICK_MIN_MS", 5..=1_000, 50)?,
                tick_max: env.millis("SEATWIRE_TICK_MAX_MS", 5..=5_000, 500)?,
            },
            http: HttpConfig {
                trusted_proxies: env.prefixes("SEATWIRE_TRUSTED_PROXIES")?,
                requests_per_s: env.number("SEATWIRE_HTTP_PER_S", 1..=1_000_000, 20)?,
                request_burst: env.number("SEATWIRE_HTTP_BURST", 1..=1_000_000, 60)?,
                door_requests_per_s: env.number("SEATWIRE_DOOR_PER_S", 1..=1_000_000, 200)?,
                is_loopback_limited: env.parse("SEATWIRE_LIMIT_LOOPBACK", "true or false", false)?,
                max_body_bytes: 64 * 1024,
                public_url: env.text("SEATWIRE_PUBLIC_URL"),
            },
            waitlist: WaitlistConfig {
                offer_life: env.millis("SEATWIRE_OFFER_MS", 1_000..=86_400_000, 600_000)?,
                keep_longest: env.millis("SEATWIRE_WAITLIST_KEEP_MS", 0..=86_400_000, 60_000)?,
            },
            checkout: CheckoutConfig {
                payment_url: env.text("SEATWIRE_PAYMENT_URL").or(is_stripe.then(|| STRIPE_URL.to_owned())),
                payment_key: Secret::new(env.text("SEATWIRE_PAYMENT_KEY").unwrap_or_else(|| "sk_test_paysim".into())),
                webhook_secrets: env.list("SEATWIRE_WEBHOOK_SECRETS").into_iter().map(Secret::new).collect(),
                poll_interval: env.millis("SEATWIRE_POLL_PROVIDER_MS", 20..=3_600_000, 60_000)?,
                payment_timeout,
                answer_within: env.millis("SEATWIRE_ANSWER_WITHIN_MS", 100..=60_000, 5_000)?,
                unknown_soft,
                unknown_idle: env.millis("SEATWIRE_UNKNOWN_IDLE_MS", 100..=86_400_000, idle_default_ms)?,
                unknown_hard: env.millis("SEATWIRE_UNKNOWN_HARD_MS", 100..=86_400_000, 900_000)?,
                action_deadline: env.millis("SEATWIRE_ACTION_MS", 100..=86_400_000, 600_000)?,
                reconcile_interval: env.millis("SEATWIRE_RECONCILE_MS", 20..=60_000, 1_000)?,
            },
            notice: NoticeConfig {
                smtp_url: env.text("SEATWIRE_SMTP_URL").map(Secret::new),
                mail_folder: env
                    .text("SEATWIRE_DATA")
                    .map_or_else(|| PathBuf::from("data"), PathBuf::from)
                    .join("mail"),
                mail_from: env.text("SEATWIRE_MAIL_FROM").unwrap_or_else(|| "Seatwire <tickets@localhost>".into()),
                may_call_private: env.parse("SEATWIRE_WEBHOOKS_PRIVATE", "true or false", false)?,
                kept: Duration::from_secs(u64::from(env.number("SEATWIRE_LOG_KEPT_DAYS", 4..=3_650, 30)?) * 86_400),
                tells_holds: env.parse("SEATWIRE_TELL_HOLDS", "true or false", false)?,
            },
        };
        config.cross_check()?;
        Ok(config)
    }

    fn cross_check(&self) -> Result<(), ConfigError> {
        if self.seatmap.tick_min > self.seatmap.tick_max {
            return Err(ConfigError::new("SEATWIRE_TICK_MIN_MS", "must not be above SEATWIRE_TICK_MAX_MS"));
        }
        if self.notice.mail_from.parse::<lettre::message::Mailbox>().is_err() {
            return Err(ConfigError::new(
                "SEATWIRE_MAIL_FROM",
                "expected a name and an address: Shop <shop@example.org>",
            ));
        }
        if self.checkout.payment_timeout > self.checkout.unknown_soft {
            return Err(ConfigError::new("SEATWIRE_PAYMENT_TIMEOUT_MS", "must not be above SEATWIRE_UNKNOWN_SOFT_MS"));
        }
        if self.checkout.unknown_idle < self.checkout.payment_timeout {
            return Err(ConfigError::new("SEATWIRE_UNKNOWN_IDLE_MS", "must not be below SEATWIRE_PAYMENT_TIMEOUT_MS"));
        }
        if self.checkout.unknown_idle > self.checkout.unknown_soft {
            return Err(ConfigError::new("SEATWIRE_UNKNOWN_IDLE_MS", "must not be above SEATWIRE_UNKNOWN_SOFT_MS"));
        }
        if self.checkout.unknown_soft > self.checkout.unknown_hard {
            return Err(ConfigError::new("SEATWIRE_UNKNOWN_SOFT_MS", "must not be above SEATWIRE_UNKNOWN_HARD_MS"));
        }
        Ok(())
    }

    /// Where buyers reach us, without a slash at the end.
    #[must_use]
    pub fn public_url(&self) -> String {
        match &self.http.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{}", self.listen),
        }
    }
}

#[cfg(test)]
mod tests;
