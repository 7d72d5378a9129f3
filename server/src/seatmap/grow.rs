//! A live event changes while people look: newer facts, and a plan that grew. Every viewer hears of new seats exactly once,
//! behind the reply that spoke of the plan before, and before the first frame that can name one. `tell_changes` brings newer
//! facts, sockets come in to join.

use super::hub::{Delivery, Viewer};
use super::live::LiveEvent;
use super::snapshot::SnapshotCache;
use crate::catalogue::EventFacts;
use crate::slots::Slot;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use seatwire_proto::server::Push;
use std::collections::HashMap;
use std::sync::Arc;

/// Whether something changed that only the event's page shows: limits, times, texts, how sections sell. What is on the map or has a push of its own
/// makes nobody read the page.
fn is_page_changed(before: &EventFacts, now: &EventFacts) -> bool {
    before.rules != now.rules
        || before.page != now.page
        || (before.presale_ms, before.on_sale_ms) != (now.presale_ms, now.on_sale_ms)
        || (before.has_waitlist, before.has_waiting_room) != (now.has_waitlist, now.has_waiting_room)
        || before.sections.iter().zip(&now.sections).any(|(before, now)| before.sales_mode != now.sales_mode)
}

/// Viewers by their address.
type Newcomers = HashMap<usize, Arc<dyn Viewer>>;

/// What keeps a plan from growing while somebody subscribes.
#[derive(Default)]
pub(super) struct Growth {
    /// Held by whoever subscribes, until the reply is written; alone by a plan that grows.
    entry: RwLock<()>,
    /// While viewers are told of a plan that will grow: those who subscribed since that began. Their replies speak of the
    /// plan before.
    newcomers: Mutex<Option<Newcomers>>,
    refreshing: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Growth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Growth").finish_non_exhaustive()
    }
}

fn address(viewer: &dyn Viewer) -> usize {
    std::ptr::from_ref(viewer).cast::<()>() as usize
}

impl LiveEvent {
    /// Keep it from before a subscription begins until its reply is written.
    pub fn entering(&self) -> RwLockReadGuard<'_, ()> {
        self.growth.entry.read()
    }

    /// Adds a viewer; `None` when the event is being put away and must be looked up again.
    pub fn join(&self, viewer: Arc<dyn Viewer>) -> Option<Slot> {
        self.rejoin(&viewer);
        let slot = self.hub.join(viewer);
        // Beacons begin with the first viewer.
        self.nudge.notify_one();
        slot
    }

    /// A viewer that is there subscribes again.
    pub fn rejoin(&self, viewer: &Arc<dyn Viewer>) {
        if let Some(newcomers) = &mut *self.growth.newcomers.lock() {
            newcomers.insert(address(&**viewer), Arc::clone(viewer));
        }
    }

    /// Replaces the facts by newer ones and tells everyone who looks what that means for them.
    pub async fn refresh_facts(&self, facts: Arc<EventFacts>) {
        let _one_at_a_time = self.growth.refreshing.lock().await;
        let before = self.facts();
        if before.rank() >= facts.rank() {
            return;
        }
        if facts.layout == before.layout {
            *self.facts.lock() = Arc::clone(&facts);
        } else {
            self.grow(&facts).await;
            self.suspect();
        }
        if facts.price_tiers != before.price_tiers {
            self.push(&Push::PriceChange { event: self.id(), price_tiers: facts.price_tiers.clone() }).await;
        }
        // Limits and times have no push of their own: the state is said again, and whoever hears it reads the event anew.
        if facts.state != before.state || facts.state_reason != before.state_reason || is_page_changed(&before, &facts)
        {
            let reason = facts.state_reason.clone();
            self.push(&Push::EventState { event: self.id(), state: facts.state, reason }).await;
        }
    }

    /// Tells those who are there, then, with nobody about to subscribe, those who came meanwhile, and grows in that moment.
    async fn grow(&self, facts: &Arc<EventFacts>) {
        let layout = facts.layout.clone();
        let push = Push::LayoutChange { event: self.id(), layout, seat_count: facts.seat_count() };
        let text = crate::sender::framed(&push);
        {
            let _nobody_enters = self.growth.entry.write();
            *self.growth.newcomers.lock() = Some(Newcomers::new());
        }
        if let Some(text) = &text {
            self.hub
                .each(|viewer| {
                    let newcomers = self.growth.newcomers.lock();
                    let is_newcomer = newcomers.as_ref().is_some_and(|known| known.contains_key(&address(viewer)));
                    drop(newcomers);
                    if is_newcomer {
                        return Delivery::Skipped;
                    }
                    viewer.notice(text);
                    Delivery::Sent
                })
                .await;
        }
        let _nobody_enters = self.growth.entry.write();
        let newcomers = self.growth.newcomers.lock().take().unwrap_or_default();
        for viewer in newcomers.values() {
            text.iter().for_each(|text| viewer.notice(text));
        }
        *self.facts.lock() = Arc::clone(facts);
        self.core.lock().board.grow(facts);
        // What is kept speaks of fewer seats.
        *self.snapshots.lock() = SnapshotCache::default();
    }

    async fn push(&self, push: &Push) {
        if let Some(text) = crate::sender::framed(push) {
            self.notify_all(&text).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::Board;
    use super::super::candidates::tests::event;
    use super::super::hub::MapFrame;
    use super::*;
    use crate::clock::Clock;
    use crate::inventory::MapState;
    use bytes::Bytes;
    use seatwire_proto::server::OrphanRule;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    /// Counts what it is told; on the first word somebody else subscribes.
    struct Listener {
        told: AtomicUsize,
        brings: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    }

    impl Listener {
        fn new() -> Arc<Self> {
            Arc::new(Self { told: AtomicUsize::new(0), brings: Mutex::default() })
        }

        fn told(&self) -> usize {
            self.told.load(Ordering::Relaxed)
        }
    }

    impl Viewer for Listener {
        fn deliver(&self, _: &MapFrame) -> Delivery {
            Delivery::Sent
        }

        fn restart(&self, _: u32) {}

        fn notice(&self, _: &Bytes) {
            self.told.fetch_add(1, Ordering::Relaxed);
            if let Some(bring) = self.brings.lock().take() {
                bring();
            }
        }
    }

    #[tokio::test]
    async fn each_viewer_hears_once_of_new_seats_also_who_comes_while_others_are_told() {
        let facts = Arc::new(event(vec![0; 4], OrphanRule::Off));
        let map = MapState { epoch: 1, seq: 0, server_ms: 0, states: vec![0; 4], areas: vec![] };
        let board = Board::new(&facts, &map, 0).expect("states that are states");
        let live = LiveEvent::new(Arc::clone(&facts), 1, Clock::system(), board, Arc::new(Notify::new()));
        let live = Arc::new(live);
        let join = |listener: &Arc<Listener>| {
            let _entering = live.entering();
            live.join(Arc::clone(listener) as Arc<dyn Viewer>).expect("open")
        };
        let first: Vec<Arc<Listener>> = (0..300).map(|_| Listener::new()).collect();
        for listener in &first {
            join(listener);
        }
        let (late, again) = (Listener::new(), Arc::clone(&first[7]));
        let brings: Arc<dyn Fn() + Send + Sync> = {
            let (live, late) = (Arc::clone(&live), Arc::clone(&late));
            Arc::new(move || {
                let _entering = live.entering();
                live.join(Arc::clone(&late) as Arc<dyn Viewer>).expect("open");
                assert_eq!(live.subscribe_reply(false).seat_count, 4);
                live.rejoin(&(Arc::clone(&again) as Arc<dyn Viewer>));
            })
        };
        *first[0].brings.lock() = Some(brings);
        let mut grown = EventFacts::clone(&facts);
        grown.revision += 1;
        grown.layout = "longer".into();
        grown.seat_tiers.extend([0; 2]);
        live.refresh_facts(Arc::new(grown)).await;
        for (at, listener) in first.iter().enumerate() {
            assert_eq!(listener.told(), 1, "{at}");
        }
        assert_eq!(late.told(), 1);
        let after = Listener::new();
        join(&after);
        assert_eq!((after.told(), live.subscribe_reply(false).seat_count), (0, 6));

        // Limits, times and texts are told, also together with what is seen on the map; that alone is not.
        let mut changed = EventFacts::clone(&live.facts());
        type Change = fn(&mut EventFacts);
        let changes: [(Change, usize); 5] = [
            (|facts| facts.rules.seats_per_identity += 1, 1),
            (|facts| facts.blocked = [3].into_iter().collect(), 1),
            (|facts| (facts.page, facts.blocked) = (7, [4].into_iter().collect()), 2),
            (|facts| facts.on_sale_ms += 1, 3),
            (|facts| facts.seats_per_instrument = Some(3), 3),
        ];
        for (at, (change, told)) in changes.into_iter().enumerate() {
            changed.revision += 1;
            change(&mut changed);
            live.refresh_facts(Arc::new(changed.clone())).await;
            assert_eq!(after.told(), told, "change {at}");
        }
    }
}
