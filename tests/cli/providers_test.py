#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every command that takes providers reports one that no process has. Runs in a PID namespace
where only this test's processes are."""
import json
import os
import re
import signal
import subprocess

from tool import PATIENCE, run_in_namespace
from written import WrittenTest

# Which arguments, and whether the command runs on for processes that start later.
COMMANDS = {
    "collect": [(["-p", "PID"], False), (["--tree", "-p", "PID"], False)],
    "flight start": [(["-p", "PID"], False)],
    "tail": [(["-p", "PID"], False), (["-d", "1"], True)],
    "top": [(["-p", "PID"], False), (["-d", "1"], True)],
    "record": [(["-p", "PID", "-d", "1"], True), (["-d", "1"], True),
               (["--", "sleep", "1"], True), (["--", "sleep", "0"], True)],
    "counters monitor": [(["-p", "PID"], False)],
    "counters collect": [(["-p", "PID"], False)],
    "counters serve": [(["-p", "PID", "--port", "0"], False)],
    "bpf count": [(["-p", "PID"], False)],
    "bpf histogram": [(["-p", "PID", "--event", "Typo:any", "--field", "any"], False)],
    "bpf print": [(["-p", "PID"], False)],
}
# The separate programs need libraries or rights that a machine may lack.
CANNOT = re.compile("was not built|Cannot|cannot start|Operation not permitted")

SAMPLER = "Microsoft-DotNETCore-SampleProfiler"


class Providers(WrittenTest):
    def setUp(self):
        super().setUp()
        self.start_host()

    def run_command(self, name, arguments, *more):
        """Return the status, the output and the messages."""
        option = "--counters" if name.startswith("counters") else "--providers"
        words = [] if name == "bpf histogram" else [option, "Typo"]
        if name in ("collect", "record"):
            words += ["-f", "-o", "t.nettrace"]
        process = self.start(*name.split(), *words, *more, *(
            self.host.pid if word == "PID" else word for word in arguments))
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out.decode(), err.decode()

    def test_every_command_with_providers_is_in_the_table(self):
        commands = re.findall(r"^  ([a-z].{15}) \S",
                              self.run_tool("help")[0].split("Examples:")[0], re.M)
        found = {" ".join(name.split()) for name in commands
                 if re.search("^ *--(providers|counters) LIST",
                              self.run_tool("help", *name.split())[0], re.M)}
        self.assertEqual(found, set(COMMANDS))

    def test_a_provider_that_matches_nothing_is_an_error_line_and_an_exit_status(self):
        for name, forms in COMMANDS.items():
            for arguments, continues in forms:
                with self.subTest(name, arguments=arguments):
                    status, out, err = self.run_command(name, arguments)
                    if name.split()[0] in ("bpf", "record") and CANNOT.search(err):
                        self.skipTest(err)
                    self.assertEqual(status, 1, err)
                    wanted = f"{name}: found no process that has a provider 'Typo'; there are: " \
                        if continues else \
                        f"process {self.host.pid} has no provider 'Typo'; it has: "
                    line, = re.findall(f"^ringpipe: {wanted}(.*)", err, re.M)
                    self.assertIn("Test-Written", line.split(" (")[0].split(", "))
                    if not continues:
                        self.assertEqual(out, "")
                    if name == "collect":
                        self.assertFalse(os.path.exists(self.path("t.nettrace")))

    def test_commands_for_many_processes_accept_what_one_process_has(self):
        other = ["--providers", "Test-Written,*"]
        for name in "tail", "top", "record":
            for arguments, continues in COMMANDS[name]:
                if not continues:
                    continue
                for providers in other, ["--allow-missing"]:
                    with self.subTest(name, arguments=arguments, providers=providers):
                        status, _, err = self.run_command(name, arguments, *providers)
                        if CANNOT.search(err):
                            self.skipTest(err)
                        self.assertEqual((status, "found no process" in err), (0, False), err)

    def test_a_report_comes_while_the_command_runs_on_and_a_later_process_may_have_it(self):
        self.end_host()
        for name in "tail", "top":
            for status in 1, 0:
                process = self.start(name, "--providers", "Test-Written")
                self.assertIn(b"found no process that has a provider 'Test-Written'",
                              process.stderr.readline())
                self.assertIsNone(process.poll())
                if status == 0:
                    self.start_host()
                    self.wait_until(self.is_traced)
                    self.end_host()
                process.send_signal(signal.SIGINT)
                self.finish(process, status)

    def start_late(self):
        """Start a process that registers the provider after the recorder asked for the first
        time. Return it when it is recorded."""
        process = subprocess.Popen([os.environ["LATE_HOST"], os.environ["WRITTEN_MODULE"]],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=self.environment)
        self.addCleanup(self.reap, process)
        self.assertTrue(process.stdout.readline())
        self.wait_until(lambda: [row["kind"] for row in json.loads(self.run_tool(
            "list", process.pid, "--format=json")[0]) if row["provider"] == SAMPLER] ==
            ["session"])
        return process

    def test_a_process_that_ended_before_it_was_asked_twice_may_have_a_provider(self):
        self.end_host()
        for name in "tail", "top":
            with self.subTest(name):
                command = self.start(name, "--providers", f"{SAMPLER},Test-Written", "-d", "5")
                process = self.start_late()
                process.communicate(b"\n", PATIENCE)
                self.assertEqual(process.returncode, 0)
                self.assertNotIn(b"found no process", command.communicate(timeout=PATIENCE)[1])
                self.assertEqual(command.returncode, 0)


if __name__ == "__main__":
    run_in_namespace()
