#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe dump`, on a process of HOST and on servers that send arbitrary replies."""
import json
import os
import signal
import struct
import subprocess
import unittest

import server
from tool import ToolTest

FRAMES, DUMP_3, DUMP_2, DUMP_1 = (0x52, 0x04), (0x01, 0x03), (0x01, 0x02), (0x01, 0x01)
DISK_FULL = "cannot write it: No space left on device"


def frame(state, hresult=0, threads=3, running=0, done=0, total=1000, size=0, pause=0, text=""):
    packed = struct.pack("<IIIIQQQQ", state, hresult, threads, running, done, total, size, pause)
    return packed if state == 1 else packed + server.string(text)


class Fake(ToolTest):
    def dump(self, *arguments, status=0):
        return self.run_tool("dump", os.getpid(), *arguments, status=status)

    def test_size_threads_and_pause_are_reported(self):
        def handler(connection, request):
            self.assertEqual(request.command, FRAMES)
            self.assertEqual(request.payload, server.string(self.path("x.core")) +
                             struct.pack("<II", 2, 0))
            connection.sendall(server.ok() + frame(1) + frame(1, done=500) +
                               frame(2, done=1000, size=4096, pause=2500000))

        self.serve(handler)
        out, err = self.dump("-o", "x.core")
        self.assertEqual(out, "")
        self.assertIn("3 threads; the process stood still for 2.5 ms", err)
        out, err = self.dump("-o", "x.core", "--format=json")
        self.assertEqual(json.loads(out), {"path": self.path("x.core"), "bytes": 4096,
                                           "threads": 3, "threads_not_stopped": 0,
                                           "pause_ns": 2500000})

    def test_threads_that_did_not_stop_are_reported(self):
        self.serve(lambda connection, _: connection.sendall(
            server.ok() + frame(2, running=1, size=4096, pause=1)))
        self.assertIn("1 of the threads could not be stopped", self.dump()[1])

    def test_type_is_what_was_asked_for(self):
        kinds = []

        def handler(connection, request):
            kinds.append(struct.unpack("<I", request.payload[-8:-4])[0])
            connection.sendall(server.ok() + frame(2))

        self.serve(handler)
        for name in ("mini", "heap", "full"):
            self.dump("--type", name, "-q")
        self.assertEqual(kinds, [1, 2, 4])
        self.assertIn("--type wants", self.dump("--type", "small", status=2)[1])

    def test_reason_of_a_failure_is_reported(self):
        self.serve(lambda connection, _: connection.sendall(
            server.ok() + frame(1) + frame(3, server.FAIL, text=DISK_FULL)))
        self.assertIn(DISK_FULL, self.dump(status=1)[1])

    def test_reason_of_a_refusal_is_reported(self):
        reply = struct.pack("<I", server.FAIL) + server.string("another dump is being written")
        self.serve(lambda connection, _: connection.sendall(server.message(server.ERROR, reply)))
        self.assertIn("another dump is being written", self.dump(status=1)[1])

    def test_frames_that_stop_are_an_error(self):
        self.serve(lambda connection, _: connection.sendall(server.ok() + frame(1)[:40]))
        self.assertIn("closed the connection", self.dump(status=1)[1])

    def test_older_commands_are_tried_with_net(self):
        seen = []

        def handler(connection, request):
            seen.append(request.command)
            known = request.command == DUMP_1
            connection.sendall(server.ok(bytes(4)) if known else
                               server.error(server.UNKNOWN_COMMAND))

        self.serve(handler)
        self.dump()
        self.assertEqual(seen, [FRAMES, DUMP_3, DUMP_2, DUMP_1])

    def test_file_that_exists_needs_force(self):
        self.serve(lambda connection, _: connection.sendall(server.ok() + frame(2)))
        self.write("x.core", b"kept")
        self.assertIn("exists already", self.dump("-o", "x.core", status=1)[1])
        self.dump("-o", "x.core", "--force")

    def test_operand_must_be_a_process_id(self):
        self.assertIn("process id", self.run_tool("dump", "shop", status=2)[1])
        self.assertIn("give one of PID", self.run_tool("dump", status=2)[1])


class Live(ToolTest):
    def setUp(self):
        super().setUp()
        self.host = subprocess.Popen([os.environ["HOST"]], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.reap, self.host)
        self.pid = int(self.host.stdout.readline())
        self.wait_for_port(self.pid)

    def test_core_is_written_where_we_stand(self):
        _, err = self.run_tool("dump", self.pid, "-o", "{pid}.core", "--type", "mini")
        self.assertIn("the process stood still for", err)
        self.assertEqual(self.read("%d.core" % self.pid)[:4], b"\x7fELF")

    def test_default_name_reports_the_process(self):
        self.run_tool("dump", self.pid, "-q")
        cores = [name for name in os.listdir(self.directory) if name.endswith(".core")]
        self.assertEqual(len(cores), 1)
        self.assertIn("_%d_" % self.pid, cores[0])

    def test_folder_that_is_not_there_is_reported(self):
        self.assertIn("No such file", self.run_tool("dump", self.pid, "-o", "none/x.core",
                                                    status=1)[1])

    def test_process_that_does_not_answer_is_reported(self):
        self.freeze(self.host)
        self.addCleanup(self.host.send_signal, signal.SIGCONT)
        self.assertIn("does not answer", self.run_tool("dump", self.pid, status=1)[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
