#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The log sinks of spdlog and GLib write an event for each line, with its level and its text.

Environment: SPDLOG, GLIB: the programs; empty where the library is not installed.
"""
import os
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import oracle
from tool import PATIENCE, ToolTest

CUT = 2047                  # bytes: the next character does not fit


class Sinks(ToolTest):
    def events_of(self, program, provider, level):
        if not program:
            self.skipTest(f"no library for {provider}")
        environment = {**self.environment, "RINGPIPE_CONFIG": f"{provider}::{level}",
                       "RINGPIPE_OUTPUT": self.path("log.nettrace"), "RINGPIPE_DIAGNOSTICS": "0"}
        done = subprocess.run([program], env=environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [event for event in oracle.Trace(self.read("log.nettrace")).events
                  if event["provider"] == provider]
        return done, [(event["name"], event["fields"]) for event in events]

    def test_each_line_of_spdlog_is_an_event_of_its_level(self):
        _, events = self.events_of(os.environ["SPDLOG"], "ringpipe-spdlog", 5)
        names = ["verbose", "verbose", "informational", "warning", "error", "critical"]
        self.assertEqual([(name, fields["text"], fields["logger"], fields["file"], fields["line"])
                          for name, fields in events[:6]],
                         [(name, f"line {number}", "shop", "", 0)
                          for number, name in enumerate(names, 1)])
        name, placed = events[6]
        self.assertEqual((name, placed["text"]), ("informational", "with a place"))
        self.assertEqual(os.path.basename(placed["file"]), "log_sinks_spdlog.cpp")
        self.assertGreater(placed["line"], 0)
        self.assertEqual([fields["text"] for _, fields in events[7:]],
                         ["", "x" + "y" * (CUT - 1)])

    def test_a_session_gets_only_the_lines_of_its_level(self):
        _, events = self.events_of(os.environ["SPDLOG"], "ringpipe-spdlog", 2)
        self.assertEqual([name for name, _ in events], ["error", "critical"])
        _, events = self.events_of(os.environ["GLIB"], "ringpipe-glib", 3)
        self.assertEqual({name for name, _ in events}, {"warning", "error"})

    def test_each_line_of_glib_is_an_event_of_its_level(self):
        done, events = self.events_of(os.environ["GLIB"], "ringpipe-glib", 5)
        names = ["verbose", "informational", "informational", "warning", "error"]
        self.assertEqual([(name, fields["text"], fields["domain"]) for name, fields in events[:5]],
                         [(name, f"line {number}", "shop")
                          for number, name in enumerate(names, 1)])
        for _, fields in events[:5]:
            self.assertEqual(os.path.basename(fields["file"]), "log_sinks_glib.c")
            self.assertGreater(fields["line"], 0)
        self.assertEqual([(name, *fields.values()) for name, fields in events[5:7]],
                         [("warning", "line 6", "other", "", 0),
                          ("warning", "not all", "", "", 123)])
        self.assertEqual(events[7][1]["text"], "y" * CUT)
        # The line itself is written, too, as GLib does without the writer.
        self.assertIn("line 4", done.stderr)


if __name__ == "__main__":
    unittest.main()
