# SPDX-License-Identifier: MIT
"""Tests with HOST, which writes as many events as the test requests."""
import json
import os
import subprocess

from tool import PATIENCE, ToolTest

HOST = os.environ.get("HOST", "")


class WrittenTest(ToolTest):
    def start_host(self):
        host = self.host = subprocess.Popen([HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            env=self.environment, cwd=self.directory)
        self.addCleanup(self.reap, host)
        self.assertEqual(int(host.stdout.readline()), host.pid)
        self.wait_for_port(host.pid)
        return host

    def write_events(self, count, host=None):
        """Return when the host has written the events."""
        host = host or self.host
        host.stdin.write(f"{count}\n".encode())
        host.stdin.flush()
        self.assertEqual(int(host.stdout.readline()), count)

    def end_host(self):
        self.host.stdin.close()
        self.host.stdin = None
        self.assertEqual(self.host.wait(PATIENCE), 0)

    def is_traced(self, host=None):
        rows = json.loads(self.run_tool("list", (host or self.host).pid, "--format=json")[0])
        return [row for row in rows if row["provider"] == "Test-Written"][0]["kind"] == "session"

    def start_tail(self, *arguments, **options):
        """Start a tail whose session has begun, as the host confirms."""
        process = self.start("tail", "-p", self.host.pid, *arguments, **options)
        self.wait_until(self.is_traced)
        return process

    @staticmethod
    def serials(text):
        rows = [json.loads(line) for line in text.splitlines()]
        return [row["fields"]["serial"] for row in rows if row["provider"] == "Test-Written"]
