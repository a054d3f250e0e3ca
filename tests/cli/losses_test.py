#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe report FILE losses, on traces whose losses are known."""
import csv
import io
import json
import unittest

import nettrace
import oracle
from nettrace import STRING, U32, U64
from tool import ToolTest

ORDER, LOST = 1, 2
RING = 1 << 63
NO_RING = 2**32 - 1


class Losses(ToolTest):
    def trace(self):
        trace = nettrace.Trace().point({RING: 1})
        trace.define(ORDER, "Shop", "OrderPlaced", 5, [("order_id", U64), ("customer", STRING)])
        return trace.define(LOST, "ringpipe", "EventsLost", 1,
                            [("ring", U32), ("reason", STRING), ("count", U64)])

    def report(self, trace):
        return json.loads(self.run_tool("report", self.write("t", trace.end()), "losses",
                                        "--format=json")[0])

    def test_each_loss_has_its_reason_and_lies_after_the_sequence_point_before(self):
        trace, lost = self.trace(), 1
        for ms, losses in [(1, []), (2, [(0, "full", 9), (3, "busy", 2)]), (3, []),
                           (4, [(NO_RING, "too-big", 1)])]:
            trace.events(ORDER, [nettrace.order(ms, "Zoe")], ns=1_000_000 * ms)
            for row in losses:
                trace.events(LOST, [nettrace.lost(*row)], thread=8, ns=1_000_000 * ms)
                lost += row[2]
            trace.point({RING: lost, 7: trace.sequence[7], 8: trace.sequence.get(8, 0)},
                        ns=1_000_000 * ms)
        rows = self.report(trace)
        self.assertEqual([(row["after_ns"], row["reported_ns"], row["ring"], row["reason"],
                           row["lost"]) for row in rows],
                         [(1_000_000, 2_000_000, 0, "full", 9),
                          (1_000_000, 2_000_000, 3, "busy", 2),
                          (3_000_000, 4_000_000, None, "too-big", 1)])
        self.assertEqual({row["process_id"] for row in rows}, {4242})
        path = self.path("t")
        table = csv.DictReader(io.StringIO(self.run_tool("report", path, "losses",
                                                         "--format=csv")[0]))
        self.assertEqual([int(row["lost"]) for row in table], [9, 2, 1])
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])["lost_by"]
        self.assertEqual([(row["ring"], row["lost"]) for row in summary],
                         [(0, 9), (3, 2), (None, 1)])
        self.assertIn("           1: too-big\n", self.run_tool("report", path)[0])
        text = self.run_tool("report", path, "losses")[0]
        self.assertIn("In all, 12 events lost.", text)
        self.assertNotIn("Gaps", text)

    def test_an_expression_selects_losses(self):
        trace = self.trace()
        for row in (0, "full", 9), (3, "busy", 2), (NO_RING, "too-big", 1):
            trace.events(LOST, [nettrace.lost(*row)], thread=8, ns=1_000_000 * (row[0] % 9 + 1))
        trace.sequence[8] += 5
        trace.events(ORDER, [nettrace.order(1, "Zoe")], thread=8, ns=9_000_000)
        path = self.write("t", trace.end())
        for where, lost in (("reason == 'full'", [9]), ("count < 9 and ring < 9", [2]),
                            ("time > 1ms and process == 4242", [2, 1]), ("count > 9", [])):
            rows = json.loads(self.run_tool("report", path, "losses", "--where", where,
                                            "--format=json")[0])
            self.assertEqual([row["lost"] for row in rows], lost, where)
        out = self.run_tool("report", path, "losses", "--where", "count < 9")[0]
        self.assertIn("In all, 3 events lost.", out)
        self.assertNotIn("Gaps", out)
        self.assertEqual(self.run_tool("report", path, "losses", "--where", "count > 9")[0],
                         "No loss fulfils the expression.\n")

    def test_losses_that_only_the_numbers_show_are_counted(self):
        trace = self.trace()
        trace.events(ORDER, [nettrace.order(1, "Zoe")])
        trace.sequence[7] += 5
        trace.events(ORDER, [nettrace.order(2, "Zoe")], ns=2_000_000)
        path = self.write("t", trace.end())
        self.assertEqual(json.loads(self.run_tool("report", path, "losses", "--format=json")[0]),
                         [])
        self.assertIn("show 5 lost events; the trace has no reason for 5 of them",
                      self.run_tool("report", path, "losses")[0])

    def test_losses_of_the_recorder_of_the_machine_have_its_reasons(self):
        trace = self.trace()
        trace.define(3, "Ringpipe-Machine", "Loss", 7, [("reason", STRING), ("lost", U64)])
        trace.events(3, [nettrace.utf16z("ring of BPF programs full") +
                         (77).to_bytes(8, "little")])
        row, = self.report(trace)
        self.assertEqual((row["reason"], row["lost"], row["ring"], row["after_ns"]),
                         ("ring of BPF programs full", 77, None, 0))

    def test_a_trace_without_losses_says_so(self):
        path = self.write("t", nettrace.sample())
        self.assertEqual(self.run_tool("report", path, "losses")[0], "Nothing is lost.\n")

    def damaged(self):
        """A trace of 3 blocks with 2 events each, the second damaged, and the block's offset."""
        trace = self.trace()
        for block in range(3):
            begin = len(trace.bytes)
            trace.events(ORDER, [nettrace.order(2 * block + i, "Zoe") for i in range(2)],
                         ns=1_000_000 * (block + 1))
            offset = begin if block == 1 else offset if block else 0
        data = bytearray(trace.end())
        data[offset + 50:offset + 62] = b"\xff" * 12
        return self.write("damaged", bytes(data)), offset

    def test_damaged_parts_are_listed_with_their_offsets_and_the_events_lost_to_them(self):
        path, offset = self.damaged()
        out, err = self.run_tool("report", path, "losses", status=1)
        self.assertIn(f"At offset {offset}, ", out)
        self.assertIn("The damage lost 2 events.", out)
        self.assertRegex(err, f"the trace is damaged at offset {offset}: .*; .* bytes damaged, "
                              "and 2 events lost to it; the report has the other events")
        row, = json.loads(self.run_tool("report", path, "losses", "--format=json", status=1)[0])
        self.assertEqual((row["damage_offset"], row["lost"], row["ring"]), (offset, None, None))
        self.assertGreater(row["damaged_bytes"], 100)

    def test_reports_and_conversions_have_the_events_after_damage_and_fail(self):
        path, offset = self.damaged()
        rows = self.run_tool("report", path, "events", "--format=json", status=1)[0]
        numbers = [json.loads(row)["fields"]["order_id"] for row in rows.splitlines()]
        self.assertEqual(numbers, [0, 1, 4, 5])
        summary = json.loads(self.run_tool("report", path, "--format=json", status=1)[0])
        self.assertIn(f"damaged at offset {offset}", summary["error"])
        new = self.write("new", b"")
        for options in ([], ["--to=csv"]):
            err = self.run_tool("convert", path, "--force", "-o", new, *options, status=1)[1]
            self.assertIn("has the other events", err)

    def test_conversions_count_the_events_lost_to_damage(self):
        path, _ = self.damaged()
        for version in ("4", "6"):
            for where, lost in (([], 2), (["--where", "order_id >= 4"], 2)):
                with self.subTest(version=version, where=where):
                    new = self.path("new")
                    err = self.run_tool("convert", path, "--force", "-o", new, "--format", version,
                                        *where, status=1)[1]
                    self.assertIn(f", {lost} lost, ", err)
                    whole = json.loads(self.run_tool("report", new, "--format=json")[0])
                    self.assertEqual((whole["lost"], whole["error"]), (lost, None))
                    self.assertEqual(oracle.Trace(self.read("new")).lost, lost)

    def test_a_payload_that_is_cut_is_no_loss(self):
        trace = self.trace()
        trace.events(LOST, [nettrace.lost(0, "full", 9)[:n] for n in range(20)], thread=8)
        self.assertEqual(self.report(trace), [])


if __name__ == "__main__":
    unittest.main()
