//! Tells cargo which files outside of the crate are part of the program: new ones are not noticed otherwise.

use std::path::Path;

fn main() {
    // A folder that is missing would be looked for, and the crate built, every time. Where it cannot be made it is.
    let app = Path::new("../web/dist");
    if !app.exists() {
        let _ = std::fs::create_dir_all(app);
    }
    for folder in ["../web/dist", "../migrations"] {
        emit(folder);
    }
}

fn emit(folder: &str) {
    println!("cargo:rerun-if-changed={folder}");
}
