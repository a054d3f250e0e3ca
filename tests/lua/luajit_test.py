#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The perf map of LuaJIT names its machine code in a recording of the machine.

Environment: LUAJIT, the interpreter, or empty; EXAMPLE, the folder of luajit_map.lua; RINGPIPE.
"""
import json
import math
import os
import signal
import subprocess
import unittest

from lua_test import FOLDER, PATIENCE, LuaTest

DEVIATIONS = 5
# The lines of the loops in jit_shares.lua, and their shares of the iterations.
SHARES = {"jit_shares.lua:6": 1 / 4, "jit_shares.lua:11": 3 / 4}


class LuaJit(LuaTest):
    def setUp(self):
        super().setUp()
        if not os.environ["LUAJIT"]:
            self.skipTest("there is no luajit")

    def start_jit(self, rounds, wrapper=(), **options):
        path = f'package.path = "{os.environ["EXAMPLE"]}/?.lua;" .. package.path'
        return subprocess.Popen([*wrapper, os.environ["LUAJIT"], "-e", path, "-l", "luajit_map",
                                 os.path.join(FOLDER, "jit_shares.lua"), str(rounds)],
                                env=self.environment, text=True, **options)

    def remove_map(self, process):
        path = f"/tmp/perf-{process}.map"
        if os.path.exists(path):
            os.unlink(path)

    def test_the_map_has_each_trace_with_its_range_and_line(self):
        with self.start_jit(100) as program:
            self.assertEqual(program.wait(PATIENCE), 0)
            self.addCleanup(self.remove_map, program.pid)
        with open(f"/tmp/perf-{program.pid}.map", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(" ", 2) for line in file]
        ranges = sorted((int(start, 16), int(start, 16) + int(size, 16)) for start, size, _ in rows)
        self.assertGreaterEqual(len(ranges), 2)
        for (start, end), (later, _) in zip(ranges, ranges[1:] + [(2**64, 0)]):
            self.assertLess(start, end)
            self.assertLessEqual(end, later)
        for place in SHARES:
            self.assertTrue(any(name.startswith("trace ") and name.endswith(place)
                                for _, _, name in rows), rows)

    def test_the_map_has_nothing_of_an_earlier_process_with_the_same_id(self):
        earlier = ("sh", "-c", 'echo "1000 10 earlier" > /tmp/perf-$$.map; exec "$@"', "sh")
        with self.start_jit(100, earlier) as program:
            self.addCleanup(self.remove_map, program.pid)
            self.assertEqual(program.wait(PATIENCE), 0)
        with open(f"/tmp/perf-{program.pid}.map", encoding="utf-8") as file:
            text = file.read()
        self.assertIn(" trace ", text)
        self.assertNotIn("earlier", text)

    def record_while_it_runs(self, program):
        """Record the program until it has used a second of processor time, which takes longer on a
        busy machine. Return the recorder's status and messages."""
        def user_s():
            with open(f"/proc/{program.pid}/stat", encoding="ascii") as stat:
                ticks = stat.read().rpartition(")")[2].split()[11]
            return int(ticks) / os.sysconf("SC_CLK_TCK")

        def has_bytes():
            return os.path.exists(trace) and os.path.getsize(trace) > 0

        trace = self.path("t.nettrace")
        recorder = self.start("record", "-p", program.pid, "-o", trace, "--providers", "none")
        self.wait_until(lambda: has_bytes() or recorder.poll() is not None)
        begin = user_s()
        self.wait_until(lambda: user_s() > begin + 1 or recorder.poll() is not None)
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=PATIENCE)
        return recorder.returncode, errors.decode()

    def test_samples_of_the_machine_have_its_names_and_their_shares(self):
        with self.start_jit(10**9) as program:
            self.addCleanup(self.remove_map, program.pid)
            try:
                status, errors = self.record_while_it_runs(program)
            finally:
                program.kill()
        if status != 0 and "perf_event" in errors:
            self.skipTest(errors.strip())
        self.assertEqual(status, 0, errors)
        out, _ = self.run_tool("report", self.path("t.nettrace"), "cpu", "--format", "json")
        found = dict.fromkeys(SHARES, 0)
        for row in json.loads(out):
            for place in SHARES:
                if (row["function"] or "").endswith(place):
                    found[place] += row["exclusive_samples"]
        total = sum(found.values())
        self.assertGreater(total, 20, out)
        for place, share in SHARES.items():
            deviation = math.sqrt(share * (1 - share) / total)
            self.assertLess(abs(found[place] / total - share), DEVIATIONS * deviation, found)
        print(f"# figure: {total} samples in code of LuaJIT")


if __name__ == "__main__":
    unittest.main()
