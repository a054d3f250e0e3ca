#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe collect --tree`: a server, its workers and their workers in one file; HOST is the
server."""
import collections
import fcntl
import json
import os
import select
import signal
import subprocess
import time
import unittest

from tool import PATIENCE, ToolTest

HOST = os.environ.get("HOST", "")
WORKERS, EVENTS = 4, 500


class Tree(ToolTest):
    def summary(self, status=0):
        return json.loads(self.run_tool("report", "t.nettrace", "--format=json", status=status)[0])

    def check(self, processes):
        """Each process wrote 0 to EVENTS - 1, and all are present once, in order, under its id."""
        serials = collections.defaultdict(list)
        before = 0
        for line in self.run_tool("report", "t.nettrace", "events",
                                  "--format=json")[0].splitlines():
            event = json.loads(line)
            self.assertGreaterEqual(event["time_ns"], before)
            before = event["time_ns"]
            if event["provider"] != "Test-Forks":
                continue
            self.assertEqual(event["process_id"], event["fields"]["process"])
            if event["event"] == "mark":
                self.assertEqual(event["fields"]["text"], "text")
                serials[event["process_id"]].append(event["fields"]["serial"])
        self.assertEqual(len(serials), processes)
        for pid, numbers in serials.items():
            self.assertEqual(numbers, list(range(EVENTS)), pid)
        found = self.strict("t.nettrace", "--merged", "--serials", "Test-Forks/mark:process:serial")
        self.assertEqual({int(pid): writer for pid, writer in found["writers"].items()},
                         {pid: {"first": 0, "last": EVENTS - 1, "count": EVENTS}
                          for pid in serials})
        self.assertEqual(found["lost_in_points"], 0)
        return serials

    def serials_of(self, process, path="t.nettrace"):
        events = map(json.loads, self.run_tool("report", path, "events",
                                               "--format=json")[0].splitlines())
        return [event["fields"]["serial"] for event in events
                if event["event"] == "mark" and event["fields"]["process"] == process]

    def start_host(self, how, workers=WORKERS):
        host = subprocess.Popen([HOST, how, str(workers), str(EVENTS)], env=self.environment,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.directory)
        self.addCleanup(self.reap, host)
        self.wait_for_port(host.pid)
        return host

    def test_command_its_workers_and_theirs_are_one_file(self):
        process = self.start("collect", "--tree", "-o", "t.nettrace", "--", HOST, "exit", WORKERS,
                             EVENTS)
        _, err = self.finish(process, 0)
        self.assertIn("t.nettrace: ", err)
        serials = self.check(1 + 2 * WORKERS)
        summary = self.summary()
        rows = {row["process_id"]: row for row in summary["processes"]}
        self.assertEqual(set(rows), set(serials))
        self.assertTrue(summary["complete"])
        for row in rows.values():
            self.assertEqual((row["complete"], row["lost"]), (True, 0))
            self.assertGreaterEqual(row["events"], EVENTS)
            self.assertEqual(row["name"], os.path.basename(HOST)[:15])
        root = summary["process_id"]
        self.assertEqual(sum(row["parent_id"] == root for row in rows.values()), WORKERS)
        text = self.run_tool("report", "t.nettrace")[0]
        self.assertIn(f"Processes  {1 + 2 * WORKERS}\n", text)

    def test_coarse_times_of_a_tree_are_reported_by_each_process(self):
        process = self.start("collect", "--tree", "--coarse", "-o", "t.nettrace", "--", HOST,
                             "exit", 1, EVENTS)
        self.finish(process, 0)
        self.check(3)
        events = map(json.loads, self.run_tool("report", "t.nettrace", "events",
                                               "--format=json")[0].splitlines())
        reported = [event["process_id"] for event in events if event["event"] == "CoarseTime"]
        self.assertEqual(len(set(reported)), 3)
        self.assertEqual(self.summary()["time_step_ns"], 1000000)

    def test_server_that_runs_is_recorded_with_what_descends_from_it(self):
        host = self.start_host("exit")
        process = self.start("collect", "--tree", "-p", host.pid, "-o", "t.nettrace")
        self.finish(process, 0)
        self.assertEqual(host.wait(PATIENCE), 0)
        self.check(1 + 2 * WORKERS)

    def test_servers_that_show_a_title_in_place_of_their_environment_are_found(self):
        host = self.start_host("titled")
        # The tool does not look in the folder of the sockets.
        self.environment["TMPDIR"] = self.path("elsewhere")
        os.mkdir(self.environment["TMPDIR"])
        process = self.start("collect", "--tree", "-p", host.pid, "-o", "t.nettrace")
        self.finish(process, 0)
        self.assertEqual(host.wait(PATIENCE), 0)
        self.check(1 + 2 * WORKERS)

    def test_provider_that_no_process_below_a_root_without_a_socket_has_is_an_error(self):
        # Another recorder on this machine could make workers begin, and they would not end.
        self.start_host("stay", workers=0)
        _, err = self.run_tool("collect", "--tree", "-p", os.getpid(), "--providers", "Nonsuch",
                               "-o", "t.nettrace", status=1)
        self.assertIn(f"process {os.getpid()} has no provider 'Nonsuch'; it has: ", err)
        self.assertIn("Test-Forks", err)

    def test_ctrl_c_leaves_a_whole_file(self):
        host = self.start_host("stay")
        process = self.start("collect", "--tree", "-p", host.pid, "-o", "t.nettrace")
        for _ in range(1 + 2 * WORKERS):
            self.assertTrue(host.stdout.readline())
        process.send_signal(signal.SIGINT)
        self.finish(process, 0)
        self.check(1 + 2 * WORKERS)
        host.stdin.close()
        self.assertEqual(host.wait(PATIENCE), 0)
        # No temporary file is left.
        self.assertEqual(os.listdir(self.directory), ["t.nettrace"])

    def test_a_second_signal_cuts_the_parts_of_processes_that_do_not_end_theirs(self):
        host = self.start_host("stay", workers=0)
        process = self.start("collect", "--tree", "-p", host.pid, "-o", "t.nettrace")
        self.assertTrue(host.stdout.readline())
        self.freeze(host)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        _, err = self.finish(process, 130)
        self.assertIn("cancelled", err)
        host.send_signal(signal.SIGCONT)

    def test_a_second_signal_ends_the_wait_for_a_process_that_does_not_answer(self):
        host = self.start_host("stay", workers=0)
        self.freeze(host)
        process = self.start("collect", "--tree", "-p", host.pid, "-o", "t.nettrace")
        children = f"/proc/{process.pid}/task/{process.pid}/children"

        def has_recorder():
            with open(children, encoding="utf-8") as file:
                return file.read()
        self.wait_until(has_recorder)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 130)
        self.assertNotIn("t.nettrace", os.listdir(self.directory))
        host.send_signal(signal.SIGCONT)

    def test_signals_end_a_command_whose_trace_nothing_reads(self):
        command = ["collect", "--tree", "-o", "-", "--", HOST, "exit", 1, EVENTS]
        self.assertIn("cancelled", self.interrupt_twice(self.start_unread(*command)))
        process = self.start_unread(*command)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 1)
        self.assertIn("has stopped reading", process.stderr.read().decode())

    def record_for_a_second(self):
        """Record until the time is over, and the trace fills a pipe."""
        host = self.start_host("stay", workers=0)
        process = self.start("collect", "-q", "--tree", "-p", host.pid, "-d", "1", "-o", "-")
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        self.wait_until(lambda: select.select([process.stdout], [], [], 0)[0])
        return process

    def read_whole(self, process):
        self.write("t.nettrace", process.stdout.read())
        self.assertEqual(process.wait(PATIENCE), 0, process.stderr.read())
        self.assertTrue(self.summary()["complete"])

    def test_a_reader_that_pauses_after_the_end_of_the_time_gets_the_whole_trace(self):
        process = self.record_for_a_second()
        time.sleep(2.5)  # only after a signal, the command waits for two seconds
        self.read_whole(process)

    def test_a_signal_after_the_end_of_the_time_leaves_the_reader_time_for_the_whole_trace(self):
        process = self.record_for_a_second()
        process.send_signal(signal.SIGINT)
        self.read_whole(process)

    def test_killed_worker_loses_no_more_than_its_own_end(self):
        process = self.start("collect", "--tree", "-o", "t.nettrace", "--", HOST, "kill", WORKERS,
                             EVENTS)
        _, err = self.finish(process, 1)
        rows = self.summary()["processes"]
        cut = [row for row in rows if not row["complete"]]
        self.assertEqual(len(cut), 1)
        self.assertIn(f"process {cut[0]['process_id']} ended before it", err)
        numbers = self.serials_of(cut[0]["process_id"])
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertEqual(len(rows), 1 + 2 * WORKERS)

    def test_program_that_takes_anothers_place_is_another_part(self):
        process = self.start("collect", "--tree", "-o", "t.nettrace", "--", HOST, "exec", WORKERS,
                             EVENTS)
        _, err = self.finish(process, 1)
        rows = self.summary()["processes"]
        self.assertEqual(len(rows), 2 + 2 * WORKERS)
        cut, = [row for row in rows if not row["complete"]]
        self.assertIn(f"process {cut['process_id']} ended before it", err)
        serials = self.serials_of(cut["process_id"])
        # The second program's events are complete, after those that the first one sent.
        self.assertEqual(serials[-EVENTS:], list(range(EVENTS)))
        self.assertEqual(serials[:-EVENTS], list(range(len(serials) - EVENTS)))

    def test_daemon_of_a_command_is_recorded_with_its_workers(self):
        process = self.start("collect", "--tree", "-o", "t.nettrace", "--", HOST, "daemon", 2,
                             EVENTS)
        self.finish(process, 1)
        summary = self.summary()
        before, = [row for row in summary["processes"] if not row["complete"]]
        self.assertEqual(before["process_id"], summary["process_id"])
        serials = self.serials_of(before["process_id"])
        self.assertEqual(serials, list(range(len(serials))))
        after = [row for row in summary["processes"] if row["complete"]]
        self.assertEqual(len(after), 1 + 2 * 2)
        for row in after:
            self.assertEqual(self.serials_of(row["process_id"]), list(range(EVENTS)))

    def test_a_provider_that_the_root_lacks_is_an_error_at_the_start(self):
        host = self.start_host("exit")
        err = self.run_tool("collect", "--tree", "-p", host.pid, "--providers", "Test-Froks",
                            "-o", "t.nettrace", status=1)[1]
        self.assertRegex(err, f"process {host.pid} has no provider 'Test-Froks'; it has: [^\n]*"
                              "Test-Forks")
        self.assertFalse(os.path.exists(self.path("t.nettrace")))
        # Its processes wait for a session.
        self.run_tool("collect", "--tree", "-p", host.pid, "-o", "t.nettrace")
        self.assertEqual(host.wait(PATIENCE), 0)

    def test_a_provider_that_a_command_lacks_is_an_error_at_its_end(self):
        for providers, missing in (("Test-Forks", 0), ("Test-Forks,Test-Froks", 1)):
            process = self.start("collect", "--tree", "--providers", providers, "-f", "-o",
                                 "t.nettrace", "--", HOST, "exit", WORKERS, EVENTS)
            _, err = self.finish(process, missing)
            self.assertEqual(err.count("has no provider 'Test-Froks'"), missing, err)
            self.check(1 + 2 * WORKERS)

    def test_kernels_events_are_of_one_process(self):
        err = self.run_tool("collect", "--tree", "--kernel", "all", "-p", os.getpid(), status=2)[1]
        self.assertIn("--kernel traces one process", err)


if __name__ == "__main__":
    unittest.main()
