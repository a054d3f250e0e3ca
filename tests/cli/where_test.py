#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report --where` against an evaluation of the same expressions in Python, on traces that
Python writes."""
import json
import operator
import random
import re
import struct
import unittest
import uuid

import convert_test
import nettrace
import nettrace6 as v6
import oracle
from tool import ToolTest

OPERATORS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
             ">": operator.gt, ">=": operator.ge}
LEVELS = ("always", "critical", "error", "warning", "informational", "verbose")
ACTIVITIES = [uuid.UUID(int=n) for n in (0, 0x1234, 0x00112233445566778899aabbccddeeff)]
TEXTS = ("", "a", "b", "Zoë", "order", "order_placed", 'with "quotes"', "line\nbreak", "x" * 300)
NUMBERS = (0, 1, -1, 5, 100, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -2**63, -2**53 - 1)
TYPES = {
    1: ("Shop-Orders", "order_placed", 5, (("total", v6.U64), ("customer", v6.STRING16),
                                           ("point", (v6.STRUCT, (("x", v6.I64),
                                                                  ("name", v6.STRING16)))),
                                           ("id", v6.I64))),
    2: ("Shop-Orders", "order", 6, (("customer", v6.STRING16), ("total", v6.I64),
                                    ("express", v6.BOOL8), ("list", (v6.ARRAY, v6.U8)))),
    3: ("Billing", "paid", 5, (("amount", v6.F64), ("key", v6.GUID), ("total", v6.VARINT))),
    4: ("Billing", "order", 1, ()),
}


WHATS = ("summary", "events", "spans", "counters", "gc", "losses", "cpu", "offcpu", "waits", "heap",
         "locks", "json", "timeline")
FORMATS = ("perfetto", "chrome", "firefox", "speedscope", "pprof", "folded", "jsonl", "csv", "ctf",
           "otlp", "otlp-profiles")


class Event:
    """An event: what its names mean, and the fields."""

    def __init__(self, number, choice):
        self.kind = choice.choice(list(TYPES))
        self.row = choice.randrange(3)
        self.ns = number * 1000
        self.activity = choice.choice(ACTIVITIES)
        provider, name, event_id, fields = TYPES[self.kind]
        self.values = {"provider": provider, "event": name, "id": event_id, "time": self.ns,
                       "thread": 501 + self.row, "process": 70 + self.row // 2,
                       "processor": self.row, "level": self.kind, "version": 0,
                       "keywords": 1 << self.kind, "thread_name": "worker" if self.row else None,
                       "activity": str(self.activity) if self.activity.int else None}
        self.payload = b""
        self.fields = {}
        for field, code in fields:
            self.put(field, code, choice)
        if choice.random() < 0.1:
            self.cut(choice)

    def put(self, name, code, choice):
        start, needed = len(self.payload), None  # bytes of the payload, for the value to exist
        if code == v6.STRING16:
            value = choice.choice(TEXTS)
            self.payload += v6.utf16z(value)
        elif code in (v6.U64, v6.I64, v6.VARINT):
            low, high = (0, 2**64) if code == v6.U64 else (-2**63, 2**63)
            value = choice.choice([n for n in NUMBERS if low <= n < high])
            self.payload += v6.varint(value) if code == v6.VARINT else \
                struct.pack("<Q" if code == v6.U64 else "<q", value)
        elif code == v6.F64:
            value = choice.choice((0.0, 0.5, -1.5, 2.0**53, 1e300, float("inf")))
            self.payload += struct.pack("<d", value)
        elif code == v6.BOOL8:
            value = choice.random() < 0.5
            self.payload += bytes([value])
        elif code == v6.GUID:
            guid = choice.choice(ACTIVITIES)
            value = Guid(guid)
            self.payload += guid.bytes_le
        elif code[0] == v6.ARRAY:
            value = Other()
            needed = start + 2  # its count
            self.payload += struct.pack("<H", 2) + b"ab"
        else:
            for inner, inner_code in code[1]:
                self.put(f"{name}.{inner}", inner_code, choice)
            value = Other()
            needed = start
        self.fields[name] = (len(self.payload) if needed is None else needed, value)

    def cut(self, choice):
        """End the payload early."""
        size = choice.randrange(len(self.payload) + 1)
        self.payload = self.payload[:size]
        self.fields = {name: row for name, row in self.fields.items() if row[0] <= size}

    def get(self, name):
        if name in self.values:
            return self.values[name]
        return self.fields.get(name.removeprefix("field."), (0, None))[1]


class Guid(str):
    def __new__(cls, guid):
        return str.__new__(cls, guid)


class Other:
    """A value that is equal to nothing."""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def compare(left, sign, right):
    if left is None or isinstance(left, Other):
        return False
    if is_number(left) and is_number(right):
        return OPERATORS[sign](left, right)
    if isinstance(left, str) and isinstance(right, str):
        return OPERATORS[sign](left.encode(), right.encode())
    if isinstance(left, bool) and isinstance(right, bool):
        return OPERATORS[sign](left, right)
    return False


def quoted(text, choice):
    if "'" not in text and choice.random() < 0.3:
        return f"'{text}'"
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + text.replace("ë", choice.choice(("ë", "\\u00eb", "\\xc3\\xab"))) + '"'


def number(value, choice):
    if isinstance(value, int) and choice.random() < 0.3:
        return f"-0x{-value:x}" if value < 0 else f"{value:#X}".replace("X", "x")
    return repr(value)


def leaf(choice):
    """Return the text of a comparison, and the function that evaluates it."""
    kind = choice.randrange(9)
    sign = choice.choice(list(OPERATORS))
    if kind == 0:
        name = choice.choice(("provider", "event", "customer", "point.name", "thread_name",
                              "total", "missing", "express", "list"))
        value = choice.choice(TEXTS + ("Shop-Orders", "Billing", "worker", "paid"))
        return f"{name} {sign} {quoted(value, choice)}", lambda e: compare(e.get(name), sign, value)
    if kind == 1:
        name = choice.choice(("provider", "event", "customer", "point.name", "total", "missing"))
        pattern = choice.choice(("order", "^order$", "^Z.*", "a|b", "[[:digit:]]", "x{3}", "^$",
                                 "ing$", "_"))
        python = re.compile(pattern.replace("[[:digit:]]", "[0-9]").replace("$", r"\Z"), re.S)
        return f"{name} ~ {quoted(pattern, choice)}", \
            lambda e: isinstance(e.get(name), str) and bool(python.search(e.get(name)))
    if kind == 2:
        name = choice.choice(("total", "customer", "point", "point.x", "point.y", "list", "key",
                              "field.id", "thread_name", "activity", "missing", "process"))
        return f"has {name}", lambda e: e.get(name) is not None
    if kind == 3:
        value = choice.randrange(6)
        return f"level {sign} {choice.choice((LEVELS[value], value))}", \
            lambda e: compare(e.get("level"), sign, value)
    if kind == 4:
        micros = choice.randrange(400)
        text = choice.choice((f"{micros}us", f"{micros * 1000}ns", f"{micros / 1000}ms",
                              f"{micros / 1000000:.6f}s"))
        return f"time {sign} {text}", lambda e: compare(e.get("time"), sign, micros * 1000)
    if kind == 5:
        sign = choice.choice(("==", "!="))
        name = choice.choice(("activity", "key"))
        value = str(choice.choice(ACTIVITIES))
        return f"{name} {sign} {quoted(choice.choice((value, value.upper())), choice)}", \
            lambda e: compare(e.get(name), sign, value)
    if kind == 6:
        sign = choice.choice(("==", "!="))
        value = choice.random() < 0.5
        name = choice.choice(("express", "total", "missing"))
        return f"{name} {sign} {str(value).lower()}", lambda e: compare(e.get(name), sign, value)
    name = choice.choice(("total", "field.id", "point.x", "amount", "id", "thread", "process",
                          "processor", "keywords", "version", "customer", "missing"))
    near = choice.choice(NUMBERS + (0.5, -1.5, 2.0**53, 70, 71, 501, 502, 6))
    if isinstance(near, int) and abs(near) > 2**52 and choice.random() < 0.5:
        near += choice.choice((-1, 1))
    value = min(max(near, -2**63), 2**64 - 1) if isinstance(near, int) else near
    return f"{name}{sign}{number(value, choice)}", lambda e: compare(e.get(name), sign, value)


def expression(choice, depth):
    """Return the text of an expression that needs no parentheses around it, and its function."""
    def one(depth):
        kind = choice.random()
        if depth and kind < 0.3:
            text, function = either(depth - 1)
            return f"({text})", function
        if depth and kind < 0.5:
            text, function = one(depth - 1)
            return f"not {text}", lambda e: not function(e)
        return leaf(choice)

    def both(depth):
        parts = [one(depth) for _ in range(choice.choice((1, 1, 2, 3)))]
        return " and ".join(text for text, _ in parts), \
            lambda e: all(function(e) for _, function in parts)

    def either(depth):
        parts = [both(depth) for _ in range(choice.choice((1, 2)))]
        return " or ".join(text for text, _ in parts), \
            lambda e: any(function(e) for _, function in parts)

    return either(depth)


def write(events):
    trace = v6.Trace().threads(*[{"index": i + 1, "process": 70 + i // 2, "thread": 501 + i,
                                  **({"name": "worker"} if i else {})} for i in range(3)],
                               {"index": 9, "process": 0, "thread": 0})
    for kind, (provider, name, event_id, fields) in TYPES.items():
        trace.define(kind, provider, name, event_id, fields)
    # Lists of labels: the activity, and the level and keywords of each type.
    lists = [(kind, activity) for kind in TYPES for activity in ACTIVITIES]
    trace.labels(1, [[*([(1, activity.bytes_le)] if activity.int else []), (9, bytes([kind])),
                      (8, struct.pack("<Q", 1 << kind))] for kind, activity in lists])
    for event in events:
        trace.events({"id": event.kind, "number": event.number, "thread": event.row + 1,
                      "capture": 9, "cpu": event.row, "ns": event.ns, "payload": event.payload,
                      "labels": 1 + lists.index((event.kind, event.activity))})
    return trace.end()


class Where(ToolTest):
    def times(self, name, text):
        out, _ = self.run_tool("report", name, "events", "--format=json", "--where", text)
        return [json.loads(line)["time_ns"] for line in out.splitlines()]

    def test_random_expressions_select_the_events_that_python_selects(self):
        choice = random.Random(20261126)
        events = [Event(number, choice) for number in range(400)]
        for number, event in enumerate(events):
            event.number = number + 1
        self.write("t.nettrace", write(events))
        self.assertEqual(self.times("t.nettrace", "time >= 0s"), [event.ns for event in events])
        counts = []
        for _ in range(400):
            text, function = expression(choice, 3)
            expected = [event.ns for event in events if function(event)]
            self.assertEqual(self.times("t.nettrace", text), expected, text)
            counts.append(len(expected))
        # Many expressions select some of the events and not others.
        self.assertGreater(len([count for count in counts if 0 < count < len(events)]), 150)

    def test_the_summary_counts_the_selected_events_and_all_losses(self):
        self.write("t.nettrace", nettrace.sample(10, losses=True))
        out, _ = self.run_tool("report", "t.nettrace", "--format=json", "--where",
                               'event == "OrderPlaced" and order_id >= 4')
        summary = json.loads(out)
        self.assertEqual((summary["events"], summary["lost"]), (6, 12))
        self.assertEqual([(row["provider"], row["events"]) for row in summary["providers"]],
                         [("Shop", 6)])
        whole = json.loads(self.run_tool("report", "t.nettrace", "--format=json")[0])
        for key in "lost_by", "duration_ns", "complete":
            self.assertEqual(summary[key], whole[key])

    @staticmethod
    def essence(event):
        return [event[key] for key in ("time", "thread", "cpu", "provider", "name", "level",
                                       "stack", "activity", "fields")]

    def test_a_conversion_has_the_selected_events_and_all_losses(self):
        for version in 4, 6:
            for to in None, 4, 6:
                with self.subTest(version=version, to=to):
                    name = self.write("t.nettrace", convert_test.busy(version))
                    text = "field.id >= 30 and field.id <= 77 and thread == 8"
                    self.run_tool("convert", name, "-f", "-q", "-o", "new.nettrace", "--where",
                                  text, *(["--format", to] if to else []))
                    whole = oracle.Trace(self.read(name))
                    new = oracle.Trace(self.read("new.nettrace"))
                    self.assertEqual(new.is_v6, (to or version) == 6)
                    expected = [self.essence(event) for event in whole.events
                                if 30 <= event["fields"]["id"] <= 77 and event["thread"] == 8]
                    self.assertEqual([self.essence(event) for event in new.events
                                      if event["provider"] == "Shop"], expected)
                    self.assertGreater(len(expected), 10)
                    self.assertEqual((new.lost, new.ended), (whole.lost, True))

    def test_an_expression_selects_processes_in_both_versions(self):
        for path in self.write_versions(v6.two_processes()):
            for process in (71, 72):
                where = ("--where", f"process == {process}", "-q", "-o", "-")
                lines = self.run_tool("convert", path, "--to", "jsonl", *where)[0].splitlines()
                self.assertEqual([(row["process_id"], row["event"])
                                  for row in map(json.loads, lines) if row["provider"] == "Shop"],
                                 [(process, "requestStart"), (process, "requestStop")])
                rows = json.loads(self.run_tool("convert", path, "--to", "chrome", *where)[0])
                self.assertEqual([row["pid"] for row in rows["traceEvents"] if row["ph"] == "X"],
                                 [process])

    def test_an_error_is_shown_with_a_caret_below_its_place(self):
        for text, place in (("total >", 7), ('customer == "Zoë" und total > 1', 18),
                            ("total\t> \x1b[31m", 8), ("ëëë ==", 6), ("\xa0\udcff = 1", 3)):
            _, err = self.run_tool("report", "absent", "events", "--where", text, status=2)
            sentence, shown, caret = err.split("\n", 2)
            self.assertRegex(sentence, r"^ringpipe: report: --where: \w.*[^.]$")
            self.assertEqual(caret, f"  {'':{place}}^\n", err)
            self.assertEqual(len(shown.rstrip()) - 2 >= place - 1, True, err)
            self.assertNotIn("\x1b", err)

    def test_the_place_of_an_error_in_a_long_expression_is_visible(self):
        text = "ä == 1 or " * 90 + "b = 2" + " or c == 3" * 30
        _, err = self.run_tool("report", "absent", "events", "--where", text, status=2)
        _, shown, caret, _ = err.split("\n")
        self.assertLess(len(shown), 90)
        self.assertTrue(shown[caret.index("^"):].startswith("= 2"), err)

    def test_each_command_shows_the_place_of_an_error(self):
        commands = [("report", "absent", what) for what in WHATS]
        commands += [("report", "absent", what, "--diff", "absent")
                     for what in ("spans", "counters", "cpu", "offcpu", "heap")]
        commands += [("report", "absent", "--diff", "absent"), ("explain", "absent"),
                     ("explain", "absent", "--id", "0123456789abcdef"),
                     ("convert", "absent", "-o", "new"), ("tail", 1), ("tail",), ("top", 1),
                     ("top",)]
        commands += [("convert", "absent", "--to", form, "-o", "new") for form in FORMATS]
        for command in commands:
            with self.subTest(command=command):
                _, err = self.run_tool(*command, "--where", "total >", status=2)
                self.assertRegex(err, r"^ringpipe: %s: --where: .*\n  total >\n {9}\^\n$" %
                                 command[0])

    def test_the_lists_of_this_test_are_complete(self):
        out, _ = self.run_tool("complete", "report", "absent", "")
        self.assertEqual({word for word in out.split() if word[0] != "-"}, set(WHATS))
        out, _ = self.run_tool("complete", "convert", "--to", "")
        self.assertLessEqual(set(FORMATS), set(out.split()))

    def test_where_is_refused_where_it_has_no_meaning(self):
        for command in (("collect", 1), ("view", "absent"), ("merge", "a", "b"),
                        ("symbolize", "absent"), ("counters", "monitor", 1)):
            _, err = self.run_tool(*command, "--where", "a == 1", status=2)
            self.assertIn("unknown option --where", err)
        _, err = self.run_tool("report", "absent", "--where", "", status=2)
        self.assertIn("--where requires", err)


if __name__ == "__main__":
    unittest.main()
