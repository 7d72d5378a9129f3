//! A script ran and its reply was lost on the way: the caller is told that nobody knows, nothing is sent again by itself, and
//! the same key has the first answer.

use super::shelf::Shelf;
use crate::support::eventually;
use crate::support::redis::Redis;
use parking_lot::Mutex;
use seatwire::config::Config;
use seatwire::inventory::{HoldOutcome, Inventory, InventoryError};
use seatwire::metrics::Metrics;
use seatwire_proto::id::IdentityId;
use seatwire_proto::seat::AreaIndex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const NEEDLE_BYTES: usize = 16;

/// A road to Redis on which the reply to one call is lost, and its connection with it.
struct Road {
    url: String,
    /// The identity whose next call it is.
    whose: Arc<Mutex<Option<[u8; NEEDLE_BYTES]>>>,
}

impl Road {
    fn to(redis: &Redis) -> Self {
        let (here, there) = (redis.folder().join("road.sock"), redis.folder().join("redis.sock"));
        let listener = UnixListener::bind(&here).expect("binds");
        let whose = Arc::new(Mutex::new(None));
        let road = Self { url: format!("redis+unix://{}", here.display()), whose: Arc::clone(&whose) };
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = UnixStream::connect(&there).await else { continue };
                let whose = Arc::clone(&whose);
                tokio::spawn(async move { carry(near, far, &whose).await });
            }
        });
        road
    }

    fn lose_the_reply_to(&self, identity: IdentityId) {
        *self.whose.lock() = Some(*identity.uuid().as_bytes());
    }
}

async fn carry(near: UnixStream, far: UnixStream, whose: &Mutex<Option<[u8; NEEDLE_BYTES]>>) -> io::Result<()> {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let is_lost = AtomicBool::new(false);
    let asking = async {
        let (mut buffer, mut seen) = (vec![0; 64 << 10], Vec::new());
        loop {
            let n = from_near.read(&mut buffer).await?;
            if n == 0 {
                return Err::<(), _>(io::ErrorKind::UnexpectedEof.into());
            }
            to_far.write_all(&buffer[..n]).await?;
            seen.extend_from_slice(&buffer[..n]);
            let mut whose = whose.lock();
            if whose.is_some_and(|needle| seen.windows(NEEDLE_BYTES).any(|bytes| bytes == needle)) {
                *whose = None;
                is_lost.store(true, Ordering::Relaxed);
            }
            seen.drain(..seen.len().saturating_sub(NEEDLE_BYTES));
        }
    };
    let answering = async {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = from_far.read(&mut buffer).await?;
            if n == 0 || is_lost.load(Ordering::Relaxed) {
                return Err::<(), _>(io::ErrorKind::UnexpectedEof.into());
            }
            to_near.write_all(&buffer[..n]).await?;
        }
    };
    tokio::select! {
        ended = asking => ended,
        ended = answering => ended,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_reply_was_lost_is_not_made_again_but_by_its_key() {
    let shelf = Shelf::new().await;
    let road = Road::to(&shelf.redis);
    let config = Config::from_pairs([("SEATWIRE_REDIS_CONNECTIONS", "4")]).expect("fits").inventory;
    let node = Inventory::connect(&config, &road.url, shelf.store.clone(), Arc::new(Metrics::new())).await;
    let node = node.expect("Redis answers");
    eventually("the event to open", || async { node.read_map(&shelf.event).await.ok() }).await;
    let ann = IdentityId::generate();
    for turn in 1..=5_u32 {
        let ask = || node.hold_area(shelf.keyed(ann, &format!("k{turn}"), 1), AreaIndex(1), 1);
        road.lose_the_reply_to(ann);
        let lost = eventually("a call that goes out", || async {
            Some(ask().await).filter(|lost| !matches!(lost, Err(InventoryError::Unavailable(_))))
        })
        .await;
        eventually("the script to have run", || async { (shelf.areas().await[1] <= 100 - turn).then_some(()) }).await;
        // A connection that is being made anew refuses at once, and nothing was done.
        let again = eventually("the first answer", || async {
            match ask().await {
                Ok(answer) => Some(answer),
                Err(InventoryError::Unavailable(_) | InventoryError::TimeoutUnknown) => None,
                Err(error) => panic!("{error}"),
            }
        })
        .await;
        assert_eq!(shelf.areas().await, [5, 100 - turn], "one place for one key");
        assert!(again.is_replayed, "{again:?}");
        let HoldOutcome::Held { hold, .. } = again.outcome else { panic!("{:?}", again.outcome) };
        assert_eq!(hold.lines.iter().map(|line| line.quantity).sum::<u32>(), turn);
        assert!(matches!(lost, Err(InventoryError::TimeoutUnknown)), "nobody knows: {lost:?}");
    }
}
