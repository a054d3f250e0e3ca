#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The extension where PostgreSQL has few rights."""
import os
import subprocess
import tempfile
import unittest
from unittest import mock

from postgresql_server import HERE, PATIENCE, drive, run, servers, why_not
from postgresql_test import WithServer, of_name, read

from integrations import restrictions  # postgresql_server has added the path

SETTINGS = "jit = off"


class PostgresqlHostingTest(restrictions.UnitTests, WithServer):
    unit = os.path.join(HERE, "postgresql.service")

    def setUp(self):
        self.folder, self.visible = self.server.folder, self.server.programs
        self.server.more = SETTINGS
        self.addCleanup(self.server.stop)
        self.addCleanup(setattr, self.server, "as_user", self.server.as_user)

    def check_session_of_sql(self):
        """Trace a backend by SQL, with rings that are files. Return the folder of the trace."""
        traces = tempfile.mkdtemp(dir=self.server.folder)
        os.chmod(traces, 0o777)
        self.server.sql("CREATE EXTENSION IF NOT EXISTS ringpipe")
        pid = self.server.sql(
            f"SELECT ringpipe_start('postgresql', '{traces}', 1, true)", "SELECT 1",
            "SELECT ringpipe_stop((SELECT max(id) FROM ringpipe_sessions()))",
            "SELECT pg_backend_pid()")[-1][0]
        [name] = os.listdir(traces)
        self.assertTrue(name.endswith(f"-{pid}.nettrace"), name)
        self.assertGreater(len(of_name(read(f"{traces}/{name}"), "queryStop")), 0)
        return traces

    def check_events(self):
        """Trace a backend by SQL, and the checkpointer by a tool."""
        traces = self.check_session_of_sql()
        checkpointer = self.server.pids()["checkpointer"]
        # A process opens its socket a little after its start.
        drive.wait_for(lambda: checkpointer in servers.processes(), "the socket")
        with servers.recording(checkpointer, "postgresql", traces + "/checkpoint",
                               "--providers", "postgresql"):
            self.server.sql("CREATE TABLE IF NOT EXISTS written ()", "CHECKPOINT")
        self.assertTrue(of_name(read(traces + "/checkpoint"), "checkpointStop"))

    def test_a_server_without_diagnostics_has_no_threads_and_is_traced_by_sql(self):
        self.server.start(environment={"RINGPIPE_DIAGNOSTICS": "0"})
        for title, pid in self.server.pids().items():
            self.assertEqual(len(os.listdir(f"/proc/{pid}/task")), 1, title)
        self.check_session_of_sql()

    def control(self, *arguments):
        run([*self.server.as_user, self.server.programs + "/pg_ctl", "-w", "-D", self.server.data,
             "-l", self.server.folder + "/daemon.log", *arguments], env=self.server.environment,
            cwd=self.server.folder)

    def test_a_daemon_is_traced(self):
        self.server.configure()
        self.control("start")
        self.addCleanup(self.control, "stop", "-m", "immediate")
        with open(self.server.data + "/postmaster.pid", encoding="ascii") as file:
            daemon = mock.Mock(pid=int(file.readline()))
        with mock.patch.object(self.server, "process", daemon):
            self.check_events()

    def test_a_single_process_without_a_postmaster_is_traced(self):
        self.server.configure()
        trace = self.server.folder + "/single.nettrace"
        environment = dict(self.server.environment, RINGPIPE_CONFIG="postgresql",
                           RINGPIPE_OUTPUT=trace)
        done = subprocess.run([*self.server.as_user, self.server.programs + "/postgres",
                               "--single", "-D", self.server.data, "postgres"], check=True,
                              env=environment, cwd=self.server.folder, text=True,
                              input="SELECT 6 * 7 AS answer\n"
                              "SELECT 1 / (n - 1) FROM generate_series(1, 2) AS n\n",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
        self.assertIn('answer = "42"', done.stdout)
        stops = [stop["error"] for stop in of_name(read(trace), "queryStop")]
        self.assertEqual(stops, [False, True])

    @unittest.skipUnless(os.getuid() == 0, "another root requires root")
    def test_a_server_in_another_root_is_traced(self):
        self.server.as_user = [*restrictions.other_root(self.server.folder + "/root",
                                                         self.server.folder, self.root),
                               *self.server.as_user]
        # The processes create their sockets in this root's /tmp.
        self.server.start(environment={"TMPDIR": "/tmp"})
        self.assertNotEqual(os.readlink(f"/proc/{self.server.process.pid}/root"), "/")
        self.check_events()

    def trace_restricted(self, wrapper, sockets, preexec_fn):
        self.server.as_user = [*wrapper, *self.server.as_user]
        self.server.start(environment={"TMPDIR": sockets}, preexec_fn=preexec_fn)
        self.check_events()
        return self.server.process.pid

    def trace_and_end(self, wrapper):
        # The tracer is another process (-D), so the server keeps its pid.
        self.server.start(wrapper=[wrapper[0], "-D", *wrapper[1:]])
        self.check_events()
        self.server.stop()


if __name__ == "__main__":
    servers.skip_if(why_not())
    unittest.main()
