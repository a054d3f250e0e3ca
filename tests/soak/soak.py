#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A server that is traced by everybody at once, for as long as wanted, and is as it was afterwards.

usage: soak.py SERVER RINGPIPE [--seconds N]

Clients come and go: `ringpipe collect` and `counters`, dotnet-counters where it is
installed, clients of the diagnostics socket that stop, that vanish, that do not read and that say
nothing sensible, tools at a port that the server connects to. The server runs sessions of its own
of each kind, with files on a small disk that fills up and is emptied. Between rounds all of that
rests: the server must have the descriptors, threads, mappings and bytes that it had after the
first, and memory must be flat.
"""
import argparse
import glob
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'interop'))
from ipc_host import Host, Tool, collect, eventually, message, provider, stop  # noqa: E402

PROVIDER = provider('Soak-Server')
ROUND_SECONDS = 60
EXACT = ['descriptors', 'threads']
RESIDENT_SLACK_KB = 1024    # pages that malloc and rings touch in another order
DISK_BYTES = 3 << 20


class Counts:
    """Counts, by name, from many threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}

    def add(self, name, count=1):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + count

    def __str__(self):
        return ', '.join(f'{name} {count}' for name, count in sorted(self.counts.items()))


class Server(Host):
    """The server, and what is asked of it on its standard input."""

    def say(self, word):
        self.process.stdin.write(word.encode() + b'\n')
        self.process.stdin.flush()
        words = self.process.stdout.readline().decode().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def proc(self, name):
        with open(f'/proc/{self.pid}/{name}', encoding='utf-8') as file:
            return file.read()

    def state(self, allocated):
        status = dict(line.split(':\t', 1) for line in self.proc('status').splitlines())
        return {'descriptors': self.descriptors(),
                'threads': int(status['Threads']),
                'mappings': len(self.proc('maps').splitlines()),
                'allocated': allocated,
                'resident_kb': int(status['VmRSS'].split()[0])}


class Soak:
    def __init__(self, options, folder):
        self.ringpipe = options.ringpipe
        self.folder = folder
        self.disk = os.path.join(folder, 'disk')
        self.rings = os.path.join(folder, 'rings')
        self.port = os.path.join(folder, 'port')
        self.counts = Counts()
        self.over = threading.Event()
        self.failures = []
        self.stacks = []
        self.recovered = 0
        os.mkdir(self.disk)
        self.is_small = subprocess.run(
            ['mount', '-t', 'tmpfs', '-o', f'size={DISK_BYTES}', 'soak', self.disk],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
        settings = {'RINGPIPE_LTTNG': '0', 'MALLOC_ARENA_MAX': '1',
                    'DOTNET_DiagnosticPorts': self.port + ',nosuspend,connect',
                    # Keep no memory of threads that ended, nor freed memory.
                    'GLIBC_TUNABLES': 'glibc.pthread.stack_cache_size=0:'
                                      'glibc.malloc.tcache_count=0:' +
                                      os.environ.get('GLIBC_TUNABLES', '')}
        os.mkdir(os.path.join(folder, 'tmp'))
        self.server = Server(options.server, settings=settings, directory=os.path.join(
            folder, 'tmp'), arguments=[self.disk, self.rings])

    # Clients: each is called again and again until the round is over.

    def run_tool(self, name, *arguments):
        ran = subprocess.run([self.ringpipe, *name.split(), '-p', str(self.server.pid), *arguments],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                             env=dict(os.environ, TMPDIR=self.server.directory), check=False)
        self.counts.add('ringpipe ' + name)
        if ran.returncode != 0:
            raise AssertionError(f'ringpipe {name} {arguments}: {ran.stdout.decode()}')

    def collect(self):
        output = os.path.join(self.folder, 'collected.nettrace')
        self.stacks = [] if self.stacks else ['--stacks']
        self.run_tool('collect', '-d', '1', '-q', '-f', '-o', output, '--providers',
                      random.choice(['*', 'Soak-Server:1']), *self.stacks)
        ran = subprocess.run([self.ringpipe, 'report', output], stdout=subprocess.DEVNULL,
                             stderr=subprocess.STDOUT, check=False)
        assert ran.returncode == 0, 'what was collected cannot be read'

    def look(self):
        self.run_tool('counters collect', '--format=csv', '-d', '2', '-f', '-o',
                      os.path.join(self.folder, 'counters'))
        self.server.sessions()

    def dotnet_counters(self):
        ran = subprocess.run(['dotnet-counters', 'collect', '-p', str(self.server.pid), '-o',
                              os.path.join(self.folder, 'counters.csv'), '--duration', '00:00:02'],
                             env=dict(os.environ, TMPDIR=self.server.directory), timeout=120,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        self.counts.add('dotnet-counters')
        assert ran.returncode == 0, f'dotnet-counters ended with {ran.returncode}'

    def read_some(self, connection, seconds):
        connection.settimeout(seconds)
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and (piece := connection.recv(1 << 20)):
                self.counts.add('bytes streamed', len(piece))
        except (TimeoutError, ConnectionResetError):
            pass

    def stream(self):
        kind = random.choice(['stops', 'vanishes', 'does not read'])
        connection, session = self.server.collect(PROVIDER, mb=random.choice([1, 4, 16]))
        with connection:
            if kind == 'does not read':
                self.over.wait(random.uniform(0, 0.5))
            else:
                self.read_some(connection, random.uniform(0, 0.3))
            if kind == 'stops':
                reader = threading.Thread(target=self.read_some, args=(connection, 60))
                reader.start()
                self.server.ask(stop(session))
                reader.join()
        self.counts.add(f'stream that {kind}')

    def annoy(self):
        with self.server.connect() as connection:
            kind = random.choice(['nothing', 'half', 'nonsense'])
            try:
                if kind == 'half':
                    connection.sendall(collect(PROVIDER)[:random.randrange(1, 40)])
                elif kind == 'nonsense':
                    connection.sendall(message(random.randrange(256), random.randrange(256),
                                               os.urandom(random.randrange(64))))
                    self.read_some(connection, 0.1)
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.counts.add(f'client that says {kind}')
        self.over.wait(0.01)

    def be_a_port(self):
        tool = Tool(self.port)
        tool.listener.settimeout(1)
        try:
            for _ in range(random.randrange(1, 4)):
                connection = tool.accept()[0]
                self.counts.add('port connected')
                with connection:
                    connection.sendall(collect(PROVIDER, mb=1))
                    self.read_some(connection, random.uniform(0, 0.2))
        except TimeoutError:
            pass
        finally:
            tool.close()
        self.over.wait(random.uniform(0, 0.3))

    def fill_disk(self):
        filler = os.path.join(self.disk, 'filler')
        with open(filler, 'wb', buffering=0) as file:
            try:
                while self.is_small:
                    file.write(bytes(65536))
            except OSError:
                self.counts.add('disk filled')
        self.over.wait(random.uniform(0, 0.3))
        os.unlink(filler)
        self.over.wait(random.uniform(0, 0.3))

    # Rounds.

    def repeat(self, client):
        try:
            while not self.over.is_set():
                client()
        except Exception as error:  # pylint: disable=broad-except
            self.failures.append(f'{client.__name__}: {error!r}')
            self.over.set()

    def run_round(self, seconds):
        """All of it for some seconds; then nothing of it. Gives the server's state."""
        clients = [self.collect, self.look, self.stream, self.stream, self.annoy, self.be_a_port,
                   self.fill_disk]
        if shutil.which('dotnet-counters'):
            clients.append(self.dotnet_counters)
        self.over.clear()
        self.server.say('go')
        threads = [threading.Thread(target=self.repeat, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        for thread in threads:
            thread.join()
        self.server.say('rest')
        eventually(lambda: not self.server.sessions(), 'an end of all sessions')

    def settled(self, expected):
        """The server's state, once it has what it had, or does not come to it in a minute."""
        deadline = time.monotonic() + (60 if expected else 2)
        while True:
            state = self.server.state(self.server.say('figures')['allocated'])
            if time.monotonic() > deadline or expected and not more(expected, state):
                return state
            time.sleep(0.1)

    def unwritten(self, expected):
        """A full disk leaves the rings of each session that could not write, and all recover."""
        left = glob.glob(self.rings + '/*')
        self.recovered += len(left)
        bad = [] if self.recovered == expected else [
            f'{expected} sessions could not write, {self.recovered} left their rings']
        trace = os.path.join(self.folder, 'recovered.nettrace')
        for path in left:
            ran = subprocess.run([self.ringpipe, 'recover', '-f', '-o', trace, path],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if ran.returncode != 0:
                bad.append(f'not recovered: {path}: {ran.stdout.decode()}')
        subprocess.run([self.ringpipe, 'recover', '--prune', self.rings], check=True,
                       stdout=subprocess.DEVNULL)
        return bad


def more(before, after):
    """Return the counts that grew."""
    return [f'{name}: {before[name]}, then {after[name]}' for name in EXACT
            if after[name] > before[name]]


def growth(states):
    """
    Return the sizes that reached a new maximum more often than tables do that never shrink. A leak
    grows in each round.
    """
    bad = []
    for name, slack in (('mappings', 0), ('allocated', 0), ('resident_kb', RESIDENT_SLACK_KB)):
        most, times = states[0][name], 0
        for state in states[1:]:
            if state[name] > most + slack:
                most, times = state[name], times + 1
        if times > max(2, len(states) // 10):
            bad.append(f'{name} grew {times} times, to {most}')
    return bad


def describe(state):
    return ', '.join(f'{name} {count}' for name, count in state.items())


def run(options, folder):
    soak = Soak(options, folder)
    seconds = min(ROUND_SECONDS, options.seconds / 6)
    end = time.monotonic() + options.seconds
    states = []
    try:
        # Make first the parts that stay, like the module that reads symbols.
        soak.collect()
        soak.look()
        while not soak.failures and (len(states) < 2 or time.monotonic() + seconds < end):
            soak.run_round(seconds)
            states.append(soak.settled(states[0] if states else None))
            print(f'# round {len(states)}: {describe(states[-1])}', flush=True)
            soak.failures += soak.unwritten(soak.server.say('figures')['unwritten'])
        done = soak.server.say('figures')
        assert soak.server.end() == 0, 'the server did not end well'
    finally:
        soak.server.process.kill()
    bad = soak.failures + more(states[0], states[-1]) + growth(states)
    left = [os.path.basename(path) for folder in (soak.server.directory, soak.rings)
            for path in glob.glob(folder + '/*')]
    if done['failed']:
        bad.append('sessions of the server that failed for another reason than a full disk')
    if left:
        bad.append('left behind: ' + ' '.join(left))
    print(f'# figure: {len(states)} rounds, at the end {describe(states[-1])}; {soak.counts}')
    disk = '' if soak.is_small else '; no small disk here'
    print(f'# figure: the server: {describe(done)}{disk}')
    for line in bad:
        print('# ' + line)
    print(f'{"not ok" if bad else "ok"} 1 - server_is_as_it_was_after_rounds_of_all_its_clients')
    return bool(bad)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].splitlines()[0])
    parser.add_argument('server')
    parser.add_argument('ringpipe')
    parser.add_argument('--seconds', type=float, default=3600)
    options = parser.parse_args()
    # A mount of one's own, where that is allowed.
    for namespace in (['unshare', '--mount'], ['unshare', '--map-root-user', '--mount']):
        if 'SOAK_APART' not in os.environ and subprocess.run(
                [*namespace, 'true'], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            os.environ['SOAK_APART'] = '1'
            os.execvp(namespace[0], [*namespace, sys.executable, *sys.argv])
    print('TAP version 13\n1..1', flush=True)
    with tempfile.TemporaryDirectory(prefix='ringpipe-soak-') as folder:
        try:
            sys.exit(run(options, folder))
        finally:
            subprocess.run(['umount', os.path.join(folder, 'disk')], check=False,
                           stderr=subprocess.DEVNULL)


if __name__ == '__main__':
    main()
