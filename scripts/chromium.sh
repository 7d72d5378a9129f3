#!/usr/bin/env bash
# Prints the Chromium the browser tests run in: what CHROMIUM says, else where Debian and Homebrew put one. Fails without one.
set -euo pipefail
places=(/usr/bin/chromium /Applications/Chromium.app/Contents/MacOS/Chromium)
if [ -n "${CHROMIUM:-}" ]; then places=("$CHROMIUM"); fi
for program in "${places[@]}"; do
    if [ -x "$program" ]; then
        printf '%s\n' "$program"
        exit 0
    fi
done
exit 1
