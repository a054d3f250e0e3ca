#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The recorder of `dotnet-trace collect-linux` traces a server through the kernel's user_events, in
a virtual machine, and TraceEvent reads the trace.

Environment: INTEROP_BUILD, GUEST_INIT, GUEST_PROGRAM.
"""

import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop"))
import boot
import clients

EVENTS = 200


def recorder():
    """Return the library that comes with dotnet-trace."""
    tools = os.path.dirname(clients.dotnet_trace_command())
    found = glob.glob(tools + "/.store/dotnet-trace/**/linux-x64/native/librecordtrace.so",
                      recursive=True)
    if not found:
        clients.skip("dotnet-trace comes without librecordtrace.so")
    return found[0]


class CollectLinux(clients.Scratch):
    def test_every_event_of_the_server_is_recorded(self):
        printed, status = boot.run(os.environ["GUEST_INIT"], os.environ["GUEST_PROGRAM"],
                                   recorder())
        trace = re.search(r"^# trace ([0-9a-f]+)$", printed, re.M)
        self.assertTrue(status == 0 and trace, printed)
        path = self.path("recorded.nettrace")
        with open(path, "wb") as file:
            file.write(bytes.fromhex(trace[1]))
        rows, summary = clients.TraceRead().events(path)
        rows = [row for row in rows if row["provider"] == "Guest-Events"]
        self.assertEqual([row["fields"] for row in rows if row["id"] == 1],
                         [{"serial": serial, "text": "hello"} for serial in range(EVENTS)])
        self.assertEqual([row["event"] for row in rows if row["id"] == 2], ["job/Start"])
        self.assertEqual(summary["events_lost"], 0)


if __name__ == "__main__":
    clients.main(clients.dotnet_trace_command, clients.trace_read_command)
