#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Commands read traces with flipped bits: each ends by itself, within limits of memory and
processor time, with status 0 or 1 and a message."""
import os
import random
import shutil
import subprocess
import sys
import unittest

import nettrace6
from nettrace import utf16z
from strange_traces_test import START, TOOL, ToolTest, circle, define, one_request

DRIVER, CORPUS = os.environ.get("BIT_FLIPS", ""), os.environ.get("PERF_CORPUS", "")
COUNT = int(os.environ.get("FLIPS", "200"))
SEED = os.environ.get("SEED", "1")
COMMANDS_MAX = 512  # of the driver
REPORTS = ("summary", "events", "spans", "losses", "cpu", "offcpu", "waits", "counters", "gc",
           "heap", "json", "locks", "timeline")
TARGETS = ("chrome", "perfetto", "speedscope", "pprof", "folded", "firefox", "otlp",
           "otlp-profiles", "jsonl", "csv")


def version_6():
    """Return a trace with each type of field, threads, stacks, labels and losses."""
    payload, _ = nettrace6.all_fields_payload()
    trace = nettrace6.Trace()
    trace.threads({"index": 1, "name": "worker", "process": 4242, "thread": 7},
                  {"index": 2, "name": "other", "process": 4242, "thread": 8})
    trace.define(1, "Shop", "all", 1, nettrace6.ALL_FIELDS)
    trace.define(2, "Shop", "requestStart", 2, [("path", nettrace6.STRING16)])
    trace.define(3, "Shop", "requestStop", 3, [("path", nettrace6.STRING16)])
    trace.stacks(1, [[0x1010, 0x2020]])
    trace.labels(1, [[(1, bytes(range(16)))]])
    trace.events(*[{"id": kind, "number": number, "thread": 1 + number % 2, "capture": 1,
                    "cpu": number % 4, "stack": number % 2, "labels": 1, "ns": 1000 * number,
                    "payload": payload if kind == 1 else utf16z("/")}
                   for number, kind in enumerate((2, 1, 1, 3, 2, 1, 3, 2), 1)])
    trace.point([(1, 12)], ns=20_000)
    return trace.remove((1, 8)).end()


class BitFlips(ToolTest):
    def commands(self, name):
        """Return the commands for one file, whose damaged copy is at `name`."""
        out = self.path("out")
        rows = [("report", name, what) for what in REPORTS]
        rows += [("report", name, what, "--format", form)
                 for what, form in (("events", "csv"), ("spans", "json"), ("summary", "json"))]
        rows += [("explain", name, "--slowest", "10"),
                 ("report", name, "events", "--from", "1us", "--to", "5us"),
                 ("report", name, "--diff", self.path("second")),
                 ("report", name, "events", "--where", "name == 'requestStart'"),
                 ("merge", "-q", "-f", name, self.path("second"), "-o", out),
                 ("view", "-f", "--html", out, name)]
        rows += [("convert", "-q", "-f", name, "--to", target, "-o", out) for target in TARGETS]
        # A folder, which replaces no file.
        rows.append(("convert", "-q", "-f", name, "--to", "ctf", "-o", self.path("ctf")))
        rows += [("convert", "-q", "-f", name, "-o", out, *more)
                 for more in (("--format", "4"), ("--format", "6"), ("--compact",))]
        rows.append((TOOL, "symbolize", "-q", "-f", name, "-o", out))
        return rows

    def test_damaged_files_end_no_command_and_hang_none(self):
        self.write("second", one_request(define(), utf16z("/")).end())
        files = [self.write("v4", circle().end()), self.path("second"),
                 self.write("v6", version_6()), self.path("v6.zst")]
        self.run_tool("convert", "-q", "v6", "-o", "v6.zst")
        files += [os.path.join(CORPUS, name) for name in ("stacks", "switches", "pipe")]
        lines = []
        for number, file in enumerate(files):
            suffix = ".zst" if file.endswith(".zst") else ""
            copy = self.path(f"damaged{number}{suffix}")
            lines += [(file, copy, *row) for row in self.commands(copy)]
        # The index of an intact trace of more than 1 MB; smaller ones have none.
        long = define()
        for block in range(40):
            long.events(START, [utf16z("x" * 1000)] * 15, ns=1_000_000 * block)
        ranged = ("report", self.write("indexed", long.end()), "events", "--from", "5ms",
                  "--to", "7ms")
        self.run_tool(*ranged)
        shutil.copy(self.path("indexed.rpidx"), self.path("index"))
        lines += [(self.path("index"), self.path("indexed.rpidx"), *ranged)] * 8
        # In an order that mixes the files and commands, so that a short run has some of each.
        random.Random(1).shuffle(lines)
        self.assertLess(len(lines), COMMANDS_MAX)
        done = subprocess.run([DRIVER, str(COUNT), SEED], check=False, stdout=subprocess.PIPE,
                              input="\n".join("\t".join(row) for row in lines) + "\n",
                              encoding="utf-8", errors="replace", env=self.environment,
                              cwd=self.directory)
        print(done.stdout, file=sys.stdout, flush=True)
        if done.returncode and os.environ.get("KEEP"):
            shutil.copytree(self.directory, os.environ["KEEP"], dirs_exist_ok=True)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])


if __name__ == "__main__":
    unittest.main()
