#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE counters`, on handmade traces: EventCounters and instruments."""
import csv
import io
import json
import math
import struct
import unittest

import nettrace
import nettrace6 as v6
from nettrace import utf16z
from tool import ToolTest

METRICS = "System.Diagnostics.Metrics"
DOUBLE, FLOAT, INT32, TEXT = 14, 13, 9, nettrace.STRING
COUNTER = [(name, TEXT) for name in ("Name", "DisplayName", "DisplayUnits")]
COUNTER += [("Mean", DOUBLE), ("Increment", DOUBLE), ("IntervalSec", FLOAT), ("Series", TEXT),
            ("CounterType", TEXT)]
INSTRUMENT = [(name, TEXT) for name in ("sessionId", "meterName", "meterVersion",
                                        "instrumentName", "unit", "tags")]


def sample(name, value, unit="", interval=1.0, is_rate=False):
    return utf16z(name) + utf16z("") + utf16z(unit) + \
        struct.pack("<ddf", value, value, interval) + utf16z("Interval=1000") + \
        utf16z("Sum" if is_rate else "Mean")


def spread(meter, name, quantiles, tags):
    return b"".join(map(utf16z, ("SHARED", meter, "", name, "ms", tags, quantiles))) + \
        struct.pack("<id", 3, 6.0)


class Counters(ToolTest):
    def trace(self):
        trace = nettrace.Trace().define(1, "Shop", "EventCounters", 65533, COUNTER)
        trace.define(2, METRICS, "HistogramValuePublished", 6,
                     INSTRUMENT + [("quantiles", TEXT), ("count", INT32), ("sum", DOUBLE)])
        return trace.define(3, "Shop", "tick", 3, [])

    def rows(self, data, *arguments, status=0):
        path = self.write("t", data)
        out = self.run_tool("report", path, "counters", "--format=json", *arguments,
                            status=status)[0]
        return json.loads(out)

    def test_a_row_sums_the_values_of_each_counter(self):
        values = [5.0, -2.5, 9.25, 0.0]
        trace = self.trace().events(1, [sample("queue", value, "orders") for value in values])
        row, = self.rows(trace.events(3, [b""]).end())
        self.assertEqual(row, {
            "process_id": 4242, "provider": "Shop", "counter": "queue", "tags": None,
            "quantile": None, "kind": "value", "unit": "orders", "first_ns": 1000000,
            "last_ns": 1003000, "count": 4, "first": 5.0, "last": 0.0, "min": -2.5,
            "mean": sum(values) / 4, "max": 9.25})

    def test_an_expression_selects_values(self):
        trace = self.trace().events(1, [sample("queue", value) for value in (5.0, 1.0, 7.0)])
        trace.events(1, [sample("other", 9.0)])
        row, = self.rows(trace.end(), "--where", "Name == 'queue' and Mean > 2")
        self.assertEqual((row["counter"], row["count"], row["mean"]), ("queue", 2, 6.0))

    def test_an_expression_reaches_the_members_of_a_struct_without_a_name(self):
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5})
        payload = (v6.STRUCT, (("Name", v6.STRING16), ("Mean", v6.F64)))
        # The runtime and the library write such a struct.
        trace.define(1, "Shop", "EventCounters", 5, (("", (v6.STRUCT, (("Payload", payload),))),))
        trace.events(*[{"id": 1, "thread": 1, "ns": ns,
                        "payload": v6.utf16z(name) + struct.pack("<d", value)}
                       for ns, name, value in ((1, "queue", 5), (2, "queue", 1), (3, "x", 9))])
        path = self.write("t", trace.end())
        for where, times in (("Payload.Name == 'queue'", [1, 2]), ("Payload.Mean > 4", [1, 3]),
                             ("field.Payload.Mean > 4 and has Payload", [1, 3]),
                             ("has Name or has Payload.Other", [])):
            out, _ = self.run_tool("report", path, "events", "--all", "--format=json", "--where",
                                   where)
            self.assertEqual([json.loads(line)["time_ns"] for line in out.splitlines()], times,
                             where)

    def test_rates_are_per_second(self):
        trace = self.trace().events(1, [sample("hits", 50.0, interval=0.5, is_rate=True)])
        row, = self.rows(trace.end())
        self.assertEqual((row["kind"], row["mean"]), ("rate", 100.0))

    def test_a_distribution_has_a_row_for_each_quantile_and_tags(self):
        trace = self.trace().events(2, [spread("Shop", "time", "0.5=1;0.95=2.5", "kind=a"),
                                        spread("Shop", "time", "0.5=3;0.95=4.5", "kind=b"),
                                        spread("Shop", "time", "0.5=5;0.95=6.5", "kind=a")])
        rows = [(row["tags"], row["quantile"], row["count"], row["mean"])
                for row in self.rows(trace.end())]
        self.assertEqual(rows, [("kind=a", 0.5, 2, 3.0), ("kind=a", 0.95, 2, 4.5),
                                ("kind=b", 0.5, 1, 3.0), ("kind=b", 0.95, 1, 4.5)])

    def test_text_draws_the_values(self):
        trace = self.trace()
        for i in range(24):
            trace.events(1, [sample("load", float(i % 8), "%")], ns=1000000 + i * 1000000)
        out = self.run_tool("report", self.write("t", trace.end()), "counters")[0]
        self.assertEqual(out.splitlines(), [
            "PROCESS  COUNTER        COUNT  FIRST  LAST  MIN  MEAN  MAX  TREND",
            "   4242  Shop/load (%)     24      0     7    0   3.5    7  " + "▁▂▃▄▅▆▇█" * 3])

    def test_csv_has_the_same_values(self):
        data = self.trace().events(1, [sample('a "b",\x1b', 1.5)]).end()
        out = self.run_tool("report", self.write("t", data), "counters", "--format=csv")[0]
        row, = csv.DictReader(io.StringIO(out))
        self.assertEqual((row["counter"][:6], row["mean"], row["tags"]), ('a "b",', "1.5", ""))

    def test_values_that_are_no_numbers_are_left_out(self):
        values = [math.nan, math.inf, -math.inf, 1e308, 1e308, -1e308]
        row, = self.rows(self.trace().events(1, [sample("x", v) for v in values]).end())
        self.assertEqual((row["count"], row["min"], row["max"]), (3, -1e308, 1e308))
        self.assertTrue(math.isfinite(row["mean"]))

    def test_a_trace_without_counters_says_how_to_record_them(self):
        path = self.write("t", nettrace.sample())
        self.assertIn("EventCounterIntervalSec", self.run_tool("report", path, "counters")[0])
        self.assertEqual(self.rows(nettrace.sample()), [])

    def test_a_cut_trace_gives_the_counters_before_the_cut(self):
        data = self.trace().events(1, [sample("x", 1.0)]).end()
        row, = self.rows(data[:-1], status=1)
        self.assertEqual(row["count"], 1)

    def test_series_beyond_the_bound_are_counted(self):
        trace = self.trace()
        trace.events(1, [sample(f"c{i}", 1.0) for i in range(20010)])
        path = self.write("t", trace.end())
        out, err = self.run_tool("report", path, "counters", "--format=csv")
        self.assertEqual(len(out.splitlines()), 20001)
        self.assertIn("ignored 10 samples", err)


if __name__ == "__main__":
    unittest.main()
