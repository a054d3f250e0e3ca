#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nginx under load: what each tracer holds equals what nginx counts, through reloads and ends."""
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import nginx_server
from nginx_server import PATIENCE, drive, servers, worker_pids

from integrations import loads, tracers  # nginx_server has added the path

CONNECTIONS = 4
CONFIGURATION = """
load_module {module};
daemon off;
worker_processes 1;
worker_shutdown_timeout 5s;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
env RINGPIPE_LTTNG;
env LTTNG_HOME;
env LTTNG_UST_REGISTER_TIMEOUT;
env RINGPIPE_CONFIG;
env RINGPIPE_OUTPUT;
env RINGPIPE_RECOVER;
events {{ worker_connections 512; }}
http {{
	log_format ids '$pid $ringpipe_span_id';
	access_log {folder}/access.log ids;
""" + nginx_server.FOLDERS + """
	server {{
		listen 127.0.0.1:{front};
		root {folder};
		location / {{ try_files $uri =404; }}
		location = /status {{ stub_status; access_log off; ringpipe_spans off; }}
	}}
}}
"""


class NginxLoadTest(nginx_server.NginxCase):
    def setUp(self):
        super().setUp()
        self.asked = 0  # requests of /status
        self.recorders = {}

    def serve(self, **popen):
        with open(self.folder + "/page.txt", "w", encoding="ascii") as page:
            page.write("page\n")
        nginx = nginx_server.Nginx(servers.RINGPIPE, self.folder, CONFIGURATION, ("front",),
                                   module=self.module)
        self.addCleanup(nginx.stop)
        nginx.start(**popen)
        return nginx

    def load(self, nginx, seconds):
        # wrk closes its connections at the end.
        return drive.running(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s",
                              f"http://127.0.0.1:{nginx.ports['front']}/page.txt"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run_load(self, nginx):
        with self.load(nginx, 1) as load:
            self.assertEqual(load.wait(PATIENCE), 0)
        # The requests that wrk no longer waits for have ended, too.
        drive.wait_for(lambda: self.status(nginx)[0] == 1, "the end of the connections",
                       [nginx.process])

    def status(self, nginx):
        """Return nginx's own numbers of connections and of requests but for /status."""
        self.asked += 1
        numbers = re.findall("[0-9]+", nginx.get("/status"))
        return int(numbers[0]), int(numbers[3]) - self.asked

    def ids(self, pid=None):
        """Return the spans of the requests in the access log, by process."""
        ids = collections.defaultdict(list)
        with open(self.folder + "/access.log", encoding="ascii") as log:
            for line in log:
                process, span = line.split()
                ids[int(process)].append(span)
        return ids[pid] if pid else ids

    def wait_for_load(self, nginx):
        """Wait for some 1,000 requests more."""
        def size():
            return os.path.getsize(self.folder + "/access.log")
        enough = size() + 25000
        drive.wait_for(lambda: size() > enough, "load", [nginx.process])

    def stops(self, trace):
        """Return the spans of the requests that a trace holds, by process."""
        spans = collections.defaultdict(list)
        for event in servers.read(trace):
            if event["event"] == "requestStop":
                spans[event.get("process_id", 0)].append(
                    event["related_activity"].replace("-", "")[16:])
        return spans

    def start_tool(self, tool, nginx, lttng, stack):
        """Start a tool. Return a function that ends it and returns its number of requests."""
        if tool == "bpftrace":
            path = os.path.join(os.path.dirname(self.module), "ngx_ringpipe_trace.so")
            return stack.enter_context(tracers.bpftrace(None, path, "nginx:request_stop"))
        if tool == "lttng":
            return stack.enter_context(lttng.session("nginx:request_stop", nginx.pids()))
        trace = os.path.join(self.folder, f"{tool}.nettrace")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(trace)
        [pid] = nginx.pids()
        command = loads.command_of(tool, trace, pid, "nginx:2", nginx.process.pid)
        recorder = stack.enter_context(loads.session(command, pid, "nginx"))
        self.recorders[tool] = recorder

        def count():
            loads.end(recorder)
            return sum(map(len, self.stops(trace).values()))
        return count

    def compare(self, nginx, lttng, tools):
        with contextlib.ExitStack() as stack:
            count = {tool: self.start_tool(tool, nginx, lttng, stack) for tool in tools}
            before = self.status(nginx)[1]
            self.run_load(nginx)
            added = self.status(nginx)[1] - before
            self.assertGreater(added, 0)
            self.assertEqual({tool: count[tool]() for tool in tools},
                             dict.fromkeys(tools, added))

    @unittest.skipIf(loads.why_not(), loads.why_not())
    def test_each_tool_and_all_together_hold_what_nginx_counts(self):
        with contextlib.ExitStack() as stack:
            lttng = stack.enter_context(contextlib.closing(tracers.Lttng(self.folder)))
            os.chmod(lttng.home, 0o777)
            nginx = self.serve(env=lttng.environment, wrapper=lttng.inside)
            for tool in loads.TOOLS:
                with self.subTest(tool):
                    self.compare(nginx, lttng, [tool])
            with self.subTest("all together"):
                self.compare(nginx, lttng, loads.TOOLS)

    def reload(self, nginx):
        before = set(worker_pids(nginx.process.pid))
        nginx.process.send_signal(signal.SIGHUP)
        return drive.wait_for(lambda: next(iter(set(worker_pids(nginx.process.pid)) - before),
                                           None), "a new worker", [nginx.process])

    @unittest.skipIf(loads.why_not(), loads.why_not())
    def test_reloads_under_load_and_all_tools_lose_no_request(self):
        with contextlib.ExitStack() as stack:
            lttng = stack.enter_context(contextlib.closing(tracers.Lttng(self.folder)))
            os.chmod(lttng.home, 0o777)
            nginx = self.serve(env=lttng.environment, wrapper=lttng.inside)
            count = {tool: self.start_tool(tool, nginx, lttng, stack)
                     for tool in ("record", "bpftrace", "lttng")}
            [first] = nginx.pids()
            traces = {tool: os.path.join(self.folder, tool + ".nettrace")
                      for tool in ("collect", "dotnet-trace")}
            recorders = [stack.enter_context(loads.session(
                loads.command_of(tool, trace, first, "nginx:2"), first, "nginx"))
                for tool, trace in traces.items()]
            with self.load(nginx, 3600):
                self.wait_for_load(nginx)
                workers = [first, *(self.reload(nginx) for _ in range(loads.RELOADS))]
                newest = workers[-1]
                servers.wait_for_session(newest, "nginx", self.recorders["record"])
                self.wait_for_load(nginx)
            drive.wait_for(lambda: worker_pids(nginx.process.pid) == [newest] and
                           self.status(nginx)[0] == 1, "the end of old workers", [nginx.process])
            for recorder in recorders:
                # The first worker has ended.
                recorder.wait(PATIENCE)
            total = self.status(nginx)[1]
            counted = {tool: ended() for tool, ended in count.items()}
        ids = self.ids()
        self.assertEqual(sum(map(len, ids.values())), total)
        self.assertLessEqual(set(ids), set(workers))
        for trace in traces.values():
            self.assertEqual(list(self.stops(trace).values()), [ids[first]])
        # `record` finds a new worker a little after its start, and then has all of its requests.
        recorded = self.stops(os.path.join(self.folder, "record.nettrace"))
        self.assertGreater(len(recorded[newest]), 500)
        for pid, spans in recorded.items():
            self.assertEqual(spans, ids[pid][-len(spans):])
        self.assertEqual(recorded[first], ids[first])
        self.assertEqual((counted["bpftrace"], counted["lttng"]), (total, total))

    def test_a_restart_under_load_ends_the_trace_with_what_the_log_holds(self):
        for number in range(loads.ROUNDS):
            is_graceful = number % 2 == 0
            nginx = self.serve()
            [pid] = nginx.pids()
            trace = os.path.join(self.folder, "restart.nettrace")
            with drive.running(loads.command_of("collect", trace, pid, "nginx:2")) as recorder, \
                    self.load(nginx, 3600):
                servers.wait_for_session(pid, "nginx", recorder)
                self.wait_for_load(nginx)
                nginx.process.send_signal(signal.SIGQUIT if is_graceful else signal.SIGTERM)
                nginx.process.wait(PATIENCE)
                recorder.wait(PATIENCE)
            [spans] = self.stops(trace).values()
            self.assertGreater(len(spans), 500)
            logged = self.ids(pid)[-len(spans):]
            if is_graceful:
                self.assertEqual(spans, logged)
            else:
                # Some requests had no answer yet.
                self.assertLessEqual(len(set(spans) ^ set(logged)), 2 * CONNECTIONS)

    def test_a_kill_under_load_leaves_all_requests_to_recover(self):
        nginx = self.serve()
        trace = os.path.join(self.folder, "recovered.nettrace")
        for _ in range(loads.ROUNDS):
            [pid] = nginx.pids()
            drive.wait_for(lambda: nginx.has_workers(1), "a socket", [nginx.process])
            rings = f"/dev/shm/ringpipe-{os.stat(f'/proc/{pid}').st_uid}"
            subprocess.run([servers.RINGPIPE, "flight", "start", "--recover", "--providers",
                            "nginx:2", "-p", str(pid)], check=True, timeout=PATIENCE,
                           stdout=subprocess.DEVNULL)
            with self.load(nginx, 3600):
                self.wait_for_load(nginx)
                os.kill(pid, signal.SIGKILL)
                drive.wait_for(lambda: nginx.pids() not in ([], [pid]), "a new worker",
                               [nginx.process])
            listed = subprocess.run([servers.RINGPIPE, "recover", "--list", "--format", "json",
                                     rings], check=True, stdout=subprocess.PIPE, timeout=PATIENCE)
            [left] = [os.path.join(rings, row["directory"]) for row in json.loads(listed.stdout)
                      if row["process_id"] == pid]
            self.addCleanup(shutil.rmtree, left, ignore_errors=True)
            subprocess.run([servers.RINGPIPE, "recover", left, "-f", "-o", trace], check=True,
                           stderr=subprocess.DEVNULL, timeout=PATIENCE)
            [spans] = self.stops(trace).values()
            # A new worker serves requests before its recorder starts.
            logged = self.ids(pid)
            logged = logged[logged.index(spans[0]):]
            self.assertGreater(len(logged), 500)
            # The kill may have come between an event and its line in the log, or the reverse.
            self.assertIn(spans[:len(logged)], (logged, logged[:-1]))
            self.assertLessEqual(len(spans) - len(logged), CONNECTIONS)

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_reloads_and_sessions_under_load_leave_nothing_behind_in_nginx(self):
        nginx = self.serve()

        def serving():
            pids = nginx.pids()
            return pids[0] if len(pids) == 1 and nginx.has_workers(1) else None
        with self.load(nginx, 36000):
            loads.soak(self, nginx.process, serving, lambda: self.reload(nginx), "nginx",
                       os.path.join(self.folder, "soak.nettrace"))


if __name__ == "__main__":
    servers.skip_if(nginx_server.why_not() or (None if shutil.which("wrk") else "no wrk"))
    unittest.main()
