#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The extension in Debian's PostgreSQL: longer tests of wrong arguments, samples, crashes, and
servers without the library."""
import collections
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from postgresql_server import PATIENCE, drive, run, servers, why_not
from postgresql_test import RINGPIPE, WithExtension, WithLoad, WithServer, of_name, read


class OtherServersTest(WithServer):
    """Servers that start without the library, or with another one."""
    def setUp(self):
        self.addCleanup(self.server.stop)

    def start_with(self, libraries):
        self.server.environment["LD_LIBRARY_PATH"] = libraries
        self.server.start()
        self.assertEqual(self.server.sql("SELECT 1"), [["1"]])
        with open(self.server.log, encoding="utf-8") as log:
            return log.read(), self.server.sql("CREATE EXTENSION ringpipe", check=False)

    def test_a_server_without_the_library_starts_and_reports_it(self):
        log, error = self.start_with("")
        for text in (log, error):
            self.assertIn("libringpipe.so.1: cannot open shared object file", text)
        self.assertIn("HINT:  Install the version of libringpipe", log)

    def test_a_server_with_another_version_of_the_library_starts_and_reports_it(self):
        other = tempfile.mkdtemp(dir=self.root)
        os.chmod(other, 0o755)
        run(["cc", "-shared", "-x", "c", "/dev/null", "-Wl,-soname,libringpipe.so.1", "-o",
             other + "/libringpipe.so.1"])
        log, error = self.start_with(other)
        for text in (log, error):
            self.assertIn("RINGPIPE_1", text)
        self.assertIn("WARNING:  ringpipe is not loaded", log)

    def test_functions_refuse_without_shared_preload_libraries(self):
        self.server.environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        self.server.start("")
        self.server.sql("CREATE EXTENSION ringpipe")
        for function in ("start('a', '/tmp')", "stop(1)", "sessions()", "counters()"):
            self.assertIn("must be in shared_preload_libraries", self.server.sql(
                f"SELECT ringpipe_{function}", check=False))


class ReplicationTest(WithExtension):
    """A server that is the subscriber of its own publication."""
    @classmethod
    def setUpClass(cls):
        WithServer.setUpClass.__func__(cls)
        cls.server.more = "wal_level = logical"
        cls.server.start()
        cls.server.sql("CREATE EXTENSION ringpipe", "CREATE TABLE numbers AS SELECT n FROM "
                       "generate_series(1, 5000) AS n", "CREATE DATABASE subscriber",
                       "CREATE PUBLICATION published FOR TABLE numbers",
                       "SELECT pg_create_logical_replication_slot('published', 'pgoutput')")
        cls.server.sql("\\c subscriber", "CREATE TABLE numbers (n int)")

    def wait_for_rows(self, count):
        drive.wait_for(lambda: self.server.sql("\\c subscriber", "SELECT count(*) FROM numbers")
                       == [[str(count)]], f"{count} rows", [self.server.process])

    def test_statements_of_logical_replication_are_complete(self):
        number = self.begin("postgresql:1")
        self.server.sql("\\c subscriber", "CREATE SUBSCRIPTION s CONNECTION 'host="
                        f"{self.server.folder} user=admin dbname=postgres' PUBLICATION published "
                        "WITH (create_slot = false, slot_name = published)")
        self.wait_for_rows(5000)
        self.server.sql("INSERT INTO numbers SELECT n FROM generate_series(1, 100) AS n")
        self.wait_for_rows(5100)
        self.server.sql("\\c subscriber", "ALTER SUBSCRIPTION s DISABLE")
        self.end(number)
        commands = collections.Counter()
        for events in self.events().values():
            starts = [start["command"] for start in of_name(events, "queryStart")]
            stops = of_name(events, "queryStop")
            # The call of ringpipe_stop() ends the session before its own statement.
            if len(starts) != len(stops):
                self.assertEqual((starts[-1], len(starts)), ("SELECT", len(stops) + 1))
            for command, stop in zip(starts, stops):
                commands[command] += stop["rows"]
        self.assertEqual((commands["COPY"], commands["INSERT"]), (5000, 100))


class LongTest(WithLoad):
    def test_wrong_arguments_of_a_session_are_refused(self):
        for arguments, text in (
                ("'a:xyz', '/tmp'", "from \"xyz\" on"), ("'', '/tmp'", "invalid list of"),
                ("'a', 'here'", "not the absolute path"), ("'a', '/missing'", "cannot start"),
                ("'a', '/etc'", "cannot start a session"), ("'a', '/tmp', 0", "1 to 1024 MB"),
                ("'a', '/tmp', -5", "1 to 1024 MB"),
                ("'a' || repeat(',a', 999), '/tmp'", "too long")):
            error = self.server.sql(f"SELECT ringpipe_start({arguments})", check=False)
            self.assertIn(text, error, arguments)
        self.assertEqual(self.server.sql("SELECT count(*) FROM ringpipe_sessions() WHERE running"),
                         [["0"]])
        self.assertEqual(self.server.sql("SELECT ringpipe_stop(-1)"), [["f"]])
        started = [self.begin() for _ in range(8)]
        self.assertIn("8 sessions", self.server.sql(
            f"SELECT ringpipe_start('a', '{self.traces}')", check=False))
        for number in started:
            self.server.sql(f"SELECT ringpipe_stop({number})")

    def wait_for_samples(self, process):
        def samples():
            return int(dict(self.server.sql("SELECT * FROM ringpipe_counters()"))["samples"])
        before = samples()
        drive.wait_for(lambda: samples() > before + 1, "samples", [process])

    def test_the_progress_of_a_vacuum_is_sampled(self):
        # It waits after each page, and is cancelled.
        slow = ("-c", "SET vacuum_cost_delay = 100", "-c", "SET vacuum_cost_limit = 1", "-c",
                "VACUUM (DISABLE_PAGE_SKIPPING) numbers")
        with self.collect("ringpipe sampler", "postgresql-samples") as events:
            with drive.running([self.programs + "/psql", "-qXAt", *slow],
                               env=self.server.environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL) as vacuum:
                def progress():
                    return self.server.sql("SELECT pid, relid, datid, heap_blks_total FROM "
                                           "pg_stat_progress_vacuum WHERE heap_blks_total > 0")
                [row] = drive.wait_for(progress, "a vacuum", [vacuum])
                self.wait_for_samples(vacuum)
                self.server.sql(f"SELECT pg_cancel_backend({row[0]})")
                vacuum.wait(PATIENCE)
        samples = of_name(events, "vacuum")
        self.assertEqual({(str(sample["pid"]), str(sample["relation"]), str(sample["database"]),
                           str(sample["blocks_total"])) for sample in samples
                          if sample["phase"] == 1}, {tuple(row)})

    def test_lines_of_functions_are_secret_in_automatic_vacuums(self):
        self.server.sql(
            "CREATE FUNCTION tell(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN "
            "PERFORM count(*) FROM pg_am; RAISE LOG 'my-secret %', n; RETURN n; END $$",
            "CREATE TABLE told AS SELECT n FROM generate_series(1, 100) AS n",
            "CREATE INDEX ON told (tell(n))")
        self.addCleanup(self.server.sql, "DROP TABLE told")
        self.addCleanup(self.server.reload)
        self.addCleanup(self.server.configure, "pg_stat_statements,ringpipe")
        number = self.begin("postgresql-log")
        self.server.more = ("autovacuum = on\nautovacuum_naptime = 1s\n"
                            "log_autovacuum_min_duration = 0\n")
        self.server.configure("pg_stat_statements,ringpipe")
        self.server.more = ""
        self.server.sql("ALTER TABLE told SET (autovacuum_analyze_threshold = 0, "
                        "autovacuum_analyze_scale_factor = 0)", "INSERT INTO told VALUES (101)")
        self.server.reload()
        drive.wait_for(lambda: self.server.sql(
            "SELECT 1 FROM pg_stat_user_tables WHERE relname = 'told' AND autoanalyze_count > 0"),
            "an analysis")
        self.end(number)
        texts = [line["text"] for events in self.events().values()
                 for line in of_name(events, "notice")]
        self.assertIn("%s", texts)
        self.assertTrue(any(text.startswith("automatic analyze of table") for text in texts))
        self.assertFalse([text for text in texts if "my-secret" in text])

    def test_waits_for_locks_are_sampled_with_the_owner(self):
        psql = [self.programs + "/psql", "-qXAt"]
        owner = subprocess.Popen(psql, env=self.server.environment, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(owner.communicate)
        print("BEGIN; LOCK numbers; SELECT pg_backend_pid();", file=owner.stdin, flush=True)
        owner_pid = int(owner.stdout.readline())
        with self.collect("ringpipe sampler", "postgresql-samples") as events:
            with drive.running([*psql, "-c", "SELECT count(*) FROM numbers"],
                               env=self.server.environment, stdout=subprocess.DEVNULL) as waiter:
                def waits():
                    rows = self.server.sql("SELECT pid FROM pg_locks WHERE NOT granted")
                    return rows[0][0] if rows else None

                waiter_pid = int(drive.wait_for(waits, "a wait", [waiter]))
                self.wait_for_samples(waiter)
                print("COMMIT;", file=owner.stdin, flush=True)
                self.assertEqual(waiter.wait(PATIENCE), 0)
        waits = of_name(events, "lock_wait")
        self.assertEqual({(wait["pid"], wait["owner_pid"], wait["owner_mode"], wait["mode"])
                          for wait in waits},
                         {(waiter_pid, owner_pid, "AccessExclusiveLock", "AccessShareLock")})
        [[relation]] = self.server.sql("SELECT 'numbers'::regclass::oid")
        self.assertEqual({str(wait["relation"]) for wait in waits}, {relation})
        self.assertIn(("Lock", "relation"), {(wait["wait_type"], wait["wait_event"])
                                             for wait in of_name(events, "wait")})
        self.assertTrue(of_name(events, "writes"))

    def has_session(self, pid):
        return bool(servers.sessions(pid, "postgresql", self.server.environment))

    def test_a_statement_of_a_trigger_is_a_child_of_the_statement_that_fires_it(self):
        self.server.sql(
            "CREATE TABLE fired (n int)", "CREATE FUNCTION fire() RETURNS trigger LANGUAGE "
            "plpgsql AS $$ BEGIN PERFORM count(*) FROM numbers; RETURN NULL; END $$",
            "CREATE TRIGGER fire AFTER INSERT ON fired FOR EACH ROW EXECUTE FUNCTION fire()")
        events = self.record(
            "INSERT INTO fired VALUES (1)",
            "WITH added AS (INSERT INTO fired VALUES (2) RETURNING n) SELECT n FROM added")
        starts = [event for event in events if event["event"] == "queryStart"]
        by_activity = {start["activity"]: start["fields"]["command"] for start in starts}
        self.assertEqual([by_activity.get(start.get("related_activity")) for start in starts
                          if start["fields"]["depth"] == 1], ["INSERT", "SELECT"])

    def test_parallel_workers_write_their_own_statements(self):
        number = self.begin("postgresql")
        rows = self.server.sql(
            "SET parallel_setup_cost = 0", "SET parallel_tuple_cost = 0",
            "SET min_parallel_table_scan_size = 0", "SET parallel_leader_participation = off",
            "SELECT count(*) FROM numbers", "SELECT pg_backend_pid()")
        self.end(number)
        leader = int(rows[-1][0])
        workers = {pid for pid, events in self.events().items()
                   for start in of_name(events, "queryStart") if start["is_parallel_worker"]}
        self.assertTrue(workers)
        self.assertNotIn(leader, workers)

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("bpftrace"), "bpftrace requires root")
    def test_all_tools_at_the_same_time_count_the_same(self):
        number = self.begin("postgresql")
        open_gate = self.gate()
        with self.probes() as probes:
            bench, pids = self.load(300)
            for pid in pids:
                drive.wait_for(lambda pid=pid: self.has_session(pid), "its own session", [bench])
            trace = self.traces + "/record"
            record = [RINGPIPE, "record", "-f", "-o", trace, "--providers", "postgresql", "-p",
                      str(self.server.pids()["postmaster"])]
            with contextlib.ExitStack() as stack:
                tools = [stack.enter_context(drive.running(
                    record, stderr=subprocess.DEVNULL, env=self.server.environment))]
                for pid in pids:
                    tools.append(stack.enter_context(drive.running(
                        [RINGPIPE, "collect", "-f", "-o", f"{self.traces}/collect-{pid}",
                         "--providers", "postgresql", "-p", str(pid)],
                        stderr=subprocess.DEVNULL, env=self.server.environment)))
                for pid, collector in zip(pids, tools[1:]):
                    for tool in tools[0], collector:
                        servers.wait_for_session(pid, "postgresql", tool,
                                                 self.server.environment)
                open_gate()
                self.assertEqual(bench.wait(PATIENCE), 0)
                for tool in tools:
                    self.assertEqual(drive.interrupt(tool), 0)
        self.end(number)
        own = self.events()
        recorded = collections.Counter(
            event["process_id"] for event in read(trace) if event["event"] == "queryStop")
        for pid in pids:
            stops = len(of_name(own[pid], "queryStop"))
            self.assertEqual(stops, 3 * 300, pid)
            # One statement of three writes, and has the probe twice.
            self.assertEqual(probes["query__execute__start", pid], stops + 300)
            # The tools came while the first statement waited.
            self.assertEqual(recorded[pid], stops)
            collected = read(f"{self.traces}/collect-{pid}")
            self.assertEqual(len(of_name(collected, "queryStop")), stops)
            self.assertEqual(len(of_name(collected, "queryStart")), stops - 1)

    def test_a_backend_that_is_killed_restarts_the_server_and_tracing_goes_on(self):
        self.begin()
        self.gate()
        bench, pids = self.load(1)
        before = self.server.pids()
        os.kill(pids[0], signal.SIGKILL)
        self.assertNotEqual(bench.wait(PATIENCE), 0)

        def is_back():
            now = self.server.pids()
            return now if self.server.sql("SELECT 1", check=False) == "" and \
                now.get("ringpipe sampler", 0) not in (0, before["ringpipe sampler"]) else None
        now = drive.wait_for(is_back, "the server")
        self.assertEqual(now["postmaster"], before["postmaster"])
        # The shared memory is new: no session runs, and the counters begin again.
        self.assertEqual(self.server.sql("SELECT * FROM ringpipe_sessions()"), [])
        for path in glob.glob(self.traces + "/*"):
            os.unlink(path)
        events = self.record("SELECT count(*) FROM numbers")
        self.assertEqual(len(of_name(events, "queryStop")), 2)
        self.test_each_process_has_a_socket()

    def test_each_process_has_a_socket(self):
        def has_all():
            pids = self.server.pids()
            return {pids[name] for name in ("postmaster", "checkpointer",
                                            "ringpipe sampler")} <= servers.processes()
        drive.wait_for(has_all, "the sockets")

    def test_reloads_under_load_lose_no_statement(self):
        number, open_gate = self.begin("postgresql"), self.gate()
        bench, pids = self.load(400)
        open_gate()
        reloads = 0
        while bench.poll() is None or reloads < 50:
            self.server.reload()
            self.server.sql("SELECT 1")
            reloads += 1
        self.assertEqual(bench.wait(PATIENCE), 0)
        self.end(number)
        events = self.events()
        for pid in pids:
            self.assertEqual(len(of_name(events[pid], "queryStop")), 3 * 400)

    def test_a_cancelled_statement_has_an_end_and_copies_have_their_rows(self):
        events = self.record(
            "SET statement_timeout = 20", "DO $$ BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN "
            "query_canceled THEN END $$", "RESET statement_timeout", "PREPARE p AS SELECT 1",
            "EXECUTE p", "COPY numbers TO PROGRAM 'cat >/dev/null'", providers="postgresql:1")
        starts = {event["activity"]: event["fields"]["command"] for event in events
                  if event["event"] == "queryStart"}
        stops = [(starts.get(event["activity"]), event["fields"]) for event in events
                 if event["event"] == "queryStop"]
        self.assertEqual([command for command, stop in stops if stop["error"]], ["SELECT"])
        [copied] = [stop["rows"] for command, stop in stops if command == "COPY"]
        self.assertEqual([[str(copied)]], self.server.sql("SELECT count(*) FROM numbers"))
        self.assertLessEqual({"PREPARE", "EXECUTE", "DO"}, set(starts.values()))

    @unittest.skipUnless(os.getuid() == 0, "mounting requires root")
    def test_a_full_disk_ends_the_session_and_not_the_server(self):
        run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", self.traces])
        self.addCleanup(run, ["umount", "-l", self.traces])
        number = self.begin()
        # The other statements of this backend are complete, although their events are lost.
        rows = self.server.sql(*["SELECT count(*) FROM numbers"] * 600, f"SELECT failed FROM "
                               f"ringpipe_sessions() WHERE id = {number}")
        self.assertEqual(len(rows), 601)
        self.server.sql(f"SELECT ringpipe_stop({number})")
        failed = drive.wait_for(lambda: self.server.sql(
            f"SELECT failed FROM ringpipe_sessions() WHERE id = {number} AND failed > 0"),
            "the failure")
        self.assertEqual(self.server.sql("SELECT 1"), [["1"]], failed)
        with open(self.server.log, encoding="utf-8") as log:
            self.assertIn(f"session {number} of ringpipe failed in this process: No space left",
                          log.read())


if __name__ == "__main__":
    servers.skip_if(why_not())
    unittest.main()
