#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds the module and runs the example under load. usage: demo.sh [REQUESTS]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/lua
"$root/scripts/setup" demo
[[ -d $build ]] || meson setup "$build" "$root" -Dlua=enabled >/dev/null
ninja -C "$build" src/modules/lua/ringpipe.so src/libringpipe-symbols.so \
	src/tools/ringpipe/ringpipe >/dev/null
exec python3 "$(dirname "$0")/demo.py" "$build" "$@"
