# SPDX-License-Identifier: MIT
"""Measures the same event with other tracers: what each costs the writing thread."""

import contextlib
import glob
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

import measure
from measure import figures, ratio, row

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD_DOTNET = os.path.join(os.path.dirname(HERE), 'tests', 'interop', 'build_dotnet.sh')
DOTNET = {'DOTNET_CLI_TELEMETRY_OPTOUT': '1', 'DOTNET_NOLOGO': '1'}


def lttng_user():
    """Run LTTng as another user: root's daemons share one folder for the whole machine."""
    return {'user': 65534, 'group': 65534, 'extra_groups': []} if os.getuid() == 0 else {}


@contextlib.contextmanager
def lttng_session(*events):
    """Run a separate session daemon with an overwriting session; yield its environment."""
    with tempfile.TemporaryDirectory() as home:
        if os.getuid() == 0:
            os.chown(home, 65534, 65534)
        environment = {**os.environ, 'LTTNG_HOME': home, 'HOME': home}
        quiet = {'env': environment, 'stdout': subprocess.DEVNULL, **lttng_user()}
        daemon = subprocess.Popen(['lttng-sessiond', '--no-kernel'], start_new_session=True,
                                  stderr=subprocess.DEVNULL, **quiet)
        try:
            lttng = ['lttng', '--no-sessiond', '--quiet']
            while subprocess.run([*lttng, 'list'], stderr=subprocess.DEVNULL, check=False,
                                 **quiet).returncode != 0:
                daemon.poll()
                if daemon.returncode is not None:
                    raise RuntimeError('lttng-sessiond does not run')
            subprocess.run([*lttng, 'create', '--snapshot', 'bench'], check=True, **quiet)
            for event in events:
                subprocess.run([*lttng, 'enable-event', '--userspace', event], check=True, **quiet)
            subprocess.run([*lttng, 'start'], check=True, **quiet)
            yield environment
        finally:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()


@contextlib.contextmanager
def bpftrace(program):
    """Run bpftrace on the probe in each process of this program; None where it cannot run."""
    if not shutil.which('bpftrace') or os.getuid() != 0:
        yield None
        return
    tracer = subprocess.Popen(['bpftrace', '-e', f'usdt:{program}:bench:four {{ @ = count(); }}'],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield tracer
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()


def native(build):
    """Return the figures of peers.c, with all available peers."""
    program = os.path.abspath(os.path.join(build, 'bench', 'bench-peers'))
    user = {}
    with contextlib.ExitStack() as stack:
        environment = {**os.environ, 'LTTNG_UST_REGISTER_TIMEOUT': '0'}
        if shutil.which('lttng-sessiond') and not measure.QUICK:
            try:
                environment = stack.enter_context(lttng_session('bench_hand:*'))
                user = lttng_user()
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f'no LTTng: {error}', file=sys.stderr)
        if not measure.QUICK and stack.enter_context(bpftrace(program)):
            environment['BENCH_USDT'] = '1'
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=measure.output_folder()))
        if user:
            os.chown(folder, user['user'], user['group'])
        return figures([program, folder], env={**environment, 'RINGPIPE_LTTNG': '0'}, cwd='/',
                       **user)


def text16(string):
    return struct.pack('<I', len(string) + 1) + (string + '\0').encode('utf-16-le')


def collect_tracing3(stacks):
    """CollectTracing3 of the diagnostics protocol: documentation/design-docs/ipc-protocol.md."""
    payload = struct.pack('<IIBBI', 256, 1, 0, stacks, 1)
    payload += struct.pack('<QI', 0xffffffffffffffff, 5) + text16('Bench-EventPipe')
    payload += struct.pack('<I', 0)
    return b'DOTNET_IPC_V1\0' + struct.pack('<HBBH', 20 + len(payload), 2, 4, 0) + payload


@contextlib.contextmanager
def dotnet_session(folder, pid, stacks):
    """Start a session at the process's own port, and write its stream to a file."""
    deadline = time.monotonic() + 60
    while not (paths := glob.glob(f'{folder}/dotnet-diagnostic-{pid}-*-socket')):
        if time.monotonic() > deadline:
            raise RuntimeError('no diagnostics socket')
        time.sleep(0.05)

    def copy():
        with open(os.path.join(folder, 'dotnet.nettrace'), 'wb') as file:
            while data := stream.recv(1 << 20):
                file.write(data)

    stream = socket.socket(socket.AF_UNIX)
    stream.connect(paths[0])
    stream.sendall(collect_tracing3(stacks))
    reply = stream.recv(28, socket.MSG_WAITALL)
    if reply[16] != 0xff or reply[17] != 0:
        raise RuntimeError('.NET does not start a session')
    copier = threading.Thread(target=copy)
    copier.start()
    try:
        yield
    finally:
        with socket.socket(socket.AF_UNIX) as stop:
            stop.connect(paths[0])
            stop.sendall(b'DOTNET_IPC_V1\0' + struct.pack('<HBBH', 28, 2, 1, 0) + reply[20:28])
            stop.recv(64)
            copier.join()
        stream.close()


def dotnet(build):
    """Return {what: rounds} of EventPipe in .NET's own runtime, or None without an SDK."""
    folder = os.path.abspath(os.path.join(build, 'dotnet'))
    result = subprocess.run([BUILD_DOTNET, folder, 'EventPipe', os.path.join(HERE, 'EventPipe')],
                            stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        return None
    rounds = 40
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder:
        host = subprocess.Popen(['dotnet', result.stdout.strip()], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True,
                                env={**os.environ, **DOTNET, 'TMPDIR': folder})

        def take():
            host.stdin.write(f'{rounds}\n')
            host.stdin.flush()
            return [float(value) for value in host.stdout.readline().split(',')]

        try:
            pid = int(host.stdout.readline())
            found = {'.NET EventPipe, off': take()}
            for stacks, name in ((False, 'without stacks'), (True, 'with stacks')):
                with dotnet_session(folder, pid, stacks):
                    take()	# the runtime recompiles it meanwhile
                    found[f'.NET EventPipe, {name}'] = take()
            return found
        finally:
            host.stdin.close()
            host.wait()


def dotnet_if_possible(build):
    try:
        return dotnet(build) or {}
    except (OSError, RuntimeError, ValueError) as error:
        print(f'no .NET: {error}', file=sys.stderr)
        return {}


def dotnet_ratio(theirs, ours, text, least=None):
    """
    Compare medians, since the rounds are no pairs, and the ratios of the quartiles: one of the
    processes may have run at a quieter time.
    """
    low, middle, high = statistics.quantiles(theirs, n=4)
    our_low, our_middle, our_high = statistics.quantiles(ours, n=4)
    value = middle / our_middle
    return row(f'{text}, medians', value, 'x', f'>= {least}' if least else '',
               value >= least if least else None, (low / our_high, high / our_low))


def suite_peers(build):
    """Run all in one process; .NET is a separate process, right after it."""
    found = native(build)
    theirs = {} if measure.QUICK else dotnet_if_possible(build)
    measure.rows_of(found)
    peers = ['LTTng-UST tracepoint', 'fprintf to a file', 'spdlog, asynchronous',
             'USDT with bpftrace']
    for name in peers:
        if name not in found.rounds:
            row(name, 'not here', target='>= 5' if name.startswith('LTTng') else '')
    for name, rounds in theirs.items():
        row(name, min(rounds), 'ns', spread=statistics.quantiles(rounds, n=4))
    if not theirs:
        row('.NET EventPipe', 'not here', target='>= 10')
    ok = ratio(found, 'ringpipe', 'rdtsc', limit=1.35)
    ratio(found, 'ringpipe', 'clock_gettime')
    for name in peers:
        if name in found.rounds:
            ok &= ratio(found, name, 'ringpipe', least=5 if name.startswith('LTTng') else None)
    if theirs:
        ok &= dotnet_ratio(theirs['.NET EventPipe, without stacks'], found.rounds['ringpipe'],
                           '.NET EventPipe, without stacks / ringpipe', 10)
        dotnet_ratio(theirs['.NET EventPipe, with stacks'], found.rounds['ringpipe'],
                     '.NET EventPipe, with stacks / ringpipe')
    return ok
