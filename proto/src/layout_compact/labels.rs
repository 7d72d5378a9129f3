//! Labels as rules: "numbers from 1 by 1", "letters from A, doubled after Z", or words as they are.
//! `write` finds the rules of seat and row labels, `read` expands them again.

use std::collections::HashMap;

/// How a run of labels goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Count {
    /// Decimal digits, padded with zeros to so many; 0: not padded.
    Numbers(u8),
    /// A..Z, AA, AB .. AZ, BA ..
    Letters,
    /// A..Z, AA, BB .. ZZ, AAA ..
    Doubled,
}

/// Labels that follow each other by a rule: prefix, a counter, suffix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Run {
    /// One label as it is.
    Word(String),
    /// `labels` of them (0: up to the end of the row), the counter going from `start` by `step`.
    Counted { count: Count, prefix: String, suffix: String, start: u32, step: i32, labels: u32 },
}

/// The labels of one row, or of the rows of a section. Only the last run may be open-ended.
pub(super) type Rule = Vec<Run>;

/// Counters stay below this: nine digits.
pub(super) const MAX_COUNTER: u32 = 1_000_000_000;
const ALPHABET: u32 = 26;

/// A label taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Parts<'a> {
    count: Count,
    prefix: &'a str,
    suffix: &'a str,
    counter: u32,
}

impl<'a> Parts<'a> {
    fn of_number(label: &'a str) -> Option<Self> {
        let end = label.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = label[..end]
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + label[at..].chars().next().map_or(1, char::len_utf8));
        let digits = &label[start..end];
        if digits.len() > 9 {
            return None;
        }
        let width = if digits.len() > 1 && digits.starts_with('0') { digits.len() as u8 } else { 0 };
        let counter = digits.parse().ok()?;
        Some(Self { count: Count::Numbers(width), prefix: &label[..start], suffix: &label[end..], counter })
    }

    fn of_letters(label: &'a str, count: Count) -> Option<Self> {
        let start = label
            .rfind(|c: char| !c.is_ascii_uppercase())
            .map_or(0, |at| at + label[at..].chars().next().map_or(1, char::len_utf8));
        let letters = &label[start..];
        if letters.is_empty() || letters.len() > 4 {
            return None;
        }
        let mut counter = 0;
        for letter in letters.bytes() {
            counter = counter * ALPHABET + u32::from(letter - b'A') + 1;
        }
        if count == Count::Doubled {
            let first = letters.as_bytes()[0];
            if letters.bytes().any(|letter| letter != first) {
                return None;
            }
            counter = (letters.len() as u32 - 1) * ALPHABET + u32::from(first - b'A') + 1;
        }
        Some(Self { count, prefix: &label[..start], suffix: "", counter: counter - 1 })
    }

    /// The same rule at another counter? A padded rule goes on while labels keep their width.
    fn goes_on(self, label: &str, counter: i64) -> bool {
        let Ok(counter) = u32::try_from(counter) else { return false };
        if counter >= MAX_COUNTER {
            return false;
        }
        let mut text = String::new();
        write_label(&mut text, self.count, self.prefix, self.suffix, counter);
        text == label
    }
}

/// Appends one label of a counted run.
pub(super) fn write_label(out: &mut String, count: Count, prefix: &str, suffix: &str, counter: u32) {
    out.push_str(prefix);
    match count {
        Count::Numbers(width) => out.push_str(&format!("{counter:0width$}", width = usize::from(width))),
        Count::Letters => {
            let mut letters = Vec::new();
            let mut left = u64::from(counter) + 1;
            while left > 0 {
                left -= 1;
                letters.push((b'A' + (left % u64::from(ALPHABET)) as u8) as char);
                left /= u64::from(ALPHABET);
            }
            out.extend(letters.iter().rev());
        }
        Count::Doubled => {
            let letter = (b'A' + (counter % ALPHABET) as u8) as char;
            // A foreign counter may ask for millions of letters; no label is that long.
            let times = (counter / ALPHABET + 1).min(crate::layout::MAX_LABEL_BYTES as u32 + 1);
            out.extend(std::iter::repeat_n(letter, times as usize));
        }
    }
    out.push_str(suffix);
}

/// The rule that makes exactly these labels, in the fewest runs a greedy search finds.
pub(super) fn rule_of(labels: &[&str]) -> Rule {
    let mut rule = Vec::new();
    let mut left = labels;
    while let Some((first, rest)) = left.split_first() {
        let candidates = [
            Parts::of_number(first),
            Parts::of_letters(first, Count::Letters),
            Parts::of_letters(first, Count::Doubled),
        ];
        let best = candidates
            .into_iter()
            .flatten()
            .map(|parts| (run_length(parts, rest), parts))
            // The first of equals: numbers before letters, plain letters before doubled ones.
            .rev()
            .max_by_key(|((length, _), _)| *length);
        let run_labels = match best {
            Some(((length, step), parts)) if length > 1 || (length == 1 && left.len() == 1) => {
                let is_last = length == left.len();
                rule.push(Run::Counted {
                    count: parts.count,
                    prefix: parts.prefix.into(),
                    suffix: parts.suffix.into(),
                    start: parts.counter,
                    step,
                    labels: if is_last { 0 } else { length as u32 },
                });
                length
            }
            _ => {
                rule.push(Run::Word((*first).into()));
                1
            }
        };
        left = &left[run_labels..];
    }
    rule
}

/// How many labels, the first included, follow the parts' rule, and by which step.
fn run_length(parts: Parts<'_>, rest: &[&str]) -> (usize, i32) {
    let same_kind = |label| match parts.count {
        Count::Numbers(_) => Parts::of_number(label),
        count => Parts::of_letters(label, count),
    };
    // A row of one seat is taken to go on by 1, so that it shares its rule with longer ones.
    let Some(second) = rest.first().and_then(|label| same_kind(label)) else { return (1, 1) };
    let step = i64::from(second.counter) - i64::from(parts.counter);
    let Ok(small_step) = i32::try_from(step) else { return (1, 1) };
    let mut counter = i64::from(parts.counter);
    let follow = rest.iter().take_while(|label| {
        counter += step;
        parts.goes_on(label, counter)
    });
    match follow.count() {
        0 => (1, 1),
        more => (1 + more, small_step),
    }
}

/// All rules of a layout, each once.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) list: Vec<Rule>,
    places: HashMap<Rule, usize>,
}

impl Rules {
    /// The place of a rule in the list.
    pub(super) fn place(&mut self, rule: Rule) -> usize {
        let Self { list, places } = self;
        *places.entry(rule).or_insert_with_key(|rule| {
            list.push(rule.clone());
            list.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(rule: &Rule, labels: usize) -> Vec<String> {
        let mut out = Vec::new();
        for run in rule {
            match run {
                Run::Word(word) => out.push(word.clone()),
                Run::Counted { count, prefix, suffix, start, step, labels: run_labels } => {
                    let more = if *run_labels == 0 { labels - out.len() } else { *run_labels as usize };
                    for at in 0..more as i64 {
                        let mut text = String::new();
                        let counter = i64::from(*start) + at * i64::from(*step);
                        write_label(&mut text, *count, prefix, suffix, u32::try_from(counter).expect("in range"));
                        out.push(text);
                    }
                }
            }
        }
        out
    }

    #[test]
    fn usual_labels_are_one_run_and_come_back() {
        let cases: [&[&str]; 9] = [
            &["1", "2", "3", "4"],
            &["2", "4", "6"],
            &["9", "7", "5", "3"],
            &["A", "B", "C"],
            &["Y", "Z", "AA", "AB"],
            &["Y", "Z", "AA", "BB", "CC"],
            &["Row 8", "Row 9", "Row 10"],
            &["01", "02", "03"],
            &["12a", "13a", "14a"],
        ];
        for labels in cases {
            let rule = rule_of(labels);
            assert_eq!(rule.len(), 1, "{labels:?}: {rule:?}");
            assert_eq!(expand(&rule, labels.len()), labels);
        }
    }

    #[test]
    fn rows_of_different_lengths_share_a_rule() {
        assert_eq!(rule_of(&["1", "2", "3"]), rule_of(&["1", "2", "3", "4", "5"]));
        assert_eq!(rule_of(&["1"]), rule_of(&["1", "2"]));
    }

    #[test]
    fn unusual_labels_come_back_too() {
        let cases: [&[&str]; 8] = [
            &["AB", "BB", "CC"],
            &["A", "B", "C", "D", "E", "F", "G", "H", "J", "K"],
            &["1", "2", "2", "7", "x", "", "é1", "é2"],
            &["09", "10", "11", "099", "100"],
            &["99999999999", "100000000000"],
            &["W1", "W2", "1", "2", "3", "W3"],
            &["ÄA", "ÄB"],
            &["0", "1", "AAAAA", "ZZZZ", "AAAAA"],
        ];
        for labels in cases {
            assert_eq!(expand(&rule_of(labels), labels.len()), labels);
        }
    }
}
