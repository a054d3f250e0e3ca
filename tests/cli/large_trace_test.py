#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands read a trace of MEGABYTES, and use at most 256 MB of memory, whatever its length. If the
disk is too small for the trace, the test is skipped, or fails where REQUIRED is set."""
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

import nettrace6
from nettrace6 import EVENT, FLUSH_METADATA, FLUSH_THREADS, STRING16, utf16z
from tool import TOOL, ToolTest

MEGABYTES = int(os.environ.get("MEGABYTES", "1024"))
COMMANDS = os.environ.get("COMMANDS", "summary spans events jsonl").split()
MEMORY_MB = 256
THREADS, SPANS_PER_THREAD = 50, 3	# in a block
BLOCK_EVENTS = THREADS * SPANS_PER_THREAD * 2
EVENT_NS = 1000
BLOCKS_PER_POINT = 64
SECONDS = 3600
START, STOP = 1, 2
PROCESS = 4242


def declare(trace):
    """Add what readers forget at a sequence point."""
    trace.threads(*[{"index": index, "name": f"worker-{index}", "process": PROCESS,
                     "thread": 5000 + index} for index in range(1, THREADS + 1)])
    trace.define(START, "Shop", "requestStart", 1, [("path", STRING16)])
    trace.define(STOP, "Shop", "requestStop", 2, [("path", STRING16)])
    trace.stacks(1, [[0x1000 + depth * 16 for depth in range(20 + each)] for each in range(40)])


class Block:
    """A block of events. Its bytes are the same each time, without the time and number of its first
    event, because compressed headers have the differences to the event before."""
    def __init__(self):
        payload = utf16z("/orders/" + "0123456789" * 12)
        last = dict(id=0, number=0, thread=0, capture=0, cpu=0, stack=0, labels=0, ticks=0, size=0)
        self.first, self.rest = None, b""
        for event in range(BLOCK_EVENTS):
            now = dict(last, number=last["number"] + 1, ticks=last["ticks"] + EVENT_NS,
                       id=STOP if event // THREADS % 2 else START, thread=1 + event % THREADS,
                       cpu=event % 4, stack=1 + event % 40, capture=1, size=len(payload))
            header = nettrace6.Trace._compressed(last, now)
            if self.first is None:
                self.first, self.start, self.payload = now, dict(last), payload
            else:
                self.rest += header + payload
            last = now

    def write(self, trace, number):
        ticks = trace.start_ticks + number * BLOCK_EVENTS * EVENT_NS
        first = dict(self.first, number=1 + number * BLOCK_EVENTS, ticks=ticks)
        payload = struct.pack("<HHqq", 20, 1, ticks, ticks + BLOCK_EVENTS * EVENT_NS)
        payload += nettrace6.Trace._compressed(self.start, first) + self.payload + self.rest
        trace.block(EVENT, payload)


def generate(path, size):
    """Write a trace of at least `size` bytes. Return the number of its events."""
    trace, block = nettrace6.Trace(), Block()
    declare(trace)
    number = written = 0
    with open(path, "wb") as file:
        while written < size:
            block.write(trace, number)
            number += 1
            if number % BLOCKS_PER_POINT == 0:
                trace.point([(1, number * BLOCK_EVENTS)], ns=number * BLOCK_EVENTS * EVENT_NS - 1,
                            flags=FLUSH_THREADS | FLUSH_METADATA)
                declare(trace)
            written += file.write(trace.bytes)
            trace.bytes = b""
        file.write(trace.end())
    return number * BLOCK_EVENTS


class LargeTrace(ToolTest):
    def setUp(self):
        super().setUp()
        free = shutil.disk_usage(self.directory).free
        if free < 2 * MEGABYTES << 20:
            missing = f"{self.directory} has {free >> 20} MB of {2 * MEGABYTES} that are needed"
            if os.environ.get("REQUIRED"):
                self.fail(missing)
            self.skipTest(missing)

    def run_measured(self, *arguments):
        """Return the last 64 KB of the output, after a check of the command's memory."""
        with subprocess.Popen([TOOL, *arguments], stdout=subprocess.PIPE,
                              env=self.environment) as process:
            last = b""
            while part := process.stdout.read(1 << 20):
                last = (last + part)[-(1 << 16):]
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss / 1024
        print(f"# figure: {' '.join(arguments[2:] or arguments[:1])} of {MEGABYTES} MB used "
              f"{peak:.0f} MB of memory and {usage.ru_utime + usage.ru_stime:.1f} s",
              file=sys.stdout, flush=True)
        self.assertEqual(process.returncode, 0, arguments)
        self.assertLessEqual(peak, MEMORY_MB, arguments)
        return last.decode(errors="replace")

    def test_memory_is_bounded_whatever_the_length(self):
        path = self.path("large.nettrace")
        events = generate(path, MEGABYTES << 20)
        self.assertGreaterEqual(os.path.getsize(path), MEGABYTES << 20)
        if "summary" in COMMANDS:
            summary = json.loads(self.run_measured("report", path, "summary", "--format=json"))
            self.assertEqual(summary["events"], events)
        if "spans" in COMMANDS:
            spans = json.loads(self.run_measured("report", path, "spans", "--format=json"))
            self.assertEqual(sum(row["count"] for row in spans), events // 2)
        if "events" in COMMANDS:
            lines = self.run_measured("report", path, "events").splitlines()
            # The frames of a stack are indented.
            self.assertIn("requestStop", [line for line in lines if line[0] != " "][-1])
        if "jsonl" in COMMANDS:
            last = self.run_measured("convert", path, "--to", "jsonl", "-q", "-o", "-")
            self.assertEqual(json.loads(last.splitlines()[-1])["event"], "requestStop")


class SmallDisk(unittest.TestCase):
    def test_a_disk_that_is_too_small_fails_only_where_the_test_is_required(self):
        for required, status, word in (("", 0, "skipped"), ("1", 1, "AssertionError")):
            done = subprocess.run([sys.executable, __file__, "LargeTrace"], check=False,
                                  stderr=subprocess.PIPE, encoding="utf-8",
                                  env=dict(os.environ, REQUIRED=required, MEGABYTES=str(1 << 40)))
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
