#!/usr/bin/env bash
# Everything that can fail: the web app's own tests, the Rust tests, then the browser against a real server.
# Goes on after a failed stage, so that one run shows all; ends with one line of counts, and non-zero on any failure.
set -uo pipefail

export NO_COLOR=1 CARGO_TERM_COLOR=never
work=$(mktemp -d /tmp/seatwire-test.XXXXXX)
# The servers of the browser stage may run as another user.
chmod 755 "$work"
server=
failed=()

stop_server() {
    [ -n "$server" ] || return 0
    kill -TERM "$server" 2>/dev/null
    for _ in $(seq 300); do
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    server=
}
clean_up() {
    stop_server
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

stage() { # NAME COMMAND..: runs it, keeps its output, also for counting, and remembers a failure.
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$work/stage" | tee -a "$work/output"
    local status=${PIPESTATUS[0]}
    [ "$status" = 0 ] || failed+=("$name")
    return "$status"
}
# Adds up what cargo ("ok. 12 passed; 0 failed;") and vitest ("Tests  1 failed | 12 passed (13)") say.
count() {
    sed 's/\x1b\[[0-9;]*m//g' "$work/output" |
        awk -v word="$1" '/^test result:|^ *Tests +/ {
            for (i = 2; i <= NF; i++) if (index($i, word) == 1) { n = $(i - 1); if (n ~ /^[0-9]+$/) sum += n }
        } END { print sum + 0 }'
}

stage "web: lint" npm --prefix web run --silent lint
stage "web: unit tests" npm --prefix web run --silent test
# A test that fails beside the others and passes alone is told by name, and is a defect to be mended all the same.
# So are Stripe's clients and the browser's tests (web/vitest.e2e.config.ts), which each have one more try.
max_second_tries=3
second_tries=()
rust_tests() { # STAGE ARGUMENT..: cargo test with these, and what failed a second time
    local name=$1
    shift
    stage "$name" cargo test --workspace --no-fail-fast "$@" && return
    local again
    # Names of tests have no spaces.
    # shellcheck disable=SC2207
    again=($(awk '/^test .* \.\.\. FAILED$/ { print $2 }' "$work/stage" | sort -u))
    second_tries+=(${again[@]+"${again[@]}"})
    if [ ${#again[@]} -eq 0 ] || [ ${#second_tries[@]} -gt $max_second_tries ]; then
        return
    fi
    if stage "second try, one after the other" cargo test --workspace -- --test-threads=1 --exact "${again[@]}"; then
        failed=("${failed[@]:0:${#failed[@]}-1}")
    fi
}
judges() {
    stage "official Stripe clients" scripts/judges.sh && return
    second_tries+=("official Stripe clients")
    if stage "second try: official Stripe clients" scripts/judges.sh; then
        failed=("${failed[@]:0:${#failed[@]}-1}")
    fi
}
rust_tests "Rust tests"
# The sale once more where each of the hot tables is many: by event, in partitions (server/tests/it/partition).
export SEATWIRE_TEST_PARTITIONED=1
rust_tests "the sale on partitioned tables" --test it -- checkout:: partition::
unset SEATWIRE_TEST_PARTITIONED
judges

start_server() {
    local public admin door
    cargo build --quiet --package seatwire || return 1
    local seatwire
    seatwire=$(scripts/built.sh)/debug/seatwire || return 1
    # Ports of its own choice, which it says: one chosen here may be somebody else's by the time it listens. A shop gives up
    # soon on a store that does not answer; on a machine that is slow none of them is away.
    env -u DATABASE_URL -u REDIS_URL SEATWIRE_DB_ACQUIRE_MS=10000 SEATWIRE_REDIS_TIMEOUT_MS=3000 SEATWIRE_LISTEN=127.0.0.1:0 SEATWIRE_ADMIN_LISTEN=127.0.0.1:0 \
        SEATWIRE_DOOR_LISTEN=127.0.0.1:0 SEATWIRE_DATA="$work/data" "$seatwire" serve >"$work/server.log" 2>&1 </dev/null &
    server=$!
    # Its Postgres alone may take two minutes on a machine that has much else to do.
    for _ in $(seq 1800); do
        if ! kill -0 "$server" 2>/dev/null; then break; fi
        public=$(sed -n 's/^seatwire: listening on \([^,]*\), admin on .*/\1/p' "$work/server.log")
        admin=$(sed -n 's/^seatwire: listening on [^,]*, admin on \(.*\)$/\1/p' "$work/server.log")
        door=$(sed -n 's|^seatwire: doors scan at http://\(.*\)/scan/$|\1|p' "$work/server.log")
        export SEATWIRE_URL="http://$public"
        if [ -n "$door" ] && node -e 'fetch(process.argv[1]).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))' "$SEATWIRE_URL/readyz"; then
            echo "the server answers at $SEATWIRE_URL"
            # What the tests of the doors' scanner need: the listeners of doors and operators and a key for both.
            export SEATWIRE_ADMIN_URL="http://$admin" SEATWIRE_DOOR_URL="http://$door"
            SEATWIRE_ADMIN_KEY=$(env -u DATABASE_URL -u REDIS_URL SEATWIRE_DATA="$work/data" "$seatwire" \
                admin-key create --name browser --scope door --scope orders | sed -n 's/^key  *//p')
            export SEATWIRE_ADMIN_KEY
            return 0
        fi
        sleep 0.1
    done
    echo "the server did not become ready" >&2
    tail -n 40 "$work/server.log" >&2
    return 1
}

printf '\n== a server for the browser\n'
if start_server; then
    CHROMIUM=$(scripts/chromium.sh) && export CHROMIUM
    if ! stage "browser tests" npm --prefix web run --silent e2e; then
        printf '\n-- end of the server log\n'
        tail -n 40 "$work/server.log"
    fi
    # Those that the runner tried again, as it marks them.
    while IFS= read -r name; do
        second_tries+=("$name")
    done < <(sed -n 's/^ *✓ *\(.*\) (retry x[0-9]*).*/\1/p' "$work/output" | sort -u)
else
    failed+=("a server for the browser")
fi
stop_server

if [ ${#second_tries[@]} -gt 0 ]; then
    printf 'needed a second try: %s\n' "${second_tries[@]}"
fi
if [ ${#failed[@]} -eq 0 ]; then
    printf '\n%s passed, 0 failed\n' "$(count passed)"
else
    printf '\n%s passed, %s failed\n' "$(count passed)" "$(count failed)"
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
