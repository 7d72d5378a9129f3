//! Reads the compact form back into the very same layout. Foreign bytes come in: every count is
//! checked against what can follow before memory is taken for it, and the result is validated.

use flate2::{Decompress, FlushDecompress, Status};

use super::curve::{Curve, Foretell, TERMS, point, rounded};
use super::labels::{Count, MAX_COUNTER, Rule, Run, write_label};
use super::{
    HEADER_BYTES, LARGE, MAGIC, MAX_FRACTION_BITS, MAX_INFLATED_BYTES, MAX_LABELS_BYTES, MAX_RULES, MAX_RUNS,
    ROW_CHAINED, ROW_CORRECTED, ROW_FLAGS, ROW_LISTS, SMALL, unzigzag,
};
use crate::layout::{
    Area, Layout, LayoutError, MAX_LABEL_BYTES, MAX_POINTS, MAX_ROWS, MAX_SEATS, MAX_SECTIONS, Point, Row, Section,
    Shape, ShapeKind, Text,
};
use crate::leb128;
use crate::seat::{AreaIndex, SeatIndex, SectionIndex};

/// Reads a compact layout and validates it.
///
/// # Errors
/// [`LayoutError::Compact`] for damaged bytes, [`LayoutError::Invalid`] for good bytes of a bad layout.
pub fn decode(bytes: &[u8]) -> Result<Layout, LayoutError> {
    let inflated = inflate(bytes)?;
    let mut reader =
        Reader { input: &inflated, pen: [0, 0], labels_bytes: 0, runs_left: MAX_RUNS, rows_left: MAX_ROWS };
    let layout = reader.layout()?;
    if !reader.input.is_empty() {
        return Err(damaged("bytes after the end"));
    }
    layout.validate()?;
    Ok(layout)
}

const fn damaged(why: &'static str) -> LayoutError {
    LayoutError::Compact(why)
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, LayoutError> {
    /// No deflate stream shrinks by more.
    const MAX_RATIO: usize = 1032;
    let (header, stream) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(damaged("shorter than its header"))?;
    let [m0, m1, version, _, l0, l1, l2, l3] = *header;
    if [m0, m1, version] != MAGIC {
        return Err(damaged("not a compact layout of version 1"));
    }
    let inflated_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if inflated_bytes > MAX_INFLATED_BYTES || inflated_bytes > stream.len().saturating_mul(MAX_RATIO) {
        return Err(damaged("promises more than may be"));
    }
    // One byte more, so that a stream that is too long shows.
    let mut inflated = vec![0; inflated_bytes + 1];
    let mut inflater = Decompress::new(false);
    let status = inflater.decompress(stream, &mut inflated, FlushDecompress::Finish);
    let is_whole = matches!(status, Ok(Status::StreamEnd))
        && inflater.total_in() == stream.len() as u64
        && inflater.total_out() == inflated_bytes as u64;
    inflated.truncate(inflated_bytes);
    if is_whole { Ok(inflated) } else { Err(damaged("deflate stream")) }
}

struct Reader<'a> {
    input: &'a [u8],
    pen: Point,
    labels_bytes: usize,
    runs_left: usize,
    rows_left: usize,
}

impl Reader<'_> {
    fn layout(&mut self) -> Result<Layout, LayoutError> {
        let name = self.text()?;
        let unit_mm = self.number()?;
        let bounds = [self.signed()?, self.signed()?, self.signed()?, self.signed()?];
        let focal = [self.signed()?, self.signed()?];
        let fraction_bits = self.byte()?;
        if fraction_bits > MAX_FRACTION_BITS {
            return Err(damaged("fraction bits"));
        }
        let section_count = self.count(MAX_SECTIONS)?;
        let area_count = self.count(MAX_SECTIONS)?;
        let shape_count = self.count(MAX_POINTS)?;
        let text_count = self.count(MAX_POINTS)?;
        let rules = self.rules()?;
        let mut sections = Vec::new();
        for index in 0..section_count {
            sections.push(self.section(index, &rules)?);
        }
        let seat_count = self.rows(&mut sections, &rules, fraction_bits)?;
        let mut areas = Vec::new();
        for index in 0..area_count {
            areas.push(Area { index: AreaIndex(index as u32), name: self.text()?, outline: self.points()? });
        }
        let mut shapes = Vec::new();
        for _ in 0..shape_count {
            let kind = match self.byte()? {
                0 => ShapeKind::Polygon,
                1 => ShapeKind::Polyline,
                2 => ShapeKind::Ellipse,
                _ => return Err(damaged("kind of shape")),
            };
            let label = self.optional()?;
            shapes.push(Shape { kind, points: self.points()?, label });
        }
        let mut texts = Vec::new();
        for _ in 0..text_count {
            let text = self.text()?;
            let at = [self.signed()?, self.signed()?];
            texts.push(Text { text, at, size: self.number()?, angle_deg: self.signed()? });
        }
        Ok(Layout { name, seat_count, unit_mm, bounds, focal, sections, areas, shapes, texts })
    }

    fn rules(&mut self) -> Result<Vec<Rule>, LayoutError> {
        let rule_count = self.count(MAX_RULES)?;
        let mut rules = Vec::new();
        for _ in 0..rule_count {
            let run_count = self.count(self.runs_left)?;
            self.runs_left -= run_count;
            let mut rule = Vec::new();
            for _ in 0..run_count {
                rule.push(self.run()?);
            }
            rules.push(rule);
        }
        Ok(rules)
    }

    fn run(&mut self) -> Result<Run, LayoutError> {
        let count = match self.byte()? {
            0 => return Ok(Run::Word(self.text()?)),
            1 => match self.byte()? {
                width @ 0..10 => Count::Numbers(width),
                _ => return Err(damaged("width of a number")),
            },
            2 => Count::Letters,
            3 => Count::Doubled,
            _ => return Err(damaged("kind of label")),
        };
        let (prefix, suffix) = (self.text()?, self.text()?);
        let start = self.number()?;
        let step = self.signed()?;
        Ok(Run::Counted { count, prefix, suffix, start, step, labels: self.number()? })
    }

    /// A section without its seats: rows have their labels only.
    fn section(&mut self, index: usize, rules: &[Rule]) -> Result<Section, LayoutError> {
        let name = self.text()?;
        let (zone, floor, entrance) = (self.optional()?, self.optional()?, self.optional()?);
        let focal = match self.number()? {
            0 => None,
            1 => Some([self.signed()?, self.signed()?]),
            _ => return Err(damaged("focal point")),
        };
        let outline = self.points()?;
        let row_count = self.count(self.rows_left)?;
        self.rows_left -= row_count;
        let labels = if row_count == 0 { Vec::new() } else { self.labels(rules, row_count)? };
        let rows = labels.into_iter().map(|label| Row {
            label,
            first: SeatIndex(0),
            seats: Vec::new(),
            x: Vec::new(),
            y: Vec::new(),
            gaps: Vec::new(),
            accessible: Vec::new(),
            companion: Vec::new(),
            restricted: Vec::new(),
        });
        let rows = rows.collect();
        Ok(Section { index: SectionIndex(index as u32), name, zone, floor, outline, entrance, focal, rows })
    }

    fn labels(&mut self, rules: &[Rule], labels: usize) -> Result<Vec<String>, LayoutError> {
        let place = self.number()? as usize;
        let rule = rules.get(place).ok_or(damaged("no such rule"))?;
        self.expand(rule, labels)
    }

    fn expand(&mut self, rule: &Rule, labels: usize) -> Result<Vec<String>, LayoutError> {
        let mut out = Vec::new();
        for run in rule {
            let left = labels - out.len();
            // Every run makes a label, or a rule of many empty runs could keep us busy for ever.
            if left == 0 {
                return Err(damaged("more labels than seats"));
            }
            match run {
                Run::Word(word) => {
                    self.spend_label(word)?;
                    out.push(word.clone());
                }
                Run::Counted { count, prefix, suffix, start, step, labels: run_labels } => {
                    let run_labels = if *run_labels == 0 { left } else { *run_labels as usize };
                    if run_labels > left {
                        return Err(damaged("more labels than seats"));
                    }
                    for at in 0..run_labels as i64 {
                        let counter = u32::try_from(i64::from(*start) + at * i64::from(*step))
                            .ok()
                            .filter(|counter| *counter < MAX_COUNTER)
                            .ok_or(damaged("counter out of range"))?;
                        let mut label = String::new();
                        write_label(&mut label, *count, prefix, suffix, counter);
                        self.spend_label(&label)?;
                        out.push(label);
                    }
                }
            }
        }
        if out.len() == labels { Ok(out) } else { Err(damaged("fewer labels than seats")) }
    }

    fn spend_label(&mut self, label: &str) -> Result<(), LayoutError> {
        self.labels_bytes += label.len();
        let fits = label.len() <= MAX_LABEL_BYTES && self.labels_bytes <= MAX_LABELS_BYTES;
        if fits { Ok(()) } else { Err(damaged("labels too long")) }
    }

    /// Fills in the rows of all sections; the number of seats comes back.
    fn rows(&mut self, sections: &mut [Section], rules: &[Rule], fraction_bits: u8) -> Result<u32, LayoutError> {
        let row_count: usize = sections.iter().map(|section| section.rows.len()).sum();
        let mut sizes: Vec<u32> = Vec::with_capacity(row_count);
        let (mut size, mut seat_count) = (0_i32, 0_u32);
        for _ in 0..row_count {
            size = size.checked_add(self.signed()?).filter(|size| *size > 0).ok_or(damaged("size of a row"))?;
            seat_count = seat_count.saturating_add(size.unsigned_abs());
            if seat_count > MAX_SEATS {
                return Err(damaged("too many seats"));
            }
            sizes.push(size.unsigned_abs());
        }
        let mut next_seat = 0;
        for (row, size) in rows_of(sections).zip(&sizes) {
            row.first = SeatIndex(next_seat);
            next_seat += size;
            row.seats = self.labels(rules, *size as usize)?;
        }
        let flags = self.take(row_count)?.to_vec();
        if flags.iter().any(|flags| flags & !ROW_FLAGS != 0) {
            return Err(damaged("row flags"));
        }
        for ((row, size), flags) in rows_of(sections).zip(&sizes).zip(&flags) {
            let lists = [&mut row.gaps, &mut row.accessible, &mut row.companion, &mut row.restricted];
            for (positions, _) in lists.into_iter().zip(ROW_LISTS).filter(|(_, flag)| flags & flag != 0) {
                *positions = self.positions(*size)?;
            }
        }
        let mut differences = vec![[[0; TERMS]; 2]; row_count];
        for term in 0..TERMS {
            for axis in 0..2 {
                for row in &mut differences {
                    row[axis][term] = self.signed()?;
                }
            }
        }
        let mut row_at = 0;
        let mut foretell = [Foretell::default(), Foretell::default()];
        for section in sections {
            foretell.iter_mut().for_each(Foretell::begin_section);
            for row in &mut section.rows {
                let curves = std::array::from_fn(|axis| {
                    let expected = foretell[axis].next();
                    let curve: Curve =
                        std::array::from_fn(|term| expected[term].wrapping_add(differences[row_at][axis][term]));
                    foretell[axis].saw(curve);
                    curve
                });
                self.seats(row, sizes[row_at] as usize, flags[row_at], curves, fraction_bits)?;
                row_at += 1;
            }
        }
        Ok(seat_count)
    }

    fn seats(
        &mut self,
        row: &mut Row,
        seats: usize,
        flags: u8,
        curves: [Curve; 2],
        fraction_bits: u8,
    ) -> Result<(), LayoutError> {
        row.x.reserve_exact(seats);
        row.y.reserve_exact(seats);
        for at in 0..seats {
            let corrections = if flags & ROW_CORRECTED != 0 { self.corrections()? } else { [0, 0] };
            for ((values, curve), correction) in [&mut row.x, &mut row.y].into_iter().zip(&curves).zip(corrections) {
                let expected = if flags & ROW_CHAINED == 0 {
                    point(curve, fraction_bits, at, seats)
                } else {
                    match values[..] {
                        [] => rounded(f64::from(curve[0]), fraction_bits),
                        [first] => first.wrapping_add(rounded(f64::from(curve[1]), fraction_bits)),
                        [.., before, last] => last.wrapping_mul(2).wrapping_sub(before),
                    }
                };
                values.push(expected.wrapping_add(correction));
            }
        }
        Ok(())
    }

    fn corrections(&mut self) -> Result<[i32; 2], LayoutError> {
        match self.byte()? {
            LARGE => Ok([self.signed()?, self.signed()?]),
            small if u32::from(small) < SMALL * SMALL => {
                Ok([unzigzag(u32::from(small) % SMALL), unzigzag(u32::from(small) / SMALL)])
            }
            _ => Err(damaged("correction")),
        }
    }

    fn positions(&mut self, seats: u32) -> Result<Vec<u32>, LayoutError> {
        let count = self.count(seats as usize)?;
        let mut positions = Vec::new();
        let mut next = 0_u32;
        for _ in 0..count {
            let position = next.checked_add(self.number()?).ok_or(damaged("position"))?;
            next = position.checked_add(1).ok_or(damaged("position"))?;
            positions.push(position);
        }
        Ok(positions)
    }

    fn points(&mut self) -> Result<Vec<Point>, LayoutError> {
        let count = self.count(MAX_POINTS)?;
        let mut points = Vec::new();
        for _ in 0..count {
            self.pen = [self.pen[0].wrapping_add(self.signed()?), self.pen[1].wrapping_add(self.signed()?)];
            points.push(self.pen);
        }
        Ok(points)
    }

    /// A number of things to follow, each of at least one byte unless they are foretold by others.
    fn count(&mut self, max: usize) -> Result<usize, LayoutError> {
        let count = self.number()? as usize;
        if count > max { Err(damaged("too many")) } else { Ok(count) }
    }

    fn number(&mut self) -> Result<u32, LayoutError> {
        leb128::read(&mut self.input).ok_or(damaged("number"))
    }

    fn signed(&mut self) -> Result<i32, LayoutError> {
        self.number().map(unzigzag)
    }

    fn byte(&mut self) -> Result<u8, LayoutError> {
        let (byte, rest) = self.input.split_first().ok_or(damaged("cut short"))?;
        self.input = rest;
        Ok(*byte)
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], LayoutError> {
        let (taken, rest) = self.input.split_at_checked(bytes).ok_or(damaged("cut short"))?;
        self.input = rest;
        Ok(taken)
    }

    fn text(&mut self) -> Result<String, LayoutError> {
        let bytes = self.number()? as usize;
        self.string(bytes)
    }

    fn optional(&mut self) -> Result<Option<String>, LayoutError> {
        match self.number()? as usize {
            0 => Ok(None),
            more => self.string(more - 1).map(Some),
        }
    }

    fn string(&mut self, bytes: usize) -> Result<String, LayoutError> {
        if bytes > MAX_LABEL_BYTES {
            return Err(damaged("text too long"));
        }
        let taken = self.take(bytes)?.to_vec();
        String::from_utf8(taken).map_err(|_| damaged("text is not UTF-8"))
    }
}

fn rows_of(sections: &mut [Section]) -> impl Iterator<Item = &mut Row> {
    sections.iter_mut().flat_map(|section| &mut section.rows)
}
