#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The web service of examples/lua under load.

Environment: as lua_test.py; BUILD, the build directory; EXAMPLE, the folder of the example.
"""
import collections
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.environ["EXAMPLE"])
import demo
import oracle
from tool import ToolTest

REQUESTS = 400
SKIPPED = 77


class Service(ToolTest):
    def setUp(self):
        super().setUp()
        self.service = demo.Service(os.environ["BUILD"], self.path("lua.nettrace"))
        self.addCleanup(self.service.process.wait)
        self.addCleanup(self.service.process.kill)
        self.addCleanup(self.service.process.stdout.close)

    def test_each_request_is_traced_with_its_own_activity(self):
        demo.load(self.service, REQUESTS)
        counted = self.service.quit()
        self.assertEqual(counted, REQUESTS + 1)
        trace = oracle.Trace(self.read("lua.nettrace"))
        self.assertEqual(trace.lost, 0)
        events = collections.defaultdict(list)
        for event in trace.events:
            events[event["name"]].append(event)
        starts = {event["activity"]: event["fields"] for event in events["RequestStart"]}
        self.assertEqual(len(starts), counted)
        self.assertEqual(sorted(event["activity"] for event in events["RequestStop"]),
                         sorted(starts))
        self.assertEqual(sorted(event["activity"] for event in events["Served"]), sorted(starts))
        for event in events["Served"]:
            self.assertEqual(event["fields"]["path"], starts[event["activity"]]["path"])
            missing = event["fields"]["path"] == "/missing"
            self.assertEqual(event["fields"]["status"], 404 if missing else 200)
        self.assertGreater(len(events["GCCycle"]), 0)

    def test_the_profile_has_the_functions_of_the_service(self):
        for _ in range(5):  # one load has few samples on a busy machine
            demo.load(self.service, REQUESTS)
        self.service.quit()
        out, _ = self.run_tool("report", self.path("lua.nettrace"), "cpu", "--format", "json",
                               "--top", "1000")
        names = " ".join(row["function"] or "" for row in json.loads(out))
        for name in ("is_prime ", "sort [C]", "gsub [C]", "server.lua:"):
            self.assertIn(name, names)

    def test_strange_requests_end_their_connection_only(self):
        for request in (b"", b"\0\xff\n", b"GET\r\n\r\n", b"GET /../\0 HTTP/1.1\r\n\r\n",
                        b"GET /primes/99999999999 HTTP/1.1\r\n\r\n", b"A" * 100000 + b"\r\n"):
            connection = self.service.connect()
            connection.connect()
            connection.sock.sendall(request)
            connection.close()
        status, body = demo.ask(self.service.connect(), "/primes/100")
        self.assertEqual((status, body), (200, "25"))
        self.service.quit()


if __name__ == "__main__":
    lua = os.environ["LUA"]
    if subprocess.run([lua, "-e", 'require "socket"'], capture_output=True,
                      check=False).returncode:
        print(f"{lua} has no module socket, of Debian's package lua-socket")
        sys.exit(SKIPPED)
    unittest.main()
