#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe convert --to ctf: babeltrace2 reads the folder, and this test reads its text."""
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

import formats_test
import nettrace
import nettrace6 as v6
from tool import ToolTest

HOSTILE = 'a"b\\c\n\t\x01\x7f\u0085}, { <é€😀 = [ '
NAMES = ("int", "struct", "_x", "__x", "x_len", "_s_len", "__s_len", "1a", "é", "a b", 'a"b',
         "event", "stream", "y" * 300, "y" * 301, "timestamp", "a.b", "a-b", "integer", "A\n")


class Text:
    """Reads a value in the text that babeltrace2 prints."""

    ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
               "e": "\x1b"}

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, expected):
        assert self.text.startswith(expected, self.at), (expected, self.text[self.at:])
        self.at += len(expected)

    def sees(self, text):
        return self.text.startswith(text, self.at)

    def value(self):
        if self.sees("{"):
            return {key: value for key, value in self.members("{ ", " }")
                    if not re.fullmatch("__.*_len", key)}
        if self.sees("["):
            return [value for _, value in self.members("[ ", " ]")]
        if self.sees('"'):
            return self.string()
        number = re.compile(r"[^ ,}\]]+").match(self.text, self.at)[0]
        self.at += len(number)
        return int(number, 0) if re.fullmatch(r"-?\d+|0x[0-9A-Fa-f]+", number) else float(number)

    def members(self, begin, end):
        self.take(begin)
        found = []
        while not self.sees(end.strip()):
            if found:
                self.take(", ")
            key = self.text[self.at:self.text.index(" = ", self.at)]
            self.at += len(key) + 3
            found.append((key, self.value()))
            if self.sees(" "):
                self.take(" ")
        self.take(end.strip())
        return found

    def string(self):
        out = ""
        self.take('"')
        while not self.sees('"'):
            character = self.text[self.at]
            self.at += 1
            if character == "\\":
                code = self.text[self.at]
                self.at += 1
                if code == "x":
                    code = chr(int(self.text[self.at:self.at + 2], 16))
                    self.at += 2
                character = self.ESCAPES.get(code, code)
            out += character
        self.take('"')
        return out


def same_value(expected, found):
    """Whether a field of CTF has the value that report prints as JSON."""
    if isinstance(found, list) and isinstance(expected, str):
        return bytes(found).hex() == expected
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(same_value, expected, found))
    if isinstance(expected, dict):
        return len(expected) == len(found) and all(map(same_value, expected.values(),
                                                       found.values()))
    if isinstance(found, dict):
        return same_value(expected, found["elements"])
    if isinstance(found, float):
        return expected is None or abs(expected - found) <= 1e-5 * abs(expected)
    # A string of CTF cannot have a NUL.
    return (expected.replace("\0", "\ufffd") if isinstance(found, str) else expected) == found


class Ctf(ToolTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("babeltrace2"):
            self.skipTest("babeltrace2 is missing")
        self.write("e.nettrace", v6.Trace().end())
        done = subprocess.run([os.environ["RINGPIPE"], "convert", "e.nettrace", "--to", "ctf",
                               "-o", "probe"], cwd=self.directory, stderr=subprocess.PIPE,
                              text=True, check=False)
        if "needs libbabeltrace2" in done.stderr:
            self.skipTest("ringpipe is built without libbabeltrace2")

    def read_folder(self, folder="out"):
        """Return the events as (ns since 1970, name, context, fields), and the warnings."""
        done = subprocess.run(["babeltrace2", "--clock-seconds", self.path(folder)], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        events = []
        for line in done.stdout.decode("utf-8", "strict").split("\n"):
            if not line:
                continue
            time, name, rest = re.fullmatch(
                r"\[(-?\d+\.\d{9})\] \([^)]*\) (.*?): (\{ process_id = .*)", line).groups()
            text = Text(rest)
            context = text.value()
            text.take(", ")
            events.append((int(time.replace(".", "")), name, context, text.value()))
            self.assertEqual(text.at, len(rest))
        return events, done.stderr.decode()

    def convert(self, data, *options, status=0):
        path = self.write("t.nettrace", data)
        shutil.rmtree(self.path("out"), ignore_errors=True)
        self.errors = self.run_tool("convert", path, "--to", "ctf", "-o", "out", *options,
                                    status=status)[1]
        return self.read_folder()[0]

    def report(self, status=0):
        rows = self.run_tool("report", "t.nettrace", "events", "--all", "--format", "json",
                             status=status)[0]
        return [json.loads(row) for row in rows.splitlines()]

    def check_row(self, row, event, start_ns):
        ns, name, context, fields = event
        self.assertEqual(ns - start_ns, row["time_ns"])
        self.assertEqual(name, f"{row['provider']}:{row['event'] or 'event %d' % row['id']}")
        self.assertEqual(context["thread_id"], row["thread_id"])
        self.assertEqual(context["cpu_id"], -1 if row["processor"] is None else row["processor"])
        self.assertEqual(context["event_id"], row["id"])
        for key in "activity", "related_activity", "trace_id", "span_id":
            self.assertEqual(context[key], row.get(key, ""))
        self.assertEqual({label["key"]: label["text"] or label["number"]
                          for label in context["labels"]}, row.get("labels", {}))
        self.assertEqual([hex(frame) for frame in context["stack"]], row.get("stack", []))
        expected = row["fields"]
        if fields == {"payload": []}:
            fields = {}
        self.assertEqual(context["truncated"], "…truncated" in expected)
        if context["truncated"]:
            del expected["…truncated"]
            fields = dict(list(fields.items())[:len(expected)])
        self.assertEqual(len(fields), len(expected))
        for (key, value), found in zip(expected.items(), fields.values()):
            self.assertTrue(same_value(value, found), (key, value, found))

    def check_rows(self, data, status=0):
        """Compare the events with those of report. Both are put in the order of time."""
        events = self.convert(data, status=status)
        rows = self.report(status)
        self.assertEqual(len(events), len(rows))
        if rows:
            first = min(range(len(rows)), key=lambda at: rows[at]["time_ns"])
            start_ns = events[0][0] - rows[first]["time_ns"]
            for row, event in zip(sorted(rows, key=lambda row: row["time_ns"]), events):
                self.check_row(row, event, start_ns)
        return events

    def test_all_types_of_fields_have_the_values_of_report(self):
        payload, _ = v6.all_fields_payload()
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5, "process": 70,
                                                  "name": "worker"})
        trace.define(1, "Shop", "all", 5, v6.ALL_FIELDS)
        trace.events({"id": 1, "thread": 1, "payload": payload},
                     {"id": 1, "thread": 1, "ns": 9, "payload": payload[:-3]},
                     {"id": 1, "thread": 1, "ns": 10, "payload": payload[:90]},
                     {"id": 1, "thread": 1, "ns": 11})
        events = self.check_rows(trace.end())
        fields, context = events[0][3], events[0][2]
        self.assertEqual(list(fields), [name for name, _ in v6.ALL_FIELDS])
        self.assertEqual((context["process_id"], context["thread_name"]), (70, "worker"))
        self.assertEqual(events[3][3]["text"], "")

    def test_the_fields_of_a_payload_that_describes_itself_are_a_text(self):
        data, fields = v6.described_trace()
        whole, cut, other = [event[3] for event in self.convert(data)]
        self.assertEqual((whole["name"], json.loads(whole["fields"])), ("Grown", fields))
        self.assertEqual(bytes(whole["payload"])[:3], b"\x89RP")
        self.assertEqual(json.loads(cut["fields"]), dict(fields, **{"…truncated": True}))
        self.assertEqual((other["payload"], other["fields"]), ([1, 2], ""))

    def test_a_payload_without_described_fields_is_a_sequence_of_bytes(self):
        trace = nettrace.Trace().define(1, "Shop", "raw", 1, []).define(2, "Shop", "none", 2, [])
        trace.events(1, [b"\1\xfe"]).events(2, [b""])
        events = self.check_rows(trace.end())
        self.assertEqual([event[3]["payload"] for event in events], [[1, 254], []])

    def test_times_are_exact_and_count_from_1970(self):
        trace = nettrace.Trace().define(1, "Shop", "note", 1, [("n", nettrace.U64)])
        trace.events(1, [struct.pack("<Q", 5)], ns=123_456_789)
        (ns, name, context, fields), = self.check_rows(trace.end())
        # 2026-11-21 01:02:03.004 UTC
        self.assertEqual(ns, 1_795_222_923_004_000_000 + 123_456_789)
        self.assertEqual((name, fields, context["level"], context["keywords"]),
                         ("Shop:note", {"n": 5}, 4, 1))

    def test_hostile_names_and_texts_leave_a_trace_that_babeltrace2_reads(self):
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5, "name": b"\xff<\""})
        trace.define(1, 'Sh"op\\: { é', "al%s'l", 5,
                     [(name, v6.U8) for name in NAMES] + [("s", (v6.ARRAY, v6.U32))])
        trace.define(2, "", "", 7, [("text", (v6.ARRAY, v6.CHAR8))])
        trace.define(3, b"\xff\x01", b"\n", 8, [])
        text = HOSTILE.encode()
        trace.events({"id": 1, "thread": 1, "payload": bytes(range(len(NAMES))) + bytes(2)},
                     {"id": 2, "thread": 1, "payload": struct.pack("<H", len(text)) + text},
                     {"id": 2, "thread": 1, "payload": b"\3\0\xff\0x"})
        data = bytes(trace.bytes)
        events = self.convert(trace.events({"id": 3, "thread": 1}).end())
        self.assertEqual([event[1] for event in events],
                         ['Sh"op\\: { é:al%s\'l', ":event 7", ":event 7", "\ufffd\ufffd:\ufffd"])
        trace.bytes = data
        events = self.check_rows(trace.end())
        self.assertEqual(list(events[0][3].values()), [*range(len(NAMES)), []])
        for name in events[0][3]:
            self.assertRegex(name, "^[A-Za-z][A-Za-z0-9_]*$")
        self.assertEqual(events[1][3]["text"], HOSTILE)
        self.assertEqual(events[2][3]["text"], "\ufffd\ufffdx")

    def test_each_processor_has_a_stream_and_a_clock_that_goes_back_another_one(self):
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5})
        trace.define(1, "Shop", "note", 1, [("n", v6.U32)])
        chance, rows = random.Random(3), []
        for at in range(2000):
            ns = at * 10 - (500 if at % 97 == 50 else 0)
            rows.append({"id": 1, "thread": 1, "cpu": chance.choice((0, 1, 2, 3, 2**31)),
                         "ns": max(ns, 0), "payload": struct.pack("<I", at)})
        for row in rows:
            trace.events(row, compressed=False)
        events = self.convert(trace.end())
        self.assertEqual(self.errors.count("another time"), 0)
        self.assertEqual({event[3]["n"]: (event[0] - events[0][0], event[2]["cpu_id"])
                          for event in events},
                         {at: (row["ns"], row["cpu"]) for at, row in enumerate(rows)})
        streams = [name for name in os.listdir(self.path("out")) if name != "metadata"]
        self.assertIn(len(streams), range(5, 40))

    def test_a_random_clock_opens_a_limited_number_of_files(self):
        trace = v6.Trace().threads({"index": 0}, {"index": 1, "thread": 5})
        trace.define(1, "Shop", "note", 1, [("n", v6.U32)])
        for at in range(2000):
            trace.events({"id": 1, "thread": 1, "ns": 4_000_000 - at,
                          "payload": struct.pack("<I", at)}, compressed=False)
        self.assertEqual(len(self.convert(trace.end())), 2000)
        self.assertIn("another time", self.errors)
        self.assertLess(len(os.listdir(self.path("out"))), 400)

    def test_losses_are_discarded_events(self):
        events = self.convert(nettrace.sample(orders=3, losses=True))
        self.assertEqual(len(events), 6)
        counts = re.findall(r"discarded (\d+) events?", self.read_folder()[1])
        self.assertEqual(sum(map(int, counts)), 12)

    def test_an_empty_trace_gives_an_empty_trace(self):
        self.assertEqual(self.convert(v6.Trace().end()), [])
        self.assertEqual(self.convert(nettrace.Trace().end()), [])

    def test_a_damaged_trace_is_complete_up_to_the_damage(self):
        data = nettrace.sample(orders=50)
        for cut in len(data) - 1, len(data) - 30:
            self.check_rows(data[:cut], status=1)
            self.assertIn("has the events before that", self.errors)

    def test_ctrl_c_leaves_a_trace_with_the_events_up_to_then(self):
        trace = nettrace.Trace().define(1, "Shop", "order", 1, [("n", nettrace.U64)])
        trace = bytes(trace.events(1, [bytes(8)] * 50).point({7: 50}, ns=2_000_000).bytes)
        os.mkfifo(self.path("pipe"))
        process = self.start("convert", "pipe", "--to", "ctf", "-q", "-o", "out")
        with open(self.path("pipe"), "wb") as pipe:
            pipe.write(trace)
            pipe.flush()
            # The command has taken all bytes once the pipe is empty again.
            self.wait_until(lambda: os.path.exists(self.path("out/stream")) and
                            formats_test.Formats.is_drained(pipe))
            process.send_signal(signal.SIGINT)
            self.assertIn("stopped", self.finish(process, 130)[1])
        self.assertEqual(len(self.read_folder()[0]), 50)

    def check_failure(self, data, limit, value, cause):
        """The conversion within a limit of resources fails by this cause, and leaves no folder."""
        process = self.start("convert", self.write("t.nettrace", data), "--to", "ctf", "-o", "out",
                             preexec_fn=lambda: resource.setrlimit(limit, (value, value)))
        self.assertIn(f"cannot write out: {cause}", self.finish(process, 1)[1])
        self.assertFalse(os.path.exists(self.path("out")))

    def test_a_file_that_cannot_grow_is_reported_and_leaves_no_folder(self):
        self.check_failure(nettrace.sample(orders=20000), resource.RLIMIT_FSIZE, 100000,
                           "File too large")

    def test_metadata_without_space_are_reported_and_leave_no_folder(self):
        trace = nettrace.Trace()
        for i in range(1, 501):
            trace.define(i, "Shop", f"event{i}", i, []).events(i, [b""], ns=1000 * i)
        self.check_failure(trace.end(), resource.RLIMIT_FSIZE, 40000, "File too large")

    def test_a_missing_descriptor_is_reported_and_leaves_no_folder(self):
        trace = v6.Trace()
        trace.threads({"index": 1, "process": 7, "thread": 7}).define(1, "Shop", "order", 1)
        for i in range(64):
            trace.events({"id": 1, "thread": 1, "capture": 1, "cpu": i, "number": i + 1,
                          "ns": 1000 * i})
        self.check_failure(trace.end(), resource.RLIMIT_NOFILE, 32, "Too many open files")

    def test_a_folder_is_overwritten_only_by_force_and_only_if_it_is_a_trace(self):
        path = self.write("t.nettrace", nettrace.sample())
        arguments = ("convert", path, "--to", "ctf", "-o", "out")
        os.mkdir(self.path("out"))
        self.run_tool(*arguments)
        self.assertIn("exists already", self.run_tool(*arguments, status=1)[1])
        self.run_tool(*arguments, "--force")
        self.assertEqual(len(self.read_folder()[0]), 3)
        os.mkdir(self.path("mine"))
        self.write("mine/file", b"mine")
        self.write("mine/metadata", b"mine")
        errors = self.run_tool(*arguments[:-1], "mine", "--force", status=1)[1]
        self.assertIn("exists already", errors)
        self.assertEqual(self.read("mine/file"), b"mine")
        errors = self.run_tool(*arguments[:-1], "-", status=2)[1]
        self.assertIn("writes a directory", errors)

    def test_the_folder_is_private(self):
        self.convert(nettrace.sample())
        for name in "out", "out/metadata", "out/stream":
            self.assertEqual(os.stat(self.path(name)).st_mode & 0o077, 0, name)

    def test_a_million_events_need_no_more_memory_than_some_thousand(self):
        trace = v6.Trace().threads({"index": 1, "thread": 5})
        trace.define(1, "Shop", "order", 5, [("n", v6.U64)])
        head, peaks = trace.bytes, []
        trace.bytes = b""
        # The numbers of a repeated block begin again, which makes a loss between two blocks.
        block = trace.events(*[{"id": 1, "thread": 1, "capture": 1, "ns": 5, "payload": bytes(8)}
                               for _ in range(1000)]).bytes
        for blocks in 20, 1000:
            process = self.start("convert", "-", "--to", "ctf", "-q", "-f", "-o", "out",
                                 stdin=subprocess.PIPE)
            process.stdin.write(head)
            for _ in range(blocks):
                process.stdin.write(block)
            process.stdin.write(bytes(4))
            process.stdin.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            peaks.append(usage.ru_maxrss)
        print(f"# figure: ctf: {peaks[0]} kB for 20,000 events, {peaks[1]} kB for 1,000,000")
        self.assertLess(peaks[1], peaks[0] + 4096)


if __name__ == "__main__":
    unittest.main()
