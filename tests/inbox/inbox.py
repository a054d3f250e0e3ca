# SPDX-License-Identifier: MIT
"""Runs a program with libringpipe-inbox preloaded, and reads its events.

Environment: INBOX, the library; PROGRAM, the program inbox_program.
"""
import os
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import oracle
from tool import PATIENCE, VERSION, ToolTest

INBOX = os.environ["INBOX"]
PROGRAM = os.environ["PROGRAM"]


class InboxTest(ToolTest):
    def run_inbox(self, command, providers, allowed=None, **settings):
        """Return the lines that the command printed, and the events of its session. Standard error
        may have one line, with the allowed text."""
        output = self.path("inbox.nettrace")
        # The buffer has space for all events, so none is lost.
        environment = {**self.environment, "LD_PRELOAD": INBOX, "RINGPIPE_CONFIG": providers,
                       "RINGPIPE_OUTPUT": output, "RINGPIPE_BUFFER_MB": "64",
                       "RINGPIPE_DIAGNOSTICS": "0", **settings}
        if not providers:
            del environment["RINGPIPE_CONFIG"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        errors = done.stderr.splitlines()
        if allowed and len(errors) == 1 and allowed in errors[0]:
            errors = []
        self.assertEqual((done.returncode, errors), (0, []), done.stdout)
        if not providers:
            return done.stdout.splitlines(), []
        trace = oracle.Trace(self.read("inbox.nettrace"))
        self.assertEqual((trace.is_v6, trace.lost), (VERSION == "6", 0))
        return done.stdout.splitlines(), trace.events

    def run_part(self, part, providers, **settings):
        """As run_inbox(), for a part of the test's program; the lines are lists of words."""
        lines, events = self.run_inbox([PROGRAM, part], providers, **settings)
        return [line.split() for line in lines], events


def named(events, provider, name):
    return [event for event in events
            if (event["provider"], event["name"]) == (provider, name)]
