//! Writes the compact form: looks for the curve and the rules that cost least, then deflates.
//! Slow and thorough, for it runs once a layout; the importers' results come in, `read` is the way back.

use flate2::{Compress, Compression, FlushCompress, Status};

use super::curve::{Curve, Foretell, TERMS, fit, point, rounded};
use super::labels::{Count, Rules, Run, rule_of};
use super::{HEADER_BYTES, LARGE, MAGIC, MAX_FRACTION_BITS, ROW_CHAINED, ROW_CORRECTED, ROW_LISTS, SMALL, zigzag};
use crate::layout::{Layout, Point, Row, ShapeKind};
use crate::leb128;

/// Writes the compact form of a valid layout ([`Layout::validate`]); of an invalid one it writes
/// something that `decode` refuses or reads differently.
///
/// 70,000 seats take about 0.4 s (release build): do it once a layout, away from the sockets' threads.
#[must_use]
pub fn encode(layout: &Layout) -> Vec<u8> {
    (0..=MAX_FRACTION_BITS)
        .filter_map(|fraction_bits| Writer::new(fraction_bits).layout(layout))
        .map(|parts| deflate(&parts))
        .min_by_key(Vec::len)
        .expect("without fractions every layout can be written")
}

/// The three parts of the inflated form, deflated with code tables of their own if that is smaller.
fn deflate(parts: &[Vec<u8>; 3]) -> Vec<u8> {
    let inflated_bytes: usize = parts.iter().map(Vec::len).sum();
    let together = deflate_flushed(&[parts.concat()]);
    let apart = deflate_flushed(parts);
    let stream = if apart.len() < together.len() { apart } else { together };
    let mut out = Vec::with_capacity(HEADER_BYTES + stream.len());
    out.extend_from_slice(&MAGIC);
    out.push(0);
    out.extend_from_slice(&u32::try_from(inflated_bytes).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&stream);
    out
}

fn deflate_flushed(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut deflater = Compress::new(Compression::best(), false);
    let mut out = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let flush = if at + 1 == parts.len() { FlushCompress::Finish } else { FlushCompress::Sync };
        let mut input = &part[..];
        loop {
            out.reserve(input.len() + 64);
            let before = deflater.total_in();
            let status = deflater.compress_vec(input, &mut out, flush).expect("the parameters are constants");
            input = &input[usize::try_from(deflater.total_in() - before).expect("at most its length")..];
            let is_done = status == Status::StreamEnd || flush == FlushCompress::Sync && out.len() < out.capacity();
            if input.is_empty() && is_done {
                break;
            }
        }
    }
    out
}

struct Writer {
    fraction_bits: u8,
    plan: Vec<u8>,
    columns: [[Vec<u8>; 2]; TERMS],
    corrections: Vec<u8>,
    pen: Point,
}

/// One coordinate of a row as it may be written.
struct Candidate {
    curve: Curve,
    corrections: Vec<i32>,
    cost_bits: f64,
}

impl Writer {
    fn new(fraction_bits: u8) -> Self {
        Self { fraction_bits, plan: Vec::new(), columns: Default::default(), corrections: Vec::new(), pen: [0, 0] }
    }

    fn layout(mut self, layout: &Layout) -> Option<[Vec<u8>; 3]> {
        let mut rules = Rules::default();
        let mut row_rules = Vec::new();
        let mut section_rules = Vec::new();
        for section in &layout.sections {
            let labels: Vec<&str> = section.rows.iter().map(|row| &row.label[..]).collect();
            section_rules.push(rules.place(rule_of(&labels)));
            for row in &section.rows {
                let labels: Vec<&str> = row.seats.iter().map(|label| &label[..]).collect();
                row_rules.push(rules.place(rule_of(&labels)));
            }
        }
        self.head(layout, &rules);
        for (section, rule) in layout.sections.iter().zip(section_rules) {
            self.text(&section.name);
            for optional in [&section.zone, &section.floor, &section.entrance] {
                self.optional(optional.as_deref());
            }
            self.number(u32::from(section.focal.is_some()));
            if let Some([x, y]) = section.focal {
                self.signed(x);
                self.signed(y);
            }
            self.points(&section.outline);
            self.number(section.rows.len() as u32);
            if !section.rows.is_empty() {
                self.number(rule as u32);
            }
        }
        self.rows(layout, &row_rules)?;
        let mut last = Self::new(self.fraction_bits);
        last.pen = self.pen;
        last.rest(layout);
        let curves = self.columns.iter().flatten().flatten().copied().collect();
        self.corrections.append(&mut last.plan);
        Some([self.plan, curves, self.corrections])
    }

    fn head(&mut self, layout: &Layout, rules: &Rules) {
        self.text(&layout.name);
        self.number(layout.unit_mm);
        for value in layout.bounds.into_iter().chain(layout.focal) {
            self.signed(value);
        }
        self.plan.push(self.fraction_bits);
        for count in [layout.sections.len(), layout.areas.len(), layout.shapes.len(), layout.texts.len()] {
            self.number(count as u32);
        }
        self.number(rules.list.len() as u32);
        for rule in &rules.list {
            self.number(rule.len() as u32);
            for run in rule {
                self.run(run);
            }
        }
    }

    fn run(&mut self, run: &Run) {
        match run {
            Run::Word(word) => {
                self.plan.push(0);
                self.text(word);
            }
            Run::Counted { count, prefix, suffix, start, step, labels } => {
                match count {
                    Count::Numbers(width) => self.plan.extend([1, *width]),
                    Count::Letters => self.plan.push(2),
                    Count::Doubled => self.plan.push(3),
                }
                self.text(prefix);
                self.text(suffix);
                self.number(*start);
                self.signed(*step);
                self.number(*labels);
            }
        }
    }

    fn rows(&mut self, layout: &Layout, rules: &[usize]) -> Option<()> {
        let rows = || layout.sections.iter().flat_map(|section| &section.rows);
        let mut before = 0;
        for row in rows() {
            let seats = row.seats.len() as i32;
            self.signed(seats - before);
            before = seats;
        }
        for rule in rules {
            self.number(*rule as u32);
        }
        let mut foretell = [Foretell::default(), Foretell::default()];
        for section in &layout.sections {
            foretell.iter_mut().for_each(Foretell::begin_section);
            for row in &section.rows {
                let flags = self.row(row, &mut foretell)?;
                self.plan.push(flags);
            }
        }
        for row in rows() {
            for positions in lists(row).into_iter().filter(|positions| !positions.is_empty()) {
                self.number(positions.len() as u32);
                let mut next = 0;
                for position in positions {
                    self.number(position - next);
                    next = position + 1;
                }
            }
        }
        Some(())
    }

    /// Writes a row's curve and corrections; its flags come back.
    fn row(&mut self, row: &Row, foretell: &mut [Foretell; 2]) -> Option<u8> {
        let values = [&row.x, &row.y];
        let foretold = [foretell[0].next(), foretell[1].next()];
        let curves = [self.curve(values[0], foretold[0]), self.curve(values[1], foretold[1])];
        let chains = [self.chain(values[0], foretold[0]), self.chain(values[1], foretold[1])];
        let cost = |[x, y]: &[Option<Candidate>; 2]| Some(x.as_ref()?.cost_bits + y.as_ref()?.cost_bits);
        let (chosen, mut flags) = match (cost(&curves), cost(&chains)) {
            (Some(curve), Some(chain)) if chain < curve => (chains, ROW_CHAINED),
            (None, Some(_)) => (chains, ROW_CHAINED),
            (Some(_), _) => (curves, 0),
            (None, None) => return None,
        };
        let [Some(x), Some(y)] = chosen else { return None };
        for (axis, candidate) in [&x, &y].into_iter().enumerate() {
            for ((column, term), expected) in self.columns.iter_mut().zip(candidate.curve).zip(foretold[axis]) {
                leb128::write(&mut column[axis], zigzag(term.wrapping_sub(expected)));
            }
            foretell[axis].saw(candidate.curve);
        }
        if x.corrections.iter().chain(&y.corrections).any(|correction| *correction != 0) {
            flags |= ROW_CORRECTED;
            for (x, y) in x.corrections.iter().zip(&y.corrections) {
                let (x, y) = (zigzag(*x), zigzag(*y));
                if x < SMALL && y < SMALL {
                    self.corrections.push((x + SMALL * y) as u8);
                } else {
                    self.corrections.push(LARGE);
                    leb128::write(&mut self.corrections, x);
                    leb128::write(&mut self.corrections, y);
                }
            }
        }
        for (positions, flag) in lists(row).into_iter().zip(ROW_LISTS) {
            if !positions.is_empty() {
                flags |= flag;
            }
        }
        Some(flags)
    }

    /// The cheapest of: the curve foretold; the same moved; the nearest one.
    fn curve(&self, values: &[i32], foretold: Curve) -> Option<Candidate> {
        let corrections = |curve: &Curve| -> Vec<i32> {
            let at = |at| point(curve, self.fraction_bits, at, values.len());
            values.iter().enumerate().map(|(position, value)| value.wrapping_sub(at(position))).collect()
        };
        let mut misses = corrections(&foretold);
        misses.sort_unstable();
        let miss = misses.get(misses.len() / 2).copied().unwrap_or(0);
        let mut moved = foretold;
        moved[0] = moved[0].wrapping_add(miss.checked_mul(1 << self.fraction_bits)?);
        [Some(foretold), Some(moved), fit(values, self.fraction_bits)]
            .into_iter()
            .flatten()
            .map(|curve| Candidate::new(curve, corrections(&curve), foretold))
            .min_by(|a, b| a.cost_bits.total_cmp(&b.cost_bits))
    }

    /// Each seat as far from the one before as that from the one before it.
    fn chain(&self, values: &[i32], foretold: Curve) -> Option<Candidate> {
        let scaled = |value: i32| value.checked_mul(1 << self.fraction_bits);
        let first = *values.first()?;
        let step = values.get(1).map_or(0, |second| second - first);
        let curve = [scaled(first)?, scaled(step)?, 0, 0];
        debug_assert_eq!(rounded(f64::from(curve[0]), self.fraction_bits), first);
        let mut corrections = vec![0; values.len().min(2)];
        corrections.extend(values.windows(3).map(|three| three[2] - 2 * three[1] + three[0]));
        Some(Candidate::new(curve, corrections, foretold))
    }

    fn rest(&mut self, layout: &Layout) {
        for area in &layout.areas {
            self.text(&area.name);
            self.points(&area.outline);
        }
        for shape in &layout.shapes {
            self.plan.push(match shape.kind {
                ShapeKind::Polygon => 0,
                ShapeKind::Polyline => 1,
                ShapeKind::Ellipse => 2,
            });
            self.optional(shape.label.as_deref());
            self.points(&shape.points);
        }
        for text in &layout.texts {
            self.text(&text.text);
            self.signed(text.at[0]);
            self.signed(text.at[1]);
            self.number(text.size);
            self.signed(text.angle_deg);
        }
    }

    fn number(&mut self, value: u32) {
        leb128::write(&mut self.plan, value);
    }

    fn signed(&mut self, value: i32) {
        self.number(zigzag(value));
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.plan.extend_from_slice(text.as_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            None => self.number(0),
            Some(text) => {
                self.number(text.len() as u32 + 1);
                self.plan.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Points one after another, each from the last; the pen goes on from outline to outline.
    fn points(&mut self, points: &[Point]) {
        self.number(points.len() as u32);
        for point in points {
            self.signed(point[0].wrapping_sub(self.pen[0]));
            self.signed(point[1].wrapping_sub(self.pen[1]));
            self.pen = *point;
        }
    }
}

impl Candidate {
    /// The bits are guesses of what deflate makes of each byte; they only rank candidates.
    fn new(curve: Curve, corrections: Vec<i32>, foretold: Curve) -> Self {
        let number_bits = |value: i32| match zigzag(value) {
            0 => 1.0,
            1..0x80 => 6.5,
            0x80..0x4000 => 14.0,
            _ => 22.0,
        };
        let mut cost_bits: f64 =
            curve.iter().zip(foretold).map(|(term, expected)| number_bits(term.wrapping_sub(expected))).sum();
        if corrections.iter().any(|correction| *correction != 0) {
            cost_bits += corrections
                .iter()
                .map(|correction| match zigzag(*correction) {
                    0 => 0.4,
                    1..3 => 2.5,
                    3..SMALL => 4.0,
                    other => 4.0 + number_bits(other as i32),
                })
                .sum::<f64>();
        }
        Self { curve, corrections, cost_bits }
    }
}

/// A row's lists of positions, in the order of their flags.
fn lists(row: &Row) -> [&Vec<u32>; 4] {
    [&row.gaps, &row.accessible, &row.companion, &row.restricted]
}
