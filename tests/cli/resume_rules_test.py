#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Assumptions of a reader that resumes about the part that it missed, one rule per test."""
import errno
import struct
import unittest

import nettrace
import nettrace6
from nettrace6 import EVENT, FLUSH_METADATA, FLUSH_THREADS, METADATA, POINT, REMOVE, STACK, THREAD
from resume_test import read

STACKS = [[4096, 4097], [8192, 8193]]


class Trace(nettrace6.Trace):
    """A trace of one capture thread, with index 0, whose numbers count up."""

    def __init__(self, **options):
        super().__init__(**options)
        self.number = self.ns = 0
        self.define(1, "Shop", "Ordered", 1)
        self.threads({"index": 0, "thread": 10}, {"index": 1, "thread": 11})

    def put(self, count=1, kind=1, thread=1, stack=0, first=None):
        """Add a block of events. `first` is the number of its first event."""
        self.number = self.number + 1 if first is None else first
        rows = []
        for i in range(count):
            self.ns += 1000
            rows.append({"id": kind, "thread": thread, "capture": 0, "stack": stack,
                         "number": self.number + i, "ns": self.ns})
        self.number += count - 1
        return self.events(*rows)

    def damaged(self, kind, size=40):
        """Add a block whose content is damaged; its header is right."""
        begin = len(self.bytes)
        if kind == EVENT:
            self.put(size)
            self.number -= size
            del self.bytes[begin + 4 + size:]
            struct.pack_into("<I", self.bytes, begin, size | EVENT << 24)
            self.bytes[begin + 24:] = b"\xff" * (size - 20)
            return self
        return self.block(kind, b"\xff" * size)

    def missing(self):
        """Add bytes that are no block: any number of blocks may have been there. The reader
        needs another block to know that the events before them are right."""
        self.remove()
        self.bytes += b"\xee" * 100
        return self


class Rules(unittest.TestCase):
    def read(self, trace):
        """Return the events as (name, thread, stack), those lost to damage, and the ranges."""
        (lines, (ret, lost, count, _), ranges), = read([trace.end()])
        self.assertEqual(ret, 0)
        self.count = count
        events = []
        for line in lines:
            head, frames = line.split("\t")
            words = head.split(" ")
            events.append((words[6].split("|")[2], int(words[1]), frames))
        return events, lost, ranges

    def names(self, trace):
        return [name for name, _, _ in self.read(trace)[0]]

    def threads_of(self, trace):
        return [thread for _, thread, _ in self.read(trace)[0]]

    def has_stacks(self, trace):
        return [frames != "" for _, _, frames in self.read(trace)[0]]

    def test_types_are_forgotten_if_the_stream_removed_types_before(self):
        trace = Trace().put(2).point([(0, 2)], 2000).missing().put(3)
        self.assertEqual(self.names(trace), ["Ordered"] * 5)
        trace = Trace().put(2).point([(0, 2)], 2000, FLUSH_METADATA)
        trace.define(1, "Shop", "Paid", 2).put(2).missing().put(3)
        self.assertEqual(self.names(trace), ["Ordered"] * 2 + ["Paid"] * 2)

    def test_a_damaged_block_of_events_missed_nothing_else_if_it_had_space_for_the_numbers(self):
        def trace(first):
            given = Trace().stacks(1, STACKS).put(1, stack=1).damaged(EVENT, 60)
            return given.put(1, stack=1, first=first)
        self.assertEqual(self.has_stacks(trace(10)), [True, True])
        self.assertEqual(self.has_stacks(trace(1000)), [True, False])

    def test_one_damaged_block_does_not_use_an_index_again_but_two_do(self):
        trace = Trace().put(2).point([(0, 2)], 2000, FLUSH_THREADS)
        trace.threads({"index": 0, "thread": 20}, {"index": 1, "thread": 21})
        trace.put(2, first=1).damaged(REMOVE).put(2).damaged(THREAD).put(3)
        self.assertEqual(self.threads_of(trace), [11, 11, 21, 21, 21, 21])

    def test_threads_are_forgotten_if_the_stream_used_an_index_again_before(self):
        trace = Trace().put(2).remove((1, 0)).threads({"index": 1, "thread": 21})
        trace.put(2).missing().put(3)
        self.assertEqual(self.threads_of(trace), [11, 11, 21, 21])

    def test_numbers_that_begin_again_are_those_of_another_thread(self):
        trace = Trace().put(5).missing().put(2, first=1).put(9, first=3)
        self.assertEqual(self.threads_of(trace), [11] * 5)

    def test_each_event_is_lost_once(self):
        trace = Trace().put(10).missing().put(2, kind=9, first=21).put(1)
        events, lost, _ = self.read(trace)
        self.assertEqual((len(events), lost), (11, 12))
        # The numbers of events of an unknown type are known.
        trace = Trace().put(10).damaged(METADATA).put(2, kind=9).put(1)
        events, lost, _ = self.read(trace)
        self.assertEqual((len(events), lost), (11, 2))

    def test_a_writer_that_leaves_ids_out_twice_may_do_so(self):
        trace = Trace()
        for first in (1, 10, 20, 30, 40):
            trace.stacks(1, STACKS[:1]).stacks(first + 4, STACKS[:1]).put(1, stack=first + 4)
            trace.point([(0, trace.number)], trace.ns)
        self.assertEqual(self.has_stacks(trace), [False, False, True, True, True])
        self.assertEqual(self.count, 2)

    def test_stacks_that_contradict_others_are_ignored_up_to_the_next_sequence_point(self):
        trace = Trace().stacks(1, STACKS).stacks(1, STACKS).stacks(3, STACKS)
        trace.put(1, stack=1).put(1, stack=3).point([(0, 2)], 2000).stacks(1, STACKS)
        trace.put(1, stack=1)
        self.assertEqual(self.has_stacks(trace), [False, False, True])
        # The two blocks follow each other.
        self.assertEqual(self.count, 1)

    def test_damaged_blocks_in_succession_are_one_range(self):
        trace = Trace().put(2)
        begin = len(trace.bytes)
        trace.damaged(THREAD).damaged(METADATA)
        end = len(trace.bytes)
        self.assertEqual(self.read(trace.put(2))[2], [(begin, end - begin)])

    def test_the_reader_remembers_1024_ranges_and_counts_all(self):
        trace = Trace()
        for _ in range(1030):
            trace.put(1).damaged(METADATA, 4)
        self.assertEqual(len(self.read(trace.put(1))[2]), 1024)
        self.assertEqual(self.count, 1030)

    def test_blocks_that_no_writer_writes_are_damage(self):
        for kind, payload in ((POINT, struct.pack("<QII", 1, 4, 0)),
                              (STACK, struct.pack("<III", 0, 1, 0)),
                              (STACK, struct.pack("<III", 1, 1, 12) + bytes(12))):
            trace = Trace().put(1).block(kind, payload).put(1)
            self.assertEqual(len(self.read(trace)[2]), 1, (kind, payload))

    def test_times_of_blocks_may_be_limits_if_all_are(self):
        def loose(trace, begin):
            at = begin + 4 + 4
            first, last = struct.unpack_from("<qq", trace.bytes, at)
            struct.pack_into("<qq", trace.bytes, at, first - 100, last + 100)

        trace = Trace()
        for _ in range(3):
            begin = len(trace.bytes)
            loose(trace.put(2), begin)
        self.assertEqual(len(self.read(trace)[0]), 6)
        self.assertEqual(self.count, 0)
        # An exact block shows that the other block's times are wrong.
        trace = Trace().put(2)
        begin = len(trace.bytes)
        loose(trace.put(2), begin)
        self.assertEqual(len(self.read(trace.put(2))[0]), 4)
        self.assertEqual(self.count, 1)

    def test_bytes_that_are_missing_before_the_end_of_version_4_are_damage(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "Ordered", 1, [("id", nettrace.U64)])
        trace.events(1, [bytes(8)], thread=7, ns=1000)
        trace.events(1, [bytes(8)] * 3, thread=7, ns=5000)
        data = trace.end()
        for size, count in ((6, 1), (0, 4)):
            (lines, (ret, *_), ranges), = read([data[:-9] + data[len(data) - 9 + size:]])
            self.assertEqual((len(lines), len(ranges)), (count, int(size > 0)))
        # Without the end, the trace was cut, and its complete events count.
        (lines, (ret, *_), ranges), = read([data[:-9]])
        self.assertEqual((ret, len(lines), ranges), (-errno.ENODATA, 3, []))

    def test_a_later_version_of_all_blocks_is_no_damage(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "Ordered", 1, [("id", nettrace.U64)])
        trace.events(1, [bytes(8)], thread=7, ns=1000)
        data = trace.end()
        for name in (b"MetadataBlock", b"EventBlock"):
            now = struct.pack("<III", 2, 2, len(name)) + name
            self.assertIn(now, data)
            data = data.replace(now, struct.pack("<III", 3, 3, len(name)) + name)
        (_, (ret, *_), ranges), = read([data])
        self.assertEqual((ret, ranges), (-errno.EPROTONOSUPPORT, []))


if __name__ == "__main__":
    unittest.main()
