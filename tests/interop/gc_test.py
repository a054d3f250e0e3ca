#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE gc` has the collections and pauses that TraceEvent finds."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

import clients

RINGPIPE = os.environ["RINGPIPE"]
DATA = os.environ.get("RINGPIPE_TEST_DATA", "")
PATIENCE_S = 120
COLLECTED = 10  # of each generation
# TraceEvent's pauses are differences of milliseconds in floating point.
PAUSE_MS = 0.001


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
    return done.stdout


class Collections(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="ringpipe-gc-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def record(self, seconds):
        """Return a recording of a .NET process that collects garbage."""
        with subprocess.Popen([*clients.counters_command(), "collect"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            pid = process.stdout.readline().strip()
            run(RINGPIPE, "collect", "-q", "-p", pid, "--providers",
                "Microsoft-Windows-DotNETRuntime:1:4", "-d", str(seconds), "-f", "-o",
                self.path("gc.nettrace"))
            process.communicate("\n", timeout=PATIENCE_S)
        return self.path("gc.nettrace")

    def compare(self, path):
        """Return TraceEvent's complete collections, after comparing all of them."""
        theirs = [json.loads(line) for line in
                  run(*clients.trace_read_command(), "--collections", path).splitlines()]
        theirs = [each for each in theirs if each["complete"]]
        if not theirs:
            return theirs
        table = json.loads(run(RINGPIPE, "report", path, "gc", "--format=json"))
        pauses = json.loads(run(RINGPIPE, "report", path, "gc", "--slowest=100000",
                                "--format=json"))
        sums = collections.defaultdict(float)
        counts = collections.Counter(pause["collection"] for pause in pauses)
        for pause in pauses:
            sums[pause["collection"]] += pause["duration_ns"] / 1e6
        generations = {row["generation"]: row["count"] for row in table}
        counted = collections.Counter(each["generation"] for each in theirs)
        for generation in range(3):
            # A collection at each end of the recording may be incomplete for TraceEvent.
            self.assertLessEqual(generations[str(generation)] - counted[generation], 2)
            self.assertGreaterEqual(generations[str(generation)], counted[generation])
        kinds = {pause["collection"]: pause for pause in pauses}
        # TraceEvent may lack the first suspension, which may be older than the recording.
        for each in theirs[1:]:
            with self.subTest(collection=each):
                if each["type"] == "BackgroundGC" and counts[each["number"]] == 1:
                    # It ended before the threads were restarted. TraceEvent then counts only the
                    # time that their suspension took.
                    self.assertGreater(sums[each["number"]], each["pause_ms"])
                else:
                    self.assertAlmostEqual(sums[each["number"]], each["pause_ms"], delta=PAUSE_MS)
                ours = kinds[each["number"]]
                self.assertEqual((ours["generation"], ours["reason"]),
                                 (each["generation"], each["reason"]))
        return theirs

    def test_collections_of_a_live_process_are_those_of_traceevent(self):
        # A busy machine needs more time for that many collections.
        for seconds in 3, 20, 60:
            theirs = self.compare(self.record(seconds))
            counted = collections.Counter(each["generation"] for each in theirs)
            if min(counted[generation] for generation in range(3)) >= COLLECTED:
                break
        for generation in range(3):
            self.assertGreaterEqual(counted[generation], COLLECTED)

    @unittest.skipUnless(DATA, "RINGPIPE_TEST_DATA has no recordings")
    def test_collections_of_recordings_are_those_of_traceevent(self):
        found = 0
        for name in sorted(os.listdir(os.path.join(DATA, "nettrace"))):
            if not name.endswith(".zip"):
                continue
            with zipfile.ZipFile(os.path.join(DATA, "nettrace", name)) as archive:
                with open(self.path("trace"), "wb") as file:
                    file.write(archive.read(archive.namelist()[0]))
            found += len(self.compare(self.path("trace")))
        self.assertGreater(found, 0)


if __name__ == "__main__":
    clients.main(clients.trace_read_command, clients.counters_command)
