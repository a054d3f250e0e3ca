#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands of the diagnostics socket that affect the process: command_test.py HOST"""
import array
import os
import socket
import struct
import sys
import unittest

from ipc_host import (BAD_ENCODING, Host, INVALID_ARGUMENT, INVALID_OPERATION, NOT_SUPPORTED, OK,
                      Reader, eventually, message, provider_with_filter, receive, reply_of, string)

HOST = None


class CommandHost(Host):
    """A host that executes commands."""

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().rstrip("\n")


class WithHost(unittest.TestCase):
    def start(self, **options):
        host = CommandHost(HOST, **options)
        self.addCleanup(host.close)
        return host


def environment_of(host):
    with host.send(message(0x04, 0x02)) as connection:
        hresult, payload = reply_of(connection)
        assert hresult == OK, hex(hresult)
        size, reserved = struct.unpack("<IH", payload)
        assert reserved == 0
        reader = Reader(receive(connection, size))
        assert len(reader.payload) == size, "the stream is too short"
        assert receive(connection, 1) == b"", "bytes behind the stream"
    rows = [reader.string() for _ in range(reader.number("I"))]
    assert reader.payload == b""
    return dict(row.split("=", 1) for row in rows)


class Environment(WithHost):
    def test_environment_is_reported_as_it_was_at_start(self):
        os.environ["RP_TEST_NAME"] = "value=with=marks"
        self.addCleanup(os.environ.pop, "RP_TEST_NAME")
        host = self.start()
        reported = environment_of(host)
        self.assertEqual(reported["RP_TEST_NAME"], "value=with=marks")
        self.assertEqual(reported["TMPDIR"], host.directory)

    def test_half_a_megabyte_of_environment_delays_no_other(self):
        names = ["RP_TEST_BIG%d" % number for number in range(5)]
        for name in names:
            os.environ[name] = "v" * 100000
            self.addCleanup(os.environ.pop, name)
        host = self.start()
        with host.send(message(0x04, 0x02)) as slow:
            # The reply fills the unread connection; other clients are still served.
            self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
            reported = environment_of(host)
            self.assertEqual(reply_of(slow)[0], OK)
        for name in names:
            self.assertEqual(reported[name], "v" * 100000)

    def test_change_needs_the_host_to_allow_it(self):
        host = self.start()
        request = message(0x04, 0x03, string("RP_TEST_SET") + string("new"))
        self.assertEqual(host.ask(request)[0], INVALID_OPERATION)
        self.assertEqual(host.say("get RP_TEST_SET"), "(none)")
        self.assertEqual(host.say("allow"), "ok")
        self.assertEqual(host.ask(request), (OK, bytes(4)))
        self.assertEqual(host.say("get RP_TEST_SET"), "new")
        self.assertEqual(environment_of(host)["RP_TEST_SET"], "new")
        gone = message(0x04, 0x03, string("RP_TEST_SET") + bytes(4))
        self.assertEqual(host.ask(gone), (OK, bytes(4)))
        self.assertEqual(host.say("get RP_TEST_SET"), "(none)")
        self.assertNotIn("RP_TEST_SET", environment_of(host))


class Suspended(unittest.TestCase):
    def test_change_reaches_a_host_whose_start_is_suspended(self):
        os.environ["DOTNET_DefaultDiagnosticPortSuspend"] = "1"
        self.addCleanup(os.environ.pop, "DOTNET_DefaultDiagnosticPortSuspend")
        host = CommandHost(HOST, waits=True)
        self.addCleanup(host.close)
        change = message(0x04, 0x03, string("RP_TEST_EARLY") + string("early"))
        self.assertEqual(host.ask(change), (OK, bytes(4)))
        self.assertEqual(environment_of(host)["RP_TEST_EARLY"], "early")
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        self.assertEqual(host.say("get RP_TEST_EARLY"), str(host.process.pid))
        self.assertEqual(host.process.stdout.readline(), b"early\n")
        self.assertEqual(host.ask(change)[0], INVALID_OPERATION)


def collect5(command, kind, rest=b""):
    """Build CollectTracing5 or 6 with one provider."""
    payload = struct.pack("<IIIQBI", kind, 16, 1, 0, 0, 1) + provider_with_filter("P")
    return message(0x02, command, payload + rest)


def user_events(tracepoint="tracepoint"):
    """Build CollectTracing5 for a session that writes to the kernel's user_events."""
    return message(0x02, 0x06, struct.pack("<IQI", 1, 0, 1) + provider_with_filter("P") +
                   string(tracepoint) + struct.pack("<I", 0))


class Refusals(WithHost):
    def test_unsupported_commands_say_so(self):
        host = self.start()
        for request in (message(0x03, 0x01), message(0x03, 0x02),
                        message(0x04, 0x07, string("/hook.dll"))):
            self.assertEqual(host.ask(request)[0], NOT_SUPPORTED, request)
        self.assertEqual(host.ask(collect5(0x07, 0))[0], BAD_ENCODING)
        self.assertEqual(host.ask(collect5(0x07, 0, struct.pack("<I", 2)))[0], INVALID_ARGUMENT)

    def test_collect_6_streams_whether_writers_wait_or_not(self):
        host = self.start()
        for waits in (0, 1):
            with host.send(collect5(0x07, 0, struct.pack("<I", waits))) as stream:
                self.assertEqual(reply_of(stream)[0], OK)
                self.assertEqual(receive(stream, 8), b"Nettrace")

    def test_descriptors_sent_along_are_not_kept(self):
        host = self.start()
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        before = host.descriptors()
        ours = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ours))]
        for request in (user_events(""), message(0x04, 0x01), message(0x04, 0x00)[:7]):
            with host.connect() as connection:
                connection.sendmsg([request], passed)
                if len(request) >= 20:
                    self.assertIsNotNone(reply_of(connection))
        with host.send(user_events()) as connection:
            connection.sendmsg([b"\0"], passed)
            self.assertEqual(reply_of(connection)[0], NOT_SUPPORTED)
        for descriptor in ours:
            os.close(descriptor)
        eventually(lambda: host.descriptors() <= before, "the descriptors closed")


class UserEvents(WithHost):
    def test_file_that_is_not_the_kernels_is_refused(self):
        host = self.start()
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        before = host.descriptors()
        for path in ("/dev/null", "/proc/self/status", "/proc"):
            ours = os.open(path, os.O_RDONLY)
            with host.send(user_events()) as connection:
                socket.send_fds(connection, [b"\0"], [ours])
                self.assertEqual(reply_of(connection)[0], NOT_SUPPORTED, path)
            os.close(ours)
        eventually(lambda: host.descriptors() <= before, "the descriptors closed")

    def test_byte_without_a_descriptor_is_refused(self):
        host = self.start()
        with host.send(user_events()) as connection:
            connection.send(b"\0")
            self.assertEqual(reply_of(connection)[0], BAD_ENCODING)

    def test_request_that_cannot_be_is_refused_before_its_descriptor_comes(self):
        host = self.start()
        with host.send(user_events("")) as connection:
            self.assertEqual(reply_of(connection)[0], INVALID_ARGUMENT)

    def test_client_that_leaves_before_its_descriptor_is_forgotten(self):
        host = self.start()
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        before = host.descriptors()
        host.send(user_events()).close()
        eventually(lambda: host.descriptors() <= before, "the connection closed")
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: command_test.py HOST [unittest arguments]")
    HOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
