#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module reads the traces of strange_traces_test.py, and traces with flipped bits, with bounded
memory: each yields events, or raises a ringpipe.Error."""
import os
import random
import resource
import subprocess
import sys
import unittest

import traces

# pylint: disable=wrong-import-position
from bit_flips_test import version_6  # noqa: E402  (traces.py adds its folder)
from strange_traces_test import TRACES, circle  # noqa: E402

SANITIZED = os.environ["SANITIZE"] != "none"
MEMORY_BYTES = 1 << 30
FLIPS = 1000
ITSELF = os.path.abspath(__file__)


def read(data, resume=False):
    """Return the number of events that the module reads, and whether it ended with an error."""
    import ringpipe  # with the limits of the child
    count = 0
    try:
        with ringpipe.open(data, resume=resume) as trace:
            for event in trace:
                repr((event.provider, event.name, event.time, event.thread, event.activity,
                      event.fields, event.utc, event.thread_name, event.stack))
                count += 1
    except ringpipe.Error:
        return count, True
    return count, False


def read_all():
    for make in TRACES:
        count, failed = read(make().end())
        assert count > 0 and not failed, (make.__name__, count, failed)


def read_flipped():
    chance, results = random.Random(9), []
    intact = (circle().end(), version_6())
    for number in range(FLIPS):
        data = bytearray(intact[number % 2])
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        results.append(read(bytes(data), number % 3 == 0))
    assert sum(failed for _, failed in results) > FLIPS // 10
    assert sum(count for count, _ in results) > FLIPS


class Strange(unittest.TestCase):
    def run_limited(self, function):
        def limit():
            if not SANITIZED:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

        done = subprocess.run([sys.executable, ITSELF, function], stderr=subprocess.PIPE,
                              preexec_fn=limit, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-3000:])

    def test_each_strange_trace_yields_all_of_its_events(self):
        self.run_limited("read_all")

    def test_flipped_bits_end_in_events_or_an_error(self):
        self.run_limited("read_flipped")


if __name__ == "__main__":
    if sys.argv[1:] in (["read_all"], ["read_flipped"]):
        globals()[sys.argv[1]]()
    else:
        unittest.main()
