#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe collect` with servers that stop answering: the command gives up after a while."""
import os
import signal
import socket
import threading
import unittest

import nettrace
from collect_test import Runtime
from server import UNKNOWN_COMMAND, Request, error, socket_path
from tool import PATIENCE, ToolTest

# poll(2) and ppoll(2), on x86-64 and arm64.
POLL = ("7", "271", "73")


class Patience(ToolTest):
    def collect(self):
        return self.start("collect", "-p", os.getpid(), "-o", "out.nettrace")

    def test_a_server_that_never_answers_is_given_up(self):
        self.serve(lambda connection, request: connection.recv(1))
        self.assertIn("does not answer", self.finish(self.collect(), 1)[1])
        self.assertFalse(os.path.exists(self.path("out.nettrace")))

    def test_a_server_that_does_not_listen_yet_is_asked_again(self):
        def retries_or_has_ended():
            if process.poll() is not None:
                return True
            with open(f"/proc/{process.pid}/syscall", encoding="ascii") as call:
                return call.read().split()[0] in POLL

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(socket_path(self.directory, os.getpid()))
            process = self.start("list", os.getpid(), "--format=json")
            self.wait_until(retries_or_has_ended)
            self.assertIsNone(process.poll(), "it gave up")
            listener.listen()
            connection, _ = listener.accept()
            with connection:
                Request(connection)
                connection.sendall(error(UNKNOWN_COMMAND))
        self.assertIn("is traceable", self.finish(process, 1)[1])

    def test_a_server_that_never_listens_is_given_up(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(socket_path(self.directory, os.getpid()))
            _, err = self.run_tool("list", os.getpid(), status=1)
        self.assertIn("nobody listens", err)

    def test_a_stream_that_does_not_end_after_stop_is_given_up(self):
        before = nettrace.sample()[:-1]
        runtime = Runtime(before)
        released = threading.Event()
        self.addCleanup(released.set)
        runtime.hold = lambda connection: released.wait(2 * PATIENCE)
        self.serve(runtime)
        process = self.collect()
        self.assertTrue(runtime.sent.wait(PATIENCE))
        process.send_signal(signal.SIGINT)
        _, err = self.finish(process, 1)
        self.assertIn("did not end the trace", err)
        self.assertEqual(self.read("out.nettrace"), before)


if __name__ == "__main__":
    unittest.main()
