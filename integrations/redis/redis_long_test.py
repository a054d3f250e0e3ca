#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module under load, with several tools, and when the server or the disk fails."""
import ctypes
import os
import re
import shutil
import subprocess
import unittest

import redis_case
from redis_case import PATIENCE, RINGPIPE, RedisCase, Server, drive

REQUESTS = 20000


class RedisLongTest(RedisCase):
    def load(self, server, requests=REQUESTS):
        return subprocess.Popen(["redis-benchmark", "-p", str(server.port), "-q", "-n",
                                 str(requests), "-t", "get"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def run_load(self, server):
        with self.load(server) as load:
            self.assertEqual(load.wait(PATIENCE), 0)

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
        program = shutil.which(self.program)
        needed = [program, os.path.join(self.module, "ringpipe.so"),
                  os.path.join(self.module, "ringpipe_tracing.so")]
        environment = dict(os.environ, LD_LIBRARY_PATH=self.library, TMPDIR="/tmp", LC_ALL="C")
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
        server = Server(self.module, "/data", program=program, env=environment)
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
