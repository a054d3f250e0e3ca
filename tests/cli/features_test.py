#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Builds ringpipe without optional libraries, and asks the command for what the build leaves out.

usage: features_test.py SOURCE MESON CC CXX [unittest's arguments]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import nettrace

SOURCE, MESON, CC, CXX = sys.argv[1:5]
del sys.argv[1:5]
TOOL = os.path.join("src", "tools", "ringpipe", "ringpipe")


class WithoutAnyFeature(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="ringpipe-features-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.built = os.path.join(cls.directory, "built")
        cls.configured = cls.run_build(MESON, "setup", cls.built, SOURCE, "-Dtests=disabled",
                                       "-Dauto_features=disabled", "-Doptimization=0")
        cls.run_build(MESON, "compile", "-C", cls.built)
        cls.trace = os.path.join(cls.directory, "shop.nettrace")
        with open(cls.trace, "wb") as file:
            file.write(nettrace.sample())

    @staticmethod
    def run_build(*command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, env={**os.environ, "CC": CC, "CXX": CXX})
        if done.returncode:
            raise AssertionError(done.stdout[-5000:])
        return done.stdout

    def run_tool(self, *arguments, status=0):
        done = subprocess.run([os.path.join(self.built, TOOL), *arguments], cwd=self.directory,
                              capture_output=True, text=True, check=False, timeout=600,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr

    def refused(self, *arguments):
        return self.run_tool(*arguments, status=1)[1]

    def test_the_command_names_the_library_that_it_lacks(self):
        compressed = os.path.join(self.directory, "t.nettrace.zst")
        with open(compressed, "wb") as file:
            file.write(bytes.fromhex("28b52ffd0000"))
        for library, arguments in (
                ("libbabeltrace2", ("convert", self.trace, "--to", "ctf", "-o", "ctf")),
                ("libzstd", ("convert", self.trace, "-o", "out.nettrace.zst")),
                ("zstd", ("report", compressed)),
                ("libmicrohttpd", ("view", self.trace)),
                ("expat", ("gen", "shop.man")),
                ("elfutils", ("record", "-o", "machine.nettrace")),
                ("elfutils", ("symbolize", self.trace, "-o", "named.nettrace")),
                ("libbpf", ("bpf", "count", "-p", "1"))):
            with self.subTest(arguments[0], library=library):
                self.assertIn(library, self.refused(*arguments))

    def test_no_output_is_left_of_a_conversion_that_is_refused(self):
        self.refused("convert", self.trace, "--to", "ctf", "-o", "refused")
        self.refused("convert", self.trace, "-o", "refused.nettrace.zst")
        self.assertFalse([name for name in os.listdir(self.directory)
                          if name.startswith("refused")])

    def test_what_needs_no_library_works(self):
        self.assertIn("OrderPlaced", self.run_tool("report", self.trace)[0])
        for form in ("chrome", "perfetto", "firefox", "speedscope", "pprof", "folded", "jsonl",
                     "csv", "otlp"):
            self.run_tool("convert", self.trace, "--to", form, "-q", "-o", f"shop.{form}")

    def test_the_configuration_states_that_the_view_is_left_out(self):
        self.assertIn("ringpipe view is left out: the option view is disabled", self.configured)


if __name__ == "__main__":
    unittest.main()
