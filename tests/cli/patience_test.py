#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe collect` against servers that fall silent: it gives up by itself, after a while."""
import os
import signal
import threading
import unittest

import nettrace
from collect_test import Runtime
from tool import PATIENCE, ToolTest


class Patience(ToolTest):
    def collect(self):
        return self.start("collect", "-p", os.getpid(), "-o", "out.nettrace")

    def test_a_server_that_never_answers_is_given_up(self):
        self.serve(lambda connection, request: connection.recv(1))
        self.assertIn("does not answer", self.finish(self.collect(), 1)[1])
        self.assertFalse(os.path.exists(self.path("out.nettrace")))

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
