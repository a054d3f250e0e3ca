#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module under load, with several tools, and when the server or the disk fails."""
import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import unittest

import redis_case
import redis_test
from redis_case import PATIENCE, RINGPIPE, RedisCase, Server, drive, tracers

REQUESTS = 20000


if shutil.which("valkey-server"):  # not in Debian 12
    class ValkeyTest(redis_test.RedisTest):
        program = "valkey-server"


class RedisLongTest(RedisCase):
    def load(self, server, requests=REQUESTS):
        return subprocess.Popen(["redis-benchmark", "-p", str(server.port), "-q", "-n",
                                 str(requests), "-t", "get"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def run_load(self, server):
        with self.load(server) as load:
            self.assertEqual(load.wait(PATIENCE), 0)

    def gets(self, server):
        return server.command_stats().get("get", 0)

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_record_and_two_sessions_hold_what_the_server_counts(self):
        server = self.serve()
        before = self.gets(server)
        trace = os.path.join(self.folder, "record.nettrace")
        command = [RINGPIPE, "record", "-f", "-o", trace, "--providers", "redis:1", "-p",
                   str(server.process.pid)]
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            self.wait_for_session(server, recorder)
            with self.recording(server, "--providers", "redis:1") as events:
                self.run_load(server)
                count = self.gets(server) - before
            self.assertEqual(drive.interrupt(recorder), 0)
        self.assertEqual(self.counts(events)["get"], count)
        recorded = self.counts(self.read(trace))
        self.assertEqual(recorded["get"], count)

    @unittest.skipUnless(os.getuid() == 0, "bpftrace and record require root")
    def test_all_tools_at_the_same_time_count_what_the_server_counts(self):
        if tracers.missing():
            self.skipTest(f"no {tracers.missing()}")
        with contextlib.ExitStack() as stack:
            lttng = stack.enter_context(contextlib.closing(tracers.Lttng(self.folder)))
            count_by_lttng = stack.enter_context(lttng.session("redis:command_stop"))
            # The module's own calls of SLOWLOG GET would be in commandstats, without spans.
            environment = dict(lttng.environment, LD_LIBRARY_PATH=self.library)
            server = self.serve("--slowlog-log-slower-than", "-1", env=environment,
                                wrapper=lttng.inside)
            count_by_bpftrace = stack.enter_context(tracers.bpftrace(
                server.process.pid, os.path.join(self.module, "ringpipe_tracing.so"),
                "redis:command_stop"))
            trace = os.path.join(self.folder, "record.nettrace")
            recorder = stack.enter_context(drive.running(
                [RINGPIPE, "record", "-f", "-o", trace, "--providers", "redis:1", "-p",
                 str(server.process.pid)], stderr=subprocess.DEVNULL))
            self.wait_for_session(server, recorder)
            with self.recording(server, "--providers", "redis:1") as events:
                before = sum(server.command_stats().values())
                self.run_load(server)
                added = sum(server.command_stats().values()) - before
            self.assertEqual(drive.interrupt(recorder), 0)
            # bpftrace has the commands before the other tools began, and until the last PING.
            total = sum(server.command_stats().values())
            counts = {"bpftrace": count_by_bpftrace(), "lttng": count_by_lttng(),
                      "record": len(self.of_name(self.read(trace), "commandStop"))}
        # The first INFO is not counted in `before`; the last one and two PINGs follow `added`.
        self.assertEqual(len(self.of_name(events, "commandStop")), added + 3)
        for name, count in counts.items():
            # The others may end before the round of the last PING does.
            self.assertGreaterEqual(count, added + 2, counts)
            self.assertLessEqual(count, total + 1, (name, counts))

    @unittest.skipUnless(shutil.which("dotnet"), "no .NET SDK")
    def test_dotnet_trace_holds_what_the_server_counts(self):
        program = tracers.install_dotnet_trace()
        server = self.serve()
        before = self.gets(server)
        trace = os.path.join(self.folder, "dotnet.nettrace")
        with tracers.dotnet_trace(program, server.process.pid, "redis:1:5", trace) as recorder:
            self.wait_for_session(server, recorder)
            self.run_load(server)
            count = self.gets(server) - before
            self.assertEqual(drive.interrupt(recorder), 0)
        self.assertEqual(self.counts(self.read(trace))["get"], count)

    def test_the_server_recovers_from_kill_under_load_and_is_traced_again(self):
        server = self.serve("--appendonly", "yes", "--appendfsync", "always")
        for _ in range(3):
            server.run("incr", "n")
            with self.load(server, 1000000):
                drive.wait_for(lambda: self.gets(server) > 100, "load", [server.process])
                server.stop(signal.SIGKILL)
            server.start()
            with self.recording(server) as events:
                server.run("get", "n")
            self.assertEqual(self.counts(events)["get"], 1)
        self.assertEqual(server.run("get", "n"), ["3"])

    def test_a_restart_ends_the_trace_with_all_commands(self):
        server = self.serve()
        trace = os.path.join(self.folder, "restart.nettrace")
        command = [RINGPIPE, "collect", "--quiet", "-f", "-o", trace, "-p",
                   str(server.process.pid)]
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            self.wait_for_session(server, recorder)
            before = self.gets(server)
            self.run_load(server)
            count = self.gets(server) - before
            server.run("shutdown", "nosave")
            recorder.wait(PATIENCE)
        events = self.read(trace)
        self.assertEqual(self.counts(events, "commandStart")["get"], count)
        self.assertEqual(len([event for event in events if event["event"] == "shutdown"]), 1)
        server.process.wait(PATIENCE)
        server.start()
        with self.recording(server) as events:
            server.run("get", "a")
        self.assertEqual(self.counts(events)["get"], 1)

    def test_a_replica_and_its_master_report_their_link(self):
        master = self.serve("--repl-diskless-sync-delay", "0")
        replica = self.serve()
        with self.recording(replica, "--providers", "redis:10") as events:
            replica.run("replicaof", "127.0.0.1", master.port)
            drive.wait_for(lambda: replica.info("replication")["master_link_status"] == "up",
                           "the link", [replica.process])
            replica.run("replicaof", "no", "one")
        self.assertEqual([(event["role"], event["master_port"])
                          for event in self.of_name(events, "role_changed")],
                         [("replica", master.port), ("master", 0)])
        self.assertEqual([event["state"] for event in self.of_name(events, "master_link")][:2],
                         ["up", "down"])

    def test_blocked_clients_are_sampled(self):
        server = self.serve()
        client = server.connect()
        with self.recording(server, "--providers", "redis:4") as events:
            client.send("blpop", "list", "0")
            def sampled():
                return server.info("clients")["blocked_clients"] == "1"
            drive.wait_for(sampled, "a blocked client", [server.process])
            # Within the next call of the server's cron.
            cron = int(server.info("server")["lru_clock"]) + 2
            drive.wait_for(lambda: int(server.info("server")["lru_clock"]) >= cron, "the cron",
                           [server.process])
            server.run("lpush", "list", "x")
            client.read()
        client.close()
        self.assertEqual([event["clients"] for event in
                          self.of_name(events, "clients_blocked")][:1], [1])

    def test_a_full_disk_stops_neither_the_server_nor_its_commands(self):
        server = self.serve()
        with drive.running([RINGPIPE, "collect", "--quiet", "-f", "-o", "/dev/full", "-p",
                            str(server.process.pid)], stderr=subprocess.PIPE) as recorder:
            self.run_load(server)
            status = drive.interrupt(recorder)
            with recorder.stderr:
                self.assertIn(b"No space left on device", recorder.stderr.read())
        self.assertNotEqual(status, 0)
        self.assertEqual(server.run("set", "a", "1"), ["OK"])
        with self.recording(server) as events:
            server.run("get", "a")
        self.assertEqual(self.counts(events)["get"], 1)

    @unittest.skipUnless(os.getuid() == 0, "chroot requires root")
    def test_a_server_in_a_chroot_is_found_by_its_process(self):
        root = os.path.join(self.folder, "root")
        needed = ["/usr/bin/redis-server", os.path.join(self.module, "ringpipe.so"),
                  os.path.join(self.module, "ringpipe_tracing.so")]
        environment = dict(os.environ, LD_LIBRARY_PATH=self.library, TMPDIR="/tmp")
        for path in list(needed):
            done = subprocess.run(["ldd", path], check=True, stdout=subprocess.PIPE, text=True,
                                  env=environment, timeout=PATIENCE)
            needed += re.findall(r"(/\S+) \(0x", done.stdout)
        for path in set(needed):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        for folder in ("/data", "/tmp", "/proc"):
            os.makedirs(root + folder, exist_ok=True)
        # The mount ends with the namespace.
        server = Server(self.module, "/data", env=environment)
        self.addCleanup(server.stop)
        server.start(wrapper=["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$1/proc" && '
                              'exec chroot "$@"', "sh", root])
        with self.recording(server) as events:
            server.run("get", "a")
        self.assertEqual(self.counts(events)["get"], 1)

    def test_memory_that_is_never_writable_and_executable_suffices(self):
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        # PR_SET_MDWE and PR_GET_MDWE, since Linux 6.3; MemoryDenyWriteExecute of systemd.
        if prctl(66, 0, 0, 0, 0) < 0:
            self.skipTest("the kernel has no PR_SET_MDWE")
        server = self.serve(preexec_fn=lambda: prctl(65, 1, 0, 0, 0))
        with self.recording(server) as events:
            server.run("get", "a")
        self.assertEqual(self.counts(events)["get"], 1)

    def test_the_counters_equal_the_commands(self):
        server = self.serve()
        rows = os.path.join(self.folder, "counters.json")
        command = [RINGPIPE, "counters", "collect", "--format", "json", "-f", "-o", rows,
                   "--refresh", "1", "--counters", "redis", "-p", str(server.process.pid)]

        def total(name):
            with open(rows, encoding="utf-8") as file:
                return [float(value) for value in
                        re.findall(rf'"{name}[^"]*"[^}}]*?"value":([0-9.]+)', file.read())]

        with drive.running(command, stderr=subprocess.DEVNULL) as collector:
            drive.wait_for(lambda: os.path.exists(rows) and total("Keyspace|keyspace_misses"),
                           "counters", [collector])
            for _ in range(50):
                server.run("get", "missing")
            drive.wait_for(lambda: sum(total("Lookups that found no key")) >= 50 or
                           sum(total("keyspace_misses")) >= 50, "50 lookups", [collector])
            drive.interrupt(collector)
        self.assertEqual(sum(total("Lookups that found no key")) or sum(total("keyspace_misses")),
                         50)


if __name__ == "__main__":
    redis_case.main()
