#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Measures what the modules in integrations/ cost their servers: CPU time of each request, in pairs of
windows with a server that has no module, and instructions of each request, by callgrind with an
allocator whose cost does not depend on the heap (fixed_malloc.c).

`SERVERS` lists the servers. integrations/NAME/NAME_bench.py describes one by these names:

  UNIT, UNITS          what is counted, such as 'request' and 'requests'
  WAYS                 {way: (True if the module is loaded, providers of a session or None, limit in
                       percent or None)}; `ways()` makes the usual one
  why_not()            why this machine cannot run the server, or None
  prepare(build, folder)
                       build the module of that build of ringpipe in a folder; return its path;
                       raise drive.Failure if its parts cannot be downloaded
  Load(module, folder, ringpipe)
                       the server, without its module if `module` is None, under a load that goes on
                       until close(). It has `pids`: the processes of the server and of its load,
                       each with all its descendants; `traced`: the processes that get a session;
                       and count(), the number of requests so far
  prepare_empty(folder)
                       optional: build a module without any function in a folder; return its path
  probes()             optional: a program of bpftrace for probes that the server has itself, which
                       does what the request spans do
  CAN_START_SESSION    optional: True if instructions() passes RINGPIPE_CONFIG to the server
  KINDS                optional: the kinds of requests, such as 'proxied', to count apart
  instructions(module, folder, ringpipe, count, kind)
                       return the instructions of a server that starts, answers so many requests,
                       and ends; or None without valgrind (callgrind.py has server_instructions());
                       `kind` is omitted without KINDS
"""

import argparse
import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from unittest import mock

import callgrind
import measure
from measure import row
from record_cost import (CALM_CPUS, CALM_S, HERE, PAIRS, PLAIN, TOOL, Way, Window, added, drive,
                         quartiles, server_ns, upper_bound)

SERVERS = ('haproxy', 'nginx', 'postgresql', 'redis')
SECONDS = 1.0
ALLOCATOR = 'bench/bench-fixed-malloc.so'
BASE, AGAIN = 'without the module', 'without the module, again'
PROBES = 'its own probes and bpftrace'
# Where the same server twice differs by more, instructions decide on the module that is off.
NOISE = 0.2
COUNTS = (500, 2500)	# of requests; their difference has no start and no end


def ways(requests, everything):
    """Return the ways of a server whose providers are these."""
    return {'off': (True, None, 0.5), 'request spans': (True, requests, 2),
            'everything': (True, everything, 5)}


class Collector:
    """`ringpipe collect` in the processes of a load."""

    def __init__(self, build, folder, load, providers):
        self.tool = os.path.join(build, TOOL)
        self.children = []
        self.lost = 0
        for pid in load.traced:
            command = [self.tool, 'collect', '--force', '-o', os.path.join(folder, f't{pid}'),
                       '--providers', providers, '-p', str(pid)]
            self.children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, env=PLAIN,
                                                  stderr=subprocess.PIPE, text=True))
        self.pid = self.children[0].pid
        for pid in load.traced:
            drive.wait_for(lambda pid=pid: self.has_session(pid), 'a session', self.children)

    def has_session(self, pid):
        done = subprocess.run([self.tool, 'list', '--format', 'json', '-p', str(pid)], check=True,
                              stdout=subprocess.PIPE, env=PLAIN)
        return any(line['kind'] == 'session' for line in json.loads(done.stdout))

    def close(self):
        for child in self.children:
            child.send_signal(signal.SIGINT)
        for child in self.children:
            said = child.communicate()[1]
            found = re.search(r'([\d,]+) lost', said)
            if child.returncode != 0:
                raise drive.Failure(f'ringpipe collect failed:\n{said}')
            self.lost += int(found.group(1).replace(',', '')) if found else 0


class Bpftrace:
    """bpftrace with a program, which has at least one map."""

    def __init__(self, program):
        self.child = subprocess.Popen(
            ['bpftrace', '-B', 'line', '-e', 'BEGIN { printf("ready\\n"); } ' + program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.pid, self.lost = self.child.pid, 0
        while 'ready' not in self.child.stdout.readline():
            if self.child.poll() is not None:
                raise drive.Failure(f'bpftrace ended with {self.child.returncode}')

    def close(self):
        self.child.send_signal(signal.SIGINT)
        if '@' not in self.child.communicate()[0]:
            raise drive.Failure('bpftrace counted nothing')


class ServerWay(Way):
    """The server without its module, or with the module and a session for some providers; or
    without its module and with a program of bpftrace."""

    def __init__(self, name, server, module=None, providers=None, limit=None, program=None):
        super().__init__(name)
        self.server, self.module, self.providers, self.limit = server, module, providers, limit
        self.program = program
        self.can_start_session = getattr(server, 'CAN_START_SESSION', False)

    def run(self, build, folder, _load, seconds):
        tool = os.path.join(build, TOOL)
        with tempfile.TemporaryDirectory(dir=folder) as own, \
                contextlib.closing(self.server.Load(self.module, own, tool)) as load:
            if not self.is_recorded():
                time.sleep(min(CALM_S, seconds))
                return Window(load, None, seconds)
            recorder = Bpftrace(self.program) if self.program else \
                Collector(build, own, load, self.providers)
            with contextlib.closing(recorder):
                time.sleep(min(CALM_S, seconds))
                window = Window(load, recorder, seconds)
            self.lost += recorder.lost
            return window

    def is_recorded(self):
        return self.providers is not None or self.program is not None

    def instructions(self, build, folder, *kind):
        """Return the instructions of a request, or None if valgrind cannot run the server. The
        server starts the session itself, so that it has no thread for a tool."""
        found = []
        for count in COUNTS:
            with tempfile.TemporaryDirectory(dir=folder) as own:
                session = {'RINGPIPE_CONFIG': self.providers,
                           'RINGPIPE_OUTPUT': os.path.join(own, 'trace-{pid}')}
                with mock.patch.dict(os.environ, session if self.providers else {}):
                    found.append(self.server.instructions(
                        self.module, own, os.path.join(build, TOOL), count, *kind))
        return None if None in found else (found[1] - found[0]) / (COUNTS[1] - COUNTS[0])


def run_pairs(build, folder, all_ways, pairs, seconds):
    """Run all ways in each round, in another order each time, and with a new server each time, so
    that no difference comes from where a server's memory lies. Take the calmest rounds."""
    rounds = []
    while (sum(others <= CALM_CPUS for others, _ in rounds) < pairs and
           len(rounds) < (pairs if measure.QUICK else 2 * pairs)):
        first = len(rounds) % len(all_ways)
        order = all_ways[first:] + all_ways[:first]
        if len(rounds) // len(all_ways) % 2:
            order.reverse()
        windows = {way: way.run(build, folder, None, seconds) for way in order}
        rounds.append((max(window.others for window in windows.values()), windows))
    rounds = sorted(rounds, key=lambda found: found[0])[:pairs]
    for way in all_ways:
        way.windows = [windows[way] for _, windows in rounds]
    return rounds[-1][0]


def server_alone_ns(window):
    return window.server_ns


def add_time_rows(name, way, base, noise):
    """Return False if a target is missed that the CPU time decides."""
    cost = added(way, base, server_alone_ns)
    bound = upper_bound(cost)
    decides = way.limit is not None and (noise <= NOISE or way.providers is not None)
    ok = row(f'{name}, {way.name}, upper bound', bound, '%',
             f'<= {way.limit}' if decides else '', bound <= way.limit if decides else None)
    row(f'  {name}, {way.name}, mean of {len(cost)} pairs', statistics.mean(cost), '%',
        spread=quartiles(cost))
    if way.is_recorded():
        row(f'  {name}, {way.name}, and the process that records',
            statistics.mean(added(way, base, server_ns)), '%')
    if way.providers:
        ok &= row(f'  {name}, {way.name}, lost', way.lost, 'events', '0', way.lost == 0)
    return ok


def add_instruction_rows(build, folder, name, base, found, noise, *kind):
    """Return False if a target is missed that the instructions decide."""
    floor, ok = base.instructions(build, folder, *kind), True
    name = ' '.join([name, *kind])
    if floor is None:
        row(f'{name}, instructions of a request', 'cannot run')
        return True
    row(f'{name}, instructions of a request, {BASE}', floor, 'instr')
    for way in found:
        if way.providers and (noise <= NOISE or not way.can_start_session):
            continue
        own = way.instructions(build, folder, *kind)
        more = 100 * (own / floor - 1)
        # The drain thread of a session wakes by time, and valgrind is slow and has no restartable
        # sequences: more instructions than without valgrind, so only what is off is judged.
        decides = noise > NOISE and way.limit is not None and way.providers is None
        how = 'by instructions' + (' without rseq' if way.providers else '')
        ok &= row(f'  {name}, {way.name}, {how}', more, '%',
                  f'<= {way.limit}' if decides else '', more <= way.limit if decides else None)
        row(f'  {name}, {way.name}, more instructions', own - floor, 'instr')
    return ok


def ways_of_probes(name, server):
    """Return the way of bpftrace and the server's own probes, in a list; an empty one without."""
    if not hasattr(server, 'probes'):
        return []
    if os.getuid() != 0 or not shutil.which('bpftrace'):
        row(f'{name}, {PROBES}', 'bpftrace requires root')
        return []
    return [ServerWay(PROBES, server, program=server.probes())]


@contextlib.contextmanager
def private_sockets(folder):
    """Have servers put their sockets into a folder of their own. Tools that look only into the
    usual folder do not find them, and so start no threads in them; tools that scan all processes,
    such as `ringpipe ps`, still do."""
    tempfile.gettempdir()	# which this process keeps
    sockets = os.path.join(folder, 'sockets')
    os.mkdir(sockets)
    os.chmod(sockets, 0o1777)
    with mock.patch.dict(os.environ, TMPDIR=sockets):
        yield


def measure_server(build, name, pairs, seconds):
    sys.path.insert(0, os.path.join(HERE, os.pardir, 'integrations', name))
    server = importlib.import_module(f'{name}_bench')
    reason = server.why_not()
    if reason:
        row(f'the module in {name}', reason)
        return True
    # Where modules find the shared library.
    os.environ['LD_LIBRARY_PATH'] = os.path.abspath(os.path.join(build, 'src'))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=measure.output_folder()))
        # Some servers give up root, and must still reach their files.
        os.chmod(folder, 0o755)
        try:
            module = server.prepare(os.path.abspath(build), folder)
        except drive.Failure as failure:
            row(f'the module in {name}', str(failure))
            return True
        callgrind.ALLOCATOR = shutil.copy(os.path.join(build, ALLOCATOR), folder)
        stack.enter_context(private_sockets(folder))
        base, again = ServerWay(BASE, server), ServerWay(AGAIN, server)
        found = [ServerWay(way, server, module if is_loaded else None, providers, limit)
                 for way, (is_loaded, providers, limit) in server.WAYS.items()]
        peers = ways_of_probes(name, server)
        others = run_pairs(build, folder, [base, *found, *peers, again], pairs, seconds)
        row(f'{name}, CPU time of a {server.UNIT}, {BASE}',
            statistics.mean(window.server_ns for window in base.windows), 'ns')
        noise = upper_bound(added(again, base, server_alone_ns))
        add_time_rows(name, again, base, noise)
        ok = all([add_time_rows(name, way, base, noise) for way in (*found, *peers)])
        row(f'  {name}, {server.UNITS} a second, {BASE}',
            statistics.mean(window.rate for window in base.windows))
        row(f'  {name}, used by other programs, at most', 100 * others, '%')
        if hasattr(server, 'prepare_empty'):
            found.insert(0, ServerWay('an empty module', server, server.prepare_empty(folder)))
        kinds = [[kind] for kind in server.KINDS] if hasattr(server, 'KINDS') else [[]]
        return all([ok, *(add_instruction_rows(build, folder, name, base, found, noise, *kind)
                          for kind in kinds)])


def suite_servers(build, pairs=PAIRS, seconds=SECONDS, names=SERVERS):
    global COUNTS
    if measure.QUICK:
        pairs, seconds, COUNTS = 1, 0.2, (10, 20)
    return all([measure_server(build, name, pairs, seconds) for name in names])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('build', help='a release build configured with -Dbench=true')
    parser.add_argument('servers', nargs='*', metavar='server',
                        help=f'{", ".join(SERVERS)} (default: all)')
    parser.add_argument('--pairs', type=int, default=PAIRS, help='of windows (%(default)s)')
    parser.add_argument('--seconds', type=float, default=SECONDS,
                        help='of a window (%(default)s)')
    options = parser.parse_args()
    ok = suite_servers(options.build, options.pairs, options.seconds, options.servers or SERVERS)
    return 0 if ok else 1


if __name__ == '__main__':
    sys.exit(main())
