#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The functions in a recording of a .NET process have the names of its methods."""
import json
import os
import subprocess
import tempfile
import unittest

import clients

RINGPIPE = os.environ["RINGPIPE"]
PATIENCE_S = 120
SAMPLES = "Microsoft-DotNETCore-SampleProfiler:ffffffffffffffff:4"


def run(*command):
    return subprocess.run([RINGPIPE, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          check=True, text=True, timeout=PATIENCE_S).stdout


class DotnetMethods(unittest.TestCase):
    def test_samples_are_in_the_methods_of_the_program(self):
        with tempfile.TemporaryDirectory(prefix="ringpipe-methods-") as folder, \
                subprocess.Popen([*clients.counters_command(), "collect"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True) as process:
            trace = os.path.join(folder, "methods.nettrace")
            run("collect", "-q", "-p", process.stdout.readline().strip(), "--providers", SAMPLES,
                "-d", "3", "-o", trace)
            process.communicate("\n", timeout=PATIENCE_S)
            rows = json.loads(run("report", trace, "cpu", "--format", "json"))
            folded = run("convert", trace, "--to", "folded", "-o", "-")
        functions = {row["function"]: row["inclusive_samples"] for row in rows}
        self.assertGreater(functions["Garbage.Run()"], 0)
        self.assertRegex(folded, r"Program\.Main\(class System\.String\[\]\);.*Garbage\.Run\(\)")


if __name__ == "__main__":
    clients.main(clients.counters_command)
