#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The `ringpipe` command, against servers that behave well and badly. RINGPIPE names the program."""
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import nettrace
import server
from server import Server, UNKNOWN_COMMAND, error, ok, process_info, string

TOOL = os.environ.get("RINGPIPE", "ringpipe")
PATIENCE = 60  # seconds until a thing that must happen is given up
COLLECT4, COLLECT3, COLLECT2, STOP = (2, 5), (2, 4), (2, 3), (2, 1)
LIST, FIGURES = (0x52, 0), (0x52, 1)
SESSION = 0x1122334455667788


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-cli-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, TMPDIR=self.directory, LC_ALL="C.UTF-8", TZ="UTC")

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def serve(self, handler):
        fake = Server(self.directory, handler)
        self.addCleanup(fake.check)
        self.addCleanup(fake.close)
        return fake

    def start(self, *arguments, **options):
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([TOOL, *map(str, arguments)], stdout=subprocess.PIPE,
                                   env=self.environment, cwd=self.directory, **options)
        self.addCleanup(self.reap, process)
        return process

    @staticmethod
    def reap(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process, status):
        out, err = process.communicate(timeout=PATIENCE)
        err = (err or b"").decode()
        self.assertEqual(process.returncode, status, err)
        return out.decode(), err

    def run_tool(self, *arguments, status=0, data=None):
        process = self.start(*arguments, stdin=subprocess.PIPE)
        out, err = process.communicate(data, timeout=PATIENCE)
        self.assertEqual(process.returncode, status, err.decode())
        return out.decode(), err.decode()

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it did not happen")
            select.select([], [], [], 0.01)


class Usage(ToolTest):
    def test_wrong_usage_is_told_with_status_2(self):
        for arguments, said in [
                ([], "no command given"),
                (["shout"], "unknown command 'shout'"),
                (["p"], "unknown command 'p'"),
                (["ps", "--events"], "unknown option --events"),
                (["ps", "--js"], "unknown option --js"),
                (["ps", "--json=1"], "--json takes no value"),
                (["ps", "extra"], "unexpected 'extra'"),
                (["list"], "wants PID"),
                (["list", "12x"], "wants a process id, not '12x'"),
                (["list", "0"], "wants a process id, not '0'"),
                (["report"], "wants FILE"),
                (["report", "a", "b"], "unexpected 'b'"),
                (["report", "a", "--top", "0"], "--top wants N, not '0'"),
                (["report", "a", "--top", "1", "--events"], "--top goes with the summary"),
                (["collect"], "one of -p PID, -n NAME and -- COMMAND"),
                (["collect", "-p"], "--process-id wants PID after it"),
                (["collect", "-p", "-5"], "not '-5'"),
                (["collect", "-p", "99999999999999999999"], "wants PID"),
                (["collect", "-p", "1", "-n", "x"], "one of -p PID"),
                (["collect", "./server"], "comes after --"),
                (["collect", "--"], "no command after --"),
                (["collect", "-d", "10", "--", "true"], "--duration, --buffer and --stacks"),
                (["collect", "-p", "1", "--buffer", "0"], "--buffer wants MB, not '0'"),
                (["collect", "-p", "1", "-o", ""], "--output wants FILE, not ''"),
                (["collect", "-p", "1", "--providers", "a:xyz"], "cannot read 'a:xyz'"),
        ]:
            with self.subTest(arguments=arguments):
                out, err = self.run_tool(*arguments, status=2)
                self.assertIn(said, err)
                self.assertTrue(err.startswith("ringpipe: "), err)
                self.assertEqual(out, "")

    def test_durations_that_are_none_are_refused(self):
        for text in ["0", "m", "1x", "1s1m", "1m30s5", "-1", "1.5", "", "1m 30s", "9999999999"]:
            with self.subTest(text=text):
                _, err = self.run_tool("collect", "-p", "1", "-d", text, status=2)
                self.assertIn("--duration wants SECONDS|1m30s", err)

    def test_help_is_on_stdout_and_names_every_command_and_option(self):
        out, err = self.run_tool("--help")
        for command in ["ps", "collect", "report", "list"]:
            self.assertIn(f"  {command} ", out)
        self.assertEqual(err, "")
        out, _ = self.run_tool("collect", "--help")
        for option in ["-p, --process-id PID", "-n, --name NAME", "-o, --output FILE",
                       "--providers LIST", "-d, --duration SECONDS|1m30s", "--buffer MB",
                       "--stacks", "-q, --quiet", "--json", "-f, --force", "-h, --help"]:
            self.assertIn(option, out)
        self.assertNotIn("--events", out)
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()), out)

    def test_version_is_printed(self):
        self.assertRegex(self.run_tool("--version")[0], r"^ringpipe \d+\.\d+\.\d+\n$")

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            process = subprocess.run([TOOL, "--help"], stdout=full, stderr=subprocess.PIPE,
                                     check=False)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"cannot write the output", process.stderr)


class Ps(ToolTest):
    def rows(self):
        return json.loads(self.run_tool("ps", "--json")[0])

    def test_a_process_is_listed_with_its_runtime(self):
        for version, runtime in [("10.0.1", ".NET 10.0.1"),
                                 ("9.0.0-ringpipe.0.1.0", "ringpipe 0.1.0")]:
            with self.subTest(version=version):
                fake = Server(self.directory, lambda connection, request: connection.sendall(
                    ok(process_info(version))))
                row, = self.rows()
                fake.close()
                fake.check()
                self.assertEqual(row["pid"], os.getpid())
                self.assertEqual(row["runtime"], runtime)
                self.assertIn("tool_test.py", row["command"])

    def test_older_runtimes_are_asked_by_older_commands(self):
        fake = self.serve(lambda connection, request: connection.sendall(
            ok(process_info("", 0x00)) if request.id == 0x00 else error(UNKNOWN_COMMAND)))
        self.assertEqual(self.rows()[0]["runtime"], ".NET")
        self.assertEqual([request.id for request in fake.requests], [8, 4, 0])

    def test_stale_and_foreign_files_are_not_listed(self):
        pid = os.getpid()
        ended = subprocess.Popen(["true"])
        ended.wait()
        for name in [server.socket_path("", ended.pid, 1),
                     server.socket_path("", pid, server.start_time(pid) + 1),
                     server.socket_path("", pid) + "x",
                     "x" + server.socket_path("", pid),
                     f"dotnet-diagnostic-{pid}-socket",
                     f"dotnet-diagnostic--{server.start_time(pid)}-socket",
                     f"dotnet-diagnostic-99999999999999999999-1-socket"]:
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(self.path(name.lstrip("/")))
        self.write(f"dotnet-diagnostic-{os.getppid()}-{server.start_time(os.getppid())}-socket", b"")
        self.assertEqual(self.rows(), [])

    def test_a_socket_served_by_another_process_is_not_believed(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(server.socket_path(self.directory, os.getppid()))
            listener.listen()
            self.assertEqual([row["runtime"] for row in self.rows()], [None])
            self.assertEqual(self.start("list", os.getppid()).wait(PATIENCE), 1)

    def test_a_silent_server_does_not_hang_it(self):
        self.serve(lambda connection, request: connection.recv(1))
        row, = self.rows()
        self.assertIsNone(row["runtime"])
        self.assertIn(" ?  ", self.run_tool("ps")[0])

    def test_a_full_queue_does_not_hang_it(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(server.socket_path(self.directory, os.getpid()))
            listener.listen(0)
            waiting = []
            while True:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                try:
                    waiting[-1].connect(listener.getsockname())
                except BlockingIOError:
                    break
            self.assertIsNone(self.rows()[0]["runtime"])
            for each in waiting:
                each.close()

    def test_answers_out_of_bounds_are_not_believed(self):
        whole = ok(process_info("10.0.0"))
        cases = {
            "not the protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "another magic": whole.replace(b"DOTNET", b"TENDOT"),
            "size below the header": whole[:14] + b"\x03\0" + whole[16:],
            "string beyond the end": ok(process_info("10.0.0").replace(
                string("Linux"), struct.pack("<I", 0x7fffffff) + b"L\0")),
            "count that wraps": ok(process_info("10.0.0").replace(
                string("Linux"), struct.pack("<I", 0xffffffff) + b"L\0")),
            "nothing": b"",
            "half a header": whole[:9],
            "half a payload": whole[:40],
            "empty payload": ok(),
            "short error": server.message(server.ERROR, b"\1"),
            "a request": server.message(0x08, command_set=4),
        }
        for name, answer in cases.items():
            with self.subTest(name):
                fake = Server(self.directory,
                              lambda connection, request: connection.sendall(answer))
                self.assertEqual([row["runtime"] for row in self.rows()], [None])
                fake.close()

    def test_control_characters_do_not_reach_the_terminal(self):
        self.serve(lambda connection, request: connection.sendall(
            ok(process_info("10\x1b[2J\u009b1m\ud800".encode("utf-16-le", "surrogatepass")
                            .decode("utf-16-le", "replace")))))
        out, _ = self.run_tool("ps")
        self.assertNotIn("\x1b", out)
        self.assertNotIn("\u009b", out)
        self.assertIn("\ufffd[2J", out)

    def test_no_directory_is_a_failure(self):
        self.environment["TMPDIR"] = self.path("none")
        self.assertIn("No such file", self.run_tool("ps", status=1)[1])

    def test_nobody_there_is_an_empty_list(self):
        self.assertEqual(self.rows(), [])
        self.assertEqual(self.run_tool("ps")[0].split(), "PID USER RUNTIME NAME COMMAND".split())


class List(ToolTest):
    @staticmethod
    def row(provider, session, session_id, keywords, level, events, filter_data):
        return string(provider) + string(session) + \
            struct.pack("<QQII", session_id, keywords, level, events) + string(filter_data)

    def test_rows_are_shown(self):
        rows = self.row("Shop-Orders", "file", 7, 0xffffffffffffffff, 5, 12, "a=b") + \
            self.row("Zoë-😀", "", 0, 0, 0, 0, "")
        self.serve(lambda connection, request: connection.sendall(
            ok(struct.pack("<I", 2) + rows)))
        out, _ = self.run_tool("list", os.getpid())
        self.assertEqual(out.splitlines(), [
            "PROVIDER     SESSION  ID          KEYWORDS  LEVEL  EVENTS  FILTER",
            "Shop-Orders  file      7  ffffffffffffffff      5      12  a=b",
            "Zoë-😀        -         -                 -      -       -  ",
        ])
        enabled, free = json.loads(self.run_tool("list", os.getpid(), "--json")[0])
        self.assertEqual(enabled, {
            "provider": "Shop-Orders", "enabled": True, "session": "file", "session_id": 7,
            "keywords": 0xffffffffffffffff, "level": 5, "events": 12, "filter": "a=b"})
        self.assertEqual(free, {"provider": "Zoë-😀", "enabled": False})

    def test_bad_answers_are_failures_with_a_reason(self):
        good = ok(struct.pack("<I", 1) + self.row("a", "b", 1, 1, 1, 1, ""))
        for answer, said in [
                (error(UNKNOWN_COMMAND), "only libringpipe can tell"),
                (error(server.FAIL), "0x80004005"),
                (error(0x12345678), "0x12345678"),
                (ok(struct.pack("<I", 0xffffffff)), "not of the diagnostics protocol"),
                (good[:14] + struct.pack("<H", len(good) - 3) + good[16:-3], "not of the diag"),
                (good[:-3], "closed the connection without an answer"),
                (b"", "closed the connection without an answer"),
                (b"\xff" * 64, "not of the diagnostics protocol"),
        ]:
            with self.subTest(said=said):
                fake = Server(self.directory,
                              lambda connection, request: connection.sendall(answer))
                out, err = self.run_tool("list", os.getpid(), status=1)
                fake.close()
                self.assertIn(said, err)
                self.assertEqual(out, "")

    def test_a_silent_server_is_given_up(self):
        self.serve(lambda connection, request: connection.recv(1))
        self.assertIn("does not answer", self.run_tool("list", os.getpid(), status=1)[1])

    def test_why_a_process_cannot_be_reached_is_told(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assertIn("there is no process", self.run_tool("list", ended.pid, status=1)[1])
        self.assertIn("has no diagnostics socket",
                      self.run_tool("list", os.getpid(), status=1)[1])
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(server.socket_path(self.directory, os.getpid()))
            self.assertIn("nobody listens", self.run_tool("list", os.getpid(), status=1)[1])


class Runtime:
    """A handler that records: sends `before` at once and `after` when told to stop."""

    def __init__(self, before, after=b"", versions=(COLLECT4,), figures=None):
        self.before, self.after, self.versions, self.figures = before, after, versions, figures
        self.stop = threading.Event()
        self.sent = threading.Event()
        self.hold = None  # a function that runs on the stream before the stop

    def __call__(self, connection, request):
        if request.command in self.versions:
            connection.sendall(ok(struct.pack("<Q", SESSION)) + self.before)
            self.sent.set()
            if self.hold:
                self.hold(connection)
            self.stop.wait(PATIENCE)
            connection.sendall(self.after)
        elif request.command == STOP:
            assert request.payload == struct.pack("<Q", SESSION), request.payload
            self.stop.set()
            connection.sendall(ok(request.payload))
        elif request.command == FIGURES and self.figures:
            connection.sendall(ok(self.figures))
        else:
            connection.sendall(error(UNKNOWN_COMMAND))


class Collect(ToolTest):
    def collect(self, *arguments):
        return self.start("collect", "-p", os.getpid(), "-o", "out.nettrace", *arguments)

    def whole(self, **options):
        data = nettrace.sample(**options)
        return data[:-1], data[-1:]

    def test_a_signal_stops_and_drains(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            with self.subTest(number):
                before, after = self.whole()
                runtime = Runtime(before, after)
                fake = Server(self.directory, runtime)
                process = self.collect("--force")
                self.assertTrue(runtime.sent.wait(PATIENCE))
                self.wait_until(lambda: os.path.exists(self.path("out.nettrace")) and
                                self.read("out.nettrace") == before)
                process.send_signal(number)
                _, err = self.finish(process, 0)
                fake.close()
                fake.check()
                self.assertEqual(self.read("out.nettrace"), before + after)
                self.assertIn("out.nettrace: 3 events", err)

    def test_the_request_says_what_was_asked_for(self):
        runtime = Runtime(*self.whole())
        fake = self.serve(runtime)
        process = self.collect("--providers", "Shop-Orders:f0:4:a=b;c=d,Zoë", "--buffer", "17",
                               "--stacks", "--duration", "1s")
        self.finish(process, 0)
        expected = struct.pack("<IIQBI", 17, 1, 0, 1, 2)
        expected += struct.pack("<QI", 0xf0, 4) + string("Shop-Orders") + string("a=b;c=d")
        expected += struct.pack("<QI", 0xffffffffffffffff, 5) + string("Zoë") + string("")
        self.assertEqual(fake.requests[0].command, COLLECT4)
        self.assertEqual(fake.requests[0].payload, expected)

    def test_all_providers_are_asked_for_by_default(self):
        fake = self.serve(Runtime(*self.whole()))
        self.finish(self.collect("-d", "1"), 0)
        self.assertEqual(fake.requests[0].payload, struct.pack("<IIQBI", 64, 1, 0, 0, 1) +
                         struct.pack("<QI", 0xffffffffffffffff, 5) + string("*") + string(""))

    def test_older_runtimes_get_older_requests(self):
        for version, head in [(COLLECT3, struct.pack("<IIBBI", 64, 1, 0, 0, 1)),
                              (COLLECT2, struct.pack("<IIBI", 64, 1, 0, 1))]:
            with self.subTest(version=version):
                fake = Server(self.directory, Runtime(*self.whole(), versions=(version,)))
                self.finish(self.collect("-d", "1", "--force"), 0)
                fake.close()
                last = [request for request in fake.requests if request.command == version][0]
                self.assertTrue(last.payload.startswith(head))

    def test_the_session_may_end_by_itself(self):
        before, after = self.whole()
        runtime = Runtime(before, after)
        runtime.stop.set()
        self.serve(runtime)
        _, err = self.finish(self.collect(), 0)
        self.assertIn("ended the session", err)
        self.assertEqual(self.read("out.nettrace"), before + after)

    def test_a_process_that_dies_leaves_what_came(self):
        before, _ = self.whole()
        runtime = Runtime(before)
        runtime.stop.set()
        self.serve(runtime)
        _, err = self.finish(self.collect(), 1)
        self.assertIn("went away in the middle of the trace", err)
        self.assertIn("3 events", err)
        self.assertEqual(self.read("out.nettrace"), before)

    def test_refusals_leave_no_file(self):
        for answer, said in [
                (error(server.FAIL), "too many sessions"),
                (error(server.INVALID), "an argument is invalid"),
                (error(UNKNOWN_COMMAND), "does not know this command"),
                (b"\xff" * 100, "not of the diagnostics protocol"),
                (ok(), "not of the diagnostics protocol"),
                (ok(struct.pack("<Q", 0)), "not of the diagnostics protocol"),
                (b"", "without an answer"),
                (ok(struct.pack("<Q", 1)), "without a byte"),
        ]:
            with self.subTest(said=said, answer=answer[:24]):
                fake = Server(self.directory,
                              lambda connection, request: connection.sendall(answer))
                _, err = self.finish(self.collect(), 1)
                fake.close()
                self.assertIn(said, err)
                self.assertFalse(os.path.exists(self.path("out.nettrace")))

    def test_a_stream_that_is_no_trace_is_told(self):
        runtime = Runtime(b"These are no events" * 50)
        runtime.stop.set()
        self.serve(runtime)
        self.assertIn("not a sound trace", self.finish(self.collect(), 1)[1])

    def test_a_second_ctrl_c_gives_up_at_once(self):
        before, _ = self.whole()
        runtime = Runtime(before)

        def endless(connection):
            while True:
                connection.sendall(before)

        runtime.hold = endless
        self.serve(runtime)
        process = self.collect()
        self.assertTrue(runtime.sent.wait(PATIENCE))
        process.send_signal(signal.SIGINT)
        self.assertTrue(runtime.stop.wait(PATIENCE))
        process.send_signal(signal.SIGINT)
        _, err = self.finish(process, 130)
        self.assertIn("gave up", err)
        self.assertTrue(self.read("out.nettrace").startswith(before))

    def test_ctrl_c_twice_leaves_a_server_that_never_answers(self):
        asked = threading.Event()

        def silent(connection, _):
            asked.set()
            connection.recv(1)

        self.serve(silent)
        process = self.collect()
        self.assertTrue(asked.wait(PATIENCE))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 130)
        self.assertFalse(os.path.exists(self.path("out.nettrace")))

    def test_existing_files_are_kept_unless_forced(self):
        self.write("out.nettrace", b"precious" * 10000)
        fake = self.serve(Runtime(*self.whole()))
        self.assertIn("exists already", self.finish(self.collect(), 1)[1])
        self.assertEqual(fake.requests, [])
        self.assertEqual(self.read("out.nettrace"), b"precious" * 10000)
        self.finish(self.collect("--force", "-d", "1"), 0)
        self.assertEqual(self.read("out.nettrace"), nettrace.sample())

    def test_a_forced_file_survives_a_refusal(self):
        self.write("out.nettrace", b"precious")
        self.serve(lambda connection, request: connection.sendall(error(server.FAIL)))
        self.finish(self.collect("--force"), 1)
        self.assertEqual(self.read("out.nettrace"), b"precious")

    def test_a_full_disk_is_told_and_the_file_is_read_up_to_there(self):
        before, after = self.whole(orders=20000)
        self.serve(Runtime(before, after))
        limit = 300000
        process = subprocess.run(
            ["bash", "-c", f'ulimit -f {limit // 1024}; exec "$0" "$@"', TOOL, "collect", "-p",
             str(os.getpid()), "-o", "out.nettrace"], env=self.environment, cwd=self.directory,
            stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"File too large; the trace ends there", process.stderr)
        self.assertEqual(self.read("out.nettrace"), before[:limit // 1024 * 1024])
        fake = self.path("full")
        os.symlink("/dev/full", fake)
        err = self.run_tool("collect", "-p", os.getpid(), "-o", fake, "--force", status=1)[1]
        self.assertIn("No space left on device", err)

    def test_places_that_cannot_be_written_are_told(self):
        self.serve(Runtime(*self.whole()))
        err = self.run_tool("collect", "-p", os.getpid(), "-o", "none/out", status=1)[1]
        self.assertIn("cannot write none/out: No such file", err)

    def test_the_default_name_tells_process_and_time(self):
        self.serve(Runtime(*self.whole()))
        self.run_tool("collect", "-p", os.getpid(), "-d", "1", "-q")
        name, = [name for name in os.listdir(self.directory) if name.endswith(".nettrace")]
        self.assertRegex(name, rf"^\S+_{os.getpid()}_\d{{8}}_\d{{6}}\.nettrace$")

    def test_pid_in_the_name_is_replaced(self):
        self.serve(Runtime(*self.whole()))
        self.run_tool("collect", "-p", os.getpid(), "-d", "1", "-o", "a{pid}b{pid}", "-q")
        self.assertTrue(os.path.exists(self.path(f"a{os.getpid()}b{os.getpid()}")))

    def test_a_process_is_found_by_name(self):
        self.serve(Runtime(*self.whole()))
        with open("/proc/self/comm", encoding="utf-8") as comm:
            name = comm.read().strip()
        self.run_tool("collect", "-n", name, "-d", "1", "-o", "named")
        self.assertTrue(os.path.exists(self.path("named")))
        err = self.run_tool("collect", "-n", name + "x", status=1)[1]
        self.assertIn(f"no process named {name}x", err)

    def test_quiet_says_nothing(self):
        self.serve(Runtime(*self.whole()))
        self.assertEqual(self.run_tool("collect", "-p", os.getpid(), "-d", "1", "-q", "-o", "q"),
                         ("", ""))

    def test_json_sums_up(self):
        self.serve(Runtime(*self.whole(losses=True)))
        out, _ = self.run_tool("collect", "-p", os.getpid(), "-d", "1", "--json", "-o", "j")
        summary = json.loads(out)
        self.assertEqual((summary["events"], summary["lost"], summary["complete"]), (6, 12, True))

    def on_terminal(self, runtime, enough):
        """stderr of a collect on a terminal, stopped by Ctrl-C once `enough` has been seen."""
        self.serve(runtime)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = self.collect_on(slave)
        os.close(slave)
        seen, stopped = b"", False
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            seen += part
            if enough in seen and not stopped:
                process.send_signal(signal.SIGINT)
                stopped = True
            if not part:
                break
        self.finish(process, 0)
        return seen.decode()

    def collect_on(self, terminal):
        return self.start("collect", "-p", os.getpid(), "-o", "out.nettrace", stderr=terminal,
                          stdin=terminal)

    def test_the_live_line_shows_the_figures_of_the_session(self):
        figures = struct.pack("<QQQI5Qi", 1234567, 89, 1000, 5, 89, 0, 0, 0, 0, 0)
        seen = self.on_terminal(Runtime(*self.whole(), figures=figures), b"89 lost")
        self.assertIn("1,234,567 events", seen)
        self.assertIn("Ctrl-C stops", seen)

    def test_the_live_line_does_without_figures(self):
        seen = self.on_terminal(Runtime(*self.whole()), b"Ctrl-C stops")
        line = seen[:seen.index("Ctrl-C stops")].rpartition("\r")[2]
        self.assertRegex(line, r"00:00:0\d  \d+ B  $")

    def test_the_live_line_survives_an_empty_answer(self):
        self.check_garbage(b"")

    def test_the_live_line_survives_a_short_answer(self):
        self.check_garbage(b"\xff" * 7)

    def check_garbage(self, figures):
        asked = []
        runtime = Runtime(*self.whole())

        def handler(connection, request):
            if request.command != FIGURES:
                return runtime(connection, request)
            asked.append(request)
            return connection.sendall(ok(figures))

        # The second question shows that the first answer did no harm.
        seen = self.on_terminal(handler, b"00:00:02")
        self.assertGreaterEqual(len(asked), 2)
        self.assertNotIn(" lost  ", seen)


class Child(ToolTest):
    """Commands after "--"; a shell stands for a program that uses the library."""

    def test_the_environment_asks_for_the_trace(self):
        self.write("sample", nettrace.sample())
        self.run_tool("collect", "--providers", "Shop:1:4", "-o", "t{pid}.nettrace", "--", "sh",
                      "-c", 'echo "$RINGPIPE_CONFIG" >config; echo "$RINGPIPE_OUTPUT" >output; '
                      'echo $$ >pid; cp sample "t$$.nettrace"')
        self.assertEqual(self.read("config"), b"Shop:1:4\n")
        directory = os.path.realpath(self.directory)
        self.assertEqual(self.read("output").decode(), f"{directory}/t{{pid}}.nettrace\n")

    def test_the_status_is_the_commands(self):
        self.write("sample", nettrace.sample())
        for script, status in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)]:
            with self.subTest(script=script):
                self.run_tool("collect", "-f", "-o", "t", "--", "sh", "-c",
                              f"cp sample t; {script}", status=status)

    def test_no_trace_is_a_failure(self):
        err = self.run_tool("collect", "-o", "t", "--", "true", status=1)[1]
        self.assertIn("true wrote no trace", err)

    def test_a_cut_trace_is_a_failure(self):
        self.write("sample", nettrace.sample()[:-1])
        err = self.run_tool("collect", "-o", "t", "--", "cp", "sample", "t", status=1)[1]
        self.assertIn("stops before its end", err)

    def test_a_command_that_is_not_there_is_told(self):
        err = self.run_tool("collect", "-o", "t", "--", "./not-there", status=1)[1]
        self.assertIn("cannot start ./not-there: No such file", err)

    def test_existing_files_are_kept(self):
        self.write("t", b"precious")
        err = self.run_tool("collect", "-o", "t", "--", "touch", "ran", status=1)[1]
        self.assertIn("exists already", err)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_signals_reach_the_command(self):
        self.write("sample", nettrace.sample())
        process = self.start("collect", "-o", "t", "--", "sh", "-c",
                             "trap 'cp sample t; exit 5' INT; touch ready; "
                             "while :; do read -r line <fifo; done")
        os.mkfifo(self.path("fifo"))
        self.wait_until(lambda: os.path.exists(self.path("ready")))
        process.send_signal(signal.SIGINT)
        # The shell runs its trap when the read ends.
        with open(self.path("fifo"), "w", encoding="utf-8") as fifo:
            fifo.write("\n")
        self.finish(process, 5)

    def test_its_output_is_left_alone(self):
        self.write("sample", nettrace.sample())
        out, err = self.run_tool("collect", "-o", "t", "--", "sh", "-c", "cp sample t; echo hello")
        self.assertEqual(out, "hello\n")
        self.assertIn("3 events", err)


class Report(ToolTest):
    def test_the_summary_is_as_expected(self):
        path = self.write("shop.nettrace", nettrace.sample(orders=2000, losses=True))
        out, err = self.run_tool("report", os.path.basename(path))
        size = f"{os.path.getsize(path) / 1000:.1f} kB"
        self.assertEqual(err, "")
        self.assertEqual(out.splitlines(), [
            f"File       shop.nettrace, {size}",
            "Process    4242 on 2 processors",
            "Started    2026-11-21 01:02:03.004 UTC",
            "Duration   0.003 s",
            "Events     2,003, 667,222 a second",
            "Lost       12",
            "           10 in ring 0: full",
            "           2 in ring 3: busy",
            "Threads    2",
            "Stacks     0",
            "Complete   yes",
            "",
            "EVENTS  A SECOND  PAYLOAD  PROVIDER / EVENT",
            " 2,000   666,223  32.0 kB  Shop",
            " 2,000   666,223  32.0 kB    OrderPlaced (5)",
            "     3       999     66 B  ringpipe",
            "     3       999     66 B    EventsLost (1)",
        ])

    def test_json_has_the_same_figures(self):
        path = self.write("t", nettrace.sample(losses=True))
        summary = json.loads(self.run_tool("report", path, "--json")[0])
        self.assertEqual(summary["lost_by"], [{"ring": 0, "reason": "full", "count": 10},
                                              {"ring": 3, "reason": "busy", "count": 2}])
        self.assertEqual([summary[key] for key in
                          ["events", "lost", "threads", "complete", "error", "process_id",
                           "start_utc", "bytes", "stacks", "unordered"]],
                         [6, 12, 2, True, None, 4242, "2026-11-21 01:02:03.004",
                          os.path.getsize(path), 0, 0])
        shop = [each for each in summary["providers"] if each["name"] == "Shop"][0]
        self.assertEqual(shop["events"], 3)
        self.assertEqual(shop["kinds"][0]["name"], "OrderPlaced")
        self.assertEqual(shop["kinds"][0]["keywords"], 1)

    def test_events_are_lines_of_json(self):
        path = self.write("t", nettrace.sample(orders=2))
        lines = [json.loads(line) for line in
                 self.run_tool("report", path, "--events")[0].splitlines()]
        self.assertEqual(lines, [
            {"time_ns": 1000000 + i * 1000, "thread": 7, "processor": 1, "provider": "Shop",
             "event": "OrderPlaced", "id": 5, "fields": {"order_id": i, "customer": "Zoë"}}
            for i in range(2)])

    def test_top_leaves_the_rare_ones_out(self):
        path = self.write("t", nettrace.sample(orders=5, losses=True))
        out, _ = self.run_tool("report", path, "--top", "1")
        self.assertIn("OrderPlaced", out)
        self.assertNotIn("EventsLost", out)
        self.assertIn("1 more kinds of events", out)

    def test_standard_input_is_read(self):
        out, _ = self.run_tool("report", "-", data=nettrace.sample())
        self.assertIn("File       standard input", out)
        self.assertIn("Complete   yes", out)

    def test_a_trace_cut_anywhere_is_told_and_summed_up(self):
        data = nettrace.sample(losses=True)
        for size in range(0, len(data), 7):
            with self.subTest(size=size):
                out, err = self.run_tool("report", "-", status=1, data=data[:size])
                if out:
                    self.assertIn("Complete   no: the trace stops before its end", out)
                    self.assertIn("stops before its end", err)
                else:
                    self.assertIn("not a nettrace file", err)

    def test_a_cut_trace_gives_its_whole_events(self):
        data = nettrace.sample()[:-1]
        path = self.write("t", data)
        summary = json.loads(self.run_tool("report", path, "--json", status=1)[0])
        self.assertEqual((summary["events"], summary["complete"]), (3, False))
        self.assertIn("stops before its end", summary["error"])
        out, err = self.run_tool("report", path, "--events", status=1)
        self.assertEqual(len(out.splitlines()), 3)
        self.assertIn("stops before its end", err)

    def test_other_files_are_refused(self):
        for data in [b"", b"Nettrace", b"Nettrice" + b"\0" * 100, bytes(range(256)) * 40]:
            with self.subTest(data=data[:16]):
                self.assertIn("not a nettrace file",
                              self.run_tool("report", self.write("t", data), status=1)[1])
        self.assertIn("No such file", self.run_tool("report", "not-there", status=1)[1])
        self.assertIn("Is a directory", self.run_tool("report", ".", status=1)[1])

    def test_a_damaged_byte_never_kills_it(self):
        data = bytearray(nettrace.sample(losses=True))
        for at in range(60, len(data), 11):
            for value in [0, 0x7f, 0xff]:
                damaged = bytearray(data)
                damaged[at] = value
                process = subprocess.run([TOOL, "report", "--json", "-"], input=bytes(damaged),
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         check=False, timeout=PATIENCE)
                self.assertIn(process.returncode, (0, 1), (at, value, process.stderr))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    unittest.main()
