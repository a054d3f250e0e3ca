#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain names the threads for which a thread waited: those that had and released a lock,
and those that used its processor."""
import struct
import unittest

import explain_test
import nettrace
from explain_test import CALL, FUTEX, MUTEX, OTHER, RWLOCK, START, STOP, WAIT, call, define, wait
from tool import ToolTest


class Threads(ToolTest):
    explain = explain_test.Explain.explain
    mark = staticmethod(explain_test.Explain.mark)

    def test_a_lock_has_its_address_and_the_thread_that_released_it(self):
        futex = struct.pack("<QQQIQ", 0x7f00, 0, 950_000, 4242, 8)
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        trace.events(CALL, [call("fsync", 720_000)], thread=8, ns=790_000)
        trace.events(WAIT, [wait(700_000)], thread=8, ns=780_000)
        trace.events(WAIT, [wait(900_000, 100_000, 1, (4242, 8))], ns=1_000_000)
        trace.events(FUTEX, [futex], ns=1_020_000)
        self.mark(trace, 1100, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["lock"], 800_000)
        self.assertEqual(row["parts_ns"]["runnable"], 100_000)
        lock, = (piece for piece in row["pieces"] if piece["part"] == "lock")
        self.assertEqual((lock["lock"], lock["waker_process_id"], lock["waker_thread_id"]),
                         ("0x7f00", 4242, 8))
        self.assertEqual((row["holder"]["thread_id"], row["holder"]["from_ns"]), (8, 100_000))
        self.assertEqual(row["holder"]["parts_ns"]["block_io"], 680_000)
        self.assertEqual(sum(row["holder"]["parts_ns"].values()), 800_000)
        text = self.run_tool("explain", self.path("t"))[0]
        self.assertIn("lock 0x7f00, ended by thread 8 of process 4242 (800 us)", text)
        self.assertIn("73 % of the time, it was waiting for a lock.", text)
        self.assertIn("680 us waiting for a disk or file system: fsync (680 us)", text)

    def test_a_lock_has_its_owner_at_the_beginning_of_the_wait(self):
        for has_futex in (True, False):
            trace = define(nettrace.Trace())
            self.mark(trace, 0, START)
            # Thread 9 has the mutex, then thread 8, which wakes the thread of the span.
            trace.events(WAIT, [wait(300_000, 0, 1, (4242, 8))], ns=400_000)
            if has_futex:
                trace.events(FUTEX, [struct.pack("<QQQIQ", 0x7f00, 0, 300_000, 4242, 8)],
                             ns=401_000)
            trace.events(MUTEX, [struct.pack("<QQII", 0x7f00, 302_000, 9, 0)], ns=402_000)
            trace.events(WAIT, [wait(100_000, 0, 1, (4242, 6))], ns=600_000)
            trace.events(RWLOCK, [struct.pack("<QQIIII", 0x8f00, 102_000, 6, 0, 1, 0)],
                         ns=601_000)
            # A lock of other threads.
            trace.events(MUTEX, [struct.pack("<QQII", 0x9f00, 500_000, 5, 0)], thread=OTHER,
                         ns=602_000)
            self.mark(trace, 1000, STOP)
            row, = self.explain(trace)
            locks = [piece for piece in row["pieces"] if piece["part"] == "lock"]
            self.assertEqual([(lock["lock"], lock["owner_thread_id"], lock["waker_thread_id"],
                               lock["duration_ns"]) for lock in locks],
                             [("0x7f00", 9, 8, 300_000), ("0x8f00", 6, 6, 100_000)])
            self.assertIn("lock 0x7f00 of thread 9, ended by thread 8 of process 4242 (300 us); "
                          "lock 0x8f00 of thread 6, ended by thread 6 of process 4242 (100 us)",
                          self.run_tool("explain", self.path("t"))[0])

    def test_a_wait_for_the_processor_names_the_thread_that_used_it(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        for at, previous in ((13_000, (55, 56, 11_000_000, "hog")), (26_000, (55, 56, 12_000_000,
                             "hog")), (28_000, (0, 0, 0, ""))):
            runnable = previous[2] or 500_000
            trace.events(WAIT, [wait(runnable + 1_000, runnable, 0, (0, 0), previous)],
                         ns=1000 * at)
        self.mark(trace, 30_000, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["runnable"], 23_502_000 + 1_000)
        self.assertIn("while hog ran, thread 56 of process 55 (23.0 ms in 2)",
                      self.run_tool("explain", self.path("t"))[0])

    def test_a_long_wait_for_the_processor_names_those_that_used_it_longest(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        # Thread 7 is ready to run from 1 to 31 ms. Each of the others states its predecessor, but
        # its time only from its own wakeup on.
        for at, thread, processor, previous in (
                (1_000, 56, 1, (4242, 7, 1_000_000, "shop")),
                (1_000, 66, 2, (4242, 67, 1_000_000, "elsewhere")),
                (21_000, 57, 1, (55, 56, 100_000, "hog")),
                (24_000, 58, 1, (55, 57, 100_000, "short")),
                (30_000, 67, 2, (65, 66, 29_000_000, "elsewhere"))):
            trace.events(WAIT, [wait(200_000, 100_000, 1, (0, 0), previous)], thread=thread,
                         ns=1000 * at, processor=processor)
        trace.events(WAIT, [wait(30_000_000, 30_000_000, 0, (0, 0),
                                 (55, 58, 7_000_000, "last"))], ns=31_000_000)
        self.mark(trace, 32_000, STOP)
        row, = self.explain(trace)
        pieces = [(piece["detail"], piece["from_ns"], piece["duration_ns"])
                  for piece in row["pieces"] if piece["part"] == "runnable"]
        self.assertEqual(pieces, [("hog", 1_000_000, 20_000_000), ("short", 21_000_000, 3_000_000),
                                  ("last", 24_000_000, 7_000_000)])
        self.assertIn("while hog ran, thread 56 of process 55 (20.0 ms); while last ran, thread 58 "
                      "of process 55 (7.00 ms); while short ran, thread 57 of process 55 (3.00 ms)",
                      self.run_tool("explain", self.path("t"))[0])

    def test_time_in_which_the_trace_names_no_thread_on_the_processor_is_stated(self):
        """`ringpipe record -p` records waits of these processes alone."""
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        trace.events(WAIT, [wait(30_000_000, 30_000_000, 0, (0, 0),
                                 (55, 58, 7_000_000, "last"))], ns=31_000_000)
        self.mark(trace, 32_000, STOP)
        self.explain(trace)
        self.assertIn("without a known thread (23.0 ms); while last ran, thread "
                      "58 of process 55 (7.00 ms)", self.run_tool("explain", self.path("t"))[0])


if __name__ == "__main__":
    unittest.main()
