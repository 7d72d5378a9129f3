//! Commands of a session that are not answered yet: which of them run, and in what order the others do.

use seatwire_proto::client::{ClientMessage, Command};
use seatwire_proto::id::{EventId, HoldId, OrderId};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Commands of one session that run at once; further ones wait in order.
const MAX_RUNNING: usize = 2;

/// What commands of the same kind of thing wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Event(EventId),
    Hold(HoldId),
    Order(OrderId),
}

impl Target {
    pub(super) const fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Subscribe(c) => Some(Self::Event(c.event)),
            Command::Hold(c) => Some(Self::Event(c.event)),
            Command::HoldBest(c) => Some(Self::Event(c.event)),
            Command::HoldArea(c) => Some(Self::Event(c.event)),
            Command::Unlock(c) => Some(Self::Event(c.event)),
            Command::Admit(c) => Some(Self::Event(c.event)),
            Command::WaitlistJoin(c) | Command::WaitlistLeave(c) => Some(Self::Event(c.event)),
            Command::RoomWatch(c) | Command::RoomUnwatch(c) => Some(Self::Event(c.event)),
            Command::Extend(c) => Some(Self::Hold(c.hold)),
            Command::Release(c) => Some(Self::Hold(c.hold)),
            Command::Checkout(c) => Some(Self::Hold(c.hold)),
            Command::Pay(c) => Some(Self::Order(c.order)),
            Command::Cancel(c) => Some(Self::Order(c.order)),
            Command::Order(c) => Some(Self::Order(c.order)),
            Command::Hello(_) | Command::Ping(_) | Command::Unsubscribe(_) | Command::Resync(_) => None,
        }
    }
}

/// Commands that are not answered yet; boxed, since most sessions have none.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) running: SmallVec<[(u32, Option<Target>); MAX_RUNNING]>,
    pub(super) waiting: VecDeque<ClientMessage>,
}

impl Work {
    pub(super) fn has(&self, id: u32) -> bool {
        self.running.iter().any(|(running, _)| *running == id) || self.waiting.iter().any(|waiting| waiting.id == id)
    }

    /// The first that may run now: a place is free and nothing before it names the same thing.
    pub(super) fn next(&mut self) -> Option<ClientMessage> {
        if self.running.len() >= MAX_RUNNING {
            return None;
        }
        let is_free = |at: usize| {
            let target = Target::of(&self.waiting[at].command);
            target.is_none()
                || !(self.running.iter().any(|(_, running)| *running == target)
                    || self.waiting.range(..at).any(|before| Target::of(&before.command) == target))
        };
        let at = (0..self.waiting.len()).find(|at| is_free(*at))?;
        let message = self.waiting.remove(at)?;
        self.running.push((message.id, Target::of(&message.command)));
        Some(message)
    }
}
