#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PostgreSQL under load: what each tracer holds equals what the server counts, also when the server
restarts or is killed."""
import collections
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import time
import unittest

from postgresql_server import PATIENCE, drive, servers, why_not
from postgresql_test import RINGPIPE, WithLoad, read

from integrations import loads, tracers  # postgresql_server has added the path

PRELOAD = "pg_stat_statements,ringpipe"
CLIENTS = 3
# The test holds all events in memory.
TRANSACTIONS = int(min(100 * loads.SECONDS, 3000))
ENDLESS = 1000000000
STATEMENTS = ("UPDATE counts SET n = n + 1 WHERE client = :client_id;\n"
              "SELECT n FROM counts WHERE client = :client_id;\n")


class PostgresqlLoadTest(WithLoad):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.sql("CREATE ROLE bench LOGIN", "CREATE TABLE counts (client int, n int)",
                       f"INSERT INTO counts SELECT n, 0 FROM generate_series(0, {CLIENTS - 1}) n",
                       "GRANT ALL ON counts TO bench")

    def restart(self, environment=None):
        self.server.stop()
        self.server.start(PRELOAD, environment=environment)

    def gated_load(self, transactions):
        """Start the load. Return its process, its backends, and what opens their gate."""
        open_gate = self.gate()
        bench, pids = self.load(transactions, STATEMENTS, "bench")
        # A process opens its socket a little after its start.
        drive.wait_for(lambda: servers.processes().issuperset(pids), "the sockets", [bench])
        return bench, pids, open_gate

    def calls(self):
        """Return how many statements of the load have ended, as the server counts them."""
        [[calls]] = self.server.sql("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements "
                                    "WHERE userid = 'bench'::regrole")
        return int(calls)

    def updates(self):
        [[updates]] = self.server.sql("SELECT sum(n) FROM counts")
        return int(updates)

    def commits(self):
        [[commits]] = self.server.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = "
                                      "'postgres'")
        return int(commits)

    def wait_for_updates(self, count, bench):
        first = self.updates()
        drive.wait_for(lambda: self.updates() >= first + count, "updates", [bench])

    def trace(self, name):
        path = f"{self.traces}/{name}.nettrace"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return path

    def wait_for_sessions(self, pids, recorder):
        for pid in pids:
            servers.wait_for_session(pid, "postgresql", recorder)

    @contextlib.contextmanager
    def recording(self, pids, root):
        """Record a process with its descendants. Yield the path of the trace, and the recorder,
        which has sessions in the processes `pids`."""
        trace = self.trace("record")
        command = loads.command_of("record", trace, None, "postgresql:1", root)
        with drive.running(command, stderr=subprocess.DEVNULL) as recorder:
            self.wait_for_sessions(pids, recorder)
            yield trace, recorder

    def starts(self, trace):
        return [event for event in read(trace)
                if event["event"] == "queryStart" and event["fields"]["user"] == "bench"]

    def check_load(self, starts, pids):
        """Check that a load has ended in which a recording found the processes. It may have found
        a process before or after the first statement."""
        counts = collections.Counter(event["process_id"] for event in starts)
        for pid in pids:
            self.assertIn(counts[pid], (3 * TRANSACTIONS - 1, 3 * TRANSACTIONS), pid)

    def start_tool(self, tool, pids, lttng, stack):
        """Start a tool. Return a function that ends it and returns its number of statements."""
        if tool == "bpftrace":
            library = os.path.realpath(self.programs + "/../lib/ringpipe_hooks.so")
            return stack.enter_context(tracers.bpftrace(None, library, "postgresql:query_start",
                                                        '/str(arg4, 6) == "bench"/'))
        if tool == "lttng":
            return stack.enter_context(lttng.session("postgresql:query_start", pids,
                                                     'user = "bench"'))
        if tool == "record":
            trace, recorder = stack.enter_context(self.recording(pids, self.server.process.pid))
            traces, recorders = [trace], [recorder]
        else:
            traces = [self.trace(f"{tool}-{pid}") for pid in pids]
            recorders = [stack.enter_context(loads.session(loads.command_of(
                tool, trace, pid, "postgresql:1"), pid, "postgresql"))
                for pid, trace in zip(pids, traces)]

        def count():
            for recorder in recorders:
                if tool == "record":
                    loads.end(recorder)
                else:  # It ends with its process.
                    self.assertEqual(recorder.wait(PATIENCE), 0)
            return sum(len(self.starts(trace)) for trace in traces)
        return count

    def compare(self, lttng, tools):
        self.server.sql("SELECT pg_stat_statements_reset()")
        bench, pids, open_gate = self.gated_load(TRANSACTIONS)
        with contextlib.ExitStack() as stack:
            probes = stack.enter_context(self.probes())
            count = {tool: self.start_tool(tool, pids, lttng, stack) for tool in tools}
            before = self.updates()
            open_gate()
            self.assertEqual(bench.wait(PATIENCE + 10 * loads.SECONDS), 0)
            # The tools came while the first statement of each backend waited.
            expected = self.calls() - CLIENTS
            self.assertEqual(expected, CLIENTS * (3 * TRANSACTIONS - 1))
            self.assertEqual(self.updates() - before, CLIENTS * TRANSACTIONS)
            self.assertEqual({tool: count[tool]() for tool in tools},
                             dict.fromkeys(tools, expected))
        for pid in pids:
            self.assertEqual(probes["transaction__commit", pid], 3 * TRANSACTIONS)
            # The probe of the first statement is before the tools, and an update has two.
            self.assertEqual(probes["query__execute__start", pid], 4 * TRANSACTIONS - 1)

    @unittest.skipIf(loads.why_not(), loads.why_not())
    def test_each_tool_and_all_together_hold_what_the_server_counts(self):
        with contextlib.ExitStack() as stack:
            lttng = stack.enter_context(contextlib.closing(tracers.Lttng(self.server.folder)))
            os.chmod(lttng.home, 0o777)
            as_user = self.server.as_user
            self.addCleanup(setattr, self.server, "as_user", as_user)
            self.server.as_user = [*lttng.inside, *as_user]
            self.restart({name: lttng.environment[name] for name in ("LTTNG_HOME",
                                                                     "RINGPIPE_LTTNG")})
            for tool in loads.TOOLS:
                with self.subTest(tool):
                    self.compare(lttng, [tool])
            with self.subTest("all together"):
                self.compare(lttng, loads.TOOLS)

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_a_recording_holds_all_statements_around_a_restart(self):
        self.restart()
        for _ in range(loads.ROUNDS):
            self.server.sql("SELECT pg_stat_statements_reset()")
            bench, pids, open_gate = self.gated_load(ENDLESS)
            # The servers before and after the restart are children of this process.
            with self.recording(pids, os.getpid()) as (trace, recorder):
                open_gate()
                self.wait_for_updates(TRANSACTIONS, bench)
                # A fast shutdown, which keeps the statistics.
                self.restart()
                ended = self.calls() - CLIENTS
                again, later, open_gate = self.gated_load(TRANSACTIONS)
                self.wait_for_sessions(later, recorder)
                open_gate()
                self.assertEqual(again.wait(PATIENCE), 0)
                loads.end(recorder)
            events = read(trace)
            stops = [event for event in events if event["event"] == "queryStop" and
                     event["process_id"] in pids and not event["fields"]["error"]]
            self.assertEqual(len(stops), ended)
            self.check_load(self.starts(trace), later)

    @unittest.skipUnless(os.getuid() == 0, "recording all processes requires root")
    def test_a_recording_goes_on_when_a_killed_backend_restarts_all_processes(self):
        self.restart()
        postmaster = self.server.process.pid
        for _ in range(loads.ROUNDS):
            bench, pids, open_gate = self.gated_load(ENDLESS)
            with self.recording(pids, postmaster) as (trace, recorder):
                before = self.updates()
                open_gate()
                self.wait_for_updates(TRANSACTIONS, bench)
                os.kill(pids[0], signal.SIGKILL)
                bench.wait(PATIENCE)
                drive.wait_for(lambda: self.server.sql("SELECT 1", check=False) == "",
                               "the server", [self.server.process])
                committed = self.updates() - before
                again, later, open_gate = self.gated_load(TRANSACTIONS)
                self.wait_for_sessions(later, recorder)
                open_gate()
                self.assertEqual(again.wait(PATIENCE), 0)
                loads.end(recorder)
            self.assertEqual(self.server.process.pid, postmaster)
            starts = self.starts(trace)
            updates = [event for event in starts if event["process_id"] in pids and
                       event["fields"]["command"] == "UPDATE"]
            # The kill loses what the session had not yet written.
            self.assertTrue(0 < len(updates) <= committed + CLIENTS, (len(updates), committed))
            self.check_load(starts, later)

    def recover(self, left):
        """Return the events that a session of a killed process left, and remove its folder."""
        self.addCleanup(shutil.rmtree, left, ignore_errors=True)
        trace = self.trace("recovered")
        done = subprocess.run([RINGPIPE, "recover", left, "-o", trace], check=False, text=True,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.rmtree(left)
        return self.starts(trace)

    def test_a_kill_of_all_processes_leaves_all_statements_to_recover(self):
        for _ in range(loads.ROUNDS):
            self.restart()
            before = self.updates()
            bench, pids, open_gate = self.gated_load(ENDLESS)
            # Processes that had the same ids may have left their rings.
            older = set(glob.glob("/dev/shm/ringpipe-*/*"))
            # The backends wait in their first statement; the second one begins their sessions.
            self.server.sql(f"SELECT ringpipe_start('postgresql:1', '{self.traces}', 1, true)")
            open_gate()
            # This statement's own process has a session, too.
            drive.wait_for(lambda: int(self.server.sql("SELECT max(processes) FROM "
                                                       "ringpipe_sessions()")[0][0]) > CLIENTS,
                           "the sessions", [bench])
            self.wait_for_updates(TRANSACTIONS, bench)
            # The postmaster must not restart the others, nor they notice its end.
            self.server.process.send_signal(signal.SIGSTOP)
            killed = self.server.children()
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            self.server.process.kill()
            self.server.process.wait(PATIENCE)
            bench.wait(PATIENCE)
            commands = collections.Counter()
            for pid in pids:
                [left] = set(glob.glob(f"/dev/shm/ringpipe-*/{pid}-*")) - older
                commands.update(event["fields"]["command"] for event in self.recover(left))
            for pid in killed:
                for left in set(glob.glob(f"/dev/shm/ringpipe-*/{pid}-*")) - older:
                    shutil.rmtree(left)
            self.server.start(PRELOAD)
            # A kill may come before a commit.
            committed = self.updates() - before
            self.assertTrue(committed <= commands["UPDATE"] <= committed + CLIENTS,
                            (commands, committed))

    def test_sessions_under_load_leave_nothing_behind_in_the_server(self):
        self.restart()
        bench, pids, open_gate = self.gated_load(ENDLESS)
        open_gate()
        end, uses = time.monotonic() + loads.SECONDS, []
        while len(uses) < loads.FEWEST or time.monotonic() < end:
            for tool in ("collect", "record")[:2 if os.getuid() == 0 else 1]:
                command = loads.command_of(tool, self.trace(tool), pids[0], "postgresql")
                with loads.session(command, pids[0], "postgresql") as recorder:
                    self.wait_for_updates(10, bench)
                    loads.end(recorder)
            self.end(self.begin())
            drive.wait_for(lambda: not servers.sessions(pids[0], "postgresql"),
                           "the end of the sessions", [bench])
            uses.append(loads.used(pids[0]))
            print("# descriptors, threads, KB:", *uses[-1], flush=True)
        loads.check_growth(self, uses)


if __name__ == "__main__":
    servers.skip_if(why_not())
    unittest.main()
