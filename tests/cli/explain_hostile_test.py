#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain, on traces that no machine makes: records that overlap, that come in any order,
that last longer than the trace, and very many of them."""
import json
import os
import random
import resource
import struct
import subprocess
import unittest

import nettrace
import nettrace6 as v6
from explain_test import (BLOCK, CALL, FAULT, FUTEX, INTERRUPT, START, STOP, WAIT, call, define,
                          fault, guid, wait)
from nettrace import utf16z
from tool import PATIENCE, TOOL, ToolTest

MEMORY_BYTES = 2 << 30
PROCESSOR_S = 10
SANITIZED = os.environ.get("SANITIZERS", "none") != "none"
THREADS = (7, 8, 9)
# The kinds of records of which one is necessary for a part, besides the waits of the process.
SOURCES = {"program": (WAIT,), "runnable": (WAIT,), "other_wait": (WAIT,), "system_call": (CALL,),
           "interrupt": (INTERRUPT,), "lock": (FUTEX, CALL), "block_io": (BLOCK, CALL),
           "page_fault": (FAULT,), "network": (CALL,), "sleep": (CALL,), "callee": ()}
STRANGE_NS = (0, 1, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def limit():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))


def duration(chance):
    return chance.choice(STRANGE_NS) if chance.random() < 0.1 else chance.randrange(400_000)


def payload(chance, kind):
    """Return a record whose values need not agree."""
    took = duration(chance)
    if kind == WAIT:
        return wait(took, duration(chance), chance.randrange(5), (4242, chance.choice(THREADS)),
                    (chance.randrange(3), chance.randrange(3), duration(chance), "hog"))
    if kind == CALL:
        return call(chance.choice(("", "futex", "fsync", "recvfrom", "no_such_call")), took, "f")
    if kind == FAULT:
        return fault(0x1000, took, chance.randrange(2))
    if kind == FUTEX:
        return struct.pack("<QQQIQ", 0x7f00, 0, took, 4242, chance.choice(THREADS))
    if kind == BLOCK:
        return struct.pack("<QIQ", chance.randrange(1 << 64), 0xffffffff, took) + utf16z("vda")
    return utf16z("hard") + utf16z("eth0") + struct.pack("<Q", took)


def any_records(chance, count, kinds=(WAIT, WAIT, CALL, FAULT, FUTEX, BLOCK, INTERRUPT), lost=0):
    """Return a trace with spans of three threads and records in any order of time."""
    trace = define(nettrace.Trace())
    if lost:
        trace.define(30, "Ringpipe-Machine", "Loss", 7, [("reason", nettrace.STRING),
                                                         ("lost", nettrace.U64)])
        trace.events(30, [utf16z("ring full") + struct.pack("<Q", lost)])
    for _ in range(count):
        at = chance.randrange(1, 3_000_000)
        kind = chance.choice((START, STOP, *kinds))
        thread = chance.choice(THREADS)
        if kind in (START, STOP):
            trace.activity = guid(chance.randrange(1, 6))
            trace.threads([(kind, b"", thread, at, 0)])
            trace.activity = bytes(16)
        else:
            trace.threads([(kind, payload(chance, kind), thread, at, 0)])
    return trace


def many_inside_one(count=60_000):
    """Return a trace in which one record of each kind lasts as long as all others together."""
    trace = define(nettrace.Trace())
    last = 1000 * (count + 2)
    trace.activity = guid(1)
    rows = [(START, b"", 7, 1, 0)]
    long = [(CALL, call("fsync", last)), (FAULT, fault(0x1000, last)),
            (BLOCK, struct.pack("<QIQ", 1, 2, last) + utf16z("vda")),
            (INTERRUPT, utf16z("hard") + utf16z("eth0") + struct.pack("<Q", last))]
    for number in range(1, count):
        at = 1000 * number
        rows += [(WAIT, wait(300, 100, 2), 7, at, 0), (CALL, call("fsync", 200), 7, at + 10, 0),
                 (FAULT, fault(0x1000, 50), 7, at + 70, 0),
                 (BLOCK, struct.pack("<QIQ", 1, 2, 10) + utf16z("vda"), 7, at + 80, 0)]
    rows += [(kind, value, 7, last, 0) for kind, value in long] + [(STOP, b"", 7, last + 1, 0)]
    trace.threads(rows)
    return trace


def many_callees(count=30_000):
    """Return a trace of a request during which another process works for it in one long span that
    contains many others."""
    trace = v6.Trace()
    trace.threads(dict(index=1, process=4242, thread=7), dict(index=2, process=4343, thread=8))
    trace.define(START, "Shop", "requestStart", 1).define(STOP, "Shop", "requestStop", 2)
    trace.define(WAIT, "Ringpipe-Machine", "Wait", 1, [
        ("duration_ns", v6.U64), ("runnable_ns", v6.U64), ("state", v6.U32)])
    # The labels of the request, and those of the long span, which the request caused.
    trace.labels(1, [[(1, guid(1))], [(1, guid(2)), (2, guid(1))]])
    trace.labels(3, [[(1, guid(3 + number)), (2, guid(1))] for number in range(count)])
    last = 1000 * (count + 1)
    rows = [(1, START, 1, 1, b""), (2, START, 2, 2, b"")]
    for number in range(count):
        at = 1000 * (number + 1)
        rows += [(at, START, 2, 3 + number, b""), (at + 5, STOP, 2, 3 + number, b""),
                 (at + 900, WAIT, 1, 0, struct.pack("<QQI", 800, 0, 1))]
    rows += [(last, STOP, 2, 2, b""), (last + 1, STOP, 1, 1, b"")]
    return trace.events(*(dict(ns=at, id=kind, thread=thread, capture=thread, labels=labels,
                               number=number, payload=data)
                          for number, (at, kind, thread, labels, data) in enumerate(rows)))


class Hostile(ToolTest):
    def explain(self, trace, *more):
        with open(self.path("out"), "wb") as out:
            done = subprocess.run(
                [TOOL, "explain", self.write("t", trace.end()), "--format=json", *more],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, preexec_fn=limit,
                env=self.environment, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(self.read("out"))

    def check(self, row):
        """The parts of a span sum to its time, and its pieces are contiguous."""
        self.assertEqual(sum(row["parts_ns"].values()), row["duration_ns"])
        at = row["start_ns"]
        parts = dict.fromkeys(row["parts_ns"], 0)
        for piece in row["pieces"]:
            self.assertEqual(piece["from_ns"], at)
            self.assertGreater(piece["duration_ns"], 0)
            parts[piece["part"]] += piece["duration_ns"]
            at += piece["duration_ns"]
        self.assertEqual(at, row["start_ns"] + row["duration_ns"])
        self.assertEqual(parts, row["parts_ns"])

    def test_the_parts_of_any_records_sum_to_the_time_of_their_span(self):
        chance = random.Random(5)
        spans = 0
        for _ in range(25):
            for row in self.explain(any_records(chance, 300), "--slowest", "100"):
                self.check(row)
                spans += 1
        self.assertGreater(spans, 250)

    def test_a_part_without_records_of_its_own_kind_is_0(self):
        chance, seen = random.Random(6), set()
        for number in range(24):
            kinds = chance.sample((CALL, FAULT, FUTEX, BLOCK, INTERRUPT), chance.randrange(5))
            kinds += [WAIT] if number % 4 else []
            trace = any_records(chance, 150, kinds, number % 3)
            for row in self.explain(trace, "--slowest", "100"):
                self.check(row)
                parts = {part for part, ns in row["parts_ns"].items() if ns}
                if WAIT not in kinds:
                    self.assertLessEqual(parts, {"unexplained"}, kinds)
                for part in parts - {"unexplained"}:
                    self.assertTrue(set(SOURCES[part]) & set(kinds), (part, kinds))
                seen |= parts
        self.assertEqual(seen, set(SOURCES) - {"callee", "sleep"} | {"unexplained"})

    def test_records_inside_of_others_are_divided_within_the_limits(self):
        for trace, part in (many_inside_one(), "interrupt"), (many_callees(), "callee"):
            for row in self.explain(trace):
                self.check(row)
                self.assertEqual(row["largest_part"], part)


if __name__ == "__main__":
    unittest.main()
