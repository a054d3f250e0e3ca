#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe merge`: the oracle of oracle.py reads in the merged trace what the traces have."""
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import unittest

import nettrace
import nettrace6 as v6
import oracle
from tool import ToolTest

SECOND = 10**9
UTC = 1_795_000_000 * SECOND
STEP = 1 << 26
FLOOD = 500_000
OWN = ("TraceMerged", "TraceKeyValue", "ProcessTraced", "ProcessEnd", "ExistingProcess",
       "ProcessInfo")

# Options of the strict reader. No event states the losses of damage and of some other writers; the
# reader then accepts what a trace without an end may have.
NO_EVENTS_LOST = ("--merged", "--cut")


class Reader(oracle.Trace):
    """Keeps payloads, for the events of Universal.System, which declare no fields."""

    def _event(self, now, payload):
        super()._event(now, payload)
        self.events[-1]["payload"] = payload


def system(*values):
    return b"".join(v6.varuint(value) if isinstance(value, int) else
                    struct.pack("<H", len(value.encode())) + value.encode() for value in values)


class Machine:
    """A recording of a machine: a trace of version 6 with two processes, 100 and 200."""

    FIELDS = {
        "Machine": (("host", v6.STRING16), ("boot_id", v6.STRING16)),
        "ClockReading": (("monotonic_ns", v6.U64), ("utc_ns", v6.I64), ("boottime_ns", v6.U64),
                         ("uncertainty_ns", v6.U64)),
        "Wait": (("duration_ns", v6.U64), ("runnable_ns", v6.U64), ("state", v6.U32),
                 ("waker_process", v6.U32), ("waker_thread", v6.U64)),
    }

    def __init__(self, host, boot, start):
        self.start = start
        self.number = 0
        self.trace = v6.Trace(pairs=(("HardwareThreadCount", "2"), ("ProcessId", "99")),
                              start_ticks=start)
        self.trace.threads({"index": 1, "process": 100, "thread": 101},
                           {"index": 2, "process": 200, "thread": 200},
                           {"index": 3, "process": 99, "thread": 99}, {"index": 0})
        for i, (name, fields) in enumerate(self.FIELDS.items()):
            self.trace.define(i + 1, "Ringpipe-Machine", name, i + 1, fields)
        for i, name in enumerate(("ExistingProcess", "ProcessCreate", "ProcessExit",
                                  "ProcessMapping", "ProcessSymbol", "ProcessMappingMetadata")):
            self.trace.define(10 + i, "Universal.System", name, i)
        self.trace.define(20, "Shop", "Order", 1, (("id", v6.U32),))
        self.put(1, 3, 0, v6.utf16z(host) + v6.utf16z(boot))

    def put(self, kind, thread, ns, payload):
        self.number += 1
        self.trace.events({"id": kind, "thread": thread, "capture": 0, "number": self.number,
                           "ns": ns, "payload": payload})
        return self

    def clock(self, ns, utc):
        return self.put(2, 3, ns, struct.pack("<QqQQ", self.start + ns, utc, self.start + ns, 40))

    def order(self, ns, number, thread=1):
        return self.put(20, thread, ns, struct.pack("<I", number))

    def end(self):
        return self.trace.end()


def one():
    machine = Machine("web1", "boot-1", 5000 * SECOND).clock(0, UTC)
    machine.put(10, 1, 1, system(1, "shop", ""))
    machine.put(15, 1, 2, system(1, "{}", "")).put(13, 1, 2, system(1, 4096, 8192, 0, "/shop", 1))
    machine.put(14, 1, 3, system(2, 1, 4096, 4200, "main"))
    machine.order(SECOND, 1).order(3 * SECOND, 3)
    machine.put(3, 2, 4 * SECOND, struct.pack("<QQIIQ", 7, 5, 1, 100, 101))
    return machine.clock(60 * SECOND, UTC + 60 * SECOND)


def two():
    """A machine that was booted earlier. Its time of day gains 10 us per second."""
    machine = Machine("web2", "boot-2", 90000 * SECOND).clock(0, UTC + SECOND)
    machine.put(10, 1, 1, system(1, "shop", ""))
    machine.put(15, 1, 2, system(1, "{}", "")).put(13, 1, 2, system(1, 4096, 8192, 0, "/shop", 1))
    machine.put(14, 1, 3, system(2, 1, 4096, 4200, "main"))
    machine.order(SECOND, 2).order(10 * SECOND, 4)
    machine.put(3, 2, 11 * SECOND, struct.pack("<QQIIQ", 7, 5, 1, 100, 101))
    machine.put(3, 2, 11 * SECOND, struct.pack("<QQIIQ", 7, 5, 1, 0, 0))
    return machine.clock(100 * SECOND, UTC + 101 * SECOND + 1_000_000)


def number_of(event):
    return event["fields"]["id"]


class Merge(ToolTest):
    def merge(self, *traces, status=0, names=None, options=(), checks=("--merged",)):
        """Merge traces. `checks`: the options of the strict reader; None: another writer's trace
        has what the reader does not accept."""
        paths = [self.write(name, trace) for name, trace in
                 zip(names or [f"{i}.nettrace" for i in range(len(traces))], traces)]
        self.messages = self.run_tool("merge", *paths, "-f", "-o", "merged.nettrace", *options,
                                      status=status)[1]
        if checks is not None:
            self.assertTrue(self.read_strictly("merged.nettrace", *checks)["complete"])
        return Reader(self.read("merged.nettrace"))

    def test_events_of_two_machines_are_in_order_on_the_clock_of_the_first(self):
        merged = self.merge(one().end(), two().end())
        orders = [(number_of(event), event["time"] - 5000 * SECOND)
                  for event in merged.events if event["name"] == "Order"]
        # Machine two's seconds are 10 us longer by the clock of machine one.
        self.assertEqual(orders, [(1, SECOND), (2, 2 * SECOND + 10_000), (3, 3 * SECOND),
                                  (4, 11 * SECOND + 100_000)])
        times = [event["time"] for event in merged.events]
        self.assertEqual(times, sorted(times))
        self.assertTrue(merged.ended)
        self.assertRegex(self.messages, r"21 events of 2 traces, 0 lost\n")
        self.assertRegex(self.messages, r"0\.nettrace: 10 events, the clock of the merged trace\n")
        self.assertRegex(self.messages, r"1\.nettrace: 11 events, clock of web2 by readings of its "
                                        r"time of day, within 0\.1 us, drift 10\.000 ppm\n")
        # The readings of the clock are those of the merged trace.
        for event in merged.events:
            if event["name"] == "ClockReading":
                mono, utc = event["fields"]["monotonic_ns"], event["fields"]["utc_ns"]
                self.assertLess(abs(utc - UTC - (mono - 5000 * SECOND)), 5)

    def test_processes_and_threads_of_two_machines_have_ids_and_names_of_their_own(self):
        merged = self.merge(one().end(), two().end())
        threads = {number_of(event): (event["process"], event["thread"])
                   for event in merged.events if event["name"] == "Order"}
        self.assertEqual(threads, {1: (100, 101), 3: (100, 101),
                                   2: (100 + STEP, 101 + STEP), 4: (100 + STEP, 101 + STEP)})
        names = {event["process"]: event["payload"] for event in merged.events
                 if event["name"] == "ExistingProcess"}
        self.assertEqual(names, {100: system(1, "shop@web1", ""),
                                 100 + STEP: system(1, "shop@web2", "")})
        waits = [(event["process"], event["fields"]) for event in merged.events
                 if event["name"] == "Wait"]
        self.assertEqual([(process, wait["waker_process"], wait["waker_thread"])
                          for process, wait in waits],
                         [(200, 100, 101), (200 + STEP, 100 + STEP, 101 + STEP),
                          (200 + STEP, 0, 0)])

    def test_mappings_and_functions_of_two_recordings_have_ids_of_their_own(self):
        merged = self.merge(one().end(), one().end())
        mappings, functions, metadata = [], [], []
        for event in merged.events:
            c = oracle.Bytes(event["payload"])
            if event["name"] == "ProcessMapping":
                mappings.append((c.varuint(), c.data[-1]))
            elif event["name"] == "ProcessSymbol":
                functions.append((c.varuint(), c.varuint()))
            elif event["name"] == "ProcessMappingMetadata":
                metadata.append(c.varuint())
        # A mapping names its metadata, and a function its mapping.
        self.assertEqual(sorted(mapping[1] for mapping in mappings), sorted(metadata))
        self.assertEqual({mapping[0] for mapping in mappings},
                         {function[1] for function in functions})
        self.assertEqual(len({mapping[0] for mapping in mappings}), 2)
        self.assertEqual(len({function[0] for function in functions}), 2)
        # They are of one machine, so the process is the same one.
        self.assertEqual({event["process"] for event in merged.events
                          if event["name"] == "Order"}, {100})
        self.assertEqual(self.messages.count("the clock of the merged trace"), 2)
        self.assertIn(system(1, "shop", ""), [event["payload"] for event in merged.events])

    def test_traces_of_single_processes_get_their_processes(self):
        first = nettrace.Trace(pid=10, start_ticks=7 * SECOND)
        first.define(1, "Shop", "Order", 5, [("id", nettrace.U64)])
        first.define(2, "Microsoft-DotNETCore-EventPipe", "ProcessInfo", 1,
                     [("CommandLine", nettrace.STRING)])
        first.events(1, [struct.pack("<Q", 1)], thread=11, ns=1000)
        first.events(1, [struct.pack("<Q", 3)], thread=11, ns=3000)
        first.events(2, [nettrace.utf16z("/usr/bin/shop --port 80")], thread=11, ns=4000)
        first.point({1 << 62: 1}).point({1 << 62: 5})
        second = nettrace.Trace(pid=20, start_ticks=7 * SECOND + 500)
        second.define(1, "Cart", "Item", 5, [("id", nettrace.U64)])
        second.events(1, [struct.pack("<Q", 2)], thread=11, ns=1500)
        merged = self.merge(first.end(), second.end(), names=("a.nettrace", "cart.nettrace"),
                            checks=NO_EVENTS_LOST)
        found = [(event["name"], number_of(event), event["process"])
                 for event in merged.events if event["name"] in ("Order", "Item")]
        self.assertEqual(found, [("Order", 1, 10), ("Item", 2, 20), ("Order", 3, 10)])
        names = {event["process"]: event["fields"]["name"] for event in merged.events
                 if event["name"] == "ProcessTraced"}
        self.assertEqual(names, {10: "shop", 20: "cart"})
        self.assertEqual(merged.lost, 4)
        report = self.run_tool("report", "merged.nettrace")[0]
        self.assertRegex(report, r"10 shop: \d+ events, 4 lost")

    def test_traces_of_another_machine_remain_true_to_each_other(self):
        # Their headers have the time of day in milliseconds, and that of the second one is late.
        others = []
        for pid, late in (10, 0), (20, 700_000):
            other = nettrace.Trace(pid=pid, start_ticks=9000 * SECOND + late)
            other.define(1, "Shop", "Order", 5, [("id", nettrace.U64)])
            other.events(1, [struct.pack("<Q", pid)], ns=SECOND - late)
            others.append(other.end())
        merged = self.merge(one().end(), *others)
        times = [event["time"] for event in merged.events
                 if event["name"] == "Order" and number_of(event) in (10, 20)]
        self.assertEqual(len(times), 2)
        self.assertEqual(times[0], times[1])

    def test_processes_of_a_merged_trace_of_version_4_stay_apart(self):
        tree = self.path("tree.nettrace")
        self.run_tool("collect", "--tree", "--providers", "*", "--format", "4", "-o", tree,
                      "--", os.environ["FORKS"], "exit", 3, 50)
        before = self.run_tool("report", tree)[0]
        shutil.copy(tree, self.path("copy.nettrace"))
        self.run_tool("merge", tree, self.write("x.nettrace", one().end()), "-o", "m.nettrace")
        after = self.run_tool("report", "m.nettrace")[0]
        forks = [line for line in before.splitlines() if " forks (of " in line]
        self.assertGreater(len(forks), 3)
        for line in forks:
            self.assertIn(line.split(" (of")[0].split()[0], after)
        self.assertEqual(self.read("tree.nettrace"), self.read("copy.nettrace"))
        found = self.read_strictly("m.nettrace", "--merged", "--serials",
                                   "Test-Forks/mark:process:serial")
        self.assertEqual(len(found["writers"]), len(forks))
        self.assertEqual({tuple(writer.values()) for writer in found["writers"].values()},
                         {(0, 49, 50)})

    def test_losses_of_merged_traces_are_those_of_the_writers(self):
        """Each process writes half a million events into a megabyte. The merged trace counts the
        events that it lacks, for each reason as in the traces."""
        before = []
        for name in "a.nettrace", "b.nettrace":
            def has_losses(name=name):
                self.run_tool("collect", "--buffer", "1", "-f", "-o", name, "--format", "6",
                              "--providers", "Test-Written", "--", os.environ["WRITTEN"],
                              data=f"{FLOOD}\n".encode())
                found = self.read_strictly(name)
                self.assertEqual(found["kinds"]["Test-Written/order"] + found["lost_reported"],
                                 FLOOD)
                return found["lost_reported"] > 0
            self.wait_until(has_losses)
            before.append(self.read_strictly(name))
        self.run_tool("merge", "a.nettrace", "b.nettrace", "-o", "m.nettrace")
        merged = self.read_strictly("m.nettrace", "--merged")
        self.assertEqual(merged["kinds"]["Test-Written/order"] + merged["lost_in_points"],
                         2 * FLOOD)
        self.assertEqual(merged["lost_by"], {reason: sum(trace["lost_by"][reason]
                                                         for trace in before)
                                             for reason in merged["lost_by"]})

    def test_compressed_traces_are_read_and_written(self):
        paths = [self.write("a.nettrace", one().end()), self.write("b.nettrace", two().end())]
        for path in paths:
            self.run_tool("convert", path, "-o", path + ".zst")
        self.run_tool("merge", *paths, "-o", "plain.nettrace")
        self.run_tool("merge", *[path + ".zst" for path in paths], "-o", "m.nettrace.zst")
        self.run_tool("convert", "--format", "6", "m.nettrace.zst", "-o", "m.nettrace")
        plain, packed = (Reader(self.read(name)).events for name in ("plain.nettrace",
                                                                     "m.nettrace"))
        for events in (plain, packed):
            for event in events:
                if event["name"] in ("TraceMerged", "TraceKeyValue"):
                    event["fields"] = event["payload"] = None
        self.assertEqual(packed, plain)

    def test_labels_names_of_threads_and_key_values_of_other_writers_are_kept(self):
        pairs = (("ProcessId", "99"), ("Region", "eu-1"))
        trace = v6.Trace(pairs=pairs, start_ticks=5000 * SECOND)
        trace.threads({"index": 1, "process": 300, "thread": 301, "name": "main"},
                      {"index": 2, "process": 300, "thread": 302}, {"index": 0})
        trace.define(1, "Other", "Event", 1).labels(1, [
            [(1, bytes(range(16))), (2, bytes(range(16, 32))), (3, b"T" * 16),
             (4, struct.pack("<Q", 99)), (5, v6.text("zone") + v6.text("eu")),
             (6, v6.text("n") + v6.varint(-5)), (7, b"\2"), (8, struct.pack("<Q", 1)),
             (9, b"\5"), (10, b"\7")],
            [(5, v6.text("long") + v6.text("x" * 100_000))],
            *([(6, v6.text("n") + v6.varint(i))] for i in range(1500))])
        rows = [{"id": 1, "thread": i % 2 + 1, "capture": 0, "number": i + 1, "ns": i + 1,
                 "labels": i % 1503} for i in range(3100)]
        trace.events(*rows)
        # The first thread changes its name, which takes a row of its own.
        trace.remove((1, 0)).threads({"index": 1, "process": 300, "thread": 301, "name": "worker"})
        trace.events(*[{"id": 1, "thread": 1, "capture": 0, "number": 3101 + i, "ns": 9000 + i}
                       for i in range(3)])
        whole = trace.end()
        merged = self.merge(whole, one().end(), checks=None)
        events = [event for event in merged.events if event["provider"] == "Other"]
        self.assertEqual(len(events), 3103)
        for event, expected in zip(events, Reader(whole).events):
            self.assertEqual(event, expected)
        self.assertEqual({(event["fields"]["key"], event["fields"]["value"])
                          for event in merged.events if event["name"] == "TraceKeyValue" and
                          event["fields"]["path"].endswith("/0.nettrace")}, set(pairs))
        report = self.run_tool("report", "merged.nettrace", "--format=json")[0]
        self.assertTrue(json.loads(report)["complete"])

    def test_decimals_names_and_the_keys_and_values_of_threads_are_kept(self):
        trace = v6.Trace(start_ticks=5000 * SECOND)
        trace.threads({"index": 1, "process": 300, "thread": 301, "name": "main",
                       "pair": ("role", "accept")},
                      {"index": 2, "process": 300, "thread": 302, "pair": ("cpu", "3")},
                      {"index": 0})
        trace.define(1, "Other", "job_start", 1,
                     (("price", oracle.DECIMAL), ("small", v6.I16), ("name", v6.STRING16)),
                     attributes=b"\4" + v6.text("a message") + b"\5" + v6.text("a description") +
                     b"\7" + bytes(range(16)))
        payload = bytes(range(16)) + b"\1\0" + v6.utf16z("x")
        trace.events(*[{"id": 1, "thread": i % 2 + 1, "capture": 0, "number": i + 1, "ns": i + 1,
                        "payload": payload} for i in range(4)])
        # The first thread gets another value, which takes a row of its own.
        trace.remove((1, 0)).threads({"index": 1, "process": 300, "thread": 301, "name": "main",
                                      "pair": ("role", "worker")})
        trace.events({"id": 1, "thread": 1, "capture": 0, "number": 5, "ns": 9000,
                      "payload": payload})
        whole = trace.end()
        merged = self.merge(whole, one().end(), checks=None)
        expected = Reader(whole)
        self.assertEqual([event for event in merged.events if event["provider"] == "Other"],
                         expected.events)
        kind = next(kind for kind in merged.types.values() if kind["provider"] == "Other")
        self.assertEqual(kind, expected.types[1])

    def test_what_a_conversion_to_version_4_states_by_events_is_restored(self):
        trace = v6.Trace(pairs=(("ProcessId", "300"), ("Region", "eu-1")),
                         start_ticks=5000 * SECOND)
        trace.threads({"index": 1, "process": 300, "thread": 301, "name": "main"}, {"index": 0})
        trace.define(1, "Other", "Event", 1)
        trace.labels(1, [[(5, v6.text("zone") + v6.text("eu"))], [(6, v6.text("n") + b"\3")]])
        trace.events(*[{"id": 1, "thread": 1, "capture": 0, "number": i + 1, "ns": i,
                        "labels": i} for i in range(3)])
        whole = trace.end()
        self.write("whole.nettrace", whole)
        self.run_tool("convert", "whole.nettrace", "-o", "four.nettrace")
        merged = self.merge(self.read("four.nettrace"), one().end(), checks=None)
        self.assertEqual([event for event in merged.events if event["provider"] == "Other"],
                         Reader(whole).events)
        self.assertFalse([event for event in merged.events
                          if event["name"] in ("EventLabel", "ThreadName")])
        self.assertIn(("Region", "eu-1"),
                      [(event["fields"]["key"], event["fields"]["value"])
                       for event in merged.events if event["name"] == "TraceKeyValue"])

    def test_what_no_event_of_another_writer_uses_is_left_out(self):
        trace = v6.Trace(start_ticks=5000 * SECOND)
        trace.threads({"index": 1, "process": 300, "thread": 301}, {"index": 0},
                      *({"index": i, "process": 400, "thread": 400 + i, "name": f"t{i}"}
                        for i in range(2, 50)))
        trace.define(1, "Other", "Event", 1, (("a", v6.U8),), b"\4" + v6.text("used {a}"))
        trace.define(2, "Other", "Unused", 2, (("a", v6.U8),), b"\4" + v6.text("unused"))
        trace.labels(1, [[(5, v6.text("k") + v6.text("used"))],
                         [(5, v6.text("k") + v6.text("unused"))]]).stacks(1, [[1, 2], [3, 4]])
        trace.events({"id": 1, "thread": 1, "capture": 0, "number": 1, "ns": 1, "labels": 1,
                      "stack": 1, "payload": b"\7"})
        whole = trace.end()
        merged = self.merge(whole, one().end(), checks=None)
        self.assertEqual([event for event in merged.events if event["provider"] == "Other"],
                         Reader(whole).events)
        self.assertNotIn(b"unused", self.read("merged.nettrace"))
        self.assertIn(b"used {a}", self.read("merged.nettrace"))

    def test_compact_traces_are_merged_as_the_others(self):
        self.write("b.nettrace", two().end())
        self.run_tool("convert", "--compact", "b.nettrace", "-o", "c.nettrace")
        merged = self.merge(one().end(), self.read("c.nettrace"))
        waits = [event["fields"]["waker_thread"] for event in merged.events
                 if event["name"] == "Wait"]
        self.assertEqual(waits, [101, 101 + STEP, 0])
        self.assertIn("within 0.1 us", self.messages)

    def test_a_merged_trace_can_be_merged_again(self):
        first = self.merge(one().end(), two().end())
        again = self.merge(self.read("merged.nettrace"), one().end())
        orders = [event for event in again.events if event["name"] == "Order"]
        self.assertEqual([number_of(event) for event in orders], [1, 1, 2, 3, 3, 4])
        self.assertEqual({event["process"] for event in orders},
                         {event["process"] for event in first.events if event["name"] == "Order"})

    def test_a_process_gets_the_name_of_its_machine_once(self):
        self.merge(one().end(), two().end())
        third = Machine("web3", "boot-3", 7000 * SECOND).clock(0, UTC)
        third.put(10, 1, 1, system(1, "shop", ""))
        again = self.merge(self.read("merged.nettrace"), third.end())
        self.assertEqual({event["payload"] for event in again.events
                          if event["name"] == "ExistingProcess"},
                         {system(1, f"shop@web{i}", "") for i in (1, 2, 3)})

    def test_the_boot_of_a_machine_decides_and_not_its_time_of_day(self):
        # Two machines with equal clocks, and one whose time of day was set.
        for boot, later, step in (("boot-2", 0, STEP), ("boot-1", 3600 * SECOND, 0)):
            first = Machine("web1", "boot-1", 5000 * SECOND).clock(0, UTC).order(SECOND, 1)
            second = Machine("web2", boot, 5000 * SECOND).clock(0, UTC + later)
            merged = self.merge(first.end(), second.order(2 * SECOND, 2).end())
            self.assertEqual([event["process"] for event in merged.events
                              if event["name"] == "Order"], [100, 100 + step])

    def test_a_cut_trace_gives_its_first_events(self):
        whole = one().end()
        merged = self.merge(whole[:-200], two().end(), status=1)
        self.assertIn("0.nettrace: the trace stops before its end", self.messages)
        self.assertIn("the merged trace has the events before that", self.messages)
        self.assertTrue(merged.ended)
        self.assertIn(4, [number_of(event) for event in merged.events
                          if event["name"] == "Order"])

    def check_damage(self, first, damaged, offset, wanted):
        """Damage a block of the second trace. `wanted`: the orders that the merged trace has."""
        data = bytearray(damaged)
        data[offset:offset + 24] = b"\xff" * 24
        merged = self.merge(first, data, status=1, checks=NO_EVENTS_LOST)
        self.assertEqual([number_of(event) for event in merged.events
                          if event["name"] in ("Order", "OrderPlaced")], wanted)
        self.assertTrue(merged.ended)
        self.assertEqual(merged.lost, 1)
        self.assertIn(" of 2 traces, 1 lost", self.messages)
        self.assertIn("1.nettrace: the trace is damaged at offset", self.messages)
        self.assertIn("the merged trace has the other events", self.messages)

    def test_a_damaged_trace_of_a_machine_gives_the_events_after_the_damage(self):
        machine = Machine("web2", "boot-2", 90000 * SECOND).clock(0, UTC + SECOND)
        for number in range(10, 30):
            if number == 15:
                offset = len(machine.trace.bytes) + 12
            machine.order(number * SECOND, number)
        wanted = [1, 3] + [number for number in range(10, 30) if number != 15]
        self.check_damage(one().end(), machine.end(), offset, wanted)

    def test_a_damaged_trace_of_a_process_gives_the_events_after_the_damage(self):
        def orders(pid, numbers):
            trace = nettrace.Trace(pid=pid, start_ticks=7 * SECOND)
            trace.define(1, "Shop", "OrderPlaced", 5, [("id", nettrace.U32)])
            for number in numbers:
                if number == 15:
                    offsets.append(len(trace.bytes) + 80)
                trace.events(1, [struct.pack("<I", number)], ns=number * 1_000_000)
                trace.point({7: trace.sequence[7]}, ns=number * 1_000_000)
            return trace.end()

        offsets = []
        damaged = orders(11, range(10, 30))
        self.check_damage(orders(10, [1, 2]), damaged, offsets[0],
                          [1, 2] + [number for number in range(10, 30) if number != 15])

    def large(self, name):
        """Write a trace that is larger than a pipe."""
        trace = v6.Trace(start_ticks=5000 * SECOND).threads({"index": 1, "thread": 5},
                                                            {"index": 0})
        trace.define(1, "Shop", "Blob", 5)
        for at in range(40):
            trace.events({"id": 1, "thread": 1, "capture": 0, "number": at + 1, "ns": at,
                          "payload": random.Random(at).randbytes(60000)})
        return self.write(name, trace.end())

    def test_ctrl_c_ends_a_command_whose_output_nothing_reads(self):
        paths = [self.large(name) for name in ("a", "b")]
        for command in (["merge", *paths], ["convert", paths[0]],
                        ["convert", "--to", "jsonl", paths[0]]):
            process = self.start(*command, "-o", "-")
            self.wait_until(lambda: select.select([process.stdout], [], [], 0)[0])
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130, command)
            self.assertIn(b"stopped; standard output", process.stderr.read())

    def interrupt(self, process, readable):
        self.wait_until(lambda: select.select([readable], [], [], 0)[0])
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)

    def test_ctrl_c_ends_a_command_whose_socket_or_compressed_pipe_nothing_reads(self):
        paths = [self.large(name) for name in ("a", "b")]
        for command in ["merge", *paths], ["convert", paths[0]]:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                self.interrupt(self.start(*command, "-o", "-", stdout=theirs), ours)
            name = command[0] + ".zst"
            os.mkfifo(self.path(name))
            pipe = os.open(self.path(name), os.O_RDWR)
            self.addCleanup(os.close, pipe)
            self.interrupt(self.start(*command, "-o", name), pipe)

    def test_a_pipe_is_no_file_to_read_twice(self):
        os.mkfifo(self.path("pipe"))
        a = self.write("a", one().end())
        self.assertIn("needs files; pipe is none",
                      self.run_tool("merge", a, "pipe", "-o", "x", status=2)[1])
        self.assertFalse(os.path.exists(self.path("x")))

    def test_a_hundred_traces_are_merged_into_a_pipe(self):
        names = [f"{i}.nettrace" for i in range(100)]
        paths = [self.write(name, Machine("web1", "boot-1", 5000 * SECOND).clock(0, UTC).order(
            (100 - i) * SECOND, i).end()) for i, name in enumerate(names)]
        out, err = self.start("merge", *paths, "-q", "-o", "-").communicate()
        self.assertEqual(err, b"")
        merged = Reader(out)
        self.assertEqual([number_of(event) for event in merged.events
                          if event["name"] == "Order"], list(range(99, -1, -1)))

    def test_no_damage_crashes_it_or_leaves_a_trace_without_end(self):
        choose = random.Random(7)
        first, data = self.write("a", one().end()), two().end()
        for turn in range(60):
            bad = bytearray(data[:choose.randrange(len(data))] if turn % 3 == 0 else data)
            for _ in range(choose.randrange(1, 5) if turn % 3 and bad else 0):
                bad[choose.randrange(len(bad))] ^= 1 << choose.randrange(8)
            process = self.start("merge", first, self.write("bad", bytes(bad)), "-q", "-f", "-o",
                                 "m.nettrace")
            process.communicate(timeout=60)
            self.assertIn(process.returncode, (0, 1))
            if os.path.exists(self.path("m.nettrace")):
                self.assertTrue(Reader(self.read("m.nettrace")).ended)
                os.unlink(self.path("m.nettrace"))
            else:
                self.assertEqual(process.returncode, 1)

    def test_an_empty_file_leaves_no_merged_trace(self):
        a, empty = self.write("a", one().end()), self.write("empty", b"")
        self.assertIn("not a nettrace file",
                      self.run_tool("merge", a, empty, "-o", "x", status=1)[1])
        self.assertFalse(os.path.exists(self.path("x")))

    def test_a_full_disk_is_reported(self):
        paths = [self.write("a", one().end()), self.write("b", two().end())]
        done = subprocess.run([os.environ["RINGPIPE"], "merge", *paths, "-o", "/dev/full"],
                              stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write /dev/full: No space left on device", done.stderr)

    def test_wrong_usage(self):
        a, b = self.write("a", one().end()), self.write("b", two().end())
        self.assertIn("requires -o FILE", self.run_tool("merge", a, b, status=2)[1])
        self.assertIn("requires FILE FILE", self.run_tool("merge", a, "-o", "x", status=2)[1])
        self.assertIn("needs files", self.run_tool("merge", a, "-", "-o", "x", status=2)[1])
        os.symlink(a, a + ".link")
        self.assertIn(f"{a} and {a}.link are the same file",
                      self.run_tool("merge", a, b, a + ".link", "-o", "x", status=2)[1])
        self.assertIn("is a trace to read",
                      self.run_tool("merge", a, b, "-f", "-o", b, status=1)[1])
        self.assertEqual(self.read("b"), two().end())
        self.write("no", b"no trace")
        self.assertIn("not a nettrace file",
                      self.run_tool("merge", a, "no", "-o", "x", status=1)[1])
        self.assertFalse(os.path.exists(self.path("x")))


if __name__ == "__main__":
    unittest.main()
