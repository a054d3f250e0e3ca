#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module under load: with several tools, through reloads and a restart, and after kill -9."""
import collections
import contextlib
import os
import signal
import subprocess
import unittest

import haproxy_server
from haproxy_server import PATIENCE, drive, servers, tracers

from integrations import loads  # haproxy_server has added the path

RINGPIPE, of_name, read = servers.RINGPIPE, servers.of_name, servers.read
REQUESTS = 5000
CONFIGURATION = """
global
	log stdout format raw local0
	stats socket {folder}/stats level admin
	nbthread {threads}
	lua-load {module}/ringpipe.lua
defaults
	mode http
	timeout client 20s
	timeout server 20s
	timeout connect 20s
frontend web
	log global
	log-format "%pid %ST %B"
	bind 127.0.0.1:{web}
	http-request return status 200 content-type text/plain string here
"""


class LongTest(haproxy_server.HaproxyCase):
    def serve(self, *arguments, threads=1, **popen):
        """Start a HAProxy. Its log holds all requests if it has one thread: HAProxy drops a line
        while another thread writes one."""
        haproxy = haproxy_server.Haproxy(self.folder, CONFIGURATION, ("web",), arguments,
                                         module=self.module, threads=threads)
        return self.started(haproxy, **popen)

    @contextlib.contextmanager
    def load(self, haproxy, count):
        """Run load while the block runs, which begins after so many requests."""
        before = self.requests(haproxy)
        with drive.running(["wrk", "-t1", "-c8", "-d3600s",
                            f"http://127.0.0.1:{haproxy.ports['web']}/"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
            drive.wait_for(lambda: self.requests(haproxy) >= before + count, "load", [load])
            yield

    def run_load(self, haproxy, count=REQUESTS):
        """Run the load. Return the number of its requests that HAProxy has counted."""
        before = self.requests(haproxy)
        with self.load(haproxy, count):
            pass
        haproxy.settle()
        return self.requests(haproxy) - before

    def requests(self, haproxy):
        """Return HAProxy's count of the requests that have a span: wrk tries a connection first,
        which HAProxy counts as a request with an error."""
        row = haproxy.statistics()["web", "FRONTEND"]
        return int(row["req_tot"]) - int(row["ereq"])

    def logged(self, haproxy):
        """Return how often each row (process, status, bytes) is in the log."""
        with open(haproxy.log, encoding="ascii") as log:
            rows = [tuple(map(int, line.split())) for line in log if line.count(" ") == 2]
        return collections.Counter(row for row in rows if row[1] != 400)

    def stops(self, trace):
        """Return how often each row (process, status, bytes) is in a trace. The process is 0 if the
        trace is of one process."""
        return collections.Counter(
            (event.get("process_id", 0), event["fields"]["status"], event["fields"]["bytes_sent"])
            for event in read(trace) if event["event"] == "requestStop")

    @contextlib.contextmanager
    def file_of(self, command, name, pid):
        """Run a command that records until it is interrupted. Yield the function that ends it and
        returns its number of spans."""
        trace = os.path.join(self.folder, name + ".nettrace")
        command = [RINGPIPE, *command, "-f", "-o", trace, "--providers", "haproxy", "-p", str(pid)]
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            servers.wait_for_session(pid, "haproxy", recorder)

            def count():
                self.assertEqual(drive.interrupt(recorder), 0)
                return self.stops(trace).total()
            yield count

    @contextlib.contextmanager
    def file_of_dotnet_trace(self, program, pid):
        trace = os.path.join(self.folder, "dotnet.nettrace")
        with tracers.dotnet_trace(program, pid, "haproxy:3:5", trace) as recorder:
            servers.wait_for_session(pid, "haproxy", recorder)

            def count():
                self.assertEqual(drive.interrupt(recorder), 0)
                return self.stops(trace).total()
            yield count

    def tools(self, pid, lttng):
        """Return functions that start the tools."""
        library = os.path.join(self.module, "ringpipe_haproxy.so")
        tools = {
            "collect": lambda: self.file_of(["collect", "--buffer", "256"], "collect", pid),
            "record": lambda: self.file_of(["record"], "record", pid),
            "bpftrace": lambda: tracers.bpftrace(pid, library, "haproxy:request_stop"),
            "lttng": lambda: lttng.session("haproxy:request_stop", [pid]),
        }
        with contextlib.suppress(subprocess.CalledProcessError):
            program = tracers.install_dotnet_trace()
            tools["dotnet-trace"] = lambda: self.file_of_dotnet_trace(program, pid)
        return tools

    @unittest.skipUnless(os.getuid() == 0, "bpftrace and record require root")
    def test_each_tool_alone_and_all_together_count_what_haproxy_counts(self):
        if tracers.missing():
            self.skipTest(f"no {tracers.missing()}")
        with contextlib.closing(tracers.Lttng(self.folder)) as lttng:
            haproxy = self.serve(threads=2, env=lttng.environment, wrapper=lttng.inside)
            tools = self.tools(haproxy.pid(), lttng)
            for name, start in tools.items():
                with self.subTest(name), start() as count:
                    requests = self.run_load(haproxy)
                    self.assertGreaterEqual(requests, REQUESTS)
                    self.assertEqual(count(), requests)
            with contextlib.ExitStack() as stack:
                counts = {name: stack.enter_context(start()) for name, start in tools.items()}
                requests = self.run_load(haproxy)
                found = {name: count() for name, count in counts.items()}
            self.assertEqual(found, dict.fromkeys(tools, requests))
        print(f"# figure: {requests} requests, counted alike by {', '.join(found)}")

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_reloads_under_load_lose_no_request(self):
        haproxy = self.serve("-W")
        trace = os.path.join(self.folder, "record.nettrace")
        command = loads.command_of("record", trace, haproxy.process.pid, "haproxy")
        workers = [haproxy.pid()]
        with loads.session(command, workers[0], "haproxy") as recorder:
            with self.load(haproxy, 100):
                for _ in range(loads.RELOADS):
                    haproxy.reload()
                    workers.append(haproxy.pid())
                    servers.wait_for_session(workers[-1], "haproxy", recorder)
                served = self.requests(haproxy)
                drive.wait_for(lambda: self.requests(haproxy) > served + 8,
                               "requests with a session", [haproxy.process])
            # The old workers end when their connections do.
            drive.wait_for(lambda: servers.children(haproxy.process.pid) == workers[-1:],
                           "the end of the old workers", [haproxy.process])
            haproxy.settle()
            loads.end(recorder)
        logged, stops = self.logged(haproxy), self.stops(trace)
        self.assertEqual({row[0] for row in stops}, set(workers))
        # `record` finds a new worker a little after its start, and then has all of its requests.
        self.assertEqual(stops - logged, collections.Counter())
        missing = {row[0] for row in logged - stops}
        self.assertNotIn(workers[0], missing)
        print(f"# figure: {len(workers) - 1} reloads, {stops.total()} of {logged.total()} requests "
              "of all workers in one recording")

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_reloads_and_sessions_under_load_leave_nothing_behind_in_haproxy(self):
        haproxy = self.serve("-W", threads=2)

        def serving():
            return haproxy.pid() if haproxy.has_socket() else None
        with self.load(haproxy, 1):
            loads.soak(self, haproxy.process, serving, haproxy.reload, "haproxy", self.trace)

    def test_a_restart_under_load_ends_the_trace_with_all_requests(self):
        haproxy = self.serve()
        command = [RINGPIPE, "collect", "-f", "-o", self.trace, "--buffer", "256", "-p",
                   str(haproxy.pid())]
        with drive.running(command, stderr=subprocess.DEVNULL) as collector:
            servers.wait_for_session(haproxy.pid(), "haproxy", collector)
            with self.load(haproxy, 100):
                # HAProxy answers what it has accepted, and ends.
                haproxy.stop(signal.SIGUSR1)
            self.assertEqual(collector.wait(PATIENCE), 0)
        events, logged = read(self.trace), self.logged(haproxy).total()
        self.assertGreaterEqual(logged, 100)
        for name in ("requestStart", "requestStop"):
            self.assertEqual(len(of_name(events, name)), logged)
        haproxy.start()
        drive.wait_for(haproxy.has_socket, "the socket of ringpipe", [haproxy.process])
        events = self.record(haproxy, lambda: haproxy.get("/"))
        self.assertEqual(len(of_name(events, "requestStop")), 1)

    def test_after_kill_the_recovered_trace_has_the_lines_of_the_log(self):
        keep, output = (os.path.join(self.folder, name) for name in ("keep", "out.nettrace"))
        haproxy = self.serve(env=dict(
            os.environ, RINGPIPE_CONFIG="haproxy", RINGPIPE_RECOVER=keep, RINGPIPE_OUTPUT=output,
            RINGPIPE_BUFFER_MB="64"))
        with self.load(haproxy, 1000):
            haproxy.stop(signal.SIGKILL)
        folders = [os.path.join(keep, name) for name in os.listdir(keep)]
        self.assertEqual(len(folders), 1)
        subprocess.run([RINGPIPE, "recover", *folders, "-f", "-o", self.trace], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE)
        pid = haproxy.process.pid
        rows, stops = self.logged(haproxy), self.stops(self.trace)
        stops = collections.Counter({(pid, *row[1:]): count for row, count in stops.items()})
        # A request is counted at its start.
        self.assertGreaterEqual(stops.total(), 1000 - 8)
        # HAProxy writes the line of a request and then the event.
        self.assertEqual(stops - rows, collections.Counter())
        self.assertLessEqual((rows - stops).total(), 1)
        haproxy.start()
        self.assertEqual(haproxy.get("/"), "here")


if __name__ == "__main__":
    haproxy_server.main()
