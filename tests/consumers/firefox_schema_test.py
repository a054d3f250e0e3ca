#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The output of `ringpipe convert --to firefox` fits the schema in firefox.schema.json.

The schema follows src/types/profile.ts and src/types/markers.ts of the Firefox profiler
(github.com/firefox-devtools/profiler), whose own code is in no package. The schema lacks the
members that ringpipe has no use for, so that a misspelt member is an error."""
import json
import os
import random
import struct
import sys
import unittest

import nettrace
import nettrace6 as v6
from formats_test import HOSTILE, Source
from profile_test import Machine, program, stack_of
from tool import ToolTest

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is missing; scripts/setup test installs it")
    sys.exit(77)

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "firefox.schema.json"),
          encoding="utf-8") as SCHEMA_FILE:
    SCHEMA = jsonschema.Draft202012Validator(json.load(SCHEMA_FILE))

TEXT_FORMATS = "string", "sanitized-string", "url", "file-path"
INDEX_FORMATS = "unique-string", "flow-id", "terminating-flow-id"


class FirefoxSchema(ToolTest):
    def profile(self, data, status=0):
        """Return the profile of a trace after all checks."""
        path = self.write("t.nettrace", data)
        self.run_tool("convert", path, "--to", "firefox", "-f", "-o", "out", status=status)
        profile = json.loads(self.read("out").decode("utf-8", "strict"),
                             parse_constant=self.fail)
        for error in SCHEMA.iter_errors(profile):
            self.fail(f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
        self.check_lengths(profile)
        self.check_shared(profile)
        schemas = self.check_schemas(profile["meta"])
        for thread in profile["threads"]:
            self.check_samples(profile, thread["samples"])
            self.check_markers(profile, thread["markers"], schemas)
        start, end = (profile["meta"][key] for key in ("profilingStartTime", "profilingEndTime"))
        self.assertLess(start, end)
        for thread in profile["threads"]:
            markers = thread["markers"]
            for time in thread["samples"]["time"] + markers["startTime"] + markers["endTime"]:
                self.assertTrue(time is None or start <= time <= end, time)
        for counter in profile["counters"]:
            self.assertLess(counter["mainThreadIndex"], len(profile["threads"]))
            self.assertIn(counter["pid"], {thread["pid"] for thread in profile["threads"]})
            self.check_ascends(counter["samples"]["time"])
        return profile

    def check_lengths(self, node):
        """Each column has a row for each row of its table."""
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, list) and isinstance(node, dict) and "length" in node:
                self.assertEqual(len(value), node["length"])
            if isinstance(value, (dict, list)):
                self.check_lengths(value)

    def check_indices(self, column, length):
        """All numbers but -1 and null are rows of a table."""
        for index in column:
            if index not in (None, -1):
                self.assertLess(index, length)

    def check_ascends(self, times):
        self.assertEqual(times, sorted(times))

    def check_shared(self, profile):
        shared, categories = profile["shared"], profile["meta"]["categories"]
        stacks, frames, funcs = (shared[name] for name in ("stackTable", "frameTable", "funcTable"))
        texts = len(shared["stringArray"])
        self.check_indices(stacks["frame"], frames["length"])
        for row, offset in enumerate(stacks["prefixOffset"]):
            self.assertLessEqual(offset, row)  # a prefix precedes
        self.check_indices(frames["func"], funcs["length"])
        self.check_indices(frames["lib"], len(profile["libs"]))
        self.check_indices(frames["nativeSymbol"], shared["nativeSymbols"]["length"])
        self.check_indices(frames["category"], len(categories))
        for category, subcategory in zip(frames["category"], frames["subcategory"]):
            self.assertLess(subcategory, len(categories[category]["subcategories"]))
        self.check_indices(funcs["name"], texts)
        self.check_indices(funcs["resource"], shared["resourceTable"]["length"])
        self.check_indices(shared["resourceTable"]["name"], texts)
        self.check_indices(shared["resourceTable"]["host"], texts)
        self.assertEqual(len(set(shared["stringArray"])), texts)

    def check_schemas(self, meta):
        """Return the fields of each type of markers, {key: format}, and whether they nest."""
        schemas = {}
        for schema in meta["markerSchema"]:
            self.assertNotIn(schema["name"], schemas)
            fields = {field["key"]: field["format"] for field in schema["fields"]}
            self.assertEqual(len(fields), len(schema["fields"]), schema["name"])
            schemas[schema["name"]] = (fields, schema["isStackBased"])
        return schemas

    def check_samples(self, profile, samples):
        self.check_ascends(samples["time"])
        self.check_indices(samples["stack"], profile["shared"]["stackTable"]["length"])

    def check_markers(self, profile, markers, schemas):
        texts = len(profile["shared"]["stringArray"])
        self.check_indices(markers["name"], texts)
        self.check_indices(markers["category"], len(profile["meta"]["categories"]))
        self.check_ascends(markers["startTime"])
        nesting = []
        for start, end, phase, data in zip(markers["startTime"], markers["endTime"],
                                           markers["phase"], markers["data"]):
            self.assertEqual(end is None, phase == 0)
            if end is not None:
                self.assertLessEqual(start, end)
            fields, nests = schemas[data["type"]]
            self.check_fields(fields, data, texts)
            if nests and end is not None:
                nesting.append((start, -end))
        self.check_nesting(nesting)

    def check_fields(self, fields, data, texts):
        for key, value in data.items():
            if key == "type":
                continue
            form = fields[key]
            if value is None:  # as if the field was missing
                continue
            if form in TEXT_FORMATS:
                self.assertIsInstance(value, str, key)
            elif form in INDEX_FORMATS:
                self.assertLess(value, texts)
            else:
                self.assertNotIsInstance(value, str, key)

    def check_nesting(self, nesting):
        """For two intervals, one contains the other, or they do not overlap."""
        ends = []
        for start, negative_end in sorted(nesting):
            while ends and ends[-1] <= start:
                ends.pop()
            if ends:
                self.assertLessEqual(-negative_end, ends[-1])
            ends.append(-negative_end)

    def test_spans_counters_and_other_events_fit(self):
        trace = Source().start(1000, "/a", activity=1)
        trace.start(1100, "/b", thread=8, activity=2, related=1)
        trace.stop(1200, 201, thread=8, activity=2).stop(2000, 202, activity=1)
        trace.note(3000, "x").count(4000, "queue", 2.5).count(5000, "queue", 1.5)
        profile = self.profile(trace.end())
        self.assertEqual([thread["markers"]["length"] for thread in profile["threads"]], [2, 1])
        self.assertEqual(len(profile["counters"]), 1)

    def test_the_range_has_the_markers_before_the_first_sample(self):
        machine = Machine().name(7, "shop").name(8, "other").sample(7, 7, [0x1000])
        meta = self.profile(machine.end())["meta"]
        self.assertEqual((meta["profilingStartTime"], meta["profilingEndTime"]), (0.001, 0.004))

    def test_samples_fit(self):
        chance, machine = random.Random(5), program()
        for _ in range(300):
            names = "".join(chance.choice("abcdef") for _ in range(chance.randrange(6)))
            machine.sample(7, chance.randint(7, 9), stack_of(names))
        profile = self.profile(machine.end())
        self.assertEqual(sum(thread["samples"]["length"] for thread in profile["threads"]), 300)

    def test_random_spans_fit_and_nest(self):
        for seed in range(4):
            chance, trace, ns = random.Random(seed), Source(), 1000
            running = []
            for number in range(1, 400):
                ns += chance.choice((0, 1, 50, 50, -20 if seed % 2 else 3))
                if running and chance.random() < 0.5:
                    one, thread = running.pop(chance.randrange(len(running)))
                    trace.stop(ns, one, activity=one,
                               thread=thread if chance.random() < 0.8 else 5)
                else:
                    running.append((number, chance.randrange(1, 5)))
                    trace.start(ns, str(number), activity=number, thread=running[-1][1])
            self.profile(trace.end())

    def test_hostile_names_and_texts_fit(self):
        trace = Source().note(1000, HOSTILE).start(1100, HOSTILE).stop(1200)
        trace.count(1300, HOSTILE, 1.5).add(3, 1400, b"\x00\xd8x\0\0\0")
        self.profile(trace.end())
        machine = Machine().name(7, HOSTILE)
        machine.map(7, 700, 0x1000, 0x9000, HOSTILE).function(7, 700, 0x2000, 0x2fff, HOSTILE)
        machine.sample(7, 7, [0x2010, 0x1010, 0x99999000])
        self.profile(machine.end())

    def test_all_types_of_fields_fit(self):
        payload, _ = v6.all_fields_payload()
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5})
        trace.define(1, "Shop", "all", 5, v6.ALL_FIELDS)
        trace.events({"id": 1, "thread": 1, "payload": payload})
        trace.events({"id": 1, "thread": 1, "ns": 9, "payload": payload[:-3]})
        self.profile(trace.end())

    def test_values_that_json_lacks_fit(self):
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5})
        trace.define(1, "Shop", "number", 5, (("double", v6.F64), ("float", v6.F32)))
        for at, value in enumerate((float("nan"), float("inf"), -float("inf"), 1e308)):
            trace.events({"id": 1, "thread": 1, "ns": at, "number": at + 1,
                          "payload": struct.pack("<df", value, min(value, 1e38))})
        profile = self.profile(trace.end())
        self.assertEqual([data["field.double"]
                          for data in profile["threads"][0]["markers"]["data"]],
                         [None, None, None, 1e308])
        trace = Source().count(1000, "queue", float("nan")).count(1001, "queue", 1e308)
        self.profile(trace.count(1002, "queue", -1e308).count(1003, "queue", 1e308).end())

    def test_one_event_a_span_without_an_end_and_no_event_fit(self):
        for trace in (Source().note(1000, "x"), Source().start(1000, "/a"), Source(),
                      Source().stop(1000), nettrace.Trace()):
            self.profile(trace.end())

    def test_a_damaged_trace_fits(self):
        trace = Source().start(1000, "/a")
        for at in range(50):
            trace.note(2000 + at, str(at))
        data = trace.end()
        profile = self.profile(data[:len(data) // 2], status=1)
        self.assertGreater(profile["threads"][0]["markers"]["length"], 10)


if __name__ == "__main__":
    unittest.main()
