#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report`, on handmade traces: complete, cut and damaged."""
import csv
import io
import json
import os
import re
import select
import struct
import subprocess
import unittest

import nettrace
from tool import PATIENCE, TOOL, ToolTest


CUSTOMER = 'a "b", c\x1b'
CUT = 0xc07  # the last frame of a stack that was cut


class Report(ToolTest):
    def test_the_summary_is_as_expected(self):
        path = self.write("shop.nettrace", nettrace.sample(orders=2000, losses=True))
        out, err = self.run_tool("report", os.path.basename(path))
        size = f"{os.path.getsize(path) / 1000:.1f} kB"
        self.assertEqual(err, "")
        self.assertEqual(out.splitlines(), [
            f"File       shop.nettrace, {size}",
            "Process    4242 on 2 processors",
            "Started    2026-11-21 01:02:03.004 UTC",
            "Duration   0.003 s",
            "Events     2,003, 667,222 a second",
            "Lost       12",
            "           10 in ring 0: full",
            "           2 in ring 3: busy",
            "Threads    1",
            "Stacks     0",
            "Complete   yes",
            "",
            "EVENTS  A SECOND  PAYLOAD  PROVIDER / EVENT",
            " 2,000   666,223  32.0 kB  Shop",
            " 2,000   666,223  32.0 kB    OrderPlaced (5)",
            "     3       999     66 B  ringpipe",
            "     3       999     66 B    EventsLost (1)",
        ])

    def test_each_reason_of_losses_has_one_row_whatever_the_number_of_rings(self):
        trace = nettrace.Trace()
        trace.define(1, "ringpipe", "EventsLost", 1, [
            ("ring", nettrace.U32), ("reason", nettrace.STRING), ("count", nettrace.U64)])
        trace.events(1, [nettrace.lost(ring, reason, count) for reason, losses in (
            ("busy", [(7, 3)]), ("full", [(ring, 1 + ring % 50) for ring in range(60)]))
            for ring, count in losses])
        path = self.write("t", trace.end())
        lines = self.run_tool("report", path)[0].splitlines()
        at = [line.startswith("Lost ") for line in lines].index(True)
        self.assertEqual(lines[at + 1:at + 3], [
            "           1,330 in 60 rings, 50 of them in ring 49: full",
            "           3 in ring 7: busy"])
        self.assertTrue(lines[at + 3].startswith("Threads"), lines)
        self.assertEqual(len(json.loads(self.run_tool("report", path, "--format=json")[0])[
            "lost_by"]), 61)

    def test_json_has_the_same_values(self):
        path = self.write("t", nettrace.sample(losses=True))
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertEqual(summary["lost_by"], [{"ring": 0, "reason": "full", "lost": 10},
                                              {"ring": 3, "reason": "busy", "lost": 2}])
        self.assertEqual([summary[key] for key in
                          ["events", "lost", "threads", "complete", "error", "process_id",
                           "start_utc", "bytes", "stacks", "unordered"]],
                         [6, 12, 1, True, None, 4242, "2026-11-21T01:02:03.004000000Z",
                          os.path.getsize(path), 0, 0])
        shop = [each for each in summary["providers"] if each["provider"] == "Shop"][0]
        self.assertEqual(shop["events"], 3)
        self.assertEqual(shop["kinds"][0]["event"], "OrderPlaced")
        self.assertEqual(shop["kinds"][0]["keywords"], 1)

    def test_events_are_lines_of_json(self):
        path = self.write("t", nettrace.sample(orders=2))
        lines = [json.loads(line) for line in
                 self.run_tool("report", path, "events", "--format=json")[0].splitlines()]
        self.assertEqual(lines, [
            {"time_ns": 1000000 + i * 1000,
             "time_utc": f"2026-11-21T01:02:03.00500{i}000Z", "thread_id": 7,
             "processor": 1, "provider": "Shop", "event": "OrderPlaced", "id": 5,
             "fields": {"order_id": i, "customer": "Zoë"}}
            for i in range(2)])

    def test_threads_are_those_of_the_program(self):
        """The drain thread, which writes about the session, does not count; each other thread
        counts once."""
        trace = nettrace.Trace().define(1, "Shop", "tick", 1, [])
        trace.define(2, "ringpipe", "RundownDone", 3, [])
        trace.define(3, "Universal.System", "ExistingProcess", 0, [])
        for thread in (7, 9, 7, 8, 7):
            trace.events(1, [b""], thread=thread)
        path = self.write("t", trace.events(2, [b""], thread=10).events(3, [b""], 11).end())
        self.assertIn("Threads    3\n", self.run_tool("report", path)[0])
        self.assertEqual(json.loads(self.run_tool("report", path, "--format=json")[0])["threads"],
                         3)

    def test_events_of_a_live_stream_are_printed_before_its_end(self):
        process = self.start("report", "-", "events", "--format=json", stdin=subprocess.PIPE)
        process.stdin.write(nettrace.sample(orders=1)[:-1])
        process.stdin.flush()
        # Nothing more arrives until then.
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        self.assertTrue(ready, "the event waits for the next ones")
        self.assertEqual(json.loads(process.stdout.readline())["fields"]["order_id"], 0)
        process.stdin.write(b"\1")
        process.stdin.close()
        process.stdin = None
        self.finish(process, 0)

    def test_a_file_that_grows_is_read_up_to_its_size_at_the_start(self):
        orders = [nettrace.order(i, "Ann") for i in range(40000)]
        def define():
            return nettrace.Trace().define(1, "Shop", "OrderPlaced", 5,
                                           [("order_id", nettrace.U64),
                                            ("customer", nettrace.STRING)])
        data = define().events(1, orders).end()[:-1]
        path = self.write("t", data)
        process = self.start("report", path, "events", "--format=json")
        # The pipe is full long before the command reaches the end of the file.
        lines = [process.stdout.readline()]
        with open(path, "ab") as file:
            file.write(define().events(1, orders).events(1, orders, ns=10 ** 9).end()[len(data):])
        lines += process.stdout.readlines()
        self.finish(process, 1)
        self.assertEqual(json.loads(lines[-1])["fields"]["order_id"], len(orders) - 1)
        self.assertEqual(len(lines), len(orders))

    def test_cut_stacks_are_counted(self):
        trace = nettrace.Trace().define(1, "ringpipe", "StacksCut", 8, [("rules", nettrace.U64)])
        trace.define(2, "Shop", "tick", 1, []).stacks(1, [[4096]])
        trace.events(2, [b"", b"", b"", b""], stack=1)
        path = self.write("t", trace.events(1, [struct.pack("<Q", 1), struct.pack("<Q", 2)]).end())
        self.assertIn("Stacks     4, some may be cut: 3 unwind rules not cached yet\n",
                      self.run_tool("report", path)[0])
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertEqual(summary["unwind_rules_missing"], 3)

    def test_what_limits_skip_is_counted(self):
        fields = [("provider", nettrace.STRING), ("event", nettrace.STRING)]
        fields.append(("count", nettrace.U64))
        trace = nettrace.Trace().define(1, "ringpipe", "EventsSkipped", 9, fields)
        names = "Shop\0tick\0".encode("utf-16-le")
        trace.events(1, [names + struct.pack("<Q", 1000), names + struct.pack("<Q", 234)])
        path = self.write("t", trace.end())
        self.assertIn("Skipped    1,234, by the events' limits\n", self.run_tool("report", path)[0])
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertEqual(summary["skipped"], 1234)

    def test_stacks_that_end_by_the_mark_are_counted(self):
        trace = nettrace.Trace().define(1, "ringpipe", "StacksCut", 8, [("rules", nettrace.U64)])
        trace.define(2, "Shop", "tick", 1, []).stacks(1, [[4096], [4096, CUT], [CUT, 4096]])
        trace.events(2, [b"", b""], stack=1).events(2, [b"", b"", b""], stack=2)
        trace.events(2, [b""], stack=3)
        path = self.write("t", trace.events(1, [struct.pack("<Q", 7)]).end())
        self.assertIn("Stacks     6, 3 of them cut: 7 unwind rules not cached yet\n",
                      self.run_tool("report", path)[0])
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertEqual((summary["stacks"], summary["stacks_cut"]), (6, 3))

    def trace_with_dotnets_names(self):
        fields = [("order_id", nettrace.U64), ("customer", nettrace.STRING)]
        trace = nettrace.Trace().define(1, "Shop", "OrderPlaced", 5, fields)
        trace.define(2, "Shop", "EventCounters", 65533, [])
        trace.define(3, "Microsoft-DotNETCore-EventPipe", "ProcessInfo", 1, [])
        trace.events(1, [nettrace.order(0, CUSTOMER)])
        return self.write("t", trace.events(2, [b"", b""]).events(3, [b""]).end())

    def test_what_only_dotnets_tools_read_appears_on_request(self):
        path = self.trace_with_dotnets_names()
        for arguments in ([], ["events", "--format", "text"], ["events", "--format=csv"]):
            out = self.run_tool("report", path, *arguments)[0]
            self.assertIn("OrderPlaced", out)
            self.assertNotIn("EventCounters", out)
            self.assertNotIn("EventPipe", out)
            out = self.run_tool("report", path, "--all", *arguments)[0]
            self.assertIn("EventCounters", out)
            self.assertIn("Microsoft-DotNETCore-EventPipe", out)
        out = self.run_tool("report", path)[0]
        self.assertIn("Events     4", out)
        self.assertRegex(out, r"\n +1 +[0-9,.]+ +[0-9]+ B  Shop\n")
        self.assertTrue(out.endswith("\n3 events for .NET's tools are not shown; "
                                     "--all shows them.\n"), out)

    def test_events_are_lines_of_text(self):
        path = self.write("t", nettrace.sample(orders=2))
        self.assertEqual(
            self.run_tool("report", path, "events", "--format", "text")[0].splitlines(),
            [f"2026-11-21T01:02:03.00500{i}000Z  7  Shop/OrderPlaced  "
             f'{{"order_id":{i},"customer":"Zoë"}}' for i in range(2)])

    def test_events_are_rows_of_csv(self):
        path = self.trace_with_dotnets_names()
        out = self.run_tool("report", path, "events", "--format=csv")[0]
        row, = csv.DictReader(io.StringIO(out))
        self.assertEqual(json.loads(row.pop("fields")), {"order_id": 0, "customer": CUSTOMER})
        self.assertEqual(row, {
            "time_utc": "2026-11-21T01:02:03.005000000Z", "time_ns": "1000000",
            "process_id": "4242", "thread_id": "7", "processor": "1",
            "provider": "Shop", "event": "OrderPlaced", "id": "5",
            "activity": "", "related_activity": "", "stack": ""})

    def test_top_leaves_the_rare_ones_out(self):
        path = self.write("t", nettrace.sample(orders=5, losses=True))
        out, _ = self.run_tool("report", path, "--top", "1")
        self.assertIn("OrderPlaced", out)
        self.assertNotIn("EventsLost", out)
        self.assertIn("Not shown: 1 more kind of less frequent events.", out)

    def test_standard_input_is_read(self):
        out, _ = self.run_tool("report", "-", data=nettrace.sample())
        self.assertIn("File       standard input", out)
        self.assertIn("Complete   yes", out)

    def test_a_trace_cut_anywhere_is_reported_and_summed_up(self):
        data = nettrace.sample(losses=True)
        for size in range(0, len(data), 5):
            with self.subTest(size=size):
                out, err = self.run_tool("report", "-", status=1, data=data[:size])
                if out:
                    self.assertIn("Complete   no: the trace stops before its end", out)
                    self.assertRegex(err, r": the trace stops before its end at offset \d+; the")
                else:
                    self.assertIn("not a nettrace file", err)

    def test_a_cut_trace_gives_its_whole_events(self):
        data = nettrace.sample()[:-1]
        path = self.write("t", data)
        summary = json.loads(self.run_tool("report", path, "--format=json", status=1)[0])
        self.assertEqual((summary["events"], summary["complete"]), (3, False))
        self.assertIn("stops before its end", summary["error"])
        out, err = self.run_tool("report", path, "events", "--format=json", status=1)
        self.assertEqual(len(out.splitlines()), 3)
        self.assertIn("stops before its end", err)

    def test_each_activity_is_counted_once(self):
        trace = nettrace.Trace().define(1, "Shop", "step", 1, [])
        for activity in (1, 1, 0, 2, 1):
            trace.activity = activity.to_bytes(16, "big")
            trace.events(1, [b"", b""])
        path = self.write("t", trace.end())
        self.assertEqual(json.loads(self.run_tool("report", path,
                                                  "--format=json")[0])["activities"], 2)
        self.assertIn("\nActivities 2\n", self.run_tool("report", path)[0])

    def test_two_versions_of_an_id_are_shown_apart(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "sold", 7, []).define(2, "Shop", "sold", 7, [], version=2)
        trace.define(3, "Shop", "returned", 8, [], version=2)
        path = self.write("t", trace.events(1, [b""]).events(2, [b""]).events(3, [b""]).end())
        out, _ = self.run_tool("report", path)
        for name in ("sold (7, version 0)", "sold (7, version 2)", "returned (8)"):
            self.assertRegex(out, rf"(?m) {re.escape(name)}$")

    def test_events_of_the_dotnet_runtime_have_their_names(self):
        runtime, trace = "Microsoft-Windows-DotNETRuntime", nettrace.Trace()
        trace.define(1, runtime, "", 1, [], version=2).define(2, runtime, "", 81, [])
        trace.define(3, runtime, "", 81, [], version=1).define(4, runtime, "Given", 2, [])
        trace.define(5, runtime, "", 65000, []).define(6, "Shop", "", 1, [])
        for kind in range(1, 7):
            trace.events(kind, [b""], ns=kind * 10000)
        path = self.write("t", trace.end())
        out, _ = self.run_tool("report", path)
        for name in ("GCStart (1)", "Contention (81, version 0)", "ContentionStart (81, version 1)",
                     "Given (2)", " (65000)", " (1)"):
            self.assertRegex(out, rf"(?m) {re.escape(name)}$")
        rows = map(json.loads, self.run_tool("report", path, "events",
                                             "--format=json")[0].splitlines())
        self.assertEqual([row["event"] for row in rows],
                         ["GCStart", "Contention", "ContentionStart", "Given", "", ""])

    def test_versions_that_cannot_be_read_are_reported(self):
        trace, header = nettrace.sample(), b"Nettrace" + struct.pack("<I", 0)
        at = trace.index(b"\5\5\1") + 3
        block_at = trace.index(b"\5\5\1", at) + 3

        def changed(begin, *versions):
            """Changes these versions in all objects that have the ones at `begin`."""
            return trace.replace(trace[begin - 3:begin + 8],
                                 b"\5\5\1" + struct.pack("<2I", *versions))

        # A version of the format, then versions of an object, then those of the reader it needs.
        for data, said in (
                (header + struct.pack("<2I", 7, 0) + bytes(100),
                 "nettrace version 7, while versions 4 to 6 alone can be read, at offset 12"),
                (header + struct.pack("<2I", 5, 0) + bytes(100),
                 "version 5 in a file header of version 6 or later, at offset 12"),
                (changed(at, 6, 6),
                 f"a Trace object of version 6, while versions 4 to 5 can be read, at offset {at}"),
                (changed(at, 3, 3),
                 f"a Trace object of version 3, while versions 4 to 5 can be read, at offset {at}"),
                (changed(at, 4, 6), "a Trace object that needs a reader of version 6, while this "
                                    f"one has version 5, at offset {at + 4}"),
                (changed(block_at, 3, 3), "a block of version 3, while versions 0 to 2 can be "
                                          f"read, at offset {block_at}"),
                (changed(block_at, 2, 3), "a block that needs a reader of version 3, while this "
                                          f"one has version 2, at offset {block_at + 4}")):
            with self.subTest(said=said):
                self.assertIn(said, self.run_tool("report", self.write("t", data), status=1)[1])

    def test_version_5_and_its_tags_are_read(self):
        types = struct.pack("<II", 19, nettrace.U32)
        trace = nettrace.Trace(version=5)
        trace.define(1, "Shop", "Order", 5, [], tags=nettrace.opcode_tag(1) +
                     nettrace.fields_tag([("amounts", types)]))
        trace.events(1, [struct.pack("<H3I", 3, 10, 20, 30)])
        path = self.write("t", trace.end())
        row = json.loads(self.run_tool("report", path, "events", "--format=json")[0])
        self.assertEqual(row["fields"], {"amounts": [10, 20, 30]})

    def test_other_files_are_refused(self):
        for data in [b"", b"Nettrace", b"Nettrice" + b"\0" * 100, bytes(range(256)) * 40]:
            with self.subTest(data=data[:16]):
                self.assertIn("not a nettrace file",
                              self.run_tool("report", self.write("t", data), status=1)[1])
        self.assertIn("No such file", self.run_tool("report", "not-there", status=1)[1])
        self.assertIn("Is a directory", self.run_tool("report", ".", status=1)[1])

    def test_a_damaged_byte_never_kills_it(self):
        data = bytearray(nettrace.sample(losses=True))
        for at in range(60, len(data), 11):
            for value in [0, 0x7f, 0xff]:
                damaged = bytearray(data)
                damaged[at] = value
                process = subprocess.run([TOOL, "report", "--format=json", "-"],
                                         input=bytes(damaged),
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         check=False, timeout=PATIENCE)
                self.assertIn(process.returncode, (0, 1), (at, value, process.stderr))


if __name__ == "__main__":
    unittest.main()
