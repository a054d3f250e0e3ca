#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe flight`, on a real process and on faulty servers."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import unittest

import nettrace
import server
from server import UNKNOWN_COMMAND, error, message, ok, string
from tool import PATIENCE, VERSION, ToolTest

HOST = os.environ["HOST"]
PACED = os.environ["PACED"]
FORMAT = {"4": 1, "6": 6}[VERSION]  # the number that a request has for it
RECORD, END, SNAPSHOT = (0x52, 6), (0x52, 7), (0x52, 8)
SESSION = struct.pack("<Q", 77)


class Recorder(ToolTest):
    def start_host(self, stderr=None, program=HOST, **environment):
        host = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=stderr, env=dict(self.environment, **environment),
                                cwd=self.directory)
        self.addCleanup(self.reap, host)
        self.assertEqual(int(host.stdout.readline()), host.pid)
        self.wait_for_port(host.pid)
        return host

    def snapshot(self, host, *arguments):
        return self.run_tool("flight", "snapshot", "-p", host.pid, *arguments)

    def ticks(self, path):
        """Return (time, serial) of each event, and the window; the trace is complete, without a gap
        inside."""
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertTrue(summary["complete"])
        self.assertEqual(summary["lost"], 0)
        events = [json.loads(line)
                  for line in self.run_tool("report", path, "events",
                                            "--format=json")[0].splitlines()]
        own = [event["event"] for event in events if event["provider"] == "ringpipe"]
        self.assertEqual(own[-1], "Snapshot")
        ticks = [event["fields"]["serial"] for event in events if event["event"] == "tick"]
        self.assertEqual(ticks, list(range(ticks[0], ticks[0] + len(ticks))) if ticks else [])
        found = self.strict(path, *(["--recovered"] if path == "r.nettrace" else []),
                            "--serials", "Ipc-Host/tick:serial")
        self.assertEqual((found["missing"], found["lost_in_points"]), (0, 0))
        self.assertEqual(found["window"][1] - found["window"][0],
                         summary["window"]["to_ns"] - summary["window"]["from_ns"])
        return ticks, summary["window"]

    def test_a_recorder_is_switched_on_asked_and_switched_off(self):
        host = self.start_host()
        out, _ = self.run_tool("flight", "start", "-p", host.pid, "--providers", "Ipc-Host")
        self.assertRegex(out, rf"^Process {host.pid} \(\S+\) runs a flight recorder, session \d+")

        def has_ticks():
            self.snapshot(host, "-o", "s.nettrace", "-f", "-q")
            return len(self.ticks("s.nettrace")[0]) > 5

        self.wait_until(has_ticks)
        first, window = self.ticks("s.nettrace")
        self.assertGreater(window["to_ns"], window["from_ns"])
        _, err = self.snapshot(host, "-o", "again.nettrace")
        self.assertRegex(err, r"^again.nettrace: \d+ events?, 0 lost, .*; complete from \d{4}-.* "
                              r"to .* UTC, [0-9.]+ s\n$")
        again, _ = self.ticks("again.nettrace")
        self.assertEqual(again[0], first[0])
        self.assertGreaterEqual(again[-1], first[-1])
        self.assertIn("Window ", self.run_tool("report", "again.nettrace")[0])
        out, _ = self.run_tool("flight", "stop", "-p", host.pid)
        self.assertIn("stopped its flight recorder", out)
        for arguments in (["flight", "snapshot", "-p", host.pid],
                          ["flight", "stop", "-p", host.pid]):
            self.assertIn("no flight recorder runs", self.run_tool(*arguments, status=1)[1])

    def window_ns(self, host):
        self.snapshot(host, "-o", "s.nettrace", "-f", "-q")
        window = json.loads(self.run_tool("report", "s.nettrace", "--format=json")[0])["window"]
        return window["to_ns"] - window["from_ns"]

    def test_a_window_of_seconds_is_reached(self):
        host = self.start_host(program=PACED)
        out, _ = self.run_tool("flight", "start", "-p", host.pid, "--providers", "Test-Paced",
                               "--last", "3s")
        megabytes, seconds = re.search(r"^In (\d+) MB, it holds the last ([0-9.]+) s at the "
                                       r"present rate\.$", out, re.MULTILINE).groups()
        self.assertGreaterEqual(float(seconds), 3)
        self.assertGreater(int(megabytes), 8)
        self.wait_until(lambda: self.window_ns(host) >= 3e9)
        self.assertIn("stopped its flight recorder",
                      self.run_tool("flight", "stop", "-p", host.pid)[0])

    def test_a_small_buffer_that_holds_the_window_goes_on_as_the_recorder(self):
        host = self.start_host()
        out, _ = self.run_tool("flight", "start", "-p", host.pid, "--providers", "Ipc-Host",
                               "--last", "1")
        self.assertRegex(out, r"(?m)^In 8 MB, it holds the last [1-9][0-9.]* s at the present rate")
        self.assertGreaterEqual(self.window_ns(host), 1e9)

    def test_a_measurement_that_is_given_up_leaves_no_recorder(self):
        host = self.start_host()
        process = self.start("flight", "start", "-p", host.pid, "--last", "1h")

        # A signal that comes before the session ends the command in the default way.
        self.wait_until(lambda: any(row["kind"] == "session" for row in json.loads(
            self.run_tool("list", host.pid, "--format=json")[0])))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"cancelled; no flight recorder runs", err)
        self.assertIn("no flight recorder runs",
                      self.run_tool("flight", "stop", "-p", host.pid, status=1)[1])

    def test_a_signal_before_the_first_answer_leaves_no_recorder(self):
        started = threading.Event()

        def handle(connection, request):
            if request.command == RECORD:
                self.assertTrue(started.wait(PATIENCE))
                process.send_signal(signal.SIGINT)
            connection.sendall(ok(SESSION))
        fake = self.serve(handle)
        process = self.start("flight", "start", "-p", os.getpid(), "--allow-missing",
                             "--last", "1h")
        started.set()
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual([request.command for request in fake.requests][-2:], [RECORD, END])

    def test_options_that_size_the_buffer_exclude_each_other(self):
        for more in (["--buffer", "8"], ["--roll", "8", "-o", "x"]):
            err = self.run_tool("flight", "start", "-p", "1", "--last", "3", *more, status=2)[1]
            self.assertIn("--last cannot be used with --roll or --buffer", err)
        for wrong in ("0", "3x", "", "-1"):
            self.run_tool("flight", "start", "-p", "1", "--last=" + wrong, status=2)

    def test_a_recorder_of_the_environment_is_asked_the_same_way(self):
        host = self.start_host(RINGPIPE_CONFIG="Ipc-Host", RINGPIPE_RECORDER="1")
        self.snapshot(host, "-o", "s.nettrace")
        self.ticks("s.nettrace")
        self.run_tool("flight", "start", "-p", host.pid, "--providers", "Ipc-Host")
        err = self.run_tool("flight", "snapshot", "-p", host.pid, status=1)[1]
        self.assertIn("several recorders run: give a session id", err)

    def test_a_signal_writes_a_snapshot(self):
        host = self.start_host(RINGPIPE_CONFIG="Ipc-Host", RINGPIPE_RECORDER="1",
                               RINGPIPE_SNAPSHOT_SIGNAL="USR2")
        for number in (1, 2):
            name = f"snapshot-{host.pid}.{number:06}.nettrace"
            host.send_signal(signal.SIGUSR2)

            def is_whole(name=name):
                process = self.start("report", name, "--format=json")
                return b'"complete": true' in process.communicate(timeout=PATIENCE)[0]

            self.wait_until(is_whole)
            self.ticks(name)
        self.run_tool("flight", "start", "-p", host.pid)  # it continues

    def test_a_snapshot_that_cannot_be_written_is_reported(self):
        with open(self.path("err"), "wb") as err:
            host = self.start_host(RINGPIPE_CONFIG="Ipc-Host", RINGPIPE_RECORDER="1",
                                   RINGPIPE_SNAPSHOT_SIGNAL="SIGHUP",
                                   RINGPIPE_SNAPSHOTS="gone/s.nettrace", stderr=err)
        host.send_signal(signal.SIGHUP)
        self.wait_until(lambda: b"No such file" in self.read("err"))
        self.assertIn(b"cannot write a snapshot to", self.read("err"))

    def test_a_recorder_in_files_outlives_a_kill(self):
        host = self.start_host()
        session = f"/dev/shm/ringpipe-{os.geteuid()}"
        others = os.listdir(session) if os.path.exists(session) else []
        self.run_tool("flight", "start", "-p", host.pid, "--providers", "Ipc-Host", "--buffer", "8",
                      "--recover")

        def has_ticks():
            self.snapshot(host, "-o", "s.nettrace", "-f", "-q")
            return len(self.ticks("s.nettrace")[0]) > 5

        self.wait_until(has_ticks)
        before, _ = self.ticks("s.nettrace")
        host.kill()
        host.wait(PATIENCE)
        kept, = [name for name in os.listdir(session)
                 if name.startswith(f"{host.pid}-") and name not in others]
        self.addCleanup(shutil.rmtree, os.path.join(session, kept))
        out, _ = self.run_tool("recover", os.path.join(session, kept), "-o", "r.nettrace")
        self.assertIn("; complete from ", out)
        after, _ = self.ticks("r.nettrace")
        self.assertEqual(after[:len(before)], before)

    def test_files_roll_where_the_command_stood(self):
        host = self.start_host()
        out, _ = self.run_tool("flight", "start", "-p", host.pid, "--providers", "Ipc-Host",
                               "--roll", "8",
                               "-o", "r.nettrace")
        self.assertRegex(out, rf"^Process {host.pid} \(\S+\) writes files named after r.nettrace, ")
        self.assertIn("a flight recorder runs already",
                      self.run_tool("flight", "start", "-p", host.pid, "--roll", "8", "-o", "x",
                                    status=1)[1])
        session = re.search(r"session (\d+)", out)[1]
        self.assertIn("recorder", self.run_tool("list", host.pid)[0])
        self.wait_until(lambda: os.path.getsize(self.path("r.000001.nettrace")) > 4096)
        self.assertIn(session, self.run_tool("flight", "stop", "-p", host.pid)[0])
        events = [json.loads(line) for line in
                  self.run_tool("report", "r.000001.nettrace", "events",
                                "--format=json")[0].splitlines()]
        ticks = [event["fields"]["serial"] for event in events if event["event"] == "tick"]
        self.assertEqual(ticks, list(range(ticks[0], ticks[0] + len(ticks))))

    def test_the_process_id_is_in_the_name_of_files_that_roll(self):
        host = self.start_host()
        out, _ = self.run_tool("flight", "start", "-p", host.pid, "--roll", "8",
                               "-o", "r-{pid}.nettrace")
        self.assertIn(f"files named after r-{host.pid}.nettrace, ", out)
        self.run_tool("flight", "stop", "-p", host.pid)
        self.assertTrue(os.path.exists(self.path(f"r-{host.pid}.000001.nettrace")))

    def test_files_that_cannot_be_created_are_reported(self):
        host = self.start_host()
        self.assertIn("No such file",
                      self.run_tool("flight", "start", "-p", host.pid, "--roll", "8", "-o",
                                    "missing/r.nettrace", status=1)[1])
        self.assertIn("no flight recorder runs",
                      self.run_tool("flight", "stop", "-p", host.pid, status=1)[1])

    def test_a_second_recorder_is_refused(self):
        host = self.start_host()
        self.run_tool("flight", "start", "-p", host.pid)
        err = self.run_tool("flight", "start", "-p", host.pid, status=1)[1]
        self.assertIn("a flight recorder runs already", err)

    def test_a_recorder_of_less_than_it_takes_is_refused(self):
        err = self.run_tool("flight", "start", "-p", self.start_host().pid, "--buffer", "7",
                            status=1)[1]
        self.assertIn("takes 8 MB at least", err)

    def test_json_reports_the_window(self):
        host = self.start_host()
        self.run_tool("flight", "start", "-p", host.pid)
        out, err = self.snapshot(host, "-o", "s.nettrace", "--format=json")
        summary = json.loads(out)
        self.assertLessEqual(summary["window"]["from_ns"], summary["window"]["to_ns"])
        self.assertEqual((summary["process_id"], err), (host.pid, ""))

    def test_a_snapshot_of_coarse_times_says_so(self):
        host = self.start_host()
        self.run_tool("flight", "start", "-p", host.pid, "--providers", "Ipc-Host", "--coarse")

        def has_ticks():
            self.snapshot(host, "-o", "s.nettrace", "-f", "-q")
            return len(self.ticks("s.nettrace")[0]) > 5

        self.wait_until(has_ticks)
        summary = json.loads(self.run_tool("report", "s.nettrace", "--format=json")[0])
        self.assertEqual(summary["time_step_ns"], 1000000)

    def test_a_server_without_coarse_times_is_reported(self):
        self.serve(lambda connection, request: connection.sendall(error(server.INVALID)))
        err = self.run_tool("flight", "start", "-p", os.getpid(), "--coarse", status=1)[1]
        self.assertIn("cannot start a flight recorder with --coarse in process", err)

    def test_a_session_is_named_by_its_id(self):
        host = self.start_host()
        out, _ = self.run_tool("flight", "start", "-p", host.pid)
        session = out.split("session ")[1].split(";")[0]
        self.snapshot(host, "-o", "s.nettrace", "--session", session)
        err = self.run_tool("flight", "snapshot", "-p", host.pid, "-o", "t",
                            "--session", "4711", status=1)[1]
        self.assertIn("no flight recorder has this session id", err)

    def test_a_file_that_is_there_stays_without_force(self):
        host = self.start_host()
        self.run_tool("flight", "start", "-p", host.pid)
        self.write("s.nettrace", b"mine")
        err = self.run_tool("flight", "snapshot", "-p", host.pid, "-o", "s.nettrace", status=1)[1]
        self.assertIn("exists already", err)
        self.assertEqual(self.read("s.nettrace"), b"mine")

    def test_a_pipe_takes_it(self):
        host = self.start_host()
        self.run_tool("flight", "start", "-p", host.pid)
        process = self.start("flight", "snapshot", "-p", host.pid, "-o", "-")
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out[:8]), (0, b"Nettrace"))

    def fake(self, reply, hold=False):
        """Make a server that answers a snapshot with this; with `hold`, it then sends nothing."""
        def handle(connection, request):
            self.assertEqual((request.command, len(request.payload)), (SNAPSHOT, 8))
            connection.sendall(reply)
            if hold:
                fake.stopped.wait(PATIENCE)
        fake = self.serve(handle)
        return fake

    def leaves_nothing(self, reply, said):
        self.fake(reply)
        err = self.run_tool("flight", "snapshot", "-p", os.getpid(), "-o", "s.nettrace",
                            status=1)[1]
        self.assertIn(said, err)
        self.assertFalse(os.path.exists(self.path("s.nettrace")))

    def test_a_trace_that_stops_in_the_middle_leaves_no_file(self):
        self.leaves_nothing(ok(SESSION) + nettrace.sample()[:-1], "ended during the snapshot")

    def test_what_is_no_trace_leaves_no_file(self):
        self.leaves_nothing(ok(SESSION) + b"x" * 5000, "sent an invalid trace")

    def test_nothing_at_all_leaves_no_file(self):
        self.leaves_nothing(b"", "closed the connection")

    def test_a_dotnet_runtime_is_reported_apart(self):
        self.leaves_nothing(error(UNKNOWN_COMMAND), "its runtime does not have this command")

    def test_reasons_steer_no_terminal(self):
        reason = struct.pack("<I", server.FAIL) + string("no\x1b[2J")
        self.leaves_nothing(message(server.ERROR, reason), ": no")
        err = self.run_tool("flight", "snapshot", "-p", os.getpid(), status=1)[1]
        self.assertNotIn("\x1b", err)

    def test_ctrl_c_leaves_no_file(self):
        fake = self.fake(ok(SESSION) + nettrace.sample()[:-1], hold=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("flight", "snapshot", "-p", os.getpid(), "-o", "s.nettrace")
            self.wait_until(lambda: os.path.exists(self.path("s.nettrace")) and
                            os.path.getsize(self.path("s.nettrace")) > 0)
            process.send_signal(number)
            self.assertIn("cancelled", self.finish(process, 130)[1])
            self.assertFalse(os.path.exists(self.path("s.nettrace")))
        self.assertEqual(len(fake.requests), 2)

    def test_the_request_says_what_was_asked_for(self):
        fake = self.serve(lambda connection, request: connection.sendall(ok(SESSION)))
        self.run_tool("flight", "start", "-p", os.getpid(), "--providers", "Shop:f0:4:a=b",
                      "--allow-missing", "--buffer", "17", "--stacks")
        self.run_tool("flight", "stop", "-p", os.getpid())
        self.run_tool("flight", "start", "-p", os.getpid(), "--coarse")
        record, end, coarse = fake.requests
        self.assertEqual((coarse.command, coarse.payload[:4]), (RECORD, struct.pack("<I", 2)))
        self.assertEqual((record.command, end.command, end.payload), (RECORD, END, b""))
        self.assertEqual(record.payload, struct.pack("<IIIQB", 0, 17, FORMAT, 1, 1) +
                         struct.pack("<IQI", 1, 0xf0, 4) + string("Shop") + string("a=b"))

    def test_wrong_usage_is_reported(self):
        for arguments in (
                ["flight", "start"], ["flight", "start", "-p", "1", "-n", "x"],
                ["flight", "snapshot"], ["flight", "snapshot", "-p", "1", "x"],
                ["flight", "snapshot", "-p", "1", "--session", "0"],
                ["flight", "stop", "-p", "1", "--buffer", "9"],
                ["flight", "start", "-p", "1", "--roll", "8"],
                ["flight", "start", "-p", "1", "--roll", "8", "-o", "x", "--recover"],
                ["flight", "start", "-p", "1", "-o", "x"],
                ["flight", "stop", "-p", "1", "--coarse"],
                ["flight", "start", "-p", "1", "--coarse", "--recover"],
                ["flight", "start", "-p", "1", "--coarse", "--roll", "8", "-o", "x"],
                ["flight", "start", "-p", "1", "--roll", "7", "-o", "x"],
                ["flight", "stop", "-p", "1", "--roll", "8", "-o", "x"],
                ["flight", "start", "-p", "1", "--providers", "a:xyz"]):
            with self.subTest(arguments=arguments):
                self.assertIn(arguments[0], self.run_tool(*arguments, status=2)[1])


if __name__ == "__main__":
    unittest.main()
