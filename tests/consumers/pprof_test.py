#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`go tool pprof` opens what `ringpipe convert --to pprof` writes."""
import collections
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import nettrace
import stack_formats_test
from formats_test import HOSTILE, message
from profile_test import Machine
from stack_formats_test import files_trace
from tool import ToolTest

PATIENCE = 120
# Newer versions also print the column.
LOCATION = re.compile(r" *(\d+): 0x0 (?:M=(\d+) )?(.*) \S*?:0(?::0)? s=0.*")
HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(os.path.dirname(HERE), "cli", "pprof.proto")


class Raw:
    """The text of `go tool pprof -raw`, which first checks the profile."""

    def __init__(self, text):
        head, _, rest = text.partition("\nSamples:\n")
        samples, _, rest = rest.partition("Locations\n")
        locations, _, mappings = rest.partition("Mappings\n")
        self.head = dict(line.split(": ", 1) for line in head.split("\n") if ": " in line)
        self.kind, *lines = samples.splitlines()
        self.functions, self.mapping_of, self.mappings, self.samples = {}, {}, {}, []
        for line in locations.splitlines():
            number, mapping, name = LOCATION.fullmatch(line).groups()
            self.functions[int(number)] = name
            self.mapping_of[int(number)] = mapping and int(mapping)
        for line in mappings.splitlines():
            number, _, file, build_id, *_ = line.split(" ")
            self.mappings[int(number.rstrip(":"))] = (file, build_id)
        for line in lines:
            if label := re.fullmatch(r" +process:\[(\d+)\] thread:\[(\d+)\]", line):
                self.samples[-1] += (int(label[1]), int(label[2]))
                continue
            count, stack = re.fullmatch(r" *(\d+): ([\d ]*)", line).groups()
            self.samples.append((int(count), tuple(map(int, stack.split()))))

    def stacks(self):
        """Return the number of samples of each (process, thread, stack from the outermost on)."""
        found = collections.Counter()
        for count, stack, process, thread in self.samples:
            found[process, thread, tuple(self.functions[each] for each in reversed(stack))] += count
        return found


class Pprof(ToolTest):
    def convert(self, data, status=0):
        trace = self.write("t.nettrace", data)
        self.run_tool("convert", trace, "--to", "pprof", "-f", "-o", "out", status=status)

    def pprof(self, *options):
        environment = dict(os.environ, HOME=self.directory, GOCACHE=self.path("cache"),
                           PPROF_TMPDIR=self.directory, GOFLAGS="", GOTOOLCHAIN="local")
        done = subprocess.run(["go", "tool", "pprof", "-symbolize=none", *options,
                               self.path("out")], stdin=subprocess.DEVNULL, capture_output=True,
                              env=environment, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def raw(self, data, status=0):
        self.convert(data, status)
        out, errors = self.pprof("-raw")
        self.assertEqual(errors, "")
        return Raw(out)

    @staticmethod
    def expected(samples):
        return collections.Counter((7, thread, stack or ("[no stack]",))
                                   for thread, stack in samples)

    def test_the_samples_have_their_stacks_and_labels(self):
        trace, samples = stack_formats_test.StackFormats.random_samples(self)
        raw = self.raw(trace)
        self.assertEqual(raw.stacks(), self.expected(samples))
        self.assertEqual(raw.kind, "samples/count")
        self.assertEqual(sorted(raw.functions.values()), ["[no stack]", *"abcdef"])
        self.assertEqual(raw.head["Time"], "2026-11-21 01:02:03.004 +0000 UTC")
        self.assertEqual(raw.mappings, {1: ("/bin/shop", "")})
        self.assertEqual({raw.functions[number] for number, mapping in raw.mapping_of.items()
                          if mapping == 1}, set("abcdef"))

    def test_the_weights_of_all_functions_are_those_of_report(self):
        trace, samples = stack_formats_test.StackFormats.random_samples(self)
        self.convert(trace)
        out, errors = self.pprof("-top", "-nodecount=100", "-nodefraction=0")
        self.assertEqual(errors, "")
        self.assertIn("File: shop\n", out)
        rows = json.loads(self.run_tool("report", "t.nettrace", "cpu", "--top", "100", "--format",
                                        "json")[0])
        expected = {row["function"]: (row["exclusive_samples"], row["inclusive_samples"])
                    for row in rows}
        lacking = sum(not stack for _, stack in samples)
        expected["[no stack]"] = (lacking, lacking)
        found = {}
        for line in out[out.index("flat%"):].splitlines()[1:]:
            flat, _, _, cumulative, _, name = line.split(maxsplit=5)
            found[name] = (int(flat), int(cumulative))
        self.assertEqual(found, expected)
        self.assertIn(f"of {len(samples)} total", out)

    def test_a_mapping_has_the_build_id_of_its_file(self):
        raw = self.raw(files_trace(("/bin/a", "4f1a" * 10), ("/lib/b.so", "77" * 20),
                                   ("/lib/c.so", None)))
        self.assertEqual(sorted(raw.mappings.values()),
                         [("/bin/a", "4f1a" * 10), ("/lib/b.so", "77" * 20), ("/lib/c.so", "")])
        self.assertEqual({raw.functions[number]: raw.mappings[mapping][0]
                          for number, mapping in raw.mapping_of.items()},
                         {"[a]": "/bin/a", "[b.so]": "/lib/b.so", "[c.so]": "/lib/c.so"})

    def test_a_file_that_was_replaced_has_no_build_id(self):
        raw = self.raw(files_trace(("/bin/a", "4f1a" * 10), ("/bin/a", "77" * 20)))
        self.assertEqual(raw.mappings, {1: ("/bin/a", "")})

    @unittest.skipUnless(shutil.which("protoc"), "protoc is missing")
    def test_hostile_names_stay_names(self):
        machine = Machine().name(7, HOSTILE)
        machine.map(7, 700, 0x1000, 0x9000, "/lib/one;two.so")
        machine.function(7, 700, 0x2000, 0x2fff, HOSTILE)
        machine.sample(7, 7, [0x2010, 0x1010, 0x99999000])
        self.convert(machine.end())
        # pprof writes the profile that it has read.
        self.pprof("-proto", "-output=" + self.path("again.gz"))
        done = subprocess.run(["protoc", "-I", os.path.dirname(PROTO),
                               "--decode=perftools.profiles.Profile", PROTO],
                              input=gzip.decompress(self.read("again.gz")), check=True,
                              stdout=subprocess.PIPE)
        profile = message(iter(done.stdout.decode().splitlines()))
        texts = profile["string_table"]
        self.assertEqual([texts[row["name"][0]] for row in profile["function"]],
                         [HOSTILE, "[one;two.so]", "[unknown]"])

    def test_one_sample_is_a_profile(self):
        raw = self.raw(Machine().name(7, "shop").sample(7, 7, [0x1000]).end())
        self.assertEqual(raw.stacks(), {(7, 7, ("[unknown]",)): 1})

    def test_a_trace_without_samples_is_an_empty_profile(self):
        raw = self.raw(nettrace.sample())
        self.assertEqual((raw.kind, raw.stacks()), ("samples/count", {}))

    def test_a_damaged_trace_is_read_up_to_the_damage(self):
        trace, samples = stack_formats_test.StackFormats.random_samples(self)
        raw = self.raw(trace[:-1] + b"\5\5", status=1)
        self.assertEqual(raw.stacks(), self.expected(samples))


if __name__ == "__main__":
    if not shutil.which("go"):
        print("go is missing; scripts/setup long installs it")
        sys.exit(77)
    unittest.main()
