#!/usr/bin/env bash
# Prints the folder that cargo builds into, which need not be ./target: CARGO_TARGET_DIR and cargo's own settings move it.
set -euo pipefail
cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
