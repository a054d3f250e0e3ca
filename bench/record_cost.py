#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Measures what `ringpipe record` costs: the CPU time of a load and of the recorder for each request,
in pairs of windows with and without a recorder. A window begins when the recorder is in its steady
state, so the CPU time of its start and of its end is a separate row.
"""

import argparse
import array
import contextlib
import glob
import mmap
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import measure
from measure import row

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, 'examples', 'shop'))
import drive  # noqa: E402

TOOL = 'src/tools/ringpipe/ringpipe'
PAIRS = 30
SECONDS = 2.0
# The recorder merges events two seconds after they occurred.
WARM_S = 2.5
CALM_S = 0.3
# Other programs may use so much in a window.
CALM_CPUS = 0.1
RATE = 100_000
PROCESSES = 200
ATTACH_ROUNDS = 5
MEMORY_MB = 128
PRIORITY = -10  # of a recorder that has started
PLAIN = {**os.environ, 'RINGPIPE_LTTNG': '0'}


def children(pid):
    """Return the process and its descendants."""
    found = [pid]
    with contextlib.suppress(OSError):
        for thread in os.listdir(f'/proc/{pid}/task'):
            with open(f'/proc/{pid}/task/{thread}/children', encoding='ascii') as file:
                for child in file.read().split():
                    found += children(int(child))
    return found


def cpu_ns(pid):
    """Return {process: ns of CPU time of all its threads} of the process and its descendants."""
    times = {}
    for process in children(pid):
        with contextlib.suppress(OSError):
            times[process] = time.clock_gettime_ns(~process << 3 | 2)  # clock_getcpuclockid(3)
    return times


def machine_ns():
    """Return the CPU time of all programs, and what the host took from this machine."""
    with open('/proc/stat', encoding='ascii') as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    idle, iowait = ticks[3:5]
    return (sum(ticks) - idle - iowait) * 1e9 / os.sysconf('SC_CLK_TCK')


def cpu_between(before, after):
    return sum(ns - before.get(process, 0) for process, ns in after.items())


def mappings_bytes(pid):
    """Return the Pss of a process, with rings of perf_events whole and without maps of BPF."""
    total, name = 0, ''
    with open(f'/proc/{pid}/smaps', encoding='utf-8', errors='replace') as file:
        for line in file:
            field, _, rest = line.partition(':')
            if field in ('Size', 'Pss'):
                is_ring = name.endswith('[perf_event]')
                if field == ('Size' if is_ring else 'Pss') and not name.endswith(':bpf-map'):
                    total += int(rest.split()[0]) << 10
            elif re.match(r'[\da-f]+-[\da-f]+ ', line):
                name = line.strip().rpartition(' ')[2]
    return total


def bpf_bytes(pids):
    """Return the memory that the kernel charges for the BPF maps and programs of processes."""
    found = {}
    for path in (path for pid in pids for path in glob.glob(f'/proc/{pid}/fdinfo/*')):
        with contextlib.suppress(OSError), open(path, encoding='ascii') as file:
            fields = dict(line.rstrip().split(':\t', 1) for line in file if ':\t' in line)
            number = fields.get('map_id') or fields.get('prog_id')
            if number and 'memlock' in fields:
                found['map_id' in fields, number] = int(fields['memlock'])
    return sum(found.values())


def memory_bytes(pid):
    """Return the memory of a recorder: of its processes, its rings and its BPF maps."""
    total, pids = 0, children(pid)
    for process in pids:
        with contextlib.suppress(OSError):
            total += mappings_bytes(process)
    return total + bpf_bytes(pids)


def events_of(*providers):
    """Return options for the events of a default recording, but not those of other programs. The
    load may be without any."""
    return ['--allow-missing', '--providers',
            ','.join(f'{name}:0xffffffffffffffff:4' for name in providers)]


class Recorder:
    """A recorder, until `stop`."""

    def __init__(self, build, folder, options, environment=None):
        self.log = open(os.path.join(folder, 'log'), 'w+', encoding='utf-8')
        self.process = subprocess.Popen(
            [os.path.join(build, TOOL), 'record', '--force', '-o',
             os.path.join(folder, 'trace'), *options],
            stdin=subprocess.DEVNULL, stderr=self.log, env=environment or PLAIN)
        self.pid = self.process.pid
        self.lost = 0

    def wait_until_started(self):
        drive.wait_for(lambda: os.getpriority(os.PRIO_PROCESS, self.pid) == PRIORITY,
                       'the recorder', [self.process])

    def stop(self, sample=None):
        """End the recording. Return the CPU time in ns of all its processes."""
        self.process.send_signal(signal.SIGINT)
        while True:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG if sample else 0)
            if pid:
                break
            sample()
            time.sleep(0.02)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.log.seek(0)
        said = self.log.read()
        self.log.close()
        found = re.search(r'([\d,]+) lost', said)
        if self.process.returncode != 0 or not found:
            raise drive.Failure(f'ringpipe record failed:\n{said}')
        self.lost = int(found.group(1).replace(',', ''))
        if self.lost:
            print(said.strip(), file=sys.stderr)
        return (usage.ru_utime + usage.ru_stime) * 1e9

    def close(self):
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
            self.log.close()


class ShopLoad:
    """The shop under wrk's load. It counts requests."""

    def __init__(self, build, _folder):
        self.stack = contextlib.ExitStack()
        self.shop = self.stack.enter_context(
            drive.shop(os.path.join(build, 'examples/shop/shop'), env=PLAIN))
        # A shop that is killed leaves its socket, which each scan of the recorder examines.
        self.stack.callback(drive.interrupt, self.shop.process)
        wrk = self.stack.enter_context(
            drive.running(drive.load_command(self.shop.url, 3600), stdout=subprocess.DEVNULL))
        self.pids = [self.shop.pid, wrk.pid]

    def wait_for_recorder(self, recorder, has_events):
        if has_events:
            self.shop.wait_for_sessions(1, [recorder.process])

    def count(self):
        return next(event['offered'] for event in self.shop.stats()['events']
                    if event['event'] == 'request_stop')

    def close(self):
        self.stack.close()


class SwitchLoad:
    """Two processes that wake one another. It counts context switches."""

    def __init__(self, build, folder):
        path = os.path.join(folder, 'count')
        processor = max(os.sched_getaffinity(0))
        self.stack = contextlib.ExitStack()
        host = self.stack.enter_context(drive.running(
            [os.path.join(build, 'bench/bench-record_load'), 'switches', path, str(processor),
             str(RATE)], stdout=subprocess.PIPE, env={**PLAIN, 'RINGPIPE_DIAGNOSTICS': '0'}))
        host.stdout.readline()
        with open(path, 'rb') as file:
            self.counter = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
        self.pids = [host.pid]

    def wait_for_recorder(self, recorder, has_events):
        pass

    def count(self):
        return int.from_bytes(self.counter[:8], sys.byteorder)

    def close(self):
        self.counter.close()
        self.stack.close()


class Window:
    """The processor time of a load and a recorder in a window of time."""

    def __init__(self, load, recorder, seconds):
        begin_ns, machine = time.monotonic_ns(), machine_ns()
        begin = self.sample(load, recorder)
        time.sleep(seconds)
        end = self.sample(load, recorder)
        elapsed_ns, machine = time.monotonic_ns() - begin_ns, machine_ns() - machine
        count = end[0] - begin[0]
        used = [cpu_between(old, new) for old, new in zip(begin[1:], end[1:])]
        self.load_ns, self.server_ns, self.recorder_ns = (ns / count for ns in used)
        self.rate = count / elapsed_ns * 1e9
        self.others = max(0, machine - used[0] - used[2]) / elapsed_ns  # in CPUs

    @staticmethod
    def sample(load, recorder):
        """The load answers late when the machine is busy: take the mean of two readings."""
        def times():
            found = [cpu_ns(pid) for pid in load.pids]
            return ({pid: ns for part in found for pid, ns in part.items()}, found[0],
                    cpu_ns(recorder.pid) if recorder else {})

        before = times()
        count = load.count()
        after = times()
        return (count, *({pid: (old.get(pid, ns) + ns) / 2 for pid, ns in new.items()}
                         for old, new in zip(before, after)))


class Way:
    """A way to run the load: without a recorder, or with one that has these options."""

    def __init__(self, name, options=None, has_events=False):
        self.name = name
        self.options = options
        self.has_events = has_events
        self.windows = []
        self.start_ns, self.end_ns = [], []
        self.lost = 0
        self.memory = 0

    def run(self, build, folder, load, seconds):
        if self.options is None:
            time.sleep(min(CALM_S, seconds))
            return Window(load, None, seconds)
        with contextlib.closing(Recorder(build, folder, self.options)) as recorder:
            self.begin(load, recorder)
            self.start_ns.append(sum(cpu_ns(recorder.pid).values()))
            time.sleep(min(WARM_S, seconds * 2))
            window = Window(load, recorder, seconds)
            used = sum(cpu_ns(recorder.pid).values())
            self.end_ns.append(recorder.stop() - used)
            self.lost += recorder.lost
            return window

    def begin(self, load, recorder):
        recorder.wait_until_started()
        load.wait_for_recorder(recorder, self.has_events)

    def measure_memory(self, build, folder, load, seconds):
        """Record once more, and look at the memory all the time."""
        with contextlib.closing(Recorder(build, folder, self.options)) as recorder:
            def sample():
                self.memory = max(self.memory, memory_bytes(recorder.pid))

            self.begin(load, recorder)
            end = time.monotonic() + min(WARM_S, seconds) + seconds
            while time.monotonic() < end:
                sample()
                time.sleep(0.1)
            recorder.stop(sample)
            self.lost += recorder.lost


def student(share, freedom):
    """Return the quantile of Student's distribution, by the expansion of Cornish and Fisher."""
    z = statistics.NormalDist().inv_cdf(share)
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2) +
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3))


def upper_bound(values):
    """Return the upper 95 % bound of the mean."""
    if len(values) < 2:
        return values[0]
    error = statistics.stdev(values) / len(values)**0.5
    return statistics.mean(values) + student(0.95, len(values) - 1) * error


def added(way, base, of):
    """Return what the way adds to each of its pair, in percent."""
    return [100 * (of(window) / of(other) - 1) for window, other in zip(way.windows, base.windows)]


def whole_ns(window):
    return window.load_ns + window.recorder_ns


def server_ns(window):
    return window.server_ns + window.recorder_ns


def quartiles(values):
    return statistics.quantiles(values, n=4) if len(values) > 1 else ()


def add_rows(title, way, base, again, limit):
    """Return False if a target is missed."""
    cost, noise = added(way, base, whole_ns), added(again, base, whole_ns)
    bound = upper_bound(cost)
    ok = row(f'{title}, upper bound', bound, '%', f'<= {limit}' if limit else '',
             bound <= limit if limit else None)
    row(f'  {title}, mean of {len(cost)} pairs', statistics.mean(cost), '%',
        spread=quartiles(cost))
    row(f'  {title}, without a recorder twice, upper bound', upper_bound(noise), '%')
    row(f'  {title}, without a recorder twice, mean', statistics.mean(noise), '%',
        spread=quartiles(noise))
    row(f"  {title}, of it the recorder's processes",
        statistics.mean(100 * window.recorder_ns / other.load_ns
                        for window, other in zip(way.windows, base.windows)), '%')
    row(f"  {title}, compared with the server's CPU time alone",
        statistics.mean(added(way, base, server_ns)), '%')
    row(f'  {title}, CPU time of the start', statistics.median(way.start_ns) / 1e6, 'ms')
    row(f'  {title}, CPU time of the end', statistics.median(way.end_ns) / 1e6, 'ms')
    ok &= row(f'  {title}, lost', way.lost, 'events', '0', way.lost == 0)
    megabytes = way.memory / 1e6
    return ok & row(f'  {title}, peak memory of the recorder', megabytes, 'MB',
                    f'<= {MEMORY_MB}', megabytes <= MEMORY_MB)


def run_round(build, folder, make_load, ways, number, seconds):
    """Run the ways in another order in each round, with a load of this round. Return the windows,
    and the most that other programs used in one of them."""
    first = number % len(ways)
    order = ways[first:] + ways[:first]
    if number // len(ways) % 2:
        order.reverse()
    with contextlib.closing(make_load(build, folder)) as load:
        time.sleep(min(CALM_S, seconds))
        windows = {way: way.run(build, folder, load, seconds) for way in order}
    return max(window.others for window in windows.values()), windows


def run_pairs(build, make_load, ways, pairs, seconds):
    """Run rounds until there are enough in which the machine was calm, or twice as many; take the
    calmest. The choice does not depend on the figures of a round."""
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder:
        rounds = []
        while (sum(others <= CALM_CPUS for others, _ in rounds) < pairs and
               len(rounds) < (pairs if measure.QUICK else 2 * pairs)):
            rounds.append(run_round(build, folder, make_load, ways, len(rounds), seconds))
        rounds = sorted(rounds, key=lambda found: found[0])[:pairs]
        for way in ways:
            way.windows = [windows[way] for _, windows in rounds]
        with contextlib.closing(make_load(build, folder)) as load:
            for way in ways:
                if way.options is not None:
                    way.measure_memory(build, folder, load, seconds)
    return rounds[-1][0]


def measure_load(build, make_load, unit, plural, recorded, pairs, seconds):
    """Run a load with each of `recorded`, {title: (options, has events, limit)}."""
    base, again = Way('base'), Way('again')
    ways = {title: Way(title, options, has_events)
            for title, (options, has_events, _) in recorded.items()}
    others = run_pairs(build, make_load, [base, *ways.values(), again], pairs, seconds)
    ok = True
    for title, way in ways.items():
        ok &= add_rows(title, way, base, again, recorded[title][2])
    rate = statistics.mean(window.rate for window in base.windows)
    used = statistics.mean(window.load_ns for window in base.windows)
    row(f'  {plural} a second without a recorder', rate)
    row(f'  CPU time of a {unit} without a recorder', used, 'ns')
    row(f'  {plural}: used by other programs, at most', 100 * others, '%')
    return ok


def private(folder):
    """Return an environment in which programs have their sockets in the folder."""
    return {**PLAIN, 'TMPDIR': folder}


def sockets(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('-socket')]


def connect_all(paths):
    """Return the seconds in which a client connects to all sockets."""
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        for path in paths:
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
        return time.monotonic() - begin


@contextlib.contextmanager
def idle_processes(build, folder, count, output):
    """Run processes that wait, with a diagnostics socket each."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(drive.running(
                [os.path.join(build, 'bench/bench-record_load'), 'idle'], stdout=output,
                env=private(folder)))
        drive.wait_for(lambda: len(sockets(folder)) == count, 'the sockets')
        yield


def attach_once(build, folder, reader, count):
    """Return the seconds until the first and the last process has a session, and the memory."""
    begin, enabled, first = time.monotonic(), set(), None
    with contextlib.closing(Recorder(build, folder, events_of('Bench-Record'),
                                     private(folder))) as recorder:
        while len(enabled) < count:
            enabled.update(array.array('i', os.read(reader, 4 * count)))
            first = first or time.monotonic() - begin
        last = time.monotonic() - begin
        recorder.wait_until_started()
        memory = memory_bytes(recorder.pid)
        recorder.stop()
    return first, last, memory


def attach_all(build, count, rounds, can_record):
    """Return the seconds of connecting to so many sockets, and what attach_once() returns."""
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder, \
            idle_processes(build, folder, count, writer):
        floors, found = [], []
        for _ in range(rounds):
            floors.append(connect_all(sockets(folder)))
            if can_record:
                found.append(attach_once(build, folder, reader, count))
    os.close(reader)
    os.close(writer)
    return floors, found


def measure_attach(build, count, rounds, can_record):
    floors, found = attach_all(build, count, rounds, can_record)
    row(f'attach: {count} sockets connected', min(floors) * 1e3, 'ms',
        spread=quartiles([1e3 * floor for floor in floors]))
    for number, which in enumerate(('first', 'last') if found else ()):
        times = [1e3 * run[number] for run in found]
        row(f'attach: session in the {which} of {count} processes', min(times), 'ms',
            spread=quartiles(times))
    if found:
        memory = max(run[2] for run in found) / 1e6
        return row(f'  attach: memory of the recorder of {count} processes', memory, 'MB',
                   f'<= {MEMORY_MB}', memory <= MEMORY_MB)
    return True


def why_not(build):
    """Return why this machine cannot record, or None."""
    for name in ('src/tools/ringpipe-record/ringpipe-record', 'examples/shop/shop'):
        if not os.access(os.path.join(build, name), os.X_OK):
            return 'not built'
    if os.geteuid() != 0 or not shutil.which('wrk'):
        return 'cannot run'
    said = subprocess.run(
        [os.path.join(build, TOOL), 'record', '--force', '-o', '/dev/null', '--', 'true'],
        stderr=subprocess.PIPE, text=True, check=False, env=PLAIN).stderr
    return 'cannot run' if re.search('only processes of this user|no waits are recorded', said) \
        else None


def suite_record(build, pairs=PAIRS, seconds=SECONDS):
    if measure.QUICK:
        pairs, seconds = 1, 0.3
    reason, ok = why_not(build), True
    samples = ['--profile', 'cpu']
    if reason:
        row('a recording', reason)
    else:
        ok &= measure_load(build, ShopLoad, 'request', 'requests', {
            'shop, samples': ([*samples, '--providers', 'none'], False, None),
            'shop, samples and events': ([*samples, *events_of(*drive.PROVIDERS)], True, 1),
        }, pairs, seconds)
        ok &= measure_load(build, SwitchLoad, 'switch', 'switches', {
            'switches, samples and waits': (events_of('Bench-Record'), False, 4),
        }, pairs, seconds)
    return ok & measure_attach(build, 10 if measure.QUICK else PROCESSES,
                               1 if measure.QUICK else ATTACH_ROUNDS, not reason)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build', help='a release build configured with -Dbench=true')
    parser.add_argument('--pairs', type=int, default=PAIRS, help='of windows (%(default)s)')
    parser.add_argument('--seconds', type=float, default=SECONDS,
                        help='of a window (%(default)s)')
    options = parser.parse_args()
    return 0 if suite_record(options.build, options.pairs, options.seconds) else 1


if __name__ == '__main__':
    sys.exit(main())
