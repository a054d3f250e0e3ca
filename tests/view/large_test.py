#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe view` of a trace with millions of events: the page shows an excerpt, and says so; all
events of the times to which the user zooms; and, if the user wants to read the whole trace, the
numbers that the writer of the trace counted. A picture costs no more than the screen."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import page_test
import view_test
from tool import ToolTest

EVENTS = 3_000_000
# 64 parts of one block each, which has more than the 4096 events that a part needs.
EXCERPT_EVENTS = 64 * 6000
LIMIT_S = 300
# An answer has 64 threads with three series of 2048 bins, and 20,000 spans.
PICTURE_BYTES = 8 << 20
HEAP_BYTES = 512 << 20


class LargeTest(ToolTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.trace = os.path.join(cls.folder.name, "large.nettrace")
        cls.wrote = json.loads(subprocess.run([os.environ["VIEW_TRACE"], cls.trace, str(EVENTS)],
                                              capture_output=True, check=True).stdout)

    serve = view_test.ViewTest.serve
    get = view_test.ViewTest.get
    ask = view_test.ViewTest.ask
    browse = page_test.PageTest.browse

    def load(self):
        """Have the whole trace read, and wait for it."""
        loading = self.ask("load")["traces"][0]["loading"]
        deadline = time.monotonic() + LIMIT_S
        while loading is not None:
            self.assertLess(time.monotonic(), deadline)
            loading = self.ask("traces")["traces"][0]["loading"]

    def bytes_read(self):
        with open(f"/proc/{self.view.pid}/io", encoding="ascii") as file:
            return int(file.readline().split()[1])

    def test_a_large_trace_is_shown_by_an_excerpt_that_says_so(self):
        self.run_tool("report", self.trace, "events", "--format", "csv", "--to", "1us")
        self.serve(self.trace)
        about = self.ask("traces")["traces"][0]
        self.assertEqual(about["events"], self.wrote["events"])
        self.assertIsNone(about["loading"])
        shown = {name: self.ask(name) for name in ("timeline", "flame", "functions", "spans",
                                                   "instances", "counters")}
        shown["search"] = self.ask("search", q="request")
        for name, answer in shown.items():
            self.assertEqual(answer["excerpt"]["events"], self.wrote["events"], name)
            self.assertLess(answer["excerpt"]["read"], EXCERPT_EVENTS, name)
        # The names are read from the blocks that have some, and the events from the parts.
        self.assertLess(self.bytes_read(), os.path.getsize(self.trace) * 3 / 5)
        seen = self.browse(self.url)
        # The timeline and the strip above it show the same answer.
        self.assertEqual(len(seen["asked"]), len(set(seen["asked"])))
        seen = self.browse(self.url, "text=.excerpt", "text=.tl-message", "text=.loading",
                           "tab=latency", "text=#pane-latency .excerpt", "view=40-41",
                           "text=.tl-message", "axe")
        flame, timeline, line, _, latency, _, zoomed, violations = seen["results"]
        for text in (flame, timeline, latency):
            self.assertRegex(text, r"^3\d\d,\d\d\d of 3,000,\d\d\d events \(1\d\.\d %\) were read")
        self.assertIn("it shows all events of these", line)
        self.assertEqual((zoomed, violations), ("", []))

    def test_the_counts_of_an_excerpt_are_estimates_of_those_of_the_whole_trace(self):
        self.serve(self.trace)
        early = self.ask("timeline", bins=64)
        self.load()
        late = self.ask("timeline", bins=64)
        self.assertEqual([thread["tid"] for thread in early["threads"]],
                         [thread["tid"] for thread in late["threads"]])
        for name in ("events", "samples"):
            sums = [sum(sum(thread[name]) for thread in answer["threads"])
                    for answer in (early, late)]
            self.assertAlmostEqual(sums[0] / sums[1], 1, delta=0.05)
        for guessed, counted in zip(early["threads"], late["threads"]):
            self.assertAlmostEqual(sum(guessed["events"]) / sum(counted["events"]), 1, delta=0.5)

    def test_a_range_of_an_excerpt_has_the_numbers_of_the_whole_trace(self):
        self.serve(self.trace)
        end = self.ask("traces")["traces"][0]["duration_ns"]
        times = {"from": end // 3, "to": end // 3 + 50_000_000}

        def answers():
            timeline = self.ask("timeline", bins=100, **times)
            self.assertNotIn("excerpt", timeline)
            threads = {thread["tid"]: {
                "events": thread["events"], "samples": thread["samples"],
                "bins": thread.get("span_bins"),
                # The numbers of names differ.
                "spans": [span[:3] + span[4:] for span in thread.get("spans", [])],
                "states": [state for state in thread.get("states", []) if state[1] < times["to"]],
            } for thread in timeline["threads"]}
            flames = [self.ask("flame", kind=kind, **times) for kind in ("cpu", "offcpu")]
            return {
                "threads": threads, "wakes": sorted(timeline["wakes"]),
                "totals": [flame["total"] for flame in flames],
                "functions": sorted((row["name"], row["exclusive"], row["inclusive"])
                                    for row in self.ask("functions", **times)["functions"]),
                "spans": sorted(self.ask("spans", **times)["spans"],
                                key=lambda row: row["name"]),
                "instances": self.ask("instances", name="Request", **times)["instances"],
            }

        early = answers()
        key = early["instances"][0]["key"]
        words = self.ask("explain", key=key)["words"]
        self.assertGreater(self.bytes_read(), 0)
        self.load()
        late = answers()
        for name, value in early.items():
            self.assertEqual(value, late[name], name)
        self.assertEqual(words, self.ask("explain", key=key)["words"])

    def test_the_whole_trace_has_the_numbers_that_its_writer_counted(self):
        self.serve(self.trace)
        excerpt = self.ask("traces")["traces"][0]
        self.load()
        whole = self.ask("traces")["traces"][0]
        self.assertEqual(whole["duration_ns"], excerpt["duration_ns"])
        self.assertIsNone(whole["excerpt"])
        self.assertEqual(sum(thread["events"] for process in whole["processes"]
                             for thread in process["threads"]), self.wrote["events"])
        self.assertEqual(sum(row["count"] for row in self.ask("spans")["spans"]),
                         self.wrote["spans"])
        self.assertEqual(self.ask("flame", kind="cpu")["total"], self.wrote["samples"])
        self.assertEqual(len(self.ask("timeline", bins=64)["threads"]), self.wrote["threads"])

    def test_no_state_is_shown_of_a_time_that_was_not_read(self):
        self.serve(self.trace)
        first = self.ask("timeline", bins=2048)
        for thread in first["threads"]:
            # A state between two parts would be a fiftieth of the trace.
            longest = max((to - begin for begin, to, state in thread.get("states", [])
                           if state == "run"), default=0)
            self.assertLess(longest, first["to"] / 200)

    def test_a_damaged_trace_is_shown_beyond_the_damage_and_is_no_excerpt(self):
        """The index ends at the damage, so an excerpt would lack the rest of the trace."""
        damaged = self.path("damaged.nettrace")
        shutil.copy(self.trace, damaged)
        with open(damaged, "r+b") as file:
            file.seek(os.path.getsize(damaged) // 3)
            file.write(b"\xff" * 1000)
        self.serve(damaged)
        shown = self.ask("traces")["traces"][0]
        self.assertIsNone(shown["excerpt"])
        self.assertRegex(shown["warnings"][0], r"the trace is damaged at offset \d+: .* the view "
                                               "has the other events")
        summary = json.loads(self.run_tool("report", damaged, "--format=json", status=1)[0])
        self.assertEqual(shown["events"], summary["events"])
        # At most the events up to the next sequence point, which follows a million events.
        self.assertGreater(shown["events"], self.wrote["events"] - 1_100_000)
        self.assertLess(shown["events"], self.wrote["events"])
        end = shown["duration_ns"]
        late = self.ask("events", limit=10000, **{"from": end - 1_000_000, "to": end})["events"]
        self.assertGreater(len(late), 500)

    def test_a_range_of_events_is_read_alone(self):
        self.serve(self.trace)
        end = self.ask("traces")["traces"][0]["duration_ns"]

        def bytes_read(**parameters):
            before = self.bytes_read()
            rows = self.ask("events", limit=10000, **parameters)["events"]
            return rows, self.bytes_read() - before

        size = os.path.getsize(self.trace)
        low = end // 2
        rows, used = bytes_read(**{"from": low, "to": low + 1_000_000})
        self.assertGreater(len(rows), 500)
        self.assertTrue(all(low <= row["time_ns"] < low + 1_000_000 for row in rows))
        self.assertLess(used, size / 20)
        rows, used = bytes_read(where='provider == "Nowhere"')
        self.assertEqual(rows, [])
        self.assertLess(used, size / 20)

    def test_a_picture_costs_no_more_than_the_screen(self):
        self.serve(self.trace)
        seen = self.browse(self.url, "loaded", "cost", "pan", "tab=latency", "tab=events", "cost")
        moved, used = seen["results"][2], seen["results"][-1]
        print(f"# figure: p95 of {moved['frames']} frames: {moved['p95_ms']:.1f} ms")
        print(f"# figure: heap of the page: {used['heap_bytes'] / (1 << 20):.0f} MB")
        for name, size in used["largest"].items():
            self.assertLess(size, PICTURE_BYTES, name)
        self.assertLess(used["heap_bytes"], HEAP_BYTES)
        self.assertIn(moved["most_rows"], range(3, 40))


if __name__ == "__main__":
    page_test.skip_without_browser()
    unittest.main()
