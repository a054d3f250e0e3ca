#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`--from` and `--to` of all reports: the report of a range equals the report of a trace to which
Python wrote only the events of that range, with what these need from other times."""
import collections
import json
import os
import random
import struct
import unittest

import explain_test
import nettrace
import report_counters_test as counters
import report_gc_test as gc
from tool import ToolTest

START, STOP, PLAIN, SAMPLE, SWITCH, WAIT, COUNTER, LOST = range(31, 39)
SYSTEM, GROUPS = 41, 50	# SYSTEM: metadata id of the first of six events
RUNTIME = {gc.START: 61, gc.RESTART: 62, gc.SUSPEND: 63}
ROWS_PER_POINT = 20
STEP_NS = 1000
ROWS = 1200
END_NS = ROWS * STEP_NS
STACKS = [[0x1010], [0x2010, 0x1020], [0x3010, 0x2020, 0x1030]]


def guid(number):
    return struct.pack("<IHH8B", number, 0, 0, *[9] * 8)


class Row:
    def __init__(self, ns, kind, payload=b"", thread=7, activity=0, stack=0, belongs=None):
        self.ns, self.kind, self.payload, self.thread = ns, kind, payload, thread
        self.activity, self.stack = activity, stack
        self.belongs = ns if belongs is None else belongs	# the time that decides


def random_rows(chance):
    """Spans, samples, waits, counters and pauses of collections, which overlap each other."""
    rows, pause = [], 0
    for number in range(1, ROWS):
        ns = number * STEP_NS
        what = chance.randrange(6)
        if what == 0:
            stop = ns + chance.randrange(1, 200) * STEP_NS + 100
            rows.append(Row(ns, START, activity=number))
            rows.append(Row(stop, STOP, thread=8, activity=number, belongs=ns))
        elif what == 1:
            rows.append(Row(ns, SAMPLE, nettrace.uleb(1), thread=7 + number % 3,
                            stack=1 + number % 3))
        elif what == 2:
            duration, thread = chance.randrange(1, 90_000), 7 + number % 3
            rows.append(Row(ns, SWITCH, nettrace.uleb(duration), thread, stack=1 + number % 3))
            rows.append(Row(ns, WAIT, struct.pack("<QQIIQ", duration, duration // 3, 1, 4242, 9),
                            thread))
        elif what == 3:
            rows.append(Row(ns, COUNTER, counters.sample("queue", float(number))))
        elif what == 4 and ns > pause:
            pause = ns + chance.randrange(1, 100) * STEP_NS + 300
            collection = struct.pack("<IIIIHQ", number, number % 3, gc.SMALL, gc.BLOCKING, 3, 0)
            rows.append(Row(ns, RUNTIME[gc.SUSPEND], struct.pack("<IIH", gc.FOR_GC, 0, 3), 12))
            rows.append(Row(ns, RUNTIME[gc.START], collection, 12))
            rows.append(Row(pause, RUNTIME[gc.RESTART], b"\3\0", 12, belongs=ns))
        else:
            rows.append(Row(ns, PLAIN, struct.pack("<Q", number), thread=7 + number % 5))
    return sorted(rows, key=lambda row: row.ns)


def define(trace):
    trace.define(START, "Shop", "requestStart", 1, []).define(STOP, "Shop", "requestStop", 2, [])
    trace.define(PLAIN, "Shop", "sold", 3, [("n", nettrace.U64)])
    trace.define(SAMPLE, "Universal.Events", "cpu", 1, [])
    trace.define(SWITCH, "Universal.Events", "cswitch", 2, [])
    trace.define(WAIT, "Ringpipe-Machine", "Wait", 1, [
        ("duration_ns", nettrace.U64), ("runnable_ns", nettrace.U64), ("state", nettrace.U32),
        ("waker_process", nettrace.U32), ("waker_thread", nettrace.U64)])
    trace.define(COUNTER, "Shop", "EventCounters", 65533, counters.COUNTER)
    trace.define(LOST, "ringpipe", "EventsLost", 1, [
        ("ring", nettrace.U32), ("reason", nettrace.STRING), ("count", nettrace.U64)])
    for event in range(6):
        trace.define(SYSTEM + event, "Universal.System", "", event, [])
    for event, metadata in RUNTIME.items():
        trace.define(metadata, gc.RUNTIME, "", event, [])
    return trace


def build(rows):
    """Write the rows in blocks of their own. The names of functions follow all stacks."""
    trace = define(nettrace.Trace())
    for number, row in enumerate(rows):
        if number % ROWS_PER_POINT == 0:
            trace.point(trace.sequence, ns=row.ns)
            trace.stacks(1, STACKS)
        trace.activity = guid(row.activity) if row.activity else bytes(16)
        trace.events(row.kind, [row.payload], thread=row.thread, ns=row.ns, stack=row.stack)
    trace.activity = bytes(16)
    system = [(nettrace.EXISTING_PROCESS, nettrace.process_name("shop")),
              (nettrace.MAPPING, nettrace.mapping(1, 0x1000, 0x9000, "/bin/shop"))]
    system += [(nettrace.FUNCTION, nettrace.function(at, 1, 0x1000 * at, 0x1000 * at + 0xfff, name))
               for at, name in ((1, "main"), (2, "serve"), (3, "sell"))]
    for event, payload in system:
        trace.events(SYSTEM + event, [payload], thread=4242, ns=rows[-1].ns)
    return trace.end()


class RangeReports(ToolTest):
    REPORTS = ("spans", "spans --slowest 1000", "cpu --top 99", "cpu --by thread", "offcpu",
               "offcpu --function serve", "waits --top 99", "timeline", "counters", "gc",
               "gc --slowest 999")

    def report(self, path, what, *options, status=0):
        return json.loads(self.run_tool("report", path, *what.split(), *options, "--format=json",
                                        status=status)[0])

    def compare(self, path, rows, begin, end, *options):
        for what in self.REPORTS:
            # Only spans and pauses have an event that comes after the range.
            follows = what.split()[0] in ("spans", "gc")
            part = self.write("part", build([
                row for row in rows if begin <= (row.belongs if follows else row.ns) < end]))
            found, wanted = self.report(path, what, *options), self.report(part, what)
            for row in found + wanted:
                row.pop("per_second", None)	# of the range; see below
            with self.subTest(what=what, begin=begin, end=end):
                self.assertEqual(found, wanted)
                self.assertTrue(found)

    def test_a_report_of_a_range_is_that_of_a_trace_with_only_its_events(self):
        rows = random_rows(random.Random(18))
        path = self.write("shop.nettrace", build(rows))
        for begin, end in (300_000, 700_000), (0, 500_000), (900_000, END_NS * 2):
            self.compare(path, rows, begin, end, "--from", f"{begin}ns", "--to", f"{end}ns")

    def test_a_pipe_has_the_same_reports_of_a_range(self):
        rows = random_rows(random.Random(19))
        data = build(rows)
        path = self.write("shop.nettrace", data)
        options = "--from", "0.0003", "--to", "0.000700 s", "--format=json"
        for what in self.REPORTS:
            with self.subTest(what=what):
                piped, _ = self.run_tool("report", "-", *what.split(), *options, data=data)
                found, _ = self.run_tool("report", path, *what.split(), *options)
                self.assertEqual(piped, found)

    def test_a_rate_of_spans_is_that_of_the_range(self):
        rows = [Row(ns, kind, activity=1) for at in range(1, 100)
                for ns, kind in ((at * 10_000, START), (at * 10_000 + 10, STOP))]
        path = self.write("shop.nettrace", build(rows))
        row, = self.report(path, "spans", "--from", "200us", "--to", "300us")
        self.assertEqual(row["count"], 10)
        self.assertAlmostEqual(row["per_second"], 10e9 / (290_010 - 200_000), places=3)

    def test_a_span_that_stops_after_the_range_has_its_duration_and_one_that_never_stops_is_open(
            self):
        rows = [Row(1000, START, activity=1), Row(2000, START, activity=2),
                Row(3000, START, activity=3), Row(900_000, STOP, activity=2),
                Row(910_000, STOP, activity=1)]
        path = self.write("shop.nettrace", build(rows))
        row, = self.report(path, "spans", "--from", "1500ns", "--to", "4us")
        self.assertEqual((row["count"], row["max_ns"], row["open"]), (1, 898_000, 1))

    def test_losses_of_a_range_are_those_that_may_have_occurred_in_it(self):
        """Losses are reported between sequence points, after each of which an event comes."""
        trace, windows, before = define(nettrace.Trace()), [], 0
        for period in range(40):
            begin = 1_000_000 * (period + 1)
            trace.events(PLAIN, [bytes(8)], ns=begin)
            trace.events(LOST, [nettrace.lost(0, "full", period + 1)], thread=8, ns=begin + 500_000)
            trace.point(trace.sequence, ns=begin + 500_000)
            windows.append((before, begin + 500_000, period + 1))
            before = begin + 500_000
        path = self.write("shop.nettrace", trace.end())
        for begin, end in ((0, 10**6), (10_100_000, 10_200_000), (10_500_000, 12_500_001),
                           (10_500_001, 12_500_000), (39_000_000, 10**9), (10**9, 2 * 10**9)):
            wanted = [row for row in windows if row[1] >= begin and row[0] < end]
            found = self.report(path, "losses", "--from", f"{begin}ns", "--to", f"{end}ns")
            with self.subTest(begin=begin, end=end):
                self.assertEqual([(row["after_ns"], row["reported_ns"], row["lost"])
                                  for row in found], wanted)

    def test_a_comparison_has_the_range_of_each_trace(self):
        rows = [Row(ns, kind, activity=1) for at in range(1, 2000)
                for ns, kind in ((at * 10_000, START),
                                 (at * 10_000 + (50 if at < 1000 else 500) + at % 7, STOP))]
        path = self.write("shop.nettrace", build(rows))
        same, _ = self.run_tool("report", path, "spans", "--diff", path, "--to", "10ms",
                                "--format=json")
        self.assertFalse([row for row in json.loads(same) if row["changed"]])
        early = self.write("early.nettrace", build(rows[:1998]))
        changed, _ = self.run_tool("report", early, "spans", "--diff", path, "--from", "3ms",
                                   "--format=json")
        p50, = [row for row in json.loads(changed) if row["metric"] == "p50"]
        self.assertTrue(p50["changed"])
        self.assertLess(p50["before"], 60)
        self.assertGreater(p50["after"], 60)

    def test_a_report_of_a_range_reads_nothing_of_other_times(self):
        rows = random_rows(random.Random(20))
        pad = [Row(END_NS * 2 + number * 100, PLAIN, bytes(2000)) for number in range(600)]
        data = bytearray(build(rows + pad))
        path = self.write("shop.nettrace", data)
        options = "--from", "300us", "--to", "700us"
        self.report(path, "spans", *options)	# makes the index
        wanted = [self.report(path, what, *options) for what in self.REPORTS]
        status, size = os.stat(path), len(data)
        data[size // 2:size // 2 + 300_000] = bytes(300_000)
        self.write("shop.nettrace", data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        for what, expected in zip(self.REPORTS, wanted):
            with self.subTest(what=what):
                self.assertEqual(self.report(path, what, *options), expected)
        self.run_tool("report", path, "spans", status=1)

    def test_a_range_without_events_has_an_empty_report(self):
        path = self.write("shop.nettrace", build(random_rows(random.Random(21))))
        for what in "spans", "counters", "losses", "timeline":
            with self.subTest(what=what):
                self.assertEqual(self.report(path, what, "--from", "1h"), [])

    def test_a_range_that_ends_before_it_begins_is_refused_by_all_commands(self):
        path = self.write("shop.nettrace", build(random_rows(random.Random(22))))
        options = "--from", "2s", "--to", "1s"
        for what in self.REPORTS:
            self.run_tool("report", path, *what.split(), *options, status=2)
        self.run_tool("report", path, "--diff", path, *options, status=2)
        self.run_tool("explain", path, *options, status=2)
        self.run_tool("convert", path, "-o", "x.nettrace", *options, status=2)


class ExplainRange(ToolTest):
    BEFORE_US, AFTER = 5000, 9000

    def trace(self):
        """A span among records of its thread that are known, between others that do not count."""
        chance = random.Random(23)
        machine = explain_test.Machine(chance)
        trace = explain_test.define(nettrace.Trace())
        trace.define(GROUPS, "Ringpipe-Machine", "Groups", 12, [
            ("threshold_ns", nettrace.U64), ("groups", nettrace.STRING)])
        trace.events(GROUPS, [struct.pack("<Q", 0) + nettrace.utf16z(
            "sched,syscalls,futex,faults,block,irq")], ns=0)

        def span(begin_us, end_us, rows=()):
            marks = [(begin_us, explain_test.START), (end_us, explain_test.STOP)]
            for end, kind, payload in rows:
                while marks and marks[0][0] <= end:
                    explain_test.Explain.mark(trace, *marks.pop(0))
                trace.events(kind, [payload], ns=1000 * end)
            for at_us, kind in marks:
                explain_test.Explain.mark(trace, at_us, kind)

        def others(first_us, count):
            for at in range(count):
                at_us = first_us + 60 * at
                trace.events(explain_test.CALL, [explain_test.call("fsync", 9000)],
                             ns=1000 * (at_us + 20))
                trace.events(explain_test.WAIT, [explain_test.wait(5000)], ns=1000 * (at_us + 19))
                span(at_us + 30, at_us + 50)

        others(0, 80)
        begin = self.BEFORE_US + 700, self.BEFORE_US + 2500
        span(*begin, [(self.BEFORE_US + end, kind, payload) for end, kind, payload in machine.rows])
        others(self.BEFORE_US + 20_000, self.AFTER)
        return trace.end(), collections.Counter(machine.parts_between(700, 2500))

    def test_a_request_is_explained_from_the_records_of_its_time_alone(self):
        data, wanted = self.trace()
        path = self.write("shop.nettrace", data)
        options = "--from", "0.005700", "--to", "5701us", "--format=json"

        def check(*more):
            row, = json.loads(self.run_tool("explain", path, *more, "--format=json")[0])
            self.assertEqual(row["duration_ns"], 1_800_000)
            self.assertEqual({part: ns for part, ns in row["parts_ns"].items() if ns},
                             {part: us * 1000 for part, us in wanted.items()})

        check()
        check(*options)
        status, size = os.stat(path), len(data)
        damaged = bytearray(data)
        damaged[size // 2:size // 2 + 100_000] = bytes(100_000)
        self.write("shop.nettrace", damaged)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        check(*options)
        self.run_tool("explain", path, status=1)

    def test_a_range_has_the_spans_that_start_in_it(self):
        path = self.write("shop.nettrace", self.trace()[0])
        rows = json.loads(self.run_tool("explain", path, "--slowest", "99", "--from", "30us",
                                        "--to", "330us", "--format=json")[0])
        self.assertEqual(sorted(row["start_ns"] for row in rows),
                         [30_000 + 60_000 * at for at in range(5)])
        self.run_tool("explain", path, "--from", "1h", status=1)


if __name__ == "__main__":
    unittest.main()
