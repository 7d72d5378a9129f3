//! One connection that listens. Messages are handed on where they were read, in the task that reads them: no queue, no copy
//! and no task a message. When whoever hears is slow, Redis keeps what it publishes up to its limit for subscribers
//! (`client-output-buffer-limit pubsub`, 32 MB unless an operator says otherwise) and then cuts us off, which is told as a gap
//! like every cut.

use super::{Channels, Hear, NOWHERE, SubscriberError};
use crate::masters::resp::{self, Told};
use crate::masters::stream::{Outgoing, Reconnect, Stream};
use bytes::{Buf as _, BytesMut};
use fred::types::config::Config;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// Longest wait for the answer to a subscription.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// Commands that wait for their turn; whoever comes behind them waits too, until [`COMMAND_TIMEOUT`].
const MAX_WAITING: usize = 1_024;
/// Channels named in one command after a reconnect.
const RESUBSCRIBE_BATCH: usize = 500;
/// A connection that was silent for so long is asked whether it is there.
const SILENT: Duration = Duration::from_secs(1);
/// Looks at a silent connection after which it counts as dead.
const MAX_SILENT_LOOKS: u32 = 5;
/// Bytes read at once; a change has some fifty.
const READ_BYTES: usize = 64 << 10;

/// What a channel is asked for; as Redis calls it in command and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Subscribe,
    Unsubscribe,
    /// In a cluster, where the channel belongs to one master.
    SubscribeSharded,
    UnsubscribeSharded,
    /// Nothing: whether it is there.
    Ping,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
            Self::SubscribeSharded => "ssubscribe",
            Self::UnsubscribeSharded => "sunsubscribe",
            Self::Ping => "ping",
        }
    }
}

#[derive(Debug)]
struct Ask {
    verb: Verb,
    channel: String,
    done: oneshot::Sender<Result<(), SubscriberError>>,
}

/// A command whose answer is to come.
#[derive(Debug)]
struct Unanswered {
    verb: Verb,
    channel: String,
    /// `None`: our own.
    done: Option<oneshot::Sender<Result<(), SubscriberError>>>,
}

/// A connection that listens to one Redis, made anew whenever it is lost, until this is dropped.
#[derive(Debug)]
pub(super) struct Ear {
    asks: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    is_connected: AtomicBool,
    /// Another one after every reconnect, as the channels of the connection before are gone.
    number: AtomicU64,
    context: Context,
}

/// What all ears of a subscriber share.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) hear: Arc<dyn Hear>,
    /// Where numbers come from.
    pub(super) next: Arc<AtomicU64>,
    /// Channels of a cluster.
    pub(super) channels: Arc<Channels>,
    /// Says that one of them may have to be subscribed again.
    pub(super) doubt: Arc<Notify>,
}

impl Shared {
    /// What was subscribed counts no more.
    fn renumber(&self) {
        self.number.store(self.context.next.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        self.context.doubt.notify_one();
    }

    /// A channel of a cluster is heard on this connection. Noted in the order of what Redis says: it may let go of the channel
    /// in the next word.
    fn hear(&self, channel: &str) {
        if let Some(mut heard_by) = self.context.channels.get_mut(channel) {
            *heard_by = self.number.load(Ordering::Acquire);
        }
    }

    /// Redis has let go of a channel by itself: another master serves it now.
    fn lose(&self, channel: &[u8]) {
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        if let Some(mut heard_by) = self.context.channels.get_mut(channel) {
            *heard_by = NOWHERE;
        }
        self.context.doubt.notify_one();
    }
}

impl Ear {
    /// Connects.
    ///
    /// # Errors
    /// When Redis cannot be reached now.
    pub(super) async fn connect(config: Config, context: Context) -> io::Result<Self> {
        Self::connect_with(config, context, SILENT).await
    }

    async fn connect_with(config: Config, context: Context, silent: Duration) -> io::Result<Self> {
        let first = Stream::open(&config).await?;
        let number = context.next.fetch_add(1, Ordering::Relaxed).into();
        let shared = Arc::new(Shared { is_connected: true.into(), number, context });
        let (asks, asked) = mpsc::channel(MAX_WAITING);
        let listening = Listening { shared: Arc::clone(&shared), asked, silent, channels: HashSet::new() };
        let task = tokio::spawn(listening.run(config, first));
        Ok(Self { asks, shared, task })
    }

    /// Whether it is connected now.
    pub(super) fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Acquire)
    }

    /// Which connection it is.
    pub(super) fn number(&self) -> u64 {
        self.shared.number.load(Ordering::Acquire)
    }

    /// Does something with a channel; when this returns, whatever is published from then on is heard, or no more.
    ///
    /// # Errors
    /// Redis refuses, or does not answer in time.
    pub(super) async fn ask(&self, verb: Verb, channel: &str) -> Result<(), SubscriberError> {
        let (done, answer) = oneshot::channel();
        let asking = async {
            let ask = Ask { verb, channel: channel.to_owned(), done };
            self.asks.send(ask).await.map_err(|_| SubscriberError("the connection has ended".into()))?;
            answer.await.unwrap_or_else(|_| Err(SubscriberError("the connection was lost".into())))
        };
        let answered = tokio::time::timeout(COMMAND_TIMEOUT, asking).await;
        answered.unwrap_or_else(|_| Err(SubscriberError(format!("no answer to {} {channel}", verb.name()))))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task of a connection.
struct Listening {
    shared: Arc<Shared>,
    asked: mpsc::Receiver<Ask>,
    silent: Duration,
    /// Channels that were asked for and not refused, to be subscribed again after a cut; those of a cluster are followed by whoever knows all its masters.
    channels: HashSet<String>,
}

/// One connection as long as it lasts.
#[derive(Default)]
struct Talk {
    out: Vec<u8>,
    unanswered: VecDeque<Unanswered>,
    /// Subscriptions after a cut that are not answered yet.
    again_n: usize,
}

impl Talk {
    fn say(&mut self, verb: Verb, channel: String, done: Option<oneshot::Sender<Result<(), SubscriberError>>>) {
        match verb {
            Verb::Ping => resp::encode_command(&mut self.out, &[verb.name()]),
            _ => resp::encode_command(&mut self.out, &[verb.name(), &channel]),
        }
        self.unanswered.push_back(Unanswered { verb, channel, done });
    }

    async fn flush(&mut self, write: &mut Outgoing) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = tokio::time::timeout(COMMAND_TIMEOUT, write.write_all(&self.out)).await;
        self.out.clear();
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Listening {
    async fn run(mut self, config: Config, first: Stream) {
        let mut reconnect = Reconnect::new(config);
        let mut talk = Talk::default();
        let mut stream = first;
        loop {
            let lost = self.listen(stream, talk).await;
            self.shared.is_connected.store(false, Ordering::Release);
            stream = reconnect.again("listening", lost).await;
            talk = self.again();
            self.shared.is_connected.store(true, Ordering::Release);
            // Sharded channels are followed by whoever waits for this, who also tells the gap.
            self.shared.renumber();
        }
    }

    /// What is said first after a cut.
    fn again(&self) -> Talk {
        let mut talk = Talk { again_n: self.channels.len(), ..Talk::default() };
        let channels: Vec<&str> = self.channels.iter().map(String::as_str).collect();
        let verb = Verb::Subscribe;
        for batch in channels.chunks(RESUBSCRIBE_BATCH) {
            resp::encode_command(&mut talk.out, &[&[verb.name()], batch].concat());
            let unanswered = |channel: &&str| Unanswered { verb, channel: (*channel).to_owned(), done: None };
            talk.unanswered.extend(batch.iter().map(unanswered));
        }
        talk
    }

    /// Until the connection is lost.
    async fn listen(&mut self, stream: Stream, mut talk: Talk) -> io::Result<()> {
        let (mut incoming, mut outgoing) = stream.split();
        let mut read = BytesMut::new();
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + self.silent, self.silent);
        // A process that stood still owes no looks: Redis could not be asked meanwhile.
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent_looks = 0;
        loop {
            talk.flush(&mut outgoing).await?;
            read.reserve(READ_BYTES);
            tokio::select! {
                got = incoming.read_buf(&mut read) => {
                    if got? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    silent_looks = 0;
                    let used = self.take(&mut talk, &read)?;
                    read.advance(used);
                }
                ask = self.asked.recv() => {
                    // Without anybody to ask, this task is about to be stopped.
                    let Some(Ask { verb, channel, done }) = ask else { return std::future::pending().await };
                    // Whoever gave up waiting for a channel does not want it; whoever leaves one leaves it all the same.
                    if !done.is_closed() || matches!(verb, Verb::Unsubscribe | Verb::UnsubscribeSharded) {
                        match verb {
                            Verb::Subscribe => _ = self.channels.insert(channel.clone()),
                            Verb::Unsubscribe => _ = self.channels.remove(&channel),
                            _ => {}
                        }
                        talk.say(verb, channel, Some(done));
                    }
                }
                _ = look.tick() => {
                    silent_looks += 1;
                    if silent_looks == MAX_SILENT_LOOKS {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "Redis says nothing"));
                    }
                    // The first look only says that nothing came since the one before.
                    if silent_looks == 2 {
                        talk.say(Verb::Ping, String::new(), None);
                    }
                }
            }
        }
    }

    /// Hands on what was read whole; how many bytes it was.
    fn take(&mut self, talk: &mut Talk, read: &[u8]) -> io::Result<usize> {
        let mut at = 0;
        while at < read.len()
            && let Some((len, told)) = resp::told(&read[at..])?
        {
            at += len;
            match told {
                Told::List(parts) => match parts[..] {
                    [b"message" | b"smessage", channel, payload] => match std::str::from_utf8(channel) {
                        Ok(channel) => self.shared.context.hear.message(channel, payload),
                        Err(_) => tracing::warn!("a message on a channel that is not text"),
                    },
                    [b"pong", ..] => self.answered(talk, Verb::Ping.name().as_bytes(), b""),
                    [kind, channel, ..] => self.answered(talk, kind, channel),
                    _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "an odd message")),
                },
                Told::Word(_) => self.answered(talk, Verb::Ping.name().as_bytes(), b""),
                Told::Error(text) => {
                    let text = String::from_utf8_lossy(text).into_owned();
                    let Some(refused) = talk.unanswered.pop_front() else { return Err(io::Error::other(text)) };
                    match refused.done {
                        Some(done) => {
                            self.channels.remove(&refused.channel);
                            // The caller may have gone.
                            let _ = done.send(Err(SubscriberError(text)));
                        }
                        None => return Err(io::Error::other(text)),
                    }
                }
            }
        }
        Ok(at)
    }

    fn answered(&mut self, talk: &mut Talk, kind: &[u8], channel: &[u8]) {
        let is_it = |asked: &Unanswered| asked.verb.name().as_bytes() == kind && asked.channel.as_bytes() == channel;
        let asked = if talk.unanswered.front().is_some_and(is_it) { talk.unanswered.pop_front() } else { None };
        let Some(Unanswered { verb, channel, done }) = asked else {
            self.shared.lose(channel);
            return;
        };
        if verb == Verb::SubscribeSharded {
            self.shared.hear(&channel);
        }
        match done {
            // The caller may have gone.
            Some(done) => _ = done.send(Ok(())),
            None if verb == Verb::Subscribe => {
                talk.again_n -= 1;
                if talk.again_n == 0 {
                    self.shared.context.hear.gap();
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
