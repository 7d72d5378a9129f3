#!/usr/bin/env bash
# Sees to the programs the Makefile's targets use: `scripts/need.sh run` or `scripts/need.sh test`.
# Packages are installed where apt-get is (as root or through sudo); for everything else it says what to do. Runs with the bash
# of macOS, which is of 2007.
set -euo pipefail

purpose=${1:?run or test}
node_needed=20.19
rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
packages=()
formulas=()

say() { printf '%s\n' "$*" >&2; }
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

if ! command -v cargo >/dev/null; then
    say "Rust is missing. Install it from https://rustup.rs (version $rust_needed or later), then run this again."
    exit 1
fi
rust=$(cargo --version | cut -d' ' -f2)
if ! at_least "$rust" "$rust_needed"; then
    say "Rust $rust is too old: $rust_needed or later is needed. Run: rustup update stable"
    exit 1
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    say "Node.js with npm is missing. Install version $node_needed or later from https://nodejs.org/en/download"
    exit 1
fi
node=$(node --version | tr -d v)
if ! at_least "$node" "$node_needed"; then
    say "Node.js $node is too old: $node_needed or later is needed, see https://nodejs.org/en/download"
    exit 1
fi

command -v cc >/dev/null || packages+=(build-essential)
if ! command -v postgres >/dev/null &&
    ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null &&
    ! compgen -G '/opt/homebrew/opt/postgresql@*/bin/postgres' >/dev/null &&
    ! compgen -G '/usr/local/opt/postgresql@*/bin/postgres' >/dev/null; then
    packages+=(postgresql)
    formulas+=(postgresql@17)
fi
if ! command -v redis-server >/dev/null && ! command -v valkey-server >/dev/null; then
    packages+=(redis-server)
    formulas+=(redis)
fi
if [ "$purpose" = test ] && ! scripts/chromium.sh >/dev/null; then
    packages+=(chromium)
    formulas+=('--cask chromium')
fi

if [ "$(uname)" = Darwin ]; then
    if ! command -v cc >/dev/null; then
        say "A C compiler is missing. Run: xcode-select --install"
        exit 1
    fi
    [ ${#formulas[@]} -eq 0 ] && exit 0
    for formula in "${formulas[@]}"; do say "Missing. Run: brew install $formula"; done
    exit 1
fi
[ ${#packages[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
    say "Please install these, or what your system calls them, and run this again: ${packages[*]}"
    exit 1
fi
root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        say "Please run this as root, then try again: apt-get install ${packages[*]}"
        exit 1
    fi
    root=(sudo)
fi
say "Installing: ${packages[*]}"
"${root[@]}" apt-get update -q >&2
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}" >&2
