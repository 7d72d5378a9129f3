//! A connection for commands that are many: calls of scripts, and publications. What callers write in the same moment goes
//! out in one write, answers come back in order, and a command costs no task and no queue of its own. Our own, because the
//! client library's way took a quarter of all that a hold costs this process (README.md, "Why a connection of our own"); the
//! library connects beside it for everything rarer, and says where and as whom. `resp` knows the protocol.

#[cfg(test)]
mod unsent;

use super::resp::{self, Answer};
use super::stream::{Reconnect, Stream};
use bytes::BytesMut;
use fred::types::config::Config;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};

/// Commands without an answer on one connection; above it one is refused as too many.
const MAX_UNANSWERED: usize = 20_000;
/// The oldest command unanswered for so long means that the connection is dead, unless commands may take longer.
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(1);
/// Between looks at the oldest commands: one timer a connection in place of one a command.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes read at once; an answer to a hold has some hundred.
const READ_BYTES: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    /// Nothing was sent.
    #[error("Redis is not connected")]
    NotConnected,
    /// Nothing was sent.
    #[error("too many commands wait for Redis")]
    TooMany,
    /// It may or may not have been done.
    #[error("no answer in time")]
    Unknown,
}

/// A connection that is made anew whenever it is lost, until the line is dropped.
#[derive(Debug)]
pub(crate) struct Line {
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something was written into an empty buffer.
    written: Notify,
    timeout: Duration,
}

#[derive(Debug, Default)]
struct Queue {
    is_connected: bool,
    /// Encoded commands nobody has sent yet.
    out: Vec<u8>,
    /// How many they are: the newest of those without an answer.
    unsent_n: usize,
    unanswered: VecDeque<Unanswered>,
}

#[derive(Debug)]
struct Unanswered {
    since: Instant,
    /// `None` once its time is over: the place stays, so that a late answer is nobody else's.
    caller: Option<oneshot::Sender<Result<Answer, LineError>>>,
}

impl Line {
    /// Connects; afterwards it reconnects by itself.
    ///
    /// # Errors
    /// When Redis cannot be reached now.
    pub(crate) async fn connect(config: Config, timeout: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared { queue: Mutex::default(), written: Notify::new(), timeout });
        let first = Stream::open(&config).await?;
        shared.queue.lock().is_connected = true;
        let task = tokio::spawn(keep(Arc::clone(&shared), config, first));
        Ok(Self { shared, task })
    }

    /// Whether a command would be sent now.
    pub(crate) fn is_connected(&self) -> bool {
        self.shared.queue.lock().is_connected
    }

    /// Sends the command that `encode` appends, once.
    ///
    /// # Errors
    /// `Unknown` when it may have been done; with all others nothing was sent.
    pub(crate) async fn ask(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Answer, LineError> {
        let answer = {
            let mut queue = self.shared.queue.lock();
            if !queue.is_connected {
                return Err(LineError::NotConnected);
            }
            if queue.unanswered.len() >= MAX_UNANSWERED {
                return Err(LineError::TooMany);
            }
            if queue.out.is_empty() {
                self.shared.written.notify_one();
            }
            encode(&mut queue.out);
            queue.unsent_n += 1;
            let (caller, answer) = oneshot::channel();
            queue.unanswered.push_back(Unanswered { since: Instant::now(), caller: Some(caller) });
            answer
        };
        // Let go of when the connection is lost or the answer is late.
        answer.await.unwrap_or(Err(LineError::Unknown))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.lose();
    }
}

impl Shared {
    /// Nothing sent so far will be answered, and what was not is never sent: its callers are told so, the others that nobody
    /// knows.
    fn lose(&self) {
        let Queue { unanswered, unsent_n, .. } = std::mem::take(&mut *self.queue.lock());
        let sent_n = unanswered.len().saturating_sub(unsent_n);
        for caller in unanswered.into_iter().skip(sent_n).filter_map(|asked| asked.caller) {
            // The caller's own task may have ended.
            let _ = caller.send(Err(LineError::NotConnected));
        }
    }

    /// Sends what is written, until the connection is lost.
    async fn send(&self, mut stream: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut sending = Vec::new();
        loop {
            self.written.notified().await;
            // Whoever runs before our next turn gets its command into the same write.
            tokio::task::yield_now().await;
            {
                let mut queue = self.queue.lock();
                std::mem::swap(&mut queue.out, &mut sending);
                queue.unsent_n = 0;
            }
            stream.write_all(&sending).await?;
            sending.clear();
            sending.shrink_to(READ_BYTES);
        }
    }

    /// Hands out answers, until the connection is lost.
    async fn receive(&self, mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut read = BytesMut::new();
        loop {
            read.reserve(READ_BYTES);
            if stream.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            while let Some(answer) = resp::take(&mut read)? {
                let Some(asked) = self.queue.lock().unanswered.pop_front() else {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer nobody waits for"));
                };
                if let Some(caller) = asked.caller {
                    // The caller's own task may have ended.
                    let _ = caller.send(Ok(answer));
                }
            }
        }
    }

    /// Lets go of calls whose time is over; ends when the oldest has waited so long that the connection must be dead.
    async fn watch(&self) -> io::Result<()> {
        let unresponsive_after = UNRESPONSIVE_AFTER.max(2 * self.timeout);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Instant::now();
            let mut queue = self.queue.lock();
            let waited = |asked: &Unanswered| now.duration_since(asked.since);
            if queue.unanswered.front().is_some_and(|oldest| waited(oldest) >= unresponsive_after) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "Redis does not answer"));
            }
            for late in queue.unanswered.iter_mut().take_while(|asked| waited(asked) >= self.timeout) {
                late.caller = None;
            }
        }
    }

    async fn serve(&self, stream: Stream) -> io::Result<()> {
        let (read, write) = stream.split();
        tokio::select! {
            lost = self.receive(read) => lost,
            lost = self.send(write) => lost,
            lost = self.watch() => lost,
        }
    }
}

async fn keep(shared: Arc<Shared>, config: Config, first: Stream) {
    let mut reconnect = Reconnect::new(config);
    let mut stream = first;
    loop {
        let lost = shared.serve(stream).await;
        shared.lose();
        stream = reconnect.again("commands", lost).await;
        shared.queue.lock().is_connected = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fred::types::Value;
    use tokio::net::{TcpListener, TcpStream};

    /// Of a call that is answered at once, on a machine that is slow.
    const TIMEOUT: Duration = Duration::from_secs(3);

    fn ping(out: &mut Vec<u8>) {
        resp::encode_command(out, &["PING", "0"]);
    }

    async fn let_in(listener: &TcpListener) -> TcpStream {
        let (mut server, _) = listener.accept().await.expect("accepted");
        expect(&mut server, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n").await;
        server
    }

    async fn expect(server: &mut TcpStream, asked: &str, answer: &str) {
        let mut text = vec![0; asked.len()];
        server.read_exact(&mut text).await.expect("reads");
        assert_eq!(String::from_utf8(text).expect("text"), asked);
        server.write_all(answer.as_bytes()).await.expect("writes");
    }

    async fn pair() -> (Line, TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("bound"));
        let config = Config::from_url(&url).expect("a URL");
        let (line, server) = tokio::join!(Line::connect(config, TIMEOUT), let_in(&listener));
        (line.expect("connected"), listener, server)
    }

    /// Reads until the call that ends so came in.
    async fn heard(server: &mut TcpStream, end: &str) -> String {
        let mut text = Vec::new();
        while !text.ends_with(end.as_bytes()) {
            assert_ne!(server.read_buf(&mut text).await.expect("reads"), 0);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    #[tokio::test]
    async fn answers_go_to_their_callers_in_order_also_behind_one_who_gave_up() {
        let (line, _listener, mut server) = pair().await;
        let call = |n: i64| {
            let line = &line;
            async move { line.ask(|out| resp::encode_command(out, &["ECHO", &n.to_string()])).await }
        };
        assert!(matches!(call(1).await, Err(LineError::Unknown)));
        heard(&mut server, "$1\r\n1\r\n").await;
        let answering = async {
            let text = heard(&mut server, "$1\r\n3\r\n").await;
            assert!(text.contains("$1\r\n2\r\n"), "{text}");
            server.write_all(b":1\r\n:2\r\n-NOSCRIPT no\r\n").await.expect("writes");
        };
        let (two, three, ()) = tokio::join!(call(2), call(3), answering);
        assert_eq!(two.expect("answered"), Ok(Value::Integer(2)));
        assert_eq!(three.expect("answered"), Err("NOSCRIPT no".to_owned()));
    }

    #[tokio::test]
    async fn a_lost_connection_is_told_as_unknown_refuses_what_comes_meanwhile_and_is_made_anew() {
        let (line, listener, server) = pair().await;
        let cut = async {
            let mut server = server;
            heard(&mut server, "$1\r\n0\r\n").await;
            // In the middle of an answer; and nobody listens for a while.
            server.write_all(b"$5\r\nhal").await.expect("writes");
            let address = listener.local_addr().expect("bound");
            drop((server, listener));
            address
        };
        let (cut_off, address) = tokio::join!(line.ask(ping), cut);
        assert!(matches!(cut_off, Err(LineError::Unknown)), "{cut_off:?}");
        while line.shared.queue.lock().is_connected {
            tokio::task::yield_now().await;
        }
        let refused = line.ask(ping).await;
        assert!(matches!(refused, Err(LineError::NotConnected)), "{refused:?}");
        let listener = TcpListener::bind(address).await.expect("the port again");
        let mut server = let_in(&listener).await;
        while !line.shared.queue.lock().is_connected {
            tokio::task::yield_now().await;
        }
        let answering = async {
            heard(&mut server, "$1\r\n0\r\n").await;
            server.write_all(b"+OK\r\n").await.expect("writes");
        };
        let (answered, ()) = tokio::join!(line.ask(ping), answering);
        assert_eq!(answered.expect("answered"), Ok(Value::from("OK")));
    }

    #[tokio::test]
    async fn the_password_goes_first_and_a_wrong_one_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("redis://seat:wire@{}/3", listener.local_addr().expect("bound"));
        let config = Config::from_url(&url).expect("a URL");
        let auth = "*3\r\n$4\r\nAUTH\r\n$4\r\nseat\r\n$4\r\nwire\r\n";
        let refusing = async {
            let (mut server, _) = listener.accept().await.expect("accepted");
            expect(&mut server, auth, "-WRONGPASS no\r\n").await;
        };
        let (refused, ()) = tokio::join!(Line::connect(config.clone(), TIMEOUT), refusing);
        assert_eq!(refused.expect_err("a wrong password").kind(), io::ErrorKind::PermissionDenied);
        let letting_in = async {
            let (mut server, _) = listener.accept().await.expect("accepted");
            expect(&mut server, auth, "+OK\r\n").await;
            expect(&mut server, "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n", "+OK\r\n").await;
            expect(&mut server, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n").await;
        };
        let (line, ()) = tokio::join!(Line::connect(config, TIMEOUT), letting_in);
        line.expect("let in");
    }
}
