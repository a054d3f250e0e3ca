#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Lua functions in the stacks of events and samples.

Environment: as lua_test.py; DOTNET_TRACE, a command, for the reports of dotnet-trace.
"""
import json
import math
import os
import signal
import subprocess
import unittest

from lua_test import FOLDER, PATIENCE, LuaTest

SAMPLES = "Microsoft-DotNETCore-SampleProfiler:0:5"
# Shares of samples may differ from the truth by so many standard deviations.
DEVIATIONS = 5


class EventStacks(LuaTest):
    def setUp(self):
        super().setUp()
        self.run_lua("stacks.lua", "Lua-Stacks", RINGPIPE_STACKS="1")
        lines = self.run_tool("convert", "--to", "jsonl", "-o", "-", self.path("lua.nettrace"))[0]
        events = [json.loads(line) for line in lines.splitlines()]
        # Functions of the interpreter's stripped program have no names.
        self.functions = {event["fields"]["place"]: [name or "" for name in event["functions"]]
                          for event in events if event["provider"] == "Lua-Stacks"}

    def lines(self, place):
        return [int(name.rsplit(":", 1)[1]) for name in self.functions[place] if ".lua:" in name]

    def test_functions_and_lines_are_those_of_the_calls(self):
        self.assertEqual(self.lines("functions"), [7, 11, 14])
        named = [name.split()[0] for name in self.functions["functions"] if ".lua:" in name]
        self.assertEqual(named, ["innermost", "outer", "main"])

    def test_functions_of_c_are_between_those_of_lua(self):
        names = self.functions["sort"]
        self.assertEqual(self.lines("sort"), [7, 17, 16])
        at = [number for number, name in enumerate(names) if ".lua:" in name]
        self.assertIn("sort [C]", names[at[1]:at[2]])

    def test_a_coroutine_is_on_the_stack_of_the_one_that_resumed_it(self):
        self.assertEqual(self.lines("coroutine"), [7, 11, 22, 26])
        self.assertEqual(self.lines("resumed"), [7, 11, 24, 28, 30])

    def test_a_coroutine_that_has_yielded_or_failed_is_on_no_stack(self):
        self.assertEqual(self.lines("after"), [7, 11, 31])
        self.assertEqual(self.lines("error"), [7, 11, 36])

    def test_deep_recursion_leaves_the_innermost_functions(self):
        lines = self.lines("deep")
        self.assertEqual(lines[:2], [7, 40])
        self.assertEqual(set(lines[2:]), {39})
        self.assertGreater(len(lines), 90)

    def test_a_metamethod_is_on_the_stack(self):
        self.assertEqual(self.lines("metamethod"), [7, 46, 48])

    def test_a_function_in_the_memory_of_another_one_has_its_own_name_and_line(self):
        for number in range(1, 21):
            name = f"made{number}"
            self.assertIn(f"main chunk {name}:{number}", self.functions[name])

    def test_a_function_gets_the_name_of_its_first_call_that_has_one(self):
        for place in "nameless", "named":
            name = next(name for name in self.functions[place] if ".lua:" in name)
            self.assertEqual(name.split()[0], "named")
            self.assertEqual(self.lines(place)[0], 60)


class Samples(LuaTest):
    def truth(self):
        """Return the share of each function in the instructions that a hook counted."""
        done = subprocess.run([os.environ["LUA"], os.path.join(FOLDER, "shares.lua"), "truth",
                               "100"], env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=True)
        counts = {line.split("\t")[0].rsplit("/", 1)[1]: int(line.split("\t")[1])
                  for line in done.stdout.splitlines()}
        return {name: count / sum(counts.values()) for name, count in counts.items()}

    def check(self, shares, samples):
        """Compare shares of samples with the truth, by the line where each function begins."""
        if "libasan" in os.environ.get("LD_PRELOAD", ""):
            self.skipTest("a sample of an instrumented library may last longer than an interval, "
                          "so the next sample finds the same function")
        for name, share in self.truth().items():
            if share < 0.01:
                continue
            deviation = math.sqrt(share * (1 - share) / samples)
            self.assertLess(abs(shares[name] - share), DEVIATIONS * deviation,
                            (name, shares[name], share, samples))

    # Each function has one line that needs time, and begins so many lines before it.
    BEGINS = {"one": 2, "three": 2, "recursive": 3}

    def shares(self, rows):
        """Return the samples of Lua functions, by the line where the function begins. A row has the
        name of a function, and its samples or share."""
        found = {}
        for name, number in rows:
            if "shares.lua:" not in name:
                continue
            line = int(name.rsplit(":", 1)[1])
            kind = name.rsplit("!", 1)[-1].split()[0]
            begin = line - self.BEGINS[kind] if kind in self.BEGINS else line - 4
            key = f"shares.lua:{begin}"
            found[key] = found.get(key, 0) + number
        total = sum(found.values())
        return {key: number / total for key, number in found.items()}, total

    def profile(self, *options):
        """Return the rows of `ringpipe report cpu` that have a function."""
        out, _ = self.run_tool("report", self.path("lua.nettrace"), "cpu", "--format", "json",
                               "--top", "1000", *options)
        return [row for row in json.loads(out) if row["function"]]

    def test_a_report_agrees_with_a_hook_that_counts_instructions(self):
        self.run_lua("shares.lua", SAMPLES, arguments=("samples", "2000"), lost=None)
        shares, samples = self.shares((row["function"], row["exclusive_samples"])
                                      for row in self.profile())
        self.check(shares, samples)
        print(f"# figure: {samples} samples of Lua functions")

    def test_functions_of_c_and_of_lua_are_mixed(self):
        self.run_lua("strain.lua", SAMPLES, arguments=("1",), lost=None)
        rows = self.profile()
        callers = {row["function"]: {caller["function"] or "" for caller in row["callers"]}
                   for row in rows}
        self.assertIn("sort [C]", callers)
        self.assertTrue(any("main chunk" in name for name in callers["sort [C]"]))
        self.assertTrue(any(name.startswith("deep") and ".lua:" in name for name in callers))
        self.assertTrue(any("libc.so" in (row["file"] or "") for row in rows))

    def test_one_long_call_of_a_c_function_has_its_callers(self):
        self.run_lua("long.lua", SAMPLES, arguments=("62",), lost=None)
        rows = {row["function"]: row for row in self.profile()}
        line = next(name for name in rows if name.endswith("long.lua:6"))
        samples = max(row["inclusive_samples"] for row in rows.values())
        self.assertGreater(samples, 20)
        # The first sample of the call may be without.
        self.assertGreater(rows[line]["inclusive_samples"], 0.8 * samples)
        self.assertEqual(rows["find [C]"]["callers"][0]["function"], line)

    def test_a_coroutine_that_has_ended_is_on_the_stack_of_no_sample(self):
        for end in ("returned", "failed"):
            self.run_lua("after.lua", SAMPLES, arguments=(end,), lost=None)
            rows = {row["function"]: row for row in self.profile()}
            busy = sum(row["exclusive_samples"] for name, row in rows.items()
                       if name.startswith("busy ") and "after.lua" in name)
            samples = max(row["inclusive_samples"] for row in rows.values())
            self.assertGreater(samples, 20)
            self.assertGreater(busy, 0.8 * samples, (end, rows))

    def has_session(self, pid):
        out, _ = self.run_tool("list", "--format", "json", "-p", str(pid))
        return any(line["kind"] == "session" for line in json.loads(out))

    def test_a_recording_of_the_machine_agrees_with_a_hook_that_counts_instructions(self):
        with subprocess.Popen([os.environ["LUA"], os.path.join(FOLDER, "shares.lua"), "samples",
                               "6000", "wait"], env=self.environment,
                              stdin=subprocess.PIPE) as program, \
             subprocess.Popen([os.environ["RINGPIPE"], "record", "-p", str(program.pid), "-o",
                               self.path("lua.nettrace")],
                              env=self.environment, stderr=subprocess.PIPE,
                              text=True) as recorder:
            self.wait_for_port(program.pid)
            self.wait_until(lambda: self.has_session(program.pid) or recorder.poll() is not None)
            program.communicate(b"\n", timeout=PATIENCE)
            self.assertEqual(program.returncode, 0)
            if recorder.poll() is None:
                recorder.send_signal(signal.SIGINT)
            message = recorder.communicate(timeout=PATIENCE)[1]
        if recorder.returncode != 0 and "perf_event" in message:
            self.skipTest(message.strip())
        self.assertEqual(recorder.returncode, 0, message)
        rows = self.profile()
        shares, samples = self.shares((row["function"], row["exclusive_samples"])
                                      for row in rows)
        self.assertGreater(samples, 50)
        # Two samples of the machine may have got the stack of the same sample of the process.
        self.check(shares, samples / 2)
        callers = {caller["function"] for row in rows if "main chunk" in row["function"]
                   for caller in row["callers"]}
        self.assertIn(None, callers)  # the interpreter is stripped
        self.assertTrue(any(row["function"] == "lua_pcallk" for row in rows))
        print(f"# figure: {samples} samples of the machine in Lua functions")

    def test_a_strained_program_ends_as_without_a_session_and_keeps_its_hook(self):
        lines, _ = self.run_lua("strain.lua", SAMPLES + ",Lua-Runtime", arguments=("1",), lost=None,
                                RINGPIPE_STACKS="1")
        self.assertEqual(lines, [["done", "true", "c", "true"]])


if __name__ == "__main__":
    unittest.main()
