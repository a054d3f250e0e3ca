#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe tail` and `top` without a process, in a PID namespace where only this test's processes
are."""
import collections
import contextlib
import glob
import json
import signal

from tool import PATIENCE, run_in_namespace
from written import WrittenTest


class MachineTest(WrittenTest):
    def setUp(self):
        super().setUp()
        self.hosts = [self.start_host() for _ in range(2)]

    def wait_until_traced(self):
        for host in self.hosts:
            self.wait_until(lambda host=host: self.is_traced(host))


class TailMachine(MachineTest):
    def start_machine(self):
        """Start a tail that traces all hosts, as they confirm."""
        tail = self.start("tail", "--format", "json", "--where", 'provider == "Test-Written"')
        self.wait_until_traced()
        return tail

    def test_events_of_all_processes_are_printed_also_of_later_ones(self):
        tail = self.start_machine()
        self.hosts.append(self.start_host())
        self.wait_until(lambda: self.is_traced(self.hosts[2]))
        for i, host in enumerate(self.hosts):
            self.write_events(10 + i, host)
        tail.send_signal(signal.SIGINT)
        out, err = self.finish(tail, 0)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(collections.Counter(row["process_id"] for row in rows),
                         {host.pid: 10 + i for i, host in enumerate(self.hosts)})
        self.assertRegex(err, r"^33 of \d+ events? printed, 0 dropped\n$")
        for host in self.hosts:
            self.assertIsNone(host.poll())

    def test_lines_of_processes_that_write_simultaneously_are_whole(self):
        tail = self.start_machine()
        for host in self.hosts:
            host.stdin.write(b"100000\n")
            host.stdin.flush()
        serials = {host.pid: [] for host in self.hosts}
        while any(rows[-1:] != [99999] for rows in serials.values()):
            row = json.loads(tail.stdout.readline())
            serials[row["process_id"]].append(row["fields"]["serial"])
        for rows in serials.values():
            self.assertEqual(rows, list(range(100000)))
        tail.send_signal(signal.SIGTERM)
        self.finish(tail, 0)

    def test_tail_ends_after_the_duration_and_when_its_reader_leaves(self):
        tail = self.start("tail", "-d", "1", "-q", "--providers", "Test-Written")
        self.assertEqual(self.finish(tail, 0)[1], "")
        tail = self.start_machine()
        tail.stdout.close()
        self.write_events(1, self.hosts[0])
        self.assertEqual(tail.wait(PATIENCE), 0)
        for host in self.hosts:
            self.wait_until(lambda host=host: not self.is_traced(host))

    def test_a_signal_ends_tail_while_its_output_is_blocked(self):
        tail = self.start_machine()
        for host in self.hosts:
            self.write_events(1_000_000, host)
        tail.send_signal(signal.SIGINT)
        self.assertEqual(tail.wait(PATIENCE), 1)
        self.assertIn("stopped before all events were printed", tail.stderr.read().decode())
        for host in self.hosts:
            self.wait_until(lambda host=host: not self.is_traced(host))


class TopMachine(MachineTest):
    def test_each_process_has_lines_of_its_own_also_a_later_one(self):
        top = self.start("top", "--format", "json", "--refresh", "1",
                         "--providers", "Test-Written")
        self.hosts.append(self.start_host())
        self.wait_until_traced()
        for i, host in enumerate(self.hosts):
            self.write_events(10 + i, host)
        wanted = {host.pid: 10 + i for i, host in enumerate(self.hosts)}
        seen = collections.Counter()
        while any(seen[pid] < count for pid, count in wanted.items()):
            row = json.loads(top.stdout.readline())
            seen[row["process_id"]] = row["all_events"]
        top.send_signal(signal.SIGINT)
        out, err = self.finish(top, 0)
        for line in out.splitlines():
            json.loads(line)
        self.assertEqual(err, "")
        for host in self.hosts:
            self.assertIsNone(host.poll())

    def test_top_ends_after_the_duration_and_when_its_reader_leaves(self):
        # On a loaded machine, a second may be too short for all sessions.
        for seconds in "1", "10", "60":
            top = self.start("top", "-d", seconds, "--providers", "Test-Written")
            out, err = self.finish(top, 0)
            self.assertEqual(err, "")
            if all(f"process {host.pid} " in out for host in self.hosts):
                break
        for host in self.hosts:
            self.assertIn(f"process {host.pid} ", out)
        top = self.start("top", "--refresh", "1", "--providers", "Test-Written")
        self.wait_until_traced()
        top.stdout.close()
        self.assertEqual(top.wait(PATIENCE), 0)
        for host in self.hosts:
            self.wait_until(lambda host=host: not self.is_traced(host))

    @staticmethod
    def waits_for_a_reader():
        """Return whether a thread in this namespace waits for space in a pipe."""
        functions = []
        for path in glob.glob("/proc/[0-9]*/task/*/wchan"):
            with contextlib.suppress(OSError), open(path, encoding="ascii") as wchan:
                functions.append(wchan.read())
        return any("pipe_write" in function for function in functions)

    def test_a_signal_ends_top_while_its_output_is_blocked(self):
        top = self.start_unread("top", "--format", "json", "--refresh", "1")
        self.wait_until(self.waits_for_a_reader)
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(PATIENCE), 1)
        self.assertIn("stopped before all was printed", top.stderr.read().decode())

    def test_csv_has_no_column_for_the_process_and_is_refused(self):
        out, err = self.run_tool("top", "--format", "csv", status=2)
        self.assertIn("CSV has no column for the process", err)
        self.assertFalse(out)


if __name__ == "__main__":
    run_in_namespace()
