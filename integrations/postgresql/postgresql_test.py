#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The extension in Debian's PostgreSQL: what the server says of its work equals what the traces
hold."""
import collections
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from postgresql_server import HERE, Server, drive, install, servers, why_not

sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "linux"))
from probes import Tracer  # noqa: E402 pylint: disable=wrong-import-position

BUILD, CALLER, RINGPIPE, TRACE_ID = (servers.BUILD, servers.CALLER, servers.RINGPIPE,
                                     servers.TRACE_ID)
of_name, read = servers.of_name, servers.read
ALL = "postgresql,postgresql-nodes,postgresql-log"


class WithServer(unittest.TestCase):
    """Has a server in a folder that the tests of a class share."""
    root = programs = None

    @classmethod
    def setUpClass(cls):
        if not WithServer.root:
            WithServer.root = tempfile.mkdtemp()
            unittest.addModuleCleanup(shutil.rmtree, cls.root, ignore_errors=True)
            os.chmod(cls.root, 0o755)
            WithServer.programs = install(cls.root, BUILD)
        cls.server = Server(cls.programs, tempfile.mkdtemp(dir=cls.root))
        cls.addClassCleanup(cls.server.stop)
        # The tools look for the server's sockets there.
        os.environ["TMPDIR"] = cls.server.folder


class WithExtension(WithServer):
    """Has a running server with the extension."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.start("pg_stat_statements,ringpipe")
        cls.server.sql("CREATE EXTENSION ringpipe", "CREATE EXTENSION pg_stat_statements",
                       "CREATE ROLE reader IN ROLE pg_monitor LOGIN",
                       "CREATE ROLE stranger LOGIN", "CREATE TABLE numbers AS SELECT n, n % 7 AS "
                       "rest FROM generate_series(1, 5000) AS n", "ANALYZE numbers")

    def setUp(self):
        self.traces = tempfile.mkdtemp(dir=self.server.folder)
        os.chmod(self.traces, 0o777)

    def begin(self, providers=ALL):
        [[number]] = self.server.sql(f"SELECT ringpipe_start('{providers}', '{self.traces}')")
        return int(number)

    def end(self, number):
        self.assertEqual(self.server.sql(f"SELECT ringpipe_stop({number})"), [["t"]])
        self.end_of(number)

    def end_of(self, number):
        def has_ended():
            rows = self.server.sql("SELECT processes, failed, lost FROM ringpipe_sessions() "
                                   f"WHERE id = {number}")
            return rows if rows[0][0] == "0" else None
        self.assertEqual(drive.wait_for(has_ended, "the end of the sessions"), [["0", "0", "0"]])

    def events(self):
        """Return the events of all traces, by the process that wrote them."""
        return {int(re.search(r"-(\d+)\.nettrace$", path).group(1)): read(path)
                for path in glob.glob(self.traces + "/*.nettrace")}

    def record(self, *statements, providers=ALL, **options):
        """Return the events of one backend that executes the statements."""
        number = self.begin(providers)
        pid = int(self.server.sql(*statements, "SELECT pg_backend_pid()", **options)[-1][0])
        self.end(number)
        return self.events()[pid]

    @contextlib.contextmanager
    def probes(self):
        """Count PostgreSQL's own probes by process: (probe, pid) -> count."""
        names = ("query__start", "query__execute__start", "query__plan__start",
                 "transaction__commit")
        program = "BEGIN { printf(\"attached\\n\"); } " + " ".join(
            f"usdt:{self.programs}/postgres:postgresql:{name} {{ @[\"{name}\", pid] = count(); }}"
            for name in names)
        counts = collections.Counter()
        tracer = Tracer(["bpftrace", "-B", "line", "-e", program])
        self.addCleanup(tracer.stop)
        tracer.reported("attached", 1)
        yield counts
        tracer.stop()
        for found in re.finditer(r"@\[(\w+), (\d+)\]: (\d+)", "".join(tracer.lines)):
            counts[found.group(1), int(found.group(2))] = int(found.group(3))

    @contextlib.contextmanager
    def collect(self, title, providers):
        """Record a process of the server by its title. Yield a list that gets the events."""
        trace, events = self.traces + "/collected", []
        with servers.recording(self.server.pids()[title], providers.split(",", maxsplit=1)[0],
                               trace, "--providers", providers):
            yield events
        events += read(trace)


class WithLoad(WithExtension):
    """Has a load whose backends wait until the test has attached its tools."""
    # The first statement waits until the test has attached all tools.
    GATED = "SELECT pg_advisory_xact_lock_shared(1);\n"

    def gate(self):
        """Hold the lock on which the load waits. Return a function that opens the gate."""
        owner = subprocess.Popen([self.programs + "/psql", "-qXAt"], text=True,
                                 env=self.server.environment, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        self.addCleanup(owner.communicate)
        print("SELECT pg_advisory_lock(1);", file=owner.stdin, flush=True)
        owner.stdout.readline()
        return lambda: print("SELECT pg_advisory_unlock(1);", file=owner.stdin, flush=True)

    def pgbench(self, statements, *options):
        script = self.server.folder + "/load.sql"
        with open(script, "w", encoding="ascii") as file:
            file.write(statements)
        bench = subprocess.Popen(
            [self.programs + "/pgbench", "-n", "-f", script, "-c", "3", *options],
            env=self.server.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(bench.wait)
        self.addCleanup(bench.kill)
        return bench

    def load(self, transactions, statements="UPDATE numbers SET rest = rest + 1 WHERE n = 1;\n"
             "SELECT count(*) FROM numbers WHERE n < 50;\n", user="admin"):
        """Start pgbench behind the gate. Return its process and the backends that wait."""
        bench = self.pgbench(self.GATED + statements, "-U", user, "-t", str(transactions))

        def waiting():
            rows = self.server.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory'"
                                   " AND backend_type = 'client backend'")
            return [int(row[0]) for row in rows] if len(rows) == 3 else None
        return bench, drive.wait_for(waiting, "the backends", [bench])


class PostgresqlTest(WithExtension):
    @unittest.skipUnless(os.getuid() == 0 and shutil.which("bpftrace"), "bpftrace requires root")
    def test_counts_equal_those_of_the_probes_of_postgresql(self):
        self.server.bench("-i", "-q", "postgres")
        number = self.begin("postgresql")
        with self.probes() as probes:
            first = dict(self.server.sql("SELECT * FROM ringpipe_counters()"))
            for mode in ("simple", "prepared"):
                self.server.bench("-n", "-M", mode, "-c", "3", "-t", "200", "postgres")
            self.server.sql("SELECT 1/0", check=False)
            self.server.sql("BEGIN", "SELECT 1", "ROLLBACK")
            last = dict(self.server.sql("SELECT * FROM ringpipe_counters()"))
        self.end(number)
        events = self.events()
        counted = {name: {pid: count for (probe, pid), count in probes.items() if probe == name}
                   for name in {probe for probe, _ in probes}}
        plans = {pid: len(of_name(events[pid], "planStart"))
                 for pid in counted["query__plan__start"]}
        self.assertEqual(plans, counted["query__plan__start"])
        # The server executes a statement in a portal, with a probe, and has the same probe for
        # each statement that returns no rows.
        starts = {pid: of_name(events[pid], "queryStart")
                  for pid in counted["query__execute__start"]}
        writes = {pid: sum(start["command"] in ("INSERT", "UPDATE") for start in rows)
                  for pid, rows in starts.items()}
        self.assertEqual({pid: len(rows) + writes[pid] for pid, rows in starts.items()},
                         counted["query__execute__start"])
        # The simple protocol has one more probe, for each query. Here a query is one statement.
        simple = {pid: count for pid, count in counted["query__start"].items() if pid in starts}
        self.assertEqual({pid: len(starts[pid]) for pid in simple}, simple)
        self.assertGreaterEqual(sum(simple.values()), 3 * 7 * 200)
        self.assertEqual({pid: len(rows) for pid, rows in starts.items()},
                         {pid: len(of_name(events[pid], "queryStop")) for pid in starts})

        def total(probe):
            return sum(count for (name, _), count in probes.items() if name == probe)

        def change(counter):
            return int(last[counter]) - int(first[counter])
        self.assertEqual(change("statements"),
                         total("query__execute__start") - sum(writes.values()) - 1)
        self.assertEqual(change("plans"), total("query__plan__start") - 1)

    def test_the_commands_of_the_readme_work(self):
        with subprocess.Popen([self.programs + "/psql", "-qXAt"], env=self.server.environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            def ask(query):
                print(query, file=client.stdin, flush=True)
                return int(client.stdout.readline())

            pid = ask("SELECT pg_backend_pid();")
            listed, _, report = servers.run_readme(
                HERE, self.traces, pid, "postgresql",
                lambda: [ask("SELECT 1;") for _ in range(10)], {"BACKEND": str(pid)})
        self.assertRegex(listed, rf"(?m)^ *{pid}\b.*postgres")
        self.assertRegex(report, "postgresql/query +[1-9]")

    def test_statements_agree_with_pg_stat_statements(self):
        columns = ("calls", "rows", "shared_blks_hit", "shared_blks_read", "shared_blks_dirtied",
                   "temp_blks_written", "wal_records", "wal_bytes")
        self.server.sql("SELECT pg_stat_statements_reset()")
        events = self.record(
            "INSERT INTO numbers SELECT n, 0 FROM generate_series(1, 3000) AS n",
            "SELECT count(*) FROM numbers", "SELECT count(*) FROM numbers",
            "SET work_mem = 64", "SELECT n FROM numbers ORDER BY rest, n LIMIT 10 OFFSET 7000",
            "UPDATE numbers SET rest = 1 WHERE n < 100", "DELETE FROM numbers WHERE rest = 0")
        counted = {row[0]: row[1:] for row in self.server.sql(
            f"SELECT queryid, {', '.join(columns)} FROM pg_stat_statements WHERE query ~ "
            "'(FROM|INTO|UPDATE) numbers'")}
        self.assertEqual(len(counted), 5)
        for query, expected in counted.items():
            stops = [stop for stop in of_name(events, "queryStop")
                     if stop["query_id"] == int(query) % (1 << 64)]
            sums = [len(stops)] + [sum(stop[name] for stop in stops) for name in (
                "rows", "shared_blocks_hit", "shared_blocks_read", "shared_blocks_dirtied",
                "temporary_blocks_written", "wal_records", "wal_bytes")]
            self.assertEqual(dict(zip(columns, map(str, sums))), dict(zip(columns, expected)))

    def test_the_trace_of_the_caller_comes_from_a_comment_or_the_setting(self):
        events = self.record(
            f"SELECT 'comment' /*action='x',traceparent='{CALLER}'*/",
            "SELECT 'none'", f"SET ringpipe.traceparent = '{CALLER}'", "SELECT 'setting'",
            f"SELECT 'other' /*traceparent='{CALLER.replace('0af', '1af')}'*/",
            "DO $$ BEGIN PERFORM count(*) FROM numbers; END $$",
            "SELECT 'damaged' /*traceparent='00-123'*/", "RESET ringpipe.traceparent",
            "SELECT 'end'", options="-c ringpipe.sql_text=on")
        starts = [event for event in events if event["event"] == "queryStart"]
        ids = {start["fields"]["text"].partition(" /")[0]: start["activity"].replace("-", "")
               for start in starts if start["fields"]["depth"] == 0}
        self.assertEqual(ids["SELECT 'comment'"], TRACE_ID)
        self.assertEqual(ids["SELECT 'setting'"], TRACE_ID)
        self.assertEqual(ids["SELECT 'other'"], TRACE_ID.replace("0af", "1af"))
        self.assertEqual(ids["SELECT 'damaged'"], TRACE_ID)
        for text in ("SELECT 'none'", "SELECT 'end'"):
            self.assertNotIn(TRACE_ID[1:], ids[text])
        [outer] = [start for start in starts if start["fields"]["command"] == "DO"]
        [inner] = [start for start in starts if start["fields"]["depth"] == 1]
        self.assertEqual(outer["activity"].replace("-", ""), TRACE_ID)
        self.assertEqual(inner["related_activity"], outer["activity"])
        refused = self.server.sql("SET ringpipe.traceparent = '00-123'", check=False)
        self.assertIn("invalid value", refused)

    def test_text_is_secret_unless_a_superuser_asks_for_it(self):
        work = ("SELECT 'my-secret'", "DO $$ BEGIN RAISE WARNING 'my-secret'; END $$",
                "DO $$ BEGIN PERFORM 'my-secret'::int; EXCEPTION WHEN OTHERS THEN END $$")
        self.assertNotIn("my-secret", json.dumps(self.record(*work)))
        for path in glob.glob(self.traces + "/*"):
            with open(path, "rb") as file:
                self.assertNotIn(b"my-secret", file.read())
        shown = self.record(*work, options="-c ringpipe.sql_text=on")
        self.assertIn("SELECT 'my-secret'", [start["text"]
                                             for start in of_name(shown, "queryStart")])
        self.assertIn("my-secret", [line["text"] for line in of_name(shown, "warning")])
        self.assertIn("permission denied", self.server.sql("SET ringpipe.sql_text = on",
                                                           user="stranger", check=False))

    def test_a_long_text_is_cut_and_its_event_is_not_lost(self):
        text = f"SELECT '{70000 * 'x'}'"
        starts = of_name(self.record(text, options="-c ringpipe.sql_text=on -c log_statement=all"),
                         "queryStart")
        self.assertIn(text[:16 << 10], [start["text"] for start in starts])

    def test_the_statement_of_a_terminated_process_has_an_end(self):
        number = self.begin("postgresql")
        with subprocess.Popen([self.programs + "/psql", "-qXc", "SELECT pg_sleep(3600)"],
                              env=self.server.environment, stderr=subprocess.DEVNULL) as client:
            [[pid]] = drive.wait_for(lambda: self.server.sql(
                "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"), "it", [client])
            self.server.sql(f"SELECT pg_terminate_backend({pid})")
        self.end(number)
        [stop] = of_name(self.events()[int(pid)], "queryStop")
        self.assertTrue(stop["error"])

    def test_an_error_ends_the_spans_of_its_statements(self):
        events = self.record(
            "DO $$ BEGIN PERFORM 1 / (n - 20) FROM numbers; EXCEPTION WHEN OTHERS THEN "
            "PERFORM count(*) FROM numbers; END $$",
            "BEGIN", "DECLARE c CURSOR FOR SELECT n FROM numbers", "FETCH 5 FROM c",
            "SAVEPOINT s", "DO $$ BEGIN CREATE TABLE numbers(); EXCEPTION WHEN OTHERS THEN END $$",
            "ROLLBACK TO s", "FETCH 5 FROM c", "ROLLBACK")
        spans = collections.defaultdict(list)
        for event in events:
            if event["event"] in ("queryStart", "queryStop"):
                spans[event["activity"]].append(event)
        # The last statement ends the session's last span, or not, with its backend.
        for start, *stops in list(spans.values())[:-1]:
            self.assertEqual([stop["event"] for stop in stops], ["queryStop"], start)
        failed = [spans[stop["activity"]][0]["fields"]["command"] for pair in spans.values()
                  for stop in pair if stop["fields"].get("error")]
        # ROLLBACK closes the cursor without its end.
        self.assertEqual(failed, ["SELECT", "SELECT", "CREATE TABLE"])
        depths = [start["depth"] for start in of_name(events, "queryStart")]
        self.assertEqual(depths.count(0), len(depths) - 4)
        [cursor] = [pair for pair in spans.values() if len(pair) > 1 and
                    pair[0]["fields"]["command"] == "SELECT" and pair[1]["fields"]["rows"] == 10]
        self.assertEqual(cursor[0]["fields"]["depth"], 1)

    def test_nodes_have_the_rows_that_explain_shows(self):
        query = "SELECT rest, count(*) FROM numbers WHERE n <= 500 GROUP BY rest"
        events = self.record(query, query.replace("500", "400"), "SELECT n FROM numbers LIMIT 3")
        ids = [stop["plan_id"] for stop in of_name(events, "queryStop")]
        self.assertEqual(ids[0], ids[1])
        self.assertNotEqual(ids[0], ids[2])
        nodes = of_name(events, "node")
        first = [(node["kind"], node["relation"], node["rows"]) for node in nodes[:2]]
        self.assertEqual(first, [("Agg", "", 7), ("SeqScan", "numbers", 500)])
        self.assertEqual([node["parent"] for node in nodes[:2]], [-1, 0])
        lines = self.server.sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}")
        plan = json.loads("".join("|".join(line) for line in lines))[0]["Plan"]
        for node, shown in zip(nodes, (plan, plan["Plans"][0])):
            self.assertEqual(node["shared_blocks_hit"] + node["shared_blocks_read"],
                             shown["Shared Hit Blocks"] + shown["Shared Read Blocks"])
        # The time of a node includes that of the nodes below it.
        self.assertLess(0, nodes[1]["total_ns"])
        self.assertLessEqual(nodes[1]["total_ns"], nodes[0]["total_ns"])
        self.assertEqual(nodes[1]["filtered_rows"],
                         int(self.server.sql("SELECT count(*) FROM numbers")[0][0]) - 500)
        # Without the provider, the executor does not measure.
        self.assertEqual(of_name(self.record("SELECT 1", providers="postgresql"), "node"), [])

    def test_only_permitted_users_start_and_read(self):
        start = f"SELECT ringpipe_start('postgresql', '{self.traces}')"
        for statement in (start, "SELECT ringpipe_stop(1)", "SELECT * FROM ringpipe_sessions()",
                          "SELECT * FROM ringpipe_counters()"):
            self.assertIn("permission denied for function",
                          self.server.sql(statement, user="stranger", check=False))
        self.assertEqual(self.server.sql("SELECT count(*) > 0 FROM ringpipe_counters()",
                                         user="reader"), [["t"]])
        self.assertIn("permission denied", self.server.sql(start, user="reader", check=False))
        self.server.sql("GRANT EXECUTE ON FUNCTION ringpipe_start TO stranger")
        self.assertIn("pg_write_server_files",
                      self.server.sql(start, user="stranger", check=False))

    def test_an_idle_process_ends_its_session_when_sql_stops_it(self):
        with subprocess.Popen([self.programs + "/psql", "-qXAt"], stdin=subprocess.PIPE, text=True,
                              env=self.server.environment, stdout=subprocess.PIPE) as idle:
            number = self.begin("postgresql")
            print("SELECT pg_backend_pid();", file=idle.stdin, flush=True)
            pid = int(idle.stdout.readline())
            self.end(number)
            stops = of_name(self.events()[pid], "queryStop")
            # It continues as before, also where it is idle in a transaction.
            second = self.begin("postgresql")
            print("BEGIN; SELECT 1;", file=idle.stdin, flush=True)
            idle.stdout.readline()
            self.assertEqual(self.server.sql(f"SELECT ringpipe_stop({second})"), [["t"]])
            print("COMMIT; SELECT 2;", file=idle.stdin, flush=True)
            self.assertEqual(idle.stdout.readline(), "2\n")
            self.end_of(second)
        self.assertEqual(len(stops), 1)

    def test_lines_of_the_log_are_events_with_their_level_and_statement(self):
        events = self.record("DO $$ BEGIN RAISE LOG 'x'; RAISE WARNING 'y %', 1; END $$",
                             options="-c ringpipe.sql_text=on")
        lines = [(event["event"], event["fields"]["text"]) for event in events
                 if event["provider"] == "postgresql-log"]
        self.assertEqual(lines, [("notice", "x"), ("warning", "y 1")])
        [warning] = of_name(events, "warning")
        self.assertEqual(warning["sqlstate"], "01000")
        [block] = [start for start in of_name(events, "queryStart")
                   if start["command"] == "DO"]
        self.assertEqual(warning["query_id"], block["query_id"])

    def test_each_process_of_the_server_can_be_traced(self):
        self.assertLessEqual(set(self.server.pids().values()), servers.processes())
        self.assertIn("ringpipe sampler", self.server.pids())

    def test_checkpoints_are_spans_of_the_checkpointer(self):
        def count():
            return int(self.server.sql("SELECT checkpoints_req FROM pg_stat_bgwriter")[0][0])
        before = count()
        with self.collect("checkpointer", "postgresql,postgresql-log") as events:
            self.server.sql("UPDATE numbers SET n = n", "CHECKPOINT")
            self.server.sql("CHECKPOINT")
            drive.wait_for(lambda: count() == before + 2, "the statistics")
        stops = of_name(events, "checkpointStop")
        self.assertEqual(len(of_name(events, "checkpointStart")), 2)
        self.assertEqual(len(stops), 2)
        with open(self.server.log, encoding="utf-8") as log:
            written = re.findall(r"wrote (\d+) buffers", log.read())[-2:]
        self.assertEqual([str(stop["buffers_written"]) for stop in stops], written)


if __name__ == "__main__":
    servers.skip_if(why_not())
    unittest.main()
