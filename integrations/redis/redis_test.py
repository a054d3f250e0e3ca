#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module in Debian's redis: the trace holds the commands that the server counts."""
import os
import signal
import subprocess
import tempfile
import time

import redis_case
from redis_case import ACTIVITY, CALLER, PATIENCE, TRACE_ID, RedisCase, drive, servers


class RedisTest(RedisCase):
    def benchmark(self, server, *options):
        subprocess.run(["redis-benchmark", "-p", str(server.port), "-q", *options], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE)

    def test_every_command_has_a_span_and_the_counts_equal_commandstats(self):
        server = self.serve()
        with self.recording(server, "--providers", "redis:1") as events:
            server.run("config", "resetstat")
            self.benchmark(server, "-n", "5000", "-P", "16", "-t", "set,get,lpush,mset")
            self.benchmark(server, "-n", "1000", "eval", "return redis.call('incr', 'n')", "0")
            counts = server.command_stats()
        spans = self.counts(events)
        self.check_ends(events)
        # The server counts the reset after it. INFO and the two PINGs are after the counts.
        self.assertEqual(spans.pop("info"), 1)
        self.assertEqual(spans.pop("ping"), 2)
        self.assertEqual(spans, counts)
        self.assertEqual(counts["incr"], 1000)
        stops = self.of_name(events, "commandStop")
        self.assertEqual({stop["ended_by_command"] for stop in stops}, {0, 1})
        for stop in stops:
            limits = (100, 1000, 10000, 100000)
            self.assertEqual(stop["class_below_us"], next(
                (limit for limit in limits if stop["duration_ns"] < limit * 1000), 0))

    def test_the_server_calls_the_module_for_commands_only_while_it_is_needed(self):
        server = self.serve()

        def has_filter():
            return server.info("ringpipe")["ringpipe_filter"] == "1"
        for providers, is_needed in (("redis:1", True), ("redis:2", False), ("redis:20", True)):
            self.assertFalse(has_filter())
            with self.recording(server, "--providers", providers) as events:
                self.assertEqual(has_filter(), is_needed, providers)
                server.run("get", "a")
            self.assertEqual(self.counts(events).get("get", 0), int(providers == "redis:1"))
            drive.wait_for(lambda: server.info("ringpipe")["ringpipe_session"] == "0",
                           "the end of the session", [server.process])
        self.assertFalse(has_filter())

    def test_a_trace_id_changes_no_command_while_no_session_runs(self):
        server = self.serve("--appendonly", "yes")
        client = server.connect()
        for first, reply in ((("get", "a"), "$1 1"), (("set", "b", "2"), "+OK"),
                             (("my-command",), "-ERR unknown command.*"),
                             (("multi",), "-ERR .*"), (("select", "1"), "-ERR .*SELECT.*")):
            server.run("set", "a", "1")
            # The first command with an id has another way through the server than those after it.
            self.assertRegex(client.run("ringpipe.trace", CALLER, *first), reply.replace("$", r"\$")
                             .replace("+", r"\+"))
            self.assertEqual(server.info("ringpipe")["ringpipe_filter"], "1")
            self.assertEqual(client.run("ringpipe.trace", CALLER, "multi"), "+OK")
            self.assertEqual(client.run("ringpipe.trace", CALLER, "get", "a"), "+QUEUED")
            client.send("exec")
            self.assertEqual([client.read(), client.read()], ["*1", "$1 1"])
            client.close()
            server.stop()
            server.start()
            client = server.connect()
        self.assertEqual(server.run("get", "b"), ["2"])
        server.run("acl", "setuser", "reader", "on", "nopass", "~a*", "+get", "+ringpipe.trace")
        self.assertEqual(client.run("auth", "reader", "x"), "+OK")
        # redis 7.0 and Valkey 8.1 refuse the command with these words.
        self.assertRegex(client.run("ringpipe.trace", CALLER, "get", "b"), "^-(ERR acl|NOPERM)")
        self.assertRegex(client.run("ringpipe.trace", CALLER, "set", "a", "3"), "^-NOPERM")
        client.close()
        self.assertEqual(server.run("get", "a"), ["1"])

    def test_an_unloaded_module_is_called_by_no_session(self):
        server = self.serve("--enable-module-command", "local")
        with self.recording(server) as events:
            server.run("get", "a")
        self.assertEqual(self.counts(events)["get"], 1)
        self.assertEqual(server.run("module", "unload", "ringpipe"), ["OK"])
        for _ in range(2):
            with drive.running([redis_case.RINGPIPE, "collect", "--quiet", "-f", "-o", "/dev/null",
                                "-p", str(server.process.pid)]) as recorder:
                self.wait_for_session(server, recorder)
                self.assertEqual(server.run("set", "a", "1"), ["OK"])
                self.assertEqual(drive.interrupt(recorder), 0)
        self.assertEqual(server.run("get", "a"), ["1"])

    def test_a_session_that_ended_while_the_module_was_unloaded_is_forgotten(self):
        server = self.serve("--enable-module-command", "local")
        with drive.running([redis_case.RINGPIPE, "collect", "--quiet", "-f", "-o", "/dev/null",
                            "-p", str(server.process.pid)]) as recorder:
            self.wait_for_session(server, recorder)
            drive.wait_for(lambda: server.info("ringpipe")["ringpipe_session"] == "1",
                           "the session", [recorder])
            self.assertEqual(server.run("module", "unload", "ringpipe"), ["OK"])
            self.assertEqual(drive.interrupt(recorder), 0)
        path = os.path.join(self.module, "ringpipe.so")
        self.assertEqual(server.run("module", "load", path), ["OK"])
        drive.wait_for(lambda: server.info("ringpipe")["ringpipe_session"] == "0",
                       "the end of the session", [server.process])

    def sockets_and_threads(self):
        """Return the sockets of a server before and after a save, and the number of its threads of
        ringpipe. The library opens the socket of other children 100 ms after the fork."""
        folder = tempfile.mkdtemp(dir=self.folder)
        server = self.serve("--rdb-key-save-delay", "300000",
                            env=dict(os.environ, LD_LIBRARY_PATH=self.library, TMPDIR=folder))
        server.run("set", "a", "1")
        before = os.listdir(folder)
        server.run("bgsave")
        drive.wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "0",
                       "the end of the child", [server.process])
        threads, after = 0, os.listdir(folder)
        for task in os.listdir(f"/proc/{server.process.pid}/task"):
            with open(f"/proc/{server.process.pid}/task/{task}/comm", encoding="ascii") as file:
                threads += file.read().startswith("ringpipe")
        self.assertEqual(server.info("persistence")["rdb_last_bgsave_status"], "ok")
        server.stop()
        self.assertEqual(os.listdir(folder), [])
        return before, after, threads

    def test_a_server_has_no_thread_of_ringpipe_and_a_saving_child_leaves_no_socket(self):
        found, end = [], time.monotonic() + PATIENCE
        # Another `ringpipe ps` of the machine may connect to a server, which starts the thread.
        while 0 not in found and (len(found) < 5 or time.monotonic() < end):
            before, after, threads = self.sockets_and_threads()
            self.assertEqual(len(before), 1)
            self.assertEqual(after, before)
            found.append(threads)
        self.assertIn(0, found)

    def test_keys_are_hashed_unless_their_names_are_asked_for(self):
        for arguments, name in (((), ""), (("key-names", "hashed"), ""),
                                (("key-names", "plain"), "user:1")):
            server = self.serve(arguments=arguments)
            with self.recording(server) as events:
                server.run("mset", "user:1", "x", "user:2", "y")
                server.run("get", "user:1")
                server.run("get", "user:2")
            starts = [start for start in self.of_name(events, "commandStart") if start["keys"]]
            self.assertEqual([start["keys"] for start in starts], [2, 1, 1])
            self.assertEqual([start["arguments"] for start in starts], [5, 2, 2])
            self.assertEqual(starts[0]["bytes"], len("msetuser:1xuser:2y"))
            self.assertEqual([start["key"] for start in starts[:2]], [name, name])
            hashes = [start["key_hash"] for start in starts]
            self.assertEqual(hashes[0], hashes[1])
            self.assertNotEqual(hashes[0], hashes[2])
            server.stop()

    def test_the_commands_of_the_readme_work(self):
        server = self.serve()

        def work():
            drive.wait_for(lambda: server.info("ringpipe")["ringpipe_filter"] == "1",
                           "the module's events", [server.process])
            for _ in range(10):
                server.run("incr", "a")

        _, report, info = servers.run_readme(
            redis_case.HERE, self.folder, server.process.pid, "redis", work,
            {"--name redis-server": f"-p {server.process.pid}",
             "redis-cli": f"redis-cli -p {server.port}"})
        self.assertRegex(report, "redis/command +[1-9]")
        self.assertIn("ringpipe_tracing:1", info)

    def test_the_keys_of_a_command_are_those_that_the_server_finds(self):
        server = self.serve(arguments=("key-names", "plain"))
        commands = [text.split() for text in (
            "get k1", "GET k1", "set k1 v ex 9", "get", "get k1 k2", "mget k1 k2 k3",
            "mset k1 1 k2 2", "mset k1 1 k2", "del k1 k2", "rename k1 k2", "bitop and k1 k2 k3",
            "blpop k1 k2 0.01", "object encoding k1", "object", "sort k1 store k2",
            "zunionstore k1 2 k2 k3", "zunion 2 k1 k2", "eval 0 2 k1 k2 a", "ping", "ping k1",
            "xread streams k1 k2 0 0", "memory usage k1", "lmpop 2 k1 k2 left", "touch k1 k2",
            "georadius k1 1 1 1 m store k2", "msetnx k1 v", "migrate 127.0.0.1 1 k1 0 1",
            "xgroup create k1 g 0", "smove k1 k2 k3")]
        with self.recording(server, "--providers", "redis:1") as events:
            for command in commands:
                server.run(*command)
        starts = self.of_name(events, "commandStart")
        for command, start in zip(commands, starts):
            self.assertEqual(start["command"], command[0].lower())
            # The reply is an error where there are no keys.
            keys = [key for key in server.run("command", "getkeys", *command)
                    if key in ("k1", "k2", "k3")]
            self.assertEqual(start["keys"], len(keys), command)
            self.assertIn(start["key"], keys or [""], command)

    def test_a_trace_id_in_front_of_a_command_is_that_of_its_span(self):
        server = self.serve("--appendonly", "yes")
        client = server.connect()
        with self.recording(server) as events:
            self.assertEqual(client.run("RingPipe.trace", CALLER, "set", "a", "1"), "+OK")
            client.run("multi")
            self.assertEqual(client.run("ringpipe.trace", CALLER, "get", "a"), "+QUEUED")
            client.send("exec")
            self.assertEqual([client.read(), client.read()], ["*1", "$1 1"])
            for damaged in ("", CALLER.upper(), CALLER + "0", "x" * 70000):
                self.assertEqual(client.run("ringpipe.trace", damaged, "get", "a"), "$1 1")
            client.send("ringpipe.trace", CALLER, "eval", "return redis.call('get', 'a')", 0)
            client.read()
        client.close()
        starts = [event for event in events if event["event"] == "commandStart"]
        traced = [start for start in starts if start.get("activity") == ACTIVITY]
        self.assertEqual([start["fields"]["command"] for start in traced], ["set", "get", "eval"])
        self.assertTrue(all(start["related_activity"].startswith("b7ad6b71-6920-3331-")
                            for start in traced))
        [child] = [start for start in starts if start.get("related_activity") == ACTIVITY]
        self.assertEqual(child["fields"]["command"], "get")
        # Other servers get the commands without the ids.
        folder = os.path.join(server.folder, "appendonlydir")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                self.assertNotIn(b"ringpipe", file.read())

    def test_a_client_sets_the_trace_of_its_commands_if_filters_get_its_id(self):
        server = self.serve()
        has_ids = server.info("ringpipe")["ringpipe_client_ids"] == "1"
        client, other = server.connect(), server.connect()
        with self.recording(server) as events:
            for wrong in ("x", CALLER[:-1], CALLER.replace("b7", "B7")):
                self.assertRegex(client.run("ringpipe.trace", wrong), "^-ERR")
            reply = client.run("ringpipe.trace", CALLER)
            self.assertRegex(reply, r"^\+OK" if has_ids else "^-ERR.* COMMAND$")
            for number in range(3):
                client.run("incr", "a")
                other.run("incr", "b")
            client.run("ringpipe.trace", "")
            client.run("incr", "a")
            self.assertRegex(client.run("ringpipe.trace"), "^-ERR wrong number")
        client.close()
        other.close()
        traced = [event["fields"] for event in events if event["event"] == "commandStart"
                  and event.get("activity") == ACTIVITY and event["fields"]["command"] == "incr"]
        self.assertEqual(len(traced), 3 if has_ids else 0)
        self.assertEqual(len({start["client"] for start in traced}), 1 if has_ids else 0)
        drive.wait_for(lambda: server.info("ringpipe")["ringpipe_traced_clients"] == "0",
                       "the end of the clients", [server.process])

    def test_an_unloaded_module_forgets_the_traces_of_clients(self):
        server = self.serve("--enable-module-command", "local")
        if server.info("ringpipe")["ringpipe_client_ids"] == "0":
            self.skipTest("filters do not get the id of the client")
        client = server.connect()
        self.assertEqual(client.run("ringpipe.trace", CALLER), "+OK")
        for command in (("unload", "ringpipe"),
                        ("load", os.path.join(self.module, "ringpipe.so"))):
            self.assertEqual(server.run("module", *command), ["OK"])
        self.assertEqual(server.info("ringpipe")["ringpipe_traced_clients"], "0")
        with self.recording(server, "--providers", "redis:1") as events:
            client.run("get", "a")
        client.close()
        self.assertNotIn(ACTIVITY, [event.get("activity") for event in events])

    def test_many_clients_keep_their_own_traces_while_others_leave(self):
        server = self.serve()
        if server.info("ringpipe")["ringpipe_client_ids"] == "0":
            self.skipTest("filters do not get the id of the client")
        clients = [server.connect() for _ in range(200)]
        # Numbers of clients with the same low bits, and some of all.
        for leaving, staying in (((0, 1), (64, 65, 128, 129, 192)), ((64, 192), (128,)),
                                 (range(2, 60), (128, *range(66, 120)))):
            with self.recording(server, "--providers", "redis:1") as events:
                for number in (*leaving, *staying):
                    trace = CALLER.replace(TRACE_ID, f"{number + 1:032x}")
                    self.assertEqual(clients[number].run("ringpipe.trace", trace), "+OK")
                before = int(server.info("ringpipe")["ringpipe_traced_clients"])
                for number in leaving:
                    clients[number].close()
                drive.wait_for(lambda: int(server.info("ringpipe")["ringpipe_traced_clients"]) ==
                               before - len(leaving), "the end of clients", [server.process])
                for number in staying:
                    clients[number].run("get", "a")
            gets = [event["activity"] for event in events if event["event"] == "commandStart"
                    and event["fields"]["command"] == "get"]
            self.assertEqual([int(get.replace("-", ""), 16) - 1 for get in gets], list(staying))
        for client in clients:
            client.close()

    def test_expired_and_evicted_keys_equal_those_of_the_server(self):
        server = self.serve("--maxmemory", "4mb", "--maxmemory-policy", "allkeys-random")
        with self.recording(server, "--providers", "redis:2") as events:
            server.run(text="".join(f"set k{i} v px 1\n" for i in range(50)))
            drive.wait_for(lambda: server.info("stats")["expired_keys"] == "50", "expirations",
                           [server.process])
            self.benchmark(server, "-n", "3000", "-r", "100000", "-d", "1500", "-t", "set")
            evicted = int(server.info("stats")["evicted_keys"])
            server.run("flushall")
        self.assertEqual(len(self.of_name(events, "key_expired")), 50)
        self.assertGreater(evicted, 0)
        self.assertEqual(len(self.of_name(events, "key_evicted")), evicted)
        self.assertEqual([flush["database"] for flush in self.of_name(events, "flushed")], [-1])

    def test_entries_of_the_slow_log_are_events(self):
        server = self.serve("--slowlog-log-slower-than", "0", "--slowlog-max-len", "1000")
        with self.recording(server, "--providers", "redis:20") as events:
            client = server.connect()
            for _ in range(20):
                client.run("set", "secret", "value")
            client.close()
            server.run("config", "set", "slowlog-log-slower-than", "-1")
            server.run("get", "secret")
            [length] = server.run("slowlog", "len")
        entries = self.of_name(events, "slow_command")
        self.assertEqual(len([entry for entry in entries if entry["command"] == "set"]), 20)
        self.assertEqual([entry["entry"] for entry in entries],
                         sorted({entry["entry"] for entry in entries}))
        # The module's last reading of the log is in the log, too.
        self.assertEqual(entries[-1]["entry"] + 2, int(length))
        self.assertNotIn("secret", str(entries))
        self.assertFalse([entry for entry in entries if entry["command"] == "get"])

    def test_a_saving_child_is_reported_and_the_server_is_restored_from_its_file(self):
        server = self.serve("--dbfilename", "d.rdb")
        server.run(text="".join(f"set k{i} v\n" for i in range(1000)))
        with self.recording(server) as events:
            for _ in range(2):
                server.run("bgsave")
                drive.wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "0",
                               "the end of the child", [server.process])
            server.run("get", "k1")
            server.run("save")
        self.assertEqual([(event["kind"], event["state"], event["in_child"])
                          for event in self.of_name(events, "persistence")],
                         [("RDB", "started", True), ("RDB", "ended", True)] * 2 +
                         [("RDB", "started", False), ("RDB", "ended", False)])
        self.assertEqual(self.counts(events)["get"], 1)
        processes = {event.get("process_id", server.process.pid) for event in events}
        self.assertEqual(processes, {server.process.pid})
        server.stop(signal.SIGKILL)
        server.start()
        self.assertEqual(server.run("dbsize"), ["1000"])
        with self.recording(server) as events:
            server.run("get", "k1")
        self.assertEqual(self.counts(events)["get"], 1)

    def test_the_server_starts_without_the_library_and_reports_it(self):
        server = self.serve(env=dict(os.environ, LD_LIBRARY_PATH=""))
        text = "libringpipe.so.1: cannot open shared object file"
        self.assertIn(text, server.log())
        info = server.info("ringpipe")
        self.assertEqual(info["ringpipe_tracing"], "0")
        self.assertIn(text, info["ringpipe_reason"])
        self.assertEqual(server.run("ringpipe.trace", CALLER, "set", "a", "1"), ["OK"])
        self.assertEqual(server.run("ringpipe.trace", CALLER), ["OK"])
        self.assertEqual(server.run("get", "a"), ["1"])

    def test_a_library_of_another_version_is_reported(self):
        folder = os.path.join(self.folder, "old")
        os.mkdir(folder)
        subprocess.run(["cc", "-shared", "-o", folder + "/libringpipe.so.1", "-x", "c",
                        "-Wl,-soname,libringpipe.so.1", "-"], check=True, timeout=PATIENCE,
                       input=b"int unused;")
        server = self.serve(env=dict(os.environ, LD_LIBRARY_PATH=folder))
        self.assertRegex(server.info("ringpipe")["ringpipe_reason"], "libringpipe.so.1|symbol")
        self.assertEqual(server.run("set", "a", "1"), ["OK"])

    def test_wrong_arguments_are_refused(self):
        for wrong in (("key-names",), ("key-names", "some"), ("keys", "plain"), ("plain",)):
            with self.assertRaises(drive.Failure):
                self.serve(arguments=wrong)
            with open(os.path.join(self.folder, os.listdir(self.folder)[-1], "log"),
                      encoding="utf-8") as log:
                self.assertIn("ringpipe: ", log.read())

    def test_what_is_no_command_is_not_shown(self):
        server = self.serve()
        client = server.connect()
        with self.recording(server) as events:
            client.run("my-password", "x")
            client.run(b"\xff\x00\r\n", b"\x00")
            client.run("get")
            client.run("set", "k" * 100000, b"\xff" * 3)
            self.assertEqual(client.run("mget", *range(1000)), "*1000")
        client.close()
        names = [start["command"] for start in self.of_name(events, "commandStart")]
        self.assertEqual(names[:5], ["(unknown)", "(unknown)", "get", "set", "mget"])
        self.assertEqual([start["keys"] for start in self.of_name(events, "commandStart")][2:5],
                         [0, 1, 1000])


if __name__ == "__main__":
    redis_case.main()
