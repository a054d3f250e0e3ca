#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How each command that runs until it is stopped ends: after a signal, after a second one, and when
the reader of its standard output leaves."""
import os
import re
import signal
import sys
import unittest

import nettrace
from server import ok
from tool import PATIENCE
from written import WrittenTest

CUT = 130  # 128 + SIGINT
LEFT = -signal.SIGPIPE  # 141 in a shell

# Arguments; the status after one SIGINT or SIGTERM; the status when the reader leaves, or None if
# the command writes nothing to standard output before it ends.
COMMANDS = {
    "collect": (["-p", "PID", "-o", "OUT"], 0, LEFT),
    "collect --tree": (["-p", "PID", "-o", "OUT"], 0, None),
    "record": (["-p", "PID", "-o", "OUT"], 0, 141),
    "record --providers none": (["-p", "PID", "-o", "OUT"], 0, 141),
    "tail": (["-p", "PID"], 0, 0),
    "top": (["-p", "PID", "--refresh", "1"], 0, 0),
    "counters monitor": (["-p", "PID", "--refresh", "1"], 0, LEFT),
    "counters collect": (["-p", "PID", "--refresh", "1"], 0, LEFT),
    "counters serve": (["-p", "PID", "--port", "0"], 0, None),
    "bpf print": (["-p", "PID"], 0, LEFT),
    "bpf count": (["-p", "PID"], 0, None),
    # These have no result before their end.
    "flight start": (["-p", "PID", "--last", "1h"], CUT, None),
    "flight snapshot": (["-p", "SELF", "-o", "OUT"], CUT, None),
}
# The separate programs need libraries or rights that a machine may lack.
CANNOT = re.compile("was not built|no permission|has no BPF|has no uprobes|cannot start")


class Endings(WrittenTest):
    def setUp(self):
        super().setUp()

        def hold(connection, request):
            connection.sendall(ok(request.payload) + nettrace.sample()[:-1])
            fake.stopped.wait(PATIENCE)

        fake = self.serve(hold)

    def begin(self, name, output):
        """Start a command on a new host. Return it when its session has begun, or None if this
        machine cannot run it."""
        words = {"PID": self.start_host().pid, "SELF": os.getpid(), "OUT": output}
        command = self.start(*name.split(), *(words.get(word, word) for word in COMMANDS[name][0]))
        if name == "flight snapshot":
            self.wait_until(lambda: os.path.exists(self.path(output)) and
                            os.path.getsize(self.path(output)) > 0)
            return command
        self.wait_until(lambda: command.poll() is not None or
                        (self.takes_signals(command) and self.is_running(name, output)))
        if command.poll() is None:
            return command
        errors = command.stderr.read().decode()
        self.assertRegex(errors, CANNOT)
        print(f"# {name}: {errors}", file=sys.stderr)
        return None

    def is_running(self, name, output):
        if name == "record --providers none":  # it has no session
            return output == "-" or os.path.getsize(self.path(output)) > 0
        return self.is_traced()

    def test_one_signal_completes_the_output_or_cancels_what_has_none_before_its_end(self):
        for number in signal.SIGINT, signal.SIGTERM:
            for name, (_, status, _) in COMMANDS.items():
                with self.subTest(command=name, signal=number.name):
                    command = self.begin(name, f"{name} {number.name}")
                    if command:
                        command.send_signal(number)
                        self.finish(command, status)

    def test_a_second_signal_ends_each_command_with_status_130(self):
        for name in COMMANDS:
            with self.subTest(command=name):
                command = self.begin(name, name)
                if command:
                    self.interrupt_twice(command)

    def test_a_command_whose_reader_leaves_ends_and_the_status_is_that_of_sigpipe_or_0(self):
        for name, (_, _, status) in COMMANDS.items():
            if status is None:
                continue
            with self.subTest(command=name):
                command = self.begin(name, "-")
                if not command:
                    continue
                command.stdout.close()
                self.wait_until(lambda: self.write_events(1000) or command.poll() is not None)
                self.assertEqual(command.returncode, status, command.stderr.read().decode())


if __name__ == "__main__":
    unittest.main()
