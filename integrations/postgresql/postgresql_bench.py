# SPDX-License-Identifier: MIT
"""What bench/servers.py needs to measure PostgreSQL: pgbench's transactions that only read."""
import contextlib
import os
import subprocess
import tempfile

import callgrind
import servers
from postgresql_server import PATIENCE, Server, install, why_not

drive = servers.drive

__all__ = ['why_not']
UNIT, UNITS = 'transaction', 'transactions'
WAYS = servers.ways('postgresql:1', 'postgresql,postgresql-log')
CLIENTS = 2


class Cluster(Server):
    """A server whose program is started directly, so that a wrapper can measure it."""

    def __init__(self, module, folder):
        super().__init__(*module[:2], tempfile.mkdtemp(dir=folder))
        self.preload = 'ringpipe' if module[2] else ''
        self.process = None

    def start(self, _is_traced=False, wrapper=(), environment=None):
        self.configure(self.preload)
        self.process = subprocess.Popen(
            [*self.as_user, *wrapper, self.programs + '/postgres', '-D', self.data],
            cwd=self.folder, env={**self.environment, **(environment or {}),
                                  'LD_LIBRARY_PATH': self.environment['LD_LIBRARY_PATH']},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        drive.wait_for(self.is_ready, 'the server', [self.process])

    def is_ready(self):
        """Without a connection, which would cost instructions."""
        with contextlib.suppress(OSError), open(self.data + '/postmaster.pid',
                                                encoding='ascii') as file:
            return 'ready' in file.read()
        return False

    def stop(self, mode='fast'):
        super().stop(mode)
        self.process.wait(PATIENCE)


# Without the extension, the same copy of PostgreSQL runs: its folder is found by prepare().
installed = []


def prepare(build, folder):
    installed[:] = install(build, os.path.join(folder, 'root'))
    return (*installed, True)


class Load:
    """PostgreSQL under pgbench's load."""

    def __init__(self, module, folder, _ringpipe):
        os.chmod(folder, 0o755)
        self.server = Cluster(module or (*installed, False), folder)
        self.server.start()
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.server.stop)
        self.server.bench('-i', '-q', 'postgres')
        load = self.stack.enter_context(drive.running(
            [self.server.programs + '/pgbench', '-n', '-S', '-M', 'prepared', '-c', str(CLIENTS),
             '-T', '36000', 'postgres'], env=self.server.environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))
        self.traced = drive.wait_for(self.backends, 'the load', [load])
        self.pids = [self.server.process.pid, load.pid]

    def backends(self):
        rows = self.server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = "
                               "'pgbench'")
        return [int(row[0]) for row in rows] if len(rows) == CLIENTS else None

    def count(self):
        """Each backend numbers its transactions. Only one that is running has a number."""
        seen = {}

        def has_all():
            seen.update(self.server.sql(
                'SELECT pid, split_part(virtualtransaction, $$/$$, 2) FROM pg_locks WHERE '
                "locktype = 'virtualxid'"))
            return {str(pid) for pid in self.traced} <= set(seen)
        drive.wait_for(has_all, 'a transaction of each backend')
        return sum(int(seen[str(pid)]) for pid in self.traced)

    def close(self):
        self.stack.close()


def instructions(module, folder, _ringpipe, count):
    os.chmod(folder, 0o755)
    server = Cluster(module or (*installed, False), folder)

    def work():
        server.sql(*['SELECT relname FROM pg_class WHERE oid = 1259'] * count)

    return callgrind.server_instructions(server, work)
