#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report` on version 6 of nettrace, written by the second writer of nettrace6.py."""
import json
import os
import random
import resource
import struct
import unittest

import nettrace
import nettrace6 as v6
from tool import ToolTest

CUT = 0xc07  # the last frame of a stack that was cut
MEMORY_BYTES = 1 << 30
PROCESSOR_S = 10
SANITIZERS = os.environ.get("SANITIZERS", "none")
GUID = bytes(range(16))
GUID_TEXT = "03020100-0504-0706-0809-0a0b0c0d0e0f"
SEQUENCE = ({"index": 1, "process": 77, "thread": 501, "name": "main"},
            {"index": 2, "process": 78, "thread": 601},
            {"index": 9, "process": 0, "thread": 0})


def begin(*rows, **options):
    return v6.Trace(**options).threads(*(rows or SEQUENCE)).define(1, "Shop", "Order", 5)


def event(**given):
    return {"id": 1, "thread": 1, "capture": 9, **given}


class Version6(ToolTest):
    def events(self, trace, *, status=0, ended=True):
        data = trace.end() if ended else trace.bytes
        out, err = self.run_tool("report", self.write("t", data), "events", "--format=json",
                                 status=status)
        self.last_error = err
        return [json.loads(line) for line in out.splitlines()]

    def summary(self, trace):
        return json.loads(self.run_tool("report", self.write("t", trace.end()),
                                        "--format=json")[0])

    def test_every_type_of_field_has_its_value(self):
        payload, expected = v6.all_fields_payload()
        trace = v6.Trace().threads(*SEQUENCE)
        trace.define(1, "Shop", "all", 5, v6.ALL_FIELDS)
        row = self.events(trace.events(event(payload=payload)))[0]
        self.assertEqual(row["fields"], expected)

    def limited_summary(self, trace, status):
        """Return the summary, made within limits of memory and processor time."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
            if SANITIZERS == "none":
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

        process = self.start("report", self.write("t", trace.end()), "--format=json",
                             preexec_fn=limit)
        out, self.last_error = self.finish(process, status)
        return json.loads(out)

    @staticmethod
    def large_lists(count, labels, events):
        """A trace whose events alternate between the lists. A label has 3 bytes, decoded 25."""
        one = [(6, b"\0\1" + b"\6\0\1" * (labels - 2)), (6, b"\0\1")]
        trace = begin()
        for number in range(count):
            trace.labels(number + 1, [one])
        return trace.events(*(event(labels=number % count + 1) for number in range(events)))

    def test_events_that_alternate_between_large_label_lists_decode_each_list_once(self):
        summary = self.limited_summary(self.large_lists(2, 500_000, 10_000), 0)
        self.assertEqual(summary["events"], 10_000)

    def test_label_lists_that_cost_too_much_are_damage(self):
        summary = self.limited_summary(self.large_lists(40, 100_000, 5_000), 1)
        self.assertIn("damaged", summary["error"])
        self.assertGreater(summary["events"], 100)

    def test_large_label_lists_have_their_labels_in_any_order(self):
        def text(number, at):
            return v6.text(f"key{at}") + v6.text(f"{number}" * 20)

        lists = [[(5, text(number, at)) for at in range(size)]
                 for number, size in enumerate((1, 100, 2, 200, 100))]
        trace = begin().labels(1, lists)
        order = [2, 4, 2, 1, 5, 4, 3, 2, 1, 1]
        rows = self.events(trace.events(*(event(labels=number) for number in order)))
        self.assertEqual([row["labels"] for row in rows], [
            {f"key{at}": f"{number - 1}" * 20 for at in range(len(lists[number - 1]))}
            for number in order])

    def test_arrays_of_arrays_have_their_values(self):
        numbers = (v6.ARRAY, v6.U32)
        pairs = (("a", (v6.ARRAY, numbers)), ("b", (v6.ARRAY, (v6.ARRAY, numbers))),
                 ("c", (v6.ARRAY, (v6.ARRAY, v6.STRING16))),
                 ("d", (v6.ARRAY, (v6.FIXED, v6.U16, 2))),
                 ("e", (v6.FIXED, (v6.ARRAY, v6.U16), 2)),
                 ("f", (v6.ARRAY, (v6.STRUCT, (("g", (v6.ARRAY, numbers)),)))))
        two = struct.pack("<H", 2) + struct.pack("<HII", 2, 1, 2) + struct.pack("<H", 0)
        payload = two + struct.pack("<H", 2) + two + struct.pack("<H", 0)
        payload += struct.pack("<HH", 1, 2) + v6.utf16z("x") + v6.utf16z("yz")
        payload += struct.pack("<HHHHH", 2, 1, 2, 3, 4) + struct.pack("<HHH", 1, 9, 0)
        payload += struct.pack("<H", 1) + two
        trace = v6.Trace().threads(*SEQUENCE).define(1, "Shop", "nested", 5, pairs)
        self.assertEqual(self.events(trace.events(event(payload=payload)))[0]["fields"], {
            "a": [[1, 2], []], "b": [[[1, 2], []], []], "c": [["x", "yz"]],
            "d": [[1, 2], [3, 4]], "e": [[9], []], "f": [{"g": [[1, 2], []]}]})

    def test_both_forms_of_headers_say_the_same(self):
        rows = [event(ns=5, cpu=1, payload=b"x"), event(ns=9, thread=2, number=2, payload=b"xyz"),
                event(ns=9, cpu=3, number=3, payload=b"")]
        got = [self.events(begin().events(*rows, compressed=form)) for form in (True, False)]
        self.assertEqual(*got)
        self.assertEqual([(row["time_ns"], row["thread_id"], row["process_id"], row["processor"])
                          for row in got[0]], [(5, 501, 77, 1), (9, 601, 78, 1), (9, 501, 77, 3)])

    def test_the_summary_of_headers_that_repeat_others_is_that_of_complete_headers(self):
        choice = random.Random(6)
        payloads = {1: b"12345", 2: bytes(40), 3: nettrace.lost(1, "full", 5),
                    4: struct.pack("<II", 77, 0) + v6.utf16z("shop") + v6.utf16z("shop -v")}
        rows = [event(id=4, thread=9, number=1, payload=payloads[4])]
        wanted = {"orders": 0, "stacks": 0, "cut": 0, "lost": 0, "process": 0}
        ns = 100_000
        for _ in range(200):
            same = {"thread": choice.choice((1, 2)), "stack": choice.choice((0, 1, 2)),
                    "labels": choice.choice((0, 0, 1))}
            for kind in choice.choices((1, 2, 3), (8, 8, 1), k=choice.choice((1, 2, 9))):
                ns += choice.choice((300, 200, 100, -250))
                rows.append(event(id=kind, number=len(rows) + 1, payload=payloads[kind], ns=ns,
                                  **same))
                wanted["orders"] += kind == 1
                wanted["stacks"] += same["stack"] > 0
                wanted["cut"] += same["stack"] == 2
                wanted["lost"] += 5 * (kind == 3)
                wanted["process"] += same["thread"] == 1
        rows.append(dict(rows[-1], id=2, number=len(rows) + 1, payload=b"", ns=ns + 10_000))
        wanted["stacks"] += same["stack"] > 0
        wanted["cut"] += same["stack"] == 2
        wanted["process"] += same["thread"] == 1
        wanted["last"] = ns + 10_000
        found = []
        for form in (True, False):
            trace = begin().define(2, "Shop", "Other", 6)
            trace.define(3, "ringpipe", "EventsLost", 1,
                         (("ring", v6.U32), ("reason", v6.STRING16), ("count", v6.U64)))
            trace.define(4, "ringpipe", "ProcessTraced", 64)
            trace.stacks(1, [[0x401000], [0x401000, CUT]])
            trace.labels(1, [[(1, GUID)]])
            found.append(self.summary(trace.events(*rows, compressed=form)))
            for key in ("file", "bytes"):
                del found[-1][key]
        self.assertEqual(*found)
        shop = next(each for each in found[0]["providers"] if each["provider"] == "Shop")
        self.assertEqual({"orders": next(kind["events"] for kind in shop["kinds"]
                                         if kind["event"] == "Order"),
                          "stacks": found[0]["stacks"], "cut": found[0]["stacks_cut"],
                          "lost": sum(each["lost"] for each in found[0]["lost_by"]),
                          "process": found[0]["processes"][0]["events"],
                          "last": found[0]["duration_ns"]}, wanted)
        self.assertEqual((found[0]["activities"], found[0]["threads"]), (1, 2))

    def test_attributes_of_a_type_and_what_labels_replace(self):
        attributes = b"\1\1" + b"\3" + struct.pack("<Q", 5) + b"\4" + v6.text("took {ms}")
        attributes += b"\5" + v6.text("an order") + b"\6" + v6.text("k") + v6.text("v")
        attributes += b"\7" + GUID + b"\x08\3" + b"\x09\2"
        trace = v6.Trace().threads(*SEQUENCE).define(1, "Shop", "Order", 5, (), attributes,
                                                     skip=b"later versions")
        trace.labels(1, [[(1, GUID), (2, GUID), (3, b"T" * 16), (4, struct.pack("<Q", 99)),
                          (5, v6.text("zone") + v6.text("eu\x1b")),
                          (6, v6.text("n") + v6.varint(-5))],
                         [(7, b"\2"), (8, struct.pack("<Q", 1)), (9, b"\5"), (10, b"\7")]])
        rows = self.events(trace.events(event(labels=1), event(labels=2), event(labels=0)))
        self.assertEqual(rows[0]["activity"], GUID_TEXT)
        self.assertEqual(rows[0]["related_activity"], GUID_TEXT)
        self.assertEqual(rows[0]["trace_id"], "54" * 16)
        self.assertEqual(rows[0]["span_id"], "0000000000000063")
        self.assertEqual(rows[0]["labels"]["n"], -5)
        self.assertTrue(rows[0]["labels"]["zone"].startswith("eu"))
        for row in rows[1:]:
            self.assertNotIn("activity", row)
            self.assertNotIn("trace_id", row)
            self.assertNotIn("labels", row)

    def test_an_activity_is_a_trace_where_the_span_is_that_of_the_related_id(self):
        related = bytes(8) + struct.pack(">Q", 0x1122334455667788)
        activity, span = (1, GUID), (4, struct.pack("<Q", 0x1122334455667788))
        trace = v6.Trace().threads(*SEQUENCE).define(1, "Shop", "Order", 5)
        trace.labels(1, [[activity, (2, related), span], [activity, (2, GUID), span],
                         [activity, (2, related)], [activity, (2, related), (3, b"T" * 16), span]])
        rows = self.events(trace.events(*[event(labels=i) for i in (1, 2, 3, 4)]))
        self.assertEqual([row.get("trace_id") for row in rows],
                         [GUID_TEXT.replace("-", ""), None, None, "54" * 16])
        self.assertEqual(rows[0]["span_id"], "1122334455667788")

    def test_losses_count_from_0_for_each_capture_index(self):
        for points, first, lost in ((((9, 1),), 1, 0), (((9, 1),), 4, 3 + 2**31 - 1),
                                    (((9, 6),), 1, 5), (((9, 1), (2, 7)), 1, 7)):
            with self.subTest(points=points, first=first):
                trace = begin().events(event(number=first)).point(points)
                self.assertEqual(self.summary(trace)["lost"], lost)
        trace = begin().events(event()).remove((9, 11))
        self.assertEqual(self.summary(trace)["lost"], 10)

    def test_threads_and_types_can_be_declared_again_after_they_were_flushed(self):
        trace = begin().events(event()).point([(9, 1)], flags=v6.FLUSH_THREADS | v6.FLUSH_METADATA)
        trace.threads({"index": 1, "process": 80, "thread": 9}, {"index": 9})
        trace.define(1, "Shop", "Other", 6).events(event(number=1))
        rows = self.events(trace)
        self.assertEqual([(row["event"], row["process_id"], row["thread_id"]) for row in rows],
                         [("Order", 77, 501), ("Other", 80, 9)])
        trace = begin().events(event()).remove((1, 0), (9, 1))
        trace.threads({"index": 1, "process": 81, "thread": 10}, {"index": 9})
        self.assertEqual([row["process_id"] for row in self.events(trace.events(event(number=1)))],
                         [77, 81])

    def test_labels_replace_the_values_of_each_type(self):
        trace = begin().define(2, "Shop", "Paid", 6, (), b"\x08\3")
        trace.labels(1, [[(9, b"\2")]])
        rows = [event(id=kind, labels=label, ns=at) for at, (kind, label) in
                enumerate(((1, 1), (1, 1), (2, 1), (2, 1), (2, 0), (1, 0)))]
        path = self.write("t", trace.events(*rows).end())
        for level, times in ((2, [0, 1, 2, 3]), (3, [4]), (0, [5])):
            lines = self.run_tool("report", path, "events", "--format=json", "--where",
                                  f"level == {level}")[0].splitlines()
            self.assertEqual([json.loads(line)["time_ns"] for line in lines], times)

    def test_stacks_and_labels_end_with_a_sequence_point(self):
        trace = begin().stacks(1, [[1, 2]]).labels(1, [[(1, GUID)]])
        trace.events(event(stack=1, labels=1)).point([(9, 1)])
        rows = self.events(trace.stacks(1, [[3]]).events(event(stack=1, number=2)))
        self.assertEqual([row["stack"] for row in rows], [["0x1", "0x2"], ["0x3"]])
        trace = begin().labels(1, [[(1, GUID)]]).point()
        self.events(trace.events(event(labels=1)), status=1)
        self.assertIn("unknown label list", self.last_error)

    def test_the_keys_of_the_recording_may_be_missing_or_unknown(self):
        trace = begin(pairs=(("Machine", "a"), ("ProcessId", "12")), minor=7)
        trace.block(77, b"a kind of a later minor version")
        summary = self.summary(trace.events(event()))
        self.assertEqual((summary["process_id"], summary["events"]), (12, 1))

    def test_names_of_threads_and_keys_of_the_header_become_valid_utf_8(self):
        threads = {"index": 1, "process": 77, "thread": 501, "name": b"a\xffb\0c"}, SEQUENCE[2]
        trace = begin(*threads, pairs=((b"k\xffy", b"v\xc3lue"), ("ProcessId", "12")))
        path = self.write("t", trace.events(event()).end())
        self.run_tool("convert", "--format", 6, path, "-o", self.path("o"))
        out = self.read("o")
        for text in "a\ufffdb\ufffdc", "k\ufffdy", "v\ufffdlue":
            self.assertIn(v6.text(text), out)
        self.assertNotIn(b"a\xffb", out)

    def test_unknown_indexes_are_errors_with_their_place(self):
        for trace, said in ((begin().events(event(thread=5)), "unknown thread"),
                            (begin().events(event(capture=5)), "unknown thread"),
                            (begin().events(event(id=5)), "unknown type"),
                            (begin().threads({"index": 1}), "a thread declared twice"),
                            (begin().define(1, "a", "b", 1), "an event defined twice"),
                            (begin().point([(5, 1)]), "the number of an unknown thread"),
                            (begin().block(v6.TRACE, b""), "second Trace block"),
                            (begin().block(v6.LABELS, struct.pack("<II", 1, 1) + b"\x8b"),
                             "a damaged block of label lists"),
                            (begin().block(v6.THREAD, b"\xff\0"), "a damaged block of threads")):
            with self.subTest(said=said):
                self.events(trace, status=1)
                self.assertIn(said, self.last_error)
                self.assertRegex(self.last_error, "at offset [0-9]+")

    def test_fields_that_cannot_be_expressed_leave_the_event(self):
        nested = (v6.ARRAY, (v6.STRUCT, (("at", (v6.DATA_LOC, v6.U8)),)))
        many = tuple((str(i), (v6.DATA_LOC, v6.U8)) for i in range(129))
        for pairs in (many, (("a", 99),), (("a", nested),), (("a", (v6.ARRAY, (v6.STRUCT, ()))),),
                      (("a", (v6.ARRAY, (v6.FIXED, v6.U8, 0))),)):
            with self.subTest(pairs=pairs):
                trace = v6.Trace().threads(*SEQUENCE).define(1, "Shop", "odd", 5, pairs)
                self.assertEqual(self.events(trace.events(event(payload=b"abc")))[0]["fields"],
                                 {"…payload": "616263"})

    def test_places_outside_of_the_payload_are_no_values(self):
        for code in (v6.REL_LOC, v6.DATA_LOC):
            for place in ((0, 100), (100, 0), (65535, 65535)):
                with self.subTest(code=code, place=place):
                    trace = v6.Trace().threads(*SEQUENCE)
                    trace.define(1, "Shop", "loc", 5, (("a", (code, v6.U16)),))
                    row = self.events(trace.events(event(payload=struct.pack("<HH", *place))))[0]
                    self.assertEqual(row["fields"], {"…truncated": True})

    def test_a_file_cut_anywhere_gives_what_is_whole(self):
        trace = begin().events(*(event(ns=i, payload=b"abcd") for i in range(20)))
        data = trace.point([(9, 20)]).end()
        whole = data.index(b"abcd")
        for size in range(20, len(data), 7):
            with self.subTest(size=size):
                out, err = self.run_tool("report", self.write("t", data[:size]), "events",
                                         "--format=json", status=1)
                events = data[:size].count(b"abcd")
                self.assertEqual(len(out.splitlines()), events if size > whole else 0)
                self.assertTrue(err)


if __name__ == "__main__":
    unittest.main()
