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
from redis_case import PATIENCE, RINGPIPE, RedisCase, Server, drive, servers

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

        def is_linked():
            return replica.info("replication")["master_link_status"] == "up"

        def is_replicated(count):
            return master.info("replication")["connected_slaves"] == count
        with self.recording(replica, "--providers", "redis:10") as events:
            replica.run("replicaof", "127.0.0.1", master.port)
            drive.wait_for(is_linked, "the link", [replica.process])
            replica.run("replicaof", "no", "one")
        drive.wait_for(lambda: is_replicated("0"), "the end of the replica", [master.process])
        with self.recording(master, "--providers", "redis:10") as of_master:
            replica.run("replicaof", "127.0.0.1", master.port)
            drive.wait_for(is_linked, "the link", [replica.process])
            drive.wait_for(lambda: "state=online" in master.info("replication")["slave0"],
                           "the replica", [master.process])
            replica.run("replicaof", "no", "one")
            drive.wait_for(lambda: is_replicated("0"), "the end of the replica",
                           [master.process])
        self.assertEqual([event["state"] for event in self.of_name(of_master, "replica")],
                         ["online", "offline"])
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

    def test_commands_that_wait_are_queued_or_fail_have_the_spans_that_the_server_counts(self):
        server, other = self.serve("--appendonly", "yes"), self.serve()
        client, waiting = server.connect(), server.connect()
        with self.recording(server, "--providers", "redis:1") as events:
            server.run("config", "resetstat")
            for reader in (("blpop", "list", 0), ("xread", "block", 0, "streams", "stream", "$"),
                           ("wait", 1, 1), ("blmove", "list", "to", "left", "right", "0.01")):
                waiting.send(*reader)
                drive.wait_for(lambda: server.info("clients")["blocked_clients"] == "1" or
                               reader[0] in ("wait", "blmove"), "a blocked client",
                               [server.process])
                client.run("lpush" if reader[0] == "blpop" else "xadd",
                           *(("list", "x") if reader[0] == "blpop" else
                             ("stream", "*", "a", "b")))
            waiting.run("client", "no-evict", "off")
            for queued in (("multi",), ("incr", "a"), ("get", "a"), ("exec",),
                           ("multi",), ("no-command",), ("exec",), ("hello", "2")):
                client.run(*queued)
            server.run("-3", "hgetall", "none")
            server.run("function", "load", "#!lua name=l\nredis.register_function('f', "
                       "function(keys) return redis.call('get', keys[1]) end)")
            server.run("fcall", "f", 1, "a")
            server.run("eval", "redis.call('incr', 'a'); redis.pcall('lpush', 'a', 1)", 0)
            server.run("acl", "setuser", "reader", "on", "nopass", "~b*", "+get")
            for denied in ("set b 1", "get a", "get b"):
                server.run("--user", "reader", "--pass", "x", *denied.split())
            blocked = server.connect()
            blocked.run("client", "setname", "victim")
            identity = blocked.run("client", "id").lstrip(":")
            blocked.send("blpop", "none", 0)
            drive.wait_for(lambda: server.info("clients")["blocked_clients"] == "1",
                           "a blocked client", [server.process])
            server.run("client", "kill", "id", identity)
            blocked.close()
            client.socket.sendall(b"*2\r\n$3\r\nget\r\n$1\r\na\r\n" * 1000)
            for _ in range(1000):
                client.read()
            server.run("migrate", "127.0.0.1", other.port, "a", 0, 1000)
            self.assertEqual(other.run("get", "a"), ["2"])
            server.run("flushall", "async")
            counts, rejected = server.command_stats(), server.command_stats("rejected_calls")
        waiting.close()
        client.close()
        spans = self.counts(events)
        self.check_ends(events)
        # The counts do not contain the two INFOs that read them, nor the two PINGs after these.
        spans["info"] -= 2
        self.assertEqual((spans.pop("ping"), spans.pop("(unknown)")), (2, 1))
        self.assertEqual(rejected, {"get": 1, "set": 1})
        # Valkey does not count a command whose client ends while it waits.
        spans["blpop"] -= "valkey_version" in server.info("server")
        self.assertEqual(spans, {name: counts.get(name, 0) + rejected.get(name, 0)
                                 for name in counts | rejected})

    def test_a_node_of_a_cluster_has_spans_for_commands_that_it_rejects(self):
        # The port of the bus would be 10,000 above the server's, among those of clients.
        server = self.serve("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no",
                            "--cluster-port", str(servers.free_port()))
        server.run("cluster", "addslotsrange", "0", "8000")
        drive.wait_for(lambda: "cluster_state:ok" in server.run("cluster", "info"),
                       "the slots", [server.process])
        with self.recording(server, "--providers", "redis:1") as events:
            server.run("config", "resetstat")
            for number in range(20):
                server.run("set", number, "x")
            counts, rejected = server.command_stats(), server.command_stats("rejected_calls")
        self.assertEqual(self.counts(events)["set"], 20)
        self.assertEqual(counts.get("set", 0) + rejected.get("set", 0), 20)
        self.assertGreater(counts["set"], 0)
        self.assertGreater(rejected["set"], 0)

    def test_evictions_by_each_policy_equal_those_of_the_server(self):
        server = self.serve()
        for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru",
                       "volatile-lfu", "volatile-random", "volatile-ttl"):
            with self.recording(server, "--providers", "redis:2") as events:
                server.run("config", "resetstat")
                server.run("config", "set", "maxmemory", "3mb", "maxmemory-policy", policy)
                server.run(text="".join(f"set k{i} {'x' * 1000} ex 1000\n"
                                        for i in range(3000)))
                server.run("config", "set", "maxmemory", "0")
                evicted = int(server.info("stats")["evicted_keys"])
            self.assertGreater(evicted, 0, policy)
            self.assertEqual(len(self.of_name(events, "key_evicted")), evicted, policy)

    def test_a_rewritten_append_only_file_and_failed_saves_are_reported(self):
        gone = os.path.join(self.folder, "gone")
        os.mkdir(gone)
        server = self.serve("--appendonly", "yes", "--dir", gone)

        def has_ended(kind):
            return server.info("persistence")[kind + "_in_progress"] == "0"
        with self.recording(server, "--providers", "redis:8") as events:
            server.run("set", "a", "1")
            server.run("bgrewriteaof")
            drive.wait_for(lambda: has_ended("aof_rewrite"), "the end of the child",
                           [server.process])
            server.run("config", "set", "appendonly", "no")
            # The name of the file cannot be given to the file that was written.
            os.mkdir(os.path.join(gone, "dump.rdb"))
            self.assertRegex(server.run("save")[0], "^ERR")
            shutil.rmtree(gone)
            server.run("bgsave")
            drive.wait_for(lambda: has_ended("rdb_bgsave"), "the end of the child",
                           [server.process])
        saves = [(event["kind"], event["state"], event["in_child"]) for event in
                 self.of_name(events, "persistence")]
        self.assertEqual([save[:2] for save in saves if save[2]],
                         [("AOF", "started"), ("AOF", "ended"), ("RDB", "started"),
                          ("RDB", "failed")])
        self.assertEqual([save[:2] for save in saves if not save[2]],
                         [("RDB", "started"), ("RDB", "failed")])

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
