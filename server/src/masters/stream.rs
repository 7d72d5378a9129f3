//! A connection to one Redis that says who we are before it is used. Ours, for what the client library is too dear for:
//! commands that are many (`line`) and listening (`subscriber/ear.rs`).

use super::resp;
use bytes::BytesMut;
use fred::types::config::{Config, ServerConfig};
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

/// Longest wait for a connection and its greeting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Between attempts to reach Redis again, doubling: short, because its events are closed meanwhile.
const RECONNECT_MIN: Duration = Duration::from_millis(20);
/// Longest wait between attempts.
const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// A connection that lasted so long is made anew at once; one that did not was let in and thrown out again.
const LASTING: Duration = Duration::from_secs(1);
/// Before the log says that Redis is away: a node that stops loses it as well, a moment before it ends.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// What comes in.
pub(crate) type Incoming = Box<dyn AsyncRead + Send + Unpin>;
/// What goes out.
pub(crate) type Outgoing = Box<dyn AsyncWrite + Send + Unpin>;

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects and says who we are.
    ///
    /// # Errors
    /// Nobody answers in time, or it does not let us in.
    pub(crate) async fn open(config: &Config) -> io::Result<Self> {
        tokio::time::timeout(CONNECT_TIMEOUT, Self::open_and_greet(config))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Both directions, each by itself.
    pub(crate) fn split(self) -> (Incoming, Outgoing) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
            Self::Unix(stream) => {
                let (read, write) = stream.into_split();
                (Box::new(read), Box::new(write))
            }
        }
    }

    async fn open_and_greet(config: &Config) -> io::Result<Self> {
        match &config.server {
            ServerConfig::Centralized { server } => {
                let mut stream = TcpStream::connect((&*server.host, server.port)).await?;
                stream.set_nodelay(true)?;
                greet(&mut stream, config).await?;
                Ok(Self::Tcp(stream))
            }
            ServerConfig::Unix { path } => {
                let mut stream = UnixStream::connect(path).await?;
                greet(&mut stream, config).await?;
                Ok(Self::Unix(stream))
            }
            ServerConfig::Clustered { .. } | ServerConfig::Sentinel { .. } => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "a connection leads to one server"))
            }
        }
    }
}

/// Makes a connection anew whenever it is lost.
#[derive(Debug)]
pub(crate) struct Reconnect {
    config: Config,
    /// Since when there was a connection.
    since: Instant,
    wait: Duration,
}

impl Reconnect {
    /// Of a connection that was made just now.
    pub(crate) fn new(config: Config) -> Self {
        Self { config, since: Instant::now(), wait: RECONNECT_MIN }
    }

    /// Tries until it is connected, however long that takes. `lost` is how the last connection ended, `what` it was for.
    pub(crate) async fn again(&mut self, what: &str, lost: io::Result<()>) -> Stream {
        let why = lost.err().map(tracing::field::display);
        tracing::debug!(error = why, what, "a connection to Redis is lost");
        let (began, mut is_told) = (Instant::now(), false);
        if self.since.elapsed() >= LASTING {
            self.wait = RECONNECT_MIN;
        } else {
            self.pause().await;
        }
        loop {
            match Stream::open(&self.config).await {
                Ok(stream) => {
                    self.since = Instant::now();
                    if is_told {
                        tracing::info!(what, "Redis is reached again");
                    }
                    return stream;
                }
                Err(error) if !is_told && began.elapsed() >= TELL_AFTER => {
                    is_told = true;
                    tracing::warn!(%error, what, "Redis cannot be reached");
                }
                Err(error) => tracing::debug!(%error, "Redis cannot be reached"),
            }
            self.pause().await;
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(RECONNECT_MAX);
    }
}

/// Password and database, if there are any; and whether it answers.
async fn greet(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), config: &Config) -> io::Result<()> {
    let mut commands: Vec<Vec<&str>> = Vec::new();
    let database = config.database.map(|number| number.to_string());
    if let Some(password) = &config.password {
        let mut auth = vec!["AUTH"];
        auth.extend(config.username.as_deref());
        auth.push(password);
        commands.push(auth);
    }
    if let Some(database) = &database {
        commands.push(vec!["SELECT", database]);
    }
    // A Redis that is stopped or still loading is connected to, but not there.
    commands.push(vec!["PING"]);
    let mut read = BytesMut::new();
    for command in commands {
        let mut out = Vec::new();
        resp::encode_command(&mut out, &command);
        stream.write_all(&out).await?;
        loop {
            match resp::take(&mut read)? {
                Some(Ok(_)) => break,
                Some(Err(refused)) => return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused)),
                None if stream.read_buf(&mut read).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }
    Ok(())
}
