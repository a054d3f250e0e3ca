#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record opens its sessions in many processes simultaneously."""
import array
import os
import select
import signal
import subprocess
import tempfile
import time
import unittest

import record_case
from record_case import BRIEF_HOST, PATIENCE, PLAIN, TOOL, Case, descendants_of, drive

PROCESSES = 200


def count_sockets(folder):
    return len([name for name in os.listdir(folder) if name.endswith("-socket")])


class Attaching(Case):
    def setUp(self):
        super().setUp()
        # Only the processes of this test have their sockets here.
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.environment = {**PLAIN, "TMPDIR": self.folder}
        self.reader, self.writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        self.addCleanup(os.close, self.writer)

    def start_hosts(self):
        hosts = [self.enterContext(drive.running(
            [BRIEF_HOST, "idle"], stdout=self.writer, env=self.environment))
                 for _ in range(PROCESSES)]
        drive.wait_for(lambda: count_sockets(self.folder) == PROCESSES, "the sockets")
        return {host.pid for host in hosts}

    def wait_for_sessions(self, enabled, count):
        while len(enabled) < count:
            self.assertTrue(select.select([self.reader], [], [], PATIENCE)[0], len(enabled))
            enabled.update(array.array("i", os.read(self.reader, 4 * PROCESSES)))

    def test_a_process_that_does_not_answer_delays_no_session_in_the_others(self):
        hosts, enabled = self.start_hosts(), set()
        stopped = min(hosts)
        os.kill(stopped, signal.SIGSTOP)
        self.addCleanup(os.kill, stopped, signal.SIGCONT)
        begin = time.monotonic()
        recorder = subprocess.Popen(
            [TOOL, "record", "-o", self.trace, "--profile", "cpu", "--providers", "Test-Brief"],
            env=self.environment)
        self.addCleanup(recorder.wait, PATIENCE)
        self.addCleanup(recorder.kill)
        self.wait_for_sessions(enabled, 1)
        first = time.monotonic() - begin
        self.wait_for_sessions(enabled, PROCESSES - 1)
        took = time.monotonic() - begin
        self.assertEqual(enabled, hosts - {stopped})
        # Each session has a process of its own, which waits for none of the others.
        drive.wait_for(lambda: len(descendants_of(recorder.pid)) >= PROCESSES, "the processes")
        os.kill(stopped, signal.SIGCONT)
        self.wait_for_sessions(enabled, PROCESSES)
        self.assertEqual(drive.interrupt(recorder), 0)
        print(f"# figure: record had its first session after {first:.2f} s, "
              f"and {PROCESSES - 1} after {took:.2f} s")


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
