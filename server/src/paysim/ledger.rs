//! The simulator's memory on disk: one JSON line a change, appended before the change is answered, so that a provider
//! that is killed still knows what it charged. Changes are numbered under the bank's lock and written in batches.
//! A torn last line (killed in the middle of a write) was never answered and is cut off.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// How far the file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    UpTo(u64),
    Broken,
}

/// Appends lines; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Bounded by the requests in flight: each waits for its line before it is answered.
    waiting: Mutex<Waiting>,
    nudge: Notify,
    written: watch::Sender<Written>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    last: u64,
}

impl Ledger {
    /// Opens or makes the file; also what it holds, line by line.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<String>)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64)?;
            text.truncate(whole);
        }
        let lines = String::from_utf8(text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            .lines()
            .map(str::to_owned)
            .collect();
        let (written, _) = watch::channel(Written::UpTo(0));
        let ledger = Self(Arc::new(Inner { waiting: Mutex::default(), nudge: Notify::new(), written }));
        tokio::spawn(ledger.clone().write(file));
        Ok((ledger, lines))
    }

    /// A ledger that forgets: for tests and throw-away runs.
    #[must_use]
    pub(super) fn forgetful() -> Self {
        let (written, _) = watch::channel(Written::UpTo(u64::MAX));
        Self(Arc::new(Inner { waiting: Mutex::default(), nudge: Notify::new(), written }))
    }

    /// Appends a line; call it in the order of the changes. The number is for [`Ledger::settled`].
    pub(super) fn append(&self, line: &str) -> u64 {
        if *self.0.written.borrow() == Written::UpTo(u64::MAX) {
            return 0;
        }
        let mut waiting = self.0.waiting.lock();
        waiting.bytes.extend_from_slice(line.as_bytes());
        waiting.bytes.push(b'\n');
        waiting.last += 1;
        self.0.nudge.notify_one();
        waiting.last
    }

    /// Waits until the line is in the file; false when it cannot be written.
    pub(super) async fn settled(&self, number: u64) -> bool {
        let mut written = self.0.written.subscribe();
        let seen = written
            .wait_for(|written| match written {
                Written::UpTo(last) => *last >= number,
                Written::Broken => true,
            })
            .await;
        matches!(seen.as_deref(), Ok(Written::UpTo(_)))
    }

    async fn write(self, mut file: File) {
        loop {
            self.0.nudge.notified().await;
            let (bytes, last) = {
                let mut waiting = self.0.waiting.lock();
                (std::mem::take(&mut waiting.bytes), waiting.last)
            };
            let done = tokio::task::spawn_blocking(move || file.write_all(&bytes).map(|()| file)).await;
            match done {
                Ok(Ok(back)) => {
                    file = back;
                    self.0.written.send_replace(Written::UpTo(last));
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "the simulator's ledger cannot be written; it answers 500 from now on");
                    self.0.written.send_replace(Written::Broken);
                    return;
                }
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_come_back_and_a_torn_one_is_cut() {
        let path = std::env::temp_dir().join(format!("paysim-ledger-{}", uuid::Uuid::now_v7().simple()));
        let (ledger, lines) = Ledger::open(&path).expect("opens");
        assert!(lines.is_empty());
        ledger.append("one");
        let last = ledger.append("two");
        assert!(ledger.settled(last).await);
        std::fs::OpenOptions::new().append(true).open(&path).and_then(|mut f| f.write_all(b"thr")).expect("writes");
        let (_, lines) = Ledger::open(&path).expect("opens again");
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(std::fs::read(&path).expect("reads"), b"one\ntwo\n");
        std::fs::remove_file(&path).expect("removes");
    }
}
