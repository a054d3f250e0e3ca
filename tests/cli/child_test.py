#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe collect -- COMMAND`."""
import os
import pty
import signal
import unittest

import nettrace
from tool import TOOL, ToolTest


class Child(ToolTest):
    """Commands after "--"; a shell stands for a program that uses the library."""

    def test_the_environment_asks_for_the_trace(self):
        self.write("sample", nettrace.sample())
        self.run_tool("collect", "--providers", "Shop:1:4", "--buffer", "17", "-o",
                      "t{pid}.nettrace", "--", "sh", "-c",
                      'echo "$RINGPIPE_CONFIG" >config; echo "$RINGPIPE_OUTPUT" >output; '
                      'echo "$RINGPIPE_BUFFER_MB" >buffer; cp sample "t$$.nettrace"')
        self.assertEqual(self.read("config"), b"Shop:1:4\n")
        self.assertEqual(self.read("buffer"), b"17\n")
        directory = os.path.realpath(self.directory)
        self.assertEqual(self.read("output").decode(), f"{directory}/t{{pid}}.nettrace\n")

    def test_the_status_is_the_commands(self):
        self.write("sample", nettrace.sample())
        for script, status in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)]:
            with self.subTest(script=script):
                self.run_tool("collect", "-f", "-o", "t", "--", "sh", "-c",
                              f"cp sample t; {script}", status=status)

    def test_no_trace_is_a_failure(self):
        err = self.run_tool("collect", "-o", "t", "--", "true", status=1)[1]
        self.assertIn("true wrote no trace", err)

    def test_a_cut_trace_is_a_failure(self):
        self.write("sample", nettrace.sample()[:-1])
        err = self.run_tool("collect", "-o", "t", "--", "cp", "sample", "t", status=1)[1]
        self.assertIn("stops before its end", err)

    def test_a_command_that_is_not_there_is_told(self):
        err = self.run_tool("collect", "-o", "t", "--", "./not-there", status=1)[1]
        self.assertIn("cannot start ./not-there: No such file", err)

    def test_existing_files_are_kept(self):
        self.write("t", b"precious")
        err = self.run_tool("collect", "-o", "t", "--", "touch", "ran", status=1)[1]
        self.assertIn("exists already", err)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_signals_reach_the_command(self):
        self.write("sample", nettrace.sample())
        os.mkfifo(self.path("fifo"))
        process = self.start("collect", "-o", "t", "--", "sh", "-c",
                             "trap 'cp sample t; exit 5' INT; touch ready; "
                             "while :; do read -r line <fifo; done")
        self.wait_until(lambda: os.path.exists(self.path("ready")))
        process.send_signal(signal.SIGINT)

        def ended():
            # The shell runs its trap between two reads, and may have run it by now.
            try:
                fifo = os.open(self.path("fifo"), os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return process.poll() is not None
            try:
                os.write(fifo, b"\n")
            except OSError:
                pass
            os.close(fifo)
            return process.poll() is not None

        self.wait_until(ended)
        self.finish(process, 5)

    def test_ctrl_c_on_a_terminal_reaches_the_command_once(self):
        self.write("sample", nettrace.sample())
        script = ("trap 'echo int >>ints' INT; touch ready; "
                  "while read -r line || [ ! -e end ]; do :; done; cp sample t")
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(TOOL, [TOOL, "collect", "-q", "-o", "t", "--", "bash", "-c", script],
                      self.environment)
        self.wait_until(lambda: os.path.exists(self.path("ready")))
        for count in (1, 2):
            os.write(terminal, b"\x03")
            self.wait_until(lambda: os.path.exists(self.path("ints")) and
                            len(self.read("ints").split()) >= count)
        self.write("end", b"")
        os.write(terminal, b"\x04")  # end of input
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(terminal)
        self.assertEqual(self.read("ints"), b"int\n" * 2)

    def test_its_output_is_left_alone(self):
        self.write("sample", nettrace.sample())
        out, err = self.run_tool("collect", "-o", "t", "--", "sh", "-c", "cp sample t; echo hello")
        self.assertEqual(out, "hello\n")
        self.assertIn("3 events", err)


if __name__ == "__main__":
    unittest.main()
