#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds and starts the servers, and explains their slowest request. usage: demo.sh [OUT]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/stack
"$root/scripts/setup" long
[[ -e $build/build.ninja ]] || meson setup "$build" "$root" >/dev/null
ninja -C "$build" >/dev/null
exec python3 "$(dirname "$0")/stack.py" "$build" "${1:-.}"
