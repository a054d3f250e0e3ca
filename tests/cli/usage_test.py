#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Options, help and exit statuses of the `ringpipe` command."""
import os
import re
import subprocess
import unittest

import nettrace
from tool import TOOL, ToolTest

# Those that have a byte for each trace.
FORMATS = "chrome", "perfetto", "firefox", "speedscope", "pprof", "jsonl", "csv", "otlp-profiles"
MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../man/ringpipe.1")


class Usage(ToolTest):
    def test_the_programs_of_commands_explain_themselves_and_do_nothing(self):
        for command, *more in ("record",), ("symbolize",), ("bpf", "count"), ("bpf", "print"):
            program = os.path.join(os.path.dirname(TOOL), "..", f"ringpipe-{command}",
                                   f"ringpipe-{command}")
            if not os.access(program, os.X_OK):
                continue
            done = subprocess.run([program, *more, "--help"], cwd=self.directory, check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=60)
            self.assertTrue(done.stdout.startswith(f"Usage: ringpipe {' '.join([command, *more])}"),
                            done.stdout)
            self.assertIn("--help", done.stdout)
            self.assertEqual(done.stderr, "")
        self.assertEqual(os.listdir(self.directory), [])

    def test_wrong_usage_is_reported_with_status_2(self):
        for arguments, said in [
                ([], "no command given"),
                (["shout"], "unknown command 'shout'"),
                (["p"], "unknown command 'p'"),
                (["help", "shout"], "unknown command 'shout'"),
                (["help", "ps", "list"], "help: unexpected 'list'"),
                (["ps", "--events"], "unknown option --events"),
                (["ps", "--js"], "unknown option --js"),
                (["list", "1", "--events=1"], "--events takes no value"),
                (["ps", "extra"], "unexpected 'extra'"),
                (["list"], "give one of PID, -p PID and -n NAME"),
                (["stacks", "1", "-p", "1"], "give one of PID, -p PID and -n NAME"),
                (["dump", "-p", "1", "-n", "x"], "give one of PID, -p PID and -n NAME"),
                (["counters", "monitor"], "counters monitor: give one of PID, -p PID"),
                (["flight", "start"], "flight start: give one of PID, -p PID and -n NAME"),
                (["flight", "snapshot", "-p", "1", "-n", "x"],
                 "give one of PID, -p PID and -n NAME"),
                (["dump", "-p", "1", "-p", "2"], "dump: takes one process, and -p is given"),
                (["record", *["-p", "1"] * 65], "-p can be given up to 64 times"),
                (["record", "--user", "0", "--user", "1"], "--user is given twice"),
                (["record", "--cgroup", "/a", "--cgroup=/b"], "--cgroup is given twice"),
                (["list", "-n", "x", "-ny"], "--name is given twice"),
                (["list", "12x"], "requires a process id, not '12x'"),
                (["list", "0"], "requires a process id, not '0'"),
                (["report"], "requires FILE"),
                (["report", "a", "events", "c"], "unexpected 'c'"),
                (["report", "a", "--top", "0"], "--top requires N, not '0'"),
                (["report", "a", "events", "--top", "1"], "--top cannot be used with events"),
                (["report", "a", "event"], "no report is called 'event'"),
                (["ps", "--json"], "unknown option --json"),
                (["ps", "--format"], "--format requires text|json|csv"),
                (["flight", "start", "-p", "1", "--format", "csv"], "--format requires 4|6"),
                (["report", "t", "--format", "6"], "--format requires text, json or csv"),
                (["recover", "left", "--format", "csv"], "--format requires --list"),
                (["counters", "serve", "-p", "1", "--format", "csv"],
                 "unknown option --format"),
                (["collect"], "one of PID, -p PID, -n NAME and -- COMMAND"),
                (["collect", "-p"], "--process-id requires PID"),
                (["collect", "-p", "-5"], "not '-5'"),
                (["collect", "-p", "99999999999999999999"], "requires PID"),
                (["collect", "-p", "1", "-n", "x"], "one of PID, -p PID,"),
                (["collect", "./server"], "comes after --"),
                (["collect", "--"], "no command after --"),
                (["collect", "-p", "1", "--buffer", "0"], "--buffer requires MB, not '0'"),
                (["collect", "-p", "1", "-o", ""], "--output requires FILE, not ''"),
                (["collect", "-p", "1", "--providers", "a:xyz"], "cannot read 'a:xyz'"),
                (["collect", "-p", "1", "--providers", "a," + 300 * "n" + ":1"],
                 "--providers: a name has up to 255 bytes, and 'nnnnnnnnnnnnnnnnnnnn…' has 300"),
                (["dump", "1", "-o", "-"], "dump: cannot write to -o -, because the process"),
                (["flight", "start", "-p", "1", "--roll", "8", "-o-"],
                 "flight start: cannot write to -o -, because the"),
                (["recover", "left", "--output=-"], "recover: cannot write to -o -, because rec"),
        ]:
            with self.subTest(arguments=arguments):
                out, err = self.run_tool(*arguments, status=2)
                self.assertIn(said, err)
                self.assertTrue(err.startswith("ringpipe: "), err)
                self.assertEqual(out, "")

    def test_a_trace_is_not_written_to_a_terminal(self):
        try:
            ends = os.openpty()
        except OSError as error:
            self.skipTest(f"no terminal: {error.strerror}")
        for end in ends:
            self.addCleanup(os.close, end)
        for command, arguments in [("collect", ["-p", "1"]), ("collect", ["-p", "1", "--force"]),
                                   ("collect", ["--", "touch", self.path("ran")]),
                                   ("flight snapshot", ["-p", "1"])]:
            with self.subTest(command=command, arguments=arguments):
                process = subprocess.run([TOOL, *command.split(), "-o", "-", *arguments],
                                         stdout=ends[1], check=False, stderr=subprocess.PIPE,
                                         env=self.environment)
                self.assertEqual(process.returncode, 2)
                self.assertIn(f"{command}: a trace is binary".encode(),
                              process.stderr)
        self.assertEqual(os.listdir(self.directory), [])

    def test_durations_that_are_none_are_refused(self):
        for text in ["0", "m", "1x", "1s1m", "1m30s5", "-1", "1.5", "", "1m 30s", "9999999999"]:
            with self.subTest(text=text):
                _, err = self.run_tool("collect", "-p", "1", "-d", text, status=2)
                self.assertIn("--duration requires SECONDS|1m30s", err)

    def test_help_is_on_stdout_and_names_every_command_and_option(self):
        out, err = self.run_tool("--help")
        for command in ["ps", "collect", "report", "dump", "list", "flight stop"]:
            self.assertIn(f"  {command} ", out)
        self.assertEqual(err, "")
        examples = re.findall(r"^  ringpipe (.*)$", out, re.MULTILINE)
        self.assertGreater(len(examples), 3)
        for example in examples:
            self.assertIn("Usage:", self.run_tool(*example.split(), "--help")[0])
        out, _ = self.run_tool("collect", "--help")
        for option in ["-p, --process-id PID", "-n, --name NAME", "-o, --output FILE",
                       "--providers LIST", "-d, --duration SECONDS|1m30s", "--buffer MB",
                       "--stacks", "-q, --quiet", "--format text|json|csv", "-f, --force",
                       "-h, --help"]:
            self.assertIn(option, out)
        self.assertNotIn("--events", out)
        self.assertIn("NAME_PID_YYYYMMDD_HHMMSS.nettrace", out)
        # Without a file name in -o, its output goes elsewhere.
        self.assertNotIn("YYYYMMDD", self.run_tool("counters", "--help")[0])
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()), out)

    def test_the_synopsis_of_the_manual_lists_every_option_of_a_command(self):
        with open(MANUAL, encoding="utf-8") as file:
            synopsis = file.read().partition(".Sh SYNOPSIS")[2].partition(".Sh ")[0]
        listed = {}
        for command, text in re.findall(r"^\.Cm ([\w ]+)\n(.*?)(?=^\.Nm$|\Z)", synopsis,
                                        re.M | re.S):
            if ".Op Ar options" not in text:
                listed.setdefault(command, set()).update(re.findall(r"Fl -?([\w-]+)", text))
        self.assertGreater(len(listed), 10)
        for command, names in sorted(listed.items()):
            shown = self.run_tool(*command.split(), "--help")[0]
            for short, name in re.findall(r"^ +(?:-(\w), )? *--([\w-]+)", shown, re.M):
                with self.subTest(command=command, option=name):
                    self.assertTrue(name == "help" or {short, name} & names)

    def test_it_opens_no_diagnostics_socket_of_its_own(self):
        process = self.start("report", "-", stdin=subprocess.PIPE)
        # The process waits for the first byte, so its start is complete once it sleeps in read().
        stat = f"/proc/{process.pid}/stat"

        def sleeps():
            with open(stat, encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] == "S"

        self.wait_until(sleeps)
        self.assertEqual(len(os.listdir(f"/proc/{process.pid}/task")), 1)
        self.assertEqual(os.listdir(self.directory), [])

    def commands(self):
        commands = [line[2:19].strip()
                    for line in self.run_tool("help")[0].partition("\nExamples:")[0].splitlines()
                    if line.startswith("  ")]
        self.assertGreater(len(commands), 14)
        return commands

    def test_each_command_has_examples_that_are_commands(self):
        for command in self.commands():
            out = self.run_tool("help", *command.split())[0]
            examples = re.findall(r"^  ringpipe (.*)$", out.partition("\nExamples:\n")[2], re.M)
            self.assertTrue(examples, out)
            for example in examples:
                self.assertTrue(example.startswith(command), example)
                options = example.partition(" -- ")[0].split()
                self.assertEqual(self.run_tool(*options, "--help")[0], out)

    def test_a_process_is_named_alike_for_every_command(self):
        for command in ("list", "stacks", "dump", "collect", "counters monitor", "counters serve",
                        "counters collect", "flight start", "flight stop", "flight snapshot"):
            for process in (["4194304"], ["-p", "4194304"], ["--process-id=4194304"]):
                with self.subTest(command=command, process=process):
                    err = self.run_tool(*command.split(), *process, status=1)[1]
                    self.assertIn("there is no process 4194304", err)

    def test_times_are_read_alike(self):
        for option in ("--duration", "--refresh"):
            for text in ("90", "1m30s", "2h"):
                err = self.run_tool("counters", "monitor", "4194304", option, text, status=1)[1]
                self.assertIn("there is no process", err)
            err = self.run_tool("counters", "monitor", "1", option, "1.5", status=2)[1]
            self.assertIn(f"{option} requires SECONDS|1m30s, not '1.5'", err)

    def test_short_times_are_a_number_with_a_unit_or_zero(self):
        for text in ("0", "700ns", "500us", "2ms", "1s"):
            out = self.run_tool("record", "--off-cpu", text, "--help")[0]
            self.assertIn("--off-cpu 0|500us|2ms|1s", out)
        for text in ("", "5", "ms", "1.5ms", "-1ms", "1m", "1ms2us", "1ms ", "00",
                     "4294967296ns", "99999999999s"):
            err = self.run_tool("record", "--off-cpu", text, status=2)[1]
            self.assertIn(f"--off-cpu requires 0|500us|2ms|1s, not '{text}'", err)

    def test_version_is_printed(self):
        for option in ["--version", "-V"]:
            self.assertRegex(self.run_tool(option)[0], r"^ringpipe \d+\.\d+\.\d+\n$")

    def test_help_of_record_and_top_states_their_default_of_providers(self):
        for command in ("record", "top"):
            self.assertIn("The default of --providers is *:ffffffffffffffff:4;",
                          " ".join(self.run_tool("help", command)[0].split()))

    def test_columns_of_the_help_do_not_touch(self):
        for command in "record", "report", "convert", "collect", "explain", "view", "top":
            for line in self.run_tool(command, "--help")[0].splitlines():
                if line.startswith(("  -", "      --")):
                    self.assertRegex(line, r"^ {2,6}-\S+(, --\S+)?( \S+)?( {2,}|$)")

    def test_help_is_a_command_that_prints_the_help_of_commands(self):
        self.assertEqual(self.run_tool("help"), self.run_tool("--help"))
        for command in ["ps", "collect", "list", "bpf", "help", "flight", "flight start",
                        "counters monitor", "bpf count"]:
            self.assertEqual(self.run_tool("help", *command.split()),
                             self.run_tool(*command.split(), "--help"))
        self.assertIn("  flight stop ", self.run_tool("flight", "-h")[0])
        for words in (["flight"], ["flight", "fly"], ["help", "flight", "stop", "now"]):
            self.assertIn("--help", self.run_tool(*words, status=2)[1])
        for said in ["  help ", "-h, --help", "-V, --version"]:
            self.assertIn(said, self.run_tool("--help")[0])

    def test_output_that_cannot_be_written_is_a_failure(self):
        trace = self.write("t", nettrace.sample())
        for arguments in [["--help"], ["report", trace], ["report", trace, "events"],
                          ["report", trace, "events", "--format=csv"],
                          ["report", trace, "events", "--format", "text"],
                          ["report", "--format=json", trace], ["recover", "--list"], ["ps"],
                          ["ps", "--format=json"], ["doctor"], ["convert", trace, "-o", "-"],
                          *(["convert", trace, "--to", to, "-o", "-"] for to in FORMATS),
                          *([*command.split(), "--help"] for command in self.commands())]:
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                process = subprocess.run([TOOL, *arguments], stdout=full, check=False,
                                         stderr=subprocess.PIPE)
                self.assertEqual(process.returncode, 1)
                self.assertRegex(process.stderr,
                                 b"cannot write (the|standard) output: No space left")


if __name__ == "__main__":
    unittest.main()
