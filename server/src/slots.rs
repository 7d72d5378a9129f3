//! A list of who is there, walked in chunks while others come and leave: numbered places that stay put, reused when
//! free. The hub of an event keeps its viewers so, the door its sessions.

use parking_lot::Mutex;

/// A long list grows by so many places, not to twice its size: empty places cost as much as full ones.
const GROWTH: usize = 1_024;

/// A place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

/// The list. Locks are held for a few hundred copies at most, never while a member is served.
#[derive(Debug)]
pub struct Slots<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    members: Vec<Option<T>>,
    free: Vec<u32>,
    is_closed: bool,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { inner: Mutex::new(Inner { members: Vec::new(), free: Vec::new(), is_closed: false }) }
    }
}

impl<T: Clone> Slots<T> {
    /// Adds a member; `None` once the list is closed.
    pub fn join(&self, member: T) -> Option<Slot> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return None;
        }
        let slot = inner.free.pop().unwrap_or_else(|| {
            if inner.members.len() == inner.members.capacity() {
                let more = inner.members.len().clamp(1, GROWTH);
                inner.members.reserve_exact(more);
            }
            inner.members.push(None);
            // As many as sockets, so far below a u32.
            (inner.members.len() - 1) as u32
        });
        inner.members[slot as usize] = Some(member);
        Some(Slot(slot))
    }

    /// Removes a member.
    pub fn leave(&self, slot: Slot) {
        let mut inner = self.inner.lock();
        let gone = inner.members.get_mut(slot.0 as usize).and_then(Option::take);
        if gone.is_some() {
            inner.free.push(slot.0);
        }
        if inner.free.len() == inner.members.len() {
            inner.free = Vec::new();
            inner.members = Vec::new();
        }
        drop(inner);
        // Whoever it was may lock other things when it goes.
        drop(gone);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        let inner = self.inner.lock();
        inner.members.len() - inner.free.len()
    }

    /// Places to walk over; some may be free.
    #[must_use]
    pub fn place_count(&self) -> usize {
        self.inner.lock().members.len()
    }

    /// Appends the members between two places to `out`.
    pub fn copy(&self, places: std::ops::Range<usize>, out: &mut Vec<T>) {
        let inner = self.inner.lock();
        let end = places.end.min(inner.members.len());
        if let Some(members) = inner.members.get(places.start..end) {
            out.extend(members.iter().flatten().cloned());
        }
    }

    /// Closes an empty list for good; `false` when somebody is there.
    pub fn close_if_empty(&self) -> bool {
        let mut inner = self.inner.lock();
        let is_empty = inner.members.len() == inner.free.len();
        inner.is_closed |= is_empty;
        is_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused_and_the_rest_stay_put() {
        let slots = Slots::default();
        let places: Vec<Slot> = (0..5).map(|member| slots.join(member).expect("open")).collect();
        slots.leave(places[1]);
        slots.leave(places[1]);
        slots.leave(places[3]);
        let mut seen = Vec::new();
        slots.copy(0..10, &mut seen);
        assert_eq!((seen, slots.count()), (vec![0, 2, 4], 3));
        assert_eq!(slots.join(9), Some(places[3]));
        assert_eq!(slots.place_count(), 5);
    }

    #[test]
    fn only_an_empty_list_closes() {
        let slots = Slots::default();
        let slot = slots.join(1).expect("open");
        assert!(!slots.close_if_empty());
        slots.leave(slot);
        assert!(slots.close_if_empty());
        assert_eq!(slots.join(2), None);
    }
}
