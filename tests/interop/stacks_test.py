#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks arrive in TraceLog as they were: stacks_host.c writes from a known depth.

Environment: INTEROP_BUILD, STACKS_HOST.
"""

import json
import os
import subprocess
import unittest

import clients

NEAR = 4096	# a function of the host is shorter


class Stacks(clients.Scratch):
    def test_frames_are_the_calls_innermost_first(self):
        trace = self.path("stacks.nettrace")
        done = subprocess.run([os.environ["STACKS_HOST"], trace], stdout=subprocess.PIPE,
                              check=True, timeout=60)
        functions = json.loads(done.stdout)
        rows, _ = clients.TraceRead().events(trace, "--stacks")
        named = {row["fields"]["depth"]: [function_at(frame["address"], functions)
                                          for frame in row["stack"]]
                 for row in rows if row["provider"] == "Stacks-Host"}
        self.assertEqual(sorted(named), [0, 3])
        known = {depth: [name for name in names if name] for depth, names in named.items()}
        self.assertEqual(known[3], ["write", "inner", "middle", "outer", "main"])
        self.assertEqual(known[0], ["write", "main"])


def function_at(address, functions):
    """The function that begins last at or before the address, or None."""
    before = {start: name for name, start in functions.items() if 0 <= address - start < NEAR}
    return before[max(before)] if before else None


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
