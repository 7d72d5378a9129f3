#!/usr/bin/env bash
# Runs a command beside a private, freshly migrated Postgres that is gone afterwards; the command finds it in
# DATABASE_URL. Usage: scripts/with_postgres.sh COMMAND ARGS..
set -euo pipefail

# The newest that is installed, in the places where scripts/need.sh looks as well.
programs=$(command -v postgres || compgen -G '/usr/lib/postgresql/*/bin/postgres' ||
    compgen -G '/opt/homebrew/opt/postgresql@*/bin/postgres' || compgen -G '/usr/local/opt/postgresql@*/bin/postgres') || {
    echo "PostgreSQL is missing: make need-run" >&2
    exit 1
}
programs=$(dirname "$(readlink -f "$(sort -V <<<"$programs" | tail -n 1)")")
folder=$(mktemp -d /tmp/seatwire-sql.XXXXXX)
server=
# Unfolded with a `+`: to the bash of macOS an empty array is an unset one.
owner=()
if [ "$(id -u)" = 0 ]; then
    # Postgres refuses to run as root.
    owner=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    chown postgres "$folder"
fi

clean_up() {
    if [ -n "$server" ]; then
        kill -INT "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

${owner[@]+"${owner[@]}"} "$programs/initdb" -D "$folder/data" -U seatwire -A trust -E UTF8 --locale C.UTF-8 --no-sync >/dev/null
${owner[@]+"${owner[@]}"} "$programs/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= -c fsync=off \
    >"$folder/log" 2>&1 </dev/null &
server=$!
tries=0
until "$programs/pg_isready" -q -h "$folder" -U seatwire; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
        cat "$folder/log" >&2
        exit 1
    fi
    sleep 0.1
done
sql() { "$programs/psql" -X -q -v ON_ERROR_STOP=1 -h "$folder" -U seatwire "$@"; }
sql -d postgres -c 'create database seatwire'
for migration in migrations/*.sql; do
    [ -e "$migration" ] || continue
    sql -d seatwire --single-transaction -f "$migration"
done

export DATABASE_URL="postgres://seatwire@localhost/seatwire?host=$folder"
"$@"
