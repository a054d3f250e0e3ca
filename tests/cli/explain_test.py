#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain, on traces in which each microsecond of a thread is known."""
import collections
import json
import random
import struct
import unittest

import nettrace
from nettrace import STRING, U32, U64, utf16z
from tool import ToolTest

START, STOP, WAIT, CALL, FUTEX, INTERRUPT, FAULT = range(1, 8)
MACHINE = "Ringpipe-Machine"
LENGTH_US = 3000
CALLS = {"recvfrom": "network", "fsync": "block_io", "clock_nanosleep": "sleep",
         "futex": "lock", "getrandom": "other_wait"}
OTHER = 99	# a thread whose records must not matter


def guid(number):
    return struct.pack("<IHH8B", number, 0, 0, *[9] * 8)


class Machine:
    """Random records of one thread between 0 and LENGTH_US, and what they say of each us."""

    def __init__(self, chance):
        self.parts = ["program"] * LENGTH_US
        self.rows = []		# (end in us, event, payload)
        self.calls = []
        self.waits = []
        for start, end in self.spread(chance, 25):
            self.add_call(start, end, chance.choice(sorted(CALLS)))
        for start, end in self.spread(chance, 20):
            self.add_interrupt(start, end)
        for start, end in self.spread(chance, 30):
            self.add_wait(start, end, chance)
        self.rows.sort(key=lambda row: row[0])

    @staticmethod
    def spread(chance, count):
        """Return disjoint periods."""
        ends = sorted(chance.sample(range(LENGTH_US), 2 * count))
        return list(zip(ends[::2], ends[1::2]))

    def add_call(self, start, end, name):
        self.calls.append((start, end, name))
        self.parts[start:end] = ["system_call"] * (end - start)
        self.rows.append((end, CALL, struct.pack("<I", 0) + utf16z(name) +
                          struct.pack("<QQ", 0, 1000 * (end - start))))

    def add_interrupt(self, start, end):
        self.parts[start:end] = ["interrupt"] * (end - start)
        self.rows.append((end, INTERRUPT, utf16z("hard") + utf16z("eth0") +
                          struct.pack("<Q", 1000 * (end - start))))

    def add_wait(self, start, end, chance):
        state = chance.choice((0, 1, 2))
        woken = start if state == 0 else chance.randint(start, end)
        self.waits.append((start, woken, end))
        self.rows.append((end, WAIT, struct.pack("<QQIIQ", 1000 * (end - start),
                                                 1000 * (end - woken), state, 55, 56)))

    def parts_between(self, begin, until):
        """Return the part of each us; of a wait and of calls, only what is between counts."""
        parts = list(self.parts)
        for start, woken, end in self.waits:
            first, last = max(start, begin), min(woken, until)
            covering = [(min(last, call[1]) - max(first, call[0]), call) for call in self.calls
                        if call[0] < last and call[1] > first]
            part = "other_wait"
            if covering:
                # If two calls overlap the wait equally, the first counts.
                _, (_, _, name) = max(covering, key=lambda row: (row[0], -row[1][0]))
                part = CALLS[name]
            parts[start:woken] = [part] * (woken - start)
            parts[woken:end] = ["runnable"] * (end - woken)
        return parts[begin:until]


def pool_of_threads(chance, threads=3, activities=4):
    """Return events (us, thread, activity) of activities that move among threads, and waits
    (thread, start, end) of the threads. Each activity stops on another thread than it starts."""
    times = chance.sample(range(LENGTH_US), 40)
    events = [(at, 7 + chance.randrange(threads), 1 + chance.randrange(activities))
              for at in times]
    for number in range(1, activities + 1):
        own = sorted(event for event in events if event[2] == number)
        events = [event for event in events if event[2] != number]
        if len(own) > 1:
            at, thread, _ = own[-1]
            own[-1] = (at, thread if thread != own[0][1] else 7 + (thread - 6) % threads, number)
            events += own
    waits = [(7 + thread, start, end) for thread in range(threads)
             for start, end in Machine.spread(chance, 10)]
    return sorted(events), waits


def who_worked(events, waits, number):
    """Return (part, thread) of each us between the first and the last event of an activity."""
    own = [(at, thread) for at, thread, activity in events if activity == number]
    known = []
    for (begin, thread), (end, next_thread) in zip(own, own[1:]):
        others = [at for at, other, activity in events
                  if other == thread and activity != number and begin < at < end]
        for at in range(begin, end):
            if thread != next_thread or others:
                known.append(("unexplained", None))
            elif any(waiter == thread and start <= at < stop for waiter, start, stop in waits):
                known.append(("other_wait", thread))
            else:
                known.append(("program", thread))
    return known


def define(trace):
    trace.define(START, "Shop", "requestStart", 1, [])
    trace.define(STOP, "Shop", "requestStop", 2, [])
    trace.define(WAIT, MACHINE, "Wait", 1, [
        ("duration_ns", U64), ("runnable_ns", U64), ("state", U32), ("waker_process", U32),
        ("waker_thread", U64)])
    trace.define(CALL, MACHINE, "Syscall", 3, [
        ("number", U32), ("name", STRING), ("result", U64), ("duration_ns", U64)])
    trace.define(8, "Shop", "progress", 3, [])
    trace.define(FUTEX, MACHINE, "FutexWait", 4, [
        ("address", U64), ("result", U64), ("duration_ns", U64), ("waker_process", U32),
        ("waker_thread", U64)])
    return trace.define(INTERRUPT, MACHINE, "Interrupt", 11, [
        ("kind", STRING), ("name", STRING), ("duration_ns", U64)])


class Explain(ToolTest):
    def explain(self, trace, *more):
        out, err = self.run_tool("explain", self.write("t", trace.end()), "--format=json", *more)
        self.errors = err
        return json.loads(out)

    def one_span(self, rows, start_us, end_us):
        """Make a trace with one span of thread 7 among the records of two threads."""
        trace = define(nettrace.Trace())
        events = [(end, number, thread) for number, (end, _, _) in enumerate(rows)
                  for thread in (7, OTHER)]
        marks = [(start_us, START), (end_us, STOP)]
        for end, number, thread in events:
            while marks and marks[0][0] <= end:
                self.mark(trace, *marks.pop(0))
            # The other thread was always one record behind.
            _, kind, payload = rows[number if thread == 7 else number - 1]
            trace.events(kind, [payload], thread=thread, ns=1000 * end)
        for at_us, kind in marks:
            self.mark(trace, at_us, kind)
        return trace

    @staticmethod
    def mark(trace, at_us, kind):
        trace.activity = guid(1)
        trace.events(kind, [b""], ns=1000 * at_us)
        trace.activity = bytes(16)

    def test_the_parts_are_those_of_each_microsecond(self):
        chance = random.Random(4)
        for _ in range(30):
            machine = Machine(chance)
            start, end = sorted(chance.sample(range(LENGTH_US), 2))
            row, = self.explain(self.one_span(machine.rows, start, end))
            expected = {part: 0 for part in row["parts_ns"]}
            for part in machine.parts_between(start, end):
                expected[part] += 1000
            self.assertEqual(row["parts_ns"], expected)
            self.assertEqual(row["duration_ns"], 1000 * (end - start))
            at = 1000 * start
            for piece in row["pieces"]:
                self.assertEqual(piece["from_ns"], at)
                at += piece["duration_ns"]
            self.assertEqual(at, 1000 * end)

    def test_a_lock_has_its_address_and_the_thread_that_released_it(self):
        wait = struct.pack("<QQIIQ", 900_000, 100_000, 1, 4242, 8)
        futex = struct.pack("<QQQIQ", 0x7f00, 0, 950_000, 4242, 8)
        holder = struct.pack("<QQIIQ", 700_000, 0, 1, 0, 0)
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        trace.events(CALL, [struct.pack("<I", 0) + utf16z("fsync") +
                            struct.pack("<QQ", 0, 720_000)], thread=8, ns=790_000)
        trace.events(WAIT, [holder], thread=8, ns=780_000)
        trace.events(WAIT, [wait], ns=1_000_000).events(FUTEX, [futex], ns=1_020_000)
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

    def test_a_span_that_moves_has_the_time_of_each_thread_that_worked_for_it(self):
        chance = random.Random(11)
        for _ in range(30):
            events, waits = pool_of_threads(chance)
            trace = define(nettrace.Trace())
            rows = [(at, 1, thread, number) for at, thread, number in events]
            rows += [(end, 0, thread, start) for thread, start, end in waits]
            for at, is_event, thread, value in sorted(rows):
                if not is_event:
                    wait = struct.pack("<QQIIQ", 1000 * (at - value), 0, 1, 0, 0)
                    trace.events(WAIT, [wait], thread=thread, ns=1000 * at)
                    continue
                times = [event[0] for event in events if event[2] == value]
                kind = START if at == min(times) else STOP if at == max(times) else 8
                trace.activity = guid(value)
                trace.events(kind, [b""], thread=thread, ns=1000 * at)
                trace.activity = bytes(16)
            for row in self.explain(trace, "--slowest", "100"):
                number = int(row["activity"][:8], 16)
                known = who_worked(events, waits, number)
                self.assertEqual({part: ns for part, ns in row["parts_ns"].items() if ns},
                                 {part: 1000 * us for part, us in
                                  collections.Counter(part for part, _ in known).items()})
                threads = [piece.get("thread_id") for piece in row["pieces"]
                           for _ in range(piece["duration_ns"] // 1000)]
                self.assertEqual(threads, [thread for _, thread in known])

    def test_a_wait_has_the_function_of_the_program_that_waited(self):
        trace = define(nettrace.Trace())
        for kind, name, number in (20, "ProcessSymbol", 4), (23, "ProcessMapping", 3):
            trace.define(kind, "Universal.System", name, number, [])
        trace.define(21, "Universal.Events", "cswitch", 2, [])
        for number, start, file in (1, 0x1000, "/lib/libc.so.6"), (2, 0x2000, "/usr/bin/shop"):
            trace.events(23, [nettrace.mapping(number, start, start + 0x1000, file)])
        kernel = 0xffffffff81000000
        for number, mapping, start, name in ((1, 3, kernel, "futex_wait_queue"),
                                             (2, 1, 0x1000, "pthread_mutex_lock"),
                                             (3, 2, 0x2000, "take_order"), (4, 2, 0x2800, "main")):
            trace.events(20, [nettrace.function(number, mapping, start, start + 0x7ff, name)])
        trace.stacks(1, [[kernel + 8, 0x1010, 0x2010, 0x2810]])
        self.mark(trace, 1000, START)
        trace.events(21, [nettrace.uleb(700_000)], ns=1_900_000, stack=1)
        trace.events(WAIT, [struct.pack("<QQIIQ", 700_000, 0, 1, 4242, 8)], ns=1_900_000)
        self.mark(trace, 2000, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["lock"], 700_000)
        self.assertEqual([piece["function"] for piece in row["pieces"] if piece["part"] == "lock"],
                         ["take_order"])
        self.assertIn("in take_order, ended by thread 8 of process 4242 (700 us)",
                      self.run_tool("explain", self.path("t"))[0])

    def test_stacks_of_addresses_with_four_bytes_are_read(self):
        trace = define(nettrace.Trace(pointer_bytes=4))
        trace.define(20, "Universal.System", "ProcessSymbol", 4, [])
        trace.define(21, "Universal.Events", "cswitch", 2, [])
        trace.define(22, "Universal.Events", "cpu", 1, [])
        trace.events(20, [nettrace.function(1, 1, 0x1000, 0x1fff, "futex_wait_queue")])
        trace.stacks(1, [[0x1010]])
        self.mark(trace, 1000, START)
        for kind, payload in [(21, nettrace.uleb(700_000)), (22, nettrace.uleb(1)),
                              (WAIT, struct.pack("<QQIIQ", 700_000, 0, 1, 0, 0))]:
            trace.events(kind, [payload], ns=1_900_000, stack=0 if kind == WAIT else 1)
        self.mark(trace, 2000, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["lock"], 700_000)
        summary = json.loads(self.run_tool("report", self.path("t"), "--format=json")[0])
        self.assertEqual([hot["function"] for hot in summary["hot_functions"]],
                         ["futex_wait_queue"])
        self.assertRegex(self.run_tool("explain", self.path("t"))[0],
                         r"in the program +futex_wait_queue \(1 sample\)")

    def test_without_records_all_is_unexplained_and_the_command_says_what_to_record(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        self.mark(trace, 50, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["unexplained"], 50_000)
        self.assertEqual(sum(row["parts_ns"].values()), 50_000)
        self.assertIn("ringpipe record --profile all --off-cpu 0", self.errors)

    def test_the_slowest_and_those_with_an_id_are_chosen(self):
        trace = define(nettrace.Trace())
        for number, at in enumerate((10, 30, 20), 1):
            trace.activity = guid(number)
            trace.events(START, [b""], ns=100_000 * number)
            trace.events(STOP, [b""], ns=100_000 * number + 1000 * at)
        self.assertEqual([row["duration_ns"] for row in self.explain(trace, "--slowest", "2")],
                         [30_000, 20_000])
        path = self.path("t")
        for name in "00000003-0000-0000-0909-090909090909", "00000003000000000909090909090909":
            row, = json.loads(self.run_tool("explain", path, "--id", name, "--format=json")[0])
            self.assertEqual(row["duration_ns"], 20_000)
        err = self.run_tool("explain", path, "--id", "12", status=1)[1]
        self.assertIn("the trace has no such span", err)
        err = self.run_tool("explain", path, "--span", "other", status=1)[1]
        self.assertIn("the trace has no such span", err)

    def test_it_requires_a_file(self):
        self.assertIn("requires a file", self.run_tool("explain", "-", status=2)[1])

    def test_a_damaged_trace_is_explained_up_to_the_damage(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        self.mark(trace, 50, STOP)
        path = self.write("t", trace.bytes + b"\5\5")
        out, err = self.run_tool("explain", path, "--format=json", status=1)
        self.assertEqual(len(json.loads(out)), 1)
        self.assertEqual(err.count("only the events before that are explained"), 1)


if __name__ == "__main__":
    unittest.main()
