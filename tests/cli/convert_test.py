#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe convert`: the oracle of oracle.py reads the same in both traces."""
import glob
import json
import os
import random
import signal
import struct
import subprocess
import unittest
import zipfile

import merge_test
import nettrace
import nettrace6 as v6
import oracle
from tool import ToolTest

GUID = bytes(range(16))
ADDED = ("ProcessTraced", "ThreadOfProcess", "ThreadName", "TraceKeyValue", "EventLabel")
RECORDINGS = sorted(glob.glob(os.path.join(os.environ.get("RINGPIPE_TEST_DATA", "/nonexistent"),
                                           "nettrace", "*.zip")))


def busy(version):
    """A trace with stacks, losses, several threads, processors and sequence points."""
    ns, orders = 0, 0
    if version == 4:
        trace = nettrace.Trace(ticks_per_second=10_000_000)
        trace.point({1 << 62: 1})
        trace.define(1, "Shop", "OrderPlaced", 5, [("id", 12), ("customer", 18)], keywords=6,
                     level=3, version=2)
        for turn in range(20):
            trace.stacks(1, [[turn + 1, 2, 3], [7]])
            for thread in (7, 8):
                trace.activity = GUID if turn % 2 else bytes(16)
                trace.events(1, [nettrace.order(orders + at, "Zoë €") for at in range(3)],
                             thread=thread, ns=ns, stack=turn % 3)
                orders, ns = orders + 3, ns + 100_000
            trace.sequence[7] += 2
            trace.point({7: trace.sequence[7], 8: trace.sequence[8],
                         1 << 62: 1 + turn * 5}, ns=ns)
        return trace.end()
    trace = v6.Trace(ticks_per_second=10_000_000)
    trace.threads({"index": 1, "thread": 7}, {"index": 2, "thread": 8}, {"index": 0})
    fields = (("id", v6.VARUINT), ("customer", (v6.ARRAY, v6.CHAR8)))
    trace.define(1, "Shop", "OrderPlaced", 5, fields,
                 b"\1\4\3" + struct.pack("<Q", 6) + b"\x08\3\x09\2")
    for turn in range(20):
        trace.stacks(1, [[turn + 1, 2, 3], [7]]).labels(1, [[(1, GUID), (2, GUID[::-1])]])
        rows = []
        for at in range(6):
            text = "Zoë €".encode()
            rows.append({"id": 1, "thread": 1 + at % 2, "capture": 0, "cpu": at % 2, "ns": ns,
                         "number": orders + 1 + 2 * turn, "stack": turn % 3, "labels": turn % 2,
                         "payload": v6.varuint(orders) + struct.pack("<H", len(text)) + text})
            orders, ns = orders + 1, ns + 1000
        trace.events(*rows)
        trace.point(((0, orders + 2 * turn + 2),), ns=ns)
    return trace.end()


def partly_sorted():
    """As .NET writes: the first event of a block is sorted."""
    trace = nettrace.Trace()
    trace.define(1, "Shop", "Order", 5, [])
    for start in (0, 3, 6):
        blobs = []
        for at in range(start, start + 3):
            blob = trace._blob(1, at + 1, 7, 1, trace.start_ticks + at, b"")
            unsorted = 1 << 31 if at > start else 0
            blobs.append(blob[:4] + struct.pack("<I", 1 | unsorted) + blob[8:])
        trace._block("EventBlock", blobs)
    return trace.end()


class Convert(ToolTest):
    def convert(self, data, *options, status=0):
        path = self.write("from.nettrace", data)
        self.errors = self.run_tool("convert", path, "-f", "-o", "to.nettrace", *options,
                                    status=status)[1]
        return self.read("to.nettrace")

    def compare(self, before, after, *without):
        """All events agree, except those that convert adds for what version 4 lacks."""
        one, two = oracle.Trace(before), oracle.Trace(after)
        self.assertTrue(two.ended)
        drop = {"sorted", *without}
        rows = [[{key: value for key, value in event.items() if key not in drop}
                 for event in trace.events
                 if event["provider"] != "ringpipe" or event["name"] not in ADDED]
                for trace in (one, two)]
        self.assertEqual(len(rows[0]), len(rows[1]))
        for ours, theirs in zip(*rows):
            self.assertEqual(ours, theirs)
        for name in ("lost", "utc", "sync", "rate", "pointer", "process", "processors", "sampling"):
            self.assertEqual(getattr(one, name), getattr(two, name), name)
        return one, two

    def test_both_versions_become_the_other_and_come_back(self):
        for version in (4, 6):
            with self.subTest(version=version):
                data = busy(version)
                there = self.convert(data)
                self.assertEqual(there[8:12] == bytes(4), version == 4)
                one, _ = self.compare(data, there)
                self.assertGreater(one.lost, 30)
                self.assertGreater(sum(bool(event["stack"]) for event in one.events), 50)
                back = self.convert(there)
                self.assertEqual(back[8:12] == bytes(4), version == 6)
                self.compare(data, back)
                self.assertEqual(len(oracle.Trace(back).events), len(one.events))

    def test_version_5_becomes_version_6_and_version_4(self):
        array = struct.pack("<II", 19, nettrace.U32)
        trace = nettrace.Trace(version=5)
        trace.define(1, "Shop", "Order", 5, [], tags=nettrace.opcode_tag(2) +
                     nettrace.fields_tag([("amounts", array)]))
        trace.events(1, [struct.pack("<H2I", 2, 10, 20)] * 3)
        data = trace.end()
        for options, is_v6 in ((), True), (("--format", 4), False), (("--format", 6), True):
            with self.subTest(options=options):
                there = self.convert(data, *options)
                self.assertEqual(there[8:12] == bytes(4), is_v6)
                _, two = self.compare(data, there)
                self.assertEqual([(event["opcode"], event["fields"]) for event in two.events],
                                 [(2, {"amounts": [10, 20]})] * 3)

    def test_the_same_version_is_written_again(self):
        for version in (4, 6):
            data = busy(version)
            again = self.convert(data, "--format", version)
            self.compare(data, again)
            self.assertEqual(self.convert(again, "--format", version), again)

    def test_the_compact_form_is_smaller_and_has_the_same_events(self):
        payload, _ = v6.all_fields_payload()
        every = v6.Trace().threads({"index": 1, "thread": 5}).define(
            1, "Shop", "all", 5, v6.ALL_FIELDS)
        every = every.events({"id": 1, "thread": 1, "capture": 1, "payload": payload}).end()
        for data, saved in (busy(4), 0.1), (busy(6), 0), (every, 0):
            compact = self.convert(data, "--compact")
            rows = [self.run_tool("report", name, "events", "--format", "csv")[0]
                    for name in ("from.nettrace", "to.nettrace")]
            self.assertEqual(*rows)
            plain = self.convert(data, "--format", "6")
            self.assertLessEqual(len(compact), (1 - saved) * len(plain))
            # It becomes the other form again.
            again = self.convert(self.convert(data, "--compact"), "--format", "4")
            self.compare(self.convert(data, "--format", "4"), again)

    def test_version_4_has_no_compact_form(self):
        path = self.write("from.nettrace", busy(6))
        errors = self.run_tool("convert", path, "-o", "to.nettrace", "--format", "4", "--compact",
                               status=2)[1]
        self.assertIn("version 4 has no compact form", errors)

    def test_the_compact_form_keeps_events_whose_layout_readers_know(self):
        text = [("text", 18)]
        trace = nettrace.Trace()
        providers = "Universal.System", "Microsoft-Runtime", "ringpipe", "Shop"
        for at, provider in enumerate(providers):
            trace.define(at + 1, provider, "event", 5, text)
            trace.events(at + 1, [nettrace.utf16z("text")], thread=7)
        self.convert(trace.end(), "--compact")
        counts = {provider["provider"]: provider["kinds"][0]["payload_bytes"]
                  for provider in json.loads(self.run_tool(
                      "report", "--all", "--format", "json", "to.nettrace")[0])["providers"]}
        self.assertEqual(counts, {"Universal.System": 10, "Microsoft-Runtime": 10,
                                  "ringpipe": 10, "Shop": 6})

    def test_report_says_the_same(self):
        for version in (4, 6):
            data = busy(version)
            self.convert(data)
            rows = [self.run_tool("report", name, "events", "--format", "csv")[0].splitlines()
                    for name in ("from.nettrace", "to.nettrace")]
            self.assertEqual(len(rows[0]), 121)
            self.assertEqual(rows[0], rows[1])

    def test_every_type_of_version_6_has_its_equal_in_version_4(self):
        payload, _ = v6.all_fields_payload()
        trace = v6.Trace().threads({"index": 1, "thread": 5}).define(
            1, "Shop", "all", 5, v6.ALL_FIELDS)
        data = trace.events({"id": 1, "thread": 1, "capture": 1, "payload": payload}).end()
        _, two = self.compare(data, self.convert(data))
        self.assertEqual(two.events[0]["fields"]["data"], "end")
        self.assertEqual(two.events[0]["fields"]["nested"], [[1, 2], []])
        self.compare(data, self.convert(data, "--format", 6))

    def test_a_text_with_a_nul_stays_whole(self):
        trace = v6.Trace().threads({"index": 1, "thread": 5})
        trace.define(1, "Shop", "text", 5, (("a", (v6.ARRAY, v6.CHAR8)), ("b", v6.U8)))
        data = trace.events({"id": 1, "thread": 1, "capture": 1,
                             "payload": struct.pack("<H", 3) + b"x\0y\7"}).end()
        event = oracle.Trace(self.convert(data)).events[0]
        self.assertEqual(event["fields"], {"a": "x\ufffdy", "b": 7})

    def test_a_payload_shorter_than_its_fields_stays_short(self):
        trace = v6.Trace().threads({"index": 1, "thread": 5})
        trace.define(1, "Shop", "short", 5, (("a", v6.VARUINT), ("b", v6.U64)))
        data = trace.events({"id": 1, "thread": 1, "capture": 1, "payload": b"\5\1"}).end()
        self.compare(data, self.convert(data))

    def test_what_version_4_lacks_becomes_events(self):
        trace = v6.Trace((("HardwareThreadCount", "4"), ("ProcessId", "77"), ("Host", "eu-1")))
        trace.threads({"index": 1, "process": 77, "thread": 501, "name": "main"},
                      {"index": 2, "process": 78, "thread": 601}, {"index": 9})
        trace.define(1, "Shop", "Order", 5)
        trace.define(2, "Universal.System", "ExistingProcess", 0)
        trace.labels(1, [[(5, v6.text("zone") + v6.text("eu")), (6, v6.text("n") + v6.varint(-5))],
                         [(7, b"\2"), (8, struct.pack("<Q", 9)), (9, b"\5"), (10, b"\7")],
                         [(3, b"T" * 16), (4, struct.pack("<Q", 0x99))]])
        rows = [{"id": 2, "thread": 2, "payload": v6.varuint(1) + struct.pack("<H", 4) + b"bank" +
                 b"\0\0"}, {"id": 1, "thread": 1, "labels": 1, "payload": b""},
                {"thread": 1, "labels": 2}, {"thread": 2, "labels": 3}]
        data = trace.events(*({"capture": 9, **row} for row in rows)).end()
        _, two = self.compare(data, self.convert(data), "process", "thread_name", "pairs", "trace",
                              "span")
        added = [(event["name"], event["thread"], event["fields"]) for event in two.events
                 if event["name"] in ADDED]
        self.assertEqual(added, [
            ("TraceKeyValue", 601, {"key": "Host", "value": "eu-1"}),
            ("ProcessTraced", 601, {"process_id": 78, "parent_id": 0, "name": "bank",
                                    "command_line": ""}),
            ("ThreadOfProcess", 601, {"thread": 601, "process_id": 78}),
            ("ThreadName", 501, {"thread": 501, "name": "main"}),
            ("EventLabel", 501, {"key": "zone", "value": "eu", "kind": 5}),
            ("EventLabel", 501, {"key": "n", "value": "-5", "kind": 6}),
            ("EventLabel", 601, {"key": "trace_id", "value": "54" * 16, "kind": 3}),
            ("EventLabel", 601, {"key": "span_id", "value": f"{0x99:016x}", "kind": 4})])
        order = [event for event in two.events if event["name"] == "Order"][1]
        self.assertEqual((order["opcode"], order["keywords"], order["level"], order["version"]),
                         (2, 9, 5, 7))
        # All of it comes back with version 6, and nothing is stated twice.
        for form in ["--format", "6"], ["--compact"]:
            back = self.convert(self.read("to.nettrace"), *form)
            one, again = oracle.Trace(data), oracle.Trace(back)
            self.assertEqual([{**event, "sorted": None} for event in again.events],
                             [{**event, "sorted": None} for event in one.events])
            self.assertEqual(sorted(again.pairs), sorted(one.pairs))
            self.write("to.nettrace", self.convert(back, "--format", "4"))
            self.assertEqual(len(oracle.Trace(self.read("to.nettrace")).events), len(two.events))

    def test_pairs_beyond_the_limit_of_4_MB_remain_events(self):
        trace = nettrace.Trace()
        trace.define(1, "ringpipe", "TraceKeyValue", 68, [("key", 18), ("value", 18)],
                     version=2)
        trace.define(2, "Shop", "Order", 5, [])
        pairs = [(f"key{i}", "v" * 30000) for i in range(200)]
        for at, pair in enumerate(pairs):
            trace.events(1, [b"".join(text.encode("utf-16-le") + bytes(2) for text in pair)],
                         thread=7, ns=at)
        trace.events(2, [b""], thread=7, ns=200)
        back = oracle.Trace(self.convert(trace.end(), "--format", "6"))
        stated = [(event["fields"]["key"], event["fields"]["value"]) for event in back.events
                  if event["name"] == "TraceKeyValue"]
        self.assertEqual([pair for pair in back.pairs if pair[0].startswith("key")] + stated, pairs)
        self.assertGreater(len(stated), 0)
        self.assertLess(len(stated), 100)

    def test_the_labels_of_an_omitted_event_of_version_4_go_with_it(self):
        trace = v6.Trace().threads({"index": 1, "thread": 5}, {"index": 0})
        for kind, name in enumerate(("A", "B"), 1):
            trace.define(kind, "Shop", name, kind)
        trace.labels(1, [[(5, v6.text("zone") + v6.text("eu"))], [(6, v6.text("n") + b"\3")]])
        data = trace.events(*({"id": kind, "thread": 1, "capture": 0, "number": at + 1, "ns": at,
                               "labels": labels}
                              for at, (kind, labels) in enumerate(((1, 1), (2, 0), (2, 2), (1, 1)))
                              )).end()
        four = self.convert(data, "--format", "4")
        for where, name in ("event == 'A'", "A"), ("event == 'B'", "B"):
            filtered = self.convert(four, "--format", "4", "--where", where)
            back = oracle.Trace(self.convert(filtered, "--format", "6"))
            self.assertEqual([{**event, "sorted": None} for event in back.events],
                             [{**event, "sorted": None} for event in oracle.Trace(data).events
                              if event["name"] == name])
        self.assertEqual(oracle.Trace(self.convert(four, "--format", "4")).events,
                         oracle.Trace(four).events)

    def test_labels_of_one_event_beyond_4_mb_are_counted(self):
        trace = v6.Trace().threads({"index": 1, "thread": 5}, {"index": 0})
        for kind, name in enumerate(("A", "B"), 1):
            trace.define(kind, "Shop", name, kind)
        trace.labels(1, [[(5, v6.text(f"key{at}") + v6.text("x" * 1000000)) for at in range(6)],
                         [(5, v6.text("zone") + v6.text("eu"))]])
        self.write("four", self.convert(trace.events(*(
            {"id": kind, "thread": 1, "capture": 0, "number": kind, "ns": kind, "labels": kind}
            for kind in (1, 2))).end(), "--format", "4"))
        # Characters have one byte in version 6, and two in version 4.
        for version, kept in ("6", 4), ("4", 3):
            data = self.convert(self.read("four"), "--format", version, status=1)
            self.assertRegex(self.errors, f": {6 - kept} labels missing:")
            back = oracle.Trace(self.convert(data, "--format", "6"))
            self.assertEqual([len(event["pairs"]) for event in back.events], [kept, 1])
        # Labels of an omitted event are not missing.
        self.convert(self.read("four"), "--format", "6", "--where", "event == 'B'")

    def test_a_merged_trace_comes_back_from_version_4(self):
        paths = [self.write(name, trace.end()) for name, trace in
                 (("a", merge_test.one()), ("b", merge_test.two()))]
        self.run_tool("merge", *paths, "-o", "merged")
        data = self.read("merged")
        back = self.convert(self.convert(data, "--format", "4"), "--format", "6")
        one, two = oracle.Trace(data), oracle.Trace(back)
        self.assertEqual([{**event, "sorted": None} for event in two.events],
                         [{**event, "sorted": None} for event in one.events])

    def test_version_6_keeps_labels_and_rows(self):
        trace = v6.Trace((("HardwareThreadCount", "4"), ("Host", "eu-1"))).threads(
            {"index": 1, "process": 77, "thread": 501, "name": "main"}, {"index": 9})
        trace.define(1, "Shop", "Order", 5, (), b"\4" + v6.text("took {ms}") + b"\7" + GUID)
        trace.labels(1, [[(1, GUID), (3, b"T" * 16), (4, struct.pack("<Q", 9)),
                          (5, v6.text("zone") + v6.text("eu")), (7, b"\2")]])
        data = trace.events({"id": 1, "thread": 1, "capture": 9, "labels": 1}).end()
        one, two = self.compare(data, self.convert(data, "--format", 6))
        self.assertEqual(one.pairs, two.pairs)
        self.assertEqual(*(next(iter(trace.types.values())) for trace in (one, two)))

    def test_unsorted_threads_keep_their_order(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "Order", 5, [])
        for thread in (7, 8):
            blobs = []
            for at in range(4):
                trace.sequence[thread] = at + 1
                blob = trace._blob(1, at + 1, thread, 1, trace.start_ticks + at * 10, b"")
                blobs.append(blob[:4] + struct.pack("<I", 1 | 1 << 31) + blob[8:])
            trace._block("EventBlock", blobs)
        data = trace.end()
        _, two = self.compare(data, self.convert(data))
        self.assertFalse(any(event["sorted"] for event in two.events))
        self.compare(data, self.convert(self.read("to.nettrace")))

    def test_sorted_and_unsorted_events_of_a_block_have_numbers_of_their_own(self):
        data = partly_sorted()
        there = self.convert(data)
        one, _ = self.compare(data, there)
        self.assertEqual([event["sorted"] for event in one.events], 3 * [True, False, False])
        self.compare(data, self.convert(there))

    def test_what_came_before_a_damage_is_complete(self):
        for version in (4, 6):
            data = busy(version)
            for cut in (len(data) // 2, len(data) - 1):
                after = self.convert(data[:cut], status=1)
                self.assertIn("stops before its end", self.errors)
                self.assertIn("to.nettrace has the events before that", self.errors)
                trace = oracle.Trace(after)
                self.assertTrue(trace.ended)
                self.assertGreaterEqual(len(trace.events), cut * 100 // len(data))
            at = data.rindex(b"EventBlock") + 40 if version == 4 else len(data) - 3
            damaged = data[:at] + b"\xff" * (len(data) - at)
            self.assertTrue(oracle.Trace(self.convert(damaged, status=1)).ended)
            self.assertIn("the trace", self.errors)

    def test_no_damage_crashes_it(self):
        choose = random.Random(5)
        for version in (4, 6):
            data = busy(version)
            for _ in range(40):
                bad = bytearray(data)
                for _ in range(choose.randrange(1, 5)):
                    bad[choose.randrange(len(bad))] = choose.randrange(256)
                path = self.write("bad", bytes(bad))
                process = self.start("convert", path, "-q", "-f", "-o", "to.nettrace")
                process.communicate(timeout=60)
                self.assertIn(process.returncode, (0, 1))
                if process.returncode == 0:
                    self.run_tool("report", "to.nettrace")

    def test_standard_input_and_output(self):
        data = busy(4)
        self.run_tool("convert", "-", "-o", "{pid}.nettrace", data=data)
        self.compare(data, self.read("4242.nettrace"))
        process = self.start("convert", "-", "-o", "-", stdin=subprocess.PIPE)
        out, err = process.communicate(data, timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.compare(data, out)

    def test_ctrl_c_leaves_a_complete_trace(self):
        data = busy(4)
        process = self.start("convert", "-", "-o", "to.nettrace", stdin=subprocess.PIPE)
        process.stdin.write(data[:-100])
        process.stdin.flush()
        self.wait_until(lambda: os.path.exists(self.path("to.nettrace")))
        process.send_signal(signal.SIGINT)
        self.assertIn("stopped; to.nettrace has the events up to then",
                      self.finish(process, 130)[1])
        self.assertTrue(oracle.Trace(self.read("to.nettrace")).ended)

    def test_a_full_disk_leaves_no_file(self):
        path = self.write("from.nettrace", busy(4))
        process = subprocess.run(
            ["bash", "-c", 'ulimit -f 4; exec "$0" "$@"', os.environ["RINGPIPE"], "convert", path,
             "-o", "to.nettrace"], env=self.environment, cwd=self.directory,
            stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual((process.returncode, process.stderr),
                         (1, b"ringpipe: cannot write to.nettrace: File too large\n"))
        self.assertFalse(os.path.exists(self.path("to.nettrace")))
        err = self.run_tool("convert", path, "-o", "/dev/full", status=1)[1]
        self.assertIn("cannot write /dev/full: No space left on device", err)

    def test_a_trace_of_several_processes_keeps_them(self):
        for version in (4, 6):
            self.run_tool("collect", "--tree", "--format", version, "-f", "-o", "tree", "--stacks",
                          "--", os.environ["FORKS"], "exit", 3, 50)
            names = ["tree", "there", "back"]
            for before, after in zip(names, names[1:]):
                self.run_tool("convert", "-f", "-o", after, before)
            lines = [[line for line in self.run_tool("report", name)[0].splitlines()
                      if " forks (of " in line or line.startswith(("Lost", "Process"))]
                     for name in names]
            self.assertGreater(len(lines[0]), 6)
            self.assertEqual(lines[1], lines[0])
            self.assertEqual(lines[2], lines[0])

    def test_wrong_usage(self):
        path = self.write("t", busy(4))
        self.assertIn("requires -o FILE", self.run_tool("convert", path, status=2)[1])
        self.assertIn("--format requires 4|6, not '5'",
                      self.run_tool("convert", path, "-o", "x", "--format", "5", status=2)[1])
        self.assertIn("is a trace to read",
                      self.run_tool("convert", path, "-f", "-o", path, status=1)[1])
        self.assertEqual(self.read("t"), busy(4))
        self.assertIn("exists already", self.run_tool("convert", path, "-o", path, status=1)[1])
        self.write("no", b"no trace")
        self.assertIn("not a nettrace file",
                      self.run_tool("convert", "no", "-o", "x", status=1)[1])
        self.assertFalse(os.path.exists(self.path("x")))

    def test_memory_does_not_grow_with_the_trace(self):
        trace = v6.Trace().threads({"index": 1, "thread": 5}).define(1, "Shop", "Blob", 5)
        start, peaks = len(trace.bytes), []
        for megabytes in (8, 64):
            process = self.start("convert", "-", "-q", "-f", "-o", "to.nettrace",
                                 stdin=subprocess.PIPE)
            process.stdin.write(trace.bytes[:start])
            for at in range(megabytes * 16):
                trace.bytes = b""
                trace.events({"id": 1, "thread": 1, "capture": 1, "number": at + 1, "ns": at,
                              "payload": bytes(65000)}).point(((1, at + 1),), ns=at)
                process.stdin.write(trace.bytes)
            process.stdin.write(bytes(4))
            process.stdin.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            self.assertGreater(os.stat(self.path("to.nettrace")).st_size, megabytes * 1_000_000)
            peaks.append(usage.ru_maxrss)
            trace = v6.Trace().threads({"index": 1, "thread": 5}).define(1, "Shop", "Blob", 5)
        # A sanitizer keeps some memory of its own, but less than the 56 MB more of the trace.
        self.assertLess(peaks[1], peaks[0] + 16384)

    @unittest.skipUnless(RECORDINGS, "RINGPIPE_TEST_DATA has no recordings")
    def test_recordings_of_dotnet(self):
        events = 0
        for path in RECORDINGS:
            with self.subTest(path=path), zipfile.ZipFile(path) as archive:
                data = archive.read(archive.namelist()[0])
                one, _ = self.compare(data, self.convert(data))
                events += len(one.events)
                self.compare(data, self.convert(self.read("to.nettrace")))
        self.assertGreater(events, 100)


if __name__ == "__main__":
    unittest.main()
