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

    def test_the_port_comes_back(self):
        waits = ("import os, time, glob, socket\n"
                 "path = glob.glob('dotnet-diagnostic-*')[0]\n"
                 "os.closerange(3, 256)\n"
                 "end = time.monotonic() + 60\n"
                 "while True:\n"
                 "    try:\n"
                 "        socket.socket(socket.AF_UNIX).connect(path)\n"
                 "        break\n"
                 "    except (ConnectionRefusedError, FileNotFoundError):\n"
                 "        assert time.monotonic() < end, 'nobody listens'\n"
                 "        time.sleep(0.01)\n")
        self.run_program(waits)
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
