#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A .NET runtime and the library in one process: each serves its own clients.

usage: beside_test.py LIBRARY [unittest arguments]

Environment: INTEROP_BUILD, RINGPIPE.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

import clients
from ipc_host import (OK, PATIENCE, Reader, Tool, eventually, message, reply_of, socket_path,
                      start_ticks)

RINGPIPE = os.environ["RINGPIPE"]
LIBRARY = None
INFO_2 = message(0x04, 0x04)


class Beside(clients.Scratch):
    @classmethod
    def setUpClass(cls):
        cls.dotnet_trace = clients.dotnet_trace_command()
        cls.application = clients.beside_command()

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("RINGPIPE_", "DOTNET_", "COMPlus_", "LD_"))}
        # The program may find another `dotnet` than the one on the PATH.
        kept["DOTNET_ROOT"] = os.path.dirname(os.path.realpath(shutil.which("dotnet")))
        return dict(kept, TMPDIR=self.directory, RINGPIPE_LTTNG="0", **variables)

    def start(self, *command, preload=True, **variables):
        """Start a program that runs until the test ends. Return it and its pid."""
        variables = self.environment(**variables)
        if preload:
            variables["LD_PRELOAD"] = LIBRARY
        process = subprocess.Popen(list(command), env=variables, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end():
            process.stdin.close()
            process.stdout.read()
            process.stdout.close()
            process.wait()
        self.addCleanup(end)
        return process, int(process.stdout.readline())

    def run_tool(self, *command):
        done = subprocess.run(list(map(str, command)), env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def serials(self, trace):
        rows = map(json.loads, self.run_tool(RINGPIPE, "report",
                                             trace, "events", "--format=json").splitlines())
        return [row["fields"]["serial"] for row in rows
                if (row["provider"], row["id"]) == ("Beside", 1)]

    def assert_both_are_reached(self, pid):
        self.assertRegex(clients.dotnet_trace_ps(self.environment()), rf"(?m)^\s*{pid}\s")
        rows = [row for row in json.loads(self.run_tool(RINGPIPE, "ps", "--format=json"))
                if row["process_id"] == pid]
        key = start_ticks(pid)
        self.assertEqual([row["socket"] for row in rows],
                         [self.path(f"{whose}-diagnostic-{pid}-{key}-socket")
                          for whose in ("ringpipe", "dotnet")])
        self.assertRegex(rows[0]["runtime"], r"^ringpipe \d")
        self.assertRegex(rows[1]["runtime"], r"^\.NET \d")
        # .NET's tools get the runtime's events, and `ringpipe` gets the library's.
        def theirs():
            self.run_tool(self.dotnet_trace, "collect", "-p", pid, "--providers", "Beside:0:5",
                          "--duration", "00:00:00:01", "-o", self.path("dotnet"))
            return self.serials(self.path("dotnet"))
        eventually(theirs, "an event of the program")
        self.assertIn("Microsoft-DotNETCore-SampleProfiler",
                      self.run_tool(RINGPIPE, "list", pid))
        self.run_tool(RINGPIPE, "collect", "-p", pid, "--providers", "*", "--duration", "1",
                      "--force", "-o", self.path("ours"))
        self.assertEqual(self.serials(self.path("ours")), [])

    def test_preloaded_it_leaves_the_usual_name_to_the_runtime(self):
        for command in (["dotnet", self.application], [self.application[:-len(".dll")]]):
            with self.subTest(command=command):
                process, pid = self.start(*command)
                self.assert_both_are_reached(pid)
                process.stdin.close()
                self.assertEqual(process.wait(PATIENCE), 0)
                self.assertEqual(glob.glob(self.path("*-diagnostic-*")), [])

    def test_loaded_by_a_program_that_runs_it_does_the_same(self):
        self.assert_both_are_reached(self.start("dotnet", self.application, LIBRARY,
                                                preload=False)[1])

    def test_the_name_of_the_program_means_ours(self):
        self.start(self.application[:-len(".dll")])
        self.run_tool(RINGPIPE, "collect", "--name", "Beside", "--providers", "Beside",
                      "--allow-missing", "--duration", "1", "-o", self.path("ours"))
        self.assertEqual(self.serials(self.path("ours")), [])

    def test_a_program_that_is_not_of_dotnet_has_the_usual_name(self):
        """The name of the program alone does not make it a .NET process."""
        shutil.copy("/bin/sleep", self.path("dotnet"))
        process = subprocess.Popen([self.path("dotnet"), str(PATIENCE)],
                                   env=self.environment(LD_PRELOAD=LIBRARY))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        path = socket_path(self.directory, process.pid)
        eventually(lambda: os.path.exists(path), "the socket")

    def test_its_ports_and_ours_have_names_of_their_own(self):
        theirs, ours = Tool(self.path("theirs")), Tool(self.path("ours"))
        self.addCleanup(theirs.close)
        self.addCleanup(ours.close)
        self.start("dotnet", self.application, RINGPIPE_PORTS=ours.path + ",nosuspend",
                   DOTNET_DiagnosticPorts=theirs.path + ",nosuspend")
        for tool, is_ours in ((theirs, False), (ours, True), (theirs, False), (ours, True)):
            with tool.accept()[0] as connection:
                connection.sendall(INFO_2)
                hresult, payload = reply_of(connection)
            self.assertEqual(hresult, OK)
            reader = Reader(payload)
            reader.take(24)
            texts = [reader.string() for _ in range(5)]
            self.assertEqual("ringpipe" in texts[4], is_ours, texts)

    def test_a_child_is_traced_from_its_first_event(self):
        self.run_tool(self.dotnet_trace, "collect", "--providers", "Beside:0:5", "-o",
                      self.path("child"), "--", "env", "LD_PRELOAD=" + LIBRARY, "dotnet",
                      self.application, "1000")
        self.assertEqual(self.serials(self.path("child")), list(range(1000)))

    def test_the_session_of_its_environment_is_its_own(self):
        process, _ = self.start("dotnet", self.application, "1000", DOTNET_EnableEventPipe="1",
                                DOTNET_EventPipeConfig="Beside:0:5",
                                DOTNET_EventPipeOutputPath=self.path("theirs"))
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.serials(self.path("theirs")), list(range(1000)))


if __name__ == "__main__":
    LIBRARY = os.path.abspath(sys.argv.pop(1))
    clients.main(clients.dotnet_trace_command, clients.beside_command)
