#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent reads the same counter values as the process itself, counters_host.c.

Environment: INTEROP_BUILD, RINGPIPE, COUNTERS_HOST.
"""

import json
import os
import subprocess
import unittest

import clients

METERS = "System.Diagnostics.Metrics"
PROVIDER = "Counters-Host"
CONFIG = (f"{PROVIDER}:0:4:EventCounterIntervalSec=0.1,System.Runtime:0:4:"
          f"EventCounterIntervalSec=0.1,ringpipe:0:4:EventCounterIntervalSec=0.1,"
          f"{METERS}:7:4:SessionId=SHARED;Metrics=\"{PROVIDER},System.*,ringpipe\\threads\";"
          "RefreshInterval=0.1;MaxTimeSeries={series};MaxHistograms={histograms};ClientId=one")
PREFIX = ["sessionId", "meterName", "meterVersion", "instrumentName"]
INSTRUMENT = PREFIX + ["instrumentType", "unit", "description", "instrumentTags", "meterTags",
                       "meterScopeHash", "instrumentId", "meterTelemetrySchemaUrl"]
RATE = PREFIX + ["unit", "tags", "rate", "value", "instrumentId"]
# A value recorded during a read may be in one interval and its extreme in another. The middle of
# its bucket then replaces the extreme, with at most this error.
HALF_BUCKET = 1 / 128


class Recorded(clients.Scratch):
    """One run of the host, and its session as TraceEvent reads it."""

    series, histograms = 1000, 10

    @classmethod
    def setUpClass(cls):
        scratch = clients.tempfile.mkdtemp(prefix="ringpipe-counters-")
        cls.addClassCleanup(clients.shutil.rmtree, scratch)
        trace = os.path.join(scratch, "counters.nettrace")
        config = CONFIG.replace("{series}", str(cls.series))
        config = config.replace("{histograms}", str(cls.histograms))
        done = subprocess.run([os.environ["COUNTERS_HOST"]], stdout=subprocess.PIPE, check=True,
                              timeout=120, env={**os.environ, "RINGPIPE_CONFIG": config,
                                                "RINGPIPE_OUTPUT": trace})
        cls.own = json.loads(done.stdout)
        rows, cls.summary = clients.TraceRead().events(trace)
        cls.rows = [row for row in rows if row["provider"] != "Microsoft-DotNETCore-EventPipe"]

    def meters(self, event, **fields):
        return [row["fields"] for row in self.rows
                if row["provider"] == METERS and row["event"] == event and
                all(row["fields"].get(key) == value for key, value in fields.items())]

    def counters(self, name, provider=PROVIDER):
        found = []
        for row in self.rows:
            if row["provider"] == provider and row["event"] == "EventCounters":
                self.assertEqual(list(row["fields"]), [""])
                payload = row["fields"][""]["Payload"]
                if payload["Name"] == name:
                    found.append(payload)
        return found


class Reported(Recorded):
    def test_increments_add_up_to_the_sum(self):
        reported = self.counters("done")
        self.assertEqual(sum(payload["Increment"] for payload in reported),
                         self.own["done"]["value"])
        self.assertEqual(self.own["done"]["value"], 4 * 20000)
        self.assertEqual(list(reported[0]), [
            "Name", "DisplayName", "DisplayRateTimeScale", "Increment", "IntervalSec", "Metadata",
            "Series", "CounterType", "DisplayUnits"])
        self.assertEqual((reported[0]["DisplayName"], reported[0]["DisplayRateTimeScale"],
                          reported[0]["Series"], reported[0]["CounterType"],
                          reported[0]["DisplayUnits"]),
                         ("Things done", "", "Interval=100", "Sum", "things"))
        reported = self.counters("observed")
        # It was 7 when it was created, possibly before the session.
        self.assertIn(sum(payload["Increment"] for payload in reported), (70, 77))
        self.assertEqual((reported[0]["Metadata"], reported[0]["DisplayRateTimeScale"]),
                         ("k:v,k2:v2", "00:01:00"))

    def test_levels_and_gauges_end_at_their_value(self):
        self.assertEqual(self.counters("level")[-1]["Mean"], self.own["level"]["value"])
        self.assertEqual(self.counters("heat")[-1]["Mean"], 36.6)
        self.assertEqual(self.counters("level")[-1]["CounterType"], "Mean")

    def test_means_and_counts_of_the_histogram_add_up(self):
        reported = self.counters("spread")
        self.assertEqual(list(reported[0]), [
            "Name", "DisplayName", "Mean", "StandardDeviation", "Count", "Min", "Max",
            "IntervalSec", "Series", "CounterType", "Metadata", "DisplayUnits"])
        own = self.own["spread"]
        self.assertEqual(sum(payload["Count"] for payload in reported), own["count"])
        self.assertAlmostEqual(sum(payload["Count"] * payload["Mean"] for payload in reported),
                               own["sum"], delta=own["sum"] * 1e-9)
        filled = [payload for payload in reported if payload["Count"]]
        for reported, extreme in ((min(payload["Min"] for payload in filled), own["min"]),
                              (max(payload["Max"] for payload in filled), own["max"])):
            self.assertAlmostEqual(reported, extreme, delta=extreme * HALF_BUCKET)

    def test_rates_of_instruments_add_up_and_values_are_totals(self):
        for name, tags, own in (("done", "", "done"), ("tagged", "side=left", "left"),
                                ("tagged", "side=Grüße", "right")):
            reported = self.meters("CounterRateValuePublished", instrumentName=name, tags=tags)
            self.assertEqual(list(reported[0]), RATE)
            self.assertEqual(sum(float(row["rate"]) for row in reported), self.own[own]["value"])
            self.assertEqual(float(reported[-1]["value"]), self.own[own]["value"])
        self.assertEqual(self.meters("CounterRateValuePublished", instrumentName="tagged",
                                     tags=""), [])
        reported = self.meters("CounterRateValuePublished", instrumentName="observed")
        self.assertEqual((reported[-1]["value"], self.own["observed"]["value"]), ("77", 77))
        reported = self.meters("UpDownCounterRateValuePublished", instrumentName="level")
        self.assertEqual(float(reported[-1]["value"]), self.own["level"]["value"])
        reported = self.meters("GaugeValuePublished", instrumentName="heat")
        self.assertEqual(list(reported[-1]), PREFIX + ["unit", "tags", "lastValue", "instrumentId"])
        self.assertEqual((reported[-1]["lastValue"], reported[-1]["unit"]), ("36.6", "C"))

    def test_histograms_are_reported_by_quantiles(self):
        reported = self.meters("HistogramValuePublished", instrumentName="spread")
        self.assertEqual(list(reported[0]), PREFIX + ["unit", "tags", "quantiles", "count", "sum",
                                                  "instrumentId"])
        own = self.own["spread"]
        self.assertEqual(sum(row["count"] for row in reported), own["count"])
        self.assertAlmostEqual(sum(row["sum"] for row in reported), own["sum"],
                               delta=own["sum"] * 1e-9)
        for row in reported:
            if not row["count"]:
                self.assertEqual(row["quantiles"], "")
                continue
            pairs = [pair.split("=") for pair in row["quantiles"].split(";")]
            self.assertEqual([float(key) for key, _ in pairs], [0.5, 0.95, 0.99])
            values = [float(value) for _, value in pairs]
            self.assertEqual(values, sorted(values))
            self.assertTrue(own["min"] * (1 - HALF_BUCKET) <= values[0] and
                            values[2] <= own["max"] * (1 + HALF_BUCKET), row)

    def test_instruments_begin_and_end(self):
        types = {"done": "Counter`1", "level": "UpDownCounter`1", "heat": "Gauge`1",
                 "spread": "Histogram`1", "tagged": "Counter`1", "tagged_spread": "Histogram`1",
                 "observed": "ObservableCounter`1", "failing": "ObservableGauge`1",
                 "gone": "Counter`1"}
        begun = self.meters("BeginInstrumentReporting", meterName=PROVIDER)
        self.assertEqual(list(begun[0]), INSTRUMENT)
        self.assertEqual({row["instrumentName"]: row["instrumentType"] for row in begun}, types)
        ids = [row["instrumentId"] for row in begun]
        self.assertEqual(len(set(ids)), len(types))
        self.assertNotIn(0, ids)
        # If the process ends first, the others may end before the session.
        self.assertEqual([row["instrumentName"] for row in
                          self.meters("EndInstrumentReporting")][:1], ["gone"])
        self.assertEqual(self.meters("InitialInstrumentEnumerationComplete"),
                         [{"sessionId": "SHARED"}])
        self.assertEqual(self.meters("Version"), [{"Major": 9, "Minor": 0, "Patch": 0}])
        self.assertGreater(len(self.meters("InstrumentPublished")), len(begun))

    def test_a_callback_that_fails_is_reported(self):
        reported = self.meters("ObservableInstrumentCallbackError")
        self.assertTrue(reported)
        self.assertEqual(reported[0]["errorMessage"],
                         PROVIDER + "\\failing: Input/output error")
        self.assertEqual(self.meters("GaugeValuePublished", instrumentName="failing"), [])
        self.assertEqual(self.counters("failing"), [])

    def test_intervals_follow_one_another(self):
        starts, stops = self.meters("Collection/Start"), self.meters("Collection/Stop")
        self.assertEqual(starts, stops)
        for before, after in zip(starts, starts[1:]):
            self.assertEqual(before["intervalEndTime"], after["intervalStartTime"])

    def test_versions_are_those_clients_know(self):
        versions = {kind["event"]: kind["version"] for kind in self.summary["kinds"]
                    if kind["provider"] == METERS}
        self.assertEqual(versions, {
            "Collection/Start": 0, "Collection/Stop": 0, "CounterRateValuePublished": 2,
            "GaugeValuePublished": 2, "HistogramValuePublished": 2, "BeginInstrumentReporting": 3,
            "EndInstrumentReporting": 3, "InstrumentPublished": 3, "Version": 0,
            "InitialInstrumentEnumerationComplete": 0, "ObservableInstrumentCallbackError": 0,
            "UpDownCounterRateValuePublished": 2})
        heads = {(kind["level"], kind["keywords"], kind["opcode"], kind["version"])
                 for kind in self.summary["kinds"] if kind["event"] == "EventCounters"}
        self.assertEqual(heads, {(0, 0, 0, 0)})

    def test_the_built_in_counters_are_reported(self):
        resident = self.counters("working-set", "System.Runtime")[-1]
        self.assertTrue(0.5 < resident["Mean"] < 500, resident)
        self.assertEqual(resident["DisplayUnits"], "MB")
        self.assertTrue(0 <= self.counters("cpu-usage", "System.Runtime")[-1]["Mean"] <= 100)
        self.assertEqual(self.counters("dotnet.process.cpu.time", "System.Runtime"), [])
        self.assertEqual(self.meters("GaugeValuePublished", instrumentName="working-set"), [])
        reported = self.meters("UpDownCounterRateValuePublished",
                           instrumentName="dotnet.process.memory.working_set")
        self.assertTrue(5e5 < float(reported[-1]["value"]) < 5e8, reported[-1])
        modes = {row["tags"] for row in self.meters("CounterRateValuePublished",
                                                    instrumentName="dotnet.process.cpu.time")}
        self.assertEqual(modes, {"cpu.mode=user", "cpu.mode=system"})
        # At least the main thread, the drain thread, the counters' and the diagnostics server's.
        self.assertGreaterEqual(self.counters("threads", "ringpipe")[-1]["Mean"], 4)
        self.assertEqual({row["instrumentName"] for row in self.meters(
            "BeginInstrumentReporting", meterName="ringpipe")}, {"threads"})
        self.assertGreater(sum(row["Increment"] for row in
                               self.counters("events-delivered", "ringpipe")), 100)
        self.assertGreater(self.counters("session-memory", "ringpipe")[-1]["Mean"], 1 << 20)
        self.assertEqual(sum(row["Increment"] for row in
                             self.counters("events-lost", "ringpipe")), 0)


class Limited(Recorded):
    series, histograms = 10, 1

    def test_limits_are_kept_and_reported_once(self):
        self.assertEqual(self.meters("TimeSeriesLimitReached"), [{"sessionId": "SHARED"}])
        self.assertEqual(self.meters("HistogramLimitReached"), [{"sessionId": "SHARED"}])
        series = {(row["fields"]["meterName"], row["fields"]["instrumentName"],
                   row["fields"]["tags"]) for row in self.rows
                  if row["provider"] == METERS and row["event"].endswith("ValuePublished")}
        self.assertTrue(0 < len(series) <= 10, series)


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
