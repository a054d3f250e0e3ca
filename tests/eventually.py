# SPDX-License-Identifier: MIT
"""Waits for a condition that must become true."""
import time

PATIENCE_S = 120  # seconds until a thing that should have happened counts as not happening


def eventually(condition, what, patience_s=PATIENCE_S):
    """Wait until condition() is true; return its result."""
    deadline = time.monotonic() + patience_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.01)
