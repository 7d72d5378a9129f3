//! `seatwire audit --settlement FILE`: whether the provider's own account of charges, refunds and disputes says what our
//! books say. The file is read as it goes and laid beside the books in Postgres, so that its size does not matter.
//! Every disagreement is a line; 0 when there is none, 1 when there is one, 2 when the file cannot be read.

mod file;

use super::stores::Stores;
use super::{Failed, say};
use crate::config::Config;
use crate::store::Store;
use crate::store::settlement::{self, Found, SettlementRow, Window};
use file::{Line, Reader};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Lines of the file written at once.
const BATCH: usize = 1_000;
/// Something was found.
const EXIT_FOUND: u8 = 1;
/// The file cannot be read.
const EXIT_UNREADABLE: u8 = 2;

/// What is compared.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// The provider's settlement file (CSV) to compare the books with.
    #[arg(long = "settlement", value_name = "FILE", id = "settlement")]
    pub(super) file: Option<PathBuf>,
    /// Orders paid from then on must be in the file; without it, those paid since its first line.
    #[arg(long, requires = "settlement", value_parser = time)]
    from: Option<i64>,
    /// Orders paid until then must be in the file; without it, until its last line.
    #[arg(long, requires = "settlement", value_parser = time)]
    to: Option<i64>,
}

fn time(text: &str) -> Result<i64, String> {
    file::millis(text).ok_or_else(|| "expected 2026-11-29T20:15:00Z or seconds since 1970".to_owned())
}

/// What was read of a file.
#[derive(Debug, Default)]
struct Read {
    lines_n: u64,
    passed_n: u64,
    first_ms: Option<i64>,
    last_ms: Option<i64>,
    found_n: u64,
}

/// Compares and prints.
pub(super) async fn run(config: &Config, path: &Path, args: &Args) -> Result<(), Failed> {
    let unreadable = |why: String| Failed { exit: EXIT_UNREADABLE, line: format!("{}: {why}", path.display()) };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut reader = Reader::open(BufReader::new(file)).map_err(|error| unreadable(error.to_string()))?;
    let compared = Stores::with_database(config, async |store| {
        let run = settlement::begin(store.pool()).await?;
        let done = compare(store, run, config.checkout.provider_name(), &mut reader, args).await;
        settlement::end(store.pool(), run).await?;
        done
    })
    .await;
    let read = match compared {
        Ok(read) => read,
        Err(error) => {
            return Err(match error.downcast::<file::Unreadable>() {
                Ok(error) => unreadable(error.to_string()),
                Err(error) => error.into(),
            });
        }
    };
    say(&format!("{} lines compared, {} of other kinds passed over", read.lines_n, read.passed_n));
    if read.found_n == 0 {
        say("everything agrees");
        return Ok(());
    }
    Err(Failed { exit: EXIT_FOUND, line: format!("{} disagreements", read.found_n) })
}

async fn compare(
    store: &Store,
    run: settlement::RunId,
    provider: &str,
    reader: &mut Reader<BufReader<File>>,
    args: &Args,
) -> anyhow::Result<Read> {
    let mut read = Read::default();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let next = reader.next()?;
        if let Some(line) = &next {
            read.lines_n += 1;
            if let Some(at_ms) = line.created_ms {
                read.first_ms = Some(read.first_ms.map_or(at_ms, |first| first.min(at_ms)));
                read.last_ms = Some(read.last_ms.map_or(at_ms, |last| last.max(at_ms)));
            }
            if line.has_wrong_net {
                tell(&mut read, &format!("line {}: gross less fee is not net", line.line_n));
            }
        }
        let is_end = next.is_none();
        batch.extend(next.map(row_of));
        if batch.len() == BATCH || is_end {
            settlement::insert(store.pool(), run, &batch).await?;
            batch.clear();
        }
        if is_end {
            break;
        }
    }
    read.passed_n = reader.passed_n;
    // A time in the file is a whole second.
    let last_ms = read.last_ms.map(|last| last + 999);
    let window = Window { from_ms: args.from.or(read.first_ms), to_ms: args.to.or(last_ms) };
    let mut found_n = 0;
    settlement::compare(store.pool(), run, provider, window, &mut |found: Found| {
        found_n += 1;
        say(&format!("  {found}"));
    })
    .await?;
    read.found_n += found_n;
    Ok(read)
}

fn tell(read: &mut Read, line: &str) {
    read.found_n += 1;
    say(&format!("  {line}"));
}

fn row_of(line: Line) -> SettlementRow {
    SettlementRow {
        line_n: line.line_n.cast_signed(),
        kind: line.kind.as_str(),
        name: line.name,
        intent: line.intent,
        amount_minor: line.amount_minor,
        currency: line.currency,
    }
}
