#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The strict reader accepts a valid trace and names the first fault of each invalid one.

STRICT names the reader. This file builds the traces from the specification of nettrace V4, and
nettrace6.py those of V6.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "cli"))
import nettrace6 as v6

STRICT = os.environ["STRICT"]
START, LOST = 1000, 1 << 63
U32, U64, STRING = 10, 12, 18


def text(characters):
    return characters.encode("utf-16-le") + b"\0\0"


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


class Trace:
    """A trace of objects, in the order in which methods add them."""

    def __init__(self):
        self.bytes = b"Nettrace" + struct.pack("<I", 20) + b"!FastSerialization.1"
        head = struct.pack("<8H", 2026, 11, 1, 23, 7, 0, 0, 0)
        head += struct.pack("<qqIIII", START, 10 ** 9, 8, 42, 2, 10 ** 6)
        self.put("Trace", 4, head)

    def put(self, name, version, content):
        self.bytes += b"\5\5\1" + struct.pack("<III", version, version, len(name))
        self.bytes += name.encode() + b"\6" + content + b"\6"

    def block(self, name, content, padding=b"\0"):
        before = len(self.bytes) + 3 + 12 + len(name) + 1 + 4
        self.put(name, 2, struct.pack("<I", len(content)) + padding * (-before % 4) + content)
        return self

    def define(self, number, provider, name, *fields):
        blob = struct.pack("<I", number) + text(provider) + struct.pack("<I", 1) + text(name)
        blob += struct.pack("<qIII", 1, 0, 4, len(fields))
        blob += b"".join(struct.pack("<I", code) + text(field) for field, code in fields)
        content = struct.pack("<HHqq", 20, 1, START, START)
        content += b"\xc0" + varint(START) + varint(len(blob)) + blob
        return self.block("MetadataBlock", content)

    def events(self, *events, first=None, last=None, flags=64, stack=0):
        """Add a block of events (time, thread, number, definition, payload) with full headers."""
        content, number, time = b"", 0, 0
        for at, thread, its, definition, payload in events:
            content += bytes([flags | 1 | 2 | 4 | 8 | 128]) + varint(definition)
            content += varint((its - number - 1) % 2 ** 32) + varint(thread) + varint(0)
            content += varint(thread) + varint(stack) + varint(at - time)
            content += varint(len(payload)) + payload
            number, time = its, at
        first = events[0][0] if first is None else first
        last = events[-1][0] if last is None else last
        return self.block("EventBlock", struct.pack("<HHqq", 20, 1, first, last) + content)

    def stacks(self, first, *stacks):
        content = struct.pack("<II", first, len(stacks))
        return self.block("StackBlock", content + b"".join(
            struct.pack("<I", len(stack)) + stack for stack in stacks))

    def point(self, time, *threads):
        content = struct.pack("<qI", time, len(threads))
        return self.block("SPBlock", content + b"".join(
            struct.pack("<QI", *thread) for thread in threads))

    def end(self):
        self.bytes += b"\1"
        return self


def serial(number):
    return struct.pack("<Q", number)


def lost(reason, count):
    return struct.pack("<I", 0) + text(reason) + struct.pack("<Q", count)


def begun():
    trace = Trace().point(START, (LOST, 1)).define(1, "Shop", "mark", ("serial", U64))
    return trace.define(2, "ringpipe", "EventsLost", ("ring", U32), ("reason", STRING),
                        ("count", U64))


def marks(trace=None, numbers=(1, 2, 3), serials=None, time=2000):
    return (trace or begun()).events(*[
        (time + i, 7, number, 1, serial((serials or numbers)[i]))
        for i, number in enumerate(numbers)])


class StrictTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "t.nettrace")

    def run_strict(self, trace, *options):
        with open(self.path, "wb") as file:
            file.write(trace.bytes)
        return subprocess.run([STRICT, *options, self.path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=60, text=True)

    def accept(self, trace, *options):
        done = self.run_strict(trace, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refuse(self, fault, trace, *options):
        done = self.run_strict(trace, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(fault, done.stderr)


class Strict(StrictTest):
    def test_a_right_trace_is_accepted_and_counted(self):
        trace = marks(serials=(5, 6, 9))
        trace.events((2004, 8, 1, 2, lost("full", 2)), (2004, 8, 2, 2, lost("busy", 5)))
        trace.point(2004, (7, 3), (8, 2), (LOST, 1), (LOST, 8)).end()
        found = self.accept(trace, "--serials", "Shop/mark:serial")
        self.assertEqual(found["kinds"], {"Shop/mark": 3, "ringpipe/EventsLost": 2})
        self.assertEqual((found["lost_by"]["full"], found["lost_by"]["busy"]), (2, 5))
        self.assertEqual((found["lost_reported"], found["lost_in_points"]), (7, 7))
        self.assertEqual(found["writers"], {"7": {"first": 5, "last": 9, "count": 3}})
        self.assertEqual((found["missing"], found["complete"]), (2, True))

    def test_numbers_have_no_gap_within_a_thread(self):
        self.refuse("thread 7: event 5 follows event 3",
                    marks(marks(), (5,), time=3000).point(4000, (7, 5), (LOST, 1)).end())
        self.refuse("thread 7: event 1 follows event 3",
                    marks(marks(), (1,), time=3000).point(4000, (7, 1), (LOST, 1)).end())
        self.refuse("thread 7: event 1 follows event 3",
                    marks(marks().point(2500, (7, 3), (LOST, 1)), (1,), time=3000)
                    .point(4000, (7, 1), (LOST, 1)).end(), "--recovered")

    def test_sequence_points_name_each_thread_with_its_last_number(self):
        self.refuse("states 4, its last event is 3",
                    marks().point(3000, (7, 4), (LOST, 1)).end())
        self.refuse("names 0 of 1 threads", marks().point(3000, (LOST, 1)).end())
        self.refuse("states 1, its last event is 0",
                    marks().point(3000, (7, 3), (9, 1), (LOST, 1)).end())
        self.refuse("no sequence point at the end", marks().end())

    def test_losses_are_the_same_from_both_sides(self):
        reported = (2004, 8, 1, 2, lost("full", 2))
        self.refuse("state 2, the sequence point 3",
                    marks().events(reported).point(3000, (7, 3), (8, 1), (LOST, 4)).end())
        self.refuse("state 0, the sequence point 3",
                    marks().point(3000, (7, 3), (LOST, 4)).end())
        self.accept(marks().point(3000, (7, 3), (LOST, 4)).end(), "--recovered")
        self.refuse("state 2, the sequence point 0",
                    marks().events(reported).point(3000, (7, 3), (8, 1), (LOST, 1)).end(),
                    "--recovered")
        self.refuse("goes from 4 to 1", marks().point(3000, (7, 3), (LOST, 4))
                    .point(3000, (LOST, 1)).end(), "--merged")
        self.refuse("no number before the first event",
                    marks(Trace().define(1, "Shop", "mark", ("serial", U64)))
                    .point(3000, (7, 3), (LOST, 1)).end())
        self.refuse('reason "odd"', marks().events((2004, 8, 1, 2, lost("odd", 2))).end())
        self.refuse("states no loss", marks().events((2004, 8, 1, 2, lost("full", 0))).end())

    def test_gaps_of_the_kernels_thread_are_losses_where_it_may_have_some(self):
        kernel = 1 << 32
        trace = begun().point(START, (kernel, 1), (LOST, 1))
        trace.events((2000, kernel, 2, 1, serial(1)), (2001, kernel, 4, 1, serial(2)))
        trace.point(2001, (kernel, 6), (LOST, 1)).end()
        self.assertEqual(self.accept(trace, "--kernel")["lost_in_gaps"], 3)
        self.refuse("a sequence point states 1, its last event is 0", trace)

    def test_events_are_in_the_order_of_time(self):
        def two(first, second):
            trace = marks(numbers=(1,), time=first)
            return marks(trace, (2,), time=second).point(9000, (7, 2), (LOST, 1)).end()

        self.accept(two(3000, 3000))
        self.refuse("time 2999 follows 3000", two(3000, 2999))
        self.refuse("a sequence point at 1999", marks().point(1999, (7, 3), (LOST, 1)).end())
        self.refuse("time 999", marks(time=999))
        self.refuse("not marked as sorted", begun().events((2000, 7, 1, 1, serial(1)), flags=0))

    def test_blocks_state_their_times(self):
        event = (2000, 7, 1, 1, serial(1))
        self.refuse("states 1999", begun().events(event, first=1999))
        self.refuse("ends at another time", begun().events(event, last=2001))

    def test_payloads_are_what_their_fields_say(self):
        self.refuse("longer than its fields", begun().events((2000, 7, 1, 1, serial(1) + b"x")))
        self.refuse("shorter than its fields", begun().events((2000, 7, 1, 1, b"1234567")))

    def test_definitions_come_once_and_first(self):
        self.refuse("definition 3 is missing", begun().events((2000, 7, 1, 3, serial(1))))
        self.refuse("definition 1: twice", begun().define(1, "Shop", "other", ("serial", U64)))
        self.refuse("a type that is not allowed", begun().define(4, "Shop", "odd", ("a", 2)))

    def test_stacks_are_defined_since_the_last_sequence_point(self):
        event = (2000, 7, 1, 1, serial(1))
        ends = (2000, (7, 1), (LOST, 1))
        self.accept(begun().stacks(1, bytes(16)).events(event, stack=1).point(*ends).end())
        self.refuse("stack 2, and 1", begun().stacks(1, bytes(16)).events(event, stack=2))
        self.refuse("stack 1, and 0", begun().stacks(1, bytes(16)).point(1000, (LOST, 1))
                    .events(event, stack=1))
        self.refuse("1 stacks from 2 on", begun().stacks(2, bytes(16)))
        self.refuse("a stack of 15 bytes", begun().stacks(1, bytes(15)))

    def test_each_byte_belongs_to_an_object(self):
        whole = marks().point(3000, (7, 3), (LOST, 1)).end()
        self.accept(whole)
        for size in [*range(0, len(whole.bytes), 7), len(whole.bytes) - 1]:
            cut = Trace()
            cut.bytes = whole.bytes[:size]
            self.assertEqual(self.run_strict(cut).returncode, 1, size)
        whole.bytes += b"\1"
        self.refuse("bytes after the end", whole)
        padded = begun()
        before = len(padded.bytes)
        content = struct.pack("<III", 1, 1, 8) + bytes(8)
        padded.block("StackBlock", content, padding=b"x")
        self.assertIn(b"x", padded.bytes[before:])
        self.refuse("padding", padded)

    def test_a_cut_trace_is_accepted_where_it_may_be_cut(self):
        whole = marks().point(3000, (7, 3), (LOST, 1)).end()
        cut = Trace()
        cut.bytes = whole.bytes[:-20]
        found = self.accept(cut, "--cut")
        self.assertEqual((found["events"], found["complete"]), (3, False))

    def test_a_window_lies_within_its_trace(self):
        def snapshot(begin, end):
            trace = begun().define(3, "ringpipe", "Snapshot", ("from", U64), ("to", U64))
            trace.events((2000, 8, 1, 3, serial(begin) + serial(end)))
            return trace.point(2000, (8, 1), (LOST, 1)).end()

        self.assertEqual(self.accept(snapshot(START, 1500))["window"], [START, 1500])
        self.refuse("a window that begins before the trace", snapshot(START - 1, 1500))
        self.refuse("after its end", snapshot(1501, 1500))

    def test_serials_rise(self):
        self.refuse("serial 4 follows serial 5",
                    marks(serials=(5, 4, 6)).point(3000, (7, 3), (LOST, 1)).end(),
                    "--serials", "Shop/mark:serial")
        self.refuse("no such integer fields", marks(), "--serials", "Shop/mark:number")


EVENTS, LOST_INDEX, KERNEL = 0, 1, 1 << 32
LEVEL = b"\x08\4"


def begun6(*rows, pairs=(("HardwareThreadCount", "4"), ("ProcessId", "42"))):
    trace = v6.Trace(pairs=pairs)
    trace.threads(*({"index": i, "process": 0, "thread": 0} for i in (EVENTS, LOST_INDEX)),
                  {"index": 2, "process": 42, "thread": 7}, *rows)
    trace.define(1, "Shop", "mark", 1, (("serial", v6.U64),), LEVEL)
    return trace.define(2, "ringpipe", "EventsLost", 1,
                        (("ring", v6.U32), ("reason", v6.STRING16), ("count", v6.U64)), LEVEL)


def mark6(number, ns=0, **given):
    return {"id": 1, "thread": 2, "capture": EVENTS, "number": number, "ns": ns,
            "payload": serial(number), **given}


def end6(trace, *numbers, ns=100):
    trace.point(numbers, ns=ns).end()
    return trace


class Strict6(StrictTest):
    def test_a_right_trace_is_accepted_and_counted(self):
        trace = begun6({"index": 3, "process": 42, "thread": 8})
        trace.labels(1, [[(1, b"a" * 16)], [(1, b"a" * 16), (2, b"r" * 16), (3, b"t" * 16),
                                            (4, b"s" * 8)]])
        trace.stacks(1, [[1, 2]])
        trace.events(mark6(1, labels=2), mark6(2, thread=3, labels=0, stack=1), mark6(3, stack=0),
                     {"id": 2, "thread": 3, "number": 4, "payload": lost("full", 5)})
        found = self.accept(end6(trace, (EVENTS, 4), (LOST_INDEX, 5)), "--serials",
                            "Shop/mark:serial")
        self.assertEqual(found["kinds"], {"Shop/mark": 3, "ringpipe/EventsLost": 1})
        self.assertEqual((found["lost_by"]["full"], found["lost_in_points"]), (5, 5))
        self.assertEqual(found["writers"], {"7": {"first": 1, "last": 3, "count": 2},
                                            "8": {"first": 2, "last": 2, "count": 1}})
        self.assertEqual((found["threads"], found["complete"]), (2, True))

    def test_all_events_have_one_number_after_another(self):
        two = [mark6(1), mark6(3)]
        self.refuse("event 3 follows event 1", begun6().events(*two))
        self.refuse("event 2 follows event 0", begun6().events(mark6(2)))
        self.refuse("states 2, its last event is 1", end6(begun6().events(mark6(1)), (EVENTS, 2)))
        self.refuse("names 0 of 1 threads", end6(begun6().events(mark6(1))))
        self.refuse("no sequence point at the end", self.ended(begun6().events(mark6(1))))
        self.refuse("a number of index 2", end6(begun6().events(mark6(1)), (EVENTS, 1), (2, 1)))

    @staticmethod
    def ended(trace):
        trace.end()
        return trace

    def test_losses_are_the_same_from_both_sides(self):
        stated = {"id": 2, "thread": 2, "number": 2, "payload": lost("full", 5)}
        self.refuse("state 5, the sequence point 4",
                    end6(begun6().events(mark6(1), stated), (EVENTS, 2), (LOST_INDEX, 4)))
        self.refuse("state 0, the sequence point 4",
                    end6(begun6().events(mark6(1)), (EVENTS, 1), (LOST_INDEX, 4)))
        self.accept(end6(begun6().events(mark6(1)), (EVENTS, 1), (LOST_INDEX, 4)), "--recovered")
        self.refuse("lost events goes from 0 to 0",
                    end6(begun6().events(mark6(1)), (EVENTS, 1), (LOST_INDEX, 0)))
        self.refuse("an event numbered by index 1",
                    begun6().events(mark6(1, capture=LOST_INDEX)))

    def test_gaps_of_the_kernels_index_are_losses_where_it_may_have_some(self):
        trace = begun6({"index": KERNEL, "process": 0, "thread": 0},
                       {"index": KERNEL + 7, "process": 42, "thread": 7})
        trace.events(mark6(1), mark6(2, capture=KERNEL, thread=KERNEL + 7), mark6(2))
        end6(trace, (EVENTS, 2), (KERNEL, 7))
        found = self.accept(trace, "--kernel")
        self.assertEqual(found["lost_in_gaps"], 1 + 5)
        self.refuse("event 2 follows event 0", trace)

    def test_an_event_has_a_thread_and_a_thread_one_row(self):
        for index in (EVENTS, 5):
            self.refuse(f"index {index}, which is no thread",
                        begun6().events(mark6(1, thread=index)))
        self.refuse("numbered by index 2", begun6().events(mark6(1, capture=2)))
        self.refuse("index 2 is declared twice",
                    begun6({"index": 2, "process": 42, "thread": 8}))
        self.refuse("a second row of thread 7", begun6({"index": 9, "process": 42, "thread": 7}))
        self.refuse("thread 8 of process 43", begun6({"index": 9, "process": 43, "thread": 8}))
        self.refuse("thread 0 of process 42", begun6({"index": 9, "process": 42, "thread": 0}))
        self.refuse("a row that is not", begun6({"index": 9, "name": "x", "process": 42}))
        other = begun6({"index": 9, "process": 43, "thread": 7})
        self.accept(end6(other.events(mark6(1)), (EVENTS, 1)), "--merged")

    def test_only_a_recovered_trace_declares_threads_again(self):
        trace = begun6().events(mark6(1)).point(flags=v6.FLUSH_THREADS)
        trace.threads({"index": EVENTS, "process": 0, "thread": 0},
                      {"index": 2, "process": 42, "thread": 8})
        trace.events(mark6(1, payload=serial(2)))
        found = self.accept(end6(trace, (EVENTS, 1)), "--recovered")
        self.assertEqual(found["kinds"], {"Shop/mark": 2})
        self.refuse("a sequence point", trace)
        self.refuse("flags 2", begun6().point(flags=v6.FLUSH_METADATA), "--recovered")

    def test_labels_and_stacks_are_defined_since_the_last_sequence_point(self):
        activity = [(1, b"a" * 16)]
        self.refuse("label list 1, and 0", begun6().events(mark6(1, labels=1)))
        self.refuse("label list 1, and 0", begun6().labels(1, [activity]).point()
                    .events(mark6(1, labels=1)))
        self.refuse("stack 1, and 0", begun6().stacks(1, [[1]]).point().events(mark6(1, stack=1)))
        self.refuse("1 label lists from 2 on", begun6().labels(2, [activity]))
        self.refuse("label 1 follows 2", begun6().labels(1, [[(2, b"r" * 16), *activity]]))
        self.refuse("label 1 is zero", begun6().labels(1, [[(1, bytes(16))]]))
        self.refuse("label 7 follows 0", begun6().labels(1, [[(7, b"\1")]]))

    def test_events_are_in_the_order_of_time(self):
        self.refuse("follows", begun6().events(mark6(1, ns=5)).events(mark6(2, ns=4)))
        self.refuse("a sequence point at", end6(begun6().events(mark6(1, ns=5)), (EVENTS, 1), ns=4))

    def test_definitions_are_what_every_reader_takes(self):
        def defined(code, attributes=LEVEL, **given):
            return begun6().define(3, "Shop", "odd", 3, (("a", code),), attributes, **given)

        self.accept(end6(defined((v6.ARRAY, v6.U8)).events(mark6(1)), (EVENTS, 1)))
        for code in (v6.VARINT, v6.BOOL8, (v6.FIXED, v6.U8, 2), (v6.ARRAY, v6.CHAR8)):
            self.refuse("not allowed there", defined(code))
        self.refuse("an attribute twice", defined(v6.U8, LEVEL + LEVEL))
        self.refuse("a wrong level", defined(v6.U8, b""))
        self.refuse("with a header", defined(v6.U8, skip=b"x"))
        self.refuse("definition 1: twice", begun6().define(1, "Shop", "mark", 1, (), LEVEL))

    def test_each_byte_belongs_to_a_block(self):
        trace = end6(begun6().events(mark6(1)), (EVENTS, 1))
        whole = trace.bytes
        self.accept(trace)
        for size in [*range(0, len(whole), 5), len(whole) - 1]:
            trace.bytes = whole[:size]
            self.assertEqual(self.run_strict(trace).returncode, 1, size)
        trace.bytes = whole + b"\0"
        self.refuse("bytes after the end", trace)
        trace.bytes = whole[:-4]
        self.assertFalse(self.accept(trace, "--cut")["complete"])
        self.refuse("a block of kind 77", begun6().block(77, b""))
        self.refuse("a block of kind 7", begun6().remove((2, 0)))

    def test_the_trace_block_has_what_readers_need(self):
        for pairs in ((("ProcessId", "42"),), (("HardwareThreadCount", "4"),),
                      (("HardwareThreadCount", "4"), ("ProcessId", "x")),
                      (("HardwareThreadCount", "4"), ("ProcessId", "42"), ("Odd", "1"))):
            self.refuse("Trace: ", begun6(pairs=pairs))


if __name__ == "__main__":
    unittest.main()
