//! Work of many buyers done by one of them: whoever comes while a run is under way waits for the next, and that takes all who
//! wait. So a commit, a statement and the way to Postgres are shared by as many as the load brings, and nobody waits for
//! company that does not come. `many` comes in here with the steps of a checkout, `webhook` with what is to be kept.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Most of one run: bounds how long its locks are held, and what is done again one by one when it fails.
const MOST: usize = 64;
/// Whoever comes after a run that had company waits a little for more of it: under load runs grow, at rest nobody waits.
const GATHER: Duration = Duration::from_millis(4);

/// One kind of work.
#[derive(Debug)]
pub(super) struct Together<T, R>(Mutex<Line<T, R>>);

#[derive(Debug)]
struct Line<T, R> {
    /// No longer than there are commands under way.
    waiting: VecDeque<(T, oneshot::Sender<R>)>,
    is_running: bool,
}

impl<T, R> Default for Together<T, R> {
    fn default() -> Self {
        Self(Mutex::new(Line { waiting: VecDeque::new(), is_running: false }))
    }
}

impl<T: Send + 'static, R: Send + 'static> Together<T, R> {
    /// Has this done by the next run, by `work`, which answers each of its items in their order. `None`: the run broke off,
    /// and nobody knows what it did.
    pub(super) async fn join<W, F>(self: &Arc<Self>, item: T, work: W) -> Option<R>
    where
        W: Fn(Vec<T>) -> F + Send + 'static,
        F: Future<Output = Vec<R>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut line = self.0.lock();
            line.waiting.push_back((item, answer));
            !std::mem::replace(&mut line.is_running, true)
        };
        if is_first {
            // On a task of its own: the buyer who began it may go away.
            tokio::spawn(self.clone().run(work));
        }
        answered.await.ok()
    }

    async fn run<W, F>(self: Arc<Self>, work: W)
    where
        W: Fn(Vec<T>) -> F,
        F: Future<Output = Vec<R>>,
    {
        let over = Over(&self);
        loop {
            let (items, answers): (Vec<T>, Vec<_>) = {
                let mut line = over.0.0.lock();
                if line.waiting.is_empty() {
                    line.is_running = false;
                    break;
                }
                let n = line.waiting.len().min(MOST);
                line.waiting.drain(..n).unzip()
            };
            let had_company = items.len() > 1;
            for (answer, done) in answers.into_iter().zip(work(items).await) {
                // Nobody may be there any more.
                let _ = answer.send(done);
            }
            if had_company {
                tokio::time::sleep(GATHER).await;
            }
        }
        std::mem::forget(over);
    }
}

/// A run that breaks off lets go of all who wait, and the next who comes begins anew.
struct Over<'a, T, R>(&'a Together<T, R>);

impl<T, R> Drop for Over<'_, T, R> {
    fn drop(&mut self) {
        let mut line = self.0.0.lock();
        line.waiting.clear();
        line.is_running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn those_who_come_meanwhile_are_done_together_each_with_its_own_answer() {
        let (line, runs) = (Arc::new(Together::<usize, usize>::default()), Arc::new(AtomicUsize::new(0)));
        let open = Arc::new(tokio::sync::Semaphore::new(0));
        let asks: Vec<_> = (0..=MOST + 1)
            .map(|n| {
                let (line, runs, open) = (line.clone(), runs.clone(), open.clone());
                tokio::spawn(async move {
                    let work = move |items: Vec<usize>| {
                        let (runs, open) = (runs.clone(), open.clone());
                        async move {
                            runs.fetch_add(1, Ordering::SeqCst);
                            open.acquire().await.expect("never closed").forget();
                            items.into_iter().map(|item| item * 10).collect()
                        }
                    };
                    assert_eq!(line.join(n, work).await, Some(n * 10));
                })
            })
            .collect();
        open.add_permits(100);
        for ask in asks {
            ask.await.expect("done");
        }
        assert!((2..=4).contains(&runs.load(Ordering::SeqCst)), "{runs:?} runs");
    }

    #[tokio::test]
    async fn a_run_that_breaks_off_strands_nobody() {
        let line = Arc::new(Together::<usize, usize>::default());
        let broken = |_: Vec<usize>| async { panic!("planted") };
        assert_eq!(line.join(1, broken).await, None);
        assert_eq!(line.join(2, |items| async { items }).await, Some(2));
    }
}
