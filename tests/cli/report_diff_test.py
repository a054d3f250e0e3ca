#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE --diff LATER`, on traces whose difference is known.

With --trials N, the test compares N pairs of random halves of one trace, which do not differ.
"""
import csv
import io
import json
import math
import random
import struct
import sys
import unittest

import nettrace
from report_counters_test import COUNTER, sample
from tool import ToolTest

START, STOP, COUNT, CPU, SWITCH, SYSTEM = 1, 2, 3, 4, 5, 6
TRIALS = 5
SECOND = 10**9


def pairs_below(before, after):
    return sum((a > b) + (a == b) / 2 for a in after for b in before)


def rank_test(before, after):
    """Mann-Whitney by counting all pairs, as the textbook has it; values without ties."""
    n, m = len(before), len(after)
    z = (abs(pairs_below(before, after) - n * m / 2) - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)
    return math.erfc(max(z, 0) / math.sqrt(2))


def share_test(a, n, b, m):
    """Fisher's exact test, in integers."""
    ways = [math.comb(n, i) * math.comb(m, a + b - i) for i in range(a + b + 1)]
    return sum(way for way in ways if way <= ways[a]) / math.comb(n + m, a + b)


class Story:
    """The events of a trace with their times, added in any order."""

    def __init__(self, names="abc"):
        self.names, self.events = names, []

    def span(self, ns, duration, status=200):
        thread = len(self.events) + 100
        self.events.append((ns, START, b"", thread, 0))
        self.events.append((ns + duration, STOP, struct.pack("<I", status), thread, 0))

    def counter(self, ns, value, name="queue"):
        self.events.append((ns, COUNT, sample(name, value), 7, 0))

    def cpu(self, ns, function):
        self.events.append((ns, CPU, nettrace.uleb(1), 7, self.names.index(function) + 1))

    def wait(self, ns, duration, function):
        self.events.append((ns, SWITCH, nettrace.uleb(duration), 7,
                            self.names.index(function) + 1))

    def bytes(self, period=10 * SECOND):
        trace = nettrace.Trace()
        trace.define(START, "Shop", "requestStart", 1, [])
        trace.define(STOP, "Shop", "requestStop", 2, [("status", nettrace.U32)])
        trace.define(COUNT, "Shop", "EventCounters", 65533, COUNTER)
        trace.define(CPU, "Universal.Events", "cpu", 1, [])
        trace.define(SWITCH, "Universal.Events", "cswitch", 2, [])
        for event in (nettrace.MAPPING, nettrace.FUNCTION):
            trace.define(SYSTEM + event, "Universal.System", "", event, [])
        trace.stacks(1, [[0x1000 * (i + 1)] for i in range(len(self.names))])
        trace.events(SYSTEM + nettrace.MAPPING,
                     [nettrace.mapping(1, 0x1000, 0x100000, "/bin/shop")], ns=0)
        for i, name in enumerate(self.names):
            start = 0x1000 * (i + 1)
            trace.events(SYSTEM + nettrace.FUNCTION,
                         [nettrace.function(i, 1, start, start + 0xfff, name)], ns=0)
        for ns, kind, payload, thread, stack in sorted(self.events):
            trace.events(kind, [payload], thread=thread, ns=ns, stack=stack)
        trace.events(SYSTEM + nettrace.MAPPING,
                     [nettrace.mapping(2, 0x200000, 0x200001, "/bin/end")], ns=period)
        return trace.end()


class Diff(ToolTest):
    def diff(self, before, after, *arguments):
        paths = self.write("before", before.bytes()), self.write("after", after.bytes())
        out = self.run_tool("report", paths[0], *arguments, "--diff", paths[1],
                            "--format=json")[0]
        return json.loads(out)

    def row(self, rows, kind, metric, name=None):
        found, = [row for row in rows if row["kind"] == kind and row["metric"] == metric and
                  name in (None, row["name"])]
        return found

    def spans(self, chance, count, scale=1, failing=0.0):
        story = Story()
        durations = [int(1e6 * scale * chance.lognormvariate(0, 1)) for _ in range(count)]
        for i, duration in enumerate(durations):
            status = 500 if chance.random() < failing else 200
            story.span(9 * SECOND * i // count, duration, status)
        return story, durations

    def test_an_expression_selects_the_records_of_both_traces(self):
        before, after = Story(), Story()
        for story, shift in (before, 0), (after, 500):
            for number in range(40):
                ns = number * SECOND // 5
                story.span(ns, 1000 + number)
                story.span(ns + 1, 1000 + number + shift)
                story.counter(ns, number)
                story.counter(ns, number, "other")
                story.cpu(ns, "a" if number % 2 else "b")
                story.wait(ns, 100, "c")
        rows = self.diff(before, after, "--where", "event == 'requestStart' or Name == 'other'")
        self.assertEqual({row["kind"] for row in rows}, {"span", "counter"})
        self.assertEqual({row["name"] for row in rows}, {"Shop/request", "Shop/other"})
        spans = self.diff(before, after, "spans")
        whole = {row["metric"]: row for row in rows if row["kind"] == "span"}
        self.assertEqual(whole["per second"]["before"],
                         [row for row in spans if row["metric"] == "per second"][0]["before"])
        rows = self.diff(before, after, "spans", "--where", "time < 4s")
        self.assertEqual([row["before"] * 2 for row in rows if row["metric"] == "per second"],
                         [whole["per second"]["before"]])
        rows = self.diff(before, after, "cpu", "--where", "thread == 8")
        self.assertEqual(rows, [])

    def test_slower_spans_are_found_and_the_test_is_that_of_the_textbook(self):
        chance = random.Random(1)
        before, old = self.spans(chance, 60)
        after, new = self.spans(chance, 50, scale=1.5)
        row = self.row(self.diff(before, after, "spans"), "span", "p50")
        self.assertEqual((row["name"], row["unit"]), ("Shop/request", "ns"))
        for key, values in (("before", old), ("after", new)):
            wanted = sorted(values)[math.ceil(len(values) / 2) - 1]
            self.assertAlmostEqual(row[key] / wanted, 1, delta=0.004)
        # The tool groups durations within 0.4 %.
        self.assertAlmostEqual(math.log(row["p"]), math.log(rank_test(old, new)), delta=0.1)
        after, _ = self.spans(chance, 50, scale=4)
        self.assertTrue(self.row(self.diff(before, after), "span", "p50")["changed"])

    def test_a_slow_tail_is_found_although_the_median_is_the_same(self):
        before, after = Story(), Story()
        for i in range(1000):
            before.span(i * 9 * SECOND // 1000, 1000 + i)
            after.span(i * 9 * SECOND // 1000, 1000 + i if i % 20 else 900000)
        rows = self.diff(before, after)
        self.assertTrue(self.row(rows, "span", "p99")["changed"])
        self.assertFalse(self.row(rows, "span", "per second")["changed"])

    def test_errors_and_functions_are_tested_exactly(self):
        before, after = Story(), Story()
        for i in range(40):
            before.span(i * 10**8, 1000, 500 if i < 3 else 200)
            after.span(i * 10**8, 1000, 500 if i < 11 else 200)
            before.cpu(i * 10**8 + 5, "a" if i < 30 else "b")
            after.cpu(i * 10**8 + 5, "a" if i < 9 else "c")
        rows = self.diff(before, after)
        row = self.row(rows, "span", "errors")
        self.assertEqual((row["before"], row["after"]), (3 / 40, 11 / 40))
        self.assertAlmostEqual(row["p"], share_test(3, 40, 11, 40), places=9)
        shares = [(row["name"], row["before"], row["after"], row["file"]) for row in rows
                  if row["kind"] == "cpu"]
        self.assertEqual(shares, [("c", 0, 31 / 40, "shop"), ("a", 30 / 40, 9 / 40, "shop"),
                                  ("b", 10 / 40, 0, "shop")])
        for name, a, b in (("a", 30, 9), ("b", 10, 0), ("c", 0, 31)):
            row = self.row(rows, "cpu", "share", name)
            self.assertAlmostEqual(row["p"], share_test(a, 40, b, 40), places=9)
            self.assertTrue(row["changed"])

    def test_rates_waits_and_counters_are_compared(self):
        chance = random.Random(2)
        before, after = Story(), Story()
        for i in range(300):
            before.wait(chance.randrange(9 * SECOND), chance.randrange(1000, 2000), "a")
            before.counter(i * SECOND // 40, chance.gauss(50, 5))
            after.counter(i * SECOND // 40, chance.gauss(60, 5))
        for i in range(900):
            after.wait(chance.randrange(9 * SECOND), chance.randrange(1000, 2000), "a")
        rows = self.diff(before, after)
        self.assertTrue(self.row(rows, "offcpu", "per second", "a")["changed"])
        self.assertAlmostEqual(self.row(rows, "offcpu", "per second")["after"], 90, delta=2)
        self.assertFalse(self.row(rows, "offcpu", "p50", "a")["changed"])
        self.assertTrue(self.row(rows, "counter", "mean")["changed"])

    def test_drift_of_a_counter_is_no_change(self):
        """A random walk differs between any two parts, and its neighbours show that it drifts."""
        chance, changed = random.Random(3), 0
        for _ in range(10):
            before, after = Story(), Story()
            for story in (before, after):
                value = 0
                for i in range(200):
                    value += chance.gauss(0, 1)
                    story.counter(i * SECOND // 40, value)
            changed += self.row(self.diff(before, after), "counter", "mean")["changed"]
        self.assertLessEqual(changed, 3)

    def test_rows_are_adjusted_for_their_number(self):
        chance = random.Random(4)
        before, after = Story("abcdefghij"), Story("abcdefghij")
        for story in (before, after):
            for i in range(500):
                story.cpu(i * SECOND // 60, chance.choice(story.names))
        rows = sorted(self.diff(before, after), key=lambda row: row["p"])
        least = 1
        for rank in range(len(rows), 0, -1):
            least = min(least, rows[rank - 1]["p"] * len(rows) / rank)
            self.assertAlmostEqual(rows[rank - 1]["q"], least)

    def test_text_has_what_changed_and_csv_has_all(self):
        before, after = Story(), Story()
        for i in range(100):
            before.cpu(i * 10**7, "ab"[i % 2])
            after.cpu(i * 10**7, "abc"[i % 3])
        paths = self.write("before", before.bytes()), self.write("after", after.bytes())
        out = self.run_tool("report", paths[0], "--diff", paths[1])[0]
        lines = out.splitlines()
        self.assertRegex(lines[0], r"KIND +NAME +METRIC +BEFORE +AFTER +CHANGE +Q$")
        self.assertRegex(lines[1], r"cpu +c +share +0.00 % +33.00 % +\+33.00 points +< 1e-6$")
        self.assertEqual(lines[-1], "3 of 3 compared values changed, with a false discovery rate "
                                    "of 5 %.")
        out = self.run_tool("report", paths[0], "--diff", paths[0], "--format=csv")[0]
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([(row["name"], row["p"], row["changed"]) for row in rows],
                         [("a", "1.0", "false"), ("b", "1.0", "false")])

    def test_what_one_trace_lacks_is_not_compared(self):
        before, _ = self.spans(random.Random(5), 20)
        after = Story()
        after.cpu(5, "a")
        paths = self.write("before", before.bytes()), self.write("after", after.bytes())
        out, err = self.run_tool("report", paths[0], "--diff", paths[1], "--format=json")
        self.assertEqual(json.loads(out), [])
        self.assertIn("after has no records of the kind span", err)
        self.assertIn("before has no records of the kind cpu", err)

    def test_wrong_uses_are_refused(self):
        path = self.write("t", nettrace.sample())
        for arguments, status, text in ((("--diff", "nosuch"), 1, "No such file"),
                                        (("--diff", "/dev/null"), 1, "needs a file"),
                                        (("waits", "--diff", path), 2, "with waits"),
                                        (("--top=1", "--diff", path), 2, "--top")):
            self.assertIn(text, self.run_tool("report", path, *arguments, status=status)[1])

    def test_damage_is_reported_and_the_rest_compared(self):
        story, _ = self.spans(random.Random(6), 20)
        good = story.bytes()
        for before, after in ((good, good[:-1]), (good[:-1], good)):
            paths = self.write("before", before), self.write("after", after)
            out, err = self.run_tool("report", paths[0], "--diff", paths[1], "--format=json",
                                     status=1)
            self.assertIn("stops before its end", err)
            self.assertEqual(len(json.loads(out)), 2)

    def test_random_halves_of_a_trace_do_not_differ(self):
        chance, rows, false = random.Random(7), 0, 0
        for _ in range(TRIALS):
            halves = Story("abcdef"), Story("abcdef")
            value = 0
            for i in range(200):
                ns = int(9 * SECOND * i / 200)
                value = 0.9 * value + chance.gauss(0, 1)
                chance.choice(halves).counter(ns, value)
                chance.choice(halves).span(ns + chance.randrange(10**7),
                                           int(1e6 * chance.lognormvariate(0, 1)),
                                           chance.choice((200, 500)))
                chance.choice(halves).cpu(ns + 3, chance.choice("aaabcdef"))
                chance.choice(halves).wait(ns + 5, int(1e5 * chance.lognormvariate(0, 2)),
                                           chance.choice("abcdef"))
            found = self.diff(*halves)
            rows += sum(row["p"] is not None for row in found)
            false += sum(row["changed"] for row in found)
        print(f"{false} of {rows} rows are false", file=sys.stderr)
        self.assertGreater(rows, TRIALS * 15)
        self.assertLessEqual(false, 0.05 * rows)


if __name__ == "__main__":
    if "--trials" in sys.argv:
        at = sys.argv.index("--trials")
        TRIALS = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    unittest.main()
