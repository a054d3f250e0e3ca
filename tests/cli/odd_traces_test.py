#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every format of ringpipe convert --to, on odd traces: a reader of the format reads the output."""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import unittest

import nettrace
import nettrace6 as v6
import otlp_schema
from formats_test import HOSTILE, Source
from profile_test import Machine
from tool import ToolTest

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ('a"b\\', "\n\r\t", "</script>", "\x1b[2J", "é€😀", "x" * 5000, "", "%s%n", "..", "int",
         "_x", "a;b", "'", "\u202e")


def odd_names():
    """Providers, events, fields, threads, labels and processes have odd names."""
    trace = v6.Trace(pairs=((NAMES[0], NAMES[3]), ("", HOSTILE))).threads({"index": 0})
    rows = []
    for at, name in enumerate(NAMES, 1):
        trace.threads({"index": at, "thread": at, "process": at, "name": name[:200]})
        trace.define(2 * at, name, name + "Start", 1, [(name, v6.STRING16), (name, v6.U8)])
        trace.define(2 * at + 1, name, name + "Stop", 2, [(name, v6.STRING16)])
        text = nettrace.utf16z(name)
        rows.append({"id": 2 * at, "thread": at, "ns": 10 * at, "payload": text + b"\1"})
        rows.append({"id": 2 * at + 1, "thread": at, "ns": 10 * at + 5, "payload": text})
    return trace.events(*rows).end()


def invalid_texts():
    """The bytes of texts and names are neither UTF-8 nor UTF-16."""
    trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5, "name": b"\xff\xfe"})
    trace.define(1, b"\xc3", b"\xf0\x90\x80Start", 1, [("t", (v6.ARRAY, v6.CHAR8)),
                                                        ("u", v6.STRING16)])
    trace.define(2, b"\xc3", b"\xf0\x90\x80Stop", 2, [])
    payload = b"\5\0a\xc3(\xff\0" + b"\0\xd8x\0\0\xdc\0\0"
    trace.events({"id": 1, "thread": 1, "payload": payload},
                 {"id": 1, "thread": 1, "ns": 5, "payload": payload[:4]},
                 {"id": 2, "thread": 1, "ns": 9})
    return trace.end()


def endless_spans():
    trace = Source()
    for at in range(200):
        trace.start(1000 + at, HOSTILE, activity=at + 1, related=at, thread=at % 5 + 1)
    return trace.end()


def backwards():
    """The clock of the trace goes backwards, in spans, counters, other events and samples."""
    trace = Source()
    for at in range(100):
        ns = 1_000_000 - 7000 * at
        trace.start(ns, str(at), activity=at + 1).note(ns - 90, "x", activity=at + 1)
        trace.count(ns - 50, "queue", at).stop(ns - 100, activity=at + 1)
    return trace.end()


def samples():
    machine = Machine().name(7, HOSTILE.replace("\n", "")).name(8, "")
    machine.map(7, 700, 0x1000, 0x9000, HOSTILE)
    for at, name in enumerate(NAMES):
        machine.function(7, 700, 0x2000 + 16 * at, 0x200f + 16 * at, name)
        machine.sample(7, 7 + at % 3, [0x2001 + 16 * at, 0x2001, 0xdead])
    return machine.sample(8, 9, []).end()


TRACES = {
    "empty": lambda: Source().end(), "empty-6": lambda: v6.Trace().end(),
    "one": lambda: Source().note(1000, HOSTILE).end(),
    "one-open-span": lambda: Source().start(1000, HOSTILE).end(),
    "one-end": lambda: Source().stop(1000).end(),
    "names": odd_names, "invalid": invalid_texts, "endless": endless_spans,
    "backwards": backwards, "samples": samples,
    "losses": lambda: nettrace.sample(losses=True),
}


class OddTraces(ToolTest):
    def each(self, form):
        """Convert each trace, and yield its name and the output."""
        for name, make in TRACES.items():
            self.trace = self.write(f"{name}.nettrace", make())
            self.run_tool("convert", self.trace, "--to", form, "-q", "-f", "-o", name)
            yield name, None if form == "ctf" else self.read(name)

    def decode(self, schema, message, data):
        """Decode a message of protocol buffers by a schema that has all of its fields."""
        if not shutil.which("protoc"):
            self.skipTest("protoc is missing")
        done = subprocess.run(["protoc", "-I", HERE, f"--decode={message}",
                               os.path.join(HERE, schema)], input=data, check=True,
                              stdout=subprocess.PIPE)
        self.assertNotRegex(done.stdout, rb"(?m)^ *\d+(:| \{)")
        return done.stdout.decode("utf-8", "strict")

    def rows(self):
        """Return the rows that report prints for the trace."""
        out = self.run_tool("report", self.trace, "events", "--all", "--format", "json")[0]
        return [json.loads(line) for line in out.split("\n") if line]

    def test_chrome(self):
        for _, out in self.each("chrome"):
            self.assertIn("traceEvents", json.loads(out.decode("utf-8", "strict")))

    def test_firefox_and_speedscope(self):
        for form in "firefox", "speedscope":
            for _, out in self.each(form):
                self.assertIsInstance(json.loads(out.decode("utf-8", "strict")), dict)

    def test_perfetto_pprof_and_profiles_of_otlp(self):
        for form, schema, name in (
                ("perfetto", "perfetto.proto", "perfetto.protos.Trace"),
                ("pprof", "pprof.proto", "perftools.profiles.Profile"),
                ("otlp-profiles", "otlp_profiles.proto",
                 "opentelemetry.proto.profiles.v1development.ProfilesData")):
            for _, out in self.each(form):
                self.decode(schema, name, out)

    def test_folded(self):
        for _, out in self.each("folded"):
            for line in out.decode("utf-8", "strict").split("\n")[:-1]:
                self.assertRegex(line, r"^[^\x00-\x1f]+ \d+$")

    def test_json_lines_have_the_fields_that_the_library_prints(self):
        for _, out in self.each("jsonl"):
            lines = out.decode("utf-8", "strict").split("\n")[:-1]
            self.assertEqual([json.loads(line) for line in lines], self.rows())
            text = self.run_tool("report", self.trace, "events", "--all")[0]
            # The library writes the fields of the text form.
            for line in lines:
                fields = re.search(r'"fields":(\{.*\})\}$', line)[1]
                self.assertIn(f"  {fields}", text)

    def test_csv(self):
        for _, out in self.each("csv"):
            table = list(csv.DictReader(io.StringIO(out.decode("utf-8", "strict"), newline="")))
            rows = self.rows()
            self.assertEqual([json.loads(row["fields"]) for row in table],
                             [row["fields"] for row in rows])

    def test_otlp(self):
        for name, out in self.each("otlp"):
            lines = out.decode("utf-8", "strict").split("\n")[:-1]
            spans = otlp_schema.spans_of([json.loads(line) for line in lines])
            self.assertEqual(len({span.id for span in spans}), len(spans))
            # The event with the name "Start" starts no span.
            self.assertEqual(len(spans), {"one-open-span": 1, "endless": 200, "backwards": 100,
                                          "names": len(NAMES) - 1, "invalid": 2}.get(name, 0))

    def test_ctf(self):
        if not shutil.which("babeltrace2"):
            self.skipTest("babeltrace2 is missing")
        self.write("e.nettrace", Source().end())
        process = self.start("convert", "e.nettrace", "--to", "ctf", "-o", "e")
        if b"needs libbabeltrace2" in process.communicate()[1]:
            self.skipTest("ringpipe is built without libbabeltrace2")
        for name, _ in self.each("ctf"):
            done = subprocess.run(["babeltrace2", self.path(name)], check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            lines = done.stdout.decode("utf-8", "strict").split("\n")[:-1]
            self.assertEqual(len(lines), len(self.rows()))


if __name__ == "__main__":
    unittest.main()
