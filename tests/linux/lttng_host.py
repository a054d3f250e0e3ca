# SPDX-License-Identifier: MIT
"""Runs a program that LTTng traces, and has the common parts of its tests."""
import glob
import os
import subprocess
import unittest

from lttng_daemon import Daemon, PATIENCE, user
from lttng_trace import read

HOST = os.environ['HOST']
PLUGIN = os.environ['PLUGIN']


class Host:
    """The program that writes the events."""

    def __init__(self, daemon, environment=None, program=HOST):
        self.process = subprocess.Popen([program, PLUGIN], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        cwd=daemon.home,
                                        env={**daemon.environment, **(environment or {})}, **user())
        self.pid = int(self.process.stdout.readline() or 0)

    def ask(self, *words):
        """Send a command, and return the lines of the answer."""
        self.process.stdin.write((' '.join(map(str, words)) + '\n').encode())
        self.process.stdin.flush()
        lines = []
        while True:
            line = self.process.stdout.readline().decode()
            if line in ('done\n', ''):
                break
            lines.append(line.rstrip('\n'))
        if line == '':
            raise AssertionError(f'the host is gone: {self.process.stderr.read().decode()}')
        return lines

    def expect(self, *words):
        """Send a command that has no answer."""
        lines = self.ask(*words)
        if lines:
            raise AssertionError(f'{words}: {lines}')

    def end(self):
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors.decode()


def ours(events):
    return [event for event in events if event.name.startswith('Lttng-')]


class LttngTest(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.stop)
        self.daemon.start()
        self.traces = 0

    def host(self, environment=None):
        host = Host(self.daemon, environment)
        self.addCleanup(self.reap, host)
        return host

    @staticmethod
    def reap(host):
        if host.process.poll() is None:
            host.process.kill()
            host.process.wait(PATIENCE)
        for pipe in (host.process.stdin, host.process.stdout, host.process.stderr):
            pipe.close()

    def end(self, host):
        status, errors = host.end()
        self.assertEqual((status, errors), (0, ''))

    def session(self, *options):
        """Create a session that is not started yet."""
        self.traces += 1
        path = os.path.join(self.daemon.home, f'trace{self.traces}')
        self.daemon.run('create', f's{self.traces}', f'--output={path}', *options)
        return path

    def enable(self, *options):
        self.daemon.run('enable-event', '--userspace', *options)

    def start(self):
        self.daemon.run('start')

    def stop(self):
        self.daemon.run('destroy')

    def snapshots(self, session):
        """Return the snapshots whose writing has begun."""
        return glob.glob(os.path.join(self.daemon.home, session, 'snapshot-*'))

    def names(self, path):
        return [event.name for event in ours(read(path))]

    def serials(self, path, name='Lttng-Host:tick'):
        return [event.fields['serial'] for event in read(path) if event.name == name]
