#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public call of Microsoft.Diagnostics.NETCore.Client, made on the shop and on HOST.

Environment: INTEROP_BUILD, SHOP, HOST, RINGPIPE.
"""

import contextlib
import json
import os
import subprocess
import unittest

import clients
import drive

SHOP = os.environ["SHOP"]
HOST = os.environ["HOST"]
RINGPIPE = os.environ["RINGPIPE"]
PATIENCE_S = 300
# Calls that a native process does not support; it reports this.
UNSUPPORTED = {"AttachProfiler", "SetStartupProfiler", "ApplyStartupHook", "ApplyStartupHookAsync"}
DUMPS = ("normal", "heap", "triage", "full")


class ClientCalls(clients.Scratch):
    def run_calls(self, *arguments):
        """Return rows by the name of the call, and the other output."""
        done = subprocess.run([*clients.client_calls_command(), *map(str, arguments)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, env=dict(os.environ, TMPDIR=self.directory),
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        calls, reported = {}, {}
        for line in done.stdout.splitlines():
            row = json.loads(line)
            if "call" not in row:
                reported.update(row)
                continue
            name = row["call"].split("(")[0].split(" ")[-1]
            calls.setdefault(name, []).append(row)
        return calls, reported

    @staticmethod
    def remove_maps(pid):
        """Remove the files: a later process with that pid may have another user, who cannot replace
        them."""
        for path in (f"/tmp/perf-{pid}.map", f"/tmp/jit-{pid}.dump"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def check_refusals(self, calls):
        for name in UNSUPPORTED & calls.keys():
            for row in calls[name]:
                self.assertEqual(row.get("error"), "ServerErrorException", row)
                self.assertIn("ot supported", row["message"])

    def check_traces(self):
        traces = [name for name in os.listdir(self.directory) if name.endswith(".nettrace")]
        for name in traces:
            drive.report(RINGPIPE, self.path(name))
        return len(traces)

    def check_dumps(self):
        for name in DUMPS:
            with open(self.path(name + ".core"), "rb") as core:
                self.assertEqual(core.read(4), b"\x7fELF")

    def start_shop(self, stack):
        """Start a shop until an id has no files of an earlier process, or files of this user."""
        while True:
            shop = stack.enter_context(
                drive.shop(SHOP, env=dict(os.environ, TMPDIR=self.directory)))
            with contextlib.suppress(PermissionError):
                self.remove_maps(shop.pid)
                return shop

    def test_every_call_is_answered_by_a_running_server(self):
        with contextlib.ExitStack() as stack:
            shop = self.start_shop(stack)
            self.addCleanup(self.remove_maps, shop.pid)
            calls, reported = self.run_calls(shop.pid, self.directory, "Shop-Http")
            # The server still works.
            self.assertEqual(shop.stats()["connections"], 1)
        self.assertEqual(reported["missing"], [])
        self.check_refusals(calls)
        # A running server's environment cannot be changed by clients.
        self.assertEqual(calls["SetEnvironmentVariable"][0]["error"], "ServerErrorException")
        for name, rows in calls.items():
            if name in UNSUPPORTED | {"SetEnvironmentVariable", "GetPublishedProcesses"}:
                continue
            for row in rows:
                self.assertNotIn("error", row)
        environment = calls["GetProcessEnvironment"][0]["result"]
        self.assertEqual(environment["TMPDIR"], self.directory)
        # As root, it may fail at a process that it finds itself: a kernel thread.
        published = calls["GetPublishedProcesses"][0]
        if "error" in published:
            self.assertRegex(published["message"], r"'/proc/\d+/environ'")
        else:
            self.assertIn(shop.pid, published["result"])
        self.assertEqual(self.check_traces(), 6)
        self.check_dumps()

    def test_a_start_is_prepared_and_traced_from_its_first_event(self):
        calls, reported = self.run_calls("--start", self.directory, "Ipc-Host", HOST)
        self.assertEqual(reported["exit"], 0)
        self.check_refusals(calls)
        # Some calls are only permitted while the start is suspended.
        for name in ("SetEnvironmentVariable", "ResumeRuntime"):
            self.assertNotIn("error", calls[name][0])
        environment = calls["GetProcessEnvironment"][0]["result"]
        self.assertEqual(environment["RP_CALLED"], "yes")
        rows = subprocess.run([RINGPIPE, "report",
                               self.path("started.nettrace"), "events", "--format=json"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=True).stdout
        serials = [row["fields"]["serial"] for row in map(json.loads, rows.splitlines())
                   if row["provider"] == "Ipc-Host" and row["id"] == 1]
        self.assertGreater(len(serials), 1)
        self.assertEqual(serials, list(range(len(serials))))


if __name__ == "__main__":
    clients.main(clients.client_calls_command)
