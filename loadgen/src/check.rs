//! Was any seat in two hands? Every buyer's answers go into one log; because (epoch, seq) orders all changes of an
//! event, the log is sorted and replayed against a plain model of one owner a seat, then compared with what the server
//! says at the end. `coordinator` fills the log, `report` prints the findings; any finding ends the run with 97.

use seatwire_proto::id::OrderId;
use seatwire_proto::seat::SeatIndex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How much earlier than its stated end a hold may have ended by our clock: rounding to whole milliseconds, both ways.
const END_SLACK_US: u64 = 50_000;
/// Findings told one by one; the rest are counted.
const MAX_FINDINGS_TOLD: usize = 50;

/// Which buyer's identity, counted over the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Who(pub(crate) u32);

/// What a buyer learned. Times are microseconds of the run: first sending of the command, reading of the reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// These seats are mine.
    Won { who: Who, seats: Vec<SeatIndex>, epoch: u32, seq: u64, sent_us: u64, reply_us: u64, ends_us: u64 },
    /// These are no longer.
    Freed { who: Who, seats: Vec<SeatIndex>, epoch: u32, seq: u64, sent_us: u64, reply_us: u64 },
    /// Paid for.
    Sold { who: Who, order: OrderId, seats: Vec<SeatIndex>, sent_us: u64, reply_us: u64 },
    /// A command about these seats was never answered: from then on nothing is known of them.
    Unknown { who: Who, seats: Vec<SeatIndex> },
}

/// What must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Finding {
    /// Won by one while another's hold was still good, or after it was paid for.
    TwoOwners { seat: SeatIndex, first: Who, second: Who, epoch: u32, seq: u64 },
    /// Two paid orders name the seat.
    SoldTwice { seat: SeatIndex, first: OrderId, second: OrderId },
    /// Won though the map said sold before the run.
    WonSold { seat: SeatIndex, who: Who, epoch: u32, seq: u64 },
    /// Paid for with us, and the map at the end does not say sold.
    NotShownSold { seat: SeatIndex, order: OrderId },
    /// The buyer was told paid, and the list of orders does not say so.
    OrderMissing { order: OrderId },
    /// The order at the end names other seats or another total than the buyer was told.
    OrderDiffers { order: OrderId },
    /// A change with a lower seq began after one with a higher seq was answered.
    OrderOfTime { epoch: u32, seq: u64, after_seq: u64 },
}

impl Finding {
    /// Whether it means that a seat had two owners.
    pub(crate) const fn is_oversell(&self) -> bool {
        matches!(self, Self::TwoOwners { .. } | Self::SoldTwice { .. } | Self::WonSold { .. })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TwoOwners { seat, first, second, epoch, seq } => write!(
                f,
                "seat {seat} was won by buyer {} at epoch {epoch} seq {seq} while it belonged to buyer {}",
                second.0, first.0
            ),
            Self::SoldTwice { seat, first, second } => {
                write!(f, "seat {seat} is in two paid orders: {first}, {second}")
            }
            Self::WonSold { seat, who, epoch, seq } => {
                write!(f, "seat {seat} was sold before the run and won by buyer {} at epoch {epoch} seq {seq}", who.0)
            }
            Self::NotShownSold { seat, order } => {
                write!(f, "seat {seat} of paid order {order} is not sold on the map at the end")
            }
            Self::OrderMissing { order } => {
                write!(f, "order {order} was paid and is not among its buyer's paid orders")
            }
            Self::OrderDiffers { order } => {
                write!(f, "order {order} names other seats at the end than when it was paid")
            }
            Self::OrderOfTime { epoch, seq, after_seq } => {
                write!(f, "epoch {epoch}: the change {after_seq} was answered before the change {seq} was asked for")
            }
        }
    }
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// The first ones.
    pub(crate) told: Vec<Finding>,
    pub(crate) count: u64,
    pub(crate) oversells: u64,
}

impl Findings {
    fn add(&mut self, finding: Finding) {
        self.count += 1;
        self.oversells += u64::from(finding.is_oversell());
        if self.told.len() < MAX_FINDINGS_TOLD {
            self.told.push(finding);
        }
    }
}

/// A paid order as the server lists it at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PaidOrder {
    pub(crate) who: Who,
    pub(crate) order: OrderId,
    pub(crate) seats: Vec<SeatIndex>,
}

#[derive(Debug, Clone, Copy)]
struct Owner {
    who: Who,
    ends_us: u64,
    epoch: u32,
    is_certain: bool,
}

/// Replays the log. `sold_before` is the map's word of each seat before the first arrival (2 = sold).
pub(crate) fn replay(log: &[Entry], sold_before: &[u8]) -> Findings {
    let mut findings = Findings::default();
    let mut sold: HashMap<(Who, SeatIndex), OrderId> = HashMap::new();
    let mut orders: HashMap<SeatIndex, OrderId> = HashMap::new();
    let mut unknown: HashMap<(Who, SeatIndex), ()> = HashMap::new();
    let mut changes: Vec<&Entry> = Vec::with_capacity(log.len());
    for entry in log {
        match entry {
            Entry::Won { .. } | Entry::Freed { .. } => changes.push(entry),
            Entry::Sold { who, order, seats, .. } => {
                for seat in seats {
                    sold.insert((*who, *seat), *order);
                    if let Some(first) = orders.insert(*seat, *order).filter(|first| first != order) {
                        findings.add(Finding::SoldTwice { seat: *seat, first, second: *order });
                    }
                }
            }
            Entry::Unknown { who, seats } => unknown.extend(seats.iter().map(|seat| ((*who, *seat), ()))),
        }
    }
    changes.sort_by_key(|entry| place(entry));
    let mut owners: HashMap<SeatIndex, Owner> = HashMap::new();
    let mut latest_sent: (u64, u64, u32) = (0, 0, 0);
    for entry in changes {
        check_time(entry, &mut latest_sent, &mut findings);
        match entry {
            Entry::Won { who, seats, epoch, seq, reply_us, ends_us, .. } => {
                for seat in seats {
                    if sold_before.get(seat.position()) == Some(&2) {
                        findings.add(Finding::WonSold { seat: *seat, who: *who, epoch: *epoch, seq: *seq });
                    }
                    let is_certain = !unknown.contains_key(&(*who, *seat));
                    let owner = Owner { who: *who, ends_us: *ends_us, epoch: *epoch, is_certain };
                    let Some(before) = owners.insert(*seat, owner).filter(|before| before.who != *who) else {
                        continue;
                    };
                    let was_sold = sold.contains_key(&(before.who, *seat));
                    let may_have_ended =
                        !before.is_certain || before.epoch != *epoch || *reply_us + END_SLACK_US >= before.ends_us;
                    if was_sold || !may_have_ended {
                        findings.add(Finding::TwoOwners {
                            seat: *seat,
                            first: before.who,
                            second: *who,
                            epoch: *epoch,
                            seq: *seq,
                        });
                    }
                }
            }
            Entry::Freed { who, seats, .. } => {
                for seat in seats {
                    if owners.get(seat).is_some_and(|owner| owner.who == *who) {
                        owners.remove(seat);
                    }
                }
            }
            Entry::Sold { .. } | Entry::Unknown { .. } => {}
        }
    }
    findings
}

fn place(entry: &Entry) -> (u32, u64) {
    match entry {
        Entry::Won { epoch, seq, .. } | Entry::Freed { epoch, seq, .. } => (*epoch, *seq),
        Entry::Sold { .. } | Entry::Unknown { .. } => (0, 0),
    }
}

/// In the order of seq, no change may have been answered before an earlier one was asked for.
fn check_time(entry: &Entry, latest_sent: &mut (u64, u64, u32), findings: &mut Findings) {
    let (Entry::Won { epoch, seq, sent_us, reply_us, .. } | Entry::Freed { epoch, seq, sent_us, reply_us, .. }) = entry
    else {
        return;
    };
    let (latest_us, latest_seq, latest_epoch) = *latest_sent;
    if latest_epoch == *epoch && latest_seq < *seq && latest_us > *reply_us {
        findings.add(Finding::OrderOfTime { epoch: *epoch, seq: latest_seq, after_seq: *seq });
    }
    if latest_epoch != *epoch || *sent_us > latest_us {
        *latest_sent = (*sent_us, *seq, *epoch);
    }
}

/// Compares the log with the server's last word: the map (one state a seat) and the paid orders of every buyer.
pub(crate) fn compare(log: &[Entry], states_after: &[u8], paid: &[PaidOrder], findings: &mut Findings) {
    let listed: HashMap<OrderId, &PaidOrder> = paid.iter().map(|order| (order.order, order)).collect();
    let mut orders: HashMap<SeatIndex, OrderId> = HashMap::new();
    for order in paid {
        for seat in &order.seats {
            if let Some(first) = orders.insert(*seat, order.order).filter(|first| *first != order.order) {
                findings.add(Finding::SoldTwice { seat: *seat, first, second: order.order });
            }
        }
    }
    for entry in log {
        let Entry::Sold { who, order, seats, .. } = entry else { continue };
        match listed.get(order) {
            None => findings.add(Finding::OrderMissing { order: *order }),
            Some(listed) if listed.who != *who || !same_seats(&listed.seats, seats) => {
                findings.add(Finding::OrderDiffers { order: *order });
            }
            Some(_) => {}
        }
    }
    for (seat, order) in not_shown(states_after, paid) {
        findings.add(Finding::NotShownSold { seat, order });
    }
}

/// Seats of paid orders that the map does not show as sold.
pub(crate) fn not_shown(states: &[u8], paid: &[PaidOrder]) -> Vec<(SeatIndex, OrderId)> {
    paid.iter()
        .flat_map(|order| order.seats.iter().map(|seat| (*seat, order.order)))
        .filter(|(seat, _)| states.get(seat.position()) != Some(&2))
        .collect()
}

fn same_seats(a: &[SeatIndex], b: &[SeatIndex]) -> bool {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    b.sort_unstable();
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_US: u64 = 600_000_000;

    fn won(who: u32, seats: &[u32], seq: u64, at_us: u64) -> Entry {
        let seats = seats.iter().map(|seat| SeatIndex(*seat)).collect();
        Entry::Won {
            who: Who(who),
            seats,
            epoch: 1,
            seq,
            sent_us: at_us,
            reply_us: at_us + 10,
            ends_us: at_us + LONG_US,
        }
    }

    fn freed(who: u32, seats: &[u32], seq: u64, at_us: u64) -> Entry {
        let seats = seats.iter().map(|seat| SeatIndex(*seat)).collect();
        Entry::Freed { who: Who(who), seats, epoch: 1, seq, sent_us: at_us, reply_us: at_us + 10 }
    }

    fn sold(who: u32, order: OrderId, seats: &[u32]) -> Entry {
        let seats = seats.iter().map(|seat| SeatIndex(*seat)).collect();
        Entry::Sold { who: Who(who), order, seats, sent_us: 0, reply_us: 0 }
    }

    #[test]
    fn an_honest_run_has_no_findings() {
        let order = OrderId::generate();
        let log = [
            won(2, &[5, 6], 12, 500),
            won(1, &[5, 6], 10, 100),
            freed(1, &[5, 6], 11, 300),
            sold(2, order, &[5, 6]),
            won(3, &[7], 13, 700),
        ];
        let mut findings = replay(&log, &[0; 10]);
        let paid = [PaidOrder { who: Who(2), order, seats: vec![SeatIndex(6), SeatIndex(5)] }];
        compare(&log, &[0, 0, 0, 0, 0, 2, 2, 1, 0, 0], &paid, &mut findings);
        assert_eq!(findings, Findings::default());
    }

    #[test]
    fn a_seat_won_while_another_holds_it_is_an_oversell() {
        let findings = replay(&[won(1, &[5], 10, 100), won(2, &[4, 5], 11, 200)], &[]);
        assert_eq!(
            findings.told,
            [Finding::TwoOwners { seat: SeatIndex(5), first: Who(1), second: Who(2), epoch: 1, seq: 11 }]
        );
        assert_eq!(findings.oversells, 1);
    }

    #[test]
    fn a_hold_that_ended_may_be_followed_by_another_but_not_when_it_was_paid() {
        let late = won(2, &[5], 11, 100 + LONG_US);
        assert_eq!(replay(&[won(1, &[5], 10, 100), late.clone()], &[]).count, 0);
        let log = [won(1, &[5], 10, 100), sold(1, OrderId::generate(), &[5]), late];
        assert_eq!(replay(&log, &[]).oversells, 1);
    }

    #[test]
    fn what_was_never_answered_proves_nothing() {
        let unknown = Entry::Unknown { who: Who(1), seats: vec![SeatIndex(5)] };
        assert_eq!(replay(&[won(1, &[5], 10, 100), unknown, won(2, &[5], 11, 200)], &[]).count, 0);
    }

    #[test]
    fn one_seat_in_two_paid_orders_is_an_oversell_in_the_log_and_in_the_lists() {
        let (a, b) = (OrderId::generate(), OrderId::generate());
        assert_eq!(replay(&[sold(1, a, &[5]), sold(2, b, &[5])], &[]).oversells, 1);
        let paid = |who, order| PaidOrder { who: Who(who), order, seats: vec![SeatIndex(5)] };
        let mut findings = Findings::default();
        compare(&[], &[2; 6], &[paid(1, a), paid(2, b)], &mut findings);
        assert_eq!(findings.oversells, 1);
    }

    #[test]
    fn a_seat_sold_before_the_run_cannot_be_won() {
        assert_eq!(replay(&[won(1, &[1], 10, 100)], &[0, 2]).oversells, 1);
    }

    #[test]
    fn a_paid_order_must_be_listed_alike_and_shown() {
        let order = OrderId::generate();
        let log = [sold(1, order, &[0])];
        let check = |states: &[u8], paid: &[PaidOrder]| {
            let mut findings = Findings::default();
            compare(&log, states, paid, &mut findings);
            findings.told
        };
        let listed = PaidOrder { who: Who(1), order, seats: vec![SeatIndex(0)] };
        assert_eq!(check(&[2], &[]), [Finding::OrderMissing { order }]);
        assert_eq!(check(&[1], std::slice::from_ref(&listed)), [Finding::NotShownSold { seat: SeatIndex(0), order }]);
        let other = PaidOrder { seats: vec![], ..listed };
        assert_eq!(check(&[2], &[other]), [Finding::OrderDiffers { order }]);
    }

    #[test]
    fn seq_must_agree_with_time() {
        // Asked for at 500, though the change behind it in seq was answered at 110.
        let findings = replay(&[won(1, &[1], 10, 500), won(2, &[2], 11, 100)], &[]);
        assert_eq!(findings.told, [Finding::OrderOfTime { epoch: 1, seq: 10, after_seq: 11 }]);
        assert_eq!(findings.oversells, 0);
    }
}
