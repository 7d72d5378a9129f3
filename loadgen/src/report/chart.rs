//! Charts as inline SVG: lines over time, and the percentile spectrum on two logarithmic axes. No script: each column
//! carries its values as a tooltip.

use super::junit::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// Grid lines across.
const ROWS: u32 = 4;

/// A line of a chart: y by x, gaps where there is no value.
pub(super) struct Series {
    pub(super) name: &'static str,
    /// CSS class: its colour.
    pub(super) class: &'static str,
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// Filled down to the axis.
    pub(super) is_area: bool,
}

/// A line of the spectrum: (quantile, microseconds).
pub(super) struct Quantiles {
    pub(super) name: &'static str,
    pub(super) class: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

struct Frame {
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = (x - self.x.0) / (self.x.1 - self.x.0).max(1e-9);
        let up = (y - self.y.0) / (self.y.1 - self.y.0).max(1e-9);
        (LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))
    }
}

/// The next 1, 2, 2.5 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|top| *top >= value - 1e-9).unwrap_or(10.0 * power)
}

fn open(label: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(label))
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(words));
}

fn path(frame: &Frame, series: &Series) -> String {
    let mut d = String::new();
    let mut areas = String::new();
    let mut run: Vec<(f64, f64)> = Vec::new();
    let mut flush = |run: &mut Vec<(f64, f64)>| {
        for (at, (x, y)) in run.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
        }
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            let floor = HEIGHT - BOTTOM;
            let _ = write!(areas, "M{:.1} {floor}", first.0);
            for (x, y) in run.iter() {
                let _ = write!(areas, "L{x:.1} {y:.1}");
            }
            let _ = write!(areas, "L{:.1} {floor}Z", last.0);
        }
        run.clear();
    };
    for (x, y) in &series.points {
        match y {
            Some(y) => run.push(frame.at(*x, *y)),
            None => flush(&mut run),
        }
    }
    flush(&mut run);
    let area =
        if series.is_area { format!("<path class=\"area {}\" d=\"{areas}\"/>", series.class) } else { String::new() };
    format!("{area}<path class=\"line {}\" d=\"{d}\"/>", series.class)
}

/// Lines over seconds; `mark` is the second at which the phases begin.
pub(super) fn over_time(label: &str, series: &[Series], show: &dyn Fn(f64) -> String, mark: f64) -> String {
    let points = || series.iter().flat_map(|series| series.points.iter());
    let x = points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let top = points().filter_map(|(_, y)| *y).fold(0.0, f64::max);
    if x.0 >= x.1 {
        return "<p class=\"none\">too short for a chart</p>".to_owned();
    }
    let frame = Frame { x, y: (0.0, round_up(top)) };
    let mut svg = open(label);
    for row in 0..=ROWS {
        let value = frame.y.1 * f64::from(row) / f64::from(ROWS);
        let (_, y) = frame.at(x.0, value);
        let _ =
            write!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
        text(&mut svg, (LEFT - 8.0, y + 4.0), "end", &show(value));
    }
    let step = (round_up((x.1 - x.0) / 8.0)).max(1.0);
    let mut tick = (x.0 / step).ceil() * step;
    while tick <= x.1 {
        text(&mut svg, (frame.at(tick, 0.0).0, HEIGHT - 8.0), "middle", &format!("{tick:.0} s"));
        tick += step;
    }
    if mark > x.0 && mark < x.1 {
        let (at, _) = frame.at(mark, 0.0);
        let _ =
            write!(svg, "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{}\"/>", HEIGHT - BOTTOM);
    }
    for series in series {
        svg.push_str(&path(&frame, series));
    }
    columns(&mut svg, &frame, series, show);
    svg.push_str("</svg>");
    svg
}

/// Invisible columns that tell their values.
fn columns(svg: &mut String, frame: &Frame, series: &[Series], show: &dyn Fn(f64) -> String) {
    let Some(first) = series.first() else { return };
    let width = (WIDTH - LEFT - RIGHT) / (first.points.len().max(2) - 1) as f64;
    for (at, (x, _)) in first.points.iter().enumerate() {
        let (middle, _) = frame.at(*x, 0.0);
        let values: Vec<String> = series
            .iter()
            .filter_map(|series| {
                let (_, y) = series.points.get(at)?;
                Some(format!("{} {}", series.name, y.map_or_else(|| "-".to_owned(), show)))
            })
            .collect();
        let _ = write!(
            svg,
            "<rect class=\"hit\" x=\"{:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{}\"><title>{x:.0} s: {}</title></rect>",
            middle - width / 2.0,
            HEIGHT - TOP - BOTTOM,
            escape(&values.join(", "))
        );
    }
}

/// Time by percentile: across "one in 10, 100, 1,000 ..", upwards powers of ten of a microsecond.
pub(super) fn spectrum(label: &str, lines: &[Quantiles], show: &dyn Fn(f64) -> String) -> String {
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let high = points().map(|(_, us)| *us).fold(0.0, f64::max);
    let low = points().map(|(_, us)| us.max(1.0)).fold(f64::MAX, f64::min);
    if high <= 0.0 {
        return "<p class=\"none\">nothing was measured</p>".to_owned();
    }
    let nines = points().map(|(quantile, _)| nines(*quantile)).fold(1.0, f64::max).ceil();
    let frame = Frame { x: (0.0, nines), y: (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0)) };
    let mut svg = open(label);
    for power in frame.y.0 as i32..=frame.y.1 as i32 {
        let (_, y) = frame.at(0.0, f64::from(power));
        let _ =
            write!(svg, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
        text(&mut svg, (LEFT - 8.0, y + 4.0), "end", &show(10_f64.powi(power)));
    }
    for nine in 0..=nines as i32 {
        let (x, _) = frame.at(f64::from(nine), frame.y.0);
        let words = match nine {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            n => format!("99.{} %", "9".repeat(n as usize - 2)),
        };
        text(&mut svg, (x, HEIGHT - 8.0), if nine == nines as i32 { "end" } else { "middle" }, &words);
        let _ =
            write!(svg, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/>", HEIGHT - BOTTOM);
    }
    for Quantiles { name, class, points } in lines {
        let mut d = String::new();
        for (at, (quantile, us)) in points.iter().enumerate() {
            let (x, y) = frame.at(nines_capped(*quantile, nines), us.max(1.0).log10());
            let _ = write!(d, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
        }
        let _ = write!(svg, "<path class=\"line {class}\" d=\"{d}\"><title>{}</title></path>", escape(name));
    }
    svg.push_str("</svg>");
    svg
}

/// How many nines a quantile has: 0.9 is 1, 0.99 is 2.
fn nines(quantile: f64) -> f64 {
    if quantile >= 1.0 { 0.0 } else { -(1.0 - quantile).log10() }
}

fn nines_capped(quantile: f64, most: f64) -> f64 {
    if quantile >= 1.0 { most } else { nines(quantile).min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, top) in [(0.0, 1.0), (0.3, 0.4), (99.0, 100.0), (101.0, 200.0), (230.0, 250.0), (500.0, 500.0)] {
            assert!((round_up(value) - top).abs() < 1e-9, "{value} -> {}", round_up(value));
        }
    }

    #[test]
    fn a_gap_in_the_values_is_a_gap_in_the_line() {
        let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(1.0)), (3.0, Some(1.0))];
        let series = [Series { name: "x", class: "a", points, is_area: false }];
        let svg = over_time("t", &series, &|value| format!("{value}"), 0.0);
        let line = svg.split("class=\"line a\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert!(svg.contains("<title>1 s: x -</title>"));
    }

    #[test]
    fn nines_are_counted() {
        assert!((nines(0.99) - 2.0).abs() < 1e-9);
        assert!((nines_capped(1.0, 4.0) - 4.0).abs() < 1e-9);
    }
}
