//! The report as one page that needs nothing else: verdict, thresholds, percentiles, timeline, spectrum, where it was made.

use super::chart::{self, Quantiles, Series};
use super::junit::escape;
use super::{Row, RunReport, text};
use crate::tally::unpack;
use std::fmt::Write as _;

const STYLE: &str = include_str!("report.css");

/// The page.
pub(super) fn page(report: &RunReport) -> String {
    let scenario = report.scenario["name"].as_str().unwrap_or("run");
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{0}: {1}</title><style>{STYLE}</style></head><body>\
         <header><p class=\"brand\">Seatwire load report</p><h1>{0}</h1><p class=\"about\">{2}</p>\
         <p class=\"verdict v{3}\"><b>{1}</b><span>exit {3}</span></p>",
        escape(scenario),
        report.verdict.word(),
        escape(report.scenario["about"].as_str().unwrap_or_default()),
        report.exit_code
    );
    if !report.reasons.is_empty() {
        page.push_str("<ul class=\"reasons\">");
        for reason in &report.reasons {
            let _ = write!(page, "<li>{}</li>", escape(reason));
        }
        page.push_str("</ul>");
    }
    page.push_str("</header><main>");
    tiles(&mut page, report);
    judgement(&mut page, report);
    timings(&mut page, report);
    timeline(&mut page, report);
    spectrum(&mut page, report);
    counters(&mut page, report);
    made(&mut page, report);
    page.push_str("</main></body></html>\n");
    page
}

fn tiles(page: &mut String, report: &RunReport) {
    let p99 =
        |name: &str| report.timings.get(name).map_or_else(|| "–".to_owned(), |timing| text::time(timing.p99_us as f64));
    let number = |name: &str| report.numbers.get(name).copied().map_or_else(|| "–".to_owned(), text::number);
    let viewers = report.scenario["viewers"].as_u64().unwrap_or(0);
    let tiles = [
        ("viewers", text::count(viewers)),
        ("commit to viewer, p99", p99("commit_to_viewer")),
        ("hold won, p99", p99("hold.won")),
        ("holds a second", number("holds_won_per_s")),
        ("deliveries a second", number("deliveries_per_s")),
        ("oversells", number("oversells")),
    ];
    page.push_str("<section class=\"tiles\">");
    for (name, value) in tiles {
        let _ = write!(page, "<div><b>{}</b><span>{name}</span></div>", escape(&value));
    }
    page.push_str("</section>");
}

fn judgement(page: &mut String, report: &RunReport) {
    page.push_str("<section><h2>Judgement</h2><table><thead><tr><th></th><th>must hold</th><th>asked</th><th class=\"n\">measured</th></tr></thead><tbody>");
    let mut row = |good: bool, name: &str, asked: &str, measured: &str| {
        let _ = write!(
            page,
            "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
            if good { "good" } else { "bad" },
            if good { "✓" } else { "✗" },
            escape(name),
            escape(asked),
            escape(measured)
        );
    };
    for invariant in &report.invariants {
        row(invariant.violations == 0, &invariant.name, &invariant.means, &text::count(invariant.violations));
    }
    for judged in &report.thresholds {
        row(judged.passed, &judged.name, &judged.bound, &text::judged_value(judged));
    }
    page.push_str("</tbody></table></section>");
}

fn timings(page: &mut String, report: &RunReport) {
    page.push_str(
        "<section><h2>Times</h2><p class=\"note\">From the intended time, so that a slow answer delays nothing that \
         was to be measured after it; “uncorrected” counts from the sending.</p><table><thead><tr><th></th>",
    );
    for head in ["samples", "p50", "p90", "p99", "p99.9", "max", "mean"] {
        let _ = write!(page, "<th class=\"n\">{head}</th>");
    }
    page.push_str("</tr></thead><tbody>");
    for (name, summary) in &report.timings {
        let _ = write!(page, "<tr><td>{}</td>", escape(name));
        for column in text::columns(summary) {
            let _ = write!(page, "<td class=\"n\">{column}</td>");
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></section>");
}

fn figure(page: &mut String, title: &str, legend: &[(&str, &str)], svg: &str) {
    let _ = write!(page, "<figure><figcaption><b>{}</b>", escape(title));
    for (class, name) in legend {
        let _ = write!(page, "<span class=\"key {class}\">{}</span>", escape(name));
    }
    let _ = write!(page, "</figcaption>{svg}</figure>");
}

fn timeline(page: &mut String, report: &RunReport) {
    let rows = &report.timeline;
    let line = |name, class, is_area, value: &dyn Fn(&Row) -> Option<f64>| Series {
        name,
        class,
        is_area,
        points: rows.iter().map(|row| (f64::from(row.second), value(row))).collect(),
    };
    let mark = f64::from(report.start_second);
    page.push_str("<section><h2>Timeline</h2><p class=\"note\">The dashed line is the barrier: all have joined, the phases begin.</p>");
    let chart = |page: &mut String, title: &str, mut series: Vec<Series>, show: &dyn Fn(f64) -> String| {
        series.retain(|series| series.points.iter().any(|(_, value)| value.is_some()));
        let legend: Vec<_> = series.iter().map(|series| (series.class, series.name)).collect();
        figure(page, title, &legend, &chart::over_time(title, &series, show, mark));
    };
    chart(
        page,
        "Commit to viewer",
        vec![
            line("max", "c", false, &|row| row.commit_to_viewer.map(|s| s.max_us as f64)),
            line("p99", "b", false, &|row| row.commit_to_viewer.map(|s| s.p99_us as f64)),
            line("p50", "a", true, &|row| row.commit_to_viewer.map(|s| s.p50_us as f64)),
        ],
        &text::time,
    );
    chart(
        page,
        "Hold won",
        vec![
            line("max", "c", false, &|row| row.hold_won.map(|s| s.max_us as f64)),
            line("p99", "b", false, &|row| row.hold_won.map(|s| s.p99_us as f64)),
            line("p50", "a", true, &|row| row.hold_won.map(|s| s.p50_us as f64)),
        ],
        &text::time,
    );
    chart(
        page,
        "Buyers, a second",
        vec![
            line("arrivals", "d", false, &|row| Some(row.arrivals as f64)),
            line("won", "a", true, &|row| Some(row.won as f64)),
            line("lost", "c", false, &|row| Some(row.lost as f64)),
            line("released", "b", false, &|row| Some(row.released as f64)),
            line("paid", "e", false, &|row| Some(row.paid as f64)),
        ],
        &text::number,
    );
    chart(
        page,
        "Map frames received, a second",
        vec![line("frames", "a", true, &|row| Some(row.frames as f64))],
        &text::number,
    );
    chart(
        page,
        "CPU, percent",
        vec![
            line("machine (of all cores)", "d", true, &|row| row.machine_cpu_pct),
            line("server (of one core)", "b", false, &|row| row.server_cpu_pct),
        ],
        &text::number,
    );
    page.push_str("</section>");
}

fn spectrum(page: &mut String, report: &RunReport) {
    let wanted = [
        ("commit_to_viewer", "a"),
        ("hold.won", "b"),
        ("hold.won.uncorrected", "d"),
        ("release", "e"),
        ("checkout", "c"),
    ];
    let lines: Vec<Quantiles> = wanted
        .iter()
        .filter_map(|(name, class)| {
            let times = unpack(&report.timings.get(*name)?.hdr)?;
            let points = times
                .iter_quantiles(5)
                .map(|step| (step.quantile_iterated_to().min(1.0), step.value_iterated_to() as f64));
            Some(Quantiles { name, class, points: points.collect() })
        })
        .collect();
    page.push_str("<section><h2>Percentile spectrum</h2>");
    let legend: Vec<_> = lines.iter().map(|line| (line.class, line.name)).collect();
    let svg = chart::spectrum("Percentile spectrum", &lines, &text::time);
    figure(page, "How long, for what share of all", &legend, &svg);
    page.push_str("</section>");
}

fn counters(page: &mut String, report: &RunReport) {
    page.push_str("<section><h2>Counted</h2><dl class=\"counts\">");
    let mut item = |name: &str, value: String| {
        let _ = write!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    };
    for (name, n) in report.counts.iter().filter(|(_, n)| **n > 0) {
        item(name, text::count(*n));
    }
    for (name, n) in &report.by_name {
        item(name, text::count(*n));
    }
    for (name, n) in &report.numbers {
        item(name, text::number(*n));
    }
    page.push_str("</dl></section>");
}

fn made(page: &mut String, report: &RunReport) {
    page.push_str("<section><h2>How this was made</h2><dl class=\"made\">");
    let mut item = |name: &str, value: &str| {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    };
    let place = &report.place;
    item("level", &report.level);
    item("server", &place.url);
    item(
        "event",
        &format!("{} ({}, {} seats)", place.event_name, place.event, text::count(u64::from(place.seat_count))),
    );
    let before: Vec<String> =
        report.map_before.iter().map(|(state, n)| format!("{} {state}", text::count(*n))).collect();
    item("map at the barrier", &before.join(", "));
    item("seed", &place.seed.to_string());
    for (name, value) in &report.machine {
        item(name, value);
    }
    for (no, worker) in report.own.workers.iter().enumerate() {
        let words = format!(
            "{} sockets, {:.0} % of a core, {}",
            text::count(u64::from(worker.sockets)),
            worker.cpu_pct,
            text::bytes(worker.rss_bytes as f64)
        );
        item(&format!("worker {no} ({})", worker.role), &words);
    }
    item("own timers late, p99", &text::time(report.own.lag_p99_us as f64));
    for process in &report.server {
        let words =
            format!("{:.0} % of a core, heap {} at most", process.cpu_pct, text::bytes(process.heap_bytes_max as f64));
        item(&format!("server: {}", process.name), &words);
    }
    page.push_str("</dl><details><summary>Scenario</summary><pre>");
    page.push_str(&escape(&serde_json::to_string_pretty(&report.scenario).unwrap_or_default()));
    page.push_str("</pre></details></section>");
}

#[cfg(test)]
mod tests {
    use super::super::tests::good;
    use super::*;

    #[test]
    fn the_page_stands_alone_and_escapes_what_the_server_said() {
        let (scenario, place, facts, window) = good();
        let page = page(&RunReport::new(&scenario, place, facts, &window, &window));
        assert!(page.contains("Night &amp; &lt;Day&gt;"));
        assert!(!page.contains("<script") && !page.contains("http-equiv") && !page.contains("src="));
        assert!(!page.contains("href="), "nothing is fetched");
        assert_eq!(page.matches("<svg").count(), 6);
        assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}
