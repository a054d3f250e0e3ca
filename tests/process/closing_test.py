#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in programs that were never built for it, and close descriptors that are not theirs.

usage: closing_test.py LIBRARY [unittest arguments]
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = None
PYTHON = "/usr/bin/python3"

# Closes what it did not open, as daemons do, and has all numbers in use right after.
CLOSES = """
import os, socket, sys
os.closerange(3, 256)
kind, count = sys.argv[1], 40
if kind == "files":
    own = [os.open("own%d" % i, os.O_CREAT | os.O_RDWR) for i in range(count)]
else:
    pairs = [socket.socketpair() for _ in range(count // 2)]
    own = [end.fileno() for pair in pairs for end in pair]
before = [os.fstat(fd).st_ino for fd in own]
"""

CHECKS = """
assert [os.fstat(fd).st_ino for fd in own] == before, "a descriptor is gone"
if kind == "files":
    assert [os.fstat(fd).st_size for fd in own] == [0] * len(own), "somebody wrote to a file"
else:
    for fd in own:
        try:
            got = os.recv(fd, 1) if hasattr(os, "recv") else \\
                socket.socket(fileno=os.dup(fd)).recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        raise AssertionError("somebody wrote to a socket, or ended it: %r" % got)
"""

# In a child, too: what the parent closed is not there to be closed once more.
FORKS = """
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""

WAITS = """
import os, socket, sys, time

def close_all(order):
    for fd in range(3, 256) if order == "up" else range(255, 2, -1):
        try:
            os.close(fd)
        except OSError:
            pass

# Whoever listens answers: the socket of before, in the backlog of which one could wait, does not.
def wait_for_port():
    key = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
    path = "dotnet-diagnostic-%d-%s-socket" % (os.getpid(), key)
    end = time.monotonic() + 60
    while True:
        assert time.monotonic() < end, "nobody listens"
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(b"DOTNET_IPC_V1\\0" + bytes((20, 0, 4, 4, 0, 0)))
                if client.recv(14) == b"DOTNET_IPC_V1\\0":
                    return
        except (ConnectionError, FileNotFoundError):
            time.sleep(0.01)
"""

COMES_BACK = WAITS + """
wait_for_port()
for _ in range(6):
    close_all(sys.argv[1])
    wait_for_port()
"""

DAEMON = WAITS + """
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    close_all("up")
    wait_for_port()
"""


class Closing(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-closing-")
        self.addCleanup(shutil.rmtree, self.directory)

    def run_program(self, text, *arguments, **variables):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, TMPDIR=self.directory, **variables)
        done = subprocess.run([PYTHON, "-c", text, *arguments], cwd=self.directory, check=False,
                              env=environment, stdin=subprocess.DEVNULL, timeout=120, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def sizes(self):
        return {os.path.getsize(path) for path in glob.glob(self.directory + "/own*")}

    def test_a_preloaded_program_has_a_port_and_takes_it_away(self):
        done = self.run_program("import glob; print(len(glob.glob('dotnet-diagnostic-*')))")
        self.assertEqual(done.stdout, "1\n")
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_the_host_has_under_our_numbers_is_left_alone(self):
        for kind in ("files", "sockets"):
            done = self.run_program(CLOSES + FORKS + CHECKS, kind)
            self.assertEqual(done.stderr, "")
        self.assertEqual(self.sizes(), {0})

    def test_the_port_comes_back_whenever_it_is_closed(self):
        for order in ("up", "down"):
            self.run_program(COMES_BACK, order)
            self.assertEqual(os.listdir(self.directory), [])

    def test_a_daemon_that_closes_all_has_a_port(self):
        self.run_program(DAEMON)
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_session_whose_file_was_closed_ends_and_says_so(self):
        for kind in ("files", "sockets"):
            done = self.run_program(CLOSES + FORKS + CHECKS, kind, RINGPIPE_CONFIG="*",
                                    RINGPIPE_OUTPUT="trace")
            self.assertIn("Bad file descriptor", done.stderr)
        self.assertEqual(self.sizes(), {0})


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        print("no " + PYTHON)
        sys.exit(77)
    LIBRARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
