#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The events of a stream that describe its process: rundown_test.py HOST LIBRARY MODULE [unittest
arguments]

Environment: RINGPIPE, the command.

HOST is as for ipc_test.py; MODULE is "" in a build without elfutils.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from ipc_host import (Host, OK, collect_with_stacks, eventually, provider, receive, reply_of,
                      stop)

HOST, LIBRARY, MODULE = sys.argv[1:4]
# The first stacks of a path are cut. Each pass of the drain thread caches rules for the next.
ROUNDS = 5


def wide(text):
    return text.encode("utf-16-le")


def narrow(text):
    """Encode a text like Universal.System."""
    return struct.pack("<H", len(text)) + text.encode()


class Rundown(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-rundown-")
        self.addCleanup(shutil.rmtree, self.directory)

    def start(self, program=HOST, prefix=()):
        host = Host(program, prefix=prefix)
        self.addCleanup(host.close)
        return host

    def stream(self, host, rundown=1, before_stop=lambda: None):
        """Return the whole stream of a session with stacks."""
        connection = host.send(collect_with_stacks(provider("Ipc-Host"), rundown=rundown))
        self.addCleanup(connection.close)
        hresult, payload = reply_of(connection)
        self.assertEqual(hresult, OK)
        session, = struct.unpack("<Q", payload)
        delivered = 0
        for _ in range(ROUNDS):
            eventually(lambda: host.stats(session)["delivered"] > delivered, "an event of the host")
            delivered = host.stats(session)["delivered"]
        before_stop()
        stopper = host.send(stop(session))
        self.addCleanup(stopper.close)
        stream = b""
        while piece := receive(connection, 65536):
            stream += piece
        self.assertEqual(reply_of(stopper), (OK, payload))
        self.assertEqual(stream[-1:], b"\x01", "its end is whole")
        return stream

    def test_comes_where_it_was_asked_for(self):
        reported = [wide(name) for name in ("ExistingProcess", "ProcessMapping",
                                        "ProcessMappingMetadata", "RundownDone")]
        host = self.start()
        stream = self.stream(host)
        self.assertEqual([name for name in reported if name not in stream], [])
        self.assertIn(narrow(os.path.basename(HOST)), stream)
        self.assertIn(narrow(os.path.realpath(HOST)), stream)
        stream = self.stream(host, rundown=0)
        self.assertEqual([name for name in reported if name in stream], [])
        self.assertIn(wide("ProcessInfo"), stream)

    @unittest.skipUnless(MODULE, "built without elfutils")
    def test_functions_of_a_deleted_program_are_named(self):
        program = os.path.join(self.directory, "deleted")
        shutil.copy(HOST, program)
        host = self.start(program)
        stream = self.stream(host, before_stop=lambda: os.unlink(program))
        self.assertIn(narrow("main"), stream)
        self.assertIn(narrow(os.path.realpath(program)), stream)

    @unittest.skipUnless(MODULE, "built without elfutils")
    def test_report_shows_the_names_next_to_the_addresses(self):
        trace = os.path.join(self.directory, "trace")
        with open(trace, "wb") as file:
            file.write(self.stream(self.start()))
        done = subprocess.run([os.environ["RINGPIPE"], "report",
                               trace, "events", "--format=json"],
                              stdout=subprocess.PIPE, check=True, timeout=60)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        rows = [row for row in rows if row["provider"] == "Ipc-Host"]
        self.assertTrue(rows)
        for row in rows:
            self.assertEqual(len(row["functions"]), len(row["stack"]))
        self.assertIn("main", rows[-1]["functions"])

    @unittest.skipUnless(MODULE, "built without elfutils")
    def test_another_program_in_its_place_is_not_believed(self):
        program = os.path.join(self.directory, "replaced")
        shutil.copy(HOST, program)
        host = self.start(program)

        def replace():
            shutil.copy("/bin/sh", program + ".new")
            os.rename(program + ".new", program)
        self.assertIn(narrow("main"), self.stream(host, before_stop=replace))

    def test_without_the_module_mappings_are_reported_and_the_reason(self):
        soname = "libringpipe.so.1"
        shutil.copy(LIBRARY, os.path.join(self.directory, soname))
        host = self.start(prefix=("env", "LD_LIBRARY_PATH=" + self.directory))
        with open(f"/proc/{host.pid}/maps", encoding="ascii") as maps:
            if os.path.join(self.directory, soname) not in maps.read():
                self.skipTest("the host has a fixed path to the library")
        stream = self.stream(host)
        self.assertIn(wide("ProcessMapping"), stream)
        # The mark of truncated stacks is not a function.
        self.assertNotIn(narrow("main"), stream)
        self.assertRegex(stream, re.escape(wide("libringpipe-symbols.so: cannot open")))

    @unittest.skipUnless(MODULE, "built without elfutils")
    def test_sessions_that_end_together_each_have_theirs(self):
        host = self.start()
        inner = []
        outer = self.stream(host, before_stop=lambda: inner.append(self.stream(host)))
        for stream in (outer, inner[0]):
            self.assertIn(narrow("main"), stream)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
