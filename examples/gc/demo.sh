#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the example and runs it under load. usage: demo.sh [REQUESTS]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/gc
"$root/scripts/setup" demo
[[ -d $build ]] || meson setup "$build" "$root" -Dexamples=enabled >/dev/null
ninja -C "$build" examples/gc/gc_server examples/gc/gc_collector.so \
	src/tools/ringpipe/ringpipe >/dev/null
exec python3 "$(dirname "$0")/demo.py" "$build" "$@"
