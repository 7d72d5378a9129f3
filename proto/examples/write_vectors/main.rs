//! Writes the golden vectors in `proto/vectors/` anew: `cargo run -p seatwire-proto --example write_vectors`.
//! Every case states its outcome by hand; what is computed is the bytes, states and digests around it.
//! `tests/vectors.rs` checks the files as they lie in the repository, without this program.

use std::path::Path;

use seatwire_proto::layout::Layout;
use seatwire_proto::layout_compact;

mod bytes;
mod frames;
mod layouts;
mod messages;
mod refusals;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    std::fs::create_dir_all(&folder)?;
    write(&folder.join("digest.json"), &frames::digests())?;
    write(&folder.join("frames.json"), &serde_json::json!({ "cases": frames::cases() }))?;
    write(&folder.join("frames_refused.json"), &serde_json::json!({ "cases": refusals::cases() }))?;
    write(&folder.join("messages.json"), &messages::messages())?;
    let layouts = folder.join("layouts.json");
    let venues = real_venues(&layouts)?;
    write(&layouts, &layouts::cases(&venues))
}

/// Compact layouts of real venues: those that lie in the file, or a layout JSON given as name=path.
fn real_venues(path: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut venues = Vec::new();
    if let Ok(text) = std::fs::read(path) {
        let value: serde_json::Value = serde_json::from_slice(&text)?;
        for case in value["cases"].as_array().into_iter().flatten().filter(|case| case["name"] == "race_track") {
            let compact = case["compact"].as_str().and_then(|text| hex::decode(text).ok()).expect("hex");
            venues.push(("race_track".to_owned(), compact));
        }
    }
    for argument in std::env::args().skip(1) {
        let (name, path) = argument.split_once('=').expect("name=path");
        let layout = Layout::from_json(&std::fs::read(path)?).map_err(std::io::Error::other)?;
        venues.retain(|(other, _)| other != name);
        venues.push((name.to_owned(), layout_compact::encode(&layout)));
    }
    Ok(venues)
}

/// One case a line keeps the files readable in a diff.
fn write(path: &Path, value: &serde_json::Value) -> std::io::Result<()> {
    let mut text = String::new();
    let members = value.as_object().expect("every file is an object");
    for (at, (name, value)) in members.iter().enumerate() {
        text.push_str(if at == 0 { "{\n" } else { ",\n" });
        text.push_str(&format!("\"{name}\": "));
        match value.as_array() {
            Some(items) => {
                text.push('[');
                for (at, item) in items.iter().enumerate() {
                    text.push_str(if at == 0 { "\n" } else { ",\n" });
                    text.push_str(&item.to_string());
                }
                text.push_str("\n]");
            }
            None => text.push_str(&value.to_string()),
        }
    }
    text.push_str("\n}\n");
    std::fs::write(path, text)
}
