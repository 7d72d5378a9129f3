use super::*;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

/// A message; a gap is `None`.
type Entry = Option<(String, Vec<u8>)>;

/// What was heard.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<Entry>>, Notify);

impl Heard {
    async fn wait_for(&self, count: usize) -> Vec<Entry> {
        loop {
            let changed = self.1.notified();
            if self.0.lock().len() >= count {
                return self.0.lock().clone();
            }
            changed.await;
        }
    }

    fn add(&self, what: Entry) {
        self.0.lock().push(what);
        self.1.notify_waiters();
    }
}

impl Hear for Heard {
    fn message(&self, channel: &str, payload: &[u8]) {
        self.add(Some((channel.to_owned(), payload.to_vec())));
    }

    fn gap(&self) {
        self.add(None);
    }
}

async fn let_in(listener: &TcpListener) -> TcpStream {
    let (mut server, _) = listener.accept().await.expect("accepted");
    expect(&mut server, &["PING"], "+PONG\r\n").await;
    server
}

/// Reads one command and answers it.
async fn expect(server: &mut TcpStream, words: &[&str], answer: &str) {
    let mut wanted = Vec::new();
    resp::encode_command(&mut wanted, words);
    let mut text = vec![0; wanted.len()];
    server.read_exact(&mut text).await.expect("reads");
    assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(&wanted));
    server.write_all(answer.as_bytes()).await.expect("writes");
}

async fn pair() -> (Ear, Arc<Heard>, TcpListener, TcpStream) {
    pair_with(SILENT).await
}

async fn pair_with(silent: Duration) -> (Ear, Arc<Heard>, TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let config = Config::from_url(&format!("redis://{}", listener.local_addr().expect("bound"))).expect("a URL");
    let heard = Arc::<Heard>::default();
    let context = Context {
        hear: Arc::clone(&heard) as Arc<dyn Hear>,
        next: Arc::new(AtomicU64::new(1)),
        channels: Arc::default(),
        doubt: Arc::default(),
    };
    let (ear, server) = tokio::join!(Ear::connect_with(config, context, silent), let_in(&listener));
    (ear.expect("connected"), heard, listener, server)
}

fn message(channel: &str, payload: &str) -> Entry {
    Some((channel.to_owned(), payload.as_bytes().to_vec()))
}

#[tokio::test]
async fn a_cut_is_told_once_all_channels_are_subscribed_again_and_refusals_reach_who_asked() {
    let (ear, heard, listener, mut server) = pair().await;
    let said = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n\r\n\r\n";
    let (subscribed, ()) = tokio::join!(ear.ask(Verb::Subscribe, "a"), expect(&mut server, &["subscribe", "a"], said));
    subscribed.expect("subscribed");
    let (refused, ()) =
        tokio::join!(ear.ask(Verb::Subscribe, "b"), expect(&mut server, &["subscribe", "b"], "-NOPERM no\r\n"));
    assert!(refused.is_err_and(|error| error.to_string().contains("NOPERM")));
    let number = ear.number();
    // In the middle of a message.
    server.write_all(b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nhal").await.expect("writes");
    drop(server);
    let mut server = let_in(&listener).await;
    expect(&mut server, &["subscribe", "a"], "").await;
    assert_eq!(heard.wait_for(1).await, [message("a", "\r\n")], "no gap before everything is heard again");
    server.write_all(said.as_bytes()).await.expect("writes");
    assert_eq!(heard.wait_for(3).await, [message("a", "\r\n"), None, message("a", "\r\n")]);
    assert_ne!(ear.number(), number);
}

#[tokio::test]
async fn what_is_left_while_nobody_answers_is_not_subscribed_again() {
    let (ear, heard, listener, mut server) = pair().await;
    for channel in ["a", "b"] {
        let words = ["subscribe", channel];
        let said = format!("*3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:1\r\n");
        let (subscribed, ()) = tokio::join!(ear.ask(Verb::Subscribe, channel), expect(&mut server, &words, &said));
        subscribed.expect("subscribed");
    }
    // Asked by somebody who does not wait for the answer.
    let (done, gone) = oneshot::channel();
    drop(gone);
    ear.asks.send(Ask { verb: Verb::Unsubscribe, channel: "a".into(), done }).await.expect("asked");
    expect(&mut server, &["unsubscribe", "a"], "").await;
    drop(server);
    let mut server = let_in(&listener).await;
    expect(&mut server, &["subscribe", "b"], "*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n").await;
    assert_eq!(heard.wait_for(1).await, [None]);
}

#[tokio::test]
async fn what_redis_unsubscribes_by_itself_is_nowhere_and_what_we_unsubscribe_is_not() {
    let (ear, _, _listener, mut server) = pair().await;
    let context = &ear.shared.context;
    for channel in ["a", "b"] {
        context.channels.insert(channel.into(), ear.number());
    }
    let gone = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n";
    let (unsubscribed, ()) =
        tokio::join!(ear.ask(Verb::UnsubscribeSharded, "a"), expect(&mut server, &["sunsubscribe", "a"], gone));
    unsubscribed.expect("unsubscribed");
    let heard_by = |channel: &str| context.channels.get(channel).map(|number| *number);
    assert_eq!(heard_by("a"), Some(ear.number()));
    server.write_all(gone.as_bytes()).await.expect("writes");
    context.doubt.notified().await;
    assert_eq!((heard_by("a"), heard_by("b")), (Some(NOWHERE), Some(ear.number())));
}

#[tokio::test]
async fn a_channel_that_redis_lets_go_of_in_the_next_word_is_nowhere() {
    let (ear, _, _listener, mut server) = pair().await;
    ear.shared.context.channels.insert("a".to_owned(), NOWHERE);
    let heard = "*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n";
    let (asked, ()) =
        tokio::join!(ear.ask(Verb::SubscribeSharded, "a"), expect(&mut server, &["ssubscribe", "a"], heard));
    asked.expect("heard");
    let heard_by = || ear.shared.context.channels.get("a").map(|number| *number);
    assert_eq!(heard_by(), Some(ear.number()));
    let gone = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n";
    let both = format!("{heard}{gone}");
    let (asked, ()) =
        tokio::join!(ear.ask(Verb::SubscribeSharded, "a"), expect(&mut server, &["ssubscribe", "a"], &both));
    asked.expect("it was heard for a moment");
    assert_eq!(heard_by(), Some(NOWHERE), "and is to be followed");
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_asked_and_then_made_anew() {
    let (ear, _, listener, mut server) = pair_with(Duration::from_millis(50)).await;
    let number = ear.number();
    expect(&mut server, &["ping"], "").await;
    let_in(&listener).await;
    while ear.number() == number {
        tokio::task::yield_now().await;
    }
}
