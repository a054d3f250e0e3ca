#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The module of Lua in Debian's lua5.4: its events, spans, counters and listeners.

Environment: LUA, the interpreter; LUA_CPATH, where it finds the module.
"""
import collections
import os
import re
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import oracle
from tool import PATIENCE, ToolTest

FOLDER = os.path.dirname(os.path.abspath(__file__))


class LuaTest(ToolTest):
    def run_lua(self, script, providers=None, arguments=(), lost=0, **settings):
        """Return the lines that a script printed, as lists of words, and the session's events.
        `lost`: the number of lost events, or None: any."""
        output = self.path("lua.nettrace")
        environment = {**self.environment, "RINGPIPE_DIAGNOSTICS": "0", **settings}
        if providers:
            environment.update(RINGPIPE_CONFIG=providers, RINGPIPE_OUTPUT=output)
        done = subprocess.run([os.environ["LUA"], os.path.join(FOLDER, script), *arguments],
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        lines = [line.split() for line in done.stdout.splitlines()]
        if not providers:
            return lines, []
        trace = oracle.Trace(self.read("lua.nettrace"))
        if lost is not None:
            self.assertEqual(trace.lost, lost)
        return lines, trace.events


def results(lines):
    return {line[0]: " ".join(line[1:]) for line in lines}


class Events(LuaTest):
    def setUp(self):
        super().setUp()
        lines, self.events = self.run_lua("events.lua", "Lua-Test:ffffffff:5,Lua-Runtime:1:4",
                                          lost=1)  # too long
        self.results = results(lines)

    def named(self, name):
        return [event for event in self.events if event["name"] == name]

    def test_each_type_of_field_keeps_its_value(self):
        first, last = self.named("Typed")
        self.assertEqual((first["id"], first["version"], first["level"], first["keywords"]),
                         (7, 2, 3, 5))
        fields = first["fields"]
        expected = {"flag": True, "i8": -128, "u16": 65535, "i32": -2**31, "i64": -2**63,
                    "u64": 2**64 - 1, "f32": 0.5, "f64": 1e300, "text": "grüße"}
        self.assertEqual({name: fields[name] for name in expected}, expected)
        self.assertEqual(list(fields["list"]), [1, -2, 3])
        self.assertFalse(last["fields"]["flag"])

    def test_a_string_ends_at_its_nul_and_bytes_keep_it(self):
        fields = self.named("Typed")[0]["fields"]
        self.assertEqual(fields["text"], "grüße")
        self.assertEqual(bytes(fields["bytes"]), b"a\0b")

    def test_a_secret_does_not_reach_the_trace(self):
        self.assertEqual(self.named("Typed")[0]["fields"]["card"], "***")
        self.assertNotIn("4711".encode("utf-16-le"), self.read("lua.nettrace"))

    def test_a_wrong_value_returns_a_message_and_writes_nothing(self):
        self.assertEqual(self.results["enabled"], "true")
        self.assertEqual(self.results["first"], "true")
        for name, message in (("range", "nil field 2 does not hold this number"),
                              ("digits", "nil field 2 does not hold this string"),
                              ("fraction", "nil field 2 does not hold this number"),
                              ("element", "nil field 11 does not hold this table"),
                              ("none", "nil field 2 does not hold this nil"),
                              ("long", "nil Message too long")):
            self.assertEqual(self.results[name], message, name)
        self.assertEqual(len(self.named("Typed")), 2)

    def test_a_span_pairs_its_events_and_gives_its_activity_to_those_inside(self):
        starts, stops = self.named("WorkStart"), self.named("WorkStop")
        self.assertEqual([event["fields"]["number"] for event in starts], [1, 2, 3])
        self.assertEqual(len(stops), 3)
        outer, inner, failed = [event["activity"] for event in starts]
        self.assertEqual([event["activity"] for event in stops], [inner, outer, failed])
        self.assertEqual(starts[1]["related"], outer)
        inside, outside = self.named("Inside")
        self.assertEqual(inside["activity"], outer)
        self.assertNotIn(outside["activity"], (outer, inner, failed))
        self.assertEqual([(event["opcode"]) for event in starts + stops], [1] * 3 + [2] * 3)
        self.assertEqual(self.results["error"], "false left by an error")

    def activities_of_requests(self):
        return {event["fields"]["request"]: event["activity"]
                for event in self.named("RequestStart")}

    def test_each_coroutine_keeps_its_activity_while_others_run(self):
        activities = self.activities_of_requests()
        self.assertEqual(len(set(activities.values())), 8)
        served = [(event["fields"]["request"], event["activity"])
                  for event in self.named("Served") if event["fields"]["request"] < 4]
        self.assertEqual(len(served), 9)
        for request, activity in served:
            if request:
                self.assertEqual(activity, activities[request])
            else:
                self.assertNotIn(activity, activities.values())
        self.assertEqual({event["activity"] for event in self.named("RequestStop")},
                         set(activities.values()))

    def test_a_closed_coroutine_leaves_the_activity_of_its_caller(self):
        activities = self.activities_of_requests()
        served = [event["activity"] for event in self.named("Served")
                  if event["fields"]["request"] == 7]
        self.assertEqual(served, [activities[7]] * 5)
        closing = {event["fields"]["request"]: event["activity"]
                   for event in self.named("Closed")}
        self.assertEqual(closing[4], activities[4])

    def test_each_cycle_of_the_collector_is_an_event(self):
        cycles = self.named("GCCycle")
        self.assertEqual([event["fields"]["Count"] for event in cycles],
                         list(range(1, len(cycles) + 1)))
        # The end of the program is no cycle.
        self.assertEqual(len(cycles), int(self.results["cycles"]))
        self.assertGreater(len(cycles), 4)
        for event in cycles:
            self.assertTrue(10_000 < event["fields"]["HeapBytes"] < 10_000_000)
            self.assertGreater(event["fields"]["SincePreviousNs"], 0)

    def test_counters_count(self):
        self.assertEqual(self.results["add"], "true true 5.0")
        self.assertEqual(self.results["shrink"], "nil Invalid argument")
        for name in ("text", "tag-nul", "tag-value-nul"):
            self.assertEqual(self.results[name], "nil Invalid argument")


class Idle(LuaTest):
    def test_without_a_session_no_value_is_looked_at(self):
        lines, _ = self.run_lua("events.lua")
        found = results(lines)
        for name in ("enabled", "first", "range", "element", "none", "last"):
            self.assertEqual(found[name], "false", name)
        self.assertEqual(found["add"], "true true 5.0")


class Wide(LuaTest):
    def test_missing_values_of_many_fields_do_no_damage_in_a_new_coroutine(self):
        _, events = self.run_lua("wide.lua", "Lua-Wide")
        counts = collections.Counter(event["name"] for event in events)
        for name in ("Flat", "Deep", "SpanStart", "SpanStop"):
            self.assertEqual(counts[name], 100, name)


class Refused(LuaTest):
    def test_each_wrong_declaration_raises_an_error_that_names_it(self):
        lines, _ = self.run_lua("refused.lua")
        found = results(lines)
        for name, message in {
                "nameless": "needs a 'name'", "nul": "'name' contains a NUL",
                "type": "field 'x' has no type 'complex'", "field": "is not a table",
                "field-name": "is empty", "level": "no value 'loud'",
                "level-number": "from 0 to 5", "id": "'id' is an integer",
                "fields": "up to 128 fields", "twice": "Twice: File exists",
                "source": "'': Invalid argument", "source-long": "xxx...: Invalid argument",
                "listener-nul": "contains a NUL", "source-nul": "contains no NUL",
                "counter": "no value 'observed'", "self": "ringpipe.source expected",
                "listener": "a list of 1 to 64", "listener-name": "needs a 'name'",
                "function": "function expected", "metamethod": "needs a 'name'",
                "closed": "the source is closed"}.items():
            self.assertIn(message, found[name], name)
        self.assertNotIn("accepted", " ".join(found.values()))
        self.assertLess(max(map(len, found.values())), 200)


class Listeners(LuaTest):
    def test_events_come_decoded_where_the_program_polls_and_an_error_ends_nothing(self):
        lines, _ = self.run_lua("listener.lua")
        self.assertEqual(lines[0], ["before", "0"])
        numbers = [line for line in lines if line[0] == "Lua-Listened"]
        self.assertEqual([line[5] for line in numbers], ["1", "3", "4"])
        for line in numbers:
            value = int(line[5])
            self.assertEqual(line, ["Lua-Listened", "Number", "true", "4", "2", str(value),
                                    "text", str(value), "2", f"{float(value)},{value / 2}",
                                    "true"])
        polls = [line for line in lines if line[0] == "poll"]
        self.assertEqual(sum(int(line[1]) for line in polls), 4)
        self.assertIn("error in a listener", [" ".join(line[2:]) for line in polls])
        self.assertIn(["nested", "0"], lines)
        self.assertEqual(lines[-6:], [["lost", "0"], ["not-a-number", "0"],
                                      ["stopped", "0", "false"],
                                      ["own", "1", "false"], ["echo", "true"],
                                      ["deep", "1", "stack", "overflow"]])


class Coroutines(LuaTest):
    def test_coroutines_behave_as_without_the_module(self):
        plain, _ = self.run_lua("coroutines.lua")
        self.assertGreater(len(plain), 20)
        found, _ = self.run_lua("coroutines.lua", arguments=("ringpipe",))
        self.assertEqual(found, plain)


class Page(LuaTest):
    def test_the_blocks_of_the_page_run_in_their_order(self):
        page = os.path.join(FOLDER, "..", "..", "doc", "lua.md")
        with open(page, encoding="utf-8") as file:
            blocks = re.findall(r"^```lua\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertEqual(len(blocks), 3)
        script = self.write("page.lua", "\n".join(blocks).encode())
        _, events = self.run_lua(script, "Shop-Lua")
        self.assertEqual([event["name"] for event in events if event["provider"] == "Shop-Lua"],
                         ["OrderPlaced", "CheckoutStart", "OrderPlaced", "CheckoutStop",
                          "CheckoutStart", "CheckoutStop"])


if __name__ == "__main__":
    unittest.main()
