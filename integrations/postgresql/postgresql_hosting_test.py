#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The extension where PostgreSQL has few rights."""
import os
import shutil
import sys
import tempfile
import unittest

from postgresql_server import HERE, drive, servers, why_not
from postgresql_test import WithServer, of_name, read

from integrations import restrictions  # postgresql_server has added the path

UNIT = os.path.join(HERE, "postgresql.service")
SETTINGS = "jit = off"


class PostgresqlHostingTest(WithServer):
    def setUp(self):
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

    @unittest.skipUnless(os.getuid() == 0, "a read-only root requires root")
    @unittest.skipUnless(restrictions.can_deny_write_execute(), "the kernel lacks PR_SET_MDWE")
    def test_a_server_with_the_rights_of_the_unit_is_traced(self):
        self.server.as_user = [*restrictions.read_only_root(self.server.folder,
                                                             self.server.programs),
                               *self.server.as_user]
        self.server.start(preexec_fn=restrictions.deny_write_execute)
        with open(f"/proc/{self.server.process.pid}/mountinfo", encoding="utf-8") as file:
            options = [line.split()[5] for line in file if line.split()[4] == "/"]
        self.assertTrue(options[0].startswith("ro,"), options)
        self.check_events()

    @unittest.skipUnless(restrictions.can_check_units(), "no systemd-analyze")
    def test_systemd_accepts_the_unit(self):
        self.assertEqual(restrictions.errors_of_unit(UNIT), [])

    @unittest.skipUnless(restrictions.can_check_units() and shutil.which("strace"),
                         "no systemd-analyze, or no strace")
    def test_the_unit_permits_every_system_call(self):
        log = self.server.folder + "/calls"
        # The tracer is another process (-D), so the server keeps its pid.
        self.server.start(wrapper=["strace", "-D", "-f", "-qq", "-o", log])
        self.check_events()
        self.server.stop()
        used = restrictions.calls_in(log)
        self.assertIn("membarrier", used)
        self.assertEqual(used - restrictions.calls_of("@system-service", "@default"), set())


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main()
