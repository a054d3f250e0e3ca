#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Typical uses of dotnet-trace and dotnet-stack, on the shop: profiles, durations, a child traced
from its start, reports and conversions with names of native functions.

Environment: INTEROP_BUILD, SHOP, HOST, RINGPIPE, RINGPIPE_SYMBOLS.
"""

import contextlib
import json
import os
import re
import subprocess
import threading
import unittest

import clients
import drive

SHOP = os.environ["SHOP"]
HOST = os.environ["HOST"]
RINGPIPE = os.environ["RINGPIPE"]
PATIENCE_S = 300
PROFILE = "dotnet-sampled-thread-time"


class DotnetTools(clients.Scratch):
    @classmethod
    def setUpClass(cls):
        cls.dotnet_trace = clients.dotnet_trace_command()

    def run_command(self, *command):
        done = subprocess.run([*map(str, command)], capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE_S,
                              cwd=self.directory, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def run_tool(self, *arguments):
        return self.run_command(self.dotnet_trace, *arguments)

    @contextlib.contextmanager
    def busy(self, shop):
        """Send all kinds of requests to the shop until the block ends."""
        over = threading.Event()

        def ask():
            while not over.is_set():
                shop.stats()

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in asking:
                thread.join()

    def profile(self, trace):
        """Record the busy shop for some seconds with `collect --profile`."""
        with drive.shop(SHOP) as shop, self.busy(shop):
            said = self.run_tool("collect", "-p", shop.pid, "--profile", PROFILE, "--duration",
                                 "00:00:00:03", "-o", trace)
        self.assertIn("Trace completed", said)

    @unittest.skipUnless(os.environ["RINGPIPE_SYMBOLS"], "built without the symbols module")
    def test_profile_of_the_shop_names_its_functions(self):
        # Static functions of the shop, and the libraries that it calls.
        libraries = ("libmicrohttpd.so", "libc.so.6!")
        trace = self.path("shop.nettrace")

        def is_profiled():
            """On a loaded machine, some seconds may lack samples of one of them."""
            self.profile(trace)
            top = self.run_tool("report", trace, "topN", "-n", 400, "--inclusive")
            names = [name for name, _ in re.findall(r"^\d+\.\s+(\S+)\s+([\d.]+)%", top, re.M)]
            return "shop!on_request" in names and \
                all(any(name.startswith(library) for name in names) for library in libraries)

        drive.wait_for(is_profiled, "the functions of the shop")
        self.run_tool("convert", trace, "--format", "Speedscope")
        with open(self.path("shop.speedscope.json"), encoding="utf-8") as file:
            speedscope = json.load(file)
        self.assertIn("shop!on_request",
                      {frame["name"] for frame in speedscope["shared"]["frames"]})
        self.assertGreater(len(speedscope["profiles"]), 1)

        self.run_tool("convert", trace, "--format", "Chromium")
        with open(self.path("shop.chromium.json"), encoding="utf-8") as file:
            chromium = json.load(file)
        self.assertIn("on_request", {event["name"] for event in chromium["traceEvents"]})

    @unittest.skipUnless(os.environ["RINGPIPE_SYMBOLS"], "built without the symbols module")
    def test_stack_report_shows_each_thread_of_an_idle_shop(self):
        with drive.shop(SHOP) as shop:
            shop.wait_until_quiet()
            threads = {int(thread) for thread in os.listdir(f"/proc/{shop.pid}/task")}
            said = self.run_command(clients.dotnet_stack_command(), "report", "-p", shop.pid)
        stacks = {int(thread, 16): frames.split() for thread, frames in
                  re.findall(r"^Thread \(0x(\w+)\):\n((?:  .*\n)*)", said, re.M)}
        self.assertLessEqual(threads, set(stacks))
        self.assertIn("shop!main", stacks[shop.pid])
        for thread in threads:
            self.assertGreater(len(stacks[thread]), 3, said)

    def test_collect_linux_takes_the_process(self):
        with drive.shop(SHOP) as shop:
            said = self.run_tool("collect-linux", "--probe", "-p", shop.pid, "-o", "stdout")
            self.assertIn(f"\n{shop.pid},shop,true\n", said)

    def test_child_is_traced_from_its_first_event_to_its_last(self):
        trace = self.path("child.nettrace")
        self.run_tool("collect", "--providers", "Ipc-Host:ffff:5", "--show-child-io", "-o", trace,
                      "--", HOST, "count", "1000")
        self.assertEqual(self.serials(trace), list(range(1000)))

    def serials(self, trace):
        out = subprocess.run([RINGPIPE, "report", trace, "events", "--format=json"],
                             capture_output=True,
                             stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE_S, check=True)
        return [row["fields"]["serial"] for row in map(json.loads, out.stdout.splitlines())
                if row["provider"] == "Ipc-Host"]

    @contextlib.contextmanager
    def suspended(self, ports):
        """Run HOST, which waits at its start and then writes 1,000 events."""
        with drive.running([HOST, "count", "1000"], stdout=subprocess.DEVNULL, text=True,
                           env=dict(os.environ, DOTNET_DiagnosticPorts=ports)) as process:
            yield process
            self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_port_that_listens_is_traced_from_the_first_event(self):
        port, trace = self.path("port"), self.path("trace")
        with self.suspended(port + ",listen") as process:
            drive.wait_for(lambda: os.path.exists(port), "the port", [process])
            self.run_tool("collect", "--diagnostic-port", port + ",connect", "--providers",
                          "Ipc-Host:ffff:5", "-o", trace)
        self.assertEqual(self.serials(trace), list(range(1000)))
        self.assertFalse(os.path.exists(port))

    def test_a_port_that_connects_is_traced_from_the_first_event(self):
        """Either the tool or the host starts first."""
        for first in ("tool", "host"):
            port, trace = self.path(first + "-port"), self.path(first + "-trace")
            command = [self.dotnet_trace, "collect", "--diagnostic-port", port, "--providers",
                       "Ipc-Host:ffff:5", "-o", trace]
            with contextlib.ExitStack() as stack:
                if first == "host":
                    stack.enter_context(self.suspended(port))
                tool = stack.enter_context(drive.running(command, stdout=subprocess.DEVNULL))
                if first == "tool":
                    drive.wait_for(lambda: os.path.exists(port), "the tool's port", [tool])
                    stack.enter_context(self.suspended(port))
                self.assertEqual(tool.wait(PATIENCE_S), 0)
            self.assertEqual(self.serials(trace), list(range(1000)))


if __name__ == "__main__":
    clients.main(clients.dotnet_trace_command, clients.trace_read_command)
