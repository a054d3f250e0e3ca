#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe stacks` on real processes: HOST, and a program that knows nothing of ringpipe."""
import json
import os
import re
import subprocess
import unittest

from server import INVALID, Server, error
from tool import ToolTest

HOST = os.environ.get("HOST", "")
LIBRARY = os.environ.get("LIBRARY", "")


class Stacks(ToolTest):
    def start_process(self, arguments, **variables):
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**self.environment, **variables}, cwd=self.directory)
        self.addCleanup(self.reap, process)
        process.stdout.readline()
        self.wait_for_port(process.pid)
        return process

    def main_thread(self, process):
        """Its row, once it was seen: a loaded machine may need more than one session."""
        rows = []

        def is_seen():
            rows[:] = [row for row in json.loads(self.run_tool("stacks", process.pid, "--json")[0])
                       if row["thread"] == process.pid and row["state"]]
            return rows

        self.wait_until(is_seen)
        return rows[0]

    def test_the_main_thread_is_in_its_program(self):
        host = self.start_process([HOST])
        row = self.main_thread(host)
        self.assertEqual(row["name"], os.path.basename(HOST)[:15])
        self.assertIn(row["state"], ["running", "sleeping"])
        files = [frame["file"] for frame in row["frames"]]
        self.assertIn(os.path.basename(HOST), files)
        self.assertEqual(files[-1], os.path.basename(HOST), "the outermost function is _start")

    def test_text_has_a_line_for_each_thread_and_frame(self):
        host = self.start_process([HOST])
        self.main_thread(host)
        out, _ = self.run_tool("stacks", host.pid)
        self.assertRegex(out, rf"(?m)^Thread {host.pid} \S+, (running|sleeping|not seen)$")
        for line in filter(None, out.splitlines()):
            self.assertRegex(line, r"^Thread |^    0x[0-9a-f]{12,16}  \S")

    @unittest.skipUnless(LIBRARY, "a sanitizer's library cannot be preloaded")
    def test_a_preloaded_program_is_seen_where_it_sleeps(self):
        code = "import select; print(flush=True); select.epoll().poll()"
        process = self.start_process(["/usr/bin/python3", "-c", code], LD_PRELOAD=LIBRARY)
        row = self.main_thread(process)
        self.assertEqual(row["state"], "sleeping")
        files = [frame["file"] for frame in row["frames"]]
        self.assertRegex(files[0], r"^libc\.so")
        self.assertRegex(files[-1], r"^python3")
        self.assertGreater(len(files), 8)

    def test_what_is_no_process_id_is_wrong_usage(self):
        _, err = self.run_tool("stacks", "shop", status=2)
        self.assertIn("shop", err)

    def test_a_process_that_refuses_is_a_failure(self):
        fake = Server(self.directory, lambda connection, request: connection.sendall(
            error(INVALID)))
        self.addCleanup(fake.close)
        _, err = self.run_tool("stacks", os.getpid(), status=1)
        self.assertTrue(re.search(r"\S", err))


if __name__ == "__main__":
    unittest.main()
