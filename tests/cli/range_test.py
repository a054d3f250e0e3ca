#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`--from` and `--to`: the events that Python wrote at those times, with their stacks, threads and
labels, read through the index next to the trace."""
import json
import os
import random
import struct
import unittest
import uuid

import nettrace
import nettrace6 as v6
from tool import ToolTest

BLOCKS, EVENTS = 400, 60
STEP_NS = 1000
END_NS = BLOCKS * EVENTS * STEP_NS
PAD = bytes(40)


class Expected:
    """The events of a trace, as `report events --format json` must print them."""

    def __init__(self):
        self.rows = []

    def between(self, from_ns, to_ns):
        return [row for ns, row in self.rows if from_ns <= ns < to_ns]


def shuffled_ns(number, choice):
    """The time of an event: some are late by more than a block."""
    late = choice.randrange(3 * EVENTS) if choice.random() < 0.02 else 0
    return max(0, number - late) * STEP_NS


def trace4():
    """Stacks are defined again after each sequence point, and new events all the time."""
    choice, expected, trace, number = random.Random(4), Expected(), nettrace.Trace(), 0
    for block in range(BLOCKS):
        if block % 50 == 0:
            trace.define(1 + block, "Shop", f"sold_{block}", 1 + block,
                         (("n", nettrace.U64), ("pad", nettrace.U64)))
        kind = block - block % 50
        frames = [[block * 16 + 1, 5], [block + 7]]
        trace.stacks(1 + block % 8 * 2, frames)
        blobs, thread = [], 7 + block % 3
        for _ in range(EVENTS):
            which, ns = choice.randrange(2), shuffled_ns(number, choice)
            trace.sequence[thread] = trace.sequence.get(thread, 0) + 1
            blobs.append(trace._blob(  # pylint: disable=protected-access
                1 + kind, trace.sequence[thread], thread, 1, trace.start_ticks + ns,
                struct.pack("<QQ", number, 0) + PAD, 1 + block % 8 * 2 + which))
            expected.rows.append((ns, (f"sold_{kind}", number, thread, frames[which], None)))
            number += 1
        trace._block("EventBlock", blobs)  # pylint: disable=protected-access
        if block % 8 == 7:
            trace.point({thread: trace.sequence[thread]}, ns=number * STEP_NS)
    return trace, expected


def trace6():
    """Threads come and go, and sequence points remove all definitions now and then."""
    choice, expected, trace, number = random.Random(6), Expected(), v6.Trace(), 0
    numbers = {}
    for block in range(BLOCKS):
        if block % 48 == 0:
            trace.define(1, "Shop", f"sold_{block}", 1 + block,
                         (("n", v6.U64), ("pad", v6.U64)))
            trace.threads(*({"index": 1 + i, "process": 70 + i, "thread": 500 + block + i}
                            for i in range(3)))
            numbers = {}
        kind = block - block % 48
        frames = [[block * 16 + 1, 5], [block + 7]]
        trace.stacks(1 + block % 8 * 2, frames)
        trace.labels(1 + block % 8, [[(1, uuid.UUID(int=1 + block).bytes_le)]])
        rows, index = [], 1 + block % 3
        for _ in range(EVENTS):
            which, ns = choice.randrange(2), number * STEP_NS
            numbers[index] = numbers.get(index, 0) + 1
            rows.append({"id": 1, "number": numbers[index], "thread": index, "capture": index,
                         "stack": 1 + block % 8 * 2 + which, "labels": 1 + block % 8, "ns": ns,
                         "payload": struct.pack("<QQ", number, 0) + PAD})
            expected.rows.append((ns, (f"sold_{kind}", number, 500 + kind + index - 1,
                                       frames[which], str(uuid.UUID(int=1 + block)))))
            number += 1
        trace.events(*rows)
        if block % 8 == 7:
            flags = v6.FLUSH_THREADS | v6.FLUSH_METADATA if block % 48 == 47 else 0
            trace.point(numbers.items(), ns=number * STEP_NS, flags=flags)
    return trace, expected


class RangeTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        cls.traces = {}
        for version, (trace, expected) in (("4", trace4()), ("6", trace6())):
            cls.traces[version] = trace.end(), expected

    def events(self, path, *options, status=0):
        out, _ = self.run_tool("report", path, "events", "--format", "json", *options,
                               status=status)
        rows = []
        for line in out.splitlines():
            event = json.loads(line)
            if event["provider"] != "Shop":
                continue
            rows.append((event["event"], event["fields"]["n"], event["thread_id"],
                         [int(address, 16) for address in event["stack"]],
                         event.get("activity")))
        return rows

    def make(self, version):
        trace, expected = self.traces[version]
        return self.write("shop.nettrace", trace), expected

    def check_ranges(self, version):
        path, expected = self.make(version)
        choice = random.Random(int(version))
        starts = [choice.randrange(END_NS) for _ in range(4)]
        for begin, end in [(0, 1), (END_NS - STEP_NS, END_NS), (END_NS, END_NS + 1)] + \
                [(start, start + choice.randrange(1, 500 * STEP_NS)) for start in starts]:
            with self.subTest(begin=begin, end=end):
                self.assertEqual(self.events(path, "--from", f"{begin}ns", "--to", f"{end}ns"),
                                 expected.between(begin, end))
        self.assertTrue(os.path.exists(path + ".rpidx"))

    def test_a_range_of_version_4_has_its_events_with_stacks_even_late_ones(self):
        self.check_ranges("4")

    def test_a_range_of_version_6_has_its_events_with_threads_of_that_time(self):
        self.check_ranges("6")

    def test_a_range_reads_nothing_of_the_blocks_of_other_times(self):
        path, expected = self.make("4")
        begin = END_NS // 2
        options = "--from", f"{begin}ns", "--to", f"{begin + 50 * STEP_NS}ns"
        self.assertEqual(self.events(path, *options), expected.between(begin, begin + 50 * STEP_NS))
        status, size = os.stat(path), os.path.getsize(path)
        with open(path, "r+b") as file:  # events of the last third, without the file's last 64 KB
            file.seek(size * 2 // 3)
            file.write(bytes(size // 3 - (80 << 10)))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assertEqual(self.events(path, *options), expected.between(begin, begin + 50 * STEP_NS))

    CONDITIONS = ('event == "sold_96"', 'event == "sold_96" and thread == 597', "thread == 501",
                  "not thread == 501", 'event ~ "sold_(48|1)" or n < 20', "process == 71",
                  "process == 99", 'time < 3ms', "time >= 20ms",
                  'provider == "Other"', 'id == 97 and not (thread == 9 or n > 6000)',
                  'provider == "Shop" and (thread == 7 or event == "sold_300")')

    def test_an_index_changes_no_event_that_fulfils_a_condition(self):
        for version in "46":
            path, _ = self.make(version)
            alone = [self.events(path, "--where", condition) for condition in self.CONDITIONS]
            self.assertEqual(os.listdir(self.directory), ["shop.nettrace"])
            self.events(path, "--from", "1ms", "--to", "2ms")
            for condition, wanted in zip(self.CONDITIONS, alone):
                with self.subTest(version=version, condition=condition):
                    self.assertEqual(self.events(path, "--where", condition), wanted)
            part = self.events(path, "--from", "4ms", "--to", "15ms")
            for condition, wanted in list(zip(self.CONDITIONS, alone))[:3]:
                self.assertEqual(self.events(path, "--where", condition, "--from", "4ms", "--to",
                                             "15ms"), [row for row in part if row in wanted])
            os.unlink(path + ".rpidx")

    def test_a_condition_reads_nothing_of_the_blocks_without_such_events(self):
        path, expected = self.make("6")
        self.events(path, "--from", "1ms", "--to", "2ms")
        status, size = os.stat(path), os.path.getsize(path)
        data = bytearray(self.read("shop.nettrace"))
        damaged = data.index(struct.pack("<QQ", 12000, 0)) - 4000
        data[damaged:damaged + 2000] = bytes(2000)     # events of a block at 12 ms
        self.write("shop.nettrace", data)
        self.assertEqual(os.path.getsize(path), size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        for condition, kept in (('event == "sold_336"', lambda row: row[0] == "sold_336"),
                                ("thread == 501", lambda row: row[2] == 501),
                                ("time >= 20ms", lambda row: row[1] >= 20000)):
            with self.subTest(condition=condition):
                self.assertEqual(self.events(path, "--where", condition),
                                 [row for _, row in expected.rows if kept(row)])
        self.events(path, status=1)

    def test_an_index_of_another_trace_and_a_damaged_one_are_replaced(self):
        path, expected = self.make("6")
        options = "--from", "1ms", "--to", "1100us"
        wanted = expected.between(1_000_000, 1_100_000)
        self.assertEqual(self.events(path, *options), wanted)
        index = self.read("shop.nettrace.rpidx")
        choice = random.Random(1)
        for _ in range(8):
            damaged = bytearray(index)
            damaged[choice.randrange(len(index))] ^= 1 << choice.randrange(8)
            self.write("shop.nettrace.rpidx", damaged)
            self.assertEqual(self.events(path, *options), wanted)
            self.assertEqual(self.read("shop.nettrace.rpidx"), index)
        self.write("shop.nettrace.rpidx", index[:len(index) // 2])
        self.assertEqual(self.events(path, *options), wanted)
        path, expected = self.make("4")
        self.assertEqual(self.events(path, *options), expected.between(1_000_000, 1_100_000))

    def test_an_index_of_an_earlier_content_is_not_used(self):
        data, wanted = self.traces["4"][0], self.traces["4"][1].between(1_000_000, 1_100_000)
        options = "--from", "1ms", "--to", "1100us"
        for damaged, later_ns in ((len(data) // 2, 1), (len(data) - (32 << 10), 0)):
            path = self.write("shop.nettrace", data)
            time_ns = os.stat(path).st_mtime_ns
            self.assertEqual(self.events(path, *options), wanted)
            self.write("shop.nettrace", data[:damaged] + b"\xff" * 200 + data[damaged + 200:])
            os.utime(path, ns=(time_ns, time_ns + later_ns))
            self.assertEqual(self.events(path, *options, status=1), wanted)

    def test_points_that_remove_only_types_are_read(self):
        trace = v6.Trace().threads({"index": 1, "thread": 500})
        for block in range(3):
            trace.define(1, "Shop", f"sold_{block}", 1 + block, (("n", v6.U64), ("pad", v6.U64)))
            trace.stacks(1, [[5]])
            trace.events({"id": 1, "number": 1 + block, "thread": 1, "capture": 1, "stack": 1,
                          "ns": block * 1_000_000, "payload": struct.pack("<QQ", block, 0)})
            trace.point([(1, 1 + block)], block * 1_000_000, v6.FLUSH_METADATA)
        rows = self.events(self.write("shop.nettrace", trace.end()), "--from", "2ms")
        self.assertEqual([row[:2] for row in rows], [("sold_2", 2)])

    def test_an_index_that_cannot_be_stored_is_used_from_memory(self):
        path, expected = self.make("4")
        os.mkdir(path + ".rpidx")
        self.assertEqual(self.events(path, "--from", "2ms", "--to", "2100us"),
                         expected.between(2_000_000, 2_100_000))
        self.assertEqual(sorted(os.listdir(self.directory)),
                         ["shop.nettrace", "shop.nettrace.rpidx"])

    def test_rates_of_a_summary_are_those_of_the_range(self):
        path, expected = self.make("6")
        for options, begin, end in ((("--from", "3ms", "--to", "7ms"), 3_000_000, 7_000_000),
                                    (("--from", "20ms"), 20_000_000, END_NS),
                                    (("--to", "2ms"), 0, 2_000_000)):
            out, _ = self.run_tool("report", path, "summary", "--format", "json", *options)
            summary, count = json.loads(out), len(expected.between(begin, end))
            self.assertEqual(summary["events"], count)
            self.assertEqual(summary["duration_ns"], end - STEP_NS - begin)

    def test_pipes_and_utc_times_have_the_same_ranges(self):
        path, expected = self.make("4")
        out, _ = self.run_tool("report", "-", "events", "--format", "csv", "--from", "3ms",
                               "--to", "3010us", data=self.read("shop.nettrace"))
        self.assertEqual(len(out.splitlines()) - 1, len(expected.between(3_000_000, 3_010_000)))
        self.assertEqual(self.events(path, "--from", "2026-11-21T01:02:03.007Z", "--to",
                                     "2026-11-21T01:02:03.007010Z"),
                         expected.between(3_000_000, 3_010_000))

    def test_a_time_centuries_before_the_trace_is_before_all_events(self):
        path, expected = self.make("4")
        for options, count in ((("--from", "1700-01-01T00:00:00Z"), len(expected.rows)),
                               (("--to", "1700-01-01T00:00:00Z"), 0)):
            out, _ = self.run_tool("report", path, "summary", "--format", "json", *options)
            self.assertEqual(json.loads(out)["events"], count)

    def test_damage_is_reported_whatever_the_range(self):
        trace, expected = self.traces["4"]
        path = self.write("cut.nettrace", trace[:len(trace) // 2])
        for _ in range(2):  # without an index, and with one
            self.assertEqual(self.events(path, "--from", "1ms", "--to", "1100us", status=1),
                             expected.between(1_000_000, 1_100_000))

    def test_a_converted_range_has_the_events_of_the_range(self):
        path, expected = self.make("6")
        self.run_tool("convert", path, "-o", "part.nettrace", "--from", "5ms", "--to", "5200us")
        self.assertEqual(self.read("part.nettrace")[8:12], bytes(4), "the version changed")
        self.assertEqual(self.events("part.nettrace"), expected.between(5_000_000, 5_200_000))
        self.run_tool("convert", path, "-o", "part.jsonl", "--to", "jsonl", "--from", "5ms",
                      "--to", "5200us")
        self.assertEqual(self.read("part.jsonl").count(b'"Shop"'),
                         len(expected.between(5_000_000, 5_200_000)))

    def test_times_that_are_none_are_refused(self):
        path = self.write("shop.nettrace", nettrace.sample())
        for value in ("", "-1s", "1.s", "1.", ".5", "1.5 ms", "2026-11-21", "1x", "9" * 30 + "s"):
            with self.subTest(value=value):
                self.run_tool("report", path, "events", "--from", value, status=2)
        self.run_tool("report", path, "events", "--from", "2s", "--to", "1s", status=2)

    def test_a_time_may_have_the_form_of_tables(self):
        path, expected = self.make("4")
        for begin, end in (("0.003000 s", "0.003010 s"), ("0.003", "0.00301"), ("3ms", "3010us")):
            self.assertEqual(self.events(path, "--from", begin, "--to", end),
                             expected.between(3_000_000, 3_010_000))
        self.assertEqual(self.events(path, "--from", "1"), expected.between(10**9, 2 * 10**9))


if __name__ == "__main__":
    unittest.main()
