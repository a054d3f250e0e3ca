#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE timeline`, on traces in which it is known what each thread did when."""
import json
import unittest

import nettrace
from tool import ToolTest

CPU, SWITCH, TICK = 1, 2, 3
STEP = 1000000  # 64 of them and the last event are the whole trace


class Timeline(ToolTest):
    def trace(self, events):
        """Make a trace of (time, kind, thread, wait); an event at either end sets the period."""
        trace = nettrace.Trace().define(CPU, "Universal.Events", "cpu", 1, [])
        trace.define(SWITCH, "Universal.Events", "cswitch", 2, [])
        trace.define(TICK, "Shop", "tick", 3, [])
        events = [(0, TICK, 1, 0), *events, (64 * STEP - 1, TICK, 1, 0)]
        for ns, kind, thread, wait in sorted(events):
            trace.events(kind, [nettrace.uleb(wait) if kind == SWITCH else b"\1"], thread=thread,
                         ns=ns)
        return self.write("t", trace.end())

    def rows(self, events, *more):
        out = self.run_tool("report", self.trace(events), "timeline", "--format=json", *more)[0]
        return {(row["thread_id"], row["measure"]): row for row in json.loads(out)}

    def test_samples_and_events_are_in_their_intervals(self):
        events = [(i * STEP + 5, CPU, 7, 0) for i in (3, 3, 10)]
        events += [(63 * STEP + 5, TICK, 7, 0)]
        rows = self.rows(events)
        row = rows[7, "cpu"]
        self.assertEqual((row["process_id"], row["total"], row["interval_ns"], row["first_ns"]),
                         (4242, 3, STEP, 0))
        self.assertEqual({i: value for i, value in enumerate(row["values"]) if value},
                         {3: 2, 10: 1})
        self.assertEqual(len(row["values"]), 64)
        self.assertEqual(rows[7, "events"]["values"][63], 1)
        self.assertEqual(rows[1, "events"]["total"], 2)
        self.assertNotIn((7, "waiting"), rows)

    def test_a_wait_is_divided_among_the_intervals_that_it_touches(self):
        rows = self.rows([(10 * STEP + 400, SWITCH, 7, 2 * STEP + 900), (STEP, SWITCH, 8, 10**15)])
        self.assertEqual({i: value for i, value in enumerate(rows[7, "waiting"]["values"])
                          if value}, {7: 500, 8: STEP, 9: STEP, 10: 400})
        self.assertEqual(rows[7, "waiting"]["total"], 2 * STEP + 900)
        self.assertEqual(rows[8, "waiting"]["total"], STEP)  # it began before the trace

    def test_an_expression_selects_samples_waits_and_events(self):
        rows = self.rows([(5 * STEP, CPU, 7, 0), (6 * STEP, CPU, 8, 0), (9 * STEP, CPU, 7, 0),
                          (10 * STEP + 400, SWITCH, 7, STEP)],
                         "--where", "thread == 7 and time < 9ms or provider == 'Shop'")
        self.assertEqual({key: row["total"] for key, row in rows.items()},
                         {(7, "cpu"): 1, (1, "events"): 2})
        # The period is that of the trace.
        self.assertEqual(rows[7, "cpu"]["interval_ns"], STEP)

    def test_text_draws_the_busiest_threads_in_eighty_columns(self):
        events = [(i * STEP, CPU, 7, 0) for i in range(1, 64)] + [(9 * STEP, CPU, 8, 0)]
        path = self.trace(events)
        lines = self.run_tool("report", path, "timeline", "--top", 1)[0].splitlines()
        self.assertRegex(lines[0], r"^PROCESS +THREAD +NAME +MEASURE +TOTAL +TIMELINE$")
        self.assertRegex(lines[1], r"^ +4242 +7 +\? +cpu +63  [▁▂▃▄▅▆▇█]+$")
        self.assertLessEqual(len(lines[1]), 80)
        self.assertEqual(lines[2], "2 more threads")

    def test_traces_of_one_event_or_none_have_a_timeline(self):
        trace = nettrace.Trace().define(TICK, "Shop", "tick", 3, [])
        for data in (trace.events(TICK, [b""]).bytes + b"\1", nettrace.Trace().end()):
            for form in ("json", "csv", "text"):
                self.run_tool("report", self.write("t", data), "timeline", "--format", form)


if __name__ == "__main__":
    unittest.main()
