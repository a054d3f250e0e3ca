#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent shows the collections of examples/gc, whose collector is a component.

Environment: BUILD, RINGPIPE, INTEROP_BUILD.
"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import clients

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                                "examples", "gc"))
import demo  # pylint: disable=wrong-import-position

BUILD = os.environ["BUILD"]
RINGPIPE = os.environ["RINGPIPE"]
REQUESTS = 300
INDUCED = 3
RUNTIME = "Microsoft-Windows-DotNETRuntime"
PATIENCE_S = 120


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True,
                          text=True, timeout=PATIENCE_S).stdout


class Collections(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="ringpipe-gc-component-")
        cls.addClassCleanup(directory.cleanup)
        cls.trace = os.path.join(directory.name, "gc.nettrace")
        server = demo.Server(BUILD, cls.trace)
        demo.load(server, REQUESTS, INDUCED)
        cls.counted = server.quit()

    def test_traceevent_shows_each_collection_that_libgc_counted(self):
        theirs = [json.loads(line) for line in
                  run(*clients.trace_read_command(), "--collections", self.trace).splitlines()]
        self.assertGreater(self.counted, INDUCED)
        self.assertEqual([each["number"] for each in theirs],
                         list(range(1, self.counted + 1)))
        for each in theirs:
            self.assertTrue(each["complete"])
            self.assertEqual((each["generation"], each["type"]), (2, "NonConcurrentGC"))
            self.assertGreater(each["pause_ms"], 0)
        reasons = collections.Counter(each["reason"] for each in theirs)
        self.assertEqual(reasons, {"Induced": INDUCED, "AllocSmall": self.counted - INDUCED})

    def test_report_shows_the_same_collections(self):
        rows = json.loads(run(RINGPIPE, "report", self.trace, "gc", "--format=json"))
        self.assertEqual({row["generation"]: row["count"] for row in rows if row["count"]},
                         {"all": self.counted, "2": self.counted})

    def test_traceevent_decodes_what_the_collector_describes_itself(self):
        rows, _ = clients.TraceRead().events(self.trace)
        events = collections.defaultdict(list)
        for row in rows:
            events[row["event"]].append(row)
        ended = [row["fields"]["collection"] for row in events["ReclaimEnded"]]
        self.assertEqual(ended, list(range(1, self.counted + 1)))
        resized = [row["fields"] for row in events["HeapResized"]]
        self.assertTrue(resized)
        for fields in resized:
            self.assertGreater(fields["heap_bytes"], 0)
            self.assertLessEqual(fields["collections"], self.counted)
        # Each of these events follows a raw one with its name.
        raw = collections.Counter(row["fields"]["name"] for row in events["DynamicInformational"])
        self.assertEqual(raw, {"HeapResized": len(resized), "ReclaimStarted": self.counted,
                               "ReclaimEnded": self.counted})

    def test_convert_decodes_the_same_events(self):
        path = self.trace + ".jsonl"
        run(RINGPIPE, "convert", self.trace, "--to", "jsonl", "-o", path)
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        described = [row["fields"] for row in rows if row.get("event") == "ReclaimEnded"]
        raw = [row["fields"]["payload"] for row in rows
               if row.get("event") == "DynamicInformational" and
               row["fields"]["name"] == "ReclaimEnded"]
        self.assertEqual(len(described), self.counted)
        self.assertEqual(raw, described)


class Tracers(unittest.TestCase):
    @unittest.skipUnless(shutil.which("bpftrace"), "bpftrace is missing")
    @unittest.skipUnless(os.geteuid() == 0, "only root may attach bpftrace")
    def test_bpftrace_enables_the_collector_and_sees_each_collection(self):
        directory = tempfile.TemporaryDirectory(prefix="ringpipe-gc-tracers-")
        self.addCleanup(directory.cleanup)
        output = os.path.join(directory.name, "output")
        server = demo.Server(BUILD, None)
        program = os.path.join(BUILD, "examples", "gc", "gc_server")
        script = f'usdt:{program}:runtime:GCStart {{ printf("start %d\\n", arg0); }}'
        with open(output, "wb") as file, subprocess.Popen(
                ["bpftrace", "-p", str(server.process.pid), "-e", script], stdout=file,
                stderr=subprocess.PIPE) as tracer:
            deadline = time.monotonic() + PATIENCE_S
            while not self.starts(output) and tracer.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                server.ask("/collect")
            if tracer.poll() is not None:
                server.quit()
                self.skipTest(f"bpftrace cannot attach: {tracer.stderr.read().decode()}")
            demo.load(server, REQUESTS, INDUCED)
            counted = server.quit()
            tracer.wait(PATIENCE_S)     # it ends with the process
        starts = sorted(self.starts(output))
        self.assertEqual(starts, list(range(starts[0], counted + 1)))
        self.assertGreater(len(starts), INDUCED)

    @staticmethod
    def starts(path):
        """Return the numbers of the collections that bpftrace printed, perhaps not in order."""
        with open(path, encoding="utf-8") as file:
            return [int(line.split()[1]) for line in file if line.startswith("start ") and
                    line.endswith("\n")]


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
