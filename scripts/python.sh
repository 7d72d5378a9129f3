#!/usr/bin/env bash
# Python packages that only tests use (server/tests/judges/requirements.txt), in a place of their own under target/. Prints the
# interpreter; fails, and says why, where they cannot be installed. Safe to call from several tests at once.
set -euo pipefail
cd "$(dirname "$0")/.."

home=target/judges/python
wanted=server/tests/judges/requirements.txt
mkdir -p target/judges
exec 9>target/judges/python.lock
if command -v flock >/dev/null; then flock 9; fi
if ! cmp -s "$wanted" "$home/installed.txt"; then
    [ -x "$home/bin/python" ] || python3 -m venv "$home" >&2
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted" >&2
    cp "$wanted" "$home/installed.txt"
fi
echo "$PWD/$home/bin/python"
