#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe stacks` on real processes: HOST, and a program without events."""
import json
import os
import re
import struct
import subprocess
import threading
import unittest

import nettrace
from server import INVALID, UNKNOWN_COMMAND, Server, error, ok
from tool import ToolTest

HOST = os.environ.get("HOST", "")
LIBRARY = os.environ.get("LIBRARY", "")
SAMPLER = "Microsoft-DotNETCore-SampleProfiler"
ENDED = 1 << 31  # no thread has such an id


class Stacks(ToolTest):
    def start_process(self, arguments, **variables):
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**self.environment, **variables}, cwd=self.directory)
        self.addCleanup(self.reap, process)
        process.stdout.readline()
        self.wait_for_port(process.pid)
        return process

    def main_thread(self, process):
        """Return its row once it was sampled: a loaded machine may need more than one session."""
        rows = []

        def is_seen():
            rows[:] = [row for row in json.loads(self.run_tool("stacks", process.pid,
                                                               "--format=json")[0])
                       if row["thread_id"] == process.pid and row["state"]]
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

    def serve_trace(self, trace):
        """A process, this one, whose session is this trace."""
        def answer(connection, request):
            if request.command == (2, 5):
                connection.sendall(ok(struct.pack("<Q", 7)) + trace)
            else:
                connection.sendall(error(UNKNOWN_COMMAND))
        self.serve(answer)

    def trace_of_two_threads(self):
        """Make a trace with this thread, inside a generated function, and with one that has
        ended."""
        def symbol(start, end, name):
            def number(value):
                return bytes([value & 0x7f | 0x80, value >> 7])
            return b"\1\1" + number(start) + number(end) + \
                struct.pack("<H", len(name)) + name.encode()
        trace = nettrace.Trace().define(1, SAMPLER, "ThreadSample", 0, [])
        trace.define(2, "Universal.System", "ProcessSymbol", 4, [])
        trace.stacks(1, [[0x110, 0x210, 0x310, 0x410, 0x510]])
        for thread in (threading.get_native_id(), ENDED):
            trace.events(1, [struct.pack("<I", 1)], thread=thread, stack=1)
        names = ("shop_order_placed_write_.isra.0", "place", "_ZL15bank_pay_write_mPKc", "pay",
                 "rewrite_")
        return trace.events(2, [symbol(256 * i + 256, 256 * i + 511, name)
                                for i, name in enumerate(names)]).end()

    def test_threads_that_have_ended_are_left_out(self):
        self.serve_trace(self.trace_of_two_threads())
        rows = json.loads(self.run_tool("stacks", os.getpid(), "--format=json")[0])
        self.assertEqual([row["thread_id"] for row in rows], [threading.get_native_id()])

    def test_generated_frames_are_not_shown(self):
        self.serve_trace(self.trace_of_two_threads())
        row, = json.loads(self.run_tool("stacks", os.getpid(), "--format=json")[0])
        self.assertEqual([frame["function"] for frame in row["frames"]],
                         ["place", "pay", "rewrite_"])
        self.assertNotIn("_write_", self.run_tool("stacks", os.getpid())[0])
        path = self.write("t", self.trace_of_two_threads())
        for form, name in (("text", "  place\n"), ("csv", ",place;pay;rewrite_\n")):
            # The events that carry the symbols contain their names.
            out = self.run_tool("report", path, "events", "--format", form, "--where",
                                'provider == "Microsoft-DotNETCore-SampleProfiler"')[0]
            self.assertIn(name, out)
            self.assertNotIn("_write_", out.replace("rewrite_", ""))

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
