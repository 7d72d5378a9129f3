#!/usr/bin/env bash
# Writes .sqlx anew, or checks that it is up to date: `scripts/sqlx.sh write` or `scripts/sqlx.sh check`.
# .sqlx holds what the compiler must know about every query, so that building needs no database.
set -euo pipefail

if [ "${2:-}" != inside ]; then
    exec scripts/with_postgres.sh "$0" "${1:?write or check}" inside
fi
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
# The macros write only while they are expanded, and cargo does not see that the database changed.
touch server/src/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$fresh cargo check --quiet --package seatwire --lib --bins

if [ "$1" = check ]; then
    if ! diff -rq "$fresh" .sqlx; then
        echo "the committed query data is not what the queries and migrations give: run make sqlx" >&2
        exit 1
    fi
    exit 0
fi
rm -rf .sqlx
mkdir .sqlx
find "$fresh" -name 'query-*.json' -exec cp {} .sqlx/ \;
echo ".sqlx: $(find .sqlx -type f | wc -l) queries"
