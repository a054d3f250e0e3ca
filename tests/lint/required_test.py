#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""CI fails when a test that tests/required lists was skipped or did not run, and when a test failed
that may not be repeated, or failed twice.

usage: required_test.py ROOT [unittest arguments]

scripts/test runs in a temporary tree, with fake commands for meson and scripts/setup.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = None
LIST = """# a comment
[quick]
*/*
except unit/a * needs a cross compiler	# the reason

[long]
linux/kernel

[clang]
"""
MESON = """#!/bin/sh
while [ $# -gt 0 ]; do
	case "$1" in
	-C) dir=$2 ;;
	--logbase) base=$2 ;;
	--list) echo "x:linux / kernel" ;;
	esac
	shift
done
[ -n "$base" ] || exit 0
mkdir -p "$dir/meson-logs"
case "$base" in
again-*) cp "$FAKE_LOG.2" "$dir/meson-logs/$base.json" ;;
*) cp "$FAKE_LOG" "$dir/meson-logs/$base.json" ;;
esac
! grep -q '"result": "FAIL"' "$dir/meson-logs/$base.json"
"""
SETUP = """#!/bin/sh
[ "$1" != "$FAKE_FAILURE" ]
"""


FAILED = """test_it (__main__.Case.test_it) ... a line of the program
ERROR
test_that (__main__.Case.test_that) ... FAIL

======================================================================
ERROR: test_it (__main__.Case.test_it)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "it.py", line 1, in test_it
subprocess.TimeoutExpired: Command 'first' timed out after 3 seconds

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "it.py", line 2, in test_it
drive.Failure: the second reason
with another line

======================================================================
FAIL: test_that (__main__.Case.test_that)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "it.py", line 3, in test_that
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 3 tests in 1.000s

FAILED (failures=1, errors=1)
"""
FAILED_TAP = """TAP version 13
# a figure
ok 1 - one
# the reason
# a second one
not ok 2 - two
1..2
"""

# A program that the test started wrote between the name and the verdict.
SKIPPED_BEHIND_OUTPUT = """test_it (__main__.Case.test_it) ... a line of the program
another line
skipped 'why'
test_that (__main__.Case.test_that) ... ok

Ran 2 tests in 1.000s

OK (skipped=1)
"""


def entry(test, result="OK", stdout="", stderr=""):
    suite, name = test.split("/")
    return {"name": f"x:{suite} / {name}", "result": result, "stdout": stdout, "stderr": stderr}


class Required(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="rp-required-")
        self.addCleanup(shutil.rmtree, self.tree)
        for folder in ("scripts", "tests", "bin"):
            os.mkdir(os.path.join(self.tree, folder))
        for script in ("test", "testlog.py"):
            shutil.copy(os.path.join(ROOT, "scripts", script), self.tree + "/scripts")
        self.write("tests/required", LIST)
        self.write("bin/meson", MESON)
        self.write("scripts/setup", SETUP)
        for tool in ("bash", "sh", "python3", "grep", "find", "head", "tail", "wc", "mktemp", "rm",
                     "mkdir", "cp", "dirname", "nproc", "chmod", "cat", "env"):
            os.symlink(shutil.which(tool), os.path.join(self.tree, "bin", tool))

    def write(self, name, text):
        path = os.path.join(self.tree, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_tests(self, entries, *arguments, ci="true", failing="", again=()):
        """Runs scripts/test; `again`: the log of repeated tests. Returns (exit status, output)."""
        self.write("log", "".join(json.dumps(one) + "\n" for one in entries))
        self.write("log.2", "".join(json.dumps(one) + "\n" for one in again))
        done = subprocess.run(
            [self.tree + "/bin/bash", self.tree + "/scripts/test", *arguments], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env={"PATH": self.tree + "/bin", "CI": ci, "FAKE_LOG": self.tree + "/log",
                 "FAKE_FAILURE": failing, "TMPDIR": self.tree})
        return done.returncode, done.stdout

    def test_run_in_which_nothing_was_skipped_passes(self):
        status, said = self.run_tests([entry("unit/a"), entry("unit/b")])
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"))

    def test_each_failure_has_its_reason(self):
        status, said = self.run_tests([entry("unit/a", "FAIL", stderr=FAILED),
                                       entry("unit/b", "FAIL", FAILED_TAP)])
        self.assertEqual((status, said.splitlines()[-1]), (1, "2 passed, 3 failed, 0 skipped"))
        # Once behind the run, and once at the end.
        self.assertEqual(list(dict.fromkeys(re.findall("^failed: .*", said, re.M))), [
            "failed: unit / a: test_it (drive.Failure: the second reason)",
            "failed: unit / a: test_that (AssertionError: 1 != 2)",
            "failed: unit / b: 2 - two (the reason)"])

    def test_a_test_that_others_may_disturb_passes_at_its_second_run_and_is_named(self):
        entries = [entry("unit/a"), entry("cli/b", "FAIL", "the reason")]
        status, said = self.run_tests(entries, again=[entry("cli/b")])
        self.assertEqual((status, said.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertIn("\nunstable: cli / b (the reason)\n    the reason\n", said)
        status, said = self.run_tests(entries, again=[entry("cli/b", "FAIL", "the reason")])
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertNotIn("unstable", said)
        status, said = self.run_tests(entries, again=[entry("cli/b", "SKIP", "no tool")])
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_test_whose_result_depends_on_ringpipe_alone_is_not_repeated(self):
        for name in ("unit/b", "stress/b", "process+stress/b"):
            entries = [entry("cli/a", "FAIL"), entry(name, "FAIL")]
            status, said = self.run_tests(entries, again=[entry("cli/a"), entry(name)])
            self.assertEqual((status, said.splitlines()[-1]), (1, "0 passed, 2 failed, 0 skipped"))

    def test_more_failures_than_bad_luck_causes_are_not_repeated(self):
        entries = [entry(f"cli/{i}", "FAIL") for i in range(4)]
        status, said = self.run_tests(entries, again=[entry(f"cli/{i}") for i in range(4)])
        self.assertEqual((status, said.splitlines()[-1]), (1, "0 passed, 4 failed, 0 skipped"))

    def test_skipped_test_fails_ci_only(self):
        entries = [entry("unit/a"), entry("unit/b", "SKIP", "no tool")]
        status, said = self.run_tests(entries)
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("required: unit/b was skipped: unit / b (no tool)", said)
        self.assertEqual(self.run_tests(entries, ci="")[0], 0)

    def test_skipped_part_fails_unless_the_list_excepts_it(self):
        part = "TAP version 13\nok 1 - x\nok 2 - {} # SKIP why\n1..2\n"
        status, said = self.run_tests([entry("unit/a", "OK", part.format("one part"))])
        self.assertEqual(status, 1)
        self.assertIn("required: unit/a was skipped: unit / a: 2 - one part (why)", said)
        status, _ = self.run_tests([entry("unit/a", "OK", part.format("needs a cross compiler"))])
        self.assertEqual(status, 0)

    def test_skipped_part_is_named_when_its_program_wrote_lines(self):
        status, said = self.run_tests([entry("unit/a", stderr=SKIPPED_BEHIND_OUTPUT)])
        self.assertEqual(status, 1)
        self.assertIn("required: unit/a was skipped: unit / a: test_it ('why')", said)

    def test_test_that_is_not_there_fails(self):
        status, said = self.run_tests([entry("linux/other")], "--only", "long")
        self.assertEqual(status, 1)
        self.assertIn("required: linux/kernel did not run", said)
        self.assertEqual(self.run_tests([entry("linux/kernel")], "--only", "long")[0], 0)

    def test_failed_setup_of_the_long_run_fails_ci(self):
        log = [entry("linux/kernel")]
        self.assertEqual(self.run_tests(log, "--only", "long", failing="long")[0], 1)
        self.assertEqual(self.run_tests(log, "--only", "long", failing="long", ci="")[0], 0)

    def test_run_that_is_skipped_as_a_whole_fails(self):
        status, said = self.run_tests([], "--only", "clang")
        self.assertEqual(status, 1, said)
        self.assertIn("required: clang: the whole run was skipped", said)
        self.assertEqual(self.run_tests([], "--only", "clang", ci="")[0], 0)

    def test_list_that_cannot_be_read_fails(self):
        self.write("tests/required", "[quick]\nsome words here\n")
        self.assertEqual(self.run_tests([entry("unit/a")])[0], 1)

    def test_list_of_this_tree_names_runs_that_there_are(self):
        usage = subprocess.run([ROOT + "/scripts/test", "--help"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
        with open(ROOT + "/tests/required", encoding="utf-8") as file:
            sections = [line.strip("[]\n") for line in file if line.startswith("[")]
        self.assertIn("long", sections)
        for section in sections:
            self.assertIn(f"\n  {section} ", usage)

    def test_exceptions_of_this_tree_name_tests_that_there_are(self):
        with open(ROOT + "/tests/required", encoding="utf-8") as file:
            exceptions = [line.split()[1:3] for line in file if line.startswith("except ")]
        names = [(test.partition("/")[0], name) for test, name in exceptions
                 if name.startswith("test_")]
        self.assertTrue(names)
        for suite, name in names:
            texts = [pathlib.Path(path).read_text(encoding="utf-8")
                     for path in glob.glob(f"{ROOT}/tests/{suite}/*.py") +
                     glob.glob(f"{ROOT}/{suite}/*/*.py")]
            self.assertTrue(any(f"def {name}(" in text for text in texts), name)


if __name__ == "__main__":
    ROOT = os.path.abspath(sys.argv.pop(1))
    unittest.main()
