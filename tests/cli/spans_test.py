#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe report FILE spans, on traces whose spans are known."""
import csv
import io
import json
import math
import random
import struct
import unittest

import nettrace
import nettrace6 as v6
from tool import ToolTest

PRECISION = 0.004
SHARES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p99_9_ns": 0.999, "p99_99_ns": 0.9999}
START, STOP, ERROR, NOTE = 1, 2, 3, 4


def guid(number):
    return struct.pack("<IHH8B", number, 0, 0, *[9] * 8)


class Spans(ToolTest):
    def trace(self):
        """Begin a trace with the events of two kinds of spans, an error and a note."""
        trace = nettrace.Trace()
        fields = [("status", nettrace.U32)]
        trace.define(START, "Shop", "requestStart", 1, []).define(STOP, "Shop", "requestStop", 2,
                                                                  fields)
        trace.define(ERROR, "Shop", "failed", 3, [], level=2)
        trace.define(NOTE, "Shop", "restart", 4, [])
        trace.define(5, "Store", "query_start", 1, []).define(6, "Store", "query_stop", 2, [])
        return trace

    def event(self, trace, kind, ns, activity=0, thread=7, payload=b""):
        trace.activity = guid(activity) if activity else bytes(16)
        trace.events(kind, [payload], thread=thread, ns=ns)

    def spans(self, trace, *more):
        path = self.write("t", trace.end())
        return json.loads(self.run_tool("report", path, "spans", "--format=json", *more)[0])

    def test_counts_and_percentiles_are_those_of_the_spans(self):
        chance = random.Random(18)
        trace, events, durations = self.trace(), [], []
        for number in range(1, 1001):
            start = chance.randrange(10**9)
            duration = int(10 ** chance.uniform(0, 8.5))
            durations.append(duration)
            events.append((start, START, number, b""))
            events.append((start + duration, STOP, number, struct.pack("<I", 200)))
        for ns, kind, number, payload in sorted(events):
            self.event(trace, kind, ns, number, thread=number % 5 + 1, payload=payload)
        row, = self.spans(trace)
        self.assertEqual((row["provider"], row["span"], row["count"]), ("Shop", "request", 1000))
        self.assertEqual((row["max_ns"], row["total_ns"]), (max(durations), sum(durations)))
        self.assertEqual((row["errors"], row["open"]), (0, 0))
        period = max(events)[0] - min(events)[0]
        self.assertAlmostEqual(row["per_second"], 1000e9 / period, places=3)
        durations.sort()
        for key, share in SHARES.items():
            expected = durations[math.ceil(share * 1000) - 1]
            self.assertLessEqual(abs(row[key] - expected), PRECISION * expected + 1, key)

    def test_the_slowest_spans_come_with_their_ids(self):
        trace = self.trace()
        for number in range(1, 101):
            self.event(trace, START, 1000 * number, number, thread=2)
            self.event(trace, STOP, 1000 * number + (number * 37) % 101, number, thread=3,
                       payload=struct.pack("<I", 500 if number == 30 else 200))
        trace = self.write("t", trace.end())
        rows = json.loads(self.run_tool("report", trace, "spans", "--slowest", "7",
                                        "--format=json")[0])
        expected = sorted(range(1, 101), key=lambda number: -((number * 37) % 101))[:7]
        self.assertEqual([row["duration_ns"] for row in rows],
                         [(number * 37) % 101 for number in expected])
        self.assertEqual([row["start_ns"] for row in rows],
                         [1000 * number for number in expected])
        self.assertEqual([row["activity"] for row in rows],
                         [f"{number:08x}-0000-0000-0909-090909090909" for number in expected])
        self.assertEqual({(row["thread_id"], row["stop_thread_id"]) for row in rows}, {(2, 3)})
        self.assertEqual([row["error"] for row in rows], [number == 30 for number in expected])
        table = list(csv.DictReader(io.StringIO(self.run_tool(
            "report", trace, "spans", "--slowest", "7", "--format=csv")[0])))
        self.assertEqual([int(row["duration_ns"]) for row in table],
                         [row["duration_ns"] for row in rows])
        text = self.run_tool("report", trace, "spans")[0]
        self.assertRegex(text, r"(?m)^Shop/request +100 ")
        self.assertRegex(text, r"(?m)^ *100 ns +Shop/request +0\.000")

    def test_an_expression_selects_spans_by_their_start_events(self):
        trace = self.trace()
        trace.define(7, "Shop", "payStart", 7, [("total", nettrace.U32)])
        trace.define(8, "Shop", "payStop", 8, [("total", nettrace.U32)])
        for number, total in enumerate((10, 200, 300), 1):
            self.event(trace, 7, 1000 * number, number, thread=number,
                       payload=struct.pack("<I", total))
            self.event(trace, 8, 1000 * number + total, number, payload=struct.pack("<I", 0))
        self.event(trace, START, 9000, 9, thread=3)
        self.event(trace, 7, 9001, 10, payload=struct.pack("<I", 400))
        row, = self.spans(trace, "--where", "total > 100")
        self.assertEqual((row["span"], row["count"], row["total_ns"], row["open"]),
                         ("pay", 2, 500, 1))
        path = self.path("t")
        for where, starts in (("thread == 3", [3000]), ("total > 100 and time < 2500ns", [2000]),
                              ("activity == '00000001-0000-0000-0909-090909090909'", [1000]),
                              ("event == 'payStop'", [])):
            rows = json.loads(self.run_tool("report", path, "spans", "--slowest", "9", "--where",
                                            where, "--format=json")[0])
            self.assertEqual([row["start_ns"] for row in rows], starts, where)
        err = self.run_tool("report", path, "spans", "--where", "total >", status=2)[1]
        self.assertIn("^", err)

    def test_spans_have_their_processes_in_both_versions(self):
        for path in self.write_versions(v6.two_processes()):
            for where, processes in ((), [72, 71]), (("--where", "process == 71"), [71]):
                rows = json.loads(self.run_tool("report", path, "spans", "--slowest", "9", *where,
                                                "--format=json")[0])
                self.assertEqual([row["process_id"] for row in rows], processes, path)

    def test_spans_of_one_id_nest_and_spans_without_ids_belong_to_threads(self):
        trace = self.trace()
        for ns, kind, thread in [(0, START, 1), (10, START, 2), (20, 5, 1), (30, START, 1),
                                 (40, STOP, 1), (50, STOP, 2), (60, 6, 1), (70, STOP, 1)]:
            self.event(trace, kind, ns, thread=thread,
                       payload=struct.pack("<I", 0) if kind == STOP else b"")
        rows = {row["span"]: row for row in self.spans(trace)}
        self.assertEqual((rows["request"]["count"], rows["request"]["total_ns"]),
                         (3, 10 + 40 + 70))
        self.assertEqual((rows["query"]["count"], rows["query"]["total_ns"]), (1, 40))

    def test_errors_are_those_of_the_stop_event_and_of_events_with_the_id(self):
        trace = self.trace()
        for number, status, kind in [(1, 200, NOTE), (2, 503, NOTE), (3, 200, ERROR)]:
            self.event(trace, START, 100 * number, number)
            self.event(trace, kind, 100 * number + 1, number)
            self.event(trace, STOP, 100 * number + 2, number, payload=struct.pack("<I", status))
        self.event(trace, ERROR, 1000)
        row, = self.spans(trace)
        self.assertEqual((row["count"], row["errors"]), (3, 2))

    def test_a_status_with_the_name_of_the_conventions_is_an_error_from_500_on(self):
        trace = self.trace()
        trace.define(7, "Shop", "callStart", 7, [])
        trace.define(8, "Shop", "callStop", 8, [("http_response_status_code", nettrace.U32)])
        for number, status in enumerate((200, 499, 500, 503)):
            self.event(trace, 7, 10 * number, number + 1)
            self.event(trace, 8, 10 * number + 1, number + 1, payload=struct.pack("<I", status))
        row, = self.spans(trace)
        self.assertEqual((row["span"], row["count"], row["errors"]), ("call", 4, 2))

    def test_spans_that_never_end_or_never_began_are_counted(self):
        trace = self.trace()
        for number in range(1, 11):
            self.event(trace, START, number, number)
        self.event(trace, STOP, 100, 99, payload=struct.pack("<I", 0))
        path = self.write("t", trace.end())
        row, = json.loads(self.run_tool("report", path, "spans", "--format=json")[0])
        self.assertEqual((row["count"], row["open"], row["max_ns"]), (0, 10, None))
        self.assertIn("The trace has no start event for 1 stop event.",
                      self.run_tool("report", path, "spans")[0])

    def test_a_clock_that_goes_backwards_makes_no_negative_duration(self):
        trace = self.trace()
        self.event(trace, START, 5000, 1)
        self.event(trace, STOP, 1000, 1, payload=struct.pack("<I", 0))
        row, = self.spans(trace)
        self.assertEqual((row["count"], row["max_ns"]), (1, 0))

    def test_one_name_is_chosen_with_or_without_its_provider(self):
        trace = self.trace()
        for kind, ns in [(START, 0), (5, 1), (6, 2), (STOP, 3)]:
            self.event(trace, kind, ns, payload=struct.pack("<I", 0) if kind == STOP else b"")
        path = self.write("t", trace.end())
        for name, expected in [("query", ["query"]), ("Store/query", ["query"]),
                               ("Shop/query", []), ("request", ["request"])]:
            rows = json.loads(self.run_tool("report", path, "spans", "--span", name,
                                            "--format=json")[0])
            self.assertEqual([row["span"] for row in rows], expected, name)

    def test_a_trace_without_spans_says_so(self):
        path = self.write("t", nettrace.sample())
        self.assertIn("The trace has no spans", self.run_tool("report", path, "spans")[0])
        self.assertEqual(json.loads(self.run_tool("report", path, "spans",
                                                  "--format=json")[0]), [])

    def test_the_spans_before_a_damage_are_reported(self):
        trace = self.trace()
        self.event(trace, START, 0, 1)
        self.event(trace, STOP, 5, 1, payload=struct.pack("<I", 0))
        data = trace.end()
        path = self.write("t", data[:-1] + b"\5\5")
        out, err = self.run_tool("report", path, "spans", "--format=json", status=1)
        self.assertEqual(json.loads(out)[0]["count"], 1)
        self.assertIn("the report has the events before that", err)


if __name__ == "__main__":
    unittest.main()
