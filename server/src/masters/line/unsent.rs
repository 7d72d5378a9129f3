//! What becomes of commands when the connection is lost: of one that was on its way nobody knows, one that never went out did
//! nothing, and its caller may say so.

use super::*;

fn connected() -> Arc<Shared> {
    let queue = Mutex::new(Queue { is_connected: true, ..Queue::default() });
    Arc::new(Shared { queue, written: Notify::new(), timeout: Duration::from_millis(100) })
}

#[tokio::test]
async fn calls_that_were_never_sent_are_told_so_when_the_connection_is_lost() {
    let (shared, (taken, _waits)) = (connected(), tokio::io::duplex(64));
    let line = Line { shared: Arc::clone(&shared), task: tokio::spawn(async {}) };
    let call = |n: i64| {
        let line = &line;
        async move { line.ask(|out| resp::encode_command(out, &["ECHO", &n.to_string()])).await }
    };
    let losing = async {
        let sending = shared.send(taken);
        tokio::pin!(sending);
        // The first goes out, as far as there is room, and stays on its way.
        while !shared.queue.lock().out.is_empty() {
            tokio::select! {
                ended = &mut sending => panic!("{ended:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        let behind = call(2);
        let cut = async {
            while shared.queue.lock().unsent_n == 0 {
                tokio::task::yield_now().await;
            }
            shared.lose();
        };
        tokio::join!(behind, cut).0
    };
    let (sent, never_sent) = tokio::join!(call(1), losing);
    assert!(matches!(sent, Err(LineError::Unknown)), "{sent:?}");
    assert!(matches!(never_sent, Err(LineError::NotConnected)), "{never_sent:?}");
}
