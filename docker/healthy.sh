#!/bin/bash
# Succeeds when the node is ready for buyers. Bash speaks enough HTTP for that, so the image needs no curl.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/${SEATWIRE_LISTEN##*:}"
printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3
[ "$status" = 200 ]
