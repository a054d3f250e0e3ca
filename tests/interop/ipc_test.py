#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The diagnostics socket from outside, byte by byte: ipc_test.py HOST [unittest arguments]

HOST prints its pid, writes events of provider Ipc-Host until its standard input ends.
"""
import os
import platform
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from ipc_host import (BAD_ENCODING, FAIL, Host, INVALID_ARGUMENT, NOT_SUPPORTED, OK, Reader,
                      UNKNOWN_COMMAND, UNKNOWN_MAGIC, collect, eventually, is_open, message,
                      provider, receive, reply_of, socket_path, stop)

CLIENTS_MAX = 64

# The forms that the text of .NET's DiagnosticSourceEventSource can have: a line for each event,
# with activities, renamed and nested properties, and a source without an event.
SPECS = "\r\n".join([
    "Microsoft.AspNetCore/Microsoft.AspNetCore.Hosting.HttpRequestIn.Start"
    "@Activity1Start:-Request.Path;Request.Method;TraceIdentifier=HttpContext.TraceIdentifier",
    "Microsoft.AspNetCore/Microsoft.AspNetCore.Hosting.HttpRequestIn.Stop@Activity1Stop:-Status="
    "HttpContext.Response.StatusCode;Tags=*Enumerate",
    "HttpHandlerDiagnosticListener/System.Net.Http.Request:Request.RequestUri;a=Request.Headers",
    "[AS]*+Name,Other/Stop-ParentRatioSampler(0.25):-;Kind;Tags.*Enumerate\n",
    "\"quoted ; , : = \"\"twice\"\"\"\tgr\u00fc\u00df \U0001f600 'single' \\ %s {0}",
    ""])
HOST = None


class WithHost(unittest.TestCase):
    def setUp(self):
        self.host = Host(HOST)
        self.connections = []

    def tearDown(self):
        for connection in self.connections:
            connection.close()
        self.host.close()

    def kept(self, connection):
        self.connections.append(connection)
        return connection

    def assert_serves(self):
        hresult, payload = self.host.ask(message(0x04, 0x00))
        self.assertEqual(hresult, OK)
        self.assertEqual(struct.unpack("<Q", payload[:8])[0], self.host.pid)


class Commands(WithHost):
    def test_process_is_marked_for_recorders_of_the_whole_machine(self):
        with open(f"/proc/{self.host.pid}/maps", encoding="utf-8") as file:
            marks = [line for line in file if "/memfd:doublemapper" in line]
        self.assertEqual([line.split()[1] for line in marks], ["r-xp"])

    def test_process_info_identifies_the_process(self):
        cookies = set()
        for command in (0x00, 0x04, 0x08):
            hresult, payload = self.host.ask(message(0x04, command))
            self.assertEqual(hresult, OK)
            reader = Reader(payload)
            if command == 0x08:
                self.assertEqual(reader.number("I"), 1)
            self.assertEqual(reader.number("Q"), self.host.pid)
            cookies.add(reader.take(16))
            self.assertIn(os.path.basename(HOST), reader.string())
            self.assertEqual(reader.string(), "Linux")
            self.assertIn(reader.string(), ("x64", "arm64", "x86", "arm32"))
            if command != 0x00:
                self.assertEqual(reader.string(), os.path.basename(HOST))
                # A '-' would make the version a prerelease, which collect-linux refuses.
                self.assertRegex(reader.string(), r"^10\.0\.0\+ringpipe\.\d")
            if command == 0x08:
                self.assertTrue(reader.string().startswith("linux-"))
                self.assertEqual(reader.number("I"), 1)    # copies of the library
            self.assertEqual(reader.payload, b"")
        self.assertEqual(len(cookies), 1)
        self.assertNotEqual(cookies, {bytes(16)})

    def test_resume_runtime_is_ok(self):
        self.assertEqual(self.host.ask(message(0x04, 0x01)), (OK, bytes(4)))

    def test_stop_of_an_unknown_session_is_ok(self):
        self.assertEqual(self.host.ask(stop(12345)), (OK, struct.pack("<Q", 12345)))

    def test_wrong_requests_get_the_error_that_fits(self):
        p = provider("Ipc-Host")
        rows = [
            (b"DOTNET_IPC_V2\0" + bytes(6), UNKNOWN_MAGIC),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", UNKNOWN_MAGIC),
            (b"X", UNKNOWN_MAGIC),
            (bytes(100000), UNKNOWN_MAGIC),
            (message(0x04, 0x00, size=0), BAD_ENCODING),
            (message(0x04, 0x00, size=19), BAD_ENCODING),
            (message(0x04, 0x00, b"\0"), BAD_ENCODING),
            (message(0x02, 0x01, bytes(7)), BAD_ENCODING),
            (message(0x02, 0x03, bytes(65515)), NOT_SUPPORTED),
            (message(0x02, 0x08), UNKNOWN_COMMAND),
            (message(0x04, 0x77), UNKNOWN_COMMAND),
            (message(0x99, 0x00), UNKNOWN_COMMAND),
            (message(0xff, 0x00), UNKNOWN_COMMAND),
            (message(0x01, 0x01), BAD_ENCODING),
            (message(0x01, 0x04), UNKNOWN_COMMAND),
            (message(0x03, 0x01), NOT_SUPPORTED),
            (message(0x52, 0x01, bytes(8)), INVALID_ARGUMENT),
            (collect(), INVALID_ARGUMENT),
            (collect(p, mb=0), INVALID_ARGUMENT),
            (collect(provider("")), INVALID_ARGUMENT),
            (collect(provider("x" * 5000)), INVALID_ARGUMENT),
            (collect(provider("P", level=6)), INVALID_ARGUMENT),
            (message(0x02, 0x03, struct.pack("<IIBI", 16, 1, 0, 2) + p), BAD_ENCODING),
            (message(0x02, 0x03, struct.pack("<IIBI", 16, 1, 0, 1) + p + b"\0"), BAD_ENCODING),
            (message(0x02, 0x03, struct.pack("<IIBI", 16, 0, 0, 1) + p), NOT_SUPPORTED),
        ]
        for request, expected in rows:
            reply = self.host.ask(request)
            self.assertIsNotNone(reply, request[:40])
            self.assertEqual(hex(reply[0]), hex(expected), request[:40])
        self.assertEqual(self.host.sessions(), [])
        self.assert_serves()

    def test_bytes_after_a_request_do_not_cost_the_reply(self):
        self.assertEqual(self.host.ask(message(0x04, 0x01) + bytes(3000)), (OK, bytes(4)))


class Arguments(WithHost):
    def assert_reported(self, arguments):
        stream, session = self.host.collect(provider("Ipc-Host", 0x2, 5, arguments))
        try:
            self.assertEqual(self.host.sessions()[0]["filter"], arguments)
            eventually(lambda: self.host.stats(session)["delivered"], "what the callback writes")
            self.assertEqual(self.host.ask(stop(session))[0], OK)
            reported = receive(stream, 1 << 30)
        finally:
            stream.close()
        self.assertIn((arguments + "\0").encode("utf-16-le"), reported)
        self.assertEqual(reported.count((arguments + "\0").encode("utf-16-le")), 1)

    def test_arguments_reach_the_callback_unchanged(self):
        self.assert_reported("k=v;k2=\"v;2\"")
        self.assert_reported(SPECS)
        self.assert_reported("FilterAndPayloadSpecs=\"" + SPECS + "\"")

    def test_long_arguments_reach_the_callback_unchanged(self):
        self.assert_reported((SPECS * 100)[:30000])


    def test_callback_that_hangs_holds_up_neither_its_session_nor_another_client(self):
        hanging = self.kept(self.host.collect(provider("Ipc-Host", arguments="hang"))[0])
        self.assertEqual(receive(hanging, 8), b"Nettrace")
        stream, session = self.host.collect(provider("Ipc-Host", 0x1))
        self.kept(stream)
        eventually(lambda: self.host.stats(session)["delivered"], "an event of the host")
        stopper = self.kept(self.host.send(stop(session)))
        while stream.recv(65536):
            pass
        self.assertEqual(reply_of(stopper)[0], OK)
        self.assert_serves()


class Clients(WithHost):
    def test_silent_clients_delay_no_other_and_are_given_up(self):
        def are_there_still():
            silent = [self.kept(self.host.connect()) for _ in range(10)]
            silent += [self.kept(self.host.send(message(0x04, 0x00)[:at]))
                       for at in (1, 13, 14, 19)]
            silent.append(self.kept(self.host.send(message(0x02, 0x03, bytes(100), size=65535))))
            self.assert_serves()
            # A loaded machine may have delayed the request until the five seconds were over.
            return silent if all(map(is_open, silent)) else None

        for connection in eventually(are_there_still, "an answer before the silent ones left"):
            self.assertEqual(receive(connection, 1), b"")
        self.assert_serves()

    def test_request_may_come_byte_by_byte(self):
        connection = self.kept(self.host.connect())
        for at in range(20):
            connection.sendall(message(0x04, 0x01)[at:at + 1])
            self.assert_serves()
        self.assertEqual(reply_of(connection), (OK, bytes(4)))

    def test_client_that_closed_its_writing_side_still_gets_its_reply(self):
        connection = self.kept(self.host.send(message(0x04, 0x01)))
        connection.shutdown(socket.SHUT_WR)
        self.assertEqual(reply_of(connection), (OK, bytes(4)))

    def test_hundred_simultaneous_clients_are_all_served(self):
        # They sent requests before the server saw the first one, so none of them is silent.
        self.assert_serves()
        self.host.freeze()
        clients = [self.kept(self.host.send(message(0x04, 0x01))) for _ in range(100)]
        self.host.go_on()
        self.assertEqual([reply_of(client) for client in clients], [(OK, bytes(4))] * 100)

    def test_newcomer_displaces_the_oldest_silent_client(self):
        silent = [self.kept(self.host.connect()) for _ in range(100)]
        self.assert_serves()
        for connection in silent[:100 - CLIENTS_MAX]:
            self.assertEqual(receive(connection, 1), b"")

    def test_thousand_silent_clients_delay_no_other(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 1200:
            self.skipTest("RLIMIT_NOFILE allows no thousand connections")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = self.host.descriptors()
        for _ in range(1000):
            self.kept(self.host.connect())

        def is_there_still():
            last = self.kept(self.host.connect())
            self.assert_serves()
            return is_open(last)

        eventually(is_there_still, "an answer before the last one had gone")
        self.assertLessEqual(self.host.descriptors(), before + CLIENTS_MAX)

    def test_two_commands_in_one_connection_are_one_command_and_an_end(self):
        connection = self.kept(self.host.send(message(0x04, 0x01) + message(0x04, 0x00)))
        self.assertEqual(reply_of(connection), (OK, bytes(4)))
        self.assertEqual(receive(connection, 1), b"")

    def test_stream_goes_on_when_its_client_has_nothing_more_to_say(self):
        stream, session = self.host.collect(provider("Ipc-Host"))
        self.kept(stream)
        stream.shutdown(socket.SHUT_WR)
        delivered = eventually(lambda: self.host.stats(session)["delivered"], "an event")
        eventually(lambda: self.host.stats(session)["delivered"] > delivered, "another event")

    def test_client_that_closed_its_reading_side_is_no_trouble(self):
        connection = self.kept(self.host.connect())
        connection.shutdown(socket.SHUT_RD)
        try:
            connection.sendall(message(0x04, 0x00))
        except BrokenPipeError:
            pass
        self.assert_serves()

    def test_what_a_stream_is_sent_is_not_kept(self):
        stream, session = self.host.collect(provider("Ipc-Host"))
        self.kept(stream)
        stream.setblocking(False)
        try:
            while True:
                stream.send(bytes(65536))
        except BlockingIOError:
            pass  # it fills its own queue, and does not disturb the library
        eventually(lambda: self.host.stats(session)["delivered"], "an event")
        self.assert_serves()

    def test_clients_that_leave_half_way_leave_nothing(self):
        self.assert_serves()
        before = eventually(lambda: self.host.descriptors(), "a descriptor")
        request = collect(provider("Ipc-Host"))
        for at in range(0, len(request), 3):
            self.host.send(request[:at]).close()
        self.assert_serves()
        eventually(lambda: self.host.descriptors() <= before, "all descriptors closed")
        self.assertEqual(self.host.sessions(), [])

    def test_idle_server_sleeps_without_a_timeout(self):
        self.assert_serves()
        if platform.machine() != "x86_64":
            self.skipTest("the number of poll is known here for x86-64 only")

        def sleeps_for_ever():
            with open(self.host.thread() + "/syscall") as syscall:
                words = syscall.read().split()
            # 7 is poll; its third argument is the timeout, -1 as an int.
            return words[0] == "7" and int(words[3], 16) & 0xffffffff == 0xffffffff

        eventually(sleeps_for_ever, "poll with a timeout of -1")


class Sessions(WithHost):
    def drain(self, connection, expected="Ipc-Host"):
        """Read a stream to its end; it must be nettrace that contains the expected text."""
        stream = b""
        while True:
            piece = connection.recv(65536)
            if not piece:
                break
            stream += piece
        self.assertTrue(stream.startswith(b"Nettrace"), stream[:20])
        self.assertIn(expected.encode("utf-16-le"), stream)
        return stream

    def test_stream_follows_its_reply_and_stop_ends_it(self):
        stream, session = self.host.collect(provider("Ipc-Host"))
        self.kept(stream)
        self.assertNotEqual(session, 0)
        head = receive(stream, 8)
        self.assertEqual(head, b"Nettrace")
        self.assertEqual([row["id"] for row in self.host.sessions()], [session])
        stopper = self.kept(self.host.send(stop(session)))
        while stream.recv(65536):
            pass
        self.assertEqual(reply_of(stopper), (OK, struct.pack("<Q", session)))
        self.assertEqual(self.host.sessions(), [])

    def test_several_sessions_run_side_by_side(self):
        streams = [self.host.collect(provider("Ipc-Host"), provider("Other%d" % i))
                   for i in range(5)]
        for stream, _ in streams:
            self.kept(stream)
        self.assertEqual(len({session for _, session in streams}), 5)
        self.assertEqual({row["id"] for row in self.host.sessions()
                          if row["provider"] == "Ipc-Host"},
                         {session for _, session in streams})
        for _, session in streams:
            self.wait_for_events(session)
        for stream, session in streams:
            stopper = self.kept(self.host.send(stop(session)))
            self.drain(stream)
            self.assertEqual(reply_of(stopper), (OK, struct.pack("<Q", session)))
        self.assertEqual(self.host.sessions(), [])

    def wait_for_events(self, session):
        eventually(lambda: self.host.stats(session)["delivered"] > 0, "an event of the host")

    def test_private_commands_report_about_a_running_session(self):
        stream, session = self.host.collect(provider("Ipc-Host", 0xff, 4, "k=v"))
        self.kept(stream)
        self.wait_for_events(session)
        row, = self.host.sessions()
        self.assertEqual(row["provider"], "Ipc-Host")
        self.assertEqual(row["name"], "ipc-%d" % os.getpid())
        self.assertEqual((row["id"], row["keywords"], row["level"]), (session, 0xff, 4))
        self.assertEqual(row["events"], 2)
        self.assertEqual(row["filter"], "k=v")
        stats = self.host.stats(session)
        self.assertEqual(stats["lost"], sum(stats["reasons"]))
        self.assertGreater(stats["bytes"], 0)
        self.assertEqual(stats["error"], 0)

    def test_session_ends_when_its_client_goes_away(self):
        before = self.host.descriptors()
        stream, _ = self.host.collect(provider("Ipc-Host"))
        self.assertEqual(len(self.host.sessions()), 1)
        stream.close()
        eventually(lambda: not self.host.sessions(), "the end of the session")
        eventually(lambda: self.host.descriptors() <= before + 2, "its descriptors closed")

    def test_session_without_events_ends_when_its_client_goes_away(self):
        stream, session = self.host.collect(provider("Nobody-Writes-This"))
        self.assertEqual(self.host.stats(session)["delivered"], 0)
        stream.close()

        def gone():
            request = message(0x52, 0x01, struct.pack("<Q", session))
            return self.host.ask(request)[0] == INVALID_ARGUMENT

        eventually(gone, "the end of the session")

    def test_every_request_for_the_end_of_a_session_is_answered(self):
        stream, session = self.host.collect(provider("Ipc-Host"))
        self.kept(stream)
        self.wait_for_events(session)
        stoppers = [self.kept(self.host.send(stop(session))) for _ in range(3)]
        self.drain(stream)
        for stopper in stoppers:
            self.assertEqual(reply_of(stopper), (OK, struct.pack("<Q", session)))

    def test_session_without_a_reader_delays_no_other(self):
        stream, session = self.host.collect(provider("Ipc-Host"))
        self.kept(stream)
        self.kept(self.host.send(stop(session)))
        self.assert_serves()

    def test_sessions_beyond_the_most_are_refused_and_the_rest_go_on(self):
        streams = []
        while True:
            connection = self.kept(self.host.send(collect(provider("Ipc-Host"), mb=1)))
            hresult, payload = reply_of(connection)
            if hresult != OK:
                break
            streams.append((connection, struct.unpack("<Q", payload)[0]))
            self.assertLessEqual(len(streams), 40)
        self.assertEqual(hex(hresult), hex(FAIL))
        self.assertEqual(len(streams), 40)
        self.assert_serves()
        stream, session = streams[0]
        self.wait_for_events(session)
        self.kept(self.host.send(stop(session)))
        self.drain(stream)

    def test_many_sessions_come_and_go_and_leave_nothing(self):
        self.assert_serves()
        before, failures = self.host.descriptors(), []

        def client(number):
            try:
                for turn in range(25):
                    stream, session = self.host.collect(provider("Ipc-Host"))
                    with stream:
                        if (number + turn) % 3 == 0:
                            continue    # closes without sending anything
                        with self.host.send(stop(session)) as stopper:
                            self.drain(stream, "")
                            assert reply_of(stopper) == (OK, struct.pack("<Q", session))
            except Exception as failure:  # pylint: disable=broad-except
                failures.append(failure)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        eventually(lambda: not self.host.sessions(), "the end of all sessions")
        # The engine may keep a few descriptors open after its first session.
        eventually(lambda: self.host.descriptors() <= before + 4, "their descriptors closed")

    def test_thousand_providers_fit_into_a_request(self):
        names = ["P%d" % i for i in range(999)]
        stream, session = self.host.collect(provider("Ipc-Host"), *map(provider, names))
        self.kept(stream)
        self.wait_for_events(session)
        self.kept(self.host.send(stop(session)))
        self.drain(stream)


class Socket(unittest.TestCase):
    def setUp(self):
        self.hosts = []

    def tearDown(self):
        for host in self.hosts:
            host.close()

    def start(self, **options):
        host = Host(HOST, **options)
        self.hosts.append(host)
        return host

    def test_name_is_the_one_clients_look_for(self):
        host = self.start()
        self.assertEqual(host.path(), socket_path(host.directory, host.pid))

    def test_mode_is_0600_whatever_the_umask(self):
        for umask in (0o000, 0o022, 0o077, 0o777):
            host = self.start(preexec=lambda u=umask: os.umask(u))
            self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
            self.assertEqual(oct(os.stat(host.path()).st_mode & 0o7777), oct(0o600))

    def test_file_is_gone_after_exit_with_clients_and_sessions(self):
        host = self.start()
        silent = host.connect()
        stream, _ = host.collect(provider("Ipc-Host"))
        self.assertEqual(host.end(), 0)
        self.assertEqual(host.sockets(), [])
        self.assertEqual(receive(silent, 1), b"")
        while stream.recv(65536):
            pass
        silent.close()
        stream.close()

    def start_with_name_taken(self, listening):
        """A host whose socket name is already in use, for example by the program that it replaced
        by exec."""
        directory = tempfile.mkdtemp(prefix="rp-ipc-")

        def take_name():
            name = socket_path(directory, os.getpid())
            old = socket.socket(socket.AF_UNIX)
            old.bind(name)
            if listening:
                old.listen()
                os.set_inheritable(old.fileno(), True)
                old.detach()
            else:
                old.close()

        return self.start(preexec=take_name, directory=directory)

    def test_file_of_an_earlier_process_is_replaced(self):
        host = self.start_with_name_taken(listening=False)
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))

    def test_socket_with_a_listener_is_left_alone(self):
        host = self.start_with_name_taken(listening=True)
        inode = os.stat(host.path()).st_ino
        self.assertEqual(host.end(), 0)
        self.assertEqual(os.stat(host.path()).st_ino, inode)

    def test_host_of_few_descriptors_keeps_most_of_them(self):
        limit = 64
        host = self.start(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                             (limit, limit)))
        streams, hresult = [], OK
        while hresult == OK:
            streams.append(host.send(collect(provider("Ipc-Host"), mb=1)))
            hresult = reply_of(streams[-1])[0]
        self.assertEqual(hex(hresult), hex(FAIL))
        self.assertGreaterEqual(len(streams), 3, "room for two sessions and a refusal")
        silent = [host.connect() for _ in range(100)]
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        self.assertLessEqual(host.descriptors(), 3 + limit // 4 + 1)
        for connection in streams + silent:
            connection.close()

    def test_without_descriptors_the_server_rests_until_there_are_some(self):
        limit = 40

        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

        host = self.start(preexec=few)
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        clients = [host.connect() for _ in range(limit)]
        self.assertEqual(receive(clients[0], 1), b"")  # after its five seconds
        with open(host.thread() + "/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        self.assertLess(ticks / os.sysconf("SC_CLK_TCK"), 1, "the thread was never at rest")
        for client in clients:
            client.close()
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
class Users(unittest.TestCase):
    NOBODY = 65534
    BECOME = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    CLIENT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(60)
connection.connect(sys.argv[1])
try:
    connection.sendall(bytes.fromhex(sys.argv[2]))
    print(len(connection.recv(100)))
except (BrokenPipeError, ConnectionResetError):
    print(0)
"""

    def run_as_nobody(self, *command):
        """Return the command's output. Skip the test if that user cannot run it at all."""
        result = subprocess.run([*self.BECOME, *command], stdin=subprocess.DEVNULL, check=False,
                                stdout=subprocess.PIPE)
        if result.returncode:
            self.skipTest("nobody cannot run " + command[0])
        return result.stdout

    def ask_as_nobody(self, host, request):
        """Return the number of bytes in the reply to another user."""
        python = next(filter(os.path.exists, ("/usr/bin/python3", sys.executable)))
        self.run_as_nobody(python, "-c", "")
        return int(subprocess.run([*self.BECOME, python, "-c", self.CLIENT, host.path(),
                                   request.hex()], check=True, stdout=subprocess.PIPE).stdout)

    def test_another_user_gets_no_answer_even_past_the_file_mode(self):
        host = Host(HOST, directory_mode=0o755)
        try:
            self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
            os.chmod(host.path(), 0o666)
            self.assertEqual(self.ask_as_nobody(host, message(0x04, 0x01)), 0)
            self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        finally:
            host.close()

    def test_same_user_and_root_are_served(self):
        self.run_as_nobody(HOST)
        host = Host(HOST, prefix=self.BECOME, owner=self.NOBODY)
        try:
            self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
            self.assertEqual(self.ask_as_nobody(host, message(0x04, 0x01)), 24)
        finally:
            host.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: ipc_test.py HOST [unittest arguments]")
    HOST = os.path.abspath(sys.argv.pop(1))
    # Forty sessions use several descriptors for each processor.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = hard if hard != resource.RLIM_INFINITY else 1 << 16
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1 << 16), hard))
    unittest.main(verbosity=2)
