#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report` on recordings of a program whose use of time is known.

Environment: RINGPIPE, PROFILE_HOST, RECORD (empty: not built), SANITIZERS.
"""
import json
import os
import subprocess
import unittest

import record_case
from record_case import Case, in_one_of_three, lacks_bpf

HOST = os.environ["PROFILE_HOST"]
NAME = os.path.basename(HOST)
ROUNDS = 20


class Profile(Case):
    def report(self, *arguments):
        done = subprocess.run([record_case.TOOL, "report", self.trace, *arguments,
                               "--top=100000", "--format=json"], stdout=subprocess.PIPE,
                              check=True, timeout=record_case.PATIENCE)
        return json.loads(done.stdout)

    @in_one_of_three
    def test_two_functions_have_samples_as_they_used_time(self):
        self.record("--", HOST, "2000")
        rows = {row["function"]: row for row in self.report("cpu") if row["file"] == HOST}
        twice, once = (rows[name]["inclusive_samples"] for name in ("use_twice", "use_once"))
        # 594 samples without other load; their standard deviation is 2 %.
        self.assertGreater(twice + once, 100)
        self.assertAlmostEqual(twice / (twice + once), 2 / 3,
                               delta=3 * (2 / 9 / (twice + once)) ** 0.5)
        self.assertEqual([row["function"] for row in rows["use_twice"]["callers"]], ["main"])
        host = [row for row in self.report("cpu", "--by=process") if row["file"] == HOST]
        self.assertEqual(host[0]["function"], "use_twice")
        self.assertEqual(host[0]["process"], NAME[:15])
        self.assertGreaterEqual(host[0]["samples"], twice + once)
        relations = self.report("cpu", "--function=use_once")
        self.assertEqual([row["samples"] for row in relations
                          if row["relation"] == "total" and row["file"] == HOST], [once])

    def lines_of_lock(self):
        done = self.record("--kernel", "sched,futex", "--", HOST, "lock")
        if lacks_bpf(done.stderr):
            self.skipTest(done.stderr)
        return {word: int(number) for word, number in map(str.split, done.stdout.splitlines())}

    @in_one_of_three
    def test_waits_for_a_mutex_name_the_thread_that_held_it(self):
        host = self.lines_of_lock()
        found = {row["kind"]: row for row in self.report("waits")
                 if (row["thread_id"], row["waker_thread_id"]) == (host["waiter"], host["holder"])
                 and (row["kind"] == "wait" or row["address"] == hex(host["mutex"]))}
        self.assertEqual(set(found), {"wait", "futex"})
        for row in found.values():
            self.assertEqual(row["process"], NAME[:15])
            self.assertEqual(row["waker_process_id"], host["waiter"])
            self.assertIn("wait_for_mutex", row["stack"])
            self.assertEqual(row["stack"][-1], "_start")
            self.assertGreater(row["total_ns"], ROUNDS * 19e6)
            self.assertGreaterEqual(row["max_ns"], row["total_ns"] / row["count"])
        self.assertEqual(found["futex"]["count"], ROUNDS)

    @in_one_of_three
    def test_time_off_the_processor_belongs_to_the_function_that_waited(self):
        self.lines_of_lock()
        rows = {row["function"]: row for row in self.report("offcpu") if row["file"] == HOST}
        waiting = rows["wait_for_mutex"]
        self.assertGreater(waiting["inclusive_ns"], ROUNDS * 19e6)
        self.assertEqual(waiting["exclusive_ns"], 0)
        self.assertGreater(rows["hold_mutex"]["inclusive_ns"], ROUNDS * 19e6)


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
