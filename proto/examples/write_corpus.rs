//! Writes seeds for the fuzzers into `proto/fuzz/corpus/` from the golden vectors, so that fuzzing begins
//! at the edges we know: `cargo run -p seatwire-proto --example write_corpus`. The folder is not kept in git.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

struct Corpus {
    folder: PathBuf,
    written: usize,
}

impl Corpus {
    fn new(target: &str) -> std::io::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, written: 0 })
    }

    fn seed(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.written += 1;
        std::fs::write(self.folder.join(format!("vector_{}", self.written)), bytes)
    }
}

fn vectors(name: &str) -> std::io::Result<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

fn list<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value[member].as_array().into_iter().flatten()
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().and_then(|text| hex::decode(text).ok())
}

fn main() -> std::io::Result<()> {
    frames()?;
    layouts()?;
    let mut commands = Corpus::new("command")?;
    for case in list(&vectors("messages.json")?, "commands") {
        commands.seed(case["text"].as_str().unwrap_or_default().as_bytes())?;
    }
    Ok(())
}

/// As the target reads them: seats / 300, areas, shape; then a frame, or the payload behind a header made there.
fn frames() -> std::io::Result<()> {
    let mut corpus = Corpus::new("frame")?;
    for name in ["frames.json", "frames_refused.json"] {
        let file = vectors(name)?;
        for case in list(&file, "cases") {
            let seats = (case["seat_count"].as_u64().unwrap_or(0) / 300 + 1).min(255) as u8;
            let areas = case["area_count"].as_u64().unwrap_or(0) as u8;
            for frame in list(case, "steps").filter_map(|step| bytes(&step["frame"])) {
                corpus.seed(&[&[seats, areas, 0], &frame[..]].concat())?;
                if let Some((header, payload)) = frame.split_first_chunk::<48>()
                    && header[4] & 1 == 0
                {
                    let shape = 1 | (header[3].wrapping_sub(1) & 1) << 1 | (header[5] % 3) << 2;
                    corpus.seed(&[&[seats, areas, shape], payload].concat())?;
                }
            }
        }
    }
    Ok(())
}

/// Compact layouts as they are and inflated, and the JSON where it is given.
fn layouts() -> std::io::Result<()> {
    let (mut compact, mut json) = (Corpus::new("layout_compact")?, Corpus::new("layout_json")?);
    let file = vectors("layouts.json")?;
    for case in list(&file, "cases").chain(list(&file, "refused")) {
        let bytes = bytes(&case["compact"]).unwrap_or_default();
        compact.seed(&[&[0], &bytes[..]].concat())?;
        let mut inflated = vec![1];
        let stream = bytes.get(8..).unwrap_or_default();
        if flate2::read::DeflateDecoder::new(stream).read_to_end(&mut inflated).is_ok() {
            compact.seed(&inflated)?;
        }
        if let Some(text) = case["stored_json"].as_str() {
            json.seed(text.as_bytes())?;
        }
    }
    Ok(())
}
