//! Carries pushes to the sockets of other nodes. Every node hears every batch and throws away what is for nobody here: at
//! ten thousand pushes a second a batch costs Redis and the nodes a fraction of what a message and a channel an identity do.
//! A batch goes as soon as the one before it is published, so a lone push waits for nothing.
//!
//! A batch: the node's number (u64), then per push (none in an announcement) the identity (16 bytes); what it says: 0 = nothing with a place, 1 = a
//! hold's change, 2 = its end, 3 = an order that waits for its payment, 4 = one that is final, 5 = a hold's loss (u8); the
//! hold or order (16 bytes), epoch (u32) and seq (u64) of a hold (0: not known), or 0 and the number of an order's change; the frame's
//! length (u32) and the frame. Little endian.

use super::company::{ANNOUNCE_EVERY, Company, Rounds};
use super::{Change, Publisher};
use crate::subscriber::{Subscriber, SubscriberError};
use bytes::{BufMut, Bytes, BytesMut};
use seatwire_proto::client::Position;
use seatwire_proto::id::{HoldId, IdentityId, OrderId};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;

/// Pushes that wait on a channel; when Redis stalls further ones reach this node's sockets only.
const MAX_WAITING: usize = 10_000;
/// Most pushes in a batch.
const MAX_BATCH: usize = 256;
/// A batch that has grown to so many bytes goes as it is, far below what would hold up Redis' other clients or have them
/// cut off; what is left goes behind it.
const MAX_BATCH_BYTES: usize = 64 << 10;
/// Channels in a cluster: so that the death of one master silences an eighth of the identities, not all.
const CLUSTER_CHANNELS: u64 = 8;

const NODE_LEN: usize = size_of::<u64>();
const ENTRY_HEAD_LEN: usize = 16 + 1 + 16 + 4 + 8 + size_of::<u32>();

/// What a push says.
const NOTHING: u8 = 0;
const HOLD: u8 = 1;
const HOLD_END: u8 = 2;
const ORDER_OPEN: u8 = 3;
const ORDER_FINAL: u8 = 4;
const HOLD_LOSS: u8 = 5;

/// A push on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parcel {
    identity: IdentityId,
    change: Option<Change>,
    frame: Bytes,
}

pub(super) struct Courier {
    channels: Vec<mpsc::Sender<Parcel>>,
    company: Arc<Company>,
    publisher: Arc<Publisher>,
    /// Kept, since it listens as long as it lives.
    _subscriber: Subscriber,
}

impl Courier {
    /// Listens to the channels, tells the other nodes so, and begins to publish.
    pub(super) async fn start(
        publisher: &Arc<Publisher>,
        subscriber: Subscriber,
        company: Arc<Company>,
    ) -> Result<Self, SubscriberError> {
        let count = if publisher.is_cluster() { CLUSTER_CHANNELS } else { 1 };
        let names: Vec<String> = (0..count).map(channel_name).collect();
        let mut channels = Vec::new();
        for name in &names {
            if let Err(error) = subscriber.subscribe(name).await {
                if count == 1 {
                    return Err(error);
                }
                // Its master is away; the subscriber follows the channel by itself.
                tracing::warn!(%error, name, "pushes to some identities cannot be heard yet");
            }
            let (send, waiting) = mpsc::channel(MAX_WAITING);
            tokio::spawn(publish(Arc::clone(publisher), name.clone(), company.node(), waiting));
            channels.push(send);
        }
        let mut rounds = Rounds::default();
        company.announced(&mut rounds, announce(publisher, &names, company.node()).await);
        tokio::spawn(keep_announcing(Arc::downgrade(publisher), names, Arc::clone(&company), rounds));
        Ok(Self { channels, company, publisher: Arc::clone(publisher), _subscriber: subscriber })
    }

    /// Has a framed push told to the identity's sockets of other nodes, if there are any.
    pub(super) fn carry(&self, identity: IdentityId, change: Option<Change>, frame: &Bytes) {
        if !self.company.is_there() {
            return;
        }
        let channel = &self.channels[channel_of(identity, self.channels.len() as u64) as usize];
        if channel.try_send(Parcel { identity, change, frame: frame.clone() }).is_err() {
            self.publisher.metrics().pushes_dropped.inc();
            tracing::debug!(%identity, "too many pushes wait for Redis; one is told on this node only");
        }
    }
}

/// Says on every channel that this node listens; the most that heard it on one, `None` when one could not be asked.
async fn announce(publisher: &Publisher, channels: &[String], node: u64) -> Option<u64> {
    let word = pack(node, &[]);
    let said = channels.iter().map(|channel| publisher.publish(channel, &word));
    futures_util::future::join_all(said).await.into_iter().try_fold(0, |most, count| Some(count?.max(most)))
}

/// Until the courier is gone.
async fn keep_announcing(publisher: Weak<Publisher>, channels: Vec<String>, company: Arc<Company>, mut rounds: Rounds) {
    loop {
        tokio::time::sleep(ANNOUNCE_EVERY).await;
        let Some(publisher) = publisher.upgrade() else { return };
        company.announced(&mut rounds, announce(&publisher, &channels, company.node()).await);
    }
}

/// Reads a batch that another node packed, and notes that there is one; returns how many bytes at its end make no push.
pub(super) fn unpack(
    company: &Company,
    batch: &[u8],
    mut tell: impl FnMut(IdentityId, Option<Change>, &[u8]),
) -> usize {
    let Some((packer, mut rest)) = batch.split_first_chunk::<NODE_LEN>() else { return batch.len() };
    if u64::from_le_bytes(*packer) == company.node() {
        return 0;
    }
    company.heard();
    while let Some(((identity, change, frame), behind)) = split_entry(rest) {
        tell(identity, change, frame);
        rest = behind;
    }
    rest.len()
}

/// A push as it lies in a batch.
type Entry<'a> = (IdentityId, Option<Change>, &'a [u8]);

fn split_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (identity, rest) = bytes.split_first_chunk::<16>()?;
    let (&[says], rest) = rest.split_first_chunk::<1>()?;
    let (what, rest) = rest.split_first_chunk::<16>()?;
    let (epoch, rest) = rest.split_first_chunk::<4>()?;
    let (seq, rest) = rest.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (frame, behind) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let (what, seq) = (uuid::Uuid::from_bytes(*what), u64::from_le_bytes(*seq));
    let hold = HoldId::from_uuid(what);
    let of_order = |is_final| Change::Order { order: OrderId::from_uuid(what), at: seq, is_final };
    let at = Position { epoch: u32::from_le_bytes(*epoch), seq };
    let change = match says {
        HOLD => Some(Change::Hold { hold, at }),
        // Lives are counted from 1.
        HOLD_END => Some(Change::HoldEnd { hold, at: (at.epoch > 0).then_some(at) }),
        HOLD_LOSS => Some(Change::HoldLoss { hold }),
        ORDER_OPEN => Some(of_order(false)),
        ORDER_FINAL => Some(of_order(true)),
        _ => None,
    };
    Some(((IdentityId::from_uuid(uuid::Uuid::from_bytes(*identity)), change, frame), behind))
}

async fn publish(publisher: Arc<Publisher>, channel: String, node: u64, mut waiting: mpsc::Receiver<Parcel>) {
    let mut pushes = Vec::with_capacity(MAX_BATCH);
    while waiting.recv_many(&mut pushes, MAX_BATCH).await > 0 {
        for batch in cut(&pushes) {
            publisher.publish(&channel, &pack(node, batch)).await;
        }
        pushes.clear();
    }
}

/// In order, as many to a batch as its bytes allow, but at least one.
fn cut(pushes: &[Parcel]) -> impl Iterator<Item = &[Parcel]> {
    let mut bytes = 0;
    pushes.chunk_by(move |before, next| {
        bytes += before.frame.len();
        let fits = bytes + next.frame.len() <= MAX_BATCH_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

fn pack(node: u64, parcels: &[Parcel]) -> Bytes {
    let len = parcels.iter().map(|parcel| ENTRY_HEAD_LEN + parcel.frame.len()).sum::<usize>();
    let mut batch = BytesMut::with_capacity(NODE_LEN + len);
    batch.put_u64_le(node);
    for Parcel { identity, change, frame } in parcels {
        batch.put_slice(identity.uuid().as_bytes());
        let (says, what, epoch, seq) = match *change {
            None => (NOTHING, uuid::Uuid::nil(), 0, 0),
            Some(Change::Hold { hold, at }) => (HOLD, hold.uuid(), at.epoch, at.seq),
            Some(Change::HoldEnd { hold, at }) => {
                (HOLD_END, hold.uuid(), at.map_or(0, |at| at.epoch), at.map_or(0, |at| at.seq))
            }
            Some(Change::HoldLoss { hold }) => (HOLD_LOSS, hold.uuid(), 0, 0),
            Some(Change::Order { order, at, is_final }) => {
                (if is_final { ORDER_FINAL } else { ORDER_OPEN }, order.uuid(), 0, at)
            }
        };
        batch.put_u8(says);
        batch.put_slice(what.as_bytes());
        batch.put_u32_le(epoch);
        batch.put_u64_le(seq);
        batch.put_u32_le(u32::try_from(frame.len()).expect("a push is far below 4 GB"));
        batch.put_slice(frame);
    }
    batch.freeze()
}

fn channel_of(identity: IdentityId, count: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    identity.uuid().hash(&mut hasher);
    hasher.finish() % count
}

fn channel_name(number: u64) -> String {
    format!("seatwire:push:{number}")
}

/// Where pushes to an identity travel in a cluster.
#[must_use]
pub fn cluster_channel(identity: IdentityId) -> String {
    channel_name(channel_of(identity, CLUSTER_CHANNELS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(change: Option<Change>, frame: impl Into<Bytes>) -> Parcel {
        Parcel { identity: IdentityId::generate(), change, frame: frame.into() }
    }

    fn read(node: u64, batch: &[u8]) -> (Vec<Parcel>, usize) {
        let mut parcels = Vec::new();
        let company = Company::new(node, Arc::default());
        let unread = unpack(&company, batch, |identity, change, frame| {
            parcels.push(Parcel { identity, change, frame: Bytes::copy_from_slice(frame) });
        });
        (parcels, unread)
    }

    #[test]
    fn a_batch_is_read_as_it_was_packed_but_by_its_own_node() {
        let (hold, order) = (HoldId::generate(), OrderId::generate());
        let at = Position { epoch: 3, seq: 1 << 40 };
        let parcels = vec![
            parcel(None, "one"),
            parcel(Some(Change::Hold { hold, at }), ""),
            parcel(Some(Change::HoldEnd { hold, at: None }), "three"),
            parcel(Some(Change::HoldEnd { hold, at: Some(at) }), "three at"),
            parcel(Some(Change::HoldLoss { hold }), "lost"),
            parcel(Some(Change::Order { order, at: 1 << 50, is_final: false }), "four"),
            parcel(Some(Change::Order { order, at: 0, is_final: true }), "five"),
        ];
        let batch = pack(7, &parcels);
        assert_eq!(read(8, &batch), (parcels, 0));
        assert_eq!(read(7, &batch), (Vec::new(), 0));
    }

    #[test]
    fn large_pushes_go_in_several_batches_in_order() {
        let parcels: Vec<_> = [30, 30, 10, 100, 1, 2].map(|kb| parcel(None, vec![b'a'; kb << 10])).into();
        let lens: Vec<usize> = cut(&parcels).map(<[_]>::len).collect();
        assert_eq!(lens, [2, 1, 1, 2]);
        assert_eq!(cut(&parcels).flatten().count(), parcels.len());
        assert_eq!(cut(&[]).count(), 0);
    }

    #[test]
    fn what_was_cut_off_is_counted_and_what_stands_before_it_is_told() {
        let parcels = [parcel(None, "one"), parcel(None, "two")];
        let batch = pack(7, &parcels);
        for cut in 1..ENTRY_HEAD_LEN + 3 {
            assert_eq!(read(8, &batch[..batch.len() - cut]), (parcels[..1].to_vec(), ENTRY_HEAD_LEN + 3 - cut));
        }
        assert_eq!(read(8, &[1, 2, 3]), (Vec::new(), 3));
    }
}
