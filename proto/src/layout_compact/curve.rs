//! A row's coordinates as a curve: start, way, bulge and skew, in fractions of a unit, chosen so that
//! rounding lands on the seats; and how a row's numbers are foretold from the rows before it.
//! All arithmetic is in IEEE doubles in the order written here, so that every language agrees.

/// start, way, bulge, skew of one coordinate.
pub(super) type Curve = [i32; 4];
pub(super) const TERMS: usize = 4;

/// Beyond this a curve's numbers could leave 32 bits when rows are foretold; such rows use coarser fractions.
const MAX_TERM: f64 = (1_i64 << 29) as f64;

/// How far along the row position `at` of `seats` is, 0 to 1.
fn along(at: usize, seats: usize) -> f64 {
    if seats > 1 { at as f64 / (seats - 1) as f64 } else { 0.0 }
}

/// The coordinate of position `at` in a row of so many seats.
pub(super) fn point(curve: &Curve, fraction_bits: u8, at: usize, seats: usize) -> i32 {
    let [start, way, bulge, skew] = curve.map(f64::from);
    let t = along(at, seats);
    let u = 4.0 * t * (1.0 - t);
    let value = start + way * t + u * (bulge + skew * (1.0 - 2.0 * t));
    rounded(value, fraction_bits)
}

/// Nearest unit of a number with fractional bits, halves up, within 32 bits by wrapping.
pub(super) fn rounded(value: f64, fraction_bits: u8) -> i32 {
    (value / f64::from(1_u32 << fraction_bits) + 0.5).floor() as i64 as i32
}

/// What a row's curve is expected to be: the first row of the layout 0, the first of a section like the
/// section's before it, the second like the first, later ones as far again from the last as that from
/// the one before.
#[derive(Default)]
pub(super) struct Foretell {
    first_of_section: Curve,
    last: Option<Curve>,
    before_last: Option<Curve>,
}

impl Foretell {
    pub(super) const fn begin_section(&mut self) {
        self.last = None;
        self.before_last = None;
    }

    pub(super) fn next(&self) -> Curve {
        match (self.last, self.before_last) {
            (None, _) => self.first_of_section,
            (Some(last), None) => last,
            (Some(last), Some(before)) => {
                std::array::from_fn(|term| last[term].wrapping_mul(2).wrapping_sub(before[term]))
            }
        }
    }

    pub(super) const fn saw(&mut self, curve: Curve) {
        if self.last.is_none() {
            self.first_of_section = curve;
        }
        self.before_last = self.last;
        self.last = Some(curve);
    }
}

/// The curve nearest to the coordinates by least squares, or `None` if its numbers would be too large.
pub(super) fn fit(values: &[i32], fraction_bits: u8) -> Option<Curve> {
    let terms = values.len().min(TERMS);
    let origin = f64::from(*values.first()?);
    let mut system = [[0.0; TERMS + 1]; TERMS];
    for (at, value) in values.iter().enumerate() {
        let t = along(at, values.len());
        let u = 4.0 * t * (1.0 - t);
        let basis = [1.0, t, u, u * (1.0 - 2.0 * t), f64::from(*value) - origin];
        for (row, left) in system.iter_mut().zip(basis).take(terms) {
            for (value, right) in row.iter_mut().zip(basis) {
                *value += left * right;
            }
        }
    }
    let solution = solve(system, terms)?;
    let scale = f64::from(1_u32 << fraction_bits);
    let mut curve = [0; TERMS];
    for (term, value) in solution.into_iter().enumerate() {
        let value = ((value + if term == 0 { origin } else { 0.0 }) * scale).round();
        if value.is_nan() || value.abs() >= MAX_TERM {
            return None;
        }
        curve[term] = value as i32;
    }
    Some(curve)
}

/// Gauss with pivots, over the first `terms` rows and columns.
fn solve(mut system: [[f64; TERMS + 1]; TERMS], terms: usize) -> Option<[f64; TERMS]> {
    for pivot in 0..terms {
        let best = (pivot..terms).max_by(|a, b| system[*a][pivot].abs().total_cmp(&system[*b][pivot].abs()))?;
        system.swap(pivot, best);
        if system[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        let pivot_row = system[pivot];
        for (_, row) in system.iter_mut().take(terms).enumerate().filter(|(at, _)| *at != pivot) {
            let factor = row[pivot] / pivot_row[pivot];
            for (value, above) in row.iter_mut().zip(pivot_row) {
                *value -= factor * above;
            }
        }
    }
    let mut solution = [0.0; TERMS];
    for (term, value) in solution.iter_mut().enumerate().take(terms) {
        *value = system[term][TERMS] / system[term][term];
    }
    Some(solution)
}
