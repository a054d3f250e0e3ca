#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The extension where PostgreSQL has few rights."""
import os
import sys
import tempfile
import unittest

from postgresql_server import HERE, drive, servers, why_not
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

    def check_events(self):
        """Trace a session of SQL, whose rings are files, and the checkpointer by a tool."""
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
        checkpointer = self.server.pids()["checkpointer"]
        # A process opens its socket a little after its start.
        drive.wait_for(lambda: checkpointer in servers.processes(), "the socket")
        with servers.recording(checkpointer, "postgresql", traces + "/checkpoint",
                               "--providers", "postgresql"):
            self.server.sql("CREATE TABLE IF NOT EXISTS written ()", "CHECKPOINT")
        self.assertTrue(of_name(read(traces + "/checkpoint"), "checkpointStop"))

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
    reason = why_not()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main()
