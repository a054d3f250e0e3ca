#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Failing outputs raise no signal in a host, whatever public function it calls.

usage: shielded_test.py PROGRAM PLUGIN LIBRARY MAP [unittest arguments]
"""
import fnmatch
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = PLUGIN = LIBRARY = MAP = None
SKIPPED = 77


def exported():
    """Returns the symbols of the library that match the names and patterns of its map."""
    with open(MAP, encoding="utf-8") as file:
        patterns = re.findall(r"^\t(rp_[\w*]+);$", file.read(), re.M)
    lines = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines}
    found = {name for name in names for pattern in patterns if fnmatch.fnmatch(name, pattern)}
    for pattern in patterns:
        if not fnmatch.filter(found, pattern):
            raise AssertionError("the library has no " + pattern)
    return found


class Shielded(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-shielded-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, TMPDIR=self.directory, RINGPIPE_LTTNG="0")

    def run_program(self, *arguments, limit=None, stderr=None, **variables):
        def set_limit():
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run([PROGRAM, *arguments], check=False, text=True, timeout=300,
                              stdout=subprocess.PIPE, stderr=stderr or subprocess.PIPE,
                              env={**self.environment, **variables}, preexec_fn=set_limit)

    def test_every_public_function_has_a_row(self):
        rows = set(self.run_program("list").stdout.split())
        self.assertEqual(rows, exported())

    def expect_all_called(self, hazard):
        done = self.run_program(hazard, self.directory, PLUGIN)
        if done.returncode == SKIPPED:
            self.skipTest(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_no_function_raises_a_signal_where_readers_are_gone(self):
        self.expect_all_called("pipes")

    def test_no_function_raises_a_signal_beyond_a_files_limit(self):
        self.expect_all_called("limit")

    def test_every_function_reports_of_a_full_disk(self):
        self.expect_all_called("full")

    def test_no_function_fails_because_a_signal_interrupts_it(self):
        self.expect_all_called("storm")

    @unittest.skipIf("thread" in os.environ.get("SANITIZERS", ""),
                     "ThreadSanitizer writes files of its own, beyond their limit")
    def test_a_program_is_loaded_whatever_its_environments_session_may_write(self):
        for limit in (0, 10, 100, 1000):
            for roll in ("", "8"):
                with self.subTest(limit=limit, roll=roll):
                    done = self.run_program("list", limit=limit, RINGPIPE_CONFIG="*",
                                            RINGPIPE_OUTPUT=self.directory + "/trace",
                                            RINGPIPE_ROLL_MB=roll)
                    self.assertEqual(done.returncode, 0)
                    self.assertIn("rp_session_start", done.stdout)

    def test_a_program_is_loaded_although_its_standard_error_is_not_read(self):
        near, far = os.pipe()
        os.close(near)
        with os.fdopen(far, "wb") as stderr:
            for name, value in (("RINGPIPE_CONFIG", ":::"), ("RINGPIPE_STACKS", "yes"),
                                ("RINGPIPE_PORTS", "x,y,z"),
                                ("RINGPIPE_TRACERS_MS", "often")):
                with self.subTest(name=name):
                    done = self.run_program("list", stderr=stderr, **{name: value})
                    self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    PROGRAM, PLUGIN, LIBRARY, MAP = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
    unittest.main()
