#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pipe into which `ringpipe bpf print` writes: readers that pause, stop or leave."""
import fcntl
import json
import os
import select
import signal
import threading

import bpf_case
from bpf_case import BpfTest
from tool import PATIENCE


class Output(BpfTest):
    def print_unread(self):
        """Return `ringpipe bpf print` that waits for a full pipe, and the pipe's ends."""
        read, write = (os.fdopen(end, mode) for end, mode in zip(os.pipe(), ("rb", "wb")))
        self.addCleanup(read.close)
        self.addCleanup(write.close)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        tool = self.attach("print", "--format=json", stdout=write)
        self.send("write 1000")
        self.wait_until(lambda: not select.select([], [write], [], 0)[1])
        return tool, read, write

    def test_an_event_is_printed_before_the_next_one_is_written(self):
        tool = self.attach("print")
        self.send("trip")
        self.assertIn(b":trip ", tool.stdout.readline())
        self.stop(tool)

    def test_a_reader_that_pauses_gets_each_event_that_is_not_counted_as_dropped(self):
        tool, read, write = self.print_unread()
        write.close()
        lines = [json.loads(read.readline())]
        reader = threading.Thread(target=lambda: lines.extend(map(json.loads, read)))
        reader.start()
        tool.send_signal(signal.SIGINT)
        reader.join(PATIENCE)
        self.assertEqual(tool.wait(PATIENCE), 0, tool.stderr.read())
        stats = lines.pop()["stats"]
        self.check_counts(stats, 2000)
        self.assertEqual(len(lines), stats["matched"] - stats["dropped"])

    def test_a_signal_ends_a_command_whose_events_nothing_reads(self):
        tool, _, _ = self.print_unread()
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(PATIENCE), 1)
        self.assertIn(b"stopped before all events were printed", tool.stderr.read())

    def test_a_signal_that_its_sender_repeats_stops_once(self):
        """As timeout(1) does: it signals the command, and then its group."""
        tool, read, write = self.print_unread()
        write.close()
        for _ in range(2):
            self.send_and_wait(tool, signal.SIGTERM)
        read.read()
        # If the reader began too late, the output lacks events, and the status is 1.
        self.assertIn(tool.wait(PATIENCE), (0, 1))

    def test_a_second_signal_ends_a_command_whose_events_nothing_reads_immediately(self):
        tool, _, _ = self.print_unread()
        self.interrupt_twice(tool)

    def test_a_reader_that_leaves_ends_the_command(self):
        for restores, status, error in (True, -signal.SIGPIPE, b""), \
                                       (False, 1, b"cannot write standard output: Broken pipe"):
            with self.subTest(restores_signals=restores):
                read, write = os.pipe()
                tool = self.attach("print", stdout=write, restore_signals=restores)
                os.close(write)
                os.close(read)
                self.send("trip")
                self.assertEqual(tool.wait(PATIENCE), status)
                self.assertIn(error, tool.stderr.read())


if __name__ == "__main__":
    bpf_case.main()
