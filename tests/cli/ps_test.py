#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe ps` and `list`, with servers that answer correctly, wrongly or not at all."""
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import server
from server import Server, UNKNOWN_COMMAND, error, ok, process_info, string
from tool import PATIENCE, ToolTest


def wait_until_read(connection):
    """Wait until the peer has read everything sent so far."""
    deadline = time.monotonic() + PATIENCE
    while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0]:
        if time.monotonic() > deadline:
            raise TimeoutError("nobody reads")
        select.select([], [], [], 0.001)


# A row of `list --format json` in which everything is null.
NOTHING = {key: None for key in ("kind", "provider", "session", "session_id", "keywords",
                                 "level", "events", "filter", "event", "tracers", "lost")}
RP_TYPE_U8, RP_TYPE_U16, RP_TYPE_I32, RP_TYPE_U64, RP_TYPE_STRING = 4, 6, 7, 10, 16
RP_TYPE_ARRAY, RP_TYPE_STRUCT = 18, 19
SERVER_IN_TMPDIR = """
import os, struct, sys
sys.path.insert(0, sys.argv[1])
from server import Server, ok, process_info
os.chdir(os.environ["TMPDIR"])
with open("/proc/self/comm", "w") as comm:
    comm.write(f"ps-test-{os.getpid()}"[:15])
Server("", lambda connection, request: connection.sendall(
    ok(process_info("10.0.0") if request.set == 4 else struct.pack("<I", 0))))
print(flush=True)
sys.stdin.read()
"""


class Ps(ToolTest):
    def rows(self):
        """Return the rows of this folder: other tests may run processes in other namespaces."""
        return [row for row in json.loads(self.run_tool("ps", "--format=json")[0])
                if row["socket"].startswith(self.directory)]

    def answered(self):
        """Return the only row, once the server has answered within the half second of ps."""
        rows = []

        def has_runtime():
            rows[:] = self.rows()
            return rows[0]["runtime"]

        self.wait_until(has_runtime)
        self.assertEqual(len(rows), 1)
        return rows[0]

    def test_a_process_is_listed_with_its_runtime(self):
        for version, runtime in [("10.0.1", ".NET 10.0.1"),
                                 ("9.0.0-ringpipe.0.1.0", "ringpipe 0.1.0"),
                                 ("10.0.0+ringpipe.0.2.0", "ringpipe 0.2.0")]:
            with self.subTest(version=version):
                fake = Server(self.directory, lambda connection, request: connection.sendall(
                    ok(process_info(version))))
                row = self.answered()
                fake.close()
                fake.check()
                self.assertEqual(row["process_id"], os.getpid())
                self.assertEqual(row["runtime"], runtime)
                self.assertIn("ps_test.py", row["command"])

    def test_a_socket_is_found_wherever_it_lies(self):
        """Found by /proc/net/unix, since this process's environment does not name the folder."""
        elsewhere = tempfile.mkdtemp(prefix="ringpipe elsewhere ", dir=self.directory)
        fake = Server(elsewhere, lambda connection, request: connection.sendall(
            ok(process_info("9.0.0-ringpipe.0.1.0")) if request.set == 4 else
            ok(struct.pack("<I", 0))))
        self.addCleanup(fake.close)
        self.assertEqual(self.answered()["socket"], fake.path)
        self.run_tool("list", os.getpid())

    def test_a_socket_is_found_where_the_environment_of_its_process_says(self):
        """Not found by the kernel's list: the socket was bound by a relative name."""
        elsewhere = os.path.join(self.directory, "elsewhere")
        os.mkdir(elsewhere)
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER_IN_TMPDIR, os.path.dirname(server.__file__)],
            env=dict(self.environment, TMPDIR=elsewhere), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.addCleanup(self.reap, process)
        process.stdout.readline()
        self.wait_until(lambda: self.rows() and self.rows()[0]["runtime"])
        row, = self.rows()
        self.assertEqual((row["process_id"], os.path.dirname(row["socket"])),
                         (process.pid, elsewhere))
        self.run_tool("list", "-n", row["name"])

    def test_older_runtimes_are_asked_by_older_commands(self):
        fake = self.serve(lambda connection, request: connection.sendall(
            ok(process_info("", 0x00)) if request.id == 0x00 else error(UNKNOWN_COMMAND)))
        self.assertEqual(self.answered()["runtime"], ".NET")
        self.assertEqual([request.id for request in fake.requests][-3:], [8, 4, 0])

    def test_stale_and_foreign_files_are_not_listed(self):
        pid = os.getpid()
        ended = subprocess.Popen(["true"])
        ended.wait()
        for name in [server.socket_path("", ended.pid, 1),
                     server.socket_path("", pid, server.start_ticks(pid) + 1),
                     server.socket_path("", pid) + "x",
                     "x" + server.socket_path("", pid),
                     f"dotnet-diagnostic-{pid}-socket",
                     f"dotnet-diagnostic--{server.start_ticks(pid)}-socket",
                     "dotnet-diagnostic-99999999999999999999-1-socket"]:
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(self.path(name.lstrip("/")))
        with open(server.socket_path(self.directory, os.getppid()), "wb"):
            pass  # a file, not a socket
        self.assertEqual(self.rows(), [])

    def test_a_socket_served_by_another_process_is_not_believed(self):
        other = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        self.addCleanup(self.reap, other)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(server.socket_path(self.directory, other.pid))
            listener.listen()
            self.assertEqual([row["runtime"] for row in self.rows()], [None])
            self.assertEqual(self.start("list", other.pid).wait(PATIENCE), 1)

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
        seen = []

        def has_runtime():
            seen[:] = [self.run_tool("ps")[0]]
            return "\ufffd[2J" in seen[0]

        self.wait_until(has_runtime)
        self.assertNotIn("\x1b", seen[0])
        self.assertNotIn("\u009b", seen[0])

    def test_processes_are_found_without_the_directory_of_the_tool(self):
        fake = Server(self.directory, lambda connection, request: connection.sendall(
            ok(process_info("9.0.0-ringpipe.0.1.0")) if request.set == 4 else
            ok(struct.pack("<I", 0))))
        self.addCleanup(fake.close)
        self.environment["TMPDIR"] = self.path("none")
        self.assertEqual(self.answered()["socket"], fake.path)
        self.run_tool("list", os.getpid())

    def test_a_directory_that_cannot_be_read_is_a_failure(self):
        self.environment["TMPDIR"] = self.path("file")
        with open(self.environment["TMPDIR"], "wb"):
            pass
        self.assertIn("Not a directory", self.run_tool("ps", status=1)[1])

    def test_no_process_is_an_empty_list(self):
        self.assertEqual(self.rows(), [])
        self.assertEqual(self.run_tool("ps")[0].splitlines()[0].split(),
                         "PID USER RUNTIME NAME COMMAND".split())


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
        enabled, free = json.loads(self.run_tool("list", os.getpid(), "--format=json")[0])
        self.assertEqual(enabled, dict(
            NOTHING, kind="session", provider="Shop-Orders", session="file", session_id=7,
            keywords=0xffffffffffffffff, level=5, events=12, filter="a=b"))
        self.assertEqual(free, dict(NOTHING, kind="provider", provider="Zoë-😀"))

    def test_providers_of_one_name_are_one_row_for_each_session(self):
        rows = [("Shop", "file", 7, 0xff, 5, 12, "a=b"), ("Bank", "", 0, 0, 0, 0, ""),
                ("Shop", "lttng", 8, 0xf, 4, 2, ""), ("Shop", "file", 7, 0xff, 5, 3, ""),
                ("Bank", "", 0, 0, 0, 0, "")]
        self.serve(lambda connection, request: connection.sendall(
            ok(struct.pack("<I", len(rows)) + b"".join(self.row(*row) for row in rows))))
        out, _ = self.run_tool("list", os.getpid())
        self.assertEqual([line.split() for line in out.splitlines()], [
            "PROVIDER SESSION ID KEYWORDS LEVEL EVENTS FILTER".split(),
            "Shop file 7 ff 5 15 a=b".split(), ["Bank"] + 5 * ["-"],
            "Shop lttng 8 f 4 2".split()])

    def test_json_rows_of_all_tables_have_one_shape(self):
        rows = struct.pack("<I", 1) + self.row("Shop", "", 0, 0, 0, 0, "") + \
            struct.pack("<I", 1) + string("Shop") + string("order") + struct.pack("<I", 2) + \
            struct.pack("<I", 1) + string("Shop") + string("lttng") + struct.pack("<Q", 5)
        self.serve(lambda connection, request: connection.sendall(ok(rows)))
        self.assertEqual(json.loads(self.run_tool("list", os.getpid(), "--format=json")[0]), [
            dict(NOTHING, kind="provider", provider="Shop"),
            dict(NOTHING, kind="tracers", provider="Shop", event="order", tracers=2),
            dict(NOTHING, kind="losses", provider="Shop", session="lttng", lost=5)])
        out, _ = self.run_tool("list", os.getpid())
        self.assertEqual([line.split() for line in out.splitlines() if line], [
            "PROVIDER SESSION ID KEYWORDS LEVEL EVENTS FILTER".split(), ["Shop"] + 5 * ["-"],
            "PROVIDER EVENT TRACERS".split(), ["Shop", "order", "2"],
            "PROVIDER SESSION LOST".split(), ["Shop", "lttng", "5"]])

    @staticmethod
    def field(name, kind, element=0, secret=0, members=b"", count=0):
        return string(name) + struct.pack("<BBBI", kind, element, secret, count) + members

    def event_rows(self):
        def event(provider, name, number, fields, count):
            return string(provider) + string(name) + \
                struct.pack("<IIIQI", number, 0, 4, 0xf0, count) + fields
        point = self.field("x", RP_TYPE_I32)
        order = self.field("id", RP_TYPE_U64) + self.field("password", RP_TYPE_STRING, secret=1) + \
            self.field("marks", RP_TYPE_ARRAY, RP_TYPE_U16) + \
            self.field("path", RP_TYPE_ARRAY, RP_TYPE_STRUCT, members=point, count=1)
        return struct.pack("<I", 4) + event("Shop", "order", 5, order, 4) + \
            event("Shop", "order", 5, order, 4) + event("Shop", "EventCounters", 65533, b"", 0) + \
            event("Bank", "open", 1, b"", 0)

    def test_events_are_listed_with_their_fields_on_request(self):
        fake = self.serve(lambda connection, request: connection.sendall(ok(self.event_rows())))
        out, _ = self.run_tool("list", os.getpid(), "--events")
        self.assertEqual(out.splitlines(), ["PROVIDER  EVENT  ID  LEVEL  KEYWORDS",
                                            "Bank      open    1      4        f0",
                                            "Shop      order   5      4        f0"])
        self.assertEqual(fake.requests[0].command, (0x52, 0x0c))
        out, _ = self.run_tool("list", os.getpid(), "--events", "--fields", "--all")
        self.assertIn("u64 id, secret string password, u16[] marks, struct[] {i32 x} path\n", out)
        self.assertIn("EventCounters", out)
        rows = json.loads(self.run_tool("list", os.getpid(), "--events", "--fields", "--all",
                                        "--format=json")[0])
        self.assertEqual([row["event"] for row in rows], ["open", "order", "EventCounters"])
        self.assertEqual(rows[1]["fields"][1], {"name": "password", "type": "string",
                                                "secret": True, "members": []})
        self.assertEqual(rows[1]["fields"][3]["members"][0]["type"], "i32")

    def test_a_list_of_events_that_is_not_sound_is_refused(self):
        whole = self.event_rows()
        deep = self.field("end", RP_TYPE_U8)
        for _ in range(10000 // 20):
            deep = self.field("", RP_TYPE_STRUCT, members=deep, count=1)
        deep = struct.pack("<I", 1) + string("P") + string("e") + \
            struct.pack("<IIIQI", 1, 0, 4, 0, 1) + deep
        answers = [whole[:size] for size in range(0, len(whole), 7)] + [
            deep, whole.replace(struct.pack("<IIIQI", 5, 0, 4, 0xf0, 4),
                                struct.pack("<IIIQI", 5, 0, 4, 0xf0, 0xffffffff))]
        self.serve(lambda connection, request: connection.sendall(ok(answers.pop())))
        while answers:
            out, err = self.run_tool("list", os.getpid(), "--events", status=1)
            self.assertEqual(out, "")
            self.assertIn("violates the diagnostics protocol", err)

    def test_a_runtime_that_does_not_report_its_events_is_reported(self):
        self.serve(lambda connection, request: connection.sendall(error(UNKNOWN_COMMAND)))
        self.assertIn("does not report its events",
                      self.run_tool("list", os.getpid(), "--events", status=1)[1])

    def test_a_provider_that_matches_nothing_is_reported_with_those_that_exist(self):
        rows = ok(struct.pack("<I", 3) + self.row("Shop", "a", 7, 1, 1, 1, "") +
                  self.row("Shop", "b", 8, 1, 1, 1, "") + self.row("Bank", "", 0, 0, 0, 0, ""))
        fake = self.serve(lambda connection, request: connection.sendall(
            rows if request.command == (0x52, 0) else error(server.FAIL)))
        for command in (["collect", "--providers", "Shop,Shap:1:4,*"],
                        ["flight", "start", "--providers", "ringpipe,Shap"],
                        ["counters", "collect", "--format=csv", "--counters",
                         "Bank,System.Runtime,Shap[a,b]"]):
            out, err = self.run_tool(*command, "-p", os.getpid(), status=1)
            self.assertEqual((out, err), ("", f"ringpipe: process {os.getpid()} has no provider "
                                          "'Shap'; it has: Bank, Shop (--allow-missing accepts "
                                          "missing ones)\n"))
            self.assertEqual({request.command for request in fake.requests}, {(0x52, 0)})
        self.assertEqual([name for name in os.listdir(self.directory) if "nettrace" in name], [])
        for command in (["collect", "--providers", "Shap", "--allow-missing"],
                        ["collect", "--providers", "Shop,*,System.Diagnostics.Metrics"]):
            self.assertNotIn("has no provider", self.run_tool(*command, "-p", os.getpid(),
                                                              status=1)[1])

    def test_an_answer_longer_than_its_size_can_say_is_read_to_its_end(self):
        count = 5000
        rows = b"".join(self.row(f"Provider-{n}", "file", 7, 1, 5, n, "") for n in range(count))
        answer = ok(struct.pack("<I", count) + rows)

        def in_pieces(connection, request):
            # The reader must continue after a cut, before and after the size in the header.
            for cut in (0, 100, 0xffff, 0x10000, len(answer) - 1):
                connection.sendall(answer[sent[-1]:cut])
                sent.append(cut)
                wait_until_read(connection)
            connection.sendall(answer[sent[-1]:])

        sent = [0]
        self.serve(in_pieces)
        listed = json.loads(self.run_tool("list", os.getpid(), "--format=json")[0])
        self.assertEqual([row["provider"] for row in listed],
                         [f"Provider-{n}" for n in range(count)])

    def test_bad_answers_are_failures_with_a_reason(self):
        good = ok(struct.pack("<I", 1) + self.row("a", "b", 1, 1, 1, 1, ""))
        for answer, said in [
                (error(UNKNOWN_COMMAND), "only libringpipe reports"),
                (error(server.FAIL), "0x80004005"),
                (error(0x12345678), "0x12345678"),
                (ok(struct.pack("<I", 0xffffffff)), "violates the diagnostics protocol"),
                (good[:14] + struct.pack("<H", len(good) - 3) + good[16:-3], "violates the diag"),
                (good[:-3], "closed the connection without an answer"),
                (b"", "closed the connection without an answer"),
                (b"\xff" * 64, "violates the diagnostics protocol"),
        ]:
            with self.subTest(said=said):
                fake = Server(self.directory,
                              lambda connection, request: connection.sendall(answer))
                out, err = self.run_tool("list", os.getpid(), status=1)
                fake.close()
                self.assertIn(said, err)
                self.assertEqual(out, "")

    def test_an_answer_cut_at_any_byte_is_refused(self):
        payload = struct.pack("<I", 2) + self.row("Shop", "file", 7, 1, 5, 2, "a=b") + \
            self.row("Bank", "", 0, 0, 0, 0, "")
        answers = [ok(payload[:size]) for size in range(len(payload))]
        self.serve(lambda connection, request: connection.sendall(answers.pop()))
        while answers:
            out, err = self.run_tool("list", os.getpid(), status=1)
            self.assertEqual(out, "")
            self.assertIn("violates the diagnostics protocol", err)

    def test_a_silent_server_is_given_up(self):
        self.serve(lambda connection, request: connection.recv(1))
        self.assertIn("does not answer", self.run_tool("list", os.getpid(), status=1)[1])

    def test_why_a_process_cannot_be_reached_is_reported(self):
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            nobody = int(file.read())	# they are all below
        self.assertIn("there is no process", self.run_tool("list", nobody, status=1)[1])
        self.assertIn("has no diagnostics socket",
                      self.run_tool("list", os.getpid(), status=1)[1])
        self.assertRegex(self.run_tool("collect", "-p", 2, status=1)[1],
                         "kernel thread|environ: Permission denied|neither libringpipe|there is no")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(server.socket_path(self.directory, os.getpid()))
            self.assertIn("no process listens", self.run_tool("list", os.getpid(), status=1)[1])


if __name__ == "__main__":
    unittest.main()
