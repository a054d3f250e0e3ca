#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Flight recorders in files: what `ringpipe recover` restores from a process that crashed."""
import json
import os
import signal
import subprocess
import unittest

from tool import PATIENCE, ToolTest

HOST = os.environ["HOST"]
EVENTS = 150000
# Sanitizers would handle the signals under test, and change the outcome.
PLAIN = ":".join(f"handle_{name}=0" for name in ("segv", "sigbus", "abort", "sigill", "sigfpe"))


class Crash(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment.update(RINGPIPE_CONFIG="Test-Host", RINGPIPE_RECORDER="1",
                                RINGPIPE_RECOVER=self.path("keep"), RINGPIPE_BUFFER_MB="8",
                                RINGPIPE_DIAGNOSTICS="0")
        for name in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
            before = self.environment.get(name)
            self.environment[name] = f"{before}:{PLAIN}" if before else PLAIN

    def crash(self, how, status):
        done = subprocess.run([HOST, how], stdout=subprocess.PIPE, env=self.environment,
                              cwd=self.directory, check=False, timeout=PATIENCE)
        self.assertEqual((done.stdout, done.returncode), (b"written\n", status))

    def recover(self, name="r.nettrace"):
        kept, = os.listdir(self.path("keep"))
        out, err = self.run_tool("recover", os.path.join("keep", kept), "-o", name)
        self.assertEqual(err, "")
        return out

    def check(self, last, name="r.nettrace"):
        """No event is missing inside the window, or between it and the last one written."""
        summary = json.loads(self.run_tool("report", name, "--format=json")[0])
        self.assertTrue(summary["complete"])
        self.assertEqual(summary["unordered"], 0)
        found = self.strict(name, "--recovered", "--serials", "Test-Host/mark:number")
        self.assertEqual(found["kinds"]["Test-Host/began"], 1)
        self.assertEqual([writer["last"] for writer in found["writers"].values()], [last])
        window = summary["window"]
        self.assertLess(window["from_ns"], window["to_ns"])
        numbers, inside = [], 0
        events = self.run_tool("report", name, "events", "--format=json")[0].splitlines()
        for event in map(json.loads, events):
            if event["event"] != "mark":
                continue
            number = event["fields"]["number"]
            if event["time_ns"] >= window["from_ns"]:
                self.assertTrue(inside == 0 or number == numbers[-1] + 1, (number, numbers[-1:]))
                inside += 1
            numbers.append(number)
        self.assertEqual(numbers[-1], last)
        self.assertGreater(inside, 100)  # rings are small on machines with many processors
        self.assertLess(len(numbers), EVENTS)
        self.assertEqual([json.loads(event)["fields"] for event in events
                          if '"began"' in event], [{"answer": 42}])

    def test_every_end_leaves_what_was_recorded_and_stays_what_it_was(self):
        for how, status in [("fault", -signal.SIGSEGV), ("threads", -signal.SIGSEGV),
                            ("heap", -signal.SIGSEGV), ("overflow", -signal.SIGSEGV),
                            ("abort", -signal.SIGABRT), ("9", -signal.SIGKILL),
                            ("7", -signal.SIGBUS), ("8", -signal.SIGFPE), ("4", -signal.SIGILL)]:
            with self.subTest(how=how):
                self.run_tool("recover", "--prune", "keep")
                self.crash(how, status)
                self.assertRegex(self.recover(), r"; complete from \d{4}-.* to .* UTC\n$")
                self.check(EVENTS - 1)
                os.unlink(self.path("r.nettrace"))

    def test_a_handler_of_the_program_runs_and_what_it_writes_is_there(self):
        self.crash("handler", 42)
        self.recover()
        self.check(EVENTS)

    def test_a_recorder_with_an_output_leaves_as_much(self):
        self.environment["RINGPIPE_OUTPUT"] = self.path("t.nettrace")
        self.crash("abort", -signal.SIGABRT)
        self.recover()
        self.check(EVENTS - 1)

    def test_an_end_by_itself_leaves_nothing_but_the_output(self):
        self.environment["RINGPIPE_OUTPUT"] = self.path("t.nettrace")
        self.crash("0", 0)
        self.assertEqual(os.listdir(self.path("keep")), [])
        self.check(EVENTS - 1, "t.nettrace")

    def test_files_cut_or_changed_anywhere_never_kill_it(self):
        self.crash("9", -signal.SIGKILL)
        kept = os.path.join(self.path("keep"), os.listdir(self.path("keep"))[0])
        ring = max((os.path.join(kept, name) for name in os.listdir(kept)
                    if name.startswith("ring-")), key=lambda path: self.read(path)[64:72])
        whole = self.read(ring)
        for at in range(0, 136, 8):
            for word in (b"\xff" * 8, b"\x08" + b"\0" * 7):
                with open(ring, "r+b") as file:
                    file.write(whole[:at] + word + whole[at + 8:256])
                process = self.start("recover", kept, "-o", "r.nettrace", "--force")
                process.communicate(timeout=PATIENCE)
                self.assertIn(process.returncode, (0, 1))


if __name__ == "__main__":
    unittest.main()
