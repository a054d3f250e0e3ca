# SPDX-License-Identifier: MIT
"""The demo's second part: one trace has the hottest functions of the shop, redis and .NET, and the
slowest request of the shop is explained."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["BUILD"]
DEMO = os.environ["DEMO"]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


class MachineDemo(unittest.TestCase):
    def test_the_hottest_function_of_each_program_is_shown_and_a_request_is_explained(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DEMO, BUILD, out], stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.STDOUT, check=False, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout)
        rows = dict(re.findall(r"(?m)^(\S+) +[\d,]+ +[\d,]+  (\S.*)$", done.stdout))
        left_out = re.findall(r"(?m)^  without (\S+):", done.stdout)
        self.assertIn("shop", rows, done.stdout)
        if "redis" not in left_out:
            self.assertIn("redis-server", rows, done.stdout)
        if ".NET" not in left_out:
            self.assertIn("Program::IsPrime(", rows["Primes"], done.stdout)
        self.assertRegex(done.stdout, r"(?m)^Shop-Http/request took \d", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^\d+ % of the time, it was \w", done.stdout)


if __name__ == "__main__":
    if not os.environ["RECORD"]:
        skip("ringpipe-record was not built: elfutils is missing")
    if os.environ["SANITIZERS"] != "none":
        skip("the programs are those of the other builds")
    if os.geteuid() != 0:
        skip("recording all processes requires root")
    unittest.main()
