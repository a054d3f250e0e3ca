#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE heap` and `locks`, on handmade traces of the in-box providers."""
import collections
import csv
import io
import json
import math
import random
import struct
import unittest

import profile_test
from nettrace import process_name
from nettrace6 import I32, U32, U64
from profile_test import stack_of
from tool import ToolTest

ALLOCATED, FREED, MUTEX, RWLOCK, CONDITION = range(20, 25)  # metadata ids
INBOX = "/usr/lib/x86_64-linux-gnu/libringpipe-inbox.so.1"
WRAPPER = 0x7f0000000010  # an address in it


class Machine(profile_test.Machine):
    def __init__(self):
        super().__init__()
        define = self.trace.define
        define(ALLOCATED, "ringpipe-heap", "allocated", 1,
               [("id", U64), ("address", U64), ("size", U64), ("interval", U64)])
        define(FREED, "ringpipe-heap", "freed", 2, [("id", U64), ("address", U64)])
        define(MUTEX, "ringpipe-locks", "mutex_contended", 1,
               [("address", U64), ("duration_ns", U64), ("owner", U32), ("result", I32)])
        define(RWLOCK, "ringpipe-locks", "rwlock_contended", 2,
               [("address", U64), ("duration_ns", U64), ("owner", U32), ("waker", U32),
                ("is_write", U32), ("result", I32)])
        define(CONDITION, "ringpipe-locks", "condition_waited", 3,
               [("address", U64), ("duration_ns", U64), ("waker", U32), ("result", I32)])
        self.name(7, "shop").map(7, 700, 0x1000, 0x100000, "/bin/shop")
        self.map(7, 701, 0x7f0000000000, 0x7f0000001000, INBOX)
        for i, name in enumerate("abcdef"):
            self.function(7, 700, 0x1000 * (i + 1), 0x1000 * (i + 2) - 1, name)

    def allocate(self, number, size, interval, stack, process=7):
        return self.event(ALLOCATED, process, process,
                          struct.pack("<QQQQ", number, number << 4, size, interval),
                          [WRAPPER, *stack_of(stack)] if stack else ())

    def free(self, number, process=7):
        return self.event(FREED, process, process, struct.pack("<QQ", number, number << 4))


class Report(ToolTest):
    def report(self, machine, what, *arguments, status=0, errors=""):
        path = self.write("t.nettrace", machine.end())
        out, err = self.run_tool("report", path, what, "--format=json", *arguments, status=status)
        self.assertEqual(err, errors)
        return json.loads(out) if out else None


class Heap(Report):
    def test_a_sample_stands_for_the_blocks_that_were_not_sampled(self):
        chance, machine = random.Random(1), Machine()
        live, total, blocks = collections.Counter(), collections.Counter(), {}
        for number in range(1, 2000):
            stack, size = chance.choice(["ab", "cb", "db"]), chance.choice([16, 4096, 10**6])
            interval = chance.choice([1, 4096, 524288])
            machine.allocate(number, size, interval, stack)
            weight = size if interval == 1 else size / (1 - math.exp(-size / interval))
            blocks[number] = (stack, weight)
            live[stack] += weight
            total[stack] += weight
            if chance.random() < 0.5:
                freed = chance.choice(list(blocks))
                stack, weight = blocks.pop(freed)
                live[stack] -= weight
                machine.free(freed)
        rows = self.report(machine, "heap")
        self.assertEqual(["".join(row["stack"]) for row in rows],
                         [stack for stack, _ in live.most_common()])
        for row in rows:
            stack = "".join(row["stack"])
            self.assertAlmostEqual(row["live_bytes"], live[stack], delta=1)
            self.assertAlmostEqual(row["allocated_bytes"], total[stack], delta=1)
            self.assertEqual((row["process_id"], row["process"]), (7, "shop"))
        self.assertEqual(sum(row["samples"] for row in rows), 1999)

    def test_blocks_of_other_processes_and_earlier_times_are_not_mixed(self):
        machine = Machine()
        machine.event(profile_test.SYSTEM, 8, 8, process_name("other"))
        machine.free(99).allocate(1, 100, 1, "a").allocate(1, 30, 1, "", process=8)
        machine.free(1).free(1)
        rows = self.report(machine, "heap", errors=f"ringpipe: {self.path('t.nettrace')}: 1 "
                           "sample without a stack; `ringpipe collect --stacks` records stacks\n")
        self.assertEqual([(row["process_id"], row["live_bytes"], row["allocated_bytes"],
                           row["stack"]) for row in rows], [(8, 30, 30, []), (7, 0, 100, ["a"])])

    def test_samples_whose_end_is_unknown_are_not_live(self):
        machine = Machine().allocate(0, 100, 1, "a").allocate(5, 10, 1, "a").allocate(5, 1, 1, "a")
        row, = self.report(machine, "heap", errors=f"ringpipe: {self.path('t.nettrace')}: LIVE "
                           "lacks 2 samples, because the time of the release is unknown\n")
        self.assertEqual((row["live_bytes"], row["allocated_bytes"], row["samples"]), (10, 111, 3))

    def test_a_range_has_the_blocks_that_were_allocated_in_it(self):
        machine = Machine()
        for number in range(1, 11):
            machine.allocate(number, 100, 1, "a")
        middle = machine.number
        machine.free(1).allocate(11, 7, 1, "b")
        rows = self.report(machine, "heap", "--from", f"{middle * 1000 + 500}ns")
        self.assertEqual([(row["live_bytes"], row["stack"]) for row in rows], [(7, ["b"])])

    def test_an_expression_selects_samples_and_all_blocks_that_were_freed(self):
        machine = Machine().allocate(1, 100, 1, "a").allocate(2, 5000, 1, "a")
        machine.allocate(3, 7000, 1, "b").allocate(4, 5000, 1, "a", process=8).free(2)
        rows = self.report(machine, "heap", "--where", "size >= 5000 and process == 7")
        self.assertEqual([(row["live_bytes"], row["allocated_bytes"], row["stack"])
                          for row in rows], [(7000, 7000, ["b"]), (0, 5000, ["a"])])
        path = self.path("t.nettrace")
        for more in (), ("--diff", path):
            err = self.run_tool("report", path, "heap", *more, "--where", "size > 7000",
                                status=1)[1]
            self.assertIn("no such samples of the heap", err)
        rows = json.loads(self.run_tool("report", path, "heap", "--diff", path, "--where",
                                        "size == 7000", "--format=json")[0])
        self.assertEqual([(row["before_bytes"], row["after_bytes"]) for row in rows],
                         [(7000, 7000)])

    def test_csv_and_text_have_the_same_rows(self):
        machine = Machine().allocate(1, 2048, 1, "ab").allocate(2, 1000, 1, "c").free(2)
        path = self.write("t.nettrace", machine.end())
        rows = list(csv.DictReader(io.StringIO(
            self.run_tool("report", path, "heap", "--format=csv")[0])))
        self.assertEqual([(row["live_bytes"], row["stack"]) for row in rows],
                         [("2048", '["a","b"]'), ("0", '["c"]')])
        out = self.run_tool("report", path, "heap", "--top", 1)[0].splitlines()
        self.assertEqual([line.split() for line in out], [
            "LIVE BLOCKS ALLOCATED BLOCKS SAMPLES PID PROCESS STACK".split(),
            "2.0 kB 1 2.0 kB 1 1 7 shop a < b".split()])

    def test_a_trace_without_samples_states_how_to_record_them(self):
        self.report(Machine(), "heap", status=1, errors=f"ringpipe: {self.path('t.nettrace')}: no "
                    "samples of the heap; start the program by `ringpipe inbox`, and record the "
                    "provider ringpipe-heap\n")


class HeapGrowth(Report):
    def growth(self, *arguments):
        out, err = self.run_tool("report", *arguments, "--format=json")
        self.assertEqual(err, "")
        return [("".join(row["stack"]), row["grown_bytes"], row["grown_blocks"],
                 row["before_bytes"], row["before_blocks"], row["after_bytes"],
                 row["after_blocks"], row["process"]) for row in json.loads(out)]

    def test_the_live_memory_of_two_times_of_a_trace_agrees_with_its_record(self):
        chance, machine = random.Random(2), Machine()
        live, before = {}, {}
        for number in range(1, 2000):
            live[number] = (chance.choice(["ab", "cb", "db"]), chance.choice([16, 4096, 10**6]))
            machine.allocate(number, live[number][1], 1, live[number][0])
            if chance.random() < 0.6:
                freed = chance.choice(list(live))
                del live[freed]
                machine.free(freed)
            if number == 1000:
                middle, before = machine.number, dict(live)
        path = self.write("t.nettrace", machine.end())
        rows = self.growth(path, "heap", "--diff", f"{middle * 1000 + 500}ns")

        def sums(blocks, stack):
            sizes = [size for owner, size in blocks.values() if owner == stack]
            return sum(sizes), len(sizes)
        self.assertEqual({row[0] for row in rows}, {"ab", "cb", "db"})
        for stack, bytes_, blocks, *rest, process in rows:
            first, last = sums(before, stack), sums(live, stack)
            self.assertEqual(rest, [*first, *last])
            self.assertEqual((bytes_, blocks), (last[0] - first[0], last[1] - first[1]))
            self.assertEqual(process, "shop")
        self.assertEqual([row[1] for row in rows], sorted((row[1] for row in rows), reverse=True))

    def test_stacks_of_two_traces_are_the_same_if_their_names_are(self):
        first = Machine().allocate(1, 100, 1, "ab").allocate(2, 50, 1, "c").allocate(3, 7, 1, "d")
        later = Machine().allocate(9, 3, 1, "ef").allocate(2, 130, 1, "ab").allocate(1, 20, 1, "ab")
        later.allocate(4, 7, 1, "d").allocate(5, 9, 1, "b").free(5)
        paths = self.write("1.nettrace", first.end()), self.write("2.nettrace", later.end())
        self.assertEqual(self.growth(paths[0], "heap", "--diff", paths[1]), [
            ("ab", 50, 1, 100, 1, 150, 2, "shop"), ("ef", 3, 1, 0, 0, 3, 1, "shop"),
            ("d", 0, 0, 7, 1, 7, 1, "shop"), ("c", -50, -1, 50, 1, 0, 0, "shop")])
        self.assertEqual({row[1:3] for row in self.growth(paths[0], "heap", "--diff", paths[0])},
                         {(0, 0)})
        out = self.run_tool("report", paths[0], "heap", "--diff", paths[1], "--top", 1)[0]
        self.assertEqual([line.split() for line in out.splitlines()], [
            ["GROWN", "BLOCKS", "BEFORE", "BLOCKS", "AFTER", "BLOCKS", "PROCESS", "STACK"],
            ["+50", "B", "+1", "100", "B", "1", "150", "B", "2", "shop", "a", "<", "b"]])

    def test_a_comparison_without_two_times_is_refused(self):
        path = self.write("t.nettrace", Machine().allocate(1, 100, 1, "a").end())
        empty = self.write("empty.nettrace", Machine().end())
        for arguments, status, message in (
                (["--diff", "/nonexistent"], 1, "/nonexistent: No such file"),
                (["--diff", "5x"], 1, "5x: No such file"),
                (["--diff", "/dev/null"], 1, "needs a file"),
                (["--diff", "1s", "--from", "2s"], 2, "not between --from and --to"),
                (["--diff", "3s", "--to", "2s"], 2, "not between --from and --to"),
                (["--diff", empty], 1, "no samples of the heap")):
            out, err = self.run_tool("report", path, "heap", *arguments, status=status)
            self.assertEqual(out, "")
            self.assertIn(message, err)
        _, err = self.run_tool("report", empty, "heap", "--diff", path, status=1)
        self.assertIn("no samples of the heap", err)
        _, err = self.run_tool("report", path, "locks", "--diff", path, status=2)
        self.assertIn("--diff cannot be used with locks", err)


class Locks(Report):
    def test_the_waits_of_each_lock_and_holder_are_summed(self):
        chance, machine, sums = random.Random(2), Machine(), {}
        for _ in range(500):
            kind = chance.choice(["mutex", "read lock", "write lock", "condition"])
            address, holder = chance.choice([0x1000, 0x2000]), chance.choice([0, 71, 72])
            ns = chance.randrange(1, 10**6)
            if kind == "mutex":
                payload = struct.pack("<QQIi", address, ns, holder, 0)
            elif kind == "condition":
                payload = struct.pack("<QQIi", address, ns, holder, 0)
            else:
                owner = chance.choice([0, 1])  # the owner counts more than the waker
                payload = struct.pack("<QQIIIi", address, ns, holder * owner,
                                      99 if holder and owner else holder,
                                      kind == "write lock", 0)
            number = {"mutex": MUTEX, "condition": CONDITION}.get(kind, RWLOCK)
            machine.event(number, 7, chance.randrange(70, 80), payload,
                          [WRAPPER, *stack_of("cb")])
            row = sums.setdefault((kind, hex(address), holder or None), [0, 0, 0])
            row[0] += 1
            row[1] += ns
            row[2] = max(row[2], ns)
        rows = self.report(machine, "locks", "--top", 100)
        self.assertEqual({(row["kind"], row["address"], row["holder_thread_id"]):
                          [row["count"], row["total_ns"], row["max_ns"]] for row in rows}, sums)
        self.assertEqual([row["total_ns"] for row in rows],
                         sorted((row[1] for row in sums.values()), reverse=True))
        self.assertEqual({tuple(row["stack"]) for row in rows}, {("c", "b")})
        out = self.run_tool("report", self.path("t.nettrace"), "locks", "--top", 3)[0]
        self.assertEqual(len(out.splitlines()), 4)

    def test_an_expression_selects_waits_for_locks(self):
        machine = Machine()
        for thread, ns in ((70, 5), (71, 7), (70, 2000)):
            machine.event(MUTEX, 7, thread, struct.pack("<QQIi", 0x1000, ns, 0, 0), stack_of("c"))
        row, = self.report(machine, "locks", "--where", "thread == 70 and duration_ns < 1000")
        self.assertEqual((row["count"], row["total_ns"]), (1, 5))

    def test_a_trace_without_waits_states_how_to_record_them(self):
        self.report(Machine(), "locks", status=1, errors=f"ringpipe: {self.path('t.nettrace')}: "
                    "no waits for locks; start the program by `ringpipe inbox`, and record the "
                    "provider ringpipe-locks\n")


if __name__ == "__main__":
    unittest.main()
