#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The scripts that take the pictures of the modules for servers end if a module is missing."""
import os
import shutil
import subprocess
import tempfile
import unittest

import servers

HERE = os.path.dirname(os.path.abspath(__file__))


class ScreenshotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.programs, self.module = (os.path.join(folder.name, name)
                                      for name in ("programs", "module"))
        os.mkdir(self.programs)
        os.mkdir(self.module)
        os.symlink(shutil.which("true"), os.path.join(self.programs, "chromium"))

    def assert_ends(self, server, program):
        if not shutil.which(program):
            self.skipTest(f"no {program}")
        done = subprocess.run(
            [os.path.join(HERE, server, "screenshot"), servers.RINGPIPE, self.module],
            check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, timeout=servers.PATIENCE,
            env=dict(os.environ, PATH=self.programs + ":" + os.environ["PATH"]))
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_the_script_of_each_server_ends_with_a_server_that_does_not_start(self):
        for server, program in (("haproxy", "haproxy"), ("nginx", "nginx"),
                                ("redis", "redis-server")):
            with self.subTest(server):
                self.assertIn("the server has ended", self.assert_ends(server, program))

    def test_the_script_ends_with_a_server_that_runs_without_the_module(self):
        shutil.copy(os.path.join(HERE, "haproxy", "ringpipe.lua"), self.module)
        self.assertIn("the recording has ended", self.assert_ends("haproxy", "haproxy"))


if __name__ == "__main__":
    unittest.main()
