#!/bin/bash
# SPDX-License-Identifier: MIT
# Records the whole machine while the shop, redis and a .NET program run under load.
set -euo pipefail
exec python3 "$(dirname "$0")/demo.py" "$@"
