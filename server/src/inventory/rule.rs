//! Rules about which seats go together: what a choice leaves beside it, and companion seats. `command` and
//! `seatmap::candidates` come in with a plan; the scripts get the neighbours and decide on the seats as they are.

use crate::catalogue::{EventFacts, Run, SeatShape};
use roaring::RoaringBitmap;
use seatwire_proto::seat::SeatIndex;
use seatwire_proto::server::OrphanRule;
use std::collections::BTreeMap;

/// In place of a seat beyond another: an aisle, a row's end, or a seat of the same choice.
const NOBODY: u32 = u32::MAX;
/// Most accessible seats named beside a companion seat: those of one run.
const MAX_BESIDE: usize = 200;

/// A seat that a choice may leave alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrphanCheck {
    /// The seat.
    pub seat: u32,
    /// Its other neighbour; `None` where there is none, or where it is chosen as well.
    pub beyond: Option<u32>,
    /// First seat of its run.
    pub first: u32,
    /// Seats of its run.
    pub len: u32,
}

/// What the script must look at besides the chosen seats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeatRules {
    /// Single seats that may be left; empty without an orphan rule.
    pub orphans: Vec<OrphanCheck>,
    /// Of each of these lists one seat must be in the hold already: accessible seats beside chosen companion seats.
    pub beside: Vec<Vec<u32>>,
    /// Chosen seats that may be picked in any section: those for wheelchair users and their companions.
    pub picked: RoaringBitmap,
}

impl SeatRules {
    /// What follows from a choice of distinct seats of the plan.
    #[must_use]
    pub fn of(event: &EventFacts, shape: &SeatShape, seats: &[SeatIndex]) -> Self {
        let is_ruled = event.rules.orphans != OrphanRule::Off;
        if !is_ruled && !seats.iter().any(|seat| shape.special.contains(seat.0)) {
            return Self::default();
        }
        let chosen: RoaringBitmap = seats.iter().map(|seat| seat.0).collect();
        let orphans = if is_ruled { orphan_checks(shape, &chosen) } else { Vec::new() };
        Self { orphans, beside: companions(shape, &chosen), picked: chosen & &shape.special }
    }
}

/// The neighbours of the chosen seats, each once. Seats for wheelchair users and their companions may stand alone.
#[must_use]
pub fn orphan_checks(shape: &SeatShape, chosen: &RoaringBitmap) -> Vec<OrphanCheck> {
    let mut checks = BTreeMap::new();
    for seat in chosen {
        let Some(run) = shape.run_of(SeatIndex(seat)).map(|at| shape.runs[at]) else { continue };
        let mut look = |neighbour: Option<u32>, beyond: Option<u32>| {
            let Some(neighbour) = neighbour.filter(|seat| run.seats().contains(seat)) else { return };
            if chosen.contains(neighbour) || shape.special.contains(neighbour) {
                return;
            }
            let beyond = beyond.filter(|seat| run.seats().contains(seat) && !chosen.contains(*seat));
            checks.insert(neighbour, OrphanCheck { seat: neighbour, beyond, first: run.first, len: run.len });
        };
        look(seat.checked_sub(1), seat.checked_sub(2));
        look(seat.checked_add(1), seat.checked_add(2));
    }
    checks.into_values().collect()
}

/// The accessible seats beside chosen companion seats, where none of them is chosen as well.
fn companions(shape: &SeatShape, chosen: &RoaringBitmap) -> Vec<Vec<u32>> {
    let mut beside: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for seat in chosen & &shape.companion {
        let Some(at) = shape.run_of(SeatIndex(seat)) else { continue };
        let accessible = || shape.runs[at].seats().filter(|&seat| shape.is_accessible(seat));
        if !accessible().any(|seat| chosen.contains(seat)) {
            beside.entry(at).or_insert_with(|| accessible().take(MAX_BESIDE).collect());
        }
    }
    beside.into_values().collect()
}

/// What the script must look at when some seats of a hold are given up and others stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseRules {
    /// Seats that leave and should not be left alone: the seat, first seat and length of its run.
    left: Vec<(u32, Run)>,
    /// Accessible seats of a run one of which leaves, and the companion seats beside them.
    beside: Vec<(Vec<u32>, Vec<u32>)>,
}

impl ReleaseRules {
    /// What follows for these seats of the plan.
    #[must_use]
    pub fn of(event: &EventFacts, shape: &SeatShape, seats: &[SeatIndex]) -> Self {
        let mut rules = Self::default();
        let mut runs_looked_at = Vec::new();
        for &seat in seats {
            let Some(at) = shape.run_of(seat) else { continue };
            let run = shape.runs[at];
            if !shape.special.contains(seat.0) {
                if event.rules.orphans != OrphanRule::Off {
                    rules.left.push((seat.0, run));
                }
            } else if shape.is_accessible(seat.0) && !runs_looked_at.contains(&at) {
                runs_looked_at.push(at);
                let of = |is_wanted: &dyn Fn(u32) -> bool| {
                    run.seats().filter(|&seat| is_wanted(seat)).take(MAX_BESIDE).collect::<Vec<u32>>()
                };
                let companions = of(&|seat| shape.companion.contains(seat));
                if !companions.is_empty() {
                    rules.beside.push((of(&|seat| shape.is_accessible(seat)), companions));
                }
            }
        }
        rules
    }

    /// The last argument of `lua/release.lua`; `None` when nothing of it can matter.
    pub(super) fn encode(&self, event: &EventFacts) -> Option<Vec<u8>> {
        if self.left.is_empty() && self.beside.is_empty() {
            return None;
        }
        let mut out = vec![number_of(event.rules.orphans), self.beside.len() as u8];
        for (accessible, companions) in &self.beside {
            for seats in [accessible, companions] {
                out.push(seats.len() as u8);
                out.extend(seats.iter().flat_map(|seat| seat.to_le_bytes()));
            }
        }
        for (seat, run) in &self.left {
            out.extend(seat.to_le_bytes());
            out.extend(run.first.to_le_bytes());
            out.extend(u16::try_from(run.len).unwrap_or(u16::MAX).to_le_bytes());
        }
        Some(out)
    }
}

/// The checks as `lua/orphan.lua` wants them.
pub(super) fn encode_orphans(out: &mut Vec<u8>, checks: &[OrphanCheck]) {
    for check in checks {
        out.extend(check.seat.to_le_bytes());
        out.extend(check.beyond.unwrap_or(NOBODY).to_le_bytes());
        out.extend(check.first.to_le_bytes());
        out.extend(u16::try_from(check.len).unwrap_or(u16::MAX).to_le_bytes());
    }
}

/// The rule's number.
pub(super) const fn number_of(rule: OrphanRule) -> u8 {
    match rule {
        OrphanRule::Off => 0,
        OrphanRule::Lenient => 1,
        OrphanRule::Strict => 2,
    }
}

/// The last argument of a call that has rules; `None` when nothing of it can matter. `open_allocations`: see `take.lua`.
pub(super) fn encode(event: &EventFacts, open_allocations: u32, rules: &SeatRules) -> Option<Vec<u8>> {
    let rule = number_of(event.rules.orphans);
    if rule == 0 && open_allocations == 0 && rules.beside.is_empty() {
        return None;
    }
    let mut out = open_allocations.to_le_bytes().to_vec();
    out.extend([rule, rules.beside.len() as u8]);
    for seats in &rules.beside {
        out.push(seats.len() as u8);
        out.extend(seats.iter().flat_map(|seat| seat.to_le_bytes()));
    }
    encode_orphans(&mut out, &rules.orphans);
    Some(out)
}
