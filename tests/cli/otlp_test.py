#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe convert --to otlp: lines of JSON that the schema of OTLP permits."""
import json
import os
import random
import struct
import unittest
import uuid

import nettrace
import nettrace6 as v6
import otlp_schema
from formats_test import HOSTILE, Source, guid, guid_text
from tool import ToolTest

START_NS = 1_795_222_923_004_000_000	# of the traces: 2026-11-21 01:02:03.004 UTC
SERVER, INTERNAL = 2, 1


class Otlp(ToolTest):
    def convert(self, data, status=0):
        path = self.write("t.nettrace", data)
        self.errors = self.run_tool("convert", path, "--to", "otlp", "-f", "-o", "out",
                                    status=status)[1]
        lines = self.read("out").decode("utf-8", "strict").split("\n")
        self.assertEqual(lines.pop(), "")
        spans = otlp_schema.spans_of([json.loads(line) for line in lines])
        self.assertEqual(len({span.id for span in spans}), len(spans), "a span id is not unique")
        return spans

    def test_a_span_has_its_times_fields_events_and_status(self):
        trace = Source().start(1000, HOSTILE, activity=1).note(1100, HOSTILE, activity=1)
        trace.stop(2000, 503, activity=1).note(3000, "outside")
        span, = self.convert(trace.end())
        self.assertEqual((span.name, span.scope, span.kind, span.parent, span.is_error),
                         ("request", "Shop", INTERNAL, None, True))
        self.assertEqual((span.start, span.end), (START_NS + 1000, START_NS + 2000))
        self.assertEqual(span.attributes, {"path": HOSTILE, "status": 503, "thread.id": 7,
                                           "ringpipe.activity": guid_text(1)})
        self.assertEqual(span.events, [("note", START_NS + 1100, {"text": HOSTILE})])
        self.assertEqual(span.resource, {"service.name": "unknown_service", "process.pid": 4242})
        self.assertIn("no place for 1 event outside of spans", self.errors)

    def test_spans_without_a_trace_id_get_it_from_the_activity_of_the_outermost_span(self):
        trace = Source().start(1000, "/a", activity=1)
        trace.start(1100, "/b", thread=8, activity=2, related=1).stop(1200, thread=8, activity=2)
        trace.start(1300, "/c", activity=1).stop(1400, activity=1).stop(2000, activity=1)
        trace.start(3000, "/d").start(3100, "/e").stop(3200).stop(3300)
        spans = {span.attributes["path"]: span for span in self.convert(trace.end())}
        outer = spans["/a"]
        self.assertEqual(outer.trace, guid_text(1).replace("-", ""))
        for path in "/b", "/c":
            self.assertEqual((spans[path].trace, spans[path].parent), (outer.trace, outer.id))
        self.assertNotEqual(spans["/d"].trace, outer.trace)
        self.assertEqual((spans["/e"].trace, spans["/e"].parent),
                         (spans["/d"].trace, spans["/d"].id))

    def traced(self):
        """A trace whose events have the ids of a `traceparent`."""
        trace = v6.Trace(pairs=(("ProcessId", "70"), ("region", "eu"))).threads({"index": 0})
        trace.threads({"index": 1, "thread": 7, "process": 70, "name": "main"})
        trace.define(1, "Shop", "requestStart", 1).define(2, "Shop", "requestStop", 2)
        trace.define(3, "Shop", "queryStart", 3).define(4, "Shop", "queryStop", 4)
        return trace

    def test_ids_of_a_traceparent_are_those_of_the_span(self):
        trace = self.traced()
        trace_id, caller, own = bytes(range(1, 17)), bytes(range(32, 40)), bytes(range(48, 56))
        labels = [(1, uuid.UUID(bytes=trace_id).bytes_le),
                  (2, uuid.UUID(bytes=caller + own).bytes_le), (3, trace_id), (4, own[::-1])]
        trace.labels(1, [labels])
        for at, kind in enumerate((1, 3, 4, 2, 3, 4)):
            trace.events({"id": kind, "thread": 1, "ns": 10 * at, "labels": 1})
        rows = [json.loads(row) for row in self.run_tool(
            "report", self.write("t.nettrace", trace.end()), "events", "--format",
            "json")[0].splitlines()]
        self.assertEqual((rows[0]["trace_id"], rows[0]["span_id"]), (trace_id.hex(), own.hex()))
        query, request, later = self.convert(trace.bytes)
        self.assertEqual((request.trace, request.id, request.parent, request.kind),
                         (trace_id.hex(), own.hex(), caller.hex(), SERVER))
        for span in query, later:
            self.assertEqual((span.trace, span.parent, span.kind),
                             (trace_id.hex(), own.hex(), INTERNAL))
        self.assertEqual(request.resource["region"], "eu")
        self.assertEqual(request.attributes["thread.name"], "main")

    def test_a_related_span_of_another_trace_is_a_link(self):
        trace = Source().start(1000, "/a", activity=1).start(1100, "/b", thread=8, activity=2)
        trace.start(1200, "/c", thread=8, activity=2, related=1).stop(1300, thread=8, activity=2)
        trace.stop(1400, thread=8, activity=2).stop(1500, activity=1)
        spans = {span.attributes["path"]: span for span in self.convert(trace.end())}
        self.assertEqual((spans["/c"].parent, spans["/c"].links),
                         (spans["/b"].id, [(spans["/a"].trace, spans["/a"].id)]))

    def test_all_types_of_fields_are_attributes(self):
        payload, expected = v6.all_fields_payload()
        trace = self.traced().define(5, "Shop", "allStart", 5, v6.ALL_FIELDS)
        trace.define(6, "Shop", "allStop", 6, v6.ALL_FIELDS)
        trace.events({"id": 5, "thread": 1, "payload": payload},
                     {"id": 6, "thread": 1, "payload": payload, "ns": 5})
        span, = self.convert(trace.end())
        expected["u64"] = expected["vu"] = str(2**64 - 1)
        for key, value in expected.items():
            self.assertEqual(span.attributes[key], value, key)
            self.assertEqual(span.attributes[f"stop.{key}"], value, key)

    def test_a_payload_that_describes_itself_is_a_list_of_keys_and_values(self):
        (payload, fields), (cut, _) = v6.described_payload(), v6.described_payload(True)
        trace = self.traced().define(5, "Shop", "growStart", 5, v6.RAW_FIELDS)
        trace.define(6, "Shop", "growStop", 6, v6.RAW_FIELDS)
        trace.events({"id": 5, "thread": 1, "payload": payload},
                     {"id": 6, "thread": 1, "payload": cut, "ns": 5})
        span, = self.convert(trace.end())
        self.assertEqual((span.attributes["name"], span.attributes["payload"]), ("Grown", fields))
        self.assertEqual(span.attributes["stop.payload"],
                         dict(fields, **{"ringpipe.truncated": True}))

    def test_a_payload_without_described_fields_is_a_value_of_bytes(self):
        trace = self.traced()
        trace.events({"id": 1, "thread": 1, "payload": b"\1\xfe"},
                     {"id": 2, "thread": 1, "payload": b"\3", "ns": 5})
        span, = self.convert(trace.end())
        self.assertEqual((span.attributes["ringpipe.payload"],
                          span.attributes["stop.ringpipe.payload"]), ("01fe", "03"))

    def test_the_keys_of_attributes_are_unique(self):
        """Labels around a span, fields with one name, cut payloads, and resources."""
        trace = v6.Trace(pairs=(("service.name", "other"),)).threads({"index": 0})
        trace.threads({"index": 1, "thread": 7, "process": 70})
        fields = [("n", v6.U8), ("n", v6.U8), ("cut", v6.U64)]
        trace.define(1, "Shop", "requestStart", 1, fields)
        trace.define(2, "Shop", "requestStop", 2, fields)
        trace.labels(1, [[(5, v6.text("user") + v6.text("ada"))]])
        trace.events({"id": 1, "thread": 1, "labels": 1, "payload": b"\1\2"},
                     {"id": 2, "thread": 1, "labels": 1, "payload": b"\3\4", "ns": 5})
        span, = self.convert(trace.end())
        expected = {"n": 1, "field1.n": 2, "ringpipe.truncated": True, "label.user": "ada"}
        for key, value in expected.items():
            self.assertEqual(span.attributes[key], value, key)
        self.assertEqual((span.attributes["stop.n"], span.attributes["stop.field1.n"],
                          span.attributes["stop.label.user"]), (3, 4, "ada"))
        self.assertTrue(span.attributes["stop.ringpipe.truncated"])

    def test_fields_with_names_of_the_conventions_get_their_dots(self):
        trace = self.traced()
        fields = [("http_request_method", v6.U8), ("http_response_status_code", v6.U16),
                  ("url_path", v6.U8), ("url.path", v6.U8), ("http_other", v6.U8)]
        trace.define(5, "Shop", "callStart", 5, fields).define(6, "Shop", "callStop", 6, fields)
        payload = struct.pack("<BHBBB", 1, 503, 3, 4, 5)
        trace.events({"id": 5, "thread": 1, "payload": payload},
                     {"id": 6, "thread": 1, "payload": payload, "ns": 5})
        span, = self.convert(trace.end())
        for key, value in (("http.request.method", 1), ("http.response.status_code", 503),
                           ("url_path", 3), ("url.path", 4), ("http_other", 5)):
            self.assertEqual(span.attributes[key], value, key)
            self.assertEqual(span.attributes["stop." + key], value, key)
        self.assertTrue(span.is_error)

    def test_the_resource_has_what_the_process_published_last_and_the_host(self):
        published = [("published_ns", v6.U64), ("key", v6.STRING16), ("value", v6.STRING16)]
        utf16z = nettrace.utf16z

        def attribute(time, key, value, ns):
            return {"id": 8, "thread": 1, "ns": ns,
                    "payload": struct.pack("<Q", time) + utf16z(key) + utf16z(value)}
        trace = self.traced().define(8, "Ringpipe-Machine", "ProcessAttribute", 13, published)
        trace.define(9, "Ringpipe-Machine", "Machine", 8, [("host", v6.STRING16),
                                                           ("boot_id", v6.STRING16)])
        trace.events({"id": 1, "thread": 1}, {"id": 2, "thread": 1, "ns": 1},
                     {"id": 9, "thread": 1, "ns": 2, "payload": utf16z("one") + utf16z("boot")},
                     attribute(1, "service.name", "old", 3), attribute(1, "gone", "x", 4),
                     attribute(2, "service.name", HOSTILE, 5), attribute(2, "process.pid", "9", 6),
                     attribute(2, "region", "us", 7))
        span, = self.convert(trace.end())
        self.assertEqual(span.resource, {"service.name": HOSTILE, "process.pid": 70,
                                         "host.name": "one", "region": "us",
                                         "ProcessId": "70"})

    def test_what_the_process_published_keeps_its_type(self):
        fields = [("published_ns", v6.U64)] + [(name, v6.STRING16)
                                               for name in ("key", "value", "type")]
        trace = self.traced().define(8, "Ringpipe-Machine", "ProcessAttribute", 13, fields)
        rows = (("n", "-5", "int"), ("yes", "true", "bool"), ("half", "0.5", "double"),
                ("nan", "nan", "double"), ("text", "7", "string"), ("other", "7", "list"),
                ("word", "seven", "int"), ("big", "9223372036854775808", "int"),
                ("maybe", "maybe", "bool"), ("rest", "1x", "double"), ("none", "", "int"))
        trace.events({"id": 1, "thread": 1}, {"id": 2, "thread": 1, "ns": 1},
                     *({"id": 8, "thread": 1, "ns": 2, "payload": struct.pack("<Q", 1) + b"".join(
                         map(nettrace.utf16z, row))} for row in rows))
        span, = self.convert(trace.end())
        self.assertEqual({key: span.resource[key] for key, _, _ in rows},
                         {"n": -5, "yes": True, "half": 0.5, "nan": "NaN", "text": "7",
                          "other": "7", "word": "seven", "big": "9223372036854775808",
                          "maybe": "maybe", "rest": "1x", "none": ""})

    def test_numbers_that_json_lacks_are_strings(self):
        trace = self.traced().define(5, "Shop", "oddStart", 5, [("a", v6.F64), ("b", v6.F64)])
        trace.events({"id": 5, "thread": 1, "payload": struct.pack("<dd", float("nan"),
                                                                   -float("inf"))})
        span, = self.convert(trace.end())
        self.assertEqual((span.attributes["a"], span.attributes["b"]), ("NaN", "-Infinity"))
        self.assertIs(span.attributes["ringpipe.never_stopped"], True)

    def test_random_spans_are_trees_and_none_is_lost(self):
        for seed in range(10):
            chance, trace, ns, running, number = random.Random(seed), Source(), 1000, [], 0
            for _ in range(400):
                ns += chance.choice((0, 1, 50, -20 if seed % 2 else 3))
                if running and chance.random() < 0.5:
                    one, thread = running.pop(chance.choice((-1, -1, 0)))
                    trace.stop(ns, one, activity=one, thread=thread)
                else:
                    number += 1
                    thread = chance.randrange(1, 4)
                    related = chance.choice(running)[0] if running else 0
                    running.append((number, thread))
                    trace.start(ns, str(number), activity=number, thread=thread, related=related)
            spans = self.convert(trace.end())
            self.assertEqual(sorted(int(span.attributes["path"]) for span in spans),
                             list(range(1, number + 1)))
            known = {span.id: span for span in spans}
            for span in spans:
                self.assertLessEqual(span.start, span.end)
                if span.parent:
                    self.assertEqual(known[span.parent].trace, span.trace)

    def test_events_of_a_span_are_limited_and_counted(self):
        trace = Source().start(1000, activity=1)
        trace.activity = guid(1)
        trace.events(3, [nettrace.utf16z("x")] * 1500, ns=2000)
        span, = self.convert(trace.stop(9_000_000, activity=1).end())
        self.assertEqual((len(span.events), span.dropped_events), (1000, 500))

    def test_lines_have_one_process_and_provider_and_a_limited_number_of_spans(self):
        trace = v6.Trace().threads({"index": 0})
        trace.threads(*[{"index": at, "thread": at, "process": at % 3} for at in range(1, 7)])
        for at, name in enumerate(("Shop", "Bank")):
            trace.define(2 * at + 1, name, "workStart", 1).define(2 * at + 2, name, "workStop", 2)
        for at in range(2000):
            trace.events({"id": at % 2 * 2 + 1, "thread": at % 6 + 1, "ns": at * 10},
                         {"id": at % 2 * 2 + 2, "thread": at % 6 + 1, "ns": at * 10 + 5})
        spans = self.convert(trace.end())
        self.assertEqual(len(spans), 2000)
        for span in spans:
            self.assertEqual(span.resource["process.pid"], span.attributes["thread.id"] % 3)
        for line in self.read("out").splitlines():
            resource, = json.loads(line)["resourceSpans"]
            scope, = resource["scopeSpans"]
            self.assertLessEqual(len(scope["spans"]), 256)

    def test_an_empty_trace_is_an_empty_file_and_a_damaged_one_complete_up_to_there(self):
        self.assertEqual(self.convert(Source().end()), [])
        self.assertEqual(os.stat(self.path("out")).st_size, 0)
        trace = Source()
        for at in range(50):
            trace.start(1000 + 10 * at, str(at)).stop(1005 + 10 * at)
        data = trace.end()
        for cut in len(data) - 1, len(data) // 2:
            spans = self.convert(data[:cut], status=1)
            self.assertGreater(len(spans), 20)
            self.assertEqual([span.attributes["path"] for span in spans],
                             [str(at) for at in range(len(spans))])


if __name__ == "__main__":
    unittest.main()
