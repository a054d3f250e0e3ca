# SPDX-License-Identifier: MIT
"""Runs LTTng's daemons for one test in a separate home, without effect on the machine's daemons.

They run as an ordinary user, since root's daemons share one folder.
"""
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE = 120  # seconds until a thing that must happen is given up
NOBODY = 65534


def user():
    """Return the user who runs all programs here."""
    if os.getuid() != 0:
        return {}
    return {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(('127.0.0.1', port)) == 0


class Daemon:
    """lttng-sessiond, and on request lttng-relayd, below one directory."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix='ringpipe-lttng-')
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(('LTTNG_', 'RINGPIPE_', 'DOTNET_'))}
        self.environment.update(LTTNG_HOME=self.home, HOME=self.home, TMPDIR=self.home,
                                LC_ALL='C.UTF-8', LTTNG_UST_REGISTER_TIMEOUT='60000')
        # The daemons were not built for libraries that are preloaded into tests.
        self.plain = {name: value for name, value in self.environment.items()
                      if name != 'LD_PRELOAD'}
        if os.getuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
        self.process = self.relay = None

    def start(self):
        self.process = subprocess.Popen(['lttng-sessiond', '--no-kernel'], env=self.plain,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True,
                                        **user())
        self.wait(lambda: self.run('list', check=False).returncode == 0)

    def start_relay(self):
        """Return its ports, chosen below those that the kernel assigns to others."""
        while self.relay is None or self.relay.poll() is not None:
            ports = random.sample(range(20000, 32000), 3)
            options = [f'--{name}-port=tcp://127.0.0.1:{port}'
                       for name, port in zip(('control', 'data', 'live'), ports)]
            self.relay = subprocess.Popen(
                ['lttng-relayd', *options, f'--output={self.home}/relay'], env=self.plain,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True, **user())
            self.wait(lambda port=ports[2]: self.relay.poll() is not None or answers(port))
        return ports

    @staticmethod
    def wait(condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError('it did not happen')
            time.sleep(0.02)

    def run(self, *arguments, check=True):
        result = subprocess.run(['lttng', '--no-sessiond', *map(str, arguments)], env=self.plain,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, check=False, timeout=PATIENCE,
                                cwd=self.home, **user())
        text = result.stdout.decode()
        if check and result.returncode != 0:
            raise AssertionError(f'lttng {arguments}: {text}')
        return result if not check else text

    @staticmethod
    def end(process):
        """Kill the daemon and its consumer daemons, as if it had crashed."""
        if process is not None and process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)

    def kill(self):
        self.end(self.process)

    def stop(self):
        self.end(self.process)
        self.end(self.relay)
        shutil.rmtree(self.home, ignore_errors=True)
