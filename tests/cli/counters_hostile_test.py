#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe counters` on a process that sends arbitrary data."""
import csv
import io
import json
import os
import re
import struct
import unittest
import urllib.request

import nettrace
from nettrace import utf16z
from server import UNKNOWN_COMMAND, error, ok
from tool import PATIENCE, ToolTest

METRICS = "System.Diagnostics.Metrics"
RATE, GAUGE, SPREAD, ENUMERATED = 4, 5, 6, 10
TEXT, INT32, DOUBLE = nettrace.STRING, 9, 14
HEAD = [(name, TEXT) for name in ("sessionId", "meterName", "meterVersion", "instrumentName",
                                  "unit", "tags")]
FIELDS = {
    RATE: HEAD + [("rate", TEXT), ("value", TEXT)],
    GAUGE: HEAD + [("lastValue", TEXT)],
    SPREAD: HEAD + [("quantiles", TEXT), ("count", INT32), ("sum", DOUBLE)],
    ENUMERATED: [("sessionId", TEXT)],
}
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)'
                    r'(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\[\\"n])*",?)+\})? (\S+)')


def trace():
    built = nettrace.Trace()
    for number, fields in FIELDS.items():
        built.define(number, METRICS, f"Event{number}", number, fields)
    return built


def word(meter, name, *values, tags="", unit=""):
    texts = ("SHARED", meter, "", name, unit, tags, *[v for v in values if isinstance(v, str)])
    numbers = [v for v in values if not isinstance(v, str)]
    return b"".join(map(utf16z, texts)) + (struct.pack("<id", *numbers) if numbers else b"")


class Hostile(ToolTest):
    def say(self, stream, stays=True):
        """A process with these bytes as its stream; with `stays`, it ends the stream only on
        request."""
        def handler(connection, request):
            if request.set == 2 and request.id != 1:
                connection.sendall(ok(struct.pack("<Q", 1)) + stream)
                if stays:
                    self.stopped.wait(PATIENCE)
                    connection.sendall(b"\1")
            elif request.command == (2, 1):
                connection.sendall(ok(request.payload))
                self.stopped.set()
            else:
                connection.sendall(error(UNKNOWN_COMMAND))
        fake = self.serve(handler)
        self.stopped = fake.stopped

    def collect(self, *arguments, status=0):
        return self.run_tool("counters", "collect", "--format=csv", "-p", os.getpid(), *arguments,
                             status=status)

    def page(self, wanted):
        process = self.start("counters", "serve", "-p", os.getpid(), "--port", 0)
        line = process.stdout.readline().decode().strip()
        if not line and b"libmicrohttpd" in process.stderr.read():
            self.skipTest("built without libmicrohttpd")
        text = [""]

        def is_there():
            with urllib.request.urlopen(line, timeout=PATIENCE) as reply:
                text[0] = reply.read().decode()
            return wanted in text[0]

        self.wait_until(is_there)
        self.check_page(text[0])
        process.terminate()
        self.finish(process, 0)
        return text[0]

    def check_page(self, page):
        """Each series occurs once, the lines of a family are together, and every line is valid."""
        families, series = [], set()
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                families.append(line.split()[2])
                continue
            if line.startswith("# HELP "):
                self.assertRegex(line, r"^([^\\]|\\[\\n])*$")
                continue
            match = SAMPLE.fullmatch(line)
            self.assertTrue(match, line)
            name = match[1]
            self.assertIn(families[-1], (name, re.sub("_(sum|count)$", "", name)), line)
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or "")
            self.assertEqual(len(dict(labels)), len(labels), line)
            self.assertTrue(all(key for key, _ in labels), line)
            key = (name, frozenset(labels))
            self.assertNotIn(key, series)
            series.add(key)
        self.assertEqual(len(set(families)), len(families), families)

    def test_damage_right_before_the_end_is_reported_without_a_crash(self):
        stream = trace().events(GAUGE, [word("M", "a", "1")]).bytes + b"\7damage"
        self.say(stream, stays=False)
        for _ in range(20):
            out, err = self.collect("--format=json", status=1)
            self.assertIn("sent an invalid trace", err)
            self.assertEqual(len(json.loads(out)["Events"]), 1)

    def test_names_that_coincide_make_no_series_twice(self):
        built = trace().events(GAUGE, [
            word("Mill", "a.b", "1"), word("mill", "a_b", "2"), word("N", "x", "3"),
            word("mill a", "b", "4"), word("Mill", "sacks_total", "5"),
            word("Mill", "s.sum", "6"), word("Mill", "k", "7", tags="a.b=1,a_b=2,=3,1=4"),
            word("Mill", "k", "8", tags="a_b=1,_=4"), word("Mill", "say \"x\"\\\n", "9")])
        built.events(RATE, [word("Mill", "sacks", "1", "2"), word("MILL", "sacks", "1", "3")])
        built.events(SPREAD, [
            word("Mill", "s", "0.5=1;0.5=2;nan=3;7=4;0.95=5", -3, 1.5, tags="quantile=0.5")])
        built.events(GAUGE, [word("Z", "end", "1")])
        self.say(built.bytes)
        page = self.page("z_end")
        self.assertIn("\nmill_s_sum", page)
        self.assertIn('quantile="0.95"', page)
        self.assertIn("mill_s_count", page)

    def test_any_text_and_number_leaves_the_views_sound(self):
        self.say(trace().events(GAUGE, [
            word("M", "esc\x1b[2J\r\n,\"\\", value, tags=f"k{i}=\x1b\n\"\\\\", unit="\x07")
            for i, value in enumerate(("1e308", "-1e400", "nan", "-0", "0x1p4", "x", ""))
        ]).events(SPREAD, [word("M", "spread", "0.5=nan;=;", -1, float("nan"))]).end(),
            stays=False)
        out = self.collect()[0]
        self.assertFalse(set(out) & set("\x1b\x07\r"), out)
        self.assertEqual({len(row) for row in csv.reader(io.StringIO(out))}, {5})

    def test_more_counters_than_are_kept_are_left_out(self):
        built = trace()
        for first in range(0, 30000, 10000):
            built.events(GAUGE, [word(f"M{i}", "a", "1") for i in range(first, first + 10000)])
        self.say(built.end(), stays=False)
        out, err = self.collect()
        self.assertEqual(out.count("\n"), 1 + 20000)
        self.assertEqual(err.count("more than 20000 counters"), 1)


if __name__ == "__main__":
    unittest.main()
