#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces the shop under load; compares the trace and the counters with the shop's own books.
set -euo pipefail
exec python3 "$(dirname "$0")/demo.py" "$@"
