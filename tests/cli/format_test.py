#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every subcommand with rows prints the same rows as text, JSON and CSV."""
import csv
import io
import json
import os
import struct
import threading
import unittest

import nettrace
from counters_hostile_test import GAUGE, RATE, SPREAD, trace, word
from server import UNKNOWN_COMMAND, error, ok, process_info, string
from tool import ToolTest

ODD = 'a,"b" | Zoë'
SAMPLER = "Microsoft-DotNETCore-SampleProfiler"
COMMANDS = ["ps", "list 1", "list 1 --events", "stacks 1", "counters monitor -p 1",
            "counters collect -p 1", "dump 1", "collect -p 1", "report t", "report t events",
            "flight snapshot -p 1", "recover --list", "bpf count -p 1"]


def field_of(value):
    """Return a JSON value as its CSV field."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def is_same(field, value):
    """Whether a CSV field is this JSON value."""
    if value is None or isinstance(value, (str, bool)):
        return field == field_of(value)
    return json.loads(field) == value


class Formats(ToolTest):
    def answer(self, replies):
        """A process, this one, that answers each command with these bytes."""
        def handler(connection, request):
            reply = replies.get(request.command)
            connection.sendall(error(UNKNOWN_COMMAND) if reply is None else reply)
        return self.serve(handler)

    def print_as(self, form, *arguments):
        return self.run_tool(*arguments, "--format", form)[0]

    def csv_rows(self, *arguments):
        out = self.print_as("csv", *arguments)
        self.assertNotIn("\r", out)
        return list(csv.DictReader(io.StringIO(out), strict=True))

    def check_csv(self, rows, *arguments):
        """The CSV rows equal the JSON rows, with every key of JSON."""
        found = self.csv_rows(*arguments)
        self.assertEqual(len(found), len(rows))
        self.assertTrue(rows)
        for ours, row in zip(found, rows):
            self.assertLessEqual(set(row), set(ours))
            for key, field in ours.items():
                self.assertTrue(is_same(field, row.get(key)), (key, field, row))
        return found

    def check_text(self, rows, keys, *arguments):
        """Text has a line for each row, with its strings; text is the default."""
        out = self.print_as("text", *arguments)
        self.assertEqual(self.run_tool(*arguments)[0], out)
        lines = [line for line in out.splitlines() if line and not line.isupper()]
        self.assertEqual(len(lines), len(rows), out)
        for line, row in zip(lines, rows):
            for key in keys:
                self.assertIn(row[key] if row[key] else "", line)

    def check(self, keys, *arguments):
        rows = json.loads(self.print_as("json", *arguments))
        self.check_csv(rows, *arguments)
        self.check_text(rows, keys, *arguments)
        return rows

    def test_a_format_that_does_not_exist_is_wrong_usage(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                for option in (["--format", "xml"], ["--format="], ["--format=JSON"]):
                    out, err = self.run_tool(*command.split(), *option, status=2)
                    self.assertEqual(out, "")
                    self.assertIn("--format requires text|json|csv, not '", err)
                for option in ("--json", "--csv"):
                    self.assertIn(f"unknown option {option}",
                                  self.run_tool(*command.split(), option, status=2)[1])

    def test_help_and_completion_have_it(self):
        for command in COMMANDS:
            words = [word for word in command.split() if word.isalpha() and word != "t"]
            self.assertIn("--format text|json|csv", self.run_tool(*words, "--help")[0])
            self.assertEqual(self.run_tool("complete", *words, "--format", "")[0].split(),
                             ["text", "json", "csv"])

    def test_processes(self):
        self.answer({(4, 8): ok(process_info("10.0.0"))})

        def own(rows):
            return [row for row in rows if row["process_id"] in (os.getpid(), str(os.getpid()))]

        rows = []
        self.wait_until(lambda: rows.extend(own(json.loads(self.print_as("json", "ps")))) or rows)
        found = own(self.csv_rows("ps"))
        for key in ("process_id", "user", "name", "command", "socket"):
            self.assertTrue(is_same(found[0][key], rows[0][key]), (key, found, rows))
        self.assertRegex(self.print_as("text", "ps"), rf"(?m)^ *{os.getpid()}  {rows[0]['user']} ")

    def test_providers_tracers_and_losses(self):
        def session(provider, name, number):
            return string(provider) + string(name) + \
                struct.pack("<QQII", number, 2**64 - 1, 5, 12) + string("k=v")
        self.answer({(0x52, 0): ok(
            struct.pack("<I", 2) + session("Shop", ODD, 7) + session("Free", "", 0) +
            struct.pack("<I", 1) + string("Shop") + string("order") + struct.pack("<I", 2) +
            struct.pack("<I", 1) + string("Shop") + string("lttng") + struct.pack("<Q", 5))})
        rows = self.check(("provider", "session", "event"), "list", os.getpid())
        self.assertEqual([row["tracers"] for row in rows], [None, None, 2, None])
        self.assertEqual([row["kind"] for row in rows],
                         ["session", "provider", "tracers", "losses"])
        self.assertEqual([(row["session"], row["lost"]) for row in rows],
                         [(ODD, None), (None, None), (None, None), ("lttng", 5)])
        self.assertEqual(rows[0]["keywords"], 2**64 - 1)

    def test_events_of_a_process(self):
        field = string("total") + struct.pack("<BBBI", 10, 0, 0, 0)
        events = [("Shop", ODD, field, 1), ("Shop", "EventCounters", b"", 0), ("Bank", "b", b"", 0)]
        self.answer({(0x52, 0xc): ok(struct.pack("<I", len(events)) + b"".join(
            string(provider) + string(name) + struct.pack("<IIIQI", at, 0, 4, 0xf0, count) + fields
            for at, (provider, name, fields, count) in enumerate(events)))})
        for more, count in (((), 2), (("--fields",), 2), (("--all",), 3)):
            rows = self.check(("provider", "event"), "list", os.getpid(), "--events", *more)
            self.assertEqual(len(rows), count)
            self.assertEqual("--fields" in more, "fields" in rows[0])

    def test_stacks(self):
        stacks = nettrace.Trace().define(1, SAMPLER, "ThreadSample", 0, [])
        stacks.stacks(1, [[0x110, 0x210]])
        stacks.events(1, [struct.pack("<I", 1)], thread=threading.get_native_id(), stack=1)
        self.answer({(2, 5): ok(struct.pack("<Q", 7)) + stacks.end()})
        rows = json.loads(self.print_as("json", "stacks", os.getpid()))
        found = self.csv_rows("stacks", os.getpid())
        self.assertEqual([frame["address"] for frame in rows[0]["frames"]], ["0x110", "0x210"])
        for row in rows:
            row["frames"] = ";".join(frame["address"] for frame in row["frames"])
        self.assertEqual(found, [{key: field_of(value) for key, value in row.items()}
                                 for row in rows])
        out = self.print_as("text", "stacks", os.getpid())
        self.assertEqual(out, self.run_tool("stacks", os.getpid())[0])
        self.assertEqual(out.count("Thread "), len(rows))
        self.assertEqual(out.count("    0x"), 2)

    def test_a_summary(self):
        sample = nettrace.sample(orders=5, losses=True)
        path = self.write("t", sample)
        for more in ((), ("--top", "1")):
            summary = json.loads(self.print_as("json", "report", path, *more))
            kinds = [{"provider": provider["provider"], **kind}
                     for provider in summary["providers"] for kind in provider["kinds"]]
            self.check_csv(kinds, "report", path, *more)
            out = self.print_as("text", "report", path, *more)
            self.assertEqual(out, self.run_tool("report", path, *more)[0])
            for kind in kinds:
                self.assertRegex(out, rf"\n +{kind['events']} .*  {kind['event']} \({kind['id']}\)")

    def test_a_summary_of_a_trace_that_was_written(self):
        sample = nettrace.sample(orders=5)
        self.answer({(2, 5): ok(struct.pack("<Q", 7)) + sample,
                     (0x52, 8): ok(struct.pack("<Q", 7)) + sample})
        path = self.path("t")
        for command in (["collect"], ["flight", "snapshot"]):
            for form in ("json", "csv"):
                out = self.print_as(form, *command, "-p", os.getpid(), "-f", "-o", path)
                self.assertEqual(out, self.print_as(form, "report", path))
            self.assertEqual(self.print_as("text", *command, "-p", os.getpid(), "-f", "-o", path),
                             "")

    def test_events_of_a_trace(self):
        shop = nettrace.Trace().define(1, "Shop", ODD, 5, [("note", nettrace.STRING)])
        shop.define(2, "Shop", "EventCounters", 65533, [])
        shop.events(1, [nettrace.utf16z(ODD), nettrace.utf16z("one, two")]).events(2, [b""])
        path = self.write("t", shop.end())
        for more, count in (((), 2), (("--all",), 3)):
            arguments = ("report", path, "events", *more)
            rows = [json.loads(line) for line in self.print_as("json", *arguments).splitlines()]
            found = self.csv_rows(*arguments)
            self.assertEqual((len(rows), len(found)), (count, count))
            for ours, row in zip(found, rows):
                self.assertTrue(all(is_same(ours[key], row[key]) for key in row), (ours, row))
            self.check_text([{**row, "fields": json.dumps(row["fields"], ensure_ascii=False,
                                                          separators=(",", ":"))} for row in rows],
                            ("time_utc", "provider", "event", "fields"), *arguments)

    def test_counters(self):
        built = trace().events(GAUGE, [word("M", ODD, "1.5", tags="k=v"),
                                       word("M", "endless", "1e999")])
        built.events(RATE, [word("M", "sacks", "3", "5")])
        built.events(SPREAD, [word("M", "s", "0.5=1;0.95=5", 2, 1.5)])
        stream = ok(struct.pack("<Q", 1)) + built.end()
        self.serve(lambda connection, request: connection.sendall(
            stream if request.set == 2 and request.id != 1 else error(UNKNOWN_COMMAND)))
        arguments = ("counters", "collect", "-p", os.getpid())
        rows = json.loads(self.print_as("json", *arguments))["Events"]
        found = self.csv_rows(*arguments)
        self.assertEqual(len(rows), 5)
        self.assertEqual(len(found), 5)
        for ours, row in zip(found, rows):
            tags = f"[{row['tags']}]" if row["tags"] else ""
            self.assertEqual([ours["Timestamp"], ours["Provider"], ours["Counter Name"],
                              ours["Counter Type"]],
                             [row["timestamp"], row["provider"], row["name"] + tags,
                              row["counterType"]])
            self.assertTrue(is_same(ours["Mean/Increment"], row["value"]), (ours, row))
        self.check_text(rows, ("timestamp", "provider", "name", "tags", "counterType"), *arguments)
        for form in ("json", "csv"):
            self.assertEqual(self.print_as(form, "counters", "monitor", "-p", os.getpid()),
                             self.print_as(form, *arguments))

    def test_what_a_dump_was(self):
        self.answer({(1, 1): ok(struct.pack("<I", 0))})
        self.write("x.core", b"1234")
        arguments = ("dump", os.getpid(), "-f", "-o", "x.core")
        row = json.loads(self.print_as("json", *arguments))
        self.assertEqual(row, {"file": self.path("x.core"), "bytes": 4})
        self.check_csv([row], *arguments)
        self.assertEqual(self.print_as("text", *arguments), "")

    def test_what_sessions_left(self):
        os.makedirs(self.path("left/12-ab"))
        rows = self.check(("directory", "state"), "recover", "--list", self.path("left"))
        self.assertEqual(rows, [{"directory": "12-ab", "process_id": 0, "session": "",
                                 "state": "empty", "start_utc": None, "output": ""}])


if __name__ == "__main__":
    unittest.main()
