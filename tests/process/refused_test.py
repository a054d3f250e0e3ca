#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Refuses each system call of the library, as filters of containers and services do.

usage: refused_test.py PROGRAM RINGPIPE [unittest arguments]

The program runs and ends normally. Its events are delivered, or one line on standard error reports
which requested feature is missing.
"""
import errno
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = RINGPIPE = None
EVENTS = 1000
HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"

# Calls that the loader and every program need: without them, no program starts.
NEEDED = {"execve", "exit", "exit_group", "arch_prctl", "brk", "close", "fstat", "futex", "getpid",
          "mmap", "mprotect", "munmap", "newfstatat", "open", "openat", "pread64", "read",
          "readlink", "rt_sigreturn", "set_tid_address", "write"}
# Calls besides the recorded ones: alternatives on newer or older systems and on other machines.
ALSO = {"membarrier", "rseq", "memfd_create", "eventfd2", "timer_create", "timerfd_create",
        "getrandom", "sched_getaffinity", "clone3", "unlinkat", "accept4", "getsockopt", "sendto"}
# A session needs a thread, rings that no child inherits, and an empty file.
MAY_FAIL = {"clone3", "madvise", "ftruncate"}


def numbers():
    with open(HEADER, encoding="ascii") as file:
        return {name: int(number) for name, number in
                re.findall(r"#define __NR_(\w+) (\d+)", file.read())}


class Refused(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-refused-")
        self.addCleanup(shutil.rmtree, self.directory)

    def environment(self, **more):
        return dict(os.environ, TMPDIR=self.directory, **more)

    def run_program(self, *prefix):
        # With {pid}, the variables stay set for the program that PROGRAM executes.
        environment = self.environment(RINGPIPE_CONFIG="Test-Refused",
                                       RINGPIPE_OUTPUT=self.directory + "/trace-{pid}")
        for trace in glob.glob(self.directory + "/trace-*"):
            os.unlink(trace)
        return subprocess.run([*prefix, PROGRAM], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60, check=False)

    def delivered(self):
        traces = glob.glob(self.directory + "/trace-*")
        done = subprocess.run([RINGPIPE, "report", *traces, "events", "--format=json"],
                              check=False, text=True,
                              env=self.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return sum(row["provider"] == "Test-Refused" for row in rows)

    def calls(self):
        log = os.path.join(self.directory, "log")
        done = self.run_program("strace", "-f", "-o", log)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(log, encoding="ascii", errors="replace") as file:
            return set(re.findall(r"^\d+ +([a-z_0-9]+)\(", file.read(), re.M))

    def expect(self, call, number, error):
        done = self.run_program(PROGRAM, str(number), str(error))
        said = f"{call}: {errno.errorcode[error]}: {done.stderr}"
        self.assertEqual(done.returncode, 0, said)
        lines = done.stderr.splitlines()
        self.assertLessEqual(len(lines), 1, said)
        if lines:
            self.assertIn(call, MAY_FAIL, said)
            self.assertRegex(lines[0], "^ringpipe: (cannot start a|the) session ", said)
            if lines[0].startswith("ringpipe: cannot"):
                name = {"clone3": "pthread_create"}.get(call, call)
                self.assertRegex(lines[0], f" from {name}$", said)
        else:
            self.assertEqual(self.delivered(), EVENTS, said)

    def test_each_call_may_be_refused(self):
        known = numbers()
        calls = (self.calls() | ALSO) - NEEDED
        self.assertIn("membarrier", calls)
        for call in sorted(calls):
            # Limits on threads and memory, such as pids.max of a cgroup, cause the other errors.
            limits = (errno.EAGAIN, errno.ENOMEM) if call in MAY_FAIL else ()
            for error in (errno.EPERM, errno.ENOSYS, *limits):
                with self.subTest(call=call, error=errno.errorcode[error]):
                    self.expect(call, known[call], error)


if __name__ == "__main__":
    if not shutil.which("strace") or not os.path.exists(HEADER):
        print("no strace, or no " + HEADER)
        sys.exit(77)
    PROGRAM, RINGPIPE = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    TRIED = subprocess.run([PROGRAM, "9999", "1", PROGRAM], check=False)
    if TRIED.returncode == 77:
        print("filters of system calls cannot be installed here")
        sys.exit(77)
    unittest.main()
