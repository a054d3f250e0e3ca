# SPDX-License-Identifier: MIT
"""The parts that the tests of `ringpipe bpf` share. HOST is the process that writes the events."""
import json
import os
import signal
import subprocess
import sys
import unittest

from tool import ToolTest

HOST = os.environ["HOST"]


class BpfTest(ToolTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)
        self.host, self.pid = self.start_host()

    def start_host(self, **options):
        host = subprocess.Popen([HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env=self.environment, **options)
        self.addCleanup(self.reap, host)
        return host, int(host.stdout.readline())

    def send(self, line, host=None):
        host = host or self.host
        host.stdin.write(line.encode() + b"\n")
        host.stdin.flush()
        self.assertEqual(host.stdout.readline(), b"done\n")

    def attach(self, *arguments, **options):
        """Start `ringpipe bpf` and wait until it no longer misses events."""
        tool = self.start("bpf", *arguments, "-p", self.pid, **options)
        line = tool.stderr.readline().decode()
        self.assertIn(f"Attached to process {self.pid} ", line)
        return tool

    def stop(self, tool, status=0):
        tool.send_signal(signal.SIGINT)
        return self.finish(tool, status)

    def watch(self, commands, *arguments):
        """Return the result of `ringpipe bpf … --format json` for the events that the host wrote
        meanwhile."""
        tool = self.attach(*arguments, "--format=json")
        for command in commands:
            self.send(command)
        return json.loads(self.stop(tool)[0])

    def check_counts(self, stats, offered):
        self.assertTrue(stats["complete"], stats)
        self.assertEqual(stats["delivered"] + stats["lost"], offered, stats)
        self.assertEqual(stats["seen"] + stats["missed"], stats["delivered"], stats)
        self.assertEqual(stats["unread"], 0, stats)
        # One thread fires the probe, and the kernel calls the program each time.
        self.assertEqual(stats["missed"], 0, stats)

    def refuse(self, *arguments, status=1, **options):
        tool = self.start("bpf", *arguments, **options)
        out, error = self.finish(tool, status)
        self.assertEqual(out, "")
        return error


def skip_reason():
    """Return the reason why no test here can run, or None."""
    if not sys.platform.startswith("linux"):
        return "not Linux"
    host = subprocess.Popen([HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(host.stdout.readline())
    result = subprocess.run([os.environ["RINGPIPE"], "bpf", "count", "-p", str(pid), "-d", "1"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    host.communicate()
    said = result.stderr.decode()
    for reason in ("no permission", "has no BPF", "has no uprobes"):
        if reason in said:
            return said.strip()
    return None


def main():
    reason = skip_reason()
    if reason:
        print(reason)
        sys.exit(77)
    unittest.main()
