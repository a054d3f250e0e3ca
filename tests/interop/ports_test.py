#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Diagnostic ports in addition to the default one, byte by byte. Environment: HOST, POLL_HOST,
RINGPIPE.

HOST prints its pid, then writes numbered events of provider Ipc-Host until its standard input ends.
"""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

from ipc_host import (OK, PATIENCE, Tool, collect, eventually, is_open, message, provider,
                      receive, reply_of, socket_path, stop)

HOST = os.environ["HOST"]
POLL_HOST = os.environ["POLL_HOST"]
RINGPIPE = os.environ["RINGPIPE"]
INFO = message(0x04, 0x00)
RESUME = message(0x04, 0x01)


def thread_state(task):
    with open(task + "/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


class Ports(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-ports-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def tool(self, name):
        tool = Tool(self.path(name))
        self.addCleanup(tool.close)
        return tool

    def start(self, ports, *arguments, command=None, **settings):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("RINGPIPE_", "DOTNET_", "COMPlus_"))}
        # An LTTng daemon on this machine would make the library use a thread.
        environment.update({"TMPDIR": self.directory, "RINGPIPE_LTTNG": "0"}, **settings)
        if ports is not None:
            environment["DOTNET_DiagnosticPorts"] = ports
        log = open(self.path("log"), "wb+")
        process = subprocess.Popen(command or [HOST, *arguments], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log, env=environment,
                                   cwd=self.directory)

        def end():
            process.kill()
            process.wait()
            process.stdin.close()
            # Wait until its children have ended and removed their ports, before the folder is
            # removed.
            process.stdout.read()
            process.stdout.close()
            log.close()
        self.addCleanup(end)
        return process

    def said(self):
        with open(self.path("log")) as log:
            return log.read()

    def assert_runs(self, process):
        self.assertEqual(int(process.stdout.readline()), process.pid)

    def assert_waits(self, process):
        """Wait until it is suspended in its start: all its threads sleep, and main() has printed
        nothing."""
        def sleeps():
            tasks = ["/proc/%d/task/%s" % (process.pid, task)
                     for task in os.listdir("/proc/%d/task" % process.pid)]
            return len(tasks) > 1 and all(thread_state(task) == "S" for task in tasks)
        eventually(sleeps, "a suspended process")
        self.assertTrue(is_open(process.stdout))

    def default(self, process):
        """Open a connection to the default port."""
        path = socket_path(self.directory, process.pid)
        eventually(lambda: os.path.exists(path), "the default port")
        return self.connect(path)

    def sockets(self):
        return [entry for entry in os.listdir(self.directory)
                if entry.startswith("dotnet-diagnostic-")]

    def connect(self, name):
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.settimeout(PATIENCE)
        connection.connect(self.path(name))
        return connection

    def ask(self, connection, request):
        connection.sendall(request)
        return reply_of(connection)

    def serials(self, stream):
        """Read a stream to its end, and return the numbers in it."""
        with open(self.path("trace"), "wb") as trace:
            while piece := stream.recv(65536):
                trace.write(piece)
        done = subprocess.run([RINGPIPE, "report",
                               self.path("trace"), "events", "--format=json"], check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event["fields"]["serial"] for event in events if event["event"] == "tick"]


class Connect(Ports):
    def test_each_connection_identifies_the_process_and_serves_one_command(self):
        tool = self.tool("port")
        process = self.start(self.path("port") + ",nosuspend")
        self.assert_runs(process)
        cookies = set()
        for _ in range(3):
            connection, cookie, pid = tool.accept()
            with connection:
                self.assertEqual(pid, process.pid)
                cookies.add(cookie)
                connection.sendall(INFO)
                hresult, payload = reply_of(connection)
                self.assertEqual(hresult, OK)
                self.assertEqual(payload[:24], struct.pack("<Q", pid) + cookie)
                self.assertEqual(receive(connection, 1), b"")
        self.assertEqual(len(cookies), 1)

    def test_next_connection_does_not_wait_for_the_end_of_the_last(self):
        tool = self.tool("port")
        process = self.start(self.path("port"))
        stream = tool.accept()[0]
        with stream:
            stream.sendall(collect(provider("Ipc-Host")))
            hresult, payload = reply_of(stream)
            self.assertEqual(hresult, OK)
            self.assertTrue(is_open(process.stdout), "it did not wait for ResumeRuntime")
            self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
            self.assert_runs(process)
            self.assertEqual(receive(stream, 8), b"Nettrace")
            self.assertEqual(tool.ask(stop(struct.unpack("<Q", payload)[0]))[0], OK)

    def test_trace_begins_with_the_first_event(self):
        tool = self.tool("port")
        process = self.start(self.path("port"))
        stream = tool.accept()[0]
        with stream:
            stream.sendall(collect(provider("Ipc-Host")))
            self.assertEqual(reply_of(stream)[0], OK)
            tool.ask(RESUME)
            self.assert_runs(process)
            process.stdin.close()
            numbers = self.serials(stream)
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(numbers, list(range(len(numbers))))

    def test_missing_tool_is_awaited_without_burning_the_processor(self):
        def seconds():
            with open("/proc/%d/stat" % process.pid) as stat:
                fields = stat.read().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        process = self.start(self.path("port"))
        self.assert_waits(process)
        before = seconds()
        eventually(lambda: self.said().endswith("\n"), "the message")
        self.assertRegex(self.said(), r"^ringpipe: [^\n]*\d+ waits [^\n]*%s[^\n]*\n$" %
                         self.path("port"))
        # Five seconds have passed; a busy loop would have used all of them.
        self.assertLess(seconds() - before, 2)
        self.tool("port").ask(RESUME)
        self.assert_runs(process)

    def test_tool_that_restarts_is_found_again(self):
        tool = self.tool("port")
        process = self.start(self.path("port") + ",connect,nosuspend")
        self.assert_runs(process)
        for _ in range(3):
            self.assertEqual(tool.ask(INFO)[0], OK)
            silent = tool.accept()[0]
            tool.close()
            silent.close()
            tool = self.tool("port")
        self.assertEqual(tool.ask(INFO)[0], OK)

    def test_tool_that_hangs_up_is_asked_again_and_the_process_still_waits(self):
        tool = self.tool("port")
        process = self.start(self.path("port"))
        for request in (b"", b"G", b"GET / HTTP/1.1\r\n\r\n", RESUME[:19], bytes(1000)):
            connection = tool.accept()[0]
            connection.sendall(request)
            connection.close()
        self.assertTrue(is_open(process.stdout))
        self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
        self.assert_runs(process)

    def test_full_queue_of_a_tool_is_not_waited_for(self):
        tool = Tool(self.path("full"), backlog=0)
        self.addCleanup(tool.close)
        first = self.connect("full")
        process = self.start(self.path("full") + ",nosuspend")
        self.assert_runs(process)
        self.assertEqual(self.ask(self.default(process), INFO)[0], OK)
        first.close()
        tool.listener.accept()[0].close()
        self.assertEqual(tool.ask(INFO)[0], OK)

    def test_silent_tool_is_not_given_up_and_not_displaced(self):
        tool = self.tool("port")
        process = self.start(self.path("port") + ",nosuspend")
        self.assert_runs(process)
        connection = tool.accept()[0]
        with connection:
            silent = [self.default(process) for _ in range(100)]
            self.assertEqual(receive(silent[-1], 1), b"")  # dropped after its five seconds
            self.assertTrue(is_open(connection))
            self.assertEqual(self.ask(connection, INFO)[0], OK)


class Suspend(Ports):
    def test_each_port_has_to_resume(self):
        one, two, three = self.tool("one"), self.tool("two"), self.tool("three")
        process = self.start(";".join((self.path("one"), self.path("two") + ",suspend",
                                       self.path("three") + ",nosuspend")))
        self.assertEqual(one.ask(RESUME), (OK, bytes(4)))
        self.assertEqual(three.ask(RESUME), (OK, bytes(4)))
        self.assertEqual(self.ask(self.default(process), RESUME), (OK, bytes(4)))
        self.assertEqual(one.ask(RESUME), (OK, bytes(4)))
        self.assert_waits(process)
        self.assertEqual(two.ask(RESUME), (OK, bytes(4)))
        self.assert_runs(process)
        self.assertEqual(self.said(), "")

    def test_default_port_resumes_what_waits_for_a_tool_that_is_gone(self):
        process = self.start(self.path("nobody"))
        self.assert_waits(process)
        self.assertEqual(self.ask(self.default(process), RESUME), (OK, bytes(4)))
        self.assert_runs(process)

    def test_default_port_may_suspend(self):
        for prefix in ("DOTNET", "COMPlus"):
            process = self.start(None, **{prefix + "_DefaultDiagnosticPortSuspend": "1"})
            self.assert_waits(process)
            self.assertEqual(self.ask(self.default(process), INFO)[0], OK)
            self.assert_waits(process)
            self.assertEqual(self.ask(self.default(process), RESUME), (OK, bytes(4)))
            self.assert_runs(process)

    def test_listening_port_serves_and_resumes(self):
        process = self.start("port,listen")
        eventually(lambda: os.path.exists(self.path("port")), "the port")
        self.assertEqual(os.stat(self.path("port")).st_mode & 0o7777, 0o600)
        self.assert_waits(process)
        stream = self.connect("port")
        self.assertEqual(self.ask(stream, collect(provider("Ipc-Host")))[0], OK)
        self.assertEqual(self.ask(self.connect("port"), RESUME), (OK, bytes(4)))
        self.assert_runs(process)
        process.stdin.close()
        numbers = self.serials(stream)
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertFalse(os.path.exists(self.path("port")))

    def test_names_of_the_variable(self):
        for name in ("RINGPIPE_PORTS", "DOTNET_DiagnosticPorts", "COMPlus_DiagnosticPorts"):
            tool = self.tool(name)
            process = self.start(None, **{name: self.path(name)})
            self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
            self.assert_runs(process)

    def test_diagnostics_turned_off_is_no_port_and_no_wait(self):
        for name in ("RINGPIPE_DIAGNOSTICS", "DOTNET_EnableDiagnostics"):
            process = self.start(self.path("nobody"), **{name: "0"})
            self.assert_runs(process)

    def test_signals_end_a_process_that_waits(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(self.path("nobody"))
            self.assert_waits(process)
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE), -number)

    def test_what_the_process_starts_itself_does_not_wait(self):
        tool = self.tool("port")
        process = self.start(self.path("port"), command=[HOST, "exec", HOST])
        self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
        self.assert_runs(process)

    def test_forked_child_does_not_wait_and_connects_on_its_own(self):
        tool = self.tool("port")
        process = self.start(self.path("port"), "fork")
        self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
        both = {int(process.stdout.readline()) for _ in range(2)}
        self.assertEqual(len(both), 2)
        seen = set()
        while seen != both:
            connection, _, pid = tool.accept()
            self.addCleanup(connection.close)
            seen.add(pid)


class Polled(Ports):
    """A host that runs the loop itself."""

    def start_polled(self, ports, *arguments):
        process = self.start(ports, command=[POLL_HOST, *arguments])
        self.assertEqual(process.stdout.readline(), b"%d begins\n" % process.pid)
        return process

    def assert_resumed(self, process):
        self.assertEqual(process.stdout.readline(), b"%d resumed\n" % process.pid)

    def threads(self, process):
        names = []
        for task in os.listdir("/proc/%d/task" % process.pid):
            with open("/proc/%d/task/%s/comm" % (process.pid, task)) as comm:
                names.append(comm.read().strip())
        return sorted(set(names) - {"poll_host"})

    def test_clients_are_served_and_no_thread_is_ours_until_a_session_starts(self):
        process = self.start_polled(None)
        self.assert_resumed(process)
        self.assertEqual(self.ask(self.default(process), INFO)[0], OK)
        self.assertEqual(self.threads(process), [])
        stream = self.default(process)
        hresult, payload = self.ask(stream, collect(provider("Ipc-Host")))
        self.assertEqual(hresult, OK)
        self.assertEqual(self.threads(process), ["ringpipe-drain"])
        self.assertEqual(receive(stream, 8), b"Nettrace")
        stopper = self.default(process)
        stopper.sendall(stop(struct.unpack("<Q", payload)[0]))
        while stream.recv(65536):
            pass
        self.assertEqual(reply_of(stopper), (OK, payload))

    def test_start_waits_where_the_host_says(self):
        tool = self.tool("port")
        process = self.start_polled(self.path("port"))
        stream = tool.accept()[0]
        with stream:
            self.assertEqual(self.ask(stream, collect(provider("Ipc-Host")))[0], OK)
            self.assertTrue(is_open(process.stdout))
            self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
            self.assert_resumed(process)
            process.stdin.close()
            numbers = self.serials(stream)
        self.assertEqual(numbers, list(range(len(numbers))))
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.sockets(), [])

    def test_message_is_the_same_and_signals_still_end_it(self):
        process = self.start_polled(self.path("nobody"))
        eventually(self.said, "the message")
        self.assertIn(self.path("nobody"), self.said())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), -signal.SIGINT)

    def test_silent_clients_are_given_up_by_a_timer_of_ours(self):
        process = self.start_polled(None)
        self.assert_resumed(process)
        silent = self.default(process)
        self.assertEqual(receive(silent, 1), b"")
        self.assertEqual(self.ask(self.default(process), INFO)[0], OK)

    def test_what_came_while_the_host_was_away_is_answered(self):
        away, here = self.start_polled(None), self.start_polled(None)
        self.assert_resumed(away)
        self.assert_resumed(here)
        late = self.default(away)
        self.assertEqual(self.ask(self.default(away), INFO)[0], OK)  # so `late` is accepted
        away.send_signal(signal.SIGSTOP)
        late.sendall(INFO)
        silent = self.default(here)
        self.assertEqual(receive(silent, 1), b"")  # dropped, and `late` was accepted before
        away.send_signal(signal.SIGCONT)
        self.assertEqual(reply_of(late)[0], OK)

    def test_tool_is_found_again_while_the_host_polls(self):
        process = self.start_polled(self.path("port") + ",nosuspend")
        self.assert_resumed(process)
        self.assertEqual(self.tool("port").ask(INFO)[0], OK)

    def test_port_comes_back_when_the_host_closed_its_descriptors(self):
        for arguments in (("close",), ("replace", "[eventpoll]"), ("replace", "[timerfd]")):
            process = self.start_polled(None, *arguments)
            self.assert_resumed(process)

            def answer():
                try:
                    return self.ask(self.default(process), INFO)
                except (ConnectionError, FileNotFoundError):
                    return None  # the old socket, or none at the moment
            self.assertEqual(eventually(answer, "an answer")[0], OK)
            if "[timerfd]" in arguments:
                # Only a timer drops this client, which sends nothing.
                self.assertEqual(receive(self.default(process), 1), b"")
            process.stdin.close()
            self.assertEqual(process.wait(PATIENCE), 0)
            self.assertEqual(self.sockets(), [])

    def asked(self, name):
        try:
            return self.ask(self.connect(name), INFO)
        except ConnectionRefusedError:
            return None  # bound, but not listening yet

    def test_forked_child_has_a_port_when_it_asks_for_one(self):
        process = self.start_polled(None, "fork")
        both = {int(process.stdout.readline().split()[0]) for _ in range(2)}
        self.assertEqual(len(both), 2)
        eventually(lambda: len(self.sockets()) == 2, "two ports")
        for name in self.sockets():
            hresult, payload = eventually(lambda: self.asked(name), "an answer")
            self.assertEqual(hresult, OK)
            both.remove(struct.unpack("<Q", payload[:8])[0])


class Wrong(Ports):
    def expect(self, ports, *words):
        """The library prints one message, and the program runs."""
        process = self.start(ports)
        self.assert_runs(process)
        process.stdin.close()
        self.assertEqual(process.wait(PATIENCE), 0)
        said = self.said()
        self.assertEqual(said.count("\n"), 1, said)
        self.assertTrue(said.startswith("ringpipe: "), said)
        for word in words:
            self.assertIn(word, said)

    def test_wrong_ports_are_reported_once_and_not_waited_for(self):
        with open(self.path("file"), "w") as file:
            file.write("precious")
        for ports, word in (
                (self.path("port") + ",suspended", "port,suspended"),
                (self.path("port") + ",", "port,"),
                (",suspend", ",suspend"),
                ("/" + "x" * 108, "xxx"),
                (self.directory, self.directory),
                (self.directory + ",listen", self.directory),
                (self.path("file"), "file"),
                (self.path("file") + ",listen", "file"),
                (self.path("no/such/folder") + ",listen", "no/such/folder"),
                (";;" + self.path("port") + ",foo;;", "port,foo")):
            with self.subTest(ports=ports):
                self.expect(ports, word)
        with open(self.path("file")) as file:
            self.assertEqual(file.read(), "precious")

    def test_port_that_is_taken_is_left_to_its_owner(self):
        tool = self.tool("port")
        self.expect(self.path("port") + ",listen", "port")
        self.connect("port")
        tool.listener.accept()[0].close()

    def test_good_ports_work_next_to_a_wrong_one(self):
        tool = self.tool("port")
        process = self.start(self.directory + ",listen;" + self.path("port"))
        self.assertEqual(tool.ask(RESUME), (OK, bytes(4)))
        self.assert_runs(process)
        self.assertEqual(self.said().count("\n"), 1)

    def test_more_ports_than_the_limit_are_reported(self):
        self.expect(";".join(self.path("p%d" % i) + ",nosuspend" for i in range(8)), "p7")


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class OtherProcesses(Ports):
    def test_another_user_that_listens_at_a_port_gets_no_word(self):
        tool = self.tool("port")
        os.chmod(self.directory, 0o777)
        os.chmod(self.path("port"), 0o777)
        # The caller of listen() determines the socket's credentials.
        become = os.fork()
        if become == 0:
            os.setresuid(65534, 65534, 65534)
            tool.listener.listen(5)
            os._exit(0)
        self.assertEqual(os.waitpid(become, 0)[1], 0)
        process = self.start(self.path("port") + ",nosuspend")
        self.assert_runs(process)
        connection = tool.listener.accept()[0]
        with connection:
            self.assertEqual(receive(connection, 1), b"")


if __name__ == "__main__":
    unittest.main(verbosity=2)
