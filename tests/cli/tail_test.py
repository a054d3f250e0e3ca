#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe tail` on a real process: HOST writes as many events as the test requests."""
import json
import re
import signal
import subprocess
import threading
import unittest

from tool import PATIENCE, TOOL
from written import WrittenTest

MANY = 3_000_000


class Tail(WrittenTest):
    def test_an_event_is_printed_while_the_session_runs(self):
        self.start_host()
        tail = self.start_tail("--providers", "Test-Written")
        for serial in range(3):
            self.write_events(1)
            line = tail.stdout.readline().decode()
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT[\d:.]+Z  \d+  Test-Written/order  ")
            self.assertIn(f'"serial":{serial},', line)
        tail.send_signal(signal.SIGINT)
        out, err = self.finish(tail, 0)
        self.assertEqual(out, "")
        self.assertRegex(err, r"^3 of \d+ events? printed, 0 dropped\n$")

    def test_all_events_up_to_a_signal_are_printed_and_the_status_is_0(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(signal=number.name):
                self.start_host()
                tail = self.start_tail("--format", "json")
                self.write_events(1000)
                tail.send_signal(number)
                self.assertEqual(self.serials(self.finish(tail, 0)[0]), list(range(1000)))
                self.assertIsNone(self.host.poll())

    def test_tail_ends_with_the_process_and_after_the_duration(self):
        self.start_host()
        tail = self.start_tail("--format", "json", "-d", "600")
        self.write_events(5)
        self.end_host()
        out, err = self.finish(tail, 0)
        self.assertEqual(self.serials(out), list(range(5)))
        self.assertIn(f"Process {self.host.pid} ended the session.\n", err)
        self.start_host()
        tail = self.start("tail", self.host.pid, "-q", "-d", "1")
        self.assertEqual(self.finish(tail, 0)[1], "")

    def test_a_killed_process_ends_tail_with_status_1(self):
        self.start_host()
        tail = self.start_tail("--format", "json")
        self.write_events(3)
        first = [json.loads(tail.stdout.readline())["fields"].get("serial") for _ in range(3)]
        self.host.kill()
        _, err = self.finish(tail, 1)
        self.assertIn(2, first)
        self.assertIn("the trace stops before its end", err)

    def test_where_selects_events_and_csv_has_a_header(self):
        self.start_host()
        tail = self.start_tail("--format", "csv", "--where",
                               'provider == "Test-Written" and serial >= 7 and thread > 1')
        self.write_events(10)
        tail.send_signal(signal.SIGINT)
        out, err = self.finish(tail, 0)
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith("time_utc,time_ns,"), lines)
        self.assertEqual(re.findall(r'""serial"":(\d+)', out), ["7", "8", "9"])
        self.assertEqual(len(lines), 4)
        self.assertRegex(err, r"^3 of \d+ events? printed")

    def test_the_process_does_not_wait_and_each_event_is_printed_or_counted_as_dropped(self):
        """Nothing reads the output until the host has written all events."""
        self.start_host()
        tail = self.start_tail("--format", "json", "--buffer", "1", "--providers", "Test-Written",
                               "--where", 'provider == "Test-Written"')
        self.write_events(MANY)
        lines = []

        def read_lines():
            for line in tail.stdout:
                lines.append(line)

        reader = threading.Thread(target=read_lines)
        reader.start()
        written = MANY

        def has_the_end():
            nonlocal written
            self.write_events(1)
            written += 1
            return lines and self.serials(lines[-1])[0] >= MANY

        self.wait_until(has_the_end)
        tail.send_signal(signal.SIGINT)
        reader.join(PATIENCE)
        self.assertEqual(tail.wait(PATIENCE), 0)
        err = tail.stderr.read().decode()
        serials = self.serials(b"".join(lines))
        self.assertLess(len(serials), written)
        self.assertEqual(serials, sorted(set(serials)))
        self.assertIsNone(self.host.poll())
        numbers = re.findall(r"tail: dropped ([\d,]+) events?\n", err)
        dropped = sum(int(number.replace(",", "")) for number in numbers)
        self.assertGreater(len(numbers), 0)
        self.assertEqual(len(serials) + dropped, written)
        self.assertIn(f" printed, {dropped:,} dropped\n", err)

    def test_a_signal_ends_tail_while_its_output_is_blocked(self):
        self.start_host()
        tail = self.start_tail("--providers", "Test-Written")
        self.write_events(MANY)
        tail.send_signal(signal.SIGINT)
        self.assertEqual(tail.wait(PATIENCE), 1)
        self.assertIn("stopped before all events were printed", tail.stderr.read().decode())
        self.wait_until(lambda: not self.is_traced())

    def test_a_signal_ends_collect_while_its_output_is_blocked(self):
        self.start_host()
        collect = self.start("collect", "-p", self.host.pid, "-o", "-")
        self.wait_until(self.is_traced)
        self.write_events(MANY)
        collect.send_signal(signal.SIGINT)
        self.assertEqual(collect.wait(PATIENCE), 1)
        self.assertIn("has stopped reading; the trace stops before its end",
                      collect.stderr.read().decode())
        self.wait_until(lambda: not self.is_traced())

    def test_a_reader_that_leaves_ends_tail_without_a_message(self):
        self.start_host()
        tail = self.start_tail("--providers", "Test-Written")
        self.write_events(1)
        tail.stdout.readline()
        tail.stdout.close()
        self.write_events(MANY)
        self.assertEqual(tail.wait(PATIENCE), 0)
        self.assertEqual(tail.stderr.read(), b"")
        self.wait_until(lambda: not self.is_traced())

    def test_an_output_that_fails_ends_tail_with_status_1(self):
        self.start_host()
        with open("/dev/full", "wb") as full:
            tail = subprocess.Popen([TOOL, "tail", str(self.host.pid)], stdout=full,
                                    stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.reap, tail)
        self.wait_until(self.is_traced)
        self.write_events(MANY)
        err = tail.communicate(timeout=PATIENCE)[1].decode()
        self.assertEqual(tail.returncode, 1, err)
        self.assertIn("cannot write the output", err)

    def test_wrong_arguments_are_reported_before_the_session(self):
        self.start_host()
        _, err = self.run_tool("tail", self.host.pid, "--where", "serial >", status=2)
        self.assertEqual(err.splitlines()[1:], ["  serial >", "          ^"])
        _, err = self.run_tool("tail", self.host.pid, "--providers", "Nonesuch", status=1)
        self.assertIn("Test-Written", err)
        _, err = self.run_tool("tail", "1", status=1)
        self.assertIn("process 1", err)


if __name__ == "__main__":
    unittest.main()
