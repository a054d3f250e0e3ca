# SPDX-License-Identifier: MIT
"""The parts of bench/servers.py for PostgreSQL: pgbench's transactions that only read."""
import contextlib
import os
import subprocess
import tempfile

import callgrind
import servers
from postgresql_server import Server, drive, install, servers as tools, why_not

__all__ = ['why_not']
UNIT, UNITS = 'transaction', 'transactions'
WAYS = servers.ways('postgresql:1', 'postgresql,postgresql-log')
CLIENTS = 2


# Valgrind is slow: what the server does by time would count many times for each transaction.
SETTINGS = """
ringpipe.sample_interval = 0
bgwriter_delay = 10s
wal_writer_delay = 10s
"""
# The server whose stopped cluster each other one copies: prepare() adds it. Without the extension,
# the same copy of PostgreSQL runs.
originals = []


def prepare(build, folder):
    server = Server(install(folder, build), tempfile.mkdtemp(dir=folder))
    server.start('')
    try:
        server.bench('-i', '-q', 'postgres')
    finally:
        server.stop()
    originals[:] = [server]
    return 'ringpipe'


def probes():
    """The time of each statement, by PostgreSQL's own probes."""
    probe = f'usdt:{originals[0].programs}/postgres:postgresql:query__execute__'
    return (f'{probe}start {{ @begin[pid] = nsecs; }} {probe}done /@begin[pid]/ '
            '{ @ns = hist(nsecs - @begin[pid]); delete(@begin[pid]); }')


class Cluster(Server):
    """A server in a folder of its own, with the extension or without one."""

    def __init__(self, module, folder, more=''):
        [original] = originals
        os.chmod(folder, 0o755)
        super().__init__(original.programs, tempfile.mkdtemp(dir=folder), original, more)
        self.preload = module or ''

    def start(self, _is_traced=False, wrapper=(), environment=None):
        environment = {**(environment or {}), 'TMPDIR': self.folder}
        super().start(self.preload, wrapper, environment)


class Load:
    """PostgreSQL under pgbench's load."""

    def __init__(self, module, folder, ringpipe):
        self.server = Cluster(module, folder)
        self.server.start()
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.server.stop)
        load = self.stack.enter_context(drive.running(
            [self.server.programs + '/pgbench', '-n', '-S', '-M', 'prepared', '-c', str(CLIENTS),
             '-T', '36000', 'postgres'], env=self.server.environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))
        self.traced = drive.wait_for(self.backends, 'the load', [load])
        if module:
            # A process opens its socket a little after its start.
            drive.wait_for(lambda: tools.processes(ringpipe).issuperset(self.traced),
                           'the sockets', [load])
        self.pids = [self.server.process.pid, load.pid]

    def backends(self):
        rows = self.server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = "
                               "'pgbench'")
        return [int(row[0]) for row in rows] if len(rows) == CLIENTS else None

    def count(self):
        """Each backend numbers its transactions, and has a number while it waits for a lock."""
        numbers = self.server.sql(
            'BEGIN', 'LOCK pgbench_accounts', 'DO $$ BEGIN WHILE (SELECT count(*) FROM pg_locks '
            f'WHERE NOT granted) < {CLIENTS} LOOP PERFORM pg_sleep(0.001); END LOOP; END $$',
            "SELECT split_part(virtualtransaction, '/', 2) FROM pg_locks WHERE NOT granted")
        return sum(int(number) for [number] in numbers)

    def close(self):
        self.stack.close()


def instructions(module, folder, _ringpipe, count):
    server = Cluster(module, folder, SETTINGS)

    def work():
        server.bench('-n', '-S', '-M', 'prepared', '-t', str(count), 'postgres')

    return callgrind.server_instructions(server, work)
