#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that become daemons by two forks, the second one by daemon(3): HOST writes events first,
ends its first processes by _exit(), and writes again in the daemon."""
import contextlib
import json
import os
import subprocess
import unittest

from server import start_ticks
from tool import PATIENCE, ToolTest

HOST = os.environ.get("HOST", "")
EVENTS = 500


class Daemon(ToolTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("rings"))

    def start_host(self, **settings):
        host = subprocess.Popen([HOST, "daemon", "0", str(EVENTS)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, env=dict(self.environment, **settings),
                                cwd=self.directory)
        self.addCleanup(self.reap, host)
        return host

    def wait_for_daemon(self, host):
        """Return its pid, from its socket: processes that end by _exit() leave theirs."""
        found = []

        def is_there():
            found.clear()
            for name in os.listdir(self.directory):
                if name.startswith("dotnet-diagnostic-"):
                    pid, key = map(int, name.split("-")[2:4])
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                        if pid != host.pid and start_ticks(pid) == key:
                            found.append(pid)
            return host.poll() is not None and len(found) == 1

        self.wait_until(is_there)
        return found[0]

    def processes(self, path, status=0):
        """Return the pids that wrote, and the serials of each."""
        serials = {}
        for line in self.run_tool("report", path, "events", "--format=json",
                                  status=status)[0].splitlines():
            event = json.loads(line)
            if event["event"] == "mark":
                serials.setdefault(event["fields"]["process"], []).append(
                    event["fields"]["serial"])
        return serials

    def check_daemon(self, host):
        """The daemon has no session until a client connects, and then works like any process."""
        daemon = self.wait_for_daemon(host)
        rows = json.loads(self.run_tool("list", daemon, "--format=json")[0])
        self.assertEqual([row["kind"] for row in rows if row["provider"] == "Test-Forks"],
                         ["provider"])
        self.run_tool("collect", "-p", daemon, "-o", "after.nettrace")
        self.assertEqual(self.processes("after.nettrace"), {daemon: list(range(EVENTS))})
        # It first printed the earlier writer, then itself; both have ended.
        self.assertEqual(host.stdout.read().split(), [b"%d" % host.pid, b"%d" % daemon])

    def test_session_by_environment_is_of_the_process_that_was_started(self):
        host = self.start_host(RINGPIPE_CONFIG="Test-Forks", RINGPIPE_OUTPUT="before.nettrace")
        self.check_daemon(host)
        # _exit() cuts the trace off, wherever the drain thread was.
        size = os.path.getsize(self.path("before.nettrace"))
        serials = self.processes("before.nettrace", status=1) if size else {}
        for pid, numbers in serials.items():
            self.assertEqual((pid, numbers), (host.pid, list(range(len(numbers)))))

    def test_all_before_is_recovered_where_rings_are_files(self):
        host = self.start_host(RINGPIPE_CONFIG="Test-Forks", RINGPIPE_OUTPUT="before.nettrace",
                               RINGPIPE_RECOVER=self.path("rings"))
        self.check_daemon(host)
        left, = os.listdir(self.path("rings"))
        self.run_tool("recover", os.path.join("rings", left), "-o", "recovered.nettrace")
        self.assertEqual(self.processes("recovered.nettrace"), {host.pid: list(range(EVENTS))})
        self.strict("recovered.nettrace", "--recovered")

    def test_session_by_socket_ends_with_the_process_that_had_it(self):
        host = self.start_host()
        self.wait_for_port(host.pid)
        process = self.start("collect", "-p", host.pid, "-o", "before.nettrace")
        _, err = process.communicate(timeout=PATIENCE)
        if os.path.exists(self.path("before.nettrace")):
            self.assertIn(b"ended before it", err)
            numbers = self.processes("before.nettrace", status=1).get(host.pid, [])
            self.assertEqual(numbers, list(range(len(numbers))))
        self.check_daemon(host)


if __name__ == "__main__":
    unittest.main()
