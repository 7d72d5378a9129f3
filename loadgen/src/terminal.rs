//! What a run shows while it runs: a block that is redrawn on a terminal, a plain line a second anywhere else.

use crate::report::Row;
use std::io::{IsTerminal as _, Write as _};

/// Width of the bar.
const BAR: usize = 32;

/// Colour where there is a terminal that wants it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    is_on: bool,
}

impl Paint {
    /// For standard output. `NO_COLOR` (no-color.org) turns it off.
    pub(crate) fn for_stdout() -> Self {
        Self { is_on: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    fn put(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.put("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.put("2", text)
    }

    /// A tick or a cross; words where there is no colour.
    pub(crate) fn mark(self, good: bool) -> String {
        match (good, self.is_on) {
            (true, true) => self.put("32", "✓"),
            (false, true) => self.put("1;31", "✗"),
            (true, false) => "ok  ".to_owned(),
            (false, false) => "FAIL".to_owned(),
        }
    }

    pub(crate) fn verdict(self, word: &str, exit_code: u8) -> String {
        let code = match exit_code {
            0 => "1;32",
            98 => "1;33",
            _ => "1;31",
        };
        self.put(code, &format!("{word} (exit {exit_code})"))
    }
}

/// The state of a run.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    /// What is going on.
    pub(crate) word: String,
    /// How much of it is done, 0 to 1.
    pub(crate) share: f64,
    pub(crate) now_us: u64,
    pub(crate) viewers: u32,
    pub(crate) buyers: u32,
    /// The last second that is complete.
    pub(crate) row: Option<Row>,
    pub(crate) won: u64,
    pub(crate) lost: u64,
    pub(crate) paid: u64,
    pub(crate) trouble: Option<String>,
    pub(crate) server_cpu_pct: Option<f64>,
    pub(crate) server_heap_bytes: Option<u64>,
}

/// Where a run is shown.
#[derive(Debug)]
pub(crate) struct Screen {
    is_live: bool,
    is_quiet: bool,
    drawn_lines: usize,
}

impl Screen {
    /// Standard error, so that standard output stays the report's.
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_live: std::io::stderr().is_terminal(), is_quiet, drawn_lines: 0 }
    }

    /// Shows the state.
    pub(crate) fn show(&mut self, status: &Status) {
        if self.is_quiet {
            return;
        }
        let mut out = std::io::stderr().lock();
        // A terminal that is gone does not end a run.
        let _ = if self.is_live {
            let lines = block(status);
            let back = if self.drawn_lines > 0 { format!("\x1b[{}A", self.drawn_lines) } else { String::new() };
            self.drawn_lines = lines.len();
            let text: String = lines.iter().map(|line| format!("\x1b[2K{line}\n")).collect();
            write!(out, "{back}{text}")
        } else {
            writeln!(out, "{}", line(status))
        };
        let _ = out.flush();
    }

    /// Leaves what was shown and goes on below it.
    pub(crate) const fn end(self) {}
}

fn facts(status: &Status) -> Vec<(&'static str, String)> {
    let mut facts = vec![("viewers", status.viewers.to_string()), ("buyers", status.buyers.to_string())];
    if let Some(row) = &status.row {
        let spread = |spread: Option<crate::report::Spread>| {
            spread.map_or_else(
                || "-".to_owned(),
                |s| format!("{:.0}/{:.0} ms", s.p50_us as f64 / 1e3, s.p99_us as f64 / 1e3),
            )
        };
        facts.push(("holds/s", row.won.to_string()));
        facts.push(("hold p50/p99", spread(row.hold_won)));
        facts.push(("to viewer p50/p99", spread(row.commit_to_viewer)));
        facts.push(("frames/s", row.frames.to_string()));
        facts.push(("in", format!("{:.1} MB/s", row.bytes_in as f64 / 1e6)));
    }
    facts.push(("won", status.won.to_string()));
    facts.push(("lost", status.lost.to_string()));
    facts.push(("paid", status.paid.to_string()));
    if let Some(cpu) = status.server_cpu_pct {
        facts.push(("server cpu", format!("{cpu:.0} %")));
    }
    if let Some(heap) = status.server_heap_bytes {
        facts.push(("server heap", format!("{:.1} MB", heap as f64 / 1e6)));
    }
    facts
}

fn line(status: &Status) -> String {
    let facts: Vec<String> = facts(status).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
    let trouble = status.trouble.as_ref().map(|trouble| format!("; {trouble}")).unwrap_or_default();
    format!(
        "{:>6.1} s  {} {:.0} %  {}{trouble}",
        status.now_us as f64 / 1e6,
        status.word,
        status.share * 100.0,
        facts.join(", ")
    )
}

fn block(status: &Status) -> Vec<String> {
    let full = (status.share * BAR as f64).round() as usize;
    let bar: String = (0..BAR).map(|at| if at < full { '━' } else { '╌' }).collect();
    let mut lines = vec![format!(
        "\x1b[1m{:<16}\x1b[0m \x1b[36m{bar}\x1b[0m {:>3.0} %  {:>6.1} s",
        status.word,
        status.share * 100.0,
        status.now_us as f64 / 1e6
    )];
    for pair in facts(status).chunks(4) {
        let cells: String = pair.iter().map(|(name, value)| format!("\x1b[2m{name}\x1b[0m {value:<14} ")).collect();
        lines.push(format!("  {cells}"));
    }
    while lines.len() < 5 {
        lines.push(String::new());
    }
    let trouble = status.trouble.as_ref().map(|trouble| format!("  \x1b[33m{trouble}\x1b[0m")).unwrap_or_default();
    lines.push(trouble);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_always_has_as_many_lines_so_that_it_is_redrawn_in_place() {
        let mut status = Status {
            word: "on sale".to_owned(),
            share: 0.5,
            now_us: 1_000_000,
            viewers: 5,
            buyers: 5,
            row: None,
            won: 0,
            lost: 0,
            paid: 0,
            trouble: None,
            server_cpu_pct: None,
            server_heap_bytes: None,
        };
        let few = block(&status).len();
        status.row = Some(Row::of(1, &crate::tally::Window::default(), None, None, None));
        status.trouble = Some("x".to_owned());
        status.server_cpu_pct = Some(1.0);
        status.server_heap_bytes = Some(1);
        assert_eq!(block(&status).len(), few);
        assert!(line(&status).contains("50 %"));
    }
}
