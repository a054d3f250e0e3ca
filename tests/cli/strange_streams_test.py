#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The readers other than commands on files read the traces of strange_traces_test.py within the
same limits: `tail` and `top` as the stream of a process, the server of `view`, and reports on a
range of time by an index."""
import json
import os
import random
import struct
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

import nettrace
import tool
from server import UNKNOWN_COMMAND, error, ok
from strange_traces_test import IS_LONG, SANITIZED, TOOL, TRACES, ToolTest, limit, utf16z

QUESTIONS = ("traces", "timeline", "timeline?bins=1000", "spans", "instances?min_ns=0", "flame",
             "flame?kind=offcpu", "functions", "functions?kind=offcpu", "counters", "events",
             "events?where=has+path", "search?q=e", "timeline?from=0&to=9e18", "spans?from=-1&to=1",
             "events?from=1152921504606846976&to=1152921504606846977")
FLIPS = 400 if IS_LONG else 40


class StrangeStreams(ToolTest):
    def run_limited(self, *arguments, data=None):
        done = subprocess.run([TOOL, *map(str, arguments)], stdout=subprocess.PIPE, input=data,
                              stderr=subprocess.PIPE, preexec_fn=limit, env=self.environment,
                              cwd=self.directory, timeout=tool.PATIENCE, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr[-2000:])
        done.stderr.decode()
        return done

    def answer(self, connection, request):
        if request.set != 2 or request.id == 1:
            connection.sendall(error(UNKNOWN_COMMAND))
            return
        try:
            connection.sendall(ok(struct.pack("<Q", 1)) + self.stream)
        except OSError:  # the command ended at damage
            pass

    def read_streams(self, streams):
        """Return how many of the streams `tail` read to the end."""
        ended = 0
        self.serve(self.answer)
        for name, self.stream in streams:
            for command in ("tail", "--all"), ("top",):
                with self.subTest(trace=name, command=command):
                    done = self.run_limited(command[0], "-p", os.getpid(), *command[1:],
                                            "--format", "json")
                    for line in done.stdout.splitlines():
                        json.loads(line)
                    ended += done.returncode == 0 and command[0] == "tail"
        return ended

    def test_tail_and_top_read_each_trace_as_a_stream(self):
        streams = [(make.__name__, make().end()) for make in TRACES]
        self.assertEqual(self.read_streams(streams), len(streams))

    def test_tail_and_top_read_streams_with_flipped_bits(self):
        chance, streams = random.Random(3), []
        intact = [make().end() for make in TRACES if make.__name__ in ("circle", "invalid_text")]
        for number in range(FLIPS):
            data = bytearray(intact[number % len(intact)])
            for _ in range(chance.randrange(1, 8)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            streams.append((number, bytes(data)))
        self.assertLess(self.read_streams(streams), FLIPS)

    def ask(self, address, question):
        try:
            url = f"{address}api/{question}"
            with urllib.request.urlopen(url, timeout=tool.PATIENCE) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                self.assertIn(refused.code, (400, 404), question)
                return json.loads(refused.read())

    def check_view(self, name, data):
        view = subprocess.Popen([TOOL, "view", self.write(name, data)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, preexec_fn=limit, text=True,
                                env=self.environment)
        self.addCleanup(self.reap, view)
        address = view.stdout.readline().strip()
        if not address and "has no page" in view.stderr.read():
            self.skipTest("ringpipe is built without the page")
        answers = {question: self.ask(address, question) for question in QUESTIONS}
        for span in answers["spans"]["spans"]:
            for instance in span["slowest"][:3]:
                self.ask(address, "explain?" + urllib.parse.urlencode({"key": instance["key"]}))
        view.terminate()
        self.assertEqual(view.wait(tool.PATIENCE), 0)
        return answers

    def test_the_view_answers_each_question_about_each_trace(self):
        for make in TRACES:
            with self.subTest(trace=make.__name__):
                answers = self.check_view(make.__name__, make().end())
                self.assertEqual(len(answers["traces"]["traces"]), 1)

    def test_a_range_by_the_index_has_the_records_of_the_range(self):
        for make in TRACES:
            # Smaller traces get no index.
            trace = make().define(30, "Test-Filler", "filled", 1, [("text", nettrace.STRING)])
            for at in range(20):
                trace.events(30, [utf16z("x" * 20_000)] * 2, ns=1_000_000 * at, thread=9)
            data = trace.end()
            path = self.write("large", data)
            if os.path.exists(path + ".rpidx"):
                os.unlink(path + ".rpidx")
            for start, end in ("0s", "1ms"), ("2ms", "9ms"), ("30s", "1000000h"):
                for what in "events", "spans":
                    with self.subTest(trace=make.__name__, start=start, what=what):
                        arguments = what, "--format=json", "--from", start, "--to", end
                        indexed = self.run_limited("report", path, *arguments)
                        piped = self.run_limited("report", "-", *arguments, data=data)
                        self.assertEqual((indexed.returncode, indexed.stdout),
                                         (piped.returncode, piped.stdout))
            self.assertTrue(os.path.exists(path + ".rpidx"), make.__name__)


if __name__ == "__main__":
    unittest.main()
