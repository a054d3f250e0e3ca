#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A .NET client sees the counters of a .NET process and those of counters_twin.c as equal.

Environment: INTEROP_BUILD, COUNTERS_TWIN.
"""

import json
import os
import subprocess
import threading
import unittest

import clients
import drive

METERS = "System.Diagnostics.Metrics"
# An EventSource uses the upper keyword bits as a session mask.
KEYWORDS = (1 << 44) - 1
METER_NAMES = ("Twin-Meter", "Twin-Gone", "Twin-Late")
# In ringpipe a client that disagrees has a separate series; .NET has one series for all.
SERIES = "Interval=300"
MISCONFIGURED = "MultipleSessionsConfiguredIncorrectlyError"


class Process:
    """A program that continues when it is sent a line, and its output."""

    def __init__(self, test, command):
        self.lines = []
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)
        self.thread = threading.Thread(target=self._read)
        self.thread.start()
        test.addClassCleanup(self._reap)

    def _read(self):
        for line in self.child.stdout:
            self.lines.append(line)

    def _reap(self):
        self.child.kill()
        self.child.wait()
        self.thread.join()
        self.child.stdout.close()
        self.child.stdin.close()

    def go_on(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def wait_for(self, condition, what):
        return drive.wait_for(condition, what, [self.child])

    def finish(self):
        self.go_on()
        if self.child.wait(drive.DEADLINE_S) != 0:
            raise drive.Failure(f"{self.child.args} ended with {self.child.returncode}")
        self.thread.join()


class Event:
    """An event as TraceEvent reads it: its header, and [name, type, value] of each field."""

    def __init__(self, line):
        row = json.loads(line)
        self.provider, self.name = row["provider"], row["event"]
        # Each EventSource numbers its EventCounters after its other events.
        self.head = tuple(row[key] for key in ("version", "level", "opcode")) + (
            row["keywords"] & KEYWORDS, row["id"] if self.provider == METERS else None)
        self.fields = row["fields"]
        if self.name == "EventCounters":
            (_, outer, inner), = self.fields
            (payload, kind, self.fields), = inner
            self.head += (outer, payload, kind)
        self.values = {name: value for name, _, value in self.fields}

    def form(self):
        return self.head, tuple((name, kind) for name, kind, _ in self.fields)


class Reported:
    """The events that a client gets from a process with the counters."""

    def __init__(self, test, command, watch):
        host = Process(test, command)
        host.wait_for(lambda: host.lines, "the process's number")
        pid = host.lines[0].strip()
        watcher = Process(test, [*watch, "watch", pid, "0.3", "one"])

        # One round of EventCounters has four events.
        def more_rounds():
            before = len(watcher.lines)

            def come():
                later = watcher.lines[before:]
                return (sum('"Collection/Stop"' in line for line in later) >= 3 and
                        sum('"EventCounters"' in line for line in later) >= 12)
            watcher.wait_for(come, "counters")
        more_rounds()
        odd = Process(test, [*watch, "watch", pid, "0.6", "two"])
        odd.wait_for(lambda: any(MISCONFIGURED in line for line in list(odd.lines)),
                     "the reply to a client that disagrees")
        host.go_on()
        host.wait_for(lambda: len(host.lines) > 1, "the counting")
        more_rounds()
        watcher.finish()
        odd.finish()
        host.finish()
        self.events = [event for event in map(Event, watcher.lines)
                       if event.provider in (METERS, "Twin-Source") and
                       event.values.get("meterName", METER_NAMES[0]) in METER_NAMES and
                       event.values.get("Series", SERIES) == SERIES]
        self.misconfigured = [event for event in map(Event, odd.lines)
                              if event.name == MISCONFIGURED]

    def rows(self, name, *without):
        """Return the different values of the events of a name, as (field, value)."""
        return {tuple((field, value) for field, value in event.values.items()
                      if field not in without)
                for event in self.events if event.name == name}


def numbered(rows):
    """Return rows of rates. .NET reports no first rate; ringpipe's is that since the session's
    start."""
    return {tuple((field, "0" if (field, value) == ("rate", "") else value)
                  for field, value in row) for row in rows}


def nothing_counted(row):
    """.NET does not report a series without values; here it is reported as 0."""
    values = dict(row)
    return ((values.get("rate"), values.get("value")) == ("0", "0") or
            (values.get("quantiles"), values.get("count"), values.get("sum")) == ("", 0, 0))


class Twins(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        dotnet = clients.counters_command()
        cls.theirs = Reported(cls, [*dotnet, "publish"], dotnet)
        cls.ours = Reported(cls, [os.environ["COUNTERS_TWIN"]], dotnet)

    def same(self, name, *without):
        theirs, ours = self.theirs.rows(name, *without), self.ours.rows(name, *without)
        self.assertEqual(ours, theirs)
        self.assertTrue(theirs, name)

    def test_events_and_their_fields_have_the_same_names_types_and_versions(self):
        def forms(reported):
            found = {}
            for event in reported.events + reported.misconfigured:
                form = event.values.get("CounterType")
                found.setdefault((event.name, form), set()).add(event.form())
            return found
        theirs = forms(self.theirs)
        # Clients cannot rely on the runtime's messages about its internal work.
        theirs.pop(("Message", None))
        self.assertEqual(forms(self.ours), theirs)
        self.assertEqual(len(theirs), 15)

    def test_instruments_are_described_alike(self):
        for name in ("InstrumentPublished", "BeginInstrumentReporting", "EndInstrumentReporting"):
            self.same(name, "instrumentId")

    def test_event_counters_say_the_same(self):
        # A counter without a display name has its name there; in .NET it is empty.
        named = {tuple((field, value or dict(row)["Name"]) if field == "DisplayName" else
                       (field, value) for field, value in row)
                 for row in self.theirs.rows("EventCounters", "IntervalSec")}
        self.assertEqual(self.ours.rows("EventCounters", "IntervalSec"), named)
        self.assertTrue(named)

    def test_gauges_say_the_same_numbers_in_the_same_digits(self):
        self.same("GaugeValuePublished", "instrumentId")
        self.assertEqual(len({dict(row)["instrumentName"] for row in
                              self.ours.rows("GaugeValuePublished")}), 16 + 3)

    def test_rates_totals_and_quantiles_say_the_same(self):
        for name in ("CounterRateValuePublished", "UpDownCounterRateValuePublished",
                     "HistogramValuePublished"):
            theirs = numbered(self.theirs.rows(name, "instrumentId"))
            ours = numbered(self.ours.rows(name, "instrumentId"))
            self.assertTrue(theirs)
            self.assertEqual(theirs - ours, set())
            self.assertEqual([row for row in ours - theirs if not nothing_counted(row)], [])

    def test_clients_that_disagree_are_reported_the_same(self):
        self.assertEqual([event.values for event in self.ours.misconfigured],
                         [event.values for event in self.theirs.misconfigured])
        self.assertEqual(len(self.ours.misconfigured), 1)

    def test_collections_and_sessions_are_reported_alike(self):
        self.same("Collection/Start", "intervalStartTime", "intervalEndTime")
        self.same("Collection/Stop", "intervalStartTime", "intervalEndTime")
        self.same("InitialInstrumentEnumerationComplete")
        self.same("ObservableInstrumentCallbackError", "errorMessage")


if __name__ == "__main__":
    clients.main(clients.counters_command)
