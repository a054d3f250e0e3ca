#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A filter that kills at every system call outside the table in doc/security.md.

usage: allowed_test.py PROGRAM RINGPIPE PAGE [unittest arguments]

PROGRAM starts under the filter, with a session from its environment. It creates sessions,
snapshots, listeners, counters and a child, and clients trace it from outside.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = RINGPIPE = NUMBERS = None
PATIENCE = 120  # seconds; longest wait for an event that must happen
HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"


def allowed(page):
    """Returns the system calls of the table."""
    with open(page, encoding="utf-8") as file:
        section = file.read().split("\n## System calls\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[2])]


def numbers(names):
    with open(HEADER, encoding="ascii") as file:
        known = dict(re.findall(r"#define __NR_(\w+) (\d+)", file.read()))
    # Older headers lack newer calls, and no program on such a system makes them.
    return ",".join(known[name] for name in names if name in known)


class Allowed(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-allowed-")
        self.addCleanup(shutil.rmtree, self.directory)
        # LTTng's library would make other calls if a daemon runs.
        self.environment = dict(os.environ, TMPDIR=self.directory, RINGPIPE_LTTNG="0")

    def start(self, mode, **more):
        process = subprocess.Popen([PROGRAM, NUMBERS, PROGRAM, mode], cwd=self.directory,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=dict(self.environment, **more))
        self.addCleanup(self.reap, process)
        return process

    @staticmethod
    def reap(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def expect(self, process, status):
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status,
                         f"{err.decode()} (-{int(signal.SIGSYS)}: at a call not in the table)")

    def ask(self, *arguments):
        done = subprocess.run([RINGPIPE, *map(str, arguments)], env=self.environment, check=False,
                              cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")

    def test_all_that_ringpipe_does_in_a_program_is_done_by_the_calls_of_the_table(self):
        # With {pid}, the variables stay set for the program that PROGRAM executes.
        host = self.start("run", RINGPIPE_CONFIG="*", RINGPIPE_OUTPUT="environment-{pid}.nettrace")
        if host.stdout.readline() != b"ready\n":
            self.expect(host, 0)
            self.fail("it ended before it was ready")
        pid = host.pid
        self.ask("list", pid)
        self.ask("collect", "-p", pid, "-d", 1, "--stacks", "-o", "collected.nettrace")
        self.ask("flight", "start", "-p", pid)
        self.ask("flight", "snapshot", "-p", pid, "-o", "snapshot-of.nettrace")
        self.ask("flight", "stop", "-p", pid)
        self.ask("counters", "collect", "--format=csv", "-p", pid, "-d", 2, "-o", "counters.csv")
        self.ask("stacks", pid)
        host.stdin.close()
        host.stdin = None
        self.expect(host, 0)
        for name in ("file", "stacks", "coarse", "snapshot", "child"):
            self.ask("report", name + ".nettrace")

    def test_any_other_call_kills(self):
        self.expect(self.start("other"), -signal.SIGSYS)


if __name__ == "__main__":
    if not os.path.exists(HEADER):
        print("no " + HEADER)
        sys.exit(77)
    PROGRAM, RINGPIPE = map(os.path.abspath, sys.argv[1:3])
    NUMBERS = numbers(allowed(sys.argv[3]))
    del sys.argv[1:4]
    TRIED = subprocess.run([PROGRAM, NUMBERS, PROGRAM, "other"], check=False,
                           stderr=subprocess.DEVNULL)
    if TRIED.returncode == 77:
        print("filters of system calls cannot be installed here")
        sys.exit(77)
    unittest.main()
