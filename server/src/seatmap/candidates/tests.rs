//! Looks at small maps whose best blocks anyone can see.

use super::*;
use seatwire_proto::layout::{Layout, Row, Section};
use seatwire_proto::seat::SectionIndex;
use seatwire_proto::server::PriceTier;

/// Rows one behind the other, seats 10 apart, looking at the middle of the front.
pub(in crate::seatmap) fn shape(rows: &[u32], accessible: &[u32], companion: &[u32]) -> SeatShape {
    let (mut first, mut plan) = (0, Vec::new());
    for (number, &len) in rows.iter().enumerate() {
        let of =
            |seats: &[u32]| seats.iter().filter_map(|seat| seat.checked_sub(first)).filter(|at| *at < len).collect();
        plan.push(Row {
            label: number.to_string(),
            first: SeatIndex(first),
            seats: (0..len).map(|seat| seat.to_string()).collect(),
            x: (0..len as i32).map(|seat| 10 * seat - 5 * (len as i32 - 1)).collect(),
            y: vec![10 * (number as i32 + 1); len as usize],
            gaps: Vec::new(),
            accessible: of(accessible),
            companion: of(companion),
            restricted: Vec::new(),
        });
        first += len;
    }
    let section = Section {
        index: SectionIndex(0),
        name: "S".into(),
        zone: None,
        floor: None,
        outline: Vec::new(),
        entrance: None,
        focal: None,
        rows: plan,
    };
    SeatShape::of(&Layout {
        name: "L".into(),
        seat_count: first,
        unit_mm: 1,
        bounds: [0; 4],
        focal: [0; 2],
        sections: vec![section],
        areas: Vec::new(),
        shapes: Vec::new(),
        texts: Vec::new(),
    })
}

pub(in crate::seatmap) fn event(seat_tiers: Vec<u8>, orphans: OrphanRule) -> EventFacts {
    let tier = |code: &str, price_minor| PriceTier {
        code: code.into(),
        name: code.into(),
        color: "#336699".into(),
        price_minor,
        fee_minor: 0,
    };
    let mut facts = EventFacts::on_sale(vec![tier("A", 100), tier("B", 50)], seat_tiers);
    facts.rules.orphans = orphans;
    facts
}

/// A map as text: `.` available, `h` held, `s` sold, `b` blocked.
pub(in crate::seatmap) fn states(text: &str) -> Vec<SeatState> {
    text.chars()
        .filter(|letter| *letter != ' ')
        .map(|letter| match letter {
            '.' => SeatState::Available,
            'h' => SeatState::Held,
            's' => SeatState::Sold,
            'b' => SeatState::Blocked,
            other => panic!("{other} is no state"),
        })
        .collect()
}

pub(in crate::seatmap) fn wish(quantity: u32) -> Wish {
    Wish {
        quantity,
        together: Together::Required,
        tiers: vec![true, true],
        sections: None,
        accessible: 0,
        unlocked: RoaringBitmap::new(),
    }
}

fn seats_of(block: &Block) -> Vec<u32> {
    block.seats.iter().map(|seat| seat.0).collect()
}

/// Looks at a map under a rule.
fn look(shape: &SeatShape, map: &str, rule: OrphanRule, wish: &Wish) -> Found {
    let states = states(map);
    let event = event(vec![0; states.len()], rule);
    Eyes { event: &event, shape, states: &states, wish, is_in_flight: &|_| false, takes_special: false }.look()
}

fn first(found: &Found) -> Vec<u32> {
    found.blocks.first().map(seats_of).unwrap_or_default()
}

#[test]
fn the_middle_of_the_front_row_comes_first_and_single_seats_are_avoided() {
    let shape = shape(&[6, 6], &[], &[]);
    let found = look(&shape, "...... ......", OrphanRule::Off, &wish(2));
    assert_eq!(first(&found), [2, 3]);
    assert_eq!((found.free, found.most_together, found.blocks.len()), (12, 6, 6));
    // Seats 1 to 3 are free: a pair there leaves one alone, so the second row is better.
    let found = look(&shape, "s...ss ......", OrphanRule::Off, &wish(2));
    assert_eq!(first(&found), [8, 9]);
    // With nothing else it is taken all the same.
    let found = look(&shape, "s...ss ssssss", OrphanRule::Off, &wish(2));
    assert!([vec![1, 2], vec![2, 3]].contains(&first(&found)), "{found:?}");
}

#[test]
fn pairs_fill_rows_of_even_length_to_the_last_seat() {
    let shape = shape(&[10, 8, 12], &[], &[]);
    let mut map = states(&".".repeat(30));
    let event = event(vec![0; 30], OrphanRule::Off);
    let wish = wish(2);
    for n in 0..15 {
        let eyes = Eyes {
            event: &event,
            shape: &shape,
            states: &map,
            wish: &wish,
            is_in_flight: &|_| false,
            takes_special: false,
        };
        let block = eyes.look().blocks.into_iter().nth(if n % 3 == 0 { 0 } else { n % 3 }.min(14 - n));
        for seat in block.expect("there is a pair").seats {
            map[seat.position()] = SeatState::Held;
        }
    }
    assert!(map.iter().all(|state| *state == SeatState::Held));
}

#[test]
fn a_rule_leaves_out_what_the_script_would_refuse() {
    let shape = shape(&[20], &[], &[]);
    let one_gap_of_three = "ss...sssssssssssssss";
    // Strict: one seat in twenty may be left, since the row is nearly sold out; with more free seats it may not.
    assert_eq!(first(&look(&shape, one_gap_of_three, OrphanRule::Strict, &wish(2))).len(), 2);
    let two_gaps = "ss...ssssss...ssssss";
    assert_eq!(look(&shape, two_gaps, OrphanRule::Strict, &wish(2)).blocks, []);
    assert_eq!(first(&look(&shape, two_gaps, OrphanRule::Strict, &wish(3))), [11, 12, 13]);
    // Lenient: two of three cannot avoid it; two of five can.
    assert_eq!(look(&shape, two_gaps, OrphanRule::Lenient, &wish(2)).blocks.len(), 4);
    let found = look(&shape, "ss.....sssssssssssss", OrphanRule::Lenient, &wish(2));
    let mut blocks: Vec<_> = found.blocks.iter().map(seats_of).collect();
    blocks.sort();
    assert_eq!(blocks, [[2, 3], [5, 6]]);
    assert!(found.blocks.iter().all(|block| !block.orphans.is_empty()));
}

#[test]
fn price_sections_and_unlocked_seats_decide_what_fits() {
    let shape = shape(&[4, 4], &[], &[]);
    let map = states(".... bb..");
    let event = event(vec![0, 0, 0, 0, 1, 1, 1, 1], OrphanRule::Off);
    let look = |wish: &Wish| {
        Eyes { event: &event, shape: &shape, states: &map, wish, is_in_flight: &|_| false, takes_special: false }.look()
    };
    let cheap = Wish { tiers: vec![false, true], ..wish(2) };
    assert_eq!(first(&look(&cheap)), [6, 7]);
    assert_eq!((look(&cheap).free, look(&cheap).most_together), (2, 2));
    assert_eq!(first(&look(&Wish { sections: Some(std::iter::once(4..8).collect()), ..wish(2) })), [6, 7]);
    let unlocked = Wish { unlocked: [4, 5].into_iter().collect(), quantity: 4, ..cheap };
    assert_eq!(first(&look(&unlocked)), [4, 5, 6, 7]);
    let nothing = look(&Wish { tiers: vec![false, false], ..wish(2) });
    assert_eq!((nothing.free, nothing.blocks.len()), (0, 0));
}

#[test]
fn what_is_about_to_go_counts_as_gone() {
    let shape = shape(&[6], &[], &[]);
    let (event, map, wish) = (event(vec![0; 6], OrphanRule::Off), states("......"), wish(2));
    let is_in_flight = |seat: u32| seat == 2 || seat == 3;
    let eyes = Eyes {
        event: &event,
        shape: &shape,
        states: &map,
        wish: &wish,
        is_in_flight: &is_in_flight,
        takes_special: false,
    };
    let mut blocks: Vec<_> = eyes.look().blocks.iter().map(seats_of).collect();
    blocks.sort();
    assert_eq!(blocks, [[0, 1], [4, 5]]);
}

#[test]
fn a_split_is_offered_only_where_it_may_be_and_stays_near() {
    let shape = shape(&[6, 6, 6], &[], &[]);
    // Two and two one behind the other, one far back.
    let map = "ss..ss ss..ss .sssss";
    let found = look(&shape, map, OrphanRule::Off, &wish(4));
    assert_eq!((found.blocks.len(), found.free, found.most_together), (0, 5, 2));
    let split = Wish { together: Together::Preferred, ..wish(4) };
    let found = look(&shape, map, OrphanRule::Off, &split);
    let mut seats = first(&found);
    seats.sort_unstable();
    assert_eq!(seats, [2, 3, 8, 9]);
    assert!(!found.blocks[0].is_together);
    let found = look(&shape, map, OrphanRule::Off, &Wish { quantity: 6, ..split.clone() });
    assert_eq!(found.blocks, []);
    // One block where there is one, whatever may be.
    let found = look(&shape, map, OrphanRule::Off, &Wish { quantity: 2, ..split });
    assert!(found.blocks[0].is_together);
    assert_eq!(first(&found), [2, 3]);
}

#[test]
fn accessible_seats_are_for_those_who_ask_and_companions_sit_beside() {
    // Second row: wheelchair, companion, wheelchair, companion.
    let shape = shape(&[4, 6], &[4, 6], &[5, 7]);
    let map = ".... ......";
    let ask = |quantity, accessible| Wish { accessible, ..wish(quantity) };
    assert!(
        look(&shape, map, OrphanRule::Off, &wish(2))
            .blocks
            .iter()
            .all(|block| block.seats[0].0 < 4 || block.seats[0].0 > 7)
    );
    let pair = first(&look(&shape, map, OrphanRule::Off, &ask(2, 1)));
    assert!([vec![4, 5], vec![5, 6], vec![6, 7]].contains(&pair), "{pair:?}");
    assert_eq!(first(&look(&shape, map, OrphanRule::Off, &ask(3, 2))), [4, 5, 6]);
    // Two wheelchairs do not stand side by side here.
    let found = look(&shape, map, OrphanRule::Off, &ask(2, 2));
    assert_eq!((found.blocks.len(), found.most_together), (0, 1));
    let apart = Wish { together: Together::No, ..ask(2, 2) };
    assert_eq!(first(&look(&shape, map, OrphanRule::Off, &apart)), [4, 6]);
}

#[test]
fn accessible_seats_go_to_others_only_when_everything_else_is_sold() {
    let shape = shape(&[4, 4], &[4], &[5]);
    let wish = wish(1);
    let event = event(vec![0; 8], OrphanRule::Off);
    let is_all_sold = |map: &str| {
        let states = states(map);
        let eyes = Eyes {
            event: &event,
            shape: &shape,
            states: &states,
            wish: &wish,
            is_in_flight: &|_| false,
            takes_special: false,
        };
        eyes.is_all_sold_but_special()
    };
    assert!(!is_all_sold("ssss ..s."));
    assert!(!is_all_sold("sssh ..ss"));
    assert!(is_all_sold("sbss ..ss"));
    // And then the wheelchair place goes, the companion's only beside it.
    let map = states("ssss ..ss");
    let eyes =
        Eyes { event: &event, shape: &shape, states: &map, wish: &wish, is_in_flight: &|_| false, takes_special: true };
    let blocks: Vec<_> = eyes.look().blocks.iter().map(seats_of).collect();
    assert_eq!(blocks, [[4]]);
}

#[test]
fn a_scan_gets_every_seat_that_would_do_in_parts_of_bounded_size() {
    let shape = shape(&[9_000, 9_000, 6], &[18_002], &[]);
    let map = vec![SeatState::Sold; 18_006];
    let event = event(vec![0; 18_006], OrphanRule::Off);
    let wish = wish(2);
    let eyes = Eyes {
        event: &event,
        shape: &shape,
        states: &map,
        wish: &wish,
        is_in_flight: &|_| false,
        takes_special: false,
    };
    let parts: Vec<_> = stretches(&eyes).into_iter().map(|part| part.stretches).collect();
    assert_eq!(parts, [vec![(0, 9_000)], vec![(9_000, 9_000), (18_000, 2), (18_003, 3)]]);
}

#[test]
fn alternatives_are_blocks_that_the_rules_let_a_buyer_pick() {
    let shape = shape(&[12, 8], &[], &[]);
    let mut facts = event(vec![0; 20], OrphanRule::Strict);
    let map = states("ssss...s.s.s ....ssss");
    let offered = |facts: &EventFacts| {
        let mut blocks = crate::seatmap::alternatives(facts, &shape, &map, &[SeatIndex(2), SeatIndex(3)], &[]);
        blocks.sort();
        blocks
    };
    // Of three seats a pair leaves one alone, and so it does in the middle of four.
    assert_eq!(offered(&facts), [[12, 13], [14, 15]]);
    facts.rules.orphans = OrphanRule::Off;
    assert!(offered(&facts).iter().any(|block| block[0] < 12));
    facts.sections = vec![crate::catalogue::SectionFacts {
        name: "S".into(),
        first: SeatIndex(0),
        end: SeatIndex(20),
        sales_mode: seatwire_proto::server::SalesMode::BestAvailable,
    }];
    assert!(offered(&facts).is_empty());
}

/// Small maps by a seed.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

#[test]
fn seats_in_parts_are_found_under_a_rule_exactly_where_there_are_any() {
    let mut seed = 4;
    let (mut found_n, mut none_n) = (0, 0);
    for case in 0..3_000 {
        let rows: Vec<u32> = (0..1 + random(&mut seed, 3)).map(|_| 1 + random(&mut seed, 6) as u32).collect();
        let seats: u32 = rows.iter().sum();
        let special: Vec<u32> = (0..seats).filter(|_| random(&mut seed, 12) == 0).collect();
        let shape = shape(&rows, &special, &[]);
        let map: String = (0..seats).map(|_| if random(&mut seed, 3) == 0 { 's' } else { '.' }).collect();
        let states = states(&map);
        let tiers = (0..seats).map(|_| u8::from(random(&mut seed, 5) == 0)).collect();
        let rule = if random(&mut seed, 2) == 0 { OrphanRule::Strict } else { OrphanRule::Lenient };
        let event = event(tiers, rule);
        let size = 1 + random(&mut seed, 6) as u32;
        let wish = Wish { together: Together::No, tiers: vec![true, false], ..wish(size) };
        let eyes = Eyes {
            event: &event,
            shape: &shape,
            states: &states,
            wish: &wish,
            is_in_flight: &|_| false,
            takes_special: false,
        };
        let free: Vec<u32> = (0..seats).filter(|&seat| eyes.is_free(seat)).collect();
        let chosen = |mask: u32| -> Vec<u32> {
            free.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, &seat)| seat).collect()
        };
        let masks = (0..1_u32 << free.len()).filter(|mask| mask.count_ones() == size);
        let is_possible = masks.map(chosen).any(|seats| eyes.keeps_rule(&seats));
        let what = format!("case {case}: {rows:?} {map} special {special:?} {rule:?}, {size} of {free:?}");
        match split::look(&eyes) {
            Some(block) => {
                let seats = seats_of(&block);
                assert!(
                    seats.len() == size as usize && seats.iter().all(|seat| free.contains(seat)),
                    "{what}: {seats:?}"
                );
                assert!(eyes.keeps_rule(&seats), "{what}: {seats:?}");
                found_n += 1;
            }
            None => {
                assert!(!is_possible, "{what}");
                none_n += 1;
            }
        }
        assert_eq!(eyes.look().blocks.is_empty(), !is_possible, "{what}");
    }
    assert!(found_n > 500 && none_n > 500, "{found_n} {none_n}");
}

#[test]
fn a_block_between_seats_of_another_price_may_begin_anywhere() {
    // Four seats at 100 between two at 50: a pair at either end would leave one of those alone.
    let shape = shape(&[20], &[], &[]);
    let map = states("s......ssssss...ssss");
    let event = event((0..20).map(|seat| u8::from(seat == 1 || seat == 6 || seat > 12)).collect(), OrphanRule::Strict);
    let wish = Wish { tiers: vec![true, false], ..wish(2) };
    let eyes = Eyes {
        event: &event,
        shape: &shape,
        states: &map,
        wish: &wish,
        is_in_flight: &|_| false,
        takes_special: false,
    };
    assert_eq!(first(&eyes.look()), [3, 4]);
}

#[test]
fn a_split_is_looked_for_as_far_as_the_bound_and_behind_it_nothing_is_found() {
    // Pairs alone: whatever number of rows, an odd number of seats cannot be taken without leaving one; the last row can
    // give three.
    let row = "..s".repeat(10);
    let ask = |rows: usize| {
        let shape = shape(&vec![30; rows + 1], &[], &[]);
        let states = states(&format!("{}...{}", row.repeat(rows), "s".repeat(27)));
        let event = event(vec![0; states.len()], OrphanRule::Strict);
        let wish = Wish { together: Together::No, ..wish(3) };
        let eyes = Eyes {
            event: &event,
            shape: &shape,
            states: &states,
            wish: &wish,
            is_in_flight: &|_| false,
            takes_special: false,
        };
        split::look(&eyes)
    };
    // 4,096 seats are looked at: 135 rows and the last one are within, 136 are not.
    let found = ask(135).expect("within the bound");
    let seats = seats_of(&found);
    assert_eq!((seats.len(), seats.iter().filter(|seat| **seat >= 30 * 135).count() % 2), (3, 1), "{seats:?}");
    assert_eq!(ask(136), None, "behind the bound");
}
