#!/usr/bin/env bash
# Every number of the README, measured here: codecs and inventory by benches that print their reference beside them,
# then the whole by the load generator against a server of its own. Wants a machine that does nothing else.
set -euo pipefail

cargo bench --package seatwire-proto --bench size
cargo bench --package seatwire --bench hold
cargo bench --package seatwire --bench best
cargo bench --package seatwire --bench expire
cargo bench --package seatwire --bench rebuild
cargo bench --package seatwire --bench viewers
cargo bench --package seatwire --bench checkout

cargo build --quiet --release --package seatwire --package seatwire-loadgen
built=$(scripts/built.sh)/release
work=$(mktemp -d /tmp/seatwire-bench.XXXXXX)
chmod 755 "$work"
server=
clean_up() {
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

run() { # PRESET..: each against a fresh event
    env -u DATABASE_URL -u REDIS_URL SEATWIRE_LISTEN=127.0.0.1:0 SEATWIRE_ADMIN_LISTEN=127.0.0.1:0 \
        SEATWIRE_DOOR_LISTEN=127.0.0.1:0 SEATWIRE_DATA="$work/$1" "$built/seatwire" serve >"$work/$1.out" 2>"$work/$1.log" </dev/null &
    server=$!
    for _ in $(seq 600); do
        grep -q '^seatwire: open ' "$work/$1.out" && break
        kill -0 "$server" 2>/dev/null || { cat "$work/$1.log" >&2; exit 1; }
        sleep 0.1
    done
    local url
    url=$(sed -n 's/^seatwire: open //p' "$work/$1.out")
    printf '\n== seatwire-loadgen %s\n' "$*"
    # A missed number is printed by the generator; the others are measured all the same.
    "$built/seatwire-loadgen" "${@:2}" --url "$url" --server-pid "$server" || echo "exit $?"
    kill -TERM "$server"
    wait "$server" || true
    server=
}
run onsale run onsale_5k --quiet --out report/onsale_5k
run holds run holds_500 --quiet --out report/holds_500
run crowd run holds_10k --connects-per-s 4500 --quiet --out report/holds_10k
run memory memory --viewers 9000
