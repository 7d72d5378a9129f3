#!/usr/bin/env bash
# Plants each bug of server/tests/planted in a scratch copy of the sources, runs the test that must catch it, and fails when
# one is not caught. `scripts/planted.sh NAME..` tries only these. Each takes about as long as compiling the server once.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export SQLX_OFFLINE=true CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$top/target}
git ls-files -z | tar --null --files-from=- --create --ignore-failed-read 2>/dev/null | tar --extract --directory "$scratch"
if [ -d web/dist ]; then mkdir -p "$scratch/web" && cp -r web/dist "$scratch/web/"; fi

missed=()
patches=()
for name in "$@"; do patches+=("server/tests/planted/$name.patch"); done
[ "$#" -gt 0 ] || patches=(server/tests/planted/*.patch)
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  bug=$(sed -n 's/^Bug: //p' "$patch" | head -1)
  test=$(sed -n 's/^Test: //p' "$patch" | head -1)
  if ! patch --quiet --directory "$scratch" --strip 1 --forward < "$patch"; then
    echo "$name: does not apply any more; plant it anew" >&2
    exit 2
  fi
  build() { (cd "$scratch" && cargo test --quiet --package seatwire --test it --no-run --message-format=json 2>/dev/null); }
  if ! program=$(build | sed -n 's/.*"executable":"\([^"]*\/it-[^"]*\)".*/\1/p' | tail -1) || [ -z "$program" ]; then
    echo "$name: does not compile any more; plant it anew" >&2
    exit 2
  fi
  if ! (cd "$scratch/server" && "$program" --exact "$test" --list 2>/dev/null) | grep ': test$' > /dev/null; then
    echo "$name: there is no test $test" >&2
    exit 2
  fi
  if (cd "$scratch/server" && timeout 180 "$program" --exact "$test") > "$scratch/said" 2>&1; then
    echo "$name: NOT CAUGHT by $test ($bug)"
    missed+=("$name")
  else
    echo "$name: caught by $test ($bug)"
    # What the test says, so that nobody has to believe that it is about the bug.
    sed -n '/panicked at/{n;p;q}' "$scratch/said" | cut -c1-200 | sed 's/^/  /'
  fi
  patch --quiet --directory "$scratch" --strip 1 --reverse < "$patch"
done
[ ${#missed[@]} -eq 0 ]
