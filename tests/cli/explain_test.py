#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain, on traces in which each microsecond of a thread is known."""
import collections
import json
import random
import struct
import unittest
import uuid

import nettrace
import nettrace6 as v6
from nettrace import STRING, U32, U64, utf16z
from tool import ToolTest

START, STOP, WAIT, CALL, FUTEX, INTERRUPT, FAULT, PROGRESS, BLOCK, MUTEX, RWLOCK = range(1, 12)
BOOL = 3
MACHINE = "Ringpipe-Machine"
LENGTH_US = 3000
CALLS = {"recvfrom": "network", "fsync": "block_io", "clock_nanosleep": "sleep",
         "futex": "lock", "getrandom": "other_wait"}
OTHER = 99	# a thread whose records must not matter


def guid(number):
    return struct.pack("<IHH8B", number, 0, 0, *[9] * 8)


def wait(duration_ns, runnable_ns=0, state=1, waker=(0, 0), previous=(0, 0, 0, "")):
    """Return the payload of a wait. `previous`: process, thread, duration in ns, name."""
    return struct.pack("<QQIIQ", duration_ns, runnable_ns, state, *waker) + \
        struct.pack("<IQQ", *previous[:3]) + utf16z(previous[3])


def call(name, duration_ns, file=""):
    return struct.pack("<I", 0) + utf16z(name) + struct.pack("<QQ", 0, duration_ns) + utf16z(file)


def fault(address, duration_ns, is_major=0):
    return struct.pack("<QIIQ", address, 0, is_major, duration_ns)


class Machine:
    """Random records of one thread between 0 and LENGTH_US, and what they say of each us."""

    def __init__(self, chance):
        self.parts = ["program"] * LENGTH_US
        self.rows = []		# (end in us, event, payload)
        self.calls = []
        self.faults = []
        self.waits = []
        for start, end in self.spread(chance, 20):
            self.add_fault(start, end)
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
        self.rows.append((end, CALL, call(name, 1000 * (end - start))))

    def add_fault(self, start, end):
        self.faults.append((start, end))
        self.parts[start:end] = ["page_fault"] * (end - start)
        self.rows.append((end, FAULT, fault(0x1000, 1000 * (end - start))))

    def add_interrupt(self, start, end):
        self.parts[start:end] = ["interrupt"] * (end - start)
        self.rows.append((end, INTERRUPT, utf16z("hard") + utf16z("eth0") +
                          struct.pack("<Q", 1000 * (end - start))))

    def add_wait(self, start, end, chance):
        state = chance.choice((0, 1, 2))
        woken = start if state == 0 else chance.randint(start, end)
        began = chance.randint(woken, end)	# the thread that used the processor before
        self.waits.append((start, woken, began, end))
        self.rows.append((end, WAIT, wait(1000 * (end - start), 1000 * (end - woken), state,
                                          (55, 56), (77, 78, 1000 * (end - began), "hog"))))

    def parts_between(self, begin, until):
        """Return the part of each us; of a wait and of calls, only what is between counts."""
        parts = list(self.parts)
        for start, woken, _, end in self.waits:
            first, last = max(start, begin), min(woken, until)
            covering = [(min(last, call[1]) - max(first, call[0]), call) for call in self.calls
                        if call[0] < last and call[1] > first]
            part = "other_wait"
            if covering:
                # If two calls overlap the wait equally, the first counts.
                _, (_, _, name) = max(covering, key=lambda row: (row[0], -row[1][0]))
                part = CALLS[name]
            if part == "other_wait" and any(fault[0] < last and fault[1] > first
                                            for fault in self.faults):
                part = "page_fault"
            parts[start:woken] = [part] * (woken - start)
            parts[woken:end] = ["runnable"] * (end - woken)
        return parts[begin:until]


    def running_between(self, begin, until):
        """Return the microseconds in which another thread used the processor."""
        return [at for _, _, began, end in sorted(self.waits)
                for at in range(max(began, begin), min(end, until))]


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
        ("waker_thread", U64), ("previous_process", U32), ("previous_thread", U64),
        ("previous_ns", U64), ("previous_name", STRING)])
    trace.define(CALL, MACHINE, "Syscall", 3, [
        ("number", U32), ("name", STRING), ("result", U64), ("duration_ns", U64),
        ("file", STRING)])
    trace.define(FAULT, MACHINE, "PageFault", 5, [
        ("address", U64), ("is_write", BOOL), ("is_major", BOOL), ("duration_ns", U64)])
    trace.define(BLOCK, MACHINE, "BlockRequest", 6, [
        ("sector", U64), ("bytes", U32), ("duration_ns", U64), ("device", STRING)])
    trace.define(PROGRESS, "Shop", "progress", 3, [])
    trace.define(MUTEX, "ringpipe-locks", "mutex_contended", 1, [
        ("address", U64), ("duration_ns", U64), ("owner", U32), ("result", U32)])
    trace.define(RWLOCK, "ringpipe-locks", "rwlock_contended", 2, [
        ("address", U64), ("duration_ns", U64), ("owner", U32), ("waker", U32),
        ("is_write", U32), ("result", U32)])
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
            trace.events(kind, [payload], thread=thread, ns=1000 * end,
                         processor=1 if thread == 7 else 2)
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
            self.assertEqual(self.running(row), machine.running_between(start, end))

    @staticmethod
    def running(row):
        """Return the microseconds for which a row names the thread that used the processor."""
        return [at for piece in row["pieces"] if (piece.get("running_thread_id"),
                piece.get("running_process_id"), piece.get("detail")) == (78, 77, "hog")
                for at in range(piece["from_ns"] // 1000,
                                (piece["from_ns"] + piece["duration_ns"]) // 1000)]

    def test_a_span_that_moves_has_the_time_of_each_thread_that_worked_for_it(self):
        chance = random.Random(11)
        for _ in range(30):
            events, waits = pool_of_threads(chance)
            trace = define(nettrace.Trace())
            rows = [(at, 1, thread, number) for at, thread, number in events]
            rows += [(end, 0, thread, start) for thread, start, end in waits]
            for at, is_event, thread, value in sorted(rows):
                if not is_event:
                    trace.events(WAIT, [wait(1000 * (at - value))], thread=thread, ns=1000 * at)
                    continue
                times = [event[0] for event in events if event[2] == value]
                kind = START if at == min(times) else STOP if at == max(times) else PROGRESS
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

    def test_a_wait_for_a_disk_has_its_file_its_device_and_the_slowest_request(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        for number, waited in enumerate((200_000, 300_000, 100_000), 1):
            at = 1_000_000 * number
            request = struct.pack("<QIQ", 5000 + number, 4096 * number, waited - 10_000)
            trace.events(BLOCK, [request + utf16z("vda")], ns=at - 5000)
            trace.events(WAIT, [wait(waited, 0, 2, (0, number))], ns=at)
            trace.events(CALL, [call("pread64", waited + 40_000, "orders.db")], ns=at + 20_000)
        self.mark(trace, 4000, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["block_io"], 600_000)
        pieces = [piece for piece in row["pieces"] if piece["part"] == "block_io"]
        self.assertEqual([(piece["detail"], piece["file"], piece["request"]) for piece in pieces],
                         [("pread64", "orders.db", {"device": "vda", "sector": 5000 + number,
                                                    "bytes": 4096 * number, "duration_ns": ns})
                          for number, ns in ((1, 190_000), (2, 290_000), (3, 90_000))])
        self.assertIn("pread64 of orders.db on vda (600 us in 3), slowest request 290 us for "
                      "8.2 kB at sector 5002", self.run_tool("explain", self.path("t"))[0])

    def test_a_request_that_ends_after_a_wait_for_a_disk_is_not_the_cause(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        # The wait lasts from 1 to 2 ms. The second request ends it; the third lasts longer.
        for sector, end, duration in (5001, 1_200_000, 900_000), (5002, 1_990_000, 1_900_000):
            trace.events(BLOCK, [struct.pack("<QIQ", sector, 4096, duration) + utf16z("vda")],
                         ns=end)
        trace.events(WAIT, [wait(1_000_000, 0, 2, (0, 1))], ns=2_000_000)
        trace.events(BLOCK, [struct.pack("<QIQ", 5003, 4096, 2_200_000) + utf16z("vda")],
                     ns=2_300_000)
        self.mark(trace, 4000, STOP)
        row, = self.explain(trace)
        self.assertEqual([(piece["request"]["sector"], piece["duration_ns"])
                          for piece in row["pieces"] if piece["part"] == "block_io"],
                         [(5002, 1_000_000)])

    def test_a_span_of_another_process_is_a_callee_if_it_started_during_the_span(self):
        start, stop = 10_000, 90_000
        parts = {}
        for began in (start - 1, start, stop - 1, stop):
            trace = v6.Trace()
            trace.threads(dict(index=1, process=4242, thread=7),
                          dict(index=2, process=43, thread=8))
            trace.define(START, "Shop", "requestStart", 1).define(STOP, "Shop", "requestStop", 2)
            trace.define(WAIT, MACHINE, "Wait", 1, [
                ("duration_ns", v6.U64), ("runnable_ns", v6.U64), ("state", v6.U32)])
            trace.labels(1, [[(1, guid(1))], [(1, guid(2)), (2, guid(1))]])
            rows = [(start, START, 1, 1, b""), (began, START, 2, 2, b""),
                    (stop, STOP, 1, 1, b""), (stop + 500, STOP, 2, 2, b""),
                    (stop + 1000, WAIT, 1, 0, struct.pack("<QQI", stop + 1000 - start, 0, 1))]
            rows.sort(key=lambda row: row[0])
            trace.events(*(dict(ns=at, id=kind, thread=thread, capture=thread, labels=labels,
                                number=number, payload=data)
                           for number, (at, kind, thread, labels, data) in enumerate(rows)))
            row = next(row for row in self.explain(trace, "--slowest", "2")
                       if row["process_id"] == 4242)
            parts[began] = {part: ns for part, ns in row["parts_ns"].items() if ns}
            self.assertEqual({(piece["detail"], piece["callee_process_id"])
                              for piece in row["pieces"] if piece["part"] == "callee"},
                             {("Shop/request", 43)} if start <= began < stop else set())
        length = stop - start
        self.assertEqual(parts, {
            start - 1: {"other_wait": length}, start: {"callee": length},
            stop - 1: {"other_wait": length - 1, "callee": 1}, stop: {"other_wait": length}})

    def test_a_page_fault_without_a_wait_has_its_time(self):
        trace = define(nettrace.Trace())
        trace.events(WAIT, [wait(1000)], ns=500)
        self.mark(trace, 1, START)
        trace.events(FAULT, [fault(0x1000, 30_000)], ns=50_000)
        trace.events(FAULT, [fault(0x2000, 40_000, is_major=1)], ns=150_000)
        self.mark(trace, 200, STOP)
        row, = self.explain(trace)
        self.assertEqual({part: ns for part, ns in row["parts_ns"].items() if ns},
                         {"page_fault": 70_000, "program": 129_000})
        self.assertEqual([piece.get("detail") for piece in row["pieces"]
                          if piece["part"] == "page_fault"], [None, "major fault"])

    def test_a_wait_has_the_function_of_the_program_that_waited(self):
        trace = define(nettrace.Trace())
        for kind, name, number in (20, "ProcessSymbol", 4), (23, "ProcessMapping", 3):
            trace.define(kind, "Universal.System", name, number, [])
        trace.define(21, "Universal.Events", "cswitch", 2, [])
        for number, start, file in ((1, 0x1000, "/lib/libc.so.6"), (2, 0x2000, "/usr/bin/shop"),
                                    (3, 0x3000, "/usr/lib/libringpipe-inbox.so")):
            trace.events(23, [nettrace.mapping(number, start, start + 0x1000, file)])
        kernel = 0xffffffff81000000
        for number, mapping, start, name in ((1, 3, kernel, "futex_wait_queue"),
                                             (2, 1, 0x1000, "pthread_mutex_lock"),
                                             (3, 2, 0x2000, "take_order"), (4, 2, 0x2800, "main"),
                                             (5, 3, 0x3000, "pthread_mutex_lock")):
            trace.events(20, [nettrace.function(number, mapping, start, start + 0x7ff, name)])
        trace.stacks(1, [[kernel + 8, 0x1010, 0x3010, 0x2010, 0x2810]])
        self.mark(trace, 1000, START)
        trace.events(21, [nettrace.uleb(700_000)], ns=1_900_000, stack=1)
        trace.events(WAIT, [wait(700_000, 0, 1, (4242, 8))], ns=1_900_000)
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
                              (WAIT, wait(700_000))]:
            trace.events(kind, [payload], ns=1_900_000, stack=0 if kind == WAIT else 1)
        self.mark(trace, 2000, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["lock"], 700_000)
        summary = json.loads(self.run_tool("report", self.path("t"), "--format=json")[0])
        self.assertEqual([hot["function"] for hot in summary["hot_functions"]],
                         ["futex_wait_queue"])
        self.assertRegex(self.run_tool("explain", self.path("t"))[0],
                         r"in the program +futex_wait_queue \(1 sample\)")

    def test_a_sample_in_the_kernel_counts_for_the_function_that_called_it(self):
        trace = define(nettrace.Trace())
        trace.define(20, "Universal.System", "ProcessSymbol", 4, [])
        trace.define(22, "Universal.Events", "cpu", 1, [])
        trace.events(20, [nettrace.function(1, 1, 0x1000, 0x1fff, "send_order"),
                          nettrace.function(2, 1, 0xffffffff81000000, 0xffffffff81000fff,
                                            "tcp_sendmsg")])
        trace.stacks(1, [[0xffffffff81000010, 0xffffffff81000020, 0x1010]])
        trace.events(22, [nettrace.uleb(1)], ns=1000, stack=1)
        self.write("t", trace.end())
        summary = json.loads(self.run_tool("report", "t", "--format=json")[0])
        self.assertEqual([hot["function"] for hot in summary["hot_functions"]], ["send_order"])

    def test_without_records_all_is_unexplained_and_the_command_says_what_to_record(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        self.mark(trace, 50, STOP)
        row, = self.explain(trace)
        self.assertEqual(row["parts_ns"]["unexplained"], 50_000)
        self.assertEqual(sum(row["parts_ns"].values()), 50_000)
        self.assertIn("ringpipe record --profile all --off-cpu 0", self.errors)

    def test_the_groups_and_the_short_waits_that_the_recording_left_out_are_named(self):
        for groups, threshold_ns, missing in (
                ("sched,syscalls,futex,faults,block,irq", 0, []),
                ("sched,syscalls,futex,block", 0, ["no records of page faults, interrupts;"]),
                ("sched", 1_000_000, [
                    "no records of system calls, addresses of locks, page faults, requests to "
                    "disks, interrupts;", "shorter than 1.00 ms have no records"])):
            trace = define(nettrace.Trace())
            trace.define(20, MACHINE, "Groups", 12, [("groups", STRING), ("threshold_ns", U64)])
            trace.events(20, [utf16z(groups) + struct.pack("<Q", threshold_ns)])
            trace.events(WAIT, [wait(1000)], ns=2_000_000)
            self.mark(trace, 3000, START)
            self.mark(trace, 3500, STOP)
            row, = self.explain(trace)
            self.assertEqual(row["parts_ns"]["program"], 500_000)
            self.assertEqual(len(self.errors.splitlines()), len(missing), self.errors)
            for text in missing:
                self.assertIn(text, self.errors)

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

    def test_an_expression_selects_spans_by_their_start_events(self):
        trace = define(nettrace.Trace())
        for number in (1, 2, 3):
            trace.activity = guid(number)
            trace.events(START, [b""], thread=number, ns=100_000 * number)
            trace.events(STOP, [b""], ns=101_000 * number)
        rows = self.explain(trace, "--slowest", "9", "--where", "thread <= 2")
        self.assertEqual([row["duration_ns"] for row in rows], [2000, 1000])
        path = self.path("t")
        err = self.run_tool("explain", path, "--where", "thread == 4", status=1)[1]
        self.assertIn("the trace has no such span", err)
        path = self.path("t")
        for where, starts in (("thread == 2", [200_000]), ("thread == 1", [])):
            out, err = self.run_tool("explain", path, "--id", str(uuid.UUID(bytes_le=guid(2))),
                                     "--where", where, "--format=json",
                                     status=0 if starts else 1)
            self.assertEqual([row["start_ns"] for row in json.loads(out or "[]")], starts, err)
        err = self.run_tool("explain", path, "--where", "thread ==", status=2)[1]
        self.assertRegex(err, r"(?m)^ *thread ==\n *\^$")

    def test_spans_belong_to_their_processes_in_both_versions(self):
        for path in self.write_versions(v6.two_processes()):
            for process in (71, 72):
                row, = json.loads(self.run_tool("explain", path, "--where",
                                                f"process == {process}", "--format=json")[0])
                self.assertEqual((row["process_id"], row["thread_id"]), (process, process + 430))

    def test_spans_of_a_thread_id_that_passes_on_belong_to_their_processes(self):
        for path in self.write_versions(v6.two_processes((501, 501))):
            rows = json.loads(self.run_tool("explain", path, "--slowest=9", "--format=json")[0])
            self.assertEqual({row["process_id"]: row["start_ns"] for row in rows},
                             {71: 1100, 72: 2200}, path)

    def test_a_trace_without_spans_is_said_to_have_none_and_what_records_them(self):
        trace = define(nettrace.Trace())
        trace.define(9, "Shop", "Note", 9, [])
        trace.events(9, [b""], ns=1000)
        path = self.write("t", trace.end())
        for options, text in (((), "the trace has no spans"), (("--span", "x"), "has no spans"),
                              (("--to", "1ms"), "the trace has in these times no spans")):
            err = self.run_tool("explain", path, *options, status=1)[1]
            self.assertIn(text, err)
            self.assertIn("RP_SPAN", err)
            self.assertNotIn("no such span", err)
        # A span that did not stop is a span.
        trace = define(nettrace.Trace())
        trace.events(START, [b""], ns=1000)
        err = self.run_tool("explain", self.write("t", trace.end()), status=1)[1]
        self.assertIn("no such span", err)

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

    def test_spans_on_both_sides_of_a_damage_are_explained(self):
        trace = define(nettrace.Trace())
        self.mark(trace, 0, START)
        self.mark(trace, 50, STOP)
        begin = len(trace.bytes)
        self.mark(trace, 60, START)
        end = len(trace.bytes)
        trace.point({7: trace.sequence[7]}, ns=70_000)
        self.mark(trace, 100, START)
        self.mark(trace, 120, STOP)
        data = bytearray(trace.end())
        data[begin + 50:end - 8] = b"\xff" * (end - begin - 58)
        out, err = self.run_tool("explain", self.write("t", bytes(data)), "--format=json",
                                 "--slowest=9", status=1)
        self.assertEqual(len(json.loads(out)), 2)
        self.assertEqual(err.count("only the other events are explained"), 1)


if __name__ == "__main__":
    unittest.main()
