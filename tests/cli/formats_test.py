#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe convert --to FORMAT: each format is read by a reader that shares no code with it."""
import collections
import csv
import fcntl
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import termios
import unittest

import nettrace
import nettrace6 as v6
from tool import ToolTest

START, STOP, NOTE, COUNTER, ORDER = 1, 2, 3, 4, 5
HOSTILE = 'a"b\\c\n\x01\x7f\u0085</script><b>é€😀'


def guid(number):
    return struct.pack("<IHH8B", number, 0, 0, *[9] * 8) if number else bytes(16)


def guid_text(number):
    return f"{number:08x}-0000-0000-0909-090909090909"


class Source(nettrace.Trace):
    """A trace with the kinds of events that the tests need."""

    related = bytes(16)

    def __init__(self):
        super().__init__()
        self.define(START, "Shop", "requestStart", 1, [("path", nettrace.STRING)])
        self.define(STOP, "Shop", "requestStop", 2, [("status", nettrace.U32)])
        self.define(NOTE, "Shop", "note", 3, [("text", nettrace.STRING)])
        self.define(COUNTER, "Shop", "EventCounters", 4,
                    [("Name", nettrace.STRING), ("Series", nettrace.STRING),
                     ("CounterType", nettrace.STRING), ("Mean", 14)])
        self.define(ORDER, "Shop", "order", 5, [("id", nettrace.U64)])

    def _blob(self, *arguments, **more):
        """Set the related activity, which the base class leaves at zero."""
        blob = super()._blob(*arguments, **more)
        at = 4 + struct.calcsize("<IIqqIIq") + 16
        return blob[:at] + self.related + blob[at + 16:]

    def add(self, kind, ns, payload=b"", thread=7, activity=0, related=0):
        self.activity, self.related = guid(activity), guid(related)
        self.events(kind, [payload], thread=thread, ns=ns)
        self.activity = self.related = bytes(16)
        return self

    def start(self, ns, path="/", **more):
        return self.add(START, ns, nettrace.utf16z(path), **more)

    def stop(self, ns, status=200, **more):
        return self.add(STOP, ns, struct.pack("<I", status), **more)

    def note(self, ns, text, **more):
        return self.add(NOTE, ns, nettrace.utf16z(text), **more)

    def count(self, ns, name, value):
        text = [nettrace.utf16z(word) for word in (name, "Interval=1000", "Mean")]
        return self.add(COUNTER, ns, b"".join(text) + struct.pack("<d", value))


def ns_of(number):
    return round(number * 1000)


def merged():
    """A trace of two processes."""
    trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 7, "process": 70},
                               {"index": 2, "thread": 8, "process": 80})
    trace.define(1, "Shop", "note", 1)
    return trace.events({"id": 1, "thread": 1, "ns": 10}, {"id": 1, "thread": 2, "ns": 20}).end()


def message(lines):
    """Parse the text form of a message, as protoc prints it: {field: [values]}."""
    fields = collections.defaultdict(list)
    for line in lines:
        line = line.strip()
        if line == "}":
            break
        if line.endswith("{"):
            fields[line[:-1].strip()].append(message(lines))
            continue
        name, value = line.split(": ", 1)
        if value.startswith('"'):
            escaped = re.sub(r"\\([0-7]{3})|\\(.)", octal_escape, value[1:-1])
            fields[name].append(escaped.encode("latin-1").decode("utf-8", "strict"))
        elif re.fullmatch(r"-?\d+", value):
            fields[name].append(int(value))
        elif value in ("true", "false"):
            fields[name].append(value == "true")
        elif value.startswith("TYPE_"):
            fields[name].append(value)
        else:
            fields[name].append(float(value))
    return dict(fields)


def octal_escape(match):
    if match[1]:
        return chr(int(match[1], 8))
    return {"n": "\n", "r": "\r", "t": "\t"}.get(match[2], match[2])


class Formats(ToolTest):
    def convert(self, data, form, *options, status=0):
        path = self.write("t.nettrace", data)
        self.errors = self.run_tool("convert", path, "--to", form, "-f", "-o", "out", *options,
                                    status=status)[1]
        return self.read("out")

    def chrome(self, data, status=0):
        """Return the events of a file in Chrome's format, which is checked as a whole."""
        text = self.convert(data, "chrome", status=status)
        whole = json.loads(text.decode("utf-8", "strict"))
        self.check_chrome(whole["traceEvents"])
        return whole["traceEvents"]

    def check_chrome(self, events):
        """Spans of one thread nest, and asynchronous events and flows are pairs."""
        threads, pairs, flows = collections.defaultdict(list), {}, {}
        for event in events:
            phase = event["ph"]
            self.assertIn(phase, "XbeisfCM")
            if phase == "X":
                start = ns_of(event["ts"])
                self.assertGreaterEqual(event["dur"], 0)
                threads[event["pid"], event["tid"]].append((start, -ns_of(event["dur"])))
            elif phase in "be":
                pairs.setdefault((event["cat"], event["id"]), []).append(event)
            elif phase in "sf":
                flows.setdefault(event["id"], []).append(event)
        for spans in threads.values():
            open_ends = []
            for start, negative in sorted(spans):
                end = start - negative
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1])
                open_ends.append(end)
        for pair in pairs.values():
            self.assertEqual([event["ph"] for event in pair], ["b", "e"])
            self.assertLessEqual(pair[0]["ts"], pair[1]["ts"])
            self.assertEqual(pair[0]["name"], pair[1]["name"])
        for pair in flows.values():
            self.assertEqual([event["ph"] for event in pair], ["s", "f"])
            self.assertEqual(pair[1]["bp"], "e")
            self.assertEqual(pair[0]["ts"], pair[1]["ts"])

    @staticmethod
    def of(events, phases):
        return [event for event in events if event["ph"] in phases]

    def test_nested_spans_of_one_thread_are_complete_events_with_their_fields(self):
        trace = Source().start(1000, "/a").start(1200, "/b").stop(1500, 201).stop(2000, 202)
        inner, outer = self.chrome(trace.end())
        self.assertEqual((inner["ph"], outer["ph"]), ("X", "X"))
        self.assertEqual((outer["name"], outer["cat"], outer["pid"], outer["tid"]),
                         ("request", "Shop", 4242, 7))
        self.assertEqual((inner["ts"], inner["dur"], outer["ts"], outer["dur"]),
                         (1.2, 0.3, 1.0, 1.0))
        self.assertEqual(outer["args"], {"fields": {"path": "/a"}, "stop_fields": {"status": 202}})
        self.assertEqual(inner["args"], {"fields": {"path": "/b"}, "stop_fields": {"status": 201}})

    def test_spans_that_overlap_or_change_the_thread_are_asynchronous(self):
        trace = Source()
        trace.start(1000, activity=1).start(1100, activity=2).stop(1200, activity=1)
        trace.stop(1300, activity=2)
        trace.start(2000, activity=3).stop(2500, thread=8, activity=3)
        events = self.chrome(trace.end())
        self.assertEqual([(event["ph"], ns_of(event["ts"]), event["tid"]) for event in events],
                         [("b", 1000, 7), ("e", 1200, 7), ("X", 1100, 7), ("b", 2000, 7),
                          ("e", 2500, 7)])
        self.assertEqual(events[3]["args"]["stop_thread_id"], 8)
        self.assertEqual(events[3]["args"]["activity"], guid_text(3))

    def test_random_spans_nest_and_none_is_lost(self):
        for seed in range(20):
            chance, trace, ns = random.Random(seed), Source(), 1000
            number, running, stopped = 0, [], 0
            for _ in range(500):
                ns += chance.choice((0, 1, 50, 50, -20 if seed % 2 else 3))
                if running and chance.random() < 0.5:
                    at = -1 if chance.random() < 0.7 else chance.randrange(len(running))
                    one, thread = running.pop(at)
                    if chance.random() < 0.2:
                        thread = chance.randrange(1, 5)
                    trace.stop(ns, one, activity=one, thread=thread)
                    stopped += 1
                else:
                    number += 1
                    thread = chance.randrange(1, 5)
                    running.append((number, thread))
                    trace.start(ns, str(number), activity=number, thread=thread)
            spans = self.of(self.chrome(trace.end()), "Xb")
            self.assertEqual(sorted(int(span["args"]["fields"]["path"]) for span in spans),
                             list(range(1, number + 1)))
            ended = [span["args"] for span in spans if "stop_fields" in span["args"]]
            self.assertEqual(len(ended), stopped)
            for args in ended:
                self.assertEqual(args["stop_fields"]["status"], int(args["fields"]["path"]))
            self.assertEqual(sum("never_stopped" in span["args"] for span in spans), len(running))
            self.assertGreater(len(self.of(spans, "X")), 0)

    def test_a_flow_leads_from_the_parent_to_a_child_on_another_thread(self):
        trace = Source().start(1000, activity=1)
        trace.start(1100, thread=8, activity=2, related=1).stop(1200, thread=8, activity=2)
        trace.start(1300, activity=3, related=1).stop(1400, activity=3)
        trace.stop(2000, activity=1)
        flow = self.of(self.chrome(trace.end()), "sf")
        self.assertEqual([(event["ph"], event["tid"], ns_of(event["ts"])) for event in flow],
                         [("s", 7, 1100), ("f", 8, 1100)])

    def test_a_flow_leads_to_another_process(self):
        trace = v6.Trace().threads({"index": 0})
        trace.threads({"index": 1, "thread": 7, "process": 70, "name": "main"},
                      {"index": 2, "thread": 8, "process": 80, "name": "wo\"rker"})
        trace.define(1, "Shop", "requestStart", 1).define(2, "Shop", "requestStop", 2)
        trace.define(3, "Universal.System", "ExistingProcess", 0)
        trace.labels(1, [[(1, guid(1))], [(1, guid(2)), (2, guid(1))]])
        name = b"\1" + struct.pack("<H", 4) + b"shop" + struct.pack("<H", 0)
        trace.events({"id": 3, "thread": 1, "ns": 5, "payload": name},
                     {"id": 1, "thread": 1, "ns": 10, "labels": 1},
                     {"id": 1, "thread": 2, "ns": 20, "labels": 2},
                     {"id": 2, "thread": 2, "ns": 30, "labels": 2},
                     {"id": 2, "thread": 1, "ns": 40, "labels": 1})
        events = self.chrome(trace.end())
        self.assertEqual([(event["ph"], event["pid"]) for event in self.of(events, "sf")],
                         [("s", 70), ("f", 80)])
        names = {(event["name"], event["pid"], event.get("tid")): event["args"]["name"]
                 for event in self.of(events, "M")}
        self.assertEqual(names, {("process_name", 70, None): "shop",
                                 ("thread_name", 70, 7): "main",
                                 ("thread_name", 80, 8): 'wo"rker'})

    def test_counters_are_counter_tracks_and_other_events_instants(self):
        trace = Source().count(1000, "queue", 1.5).note(1500, "x", activity=5)
        trace.count(2000, "queue", 2.25)
        events = self.chrome(trace.end())
        counters = self.of(events, "C")
        self.assertEqual([(event["name"], ns_of(event["ts"]), event["args"])
                          for event in counters],
                         [("Shop/queue", 1000, {"value": 1.5}),
                          ("Shop/queue", 2000, {"value": 2.25})])
        note, = self.of(events, "i")
        self.assertEqual((note["name"], note["cat"], note["tid"], note["args"]),
                         ("note", "Shop", 7,
                          {"fields": {"text": "x"}, "activity": guid_text(5)}))

    def test_strings_of_a_hostile_trace_stay_strings(self):
        trace = Source().note(1000, HOSTILE).start(1100, HOSTILE).stop(1200)
        trace.add(NOTE, 1300, b"\x00\xd8x\0\0\0")
        data = trace.end()
        note, span, broken = self.chrome(data)
        self.assertEqual(note["args"]["fields"]["text"], HOSTILE)
        self.assertEqual(span["args"]["fields"]["path"], HOSTILE)
        self.assertEqual(broken["args"]["fields"]["text"], "\ufffdx")
        self.assertNotIn(b"<", self.read("out"))
        utf8 = v6.Trace().threads({"index": 0})
        utf8.threads({"index": 1, "thread": 5, "process": 4, "name": b"\xff<"})
        utf8.define(1, b"Sh\xffop", b"no\xfete", 1, (("text", (v6.ARRAY, v6.CHAR8)),))
        utf8.events({"id": 1, "thread": 1, "payload": b"\4\0a\xc3(\xff"})
        name, event = self.chrome(utf8.end())
        self.assertEqual(name["args"]["name"], "\ufffd<")
        self.assertEqual((event["cat"], event["name"], event["args"]["fields"]["text"]),
                         ("Sh\ufffdop", "no\ufffdte", "a\ufffd(\ufffd"))

    def test_integers_that_no_double_holds_are_strings(self):
        trace = Source()
        for at, number in enumerate((0, 2**53, 2**53 + 1, 2**64 - 1)):
            trace.add(ORDER, 1000 + at, struct.pack("<Q", number))
        self.assertEqual([event["args"]["fields"]["id"] for event in self.chrome(trace.end())],
                         [0, 2**53, str(2**53 + 1), str(2**64 - 1)])

    def test_all_types_of_fields_have_the_values_of_report(self):
        payload, _ = v6.all_fields_payload()
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5})
        trace.define(1, "Shop", "all", 5, v6.ALL_FIELDS)
        trace.events({"id": 1, "thread": 1, "payload": payload})
        trace.events({"id": 1, "thread": 1, "ns": 9, "payload": payload[:-3]})
        events = self.chrome(trace.end())
        lines = self.run_tool("report", "t.nettrace", "events", "--format=json")[0].splitlines()
        self.assertEqual(len(events), 2)
        for event, line in zip(events, lines):
            expected = json.loads(line)["fields"]
            ours = event["args"]["fields"]
            self.assertEqual(list(ours), list(expected))
            for key, value in expected.items():
                if isinstance(value, int) and abs(value) > 2**53:
                    value = str(value)
                if not isinstance(value, str) or not value.endswith("Z"):
                    self.assertEqual(ours[key], value, key)

    def test_a_damaged_trace_is_complete_up_to_the_damage(self):
        trace = Source().start(1000, "/a")
        for at in range(50):
            trace.note(2000 + at, str(at))
        data = trace.end()
        for cut in (len(data) - 1, len(data) - 30, len(data) // 2):
            events = self.chrome(data[:cut], status=1)
            self.assertIn("has the events before that", self.errors)
            self.assertIn("never_stopped", self.of(events, "X")[0]["args"])
            notes = [int(event["args"]["fields"]["text"]) for event in self.of(events, "i")]
            self.assertEqual(notes, list(range(len(notes))))
            self.assertGreater(len(notes), 10)
        chance = random.Random(18)
        for _ in range(40):
            broken = bytearray(data)
            broken[chance.randrange(300, len(data))] ^= 1 << chance.randrange(8)
            path = self.write("t.nettrace", bytes(broken))
            process = self.start("convert", path, "--to", "chrome", "-f", "-o", "out")
            process.communicate()
            self.assertIn(process.returncode, (0, 1))
            self.check_chrome(json.loads(self.read("out"))["traceEvents"])

    def test_traces_of_no_event_and_of_one(self):
        self.assertEqual(self.chrome(Source().end()), [])
        self.assertEqual(len(self.chrome(Source().note(1000, "x").end())), 1)

    def test_a_clock_that_goes_backwards_leaves_no_negative_duration(self):
        trace = Source().start(5000, activity=1).stop(1000, activity=1)
        trace.start(3000, activity=2).stop(4000, activity=2)
        self.assertEqual(len(self.of(self.chrome(trace.end()), "Xb")), 2)

    def test_a_full_disk_is_reported_and_leaves_no_file(self):
        trace = Source()
        for at in range(100):
            trace.note(1000 + at, "x" * 10000)
        path = self.write("t.nettrace", trace.end())
        process = self.start("convert", path, "--to", "chrome", "-o", "out", preexec_fn=lambda:
                             resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000)))
        self.assertIn("cannot write out", self.finish(process, 1)[1])
        self.assertFalse(os.path.exists(self.path("out")))

    def test_ctrl_c_leaves_what_was_converted(self):
        trace = Source()
        for at in range(50):
            trace.note(1000 + at, str(at))
        os.mkfifo(self.path("pipe"))
        process = self.start("convert", "pipe", "--to", "chrome", "-q", "-o", "out")
        with open(self.path("pipe"), "wb") as pipe:
            pipe.write(trace.bytes)
            pipe.flush()
            # The command has taken all bytes once the pipe is empty again.
            self.wait_until(lambda: os.path.exists(self.path("out")) and self.is_drained(pipe))
            process.send_signal(signal.SIGINT)
            self.assertIn("stopped", self.finish(process, 130)[1])
        notes = json.loads(self.read("out"))["traceEvents"]
        self.assertEqual([event["args"]["fields"]["text"] for event in notes],
                         [str(at) for at in range(50)])

    @staticmethod
    def is_drained(pipe):
        waiting = bytearray(4)
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        return waiting == bytes(4)

    def test_the_output_is_not_overwritten_and_may_be_standard_output(self):
        path = self.write("t.nettrace", Source().note(1000, "x").end())
        self.write("out", b"mine")
        errors = self.run_tool("convert", path, "--to", "chrome", "-o", "out", status=1)[1]
        self.assertIn("exists already", errors)
        self.assertEqual(self.read("out"), b"mine")
        out = self.run_tool("convert", path, "--to", "chrome", "-o", "-", "-q")[0]
        self.assertEqual(len(json.loads(out)["traceEvents"]), 1)
        errors = self.run_tool("convert", path, "--to", "etl", "-f", "-o", "out", status=2)[1]
        self.assertIn("--to etl is unknown; the formats are chrome", errors)

    def test_json_lines_and_csv_are_the_rows_of_report(self):
        trace = Source().start(1000, HOSTILE, activity=1).note(1500, HOSTILE)
        trace.stacks(1, [[1, 2, 3]]).events(ORDER, [struct.pack("<Q", 2**64 - 1)], stack=1)
        trace.count(1800, "queue", 1.5).stop(2000, activity=1)
        rows = [json.loads(line) for line in self.convert(trace.end(), "jsonl").splitlines()]
        self.assertEqual([row["event"] for row in rows],
                         ["requestStart", "note", "order", "EventCounters", "requestStop"])
        self.assertEqual([rows[0]["time_ns"], rows[0]["thread_id"], rows[0]["provider"],
                          rows[0]["activity"], rows[0]["fields"]],
                         [1000, 7, "Shop", guid_text(1), {"path": HOSTILE}])
        self.assertEqual((rows[2]["fields"]["id"], rows[2]["stack"]),
                         (2**64 - 1, ["0x1", "0x2", "0x3"]))
        for form, given in ("jsonl", "json"), ("csv", "csv"):
            out = self.convert(trace.bytes, form).decode()
            self.assertEqual(out, self.run_tool("report", "t.nettrace", "events", "--all",
                                                "--format", given)[0])
        table = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([json.loads(row["fields"]) for row in table],
                         [row["fields"] for row in rows])
        # A process of its own for each thread.
        for data in (trace.bytes[:-40], merged()):
            whole = data != trace.bytes[:-40]
            self.assertEqual(
                self.convert(data, "jsonl", status=0 if whole else 1).decode(),
                self.run_tool("report", "t.nettrace", "events", "--all", "--format", "json",
                              status=0 if whole else 1)[0])

    def perfetto(self, data, status=0):
        """Return the packets of a file in Perfetto's format, which is checked as a whole."""
        if not shutil.which("protoc"):
            self.skipTest("protoc is missing")
        trace = self.convert(data, "perfetto", status=status)
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(["protoc", "-I", here, "--decode=perfetto.protos.Trace",
                               os.path.join(here, "perfetto.proto")], input=trace, check=True,
                              stdout=subprocess.PIPE, timeout=60)
        packets = message(iter(done.stdout.decode().splitlines())).get("packet", [])
        self.check_perfetto(packets)
        return packets

    def check_perfetto(self, packets):
        """Play the packets as Perfetto does: by time, slices as a stack for each track. The list
        `slices` then has (name, category, start, stop, track, begin event, end event)."""
        self.tracks, names, categories, self.slices, self.instants = {}, {}, {}, [], []
        self.counts, events = [], []
        for packet in packets:
            self.assertEqual(packet["trusted_packet_sequence_id"], [1])
            for unknown in packet:
                self.assertFalse(unknown.isdigit(), packet)
            for interned in packet.get("interned_data", []):
                for table, key in ((names, "event_names"), (categories, "event_categories")):
                    table.update((row["iid"][0], row["name"][0]) for row in interned[key])
            for track in packet.get("track_descriptor", []):
                parent = track.get("parent_uuid", [None])[0]
                self.assertTrue(parent is None or parent in self.tracks)
                self.tracks[track["uuid"][0]] = track
            for event in packet.get("track_event", []):
                self.assertIn(event["track_uuid"][0], self.tracks)
                event["text"] = event.get("name", [None])[0] or names.get(
                    event.get("name_iid", [0])[0])
                event["category"] = categories.get(event.get("category_iids", [0])[0])
                events.append((packet["timestamp"][0], event))
        stacks = collections.defaultdict(list)
        for time, event in sorted(events, key=lambda one: one[0]):
            stack, kind = stacks[event["track_uuid"][0]], event["type"][0]
            if kind == "TYPE_SLICE_BEGIN":
                stack.append((time, event))
            elif kind == "TYPE_SLICE_END":
                start, begin = stack.pop()
                self.slices.append((begin["text"], begin["category"], start, time,
                                    event["track_uuid"][0], begin, event))
            elif kind == "TYPE_INSTANT":
                self.instants.append((time, event))
            else:
                self.counts.append((time, event))
        self.assertEqual([stack for stack in stacks.values() if stack], [])

    @staticmethod
    def annotations(event):
        values = {}
        for one in event.get("debug_annotations", []):
            value, = [one[key][0] for key in one if key != "name"]
            values[one["name"][0]] = value
        return values

    def test_perfetto_has_spans_as_slices_with_their_fields(self):
        trace = Source().start(1000, HOSTILE).start(1200, "/b").note(1300, HOSTILE, activity=5)
        trace.stop(1500, 201).stop(2000, 202).start(3000, "open")
        packets = self.perfetto(trace.end())
        clocks = packets[0]["clock_snapshot"][0]["clocks"]
        self.assertEqual([clock["clock_id"][0] for clock in clocks], [6, 1])
        base = clocks[0]["timestamp"][0]
        self.assertEqual(base, 1_000_000)
        self.assertEqual([(name, category, start - base, stop - base)
                          for name, category, start, stop, *_ in self.slices],
                         [("request", "Shop", 1200, 1500), ("request", "Shop", 1000, 2000),
                          ("request", "Shop", 3000, 3000)])
        self.assertEqual([(self.annotations(begin).get("path"),
                           self.annotations(end).get("status"))
                          for *_, begin, end in self.slices],
                         [("/b", 201), (HOSTILE, 202), ("open", None)])
        self.assertTrue(self.annotations(self.slices[2][5])["never_stopped"])
        track = self.tracks[self.slices[0][4]]
        self.assertEqual(track["thread"], [{"pid": [4242], "tid": [7]}])
        (_, note), = self.instants
        self.assertEqual((note["text"], self.annotations(note)),
                         ("note", {"text": HOSTILE, "activity": guid_text(5)}))

    def test_formats_have_the_fields_of_a_payload_that_describes_itself(self):
        data, fields = v6.described_trace()
        whole, cut, other = fields, dict(fields, **{"…truncated": True}), "0102"
        expected = [{"name": "Grown", "payload": each} for each in (whole, cut, other)]
        for form in "jsonl", "csv":
            text = self.convert(data, form).decode()
            rows = csv.DictReader(io.StringIO(text)) if form == "csv" else \
                map(json.loads, text.splitlines())
            self.assertEqual([json.loads(row["fields"]) if form == "csv" else row["fields"]
                              for row in rows], expected)
        # Programs in JavaScript read these: no double has the number.
        script = [{**each, "payload": {**each["payload"], "total": str(2**53 + 1)}}
                  for each in expected[:2]]
        self.assertEqual([event["args"]["fields"] for event in self.chrome(data)],
                         script + expected[2:])
        markers = json.loads(self.convert(data, "firefox"))["threads"][0]["markers"]["data"]
        self.assertEqual([json.loads(marker["field.payload"]) for marker in markers[:2]],
                         [each["payload"] for each in script])
        self.perfetto(data)
        for (_, event), each in zip(self.instants, (whole, cut)):
            payload = event["debug_annotations"][1]
            self.assertEqual(self.annotations({"debug_annotations": payload["dict_entries"]}), each)
        self.assertEqual(self.annotations(self.instants[2][1])["payload"], other)

    def test_formats_have_the_bytes_of_a_payload_without_described_fields(self):
        trace = Source().define(9, "Shop", "raw", 9, []).define(10, "Shop", "none", 10, [])
        data = trace.events(9, [b"\1\xfe"]).events(10, [b""]).end()
        expected = [{"…payload": "01fe"}, {}]
        self.assertEqual([json.loads(row)["fields"] for row in
                          self.convert(data, "jsonl").decode().splitlines()], expected)
        self.assertEqual([json.loads(row["fields"]) for row in csv.DictReader(io.StringIO(
            self.convert(data, "csv").decode()))], expected)
        self.assertEqual([event["args"].get("fields", {}) for event in self.chrome(data)], expected)
        profile = json.loads(self.convert(data, "firefox"))
        self.assertEqual([marker.get("field.…payload") for marker in
                          profile["threads"][0]["markers"]["data"]], ["01fe", None])
        self.assertIn("field.…payload", json.dumps(profile["meta"]["markerSchema"],
                                                   ensure_ascii=False))
        self.perfetto(data)
        self.assertEqual([self.annotations(event) for _, event in self.instants], expected)

    def test_perfetto_has_random_spans_whole(self):
        for seed in range(10):
            chance, trace, ns, running, known = random.Random(seed), Source(), 1000, [], {}
            for number in range(1, 200):
                ns += chance.choice((0, 1, 50, -20 if seed % 2 else 3))
                thread = chance.randrange(1, 4)
                trace.start(ns, str(number), activity=number, thread=thread)
                running.append(number)
                known[str(number)] = [ns, None]
                while running and chance.random() < 0.5:
                    ns += chance.choice((0, 1, 50))
                    one = running.pop(chance.choice((-1, -1, 0)))
                    trace.stop(ns, one, activity=one, thread=chance.choice((thread, thread, 1)))
                    known[str(one)][1] = max(ns, known[str(one)][0])
            packets = self.perfetto(trace.end())
            base = packets[0]["clock_snapshot"][0]["clocks"][0]["timestamp"][0]
            found = {}
            for _, _, start, stop, _, begin, end in self.slices:
                path = self.annotations(begin)["path"]
                status = self.annotations(end).get("status")
                found[path] = [start - base, stop - base if status is not None else None]
                self.assertIn(status, (int(path), None))
            self.assertEqual(found, known)

    def test_perfetto_has_flows_counters_and_names(self):
        trace = Source().start(1000, activity=1).count(1050, "queue", 1.5)
        trace.start(1100, thread=8, activity=2, related=1).stop(1200, thread=8, activity=2)
        trace.stop(2000, thread=9, activity=1)
        self.perfetto(trace.end())
        begin = self.slices[0][5]
        self.assertEqual(begin["terminating_flow_ids"], self.instants[0][1]["flow_ids"])
        self.assertEqual(self.tracks[self.slices[1][4]]["name"], ["request"])
        (_, count), = self.counts
        self.assertEqual(count["double_counter_value"], [1.5])
        self.assertEqual(self.tracks[count["track_uuid"][0]]["name"], ["Shop/queue"])
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 2**40, "name": "far"},
                                   {"index": 2, "thread": 9, "process": 5, "name": b"m\xffn"})
        trace.define(1, "Shop", "all", 5, v6.ALL_FIELDS)
        payload, _ = v6.all_fields_payload()
        self.perfetto(trace.events({"id": 1, "thread": 1, "payload": payload},
                                   {"id": 1, "thread": 2, "payload": payload[:9]}).end())
        first, second = [event for _, event in self.instants]
        self.assertEqual(len(first["debug_annotations"]), len(v6.ALL_FIELDS))
        self.assertTrue(self.annotations(second)["…truncated"])
        self.assertEqual(self.tracks[first["track_uuid"][0]]["name"], ["far"])
        self.assertEqual(self.tracks[second["track_uuid"][0]]["thread"],
                         [{"pid": [5], "tid": [9], "thread_name": ["m\ufffdn"]}])

    def test_perfetto_of_a_damaged_trace_is_complete_up_to_the_damage(self):
        trace = Source().start(1000, "/a")
        for at in range(50):
            trace.note(2000 + at, str(at))
        data = trace.end()
        self.perfetto(data[:len(data) // 2], status=1)
        self.assertEqual([self.annotations(event)["text"] for _, event in self.instants],
                         [str(at) for at in range(len(self.instants))])
        self.assertGreater(len(self.instants), 10)
        self.assertEqual(len(self.slices), 1)


if __name__ == "__main__":
    unittest.main()
