//! Writes the golden vectors in `proto/vectors/` anew: `cargo run -p seatwire-proto --example write_vectors`.
//! Every case states its outcome by hand; what is computed is the bytes, states and digests around it.
//! `tests/vectors.rs` checks the files as they lie in the repository, without this program.

use std::path::Path;

mod bytes;
mod frames;
mod refusals;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    std::fs::create_dir_all(&folder)?;
    write(&folder.join("digest.json"), &frames::digests())?;
    write(&folder.join("frames.json"), &serde_json::json!({ "cases": frames::cases() }))?;
    write(&folder.join("frames_refused.json"), &serde_json::json!({ "cases": refusals::cases() }))?;
    Ok(())
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
