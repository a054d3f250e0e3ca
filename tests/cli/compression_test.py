#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compressed traces: zstd restores them, the table of frames is that of the seekable format, and
damage costs no more than what follows it."""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import unittest

import nettrace
from tool import ToolTest

EVENTS = 60000


def trace_of(events, name=lambda at: f"customer {at * 7919 % 100003}"):
    trace = nettrace.Trace()
    trace.define(1, "Shop", "OrderPlaced", 5, [("id", 12), ("customer", 18)])
    for start in range(0, events, 1000):
        trace.events(1, [nettrace.order(at, name(at))
                         for at in range(start, start + 1000)], thread=7, ns=start * 1000)
    return trace.end()


def frames_of(data):
    """Parse the table at the end, by zstd_seekable_compression_format.md. Return (compressed,
    plain) of each frame."""
    count, descriptor, magic = struct.unpack("<IBI", data[-9:])
    assert (descriptor, magic) == (0, 0x8f92eab1), (descriptor, magic)
    size = count * 8 + 9
    assert struct.unpack("<II", data[-size - 8:-size]) == (0x184d2a5e, size)
    return [struct.unpack("<II", data[-size + 8 * at:][:8]) for at in range(count)]


def unzstd(data):
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


class Compression(ToolTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = trace_of(EVENTS)

    def compress(self, *options, plain=None):
        path = self.write("plain.nettrace", plain or self.plain)
        self.run_tool("convert", path, "-f", "-o", "t.nettrace.zst", *options)
        return self.read("t.nettrace.zst")

    def count(self, path, status=0, **options):
        """Return the events that report counts, and its messages."""
        output, errors = self.run_tool("report", "--format", "json", path, status=status,
                                       **options)
        return json.loads(output)["events"] if output else 0, errors

    def test_zstd_restores_the_trace_in_its_version(self):
        compressed = self.compress()
        self.run_tool("convert", "plain.nettrace", "-f", "-o", "again.nettrace", "--format", "4")
        self.assertEqual(unzstd(compressed), self.read("again.nettrace"))
        self.assertLess(len(compressed), 0.4 * len(self.plain))

    def test_each_frame_is_where_the_table_states(self):
        compressed = self.compress("--format", "6")
        plain, at = unzstd(compressed), 0
        frames = frames_of(compressed)
        self.assertGreater(len(frames), 1)
        for size, plain_size in frames:
            self.assertEqual(unzstd(compressed[at:at + size]), plain[:plain_size])
            plain, at = plain[plain_size:], at + size
        self.assertEqual(plain, b"")

    def test_commands_read_it_like_the_plain_trace(self):
        self.compress()
        self.assertEqual(self.count("t.nettrace.zst")[0], EVENTS)
        for path in "t.nettrace.zst", "plain.nettrace":
            self.run_tool("convert", path, "-f", "--format", "6", "-o", f"{path}.6")
        self.assertEqual(self.read("t.nettrace.zst.6"), self.read("plain.nettrace.6"))
        self.assertEqual(self.count("-", data=self.read("t.nettrace.zst"))[0], EVENTS)

    def test_a_cut_file_has_the_events_before_the_cut(self):
        compressed = self.compress()
        first = frames_of(compressed)[0][0]
        before = -1
        for cut in 0, 3, 5, first // 2, first, first + 100, len(compressed) // 2:
            self.write("cut.zst", compressed[:cut])
            if cut < 100:
                self.assertIn("not a nettrace file",
                              self.run_tool("report", "cut.zst", status=1)[1])
                continue
            events, errors = self.count("cut.zst", status=1)
            self.assertIn("stops before its end", errors)
            self.assertGreaterEqual(events, before)
            self.assertLess(events, EVENTS)
            before = events
        self.assertGreater(before, 1000)
        # Without the table, the trace is complete.
        self.write("cut.zst", compressed[:-(8 + 9 + 8 * len(frames_of(compressed)))])
        self.assertEqual(self.count("cut.zst")[0], EVENTS)

    def test_a_changed_bit_is_found(self):
        compressed = bytearray(self.compress())
        for at in range(200, len(compressed) - 200, len(compressed) // 12):
            compressed[at] ^= 16
            self.write("changed.zst", bytes(compressed))
            events, errors = self.count("changed.zst", status=1)
            self.assertIn("a damaged frame of zstd: ", errors)
            self.assertLess(events, EVENTS)
            compressed[at] ^= 16

    RANGE = "--from", "0.030000 s", "--to", "30100us"	# of the frames in the middle

    def events_of_range(self, path, **options):
        return self.run_tool("report", path, "events", "--format", "csv", *self.RANGE, **options)[0]

    def test_a_range_of_time_is_that_of_the_plain_trace(self):
        self.compress()
        wanted = self.events_of_range("plain.nettrace")
        self.assertEqual(len(wanted.splitlines()), 101)
        for _ in "without an index", "with an index":
            self.assertEqual(self.events_of_range("t.nettrace.zst"), wanted)
        self.assertEqual(self.events_of_range("-", data=self.read("t.nettrace.zst")), wanted)
        for what in "summary", "spans", "timeline":
            options = "report", what, *self.RANGE, "--format", "json"
            found, expected = (json.loads(self.run_tool(options[0], path, *options[1:])[0])
                               for path in ("t.nettrace.zst", "plain.nettrace"))
            if what == "summary":	# it has the name of the file, and how much was read
                found, expected = (dict(row, file=None, bytes=0) for row in (found, expected))
            self.assertEqual(found, expected)

    def test_a_range_reads_no_frame_of_other_times(self):
        chance = random.Random(1)
        compressed = bytearray(self.compress(plain=trace_of(EVENTS, lambda at: hex(
            chance.getrandbits(240)))))
        frames = frames_of(compressed)
        self.assertGreater(len(frames), 6)
        wanted = self.events_of_range("t.nettrace.zst")
        status = os.stat(self.path("t.nettrace.zst"))
        last = sum(size for size, _ in frames[:-3])
        compressed[last:last + 100] = bytes(100)
        self.write("t.nettrace.zst", compressed)
        os.utime(self.path("t.nettrace.zst"), ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assertEqual(self.events_of_range("t.nettrace.zst"), wanted)
        self.count("t.nettrace.zst", status=1)

    def test_a_table_of_another_program_is_read_and_a_wrong_one_is_ignored(self):
        compressed = self.compress()
        frames = frames_of(compressed)
        wanted = self.events_of_range("plain.nettrace")
        content = compressed[:sum(size for size, _ in frames)]

        def table(rows, descriptor, count=None, magic=0x8f92eab1):
            body = b"".join(rows) + struct.pack("<IBI", len(rows) if count is None else count,
                                                descriptor, magic)
            return struct.pack("<II", 0x184d2a5e, len(body)) + body

        plain = [struct.pack("<II", *row) for row in frames]
        for tail in (table([struct.pack("<III", *row, 7) for row in frames], 0x80),
                     table(plain[:-1], 0), table(plain, 4), table(plain, 0, len(plain) + 1),
                     table(plain, 0, 0), table(plain, 0, 2**32 - 1), table(plain, 0, magic=1), b""):
            path = self.write("other.zst", content + tail)
            self.assertEqual(self.events_of_range(path), wanted)

    def test_a_full_disk_is_reported(self):
        path = self.write("plain.nettrace", self.plain)
        os.symlink("/dev/full", self.path("full.zst"))
        errors = self.run_tool("convert", path, "-f", "-o", "full.zst", status=1)[1]
        self.assertIn("No space left on device", errors)


if __name__ == "__main__":
    if not shutil.which("zstd"):
        print("skipped: zstd is not installed")
        sys.exit(77)
    unittest.main()
