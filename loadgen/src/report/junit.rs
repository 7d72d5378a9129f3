//! JUnit for build servers: one case an invariant, one a threshold, one for the generator's own belief in the run.

use super::{RunReport, Verdict, text};
use std::fmt::Write as _;

/// Text that may stand between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The suite.
pub(super) fn suite(report: &RunReport) -> String {
    let name = escape(report.scenario["name"].as_str().unwrap_or("run"));
    let mut cases: Vec<(String, Option<String>)> = Vec::new();
    for invariant in &report.invariants {
        let failure = (invariant.violations > 0).then(|| format!("{} violations", invariant.violations));
        cases.push((format!("{}: {}", invariant.name, invariant.means), failure));
    }
    for judged in &report.thresholds {
        let failure = (!judged.passed).then(|| format!("is {}", text::judged_value(judged)));
        cases.push((format!("{} {}", judged.name, judged.bound), failure));
    }
    let doubts = (report.verdict == Verdict::Invalid).then(|| report.reasons.join("\n"));
    cases.push(("the generator keeps up".to_owned(), doubts));
    let failures = cases.iter().filter(|(_, failure)| failure.is_some()).count();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"seatwire-loadgen {name}\" \
         tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{:.3}\">\n",
        cases.len(),
        report.seconds
    );
    for (case, failure) in cases {
        let _ = write!(xml, "<testcase classname=\"{name}\" name=\"{}\"", escape(&case));
        match failure {
            None => xml.push_str("/>\n"),
            Some(why) => {
                let _ = writeln!(xml, "><failure message=\"{}\"/></testcase>", escape(&why));
            }
        }
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

#[cfg(test)]
mod tests {
    use super::super::tests::good;
    use super::*;

    #[test]
    fn a_failure_is_told_and_nothing_breaks_the_xml() {
        let (mut scenario, place, facts, window) = good();
        scenario.name = "a<b>&\"c\"".to_owned();
        scenario.thresholds.push(crate::scenario::Threshold::parse("hold.won.p99", "< 1ms").expect("it is good"));
        let xml = suite(&RunReport::new(&scenario, place, facts, &window, &window));
        assert!(xml.contains("failures=\"1\""), "{xml}");
        assert!(xml.contains("name=\"hold.won.p99 &lt; 1ms\"><failure message=\"is 9.9 ms\"/>"), "{xml}");
        assert!(xml.contains("a&lt;b&gt;&amp;&quot;c&quot;"));
    }
}
