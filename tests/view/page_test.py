#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of `ringpipe view` in headless Chromium: its numbers are those of `ringpipe report`,
keys and permalinks work, and a hostile trace runs nothing."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import urllib.parse

import nettrace
import view_test
from tool import TOOL, ToolTest

FOLDER = os.path.dirname(os.path.abspath(__file__))
CHROMIUM = shutil.which("chromium")
PATIENCE = 180


class PageTest(ToolTest):
    def open_page(self, *data):
        return view_test.ViewTest.open(self, *data)

    serve = view_test.ViewTest.serve

    def browse(self, url, *steps):
        done = subprocess.run(["node", os.path.join(FOLDER, "browse.mjs"), CHROMIUM, url, *steps],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        seen = json.loads(done.stdout)
        self.assertEqual(seen["errors"], [])
        self.assertEqual(seen["dialogs"], [])
        return seen

    def test_the_panes_have_the_numbers_of_report(self):
        url = self.open_page(view_test.spans_trace())
        seen = self.browse(url, "tab=latency", "rows=Spans", "rows=Slow spans", "text=.facts",
                           "tab=counters", "text=#pane-counters")
        _, spans, slow, facts, _, counters = seen["results"]
        span = json.loads(self.run_tool("report", "0.nettrace", "spans", "--format",
                                        "json")[0])[0]
        self.assertEqual([span["count"], span["errors"]], [int(spans[0][2]), int(spans[0][4])])
        self.assertEqual(spans[0][0], span["span"])
        # The test's own spans: the i-th takes 10 + i us.
        self.assertEqual(slow[0][0], "49.00 us")
        self.assertEqual(len(slow), 10)
        self.assertIn("82 events", facts)
        # `ringpipe report` has the same sentence on what records counters.
        self.assertIn("EventCounterIntervalSec=1", counters)
        self.assertIn("EventCounterIntervalSec=1",
                      self.run_tool("report", "0.nettrace", "counters")[0])

    def test_two_traces_have_their_latencies_side_by_side(self):
        def spans(name, *durations):
            trace = nettrace.Trace()
            trace.define(1, "Shop", "RequestStart", 1, [])
            trace.define(2, "Shop", "RequestStop", 2, [])
            trace.define(3, "Shop", name + "Start", 3, [])
            trace.define(4, "Shop", name + "Stop", 4, [])
            for i, us in enumerate(durations):
                for start in 1, 3:
                    trace.events(start, [b""], ns=1_000_000 * i)
                    trace.events(start + 1, [b""], ns=1_000_000 * i + 1000 * us)
            return trace.end()
        url = self.open_page(spans("Old", 20, 30), spans("New", 400, 500, 600))
        seen = self.browse(url, "hash=tab=latency&other=1", "rows=Spans", "text=.subtitle",
                           "click=[aria-label=Spans] tbody tr:last-child", "text=.split",
                           "hash=tab=latency", "rows=Spans", "text=.subtitle")
        rows = [(row[0], row[1], row[3], row[10]) for row in seen["results"][1]]
        self.assertEqual(sorted(rows), [
            ("New", "2", "3", "600.0 us"), ("Old", "1", "2", "30.00 us"),
            ("Request", "1", "2", "30.00 us"), ("Request", "2", "3", "600.0 us")])
        self.assertIn("3 spans of trace 2", seen["results"][2])
        # A span of the other trace alone can be chosen, too.
        self.assertIn("The trace has no such span", seen["results"][4])
        self.assertEqual(len(seen["results"][6]), 2)
        self.assertNotIn("trace 2", seen["results"][7])

    def test_functions_without_names_have_their_file_as_in_report(self):
        machine = view_test.Machine()
        machine.map(10, 1, 0x400000, 0x500000, "/opt/a.so")
        machine.map(10, 2, 0x600000, 0x700000, "/opt/b.so")
        for address in (0x400500, 0x400500, 0x400500, 0x600500, 0x600500, 0x900000):
            machine.sample(10, 11, [address])
        seen = self.browse(self.open_page(machine.end()), "hash=tab=flame", "type=.flame=",
                           "key=ArrowDown", "text=.foot", "key=ArrowRight", "text=.foot",
                           "hash=tab=flame&order=functions", "rows=Functions")
        first, second, rows = (seen["results"][i] for i in (3, 5, 7))
        self.assertTrue(first.startswith("[a.so]"), first)
        self.assertIn("/opt/b.so", second)
        names = [row[4] for row in rows]
        self.assertEqual(names, ["[a.so]", "[b.so]", "[unknown]"])
        text = self.run_tool("report", "0.nettrace", "cpu")[0]
        self.assertEqual([name for name in names if name not in text], [])

    def test_keys_choose_panes_and_the_address_keeps_the_state(self):
        url = self.open_page(view_test.spans_trace())
        seen = self.browse(url, "key=5", "state", "key=w", "state", "key=0", "state", "key=/",
                           "key=Escape", "key=?", "text=dialog", "key=Escape")
        chosen, zoomed, whole = (seen["results"][i] for i in (1, 3, 5))
        self.assertEqual(chosen["tab"], "events")
        low, high = zoomed["view"]
        self.assertLess(high - low, 9_200_000)
        self.assertIsNone(whole["view"])
        self.assertIn("Keys and gestures", seen["results"][9])
        self.assertIn("the thread was on a processor", seen["results"][9])
        seen = self.browse(url, "hash=tab=latency&range=1000000-2000000", "state", "rows=Spans")
        self.assertEqual(seen["results"][1]["range"], [1_000_000, 2_000_000])
        self.assertEqual(seen["results"][2][0][2], "10")

    def test_a_wrong_expression_has_a_caret_at_its_position(self):
        url = self.open_page(view_test.spans_trace())
        text = 'provider == "é" and'
        seen = self.browse(url, "tab=events", "rows=Events", f"type=.where input={text}",
                           "key=Enter", "text=.caret", "text=#pane-events")
        self.assertGreater(len(seen["results"][1]), 40)
        first, second = seen["results"][4].split("\n")
        self.assertEqual(first, text)
        self.assertEqual(second.index("^"), len(text))
        # The events of the expression before are gone.
        self.assertIn("no events are shown", seen["results"][5])
        self.assertNotIn("RequestStart", seen["results"][5])

    def test_times_have_the_units_of_the_command(self):
        url = self.open_page(view_test.spans_trace())
        seen = self.browse(url, "tab=latency", 'click=[aria-label="Slow spans"] tbody tr',
                           "text=.explain")
        table, words = seen["results"][2].split("In words")
        text = self.run_tool("explain", "0.nettrace")[0]
        self.assertIn("49.0 us", text)
        self.assertIn("49.0 us", words)
        self.assertIn("49.00 us", table)

    def test_an_offline_page_has_expressions_with_a_caret_at_an_error(self):
        path = self.write("0.nettrace", view_test.spans_trace())
        self.run_tool("view", "--html", "page.html", path)
        url = "file://" + self.path("page.html")
        seen = self.browse(url, "hash=tab=events&where=order%20%3E%2036", "rows=Events",
                           "hash=tab=events&where=order%20%3E%20%26", "text=.caret")
        self.assertEqual(len(seen["results"][1]), 6)
        self.assertEqual(seen["results"][3].split("\n")[1].index("^"), 8)

    def test_a_span_is_explained_and_shown_in_the_timeline(self):
        url = self.open_page(view_test.spans_trace())
        seen = self.browse(url, "tab=latency", 'click=[aria-label="Slow spans"] tbody tr', "state",
                           "text=.words")
        self.assertEqual(seen["results"][2]["tab"], "explain")
        low, high = seen["results"][2]["view"]
        self.assertLess(low, 4_900_000)     # the 39th span: the slowest
        self.assertGreater(high, 4_949_000)
        self.assertIn("took 49.0 us", seen["results"][3])

    def test_a_search_opens_the_span_or_the_events_that_it_found(self):
        """Two providers have spans and events of the same names."""
        trace = nettrace.Trace()
        for i, provider in enumerate(("Front", "Back")):
            trace.define(2 * i + 1, provider, "RequestStart", 1, [])
            trace.define(2 * i + 2, provider, "RequestStop", 2, [])
            for j in range(5 - 2 * i):
                trace.events(2 * i + 1, [b""], ns=10_000 * j, thread=7 + i)
                trace.events(2 * i + 2, [b""], ns=10_000 * j + 5000, thread=7 + i)
        url = self.open_page(trace.end())
        seen = self.browse(url, "type=#search=back/request", "key=Enter", "text=.subtitle",
                           "hash=tab=latency", "type=#search=back/requestst", "key=Enter",
                           "rows=Events")
        self.assertIn("3 spans", seen["results"][2])
        rows = seen["results"][-1]
        self.assertEqual([row[4:6] for row in rows], [["RequestStart", "Back"]] * 3)

    def test_the_processes_with_the_most_events_are_first(self):
        machine = view_test.Machine()
        for process, count in ((10, 9), (20, 3), (30, 20)):
            machine.name(process, f"p{process}")
            for _ in range(count):
                machine.sample(process, process, [0x401000])
        seen = self.browse(self.open_page(machine.end()), "text=.tl-labels")
        self.assertEqual(re.findall("p[0-9]+", seen["results"][0]), ["p30", "p10", "p20"])

    def test_long_texts_are_not_cut_and_overlap_nothing(self):
        machine = view_test.Machine().name(10, "shop")
        machine.map(10, 100, 0x400000, 0x500000, "/bin/shop")
        machine.function(10, 100, 0x402000, 0x4020ff, "std::vector<" * 30)
        for i in range(5):
            machine.sample(10, 11, [0x402000])
            machine.wait(10, 11, 1_000_000 + i, [0x402000, 0x400500])
        trace = nettrace.Trace()
        trace.define(1, "Provider" * 20, "RequestStart", 1, [])
        trace.define(2, "Provider" * 20, "RequestStop", 2, [])
        for i in range(1000):
            trace.events(1, [b""], ns=100_000 * i).events(2, [b""], ns=100_000 * i + 12_345)
        url = self.open_page(machine.end(), trace.end())
        seen = self.browse(url, "hash=tab=explain&tid=11", "text=.explain", "wide=.explain > div",
                           "hash=trace=1&tab=latency", "wide=.split .scroll")
        self.assertIn("std::vector<std::vector<", seen["results"][1])
        self.assertEqual((seen["results"][2], seen["results"][4]), ([], []))

    def test_a_hostile_trace_runs_nothing(self):
        url = self.open_page(view_test.spans_trace(), view_test.stacks_trace())
        steps = ["scripts", "tab=latency", "scripts", "tab=events", "scripts", "rows=Events",
                 "type=#search=script", "scripts", "key=Escape",
                 "hash=trace=1&other=0&tab=flame", "scripts", "tab=explain", "scripts"]
        seen = self.browse(url, *steps)
        counts = [result for result in seen["results"] if isinstance(result, dict)]
        self.assertEqual(len(counts), 6)
        for count in counts:
            self.assertEqual(count, {"scripts": 1, "frames": 0, "handlers": 0})
        self.assertIn("<script>alert(1)</script>", json.dumps(seen["results"][5]))
        own = urllib.parse.urlsplit(url)
        for asked in seen["asked"]:
            parts = urllib.parse.urlsplit(asked)
            self.assertIn((parts.scheme, parts.netloc), [("http", own.netloc), ("data", ""),
                                                         ("about", "")])

    def test_axe_finds_nothing_serious_in_light_and_dark(self):
        url = self.open_page(view_test.stacks_trace(), view_test.spans_trace())
        for theme in ("light", "dark"):
            steps = [f"theme={theme}"]
            for tab in ("flame", "latency", "explain", "counters", "events"):
                steps += [f"tab={tab}", "axe"]
            steps += ["key=?", "axe"]
            found = self.browse(url, *steps)["results"]
            self.assertEqual([one for one in found if one], [])

    def test_the_page_in_a_file_asks_for_nothing(self):
        trace = self.write("a.nettrace", view_test.spans_trace())
        path = self.path("a.html")
        self.run_tool("view", trace, "--html", path)
        seen = self.browse("file://" + path, "tab=latency", "rows=Spans", "tab=events",
                           "rows=Events")
        self.assertEqual(seen["results"][1][0][2], "40")
        self.assertGreater(len(seen["results"][3]), 40)
        self.assertEqual([asked for asked in seen["asked"] if not asked.startswith("data:")],
                         ["file://" + path])

    def test_the_notice_of_a_reading_remains_until_the_page_shows_the_whole_trace(self):
        url = self.open_page(view_test.spans_trace())
        seen = self.browse(url, "reading=0.5", "reload", "shown=.loading", "text=.loading",
                           "type=#search=x", "reading=null",
                           "shown=.loading button:not(.whole)",
                           "text=.loading", "key=Escape", "loaded", "text=.facts")
        self.assertIn("The whole trace is being read", seen["results"][3])
        # The page does not load again while the user writes.
        self.assertIn("The trace has been read, but the page still shows parts of it",
                      seen["results"][7])
        self.assertIn("82 events", seen["results"][-1])

    def test_the_page_shows_the_whole_trace_after_the_server_did_not_answer(self):
        url = self.open_page(view_test.spans_trace())
        seen = self.browse(url, "reading=0.5", "reload", "reading=fails", "shown=.loading.failed",
                           "text=.loading", "reading=null", "loaded", "text=.facts")
        self.assertIn("The server does not answer", seen["results"][4])
        self.assertIn("82 events", seen["results"][-1])

    def test_moving_draws_only_what_is_visible(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "RequestStart", 1, [])
        trace.define(2, "Shop", "RequestStop", 2, [])
        for i in range(4000):
            thread = 100 + i % 200
            trace.events(1, [b""], ns=i * 50_000, thread=thread)
            trace.events(2, [b""], ns=i * 50_000 + 40_000, thread=thread)
        seen = self.browse(self.open_page(trace.end()), "pan")
        moved = seen["results"][0]
        print(f"# figure: p95 of {moved['frames']} frames: {moved['p95_ms']:.1f} ms")
        self.assertGreater(moved["frames"], 60)
        # Of 200 rows of threads, about a dozen are visible.
        self.assertIn(moved["most_rows"], range(5, 40))


def skip_without_browser():
    if not CHROMIUM or not shutil.which("node"):
        print("chromium or node is missing; scripts/setup long installs them")
        sys.exit(77)
    if not os.path.isdir(os.path.join(FOLDER, "node_modules")):
        print("the packages of tests/view are missing; scripts/setup long fetches them")
        sys.exit(77)
    unavailable = subprocess.run([TOOL, "view", os.devnull], capture_output=True, text=True,
                                 check=False).stderr
    if "has no page" in unavailable:
        print(unavailable.strip())
        sys.exit(77)


if __name__ == "__main__":
    skip_without_browser()
    unittest.main()
