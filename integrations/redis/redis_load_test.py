#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis under load: what each tracer holds equals what the server counts, also when it ends."""
import contextlib
import os
import signal
import subprocess
import time
import unittest

import redis_case
from redis_case import PATIENCE, RINGPIPE, RedisCase, drive

from integrations import loads, servers, tracers  # redis_case has added the path

ENDLESS = 1000000000
# The name of the command has three bytes; the bytes after it are not part of it.
IS_GET = '/str(arg0, 4) == "get" || str(arg0, 3) == "get"/'

LOG_GETS = b"eval \"redis.log(redis.LOG_WARNING, 'counted gets: ' .. string.match(" \
    b"redis.call('info', 'commandstats') .. 'cmdstat_get:calls=0', " \
    b"'cmdstat_get:calls=(%d+)'))\" 0\r\n"


class RedisLoadTest(RedisCase):
    def load(self, server, *options):
        return drive.running(["redis-benchmark", "-p", str(server.port), "-q", *options],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run_load(self, server, *options):
        with self.load(server, *options) as load:
            self.assertEqual(load.wait(PATIENCE), 0)

    def serve_all(self, stack):
        lttng = stack.enter_context(contextlib.closing(tracers.Lttng(self.folder)))
        environment = dict(lttng.environment, LD_LIBRARY_PATH=self.library)
        return lttng, self.serve("--slowlog-log-slower-than", "-1", env=environment,
                                 wrapper=lttng.inside)

    def start_tool(self, tool, server, lttng, stack):
        """Start a tool. Return a function that ends it and returns its number of GETs."""
        if tool == "bpftrace":
            path = os.path.join(self.module, "ringpipe_tracing.so")
            return stack.enter_context(tracers.bpftrace(None, path, "redis:command_start", IS_GET))
        if tool == "lttng":
            return stack.enter_context(lttng.session(
                "redis:command_start", [server.process.pid], '"get"'))
        trace = os.path.join(self.folder, f"{tool}.nettrace")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(trace)
        command = loads.command_of(tool, trace, server.process.pid, "redis:1")
        recorder = stack.enter_context(loads.session(command, server.process.pid, "redis"))

        def count():
            loads.end(recorder)
            return self.counts(self.read(trace)).get("get", 0)
        return count

    def compare(self, server, lttng, tools):
        with contextlib.ExitStack() as stack:
            count = {tool: self.start_tool(tool, server, lttng, stack) for tool in tools}
            drive.wait_for(lambda: server.info("ringpipe")["ringpipe_filter"] == "1",
                           "the module's events", [server.process])
            before = server.command_stats().get("get", 0)
            self.run_load(server, "-t", "get", "-n", "10000")
            server.run("ping")
            added = server.command_stats()["get"] - before
            self.assertEqual({tool: count[tool]() for tool in tools},
                             dict.fromkeys(tools, added))

    @unittest.skipIf(loads.why_not(), loads.why_not())
    def test_each_tool_and_all_together_hold_what_the_server_counts(self):
        with contextlib.ExitStack() as stack:
            lttng, server = self.serve_all(stack)
            for tool in loads.TOOLS:
                with self.subTest(tool):
                    self.compare(server, lttng, [tool])
            with self.subTest("all together"):
                self.compare(server, lttng, loads.TOOLS)

    def test_a_restart_under_load_ends_the_trace_with_what_the_server_had_counted(self):
        server = self.serve()
        for _ in range(loads.ROUNDS):
            trace = os.path.join(self.folder, "restart.nettrace")
            command = loads.command_of("collect", trace, server.process.pid, "redis:1")
            with drive.running(command) as recorder, self.load(server, "-t", "get", "-n",
                                                               str(ENDLESS)):
                servers.wait_for_session(server.process.pid, "redis", recorder)
                drive.wait_for(lambda: server.info("ringpipe")["ringpipe_filter"] == "1",
                               "the module's events", [server.process])
                server.run("config", "resetstat")
                with contextlib.closing(server.connect()) as client:
                    # The server executes both without another client in between.
                    client.socket.sendall(LOG_GETS + b"shutdown nosave\r\n")
                    self.assertEqual(client.read(), "")
                recorder.wait(PATIENCE)
            server.process.wait(PATIENCE)
            gets = int(server.log().rpartition("counted gets: ")[2].split()[0])
            events = [event for event in self.read(trace) if event["event"] == "commandStart"]
            # The last one: redis-benchmark begins with this command too.
            reset = max(i for i, event in enumerate(events)
                        if event["fields"]["command"] == "config")
            self.assertEqual(self.counts(events[reset:]).get("get", 0), gets)
            server.start()

    def test_a_session_goes_on_when_the_module_is_loaded_again_under_load(self):
        server = self.serve("--enable-module-command", "local")
        path = os.path.join(self.module, "ringpipe.so")
        uses = []
        with self.recording(server, "--providers", "redis:1") as events:
            with self.load(server, "-c", "1", "-t", "incr", "-n", str(ENDLESS)):
                for _ in range(loads.RELOADS):
                    for command in (("unload", "ringpipe"), ("load", path)):
                        self.assertEqual(server.run("module", *command), ["OK"])
                    uses.append(loads.used(server.process.pid))
            loads.check_growth(self, uses)
            self.run_load(server, "-t", "get", "-n", "10000")
            counts = server.command_stats()
        self.check_ends(events)
        self.assertEqual(self.counts(events)["get"], counts["get"])
        self.assertLessEqual(self.counts(events)["incr"], counts["incr"])

    def test_a_kill_under_load_leaves_all_commands_to_recover(self):
        rings = os.path.join(self.folder, "rings")
        environment = dict(os.environ, LD_LIBRARY_PATH=self.library, RINGPIPE_CONFIG="redis:1",
                           RINGPIPE_OUTPUT=os.path.join(self.folder, "killed-{pid}.nettrace"),
                           RINGPIPE_RECOVER=rings)
        # With its other settings, redis keeps commands back while the disk is slow.
        server = self.serve("--appendonly", "yes", "--appendfsync", "no", env=environment)
        total = 0
        for round_number in range(loads.ROUNDS):
            with self.load(server, "-t", "incr", "-c", "1", "-n", str(ENDLESS)):
                drive.wait_for(lambda: server.command_stats().get("incr", 0) > 1000, "load",
                               [server.process])
                server.stop(signal.SIGKILL)
            trace = os.path.join(self.folder, f"recovered-{round_number}.nettrace")
            [left] = os.listdir(rings)
            subprocess.run([RINGPIPE, "recover", os.path.join(rings, left), "-o", trace],
                           check=True, stderr=subprocess.DEVNULL, timeout=PATIENCE)
            subprocess.run([RINGPIPE, "recover", "--prune", rings], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=PATIENCE)
            incremented = self.counts(self.read(trace))["incr"]
            server.start()
            # The kill may have interrupted one command before it was in the append-only file.
            stored = int(server.run("get", "counter:__rand_int__")[0])
            self.assertIn(incremented - (stored - total), (0, 1))
            total = stored

    def test_sessions_under_load_leave_nothing_behind_in_the_server(self):
        server = self.serve()
        end = time.monotonic() + loads.SECONDS
        uses = []
        with self.load(server, "-t", "get,set,incr,lpush,lpop", "-l"):
            while len(uses) < loads.FEWEST or time.monotonic() < end:
                for tool in ("collect", "record")[:2 if os.getuid() == 0 else 1]:
                    trace = os.path.join(self.folder, f"{tool}.nettrace")
                    command = loads.command_of(tool, trace, server.process.pid, "redis")
                    with loads.session(command, server.process.pid, "redis") as recorder:
                        server.run("bgsave")
                        drive.wait_for(lambda: server.info("persistence")
                                       ["rdb_bgsave_in_progress"] == "0", "the end of the child",
                                       [server.process])
                        loads.end(recorder)
                drive.wait_for(lambda: server.info("ringpipe")["ringpipe_session"] == "0",
                               "the end of the session", [server.process])
                uses.append(loads.used(server.process.pid))
                print("# descriptors, threads, KB:", *uses[-1], flush=True)
        loads.check_growth(self, uses)


if __name__ == "__main__":
    redis_case.main()
