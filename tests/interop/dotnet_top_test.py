#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe top` on a .NET process: it shows the meters that the program counts with, and the names
of its methods."""
import itertools
import json
import os
import subprocess
import unittest

import clients

RINGPIPE = os.environ["RINGPIPE"]
PATIENCE_S = 120
BLOCKS_MAX = 60
BLOCK_LINES = 80        # at most, with 20 rows in each table
# Values that the program reports when it is asked.
WANTED = {("level", ""): -4, ("tenth", ""): 0.2, ("parts", "part=one"): 1,
          ("parts", "and=more,part=two"): 2, ("number-15", ""): 1.7976931348623157e308}


class DotnetTop(unittest.TestCase):
    def start(self, mode):
        self.host = subprocess.Popen([*clients.counters_command(), mode], text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end)
        self.pid = int(self.host.stdout.readline())

    def end(self):
        self.host.kill()
        self.host.communicate()

    def show_until(self, is_last, form="json", lines_max=BLOCKS_MAX, options=()):
        """Run the command until it has shown a block, or a line of text, that is the last one."""
        with subprocess.Popen([RINGPIPE, "top", "-q", "-p", str(self.pid), "--refresh", "1s",
                               "--format", form, *options], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE) as top:
            self.addCleanup(top.kill)
            lines = itertools.islice(top.stdout, lines_max)
            self.assertTrue(any(is_last(json.loads(line) if form == "json" else line)
                                for line in lines))
            top.terminate()
            top.communicate(timeout=PATIENCE_S)
            self.assertEqual(top.returncode, 0)

    def test_generated_code_has_the_names_of_its_methods(self):
        self.start("collect")
        self.show_until(lambda block: any(row["function"] == "Garbage.Run()" and not row["file"]
                                          for row in block["functions"]))

    def test_tables_have_the_class_and_the_name_of_a_method(self):
        self.start("collect")
        self.show_until(lambda line: line.startswith("Garbage.Run "), "text",
                        BLOCKS_MAX * BLOCK_LINES)

    def test_events_that_serve_only_the_names_are_not_counted(self):
        events = []

        def take(block):
            events.append(block["events"])
            return len(events) == 4

        self.start("collect")
        self.show_until(take, options=["--providers", "Nothing"])
        # The runtime announces the process to all sessions whenever one begins: those of top, and
        # those of other recorders. The events for the names are hundreds a second.
        self.assertLess(sum(events), 20)

    def test_meters_of_the_program_and_of_the_runtime_are_counters(self):
        found, spans = {}, []

        def take(block):
            found.update({(row["provider"], row["counter"], row["tags"]): row["value"]
                          for row in block["counters"]})
            spans.extend(block["spans"])
            return all(("Twin-Meter", *key) in found for key in WANTED) and \
                found["Twin-Meter", "level", ""] == WANTED["level", ""]

        self.start("publish")
        self.host.stdin.write("\n")
        self.host.stdin.flush()
        self.show_until(take)
        for key, value in WANTED.items():
            self.assertEqual(found["Twin-Meter", *key], value)
        self.assertIn("System.Runtime", {provider for provider, _, _ in found})
        # The provider of meters marks its own work, which is none of the program's.
        self.assertEqual([span for span in spans if "Metrics" in str(span)], [])


if __name__ == "__main__":
    clients.main(clients.counters_command)
