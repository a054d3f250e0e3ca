#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A host's frames in traces, and its commands and start-up: host_test.py STACKS SERVER [unittest
arguments]

Environment: RINGPIPE, the command; INTEROP_BUILD, where .NET's tools are.
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
from ipc_host import (BAD_ENCODING, FAIL, INVALID_OPERATION, OK, UNKNOWN_COMMAND, Host, collect,
                      eventually, message, provider, receive, reply_of)

STACKS, SERVER = sys.argv[1:3]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# From the C function that the innermost function calls to the program's main().
MIXED = ["compare names.tiny:30", "qsort_like", "sort_body", "sort_names names.tiny:20",
         "main_body", "main names.tiny:10", "main"]
RESUME = message(0x04, 0x01)


def own_command(command, payload=b""):
    return message(0x80, command, payload)


class Stacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="ringpipe-host-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.trace = os.path.join(cls.directory, "tiny.nettrace")
        subprocess.run([STACKS, cls.trace, "0.4"], check=True, timeout=60)

    def ringpipe(self, *arguments):
        return subprocess.run([os.environ["RINGPIPE"], *arguments], stdout=subprocess.PIPE,
                              check=True, timeout=60, text=True).stdout

    def events(self, name, trace=None):
        rows = self.ringpipe("report", trace or self.trace, "events", "--format=json")
        return [row for row in map(json.loads, rows.splitlines()) if row["event"] == name]

    @unittest.skipUnless(os.uname().machine == "x86_64", "the generated code is of x86-64")
    def test_generated_code_that_was_removed_has_its_name(self):
        functions = self.events("generated")[-1]["functions"]
        at = functions.index("write_from_code")
        self.assertEqual(functions[at + 1:at + 3], ["generated_function", "run_generated_code"])

    def deferred_samples(self, safe_points):
        """Return the stacks of the samples in burn_in_c() that signal handlers deferred."""
        trace = os.path.join(self.directory, safe_points + ".nettrace")
        subprocess.run([STACKS, trace, "0.3", safe_points], check=True, timeout=60)
        stacks = [row["functions"] for row in self.events("ThreadSample", trace)
                  if "burn_in_c" in row.get("functions", [])]
        self.assertGreater(len(stacks), 3)
        return stacks

    def test_the_stack_of_an_event_mixes_host_and_native_frames(self):
        functions = self.events("compared")[-1]["functions"]
        at = functions.index(MIXED[0])
        self.assertEqual(functions[at:at + len(MIXED)], MIXED)
        self.assertNotIn("tiny_run", functions)

    def test_samples_mix_host_and_native_frames(self):
        stacks = [row["functions"] for row in self.events("ThreadSample")
                  if "burn_in_c" in row.get("functions", [])]
        self.assertTrue(stacks)
        for functions in stacks:
            at = functions.index(MIXED[0])
            self.assertEqual(functions[at:at + len(MIXED)], MIXED)
            self.assertNotIn("tiny_run", functions)

    def test_a_deferred_sample_has_the_native_frames_of_its_instruction(self):
        for functions in self.deferred_samples("often"):
            at = functions.index(MIXED[0])
            self.assertEqual(functions[at:at + len(MIXED)], MIXED)
            self.assertNotIn("rp_host_sample_now", functions)

    def test_a_sample_without_a_safe_point_is_written_without_host_frames(self):
        for functions in self.deferred_samples("never"):
            self.assertNotIn(MIXED[0], functions)
            self.assertEqual(functions.count("tiny_run"), 3)

    def test_report_cpu_counts_the_functions_of_the_host(self):
        rows = self.ringpipe("report", self.trace, "cpu").splitlines()
        for name in ("compare names.tiny:30", "main names.tiny:10", "burn_in_c"):
            row, = [row for row in rows if f"  {name}  " in row[:60]]
            self.assertGreater(float(re.findall(r"([\d.]+) %", row)[1]), 90)

    def test_speedscope_has_the_functions_of_the_host(self):
        output = os.path.join(self.directory, "tiny.json")
        self.ringpipe("convert", self.trace, "--quiet", "--to", "speedscope", "-o", output)
        with open(output, encoding="utf-8") as file:
            names = {frame["name"] for frame in json.load(file)["shared"]["frames"]}
        self.assertLessEqual(set(MIXED), names)

    def test_dotnet_trace_shows_the_functions_of_the_host(self):
        done = subprocess.run([os.path.join(ROOT, "scripts", "setup-dotnet"),
                               os.environ["INTEROP_BUILD"]], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 77:
            self.skipTest("the .NET SDK is not installed")
        tool = done.stdout.splitlines()[-1]
        top = subprocess.run([tool, "report", self.trace, "topN", "-n", "100", "--inclusive"],
                             stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
        for name in ("[tiny]!compare names.tiny:30", "[tiny]!main names.tiny:10"):
            self.assertIn(name, top)


class Server(unittest.TestCase):
    def start(self, suspended=False):
        settings = {"DOTNET_DefaultDiagnosticPortSuspend": "1" if suspended else "0"}
        host = Host(SERVER, waits=True, settings=settings)
        self.addCleanup(host.close)
        self.first = [self.line(host)]
        while self.first[-1] != "registered 0":
            self.assertNotEqual(self.first[-1], "", "the server has ended")
            self.first.append(self.line(host))
        return host

    def line(self, host, but="thread "):
        """Return the next line of the host that does not begin with `but`."""
        while True:
            line = host.process.stdout.readline().decode().rstrip()
            if not line.startswith(but):
                return line

    def test_commands_get_the_reply_of_the_host(self):
        host = self.start()
        self.assertEqual(host.ask(own_command(1, b"some bytes\0")), (OK, b"some bytes\0"))
        self.assertEqual(host.ask(own_command(1)), (OK, b""))
        self.assertEqual(host.ask(own_command(2)), (OK, b""))

    def test_errors_of_commands_become_hresults(self):
        host = self.start()
        self.assertEqual(host.ask(own_command(2, b"x"))[0], BAD_ENCODING)
        self.assertEqual(host.ask(own_command(3))[0], FAIL)
        self.assertEqual(host.ask(own_command(200))[0], UNKNOWN_COMMAND)
        self.assertEqual(host.ask(message(0x81, 1))[0], UNKNOWN_COMMAND)

    def test_a_reply_ends_at_its_limit(self):
        hresult, payload = self.start().ask(own_command(4))
        self.assertEqual((hresult, len(payload)), (OK, 65000))

    def test_start_up_is_reported_when_nothing_suspends_it(self):
        self.start()
        self.assertEqual(self.first, ["started", "registered 0"])

    def test_start_up_is_reported_when_a_client_resumes_it(self):
        host = self.start(suspended=True)
        self.assertEqual(self.first, ["registered 0"])
        self.assertEqual(host.ask(RESUME)[0], OK)
        self.assertEqual(self.line(host), "started")
        self.assertEqual(host.ask(RESUME)[0], OK)
        host.process.stdin.write(b"more\n")
        host.process.stdin.flush()
        self.assertEqual(self.line(host), "did more")

    def test_clients_see_the_name_and_the_version_of_the_host(self):
        host = self.start()
        payload = host.ask(message(0x04, 0x08))[1].decode("utf-16-le", "replace")
        self.assertIn("tiny\0", payload)
        self.assertRegex(payload, r"10\.0\.0\+ringpipe\.[\d.]+\.tiny-1\.0\0")

    def test_a_host_that_shuts_down_gets_no_sessions(self):
        host = self.start()
        host.process.stdin.write(b"ending\n")
        host.process.stdin.flush()
        eventually(lambda: self.line(host) == "did ending", "the host's state")
        with host.send(collect(provider("Tiny-Server"))) as connection:
            reply = receive(connection, 65536)
        self.assertEqual(struct.unpack("<I", reply[20:24])[0], INVALID_OPERATION)

    def test_threads_of_the_library_begin_in_the_host(self):
        host = self.start()
        connection = host.send(collect(provider("Tiny-Server")))
        self.addCleanup(connection.close)
        self.assertEqual(reply_of(connection)[0], OK)
        eventually(lambda: self.line(host, but="?") == "thread ringpipe-drain",
                   "the drain thread")

    def test_perf_maps_list_the_methods_of_the_host(self):
        host = self.start()
        path = f"/tmp/perf-{host.pid}.map"
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        self.assertEqual(host.ask(message(0x04, 0x05, struct.pack("<I", 3)))[0], OK)
        with open(path, encoding="ascii") as file:
            self.assertRegex(file.read(), r"(?m)^[0-9a-f]+ 10 main names\.tiny:1$")


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
