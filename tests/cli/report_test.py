#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report`, on traces made by hand, whole, cut and damaged."""
import json
import os
import subprocess
import unittest

import nettrace
from tool import PATIENCE, TOOL, ToolTest


class Report(ToolTest):
    def test_the_summary_is_as_expected(self):
        path = self.write("shop.nettrace", nettrace.sample(orders=2000, losses=True))
        out, err = self.run_tool("report", os.path.basename(path))
        size = f"{os.path.getsize(path) / 1000:.1f} kB"
        self.assertEqual(err, "")
        self.assertEqual(out.splitlines(), [
            f"File       shop.nettrace, {size}",
            "Process    4242 on 2 processors",
            "Started    2026-11-21 01:02:03.004 UTC",
            "Duration   0.003 s",
            "Events     2,003, 667,222 a second",
            "Lost       12",
            "           10 in ring 0: full",
            "           2 in ring 3: busy",
            "Threads    2",
            "Stacks     0",
            "Complete   yes",
            "",
            "EVENTS  A SECOND  PAYLOAD  PROVIDER / EVENT",
            " 2,000   666,223  32.0 kB  Shop",
            " 2,000   666,223  32.0 kB    OrderPlaced (5)",
            "     3       999     66 B  ringpipe",
            "     3       999     66 B    EventsLost (1)",
        ])

    def test_json_has_the_same_figures(self):
        path = self.write("t", nettrace.sample(losses=True))
        summary = json.loads(self.run_tool("report", path, "--json")[0])
        self.assertEqual(summary["lost_by"], [{"ring": 0, "reason": "full", "count": 10},
                                              {"ring": 3, "reason": "busy", "count": 2}])
        self.assertEqual([summary[key] for key in
                          ["events", "lost", "threads", "complete", "error", "process_id",
                           "start_utc", "bytes", "stacks", "unordered"]],
                         [6, 12, 2, True, None, 4242, "2026-11-21 01:02:03.004",
                          os.path.getsize(path), 0, 0])
        shop = [each for each in summary["providers"] if each["name"] == "Shop"][0]
        self.assertEqual(shop["events"], 3)
        self.assertEqual(shop["kinds"][0]["name"], "OrderPlaced")
        self.assertEqual(shop["kinds"][0]["keywords"], 1)

    def test_events_are_lines_of_json(self):
        path = self.write("t", nettrace.sample(orders=2))
        lines = [json.loads(line) for line in
                 self.run_tool("report", path, "--events")[0].splitlines()]
        self.assertEqual(lines, [
            {"time_ns": 1000000 + i * 1000, "thread": 7, "processor": 1, "provider": "Shop",
             "event": "OrderPlaced", "id": 5, "fields": {"order_id": i, "customer": "Zoë"}}
            for i in range(2)])

    def test_top_leaves_the_rare_ones_out(self):
        path = self.write("t", nettrace.sample(orders=5, losses=True))
        out, _ = self.run_tool("report", path, "--top", "1")
        self.assertIn("OrderPlaced", out)
        self.assertNotIn("EventsLost", out)
        self.assertIn("1 more kinds of events", out)

    def test_standard_input_is_read(self):
        out, _ = self.run_tool("report", "-", data=nettrace.sample())
        self.assertIn("File       standard input", out)
        self.assertIn("Complete   yes", out)

    def test_a_trace_cut_anywhere_is_told_and_summed_up(self):
        data = nettrace.sample(losses=True)
        for size in range(0, len(data), 7):
            with self.subTest(size=size):
                out, err = self.run_tool("report", "-", status=1, data=data[:size])
                if out:
                    self.assertIn("Complete   no: the trace stops before its end", out)
                    self.assertRegex(err, r": the trace stops before its end at offset \d+; what")
                else:
                    self.assertIn("not a nettrace file", err)

    def test_a_cut_trace_gives_its_whole_events(self):
        data = nettrace.sample()[:-1]
        path = self.write("t", data)
        summary = json.loads(self.run_tool("report", path, "--json", status=1)[0])
        self.assertEqual((summary["events"], summary["complete"]), (3, False))
        self.assertIn("stops before its end", summary["error"])
        out, err = self.run_tool("report", path, "--events", status=1)
        self.assertEqual(len(out.splitlines()), 3)
        self.assertIn("stops before its end", err)

    def test_other_files_are_refused(self):
        for data in [b"", b"Nettrace", b"Nettrice" + b"\0" * 100, bytes(range(256)) * 40]:
            with self.subTest(data=data[:16]):
                self.assertIn("not a nettrace file",
                              self.run_tool("report", self.write("t", data), status=1)[1])
        self.assertIn("No such file", self.run_tool("report", "not-there", status=1)[1])
        self.assertIn("Is a directory", self.run_tool("report", ".", status=1)[1])

    def test_a_damaged_byte_never_kills_it(self):
        data = bytearray(nettrace.sample(losses=True))
        for at in range(60, len(data), 11):
            for value in [0, 0x7f, 0xff]:
                damaged = bytearray(data)
                damaged[at] = value
                process = subprocess.run([TOOL, "report", "--json", "-"], input=bytes(damaged),
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         check=False, timeout=PATIENCE)
                self.assertIn(process.returncode, (0, 1), (at, value, process.stderr))


if __name__ == "__main__":
    unittest.main()
