//! A provider's settlement file, line by line: CSV with a header. Columns are known by several names, those of Stripe's
//! balance and payout reconciliation reports and of its dashboard's export among them; case, spaces and `(UTC)` do not
//! count. Whatever is not a charge, a refund or a dispute (payouts, fees, transfers) is passed over and counted.

use csv::StringRecord;
use seatwire_proto::money::digits;
use std::io::Read;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Charge,
    Refund,
    /// A refund that came back.
    RefundFailure,
    Dispute,
    /// A dispute that was won.
    DisputeReversal,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::RefundFailure => "refund_failure",
            Self::Dispute => "dispute",
            Self::DisputeReversal => "dispute_reversal",
        }
    }

    /// By the provider's word; `None`: nothing of ours.
    fn of(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().replace(' ', "_").as_str() {
            "charge" | "payment" => Self::Charge,
            // A payment that failed after it was credited goes back to its buyer, as a refund nobody asked for.
            "refund" | "payment_refund" | "partial_refund" | "payment_failure_refund" | "charge_failure" => {
                Self::Refund
            }
            "refund_failure" => Self::RefundFailure,
            "dispute" | "adjustment_dispute" => Self::Dispute,
            "dispute_reversal" => Self::DisputeReversal,
            _ => return None,
        })
    }
}

/// A line that is ours to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) line_n: u64,
    pub(super) kind: Kind,
    /// The provider's name for the charge, refund or dispute.
    pub(super) name: Option<String>,
    pub(super) intent: Option<String>,
    /// As the file signs it.
    pub(super) amount_minor: i64,
    pub(super) currency: String,
    /// When, epoch milliseconds.
    pub(super) created_ms: Option<i64>,
    /// Gross less fee is not net.
    pub(super) has_wrong_net: bool,
}

/// Why a file cannot be read, and where.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line_n}: {why}")]
pub(super) struct Unreadable {
    pub(super) line_n: u64,
    why: String,
}

/// Positions of the columns that are looked at.
#[derive(Debug)]
struct Columns {
    kind: usize,
    gross: usize,
    currency: usize,
    fee: Option<usize>,
    net: Option<usize>,
    charge: Option<usize>,
    intent: Option<usize>,
    refund: Option<usize>,
    source: Option<usize>,
    created: Option<usize>,
}

/// A header as it is compared.
fn plain(header: &str) -> String {
    let header = header.trim_start_matches('\u{feff}').trim().to_ascii_lowercase();
    let header = header.strip_suffix("(utc)").unwrap_or(&header).trim().replace(' ', "_");
    header.strip_suffix("_utc").unwrap_or(&header).to_owned()
}

impl Columns {
    fn of(headers: &StringRecord) -> Result<Self, Unreadable> {
        let headers: Vec<String> = headers.iter().map(plain).collect();
        let find = |names: &[&str]| names.iter().find_map(|name| headers.iter().position(|header| header == name));
        let need = |names: &[&str]| {
            let why = || format!("the header has no column {}", names.join(" or "));
            find(names).ok_or_else(|| Unreadable { line_n: 1, why: why() })
        };
        let columns = Self {
            kind: need(&["reporting_category", "type"])?,
            gross: need(&["gross", "amount"])?,
            currency: need(&["currency"])?,
            fee: find(&["fee", "fees"]),
            net: find(&["net"]),
            charge: find(&["charge_id", "charge"]),
            intent: find(&["payment_intent_id", "payment_intent", "paymentintent_id"]),
            refund: find(&["refund_id", "refund"]),
            source: find(&["source_id", "source"]),
            created: find(&["created", "created_at", "balance_transaction_created_at"]),
        };
        if columns.charge.is_none() && columns.intent.is_none() && columns.source.is_none() {
            let why = "the header has no column charge_id, payment_intent_id or source_id".to_owned();
            return Err(Unreadable { line_n: 1, why });
        }
        Ok(columns)
    }
}

/// Reads a file as it goes; never more of it than a line is in memory.
pub(super) struct Reader<R> {
    csv: csv::Reader<R>,
    columns: Columns,
    record: StringRecord,
    /// Lines passed over.
    pub(super) passed_n: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn open(from: R) -> Result<Self, Unreadable> {
        let mut csv = csv::ReaderBuilder::new().from_reader(from);
        let columns = Columns::of(csv.headers().map_err(|error| bad_line(&error))?)?;
        Ok(Self { csv, columns, record: StringRecord::new(), passed_n: 0 })
    }

    /// The next line that is ours; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line>, Unreadable> {
        loop {
            if !self.csv.read_record(&mut self.record).map_err(|error| bad_line(&error))? {
                return Ok(None);
            }
            let line_n = self.record.position().map_or(0, csv::Position::line);
            match read_line(&self.columns, &self.record, line_n) {
                Ok(Some(line)) => return Ok(Some(line)),
                Ok(None) => self.passed_n += 1,
                Err(why) => return Err(Unreadable { line_n, why }),
            }
        }
    }
}

fn bad_line(error: &csv::Error) -> Unreadable {
    Unreadable { line_n: error.position().map_or(1, csv::Position::line), why: error.to_string() }
}

fn read_line(columns: &Columns, record: &StringRecord, line_n: u64) -> Result<Option<Line>, String> {
    let field = |column: usize| record.get(column).unwrap_or_default().trim();
    let text = |column: Option<usize>| column.map(field).filter(|text| !text.is_empty()).map(str::to_owned);
    let Some(kind) = Kind::of(field(columns.kind)) else { return Ok(None) };
    let currency = field(columns.currency).to_ascii_uppercase();
    if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(format!("{:?} is no currency", field(columns.currency)));
    }
    let amount = |column: usize| {
        minor(field(column), &currency).ok_or_else(|| format!("{:?} is no amount of {currency}", field(column)))
    };
    let amount_minor = amount(columns.gross)?;
    let has_wrong_net = match (columns.fee, columns.net) {
        (Some(fee), Some(net)) if !field(fee).is_empty() && !field(net).is_empty() => {
            amount_minor.checked_sub(amount(fee)?) != Some(amount(net)?)
        }
        _ => false,
    };
    let created_ms = match text(columns.created) {
        Some(text) => Some(millis(&text).ok_or_else(|| format!("{text:?} is no time"))?),
        None => None,
    };
    let source = text(columns.source);
    let name = match kind {
        Kind::Charge => text(columns.charge).or(source),
        Kind::Refund | Kind::RefundFailure => text(columns.refund).or(source),
        Kind::Dispute | Kind::DisputeReversal => source,
    };
    let intent = text(columns.intent);
    if name.is_none() && intent.is_none() {
        return Err("neither a charge nor a payment intent is named".to_owned());
    }
    Ok(Some(Line { line_n, kind, name, intent, amount_minor, currency, created_ms, has_wrong_net }))
}

/// An amount in major units as minor ones, exactly: no binary fraction is ever made of it.
fn minor(text: &str, currency: &str) -> Option<i64> {
    let digits = digits(currency) as usize;
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.trim_end_matches('0').len() > digits {
        return None;
    }
    let padded: String = part.chars().chain(std::iter::repeat('0')).take(digits).collect();
    format!("{whole}{padded}").parse::<i64>().ok().map(|amount| sign * amount)
}

/// A time as reports write it: seconds since 1970, `2026-11-29 20:15:00`, or RFC 3339; without a zone it is UTC.
pub(super) fn millis(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return seconds.checked_mul(1_000);
    }
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond());
    }
    let at: jiff::civil::DateTime = text.parse().ok()?;
    Some(jiff::tz::TimeZone::UTC.to_timestamp(at).ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly() {
        for (text, currency, wanted) in [
            ("47.50", "EUR", Some(4750)),
            ("-7.5", "EUR", Some(-750)),
            ("0.07", "EUR", Some(7)),
            ("47", "EUR", Some(4700)),
            ("1200", "JPY", Some(1200)),
            ("1200.00", "JPY", Some(1200)),
            ("1200", "ISK", Some(1200)),
            ("1.234", "KWD", Some(1234)),
            ("1.005", "EUR", None),
            ("1,50", "EUR", None),
            ("1,200.00", "EUR", None),
            ("+5", "EUR", None),
            ("", "EUR", None),
            ("-", "EUR", None),
            ("1e3", "EUR", None),
            ("99999999999999999999", "EUR", None),
        ] {
            assert_eq!(minor(text, currency), wanted, "{text} {currency}");
        }
    }

    #[test]
    fn times_are_read_as_reports_write_them() {
        for text in ["1764447300", "2025-11-29 20:15:00", "2025-11-29T20:15:00Z", "2025-11-29T21:15:00+01:00"] {
            assert_eq!(millis(text), Some(1_764_447_300_000), "{text}");
        }
        assert_eq!((millis("yesterday"), millis("2025-13-29 20:15:00")), (None, None));
    }

    fn lines(text: &str) -> Result<Vec<Line>, Unreadable> {
        let mut reader = Reader::open(text.as_bytes())?;
        let mut lines = Vec::new();
        while let Some(line) = reader.next()? {
            lines.push(line);
        }
        Ok(lines)
    }

    #[test]
    fn columns_are_known_by_the_names_of_all_three_reports() {
        for header in [
            "balance_transaction_id,created_utc,currency,gross,fee,net,reporting_category,source_id,charge_id,payment_intent_id",
            "Id,Created (UTC),Currency,Amount,Fee,Net,Type,Source,Charge,Payment Intent",
            "id,created,currency,gross,fee,net,reporting_category,source,charge,payment_intent",
        ] {
            let file = format!("{header}\ntxn_1,2025-11-29 20:15:00,eur,47.50,1.00,46.50,charge,ch_1,ch_1,pi_1\n");
            let found = lines(&file).expect(header);
            assert_eq!(
                found,
                [Line {
                    line_n: 2,
                    kind: Kind::Charge,
                    name: Some("ch_1".into()),
                    intent: Some("pi_1".into()),
                    amount_minor: 4750,
                    currency: "EUR".into(),
                    created_ms: Some(1_764_447_300_000),
                    has_wrong_net: false,
                }],
                "{header}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_line() {
        let head = "reporting_category,gross,currency,charge_id,created_utc,fee,net\n";
        let good = "charge,1.00,eur,ch_1,1,0,1\n";
        for (file, line_n, words) in [
            (String::new(), 1, "no column"),
            ("a,b\n1,2\n".into(), 1, "reporting_category or type"),
            ("type,gross,currency\n".into(), 1, "charge_id"),
            (format!("{head}{good}charge,x,eur,ch_2,1,0,1\n"), 3, "no amount"),
            (format!("{head}{good}{good}charge,1.00,euro,ch_2,1,0,1\n"), 4, "no currency"),
            (format!("{head}{good}charge,1.00,eur,ch_2,soon,0,1\n"), 3, "no time"),
            (format!("{head}{good}charge,1.00,eur,ch_2,1,x,1\n"), 3, "no amount"),
            (format!("{head}{good}charge,1.00,eur,,1,0,1\n"), 3, "neither"),
            (format!("{head}{good}charge,1.00\n"), 3, "fields"),
        ] {
            let error = lines(&file).expect_err(&file);
            assert!(error.line_n == line_n && error.to_string().contains(words), "{file}: {error}");
        }
        let bytes = [head.as_bytes(), b"charge,1.00,eur,\xff\xfe,1,0,1\n"].concat();
        let mut reader = Reader::open(&bytes[..]).expect("the header is sound");
        assert_eq!(reader.next().expect_err("no text").line_n, 2);
        // A payout is nobody's order, whatever stands in it.
        assert_eq!(lines(&format!("{head}payout,-,eur,,,,\n")).expect("passes it over"), []);
        assert!(lines(&format!("{head}charge,1.00,eur,ch_2,1,0.10,1\n")).expect("reads")[0].has_wrong_net);
    }
}
