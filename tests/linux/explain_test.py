#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain, on requests that a program made slow in known ways. The trace has no event of
the program but the spans; the program's own records say what is right."""
import collections
import json
import os
import subprocess
import tempfile
import unittest

import record_case
import slow_fuse
from record_case import PATIENCE, TOOL, WITHOUT_LEAKS, Case, in_one_of_three, lacks_bpf

REQUESTS = int(os.environ.get("REQUESTS", "160"))
FUSE_REQUESTS = 60
INBOX_REQUESTS = 40
SEED = os.environ.get("SEED", "1")
PARTS = {"lock": "lock", "disk": "block_io", "processor": "runnable", "page": "page_fault",
         "network": "network", "callee": "callee", "sleep": "sleep", "program": "program"}


class Causes(Case):
    def record(self, requests, *more, profile="all", starter=()):
        """Run the program. Return (the rows of explain, those of the program) by time.
        `starter`: a command that starts the program."""
        done = subprocess.run(
            [TOOL, "record", "-o", self.trace, "--profile", profile, "--off-cpu", "0", "--buffer",
             "256", "--", *starter, os.environ["SLOW_HOST"], os.path.dirname(self.trace),
             str(requests), SEED, *more], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # The search for leaks cannot suspend the program's threads of high priority.
            env=WITHOUT_LEAKS, timeout=10 * PATIENCE, check=False)
        if lacks_bpf(done.stderr):
            raise unittest.SkipTest("the kernel loads no BPF programs")
        self.assertEqual(done.returncode, 0, done.stderr)
        known = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(len(known), requests, done.stderr)
        rows = json.loads(subprocess.run(
            [TOOL, "explain", self.trace, "--span", "Test-Slow/request", "--slowest",
             str(requests), "--format", "json"], stdout=subprocess.PIPE, check=True,
            timeout=PATIENCE).stdout)
        self.assertEqual(len(rows), requests, done.stderr)
        return sorted(rows, key=lambda row: row["start_ns"]), known

    @in_one_of_three
    def test_the_cause_of_each_slow_request_is_found(self):
        rows, known = self.record(REQUESTS)
        right, total = collections.Counter(), collections.Counter()
        for row, (_, cause, took_ns, added_ns) in zip(rows, known):
            self.assertEqual(sum(row["parts_ns"].values()), row["duration_ns"])
            self.assertLess(abs(row["duration_ns"] - int(took_ns)), 0.1 * int(took_ns) + 20_000)
            right[cause] += row["parts_ns"][PARTS[cause]] >= 0.5 * int(added_ns)
            total[cause] += 1
        self.assertEqual(set(total), set(PARTS))
        self.assertGreaterEqual(right.total(), 0.95 * REQUESTS, (right, total))
        unexplained = sum(row["parts_ns"]["unexplained"] for row in rows)
        self.assertLessEqual(unexplained, 0.01 * sum(row["duration_ns"] for row in rows))
        print(f"# figure: explain: the cause of {right.total()} of {REQUESTS} requests")

    @unittest.skipUnless(os.environ["SANITIZERS"] == "none", "the sanitizer replaces the library's "
                         "functions")
    @in_one_of_three
    def test_a_wait_for_a_lock_names_its_owner_in_a_program_that_inbox_started(self):
        rows, known = self.record(INBOX_REQUESTS, profile="latency",
                                  starter=(TOOL, "inbox", "--"))
        waits = [piece for row, (_, cause, _, added_ns) in zip(rows, known) if cause == "lock"
                 for piece in row["pieces"]
                 if piece["part"] == "lock" and piece["duration_ns"] >= 0.5 * int(added_ns)]
        self.assertTrue(waits)
        for wait in waits:
            # The thread that has the lock when the wait begins releases it.
            self.assertEqual(wait["owner_thread_id"], wait["waker_thread_id"])

    @in_one_of_three
    def test_a_wait_for_a_slow_file_system_in_user_space_is_one_for_its_file(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        try:
            files = slow_fuse.SlowFiles(folder)
        except OSError as error:
            self.skipTest(f"no file system can be mounted: {error}")
        self.addCleanup(files.close)
        rows, known = self.record(FUSE_REQUESTS, files.path, profile="io")
        slow = [(row, int(added_ns)) for row, (_, cause, _, added_ns) in zip(rows, known)
                if cause == "fuse"]
        self.assertTrue(slow)
        right = 0
        for row, added_ns in slow:
            waits = [piece for piece in row["pieces"]
                     if piece["part"] == "block_io" and piece.get("file") == slow_fuse.NAME]
            right += sum(piece["duration_ns"] for piece in waits) >= 0.5 * added_ns
        self.assertGreaterEqual(right, 0.95 * len(slow))


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
