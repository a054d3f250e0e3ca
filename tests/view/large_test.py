#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe view` of a trace with millions of events: the page shows a preview at first and then
the numbers that the writer of the trace counted, and a picture costs no more than the screen."""
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
        """Wait until the whole trace is read."""
        deadline = time.monotonic() + LIMIT_S
        while self.ask("traces")["traces"][0]["loading"] is not None:
            self.assertLess(time.monotonic(), deadline)

    def test_a_preview_becomes_the_whole_trace(self):
        self.serve(self.trace)
        preview = self.ask("traces")["traces"][0]
        self.assertEqual(preview["events"], self.wrote["events"])
        self.assertIsNotNone(preview["loading"])
        early = self.ask("timeline", bins=64)
        self.load()
        whole = self.ask("traces")["traces"][0]
        self.assertEqual(whole["duration_ns"], preview["duration_ns"])
        self.assertEqual(sum(thread["events"] for process in whole["processes"]
                             for thread in process["threads"]), self.wrote["events"])
        self.assertEqual(sum(row["count"] for row in self.ask("spans")["spans"]),
                         self.wrote["spans"])
        self.assertEqual(self.ask("flame", kind="cpu")["total"], self.wrote["samples"])
        late = self.ask("timeline", bins=64)
        self.assertEqual(len(late["threads"]), self.wrote["threads"])
        # Every thread runs often enough to be in the preview.
        self.assertEqual({thread["tid"] for thread in early["threads"]},
                         {thread["tid"] for thread in late["threads"]})

    def test_no_time_is_shown_in_a_preview_that_was_not_read(self):
        self.serve(self.trace)
        first = self.ask("timeline", bins=2048)
        self.load()
        whole = self.ask("timeline", bins=2048)
        threads = {thread["tid"]: thread for thread in whole["threads"]}
        for thread in first["threads"]:
            events = sum(thread["events"])
            self.assertLessEqual(events, sum(threads[thread["tid"]]["events"]))
            # A state between two parts would be a fiftieth of the trace.
            longest = max(to - begin for begin, to, state in thread.get("states", [[0, 0, ""]])
                          if state == "run")
            self.assertLess(longest, first["to"] / 200)

    def test_a_damaged_trace_is_shown_beyond_the_damage_and_has_no_preview(self):
        """The index ends at the damage, so a preview would lack the rest of the trace."""
        damaged = self.path("damaged.nettrace")
        shutil.copy(self.trace, damaged)
        with open(damaged, "r+b") as file:
            file.seek(os.path.getsize(damaged) // 3)
            file.write(b"\xff" * 1000)
        self.serve(damaged)
        shown = self.ask("traces")["traces"][0]
        self.assertIsNone(shown["loading"])
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
        self.load()
        end = self.ask("traces")["traces"][0]["duration_ns"]

        def bytes_read(**parameters):
            with open(f"/proc/{self.view.pid}/io", encoding="ascii") as file:
                before = int(file.readline().split()[1])
            rows = self.ask("events", limit=10000, **parameters)["events"]
            with open(f"/proc/{self.view.pid}/io", encoding="ascii") as file:
                return rows, int(file.readline().split()[1]) - before

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
