#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmarks of a build and prints a table: ratios inside one run, floors named."""

import argparse
import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import disassembly


def figures(command, **kwargs):
    """What a benchmark printed: name -> (value, unit)."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout
    found = {}
    for line in output.splitlines():
        name, value, unit = line.split('\t')
        found[name] = (float(value), unit)
    return found


def row(name, value, unit='', target='', ok=None):
    verdict = '' if ok is None else 'ok' if ok else 'MISSED'
    digits = 0 if isinstance(value, str) or value >= 100 else 3 if 0 < value < 0.1 else 2
    text = value if isinstance(value, str) else f'{value:,.{digits}f}'
    print(f'{name:58} {text:>12} {unit:8} {target:24} {verdict}')
    return ok is not False


def callgrind_instructions(program):
    """Instructions of one disabled event, or None without a valgrind that can read the program."""
    if not shutil.which('valgrind'):
        return None
    totals = {}
    count = 100000
    for kind in ('with', 'without'):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                ['valgrind', '--tool=callgrind', f'--callgrind-out-file={folder}/out', program,
                 kind, str(count)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                env={**os.environ, 'RINGPIPE_DIAGNOSTICS': '0'})
        # Valgrind 3.19 gives up on the DWARF 5 that clang 14 writes.
        if 'debuginfo reader' in result.stderr:
            return None
        result.check_returncode()
        totals[kind] = int(re.search(r'Collected : (\d+)', result.stderr).group(1))
    # Two runs differ by some instructions at start-up; a call has a whole number.
    return round((totals['with'] - totals['without']) / count, 1)


def suite_disabled(build):
    ok = True
    program = os.path.join(build, 'bench', 'bench-disabled')
    instructions = callgrind_instructions(program)
    if instructions is None:
        row('disabled event, by callgrind', 'cannot run')
    else:
        ok &= row('disabled event, by callgrind', instructions, 'instr', '<= 2', instructions <= 2)
    for compiler, language in disassembly.COMPILERS:
        version = disassembly.version(compiler)
        if not version:
            row(f'disabled event, {compiler}', 'not here')
            continue
        for options in disassembly.OPTIONS:
            what = f'disabled event, {version} {" ".join(options)}'
            added = disassembly.added(compiler, language, options)
            if added is None:
                row(what, 'cannot link')
                continue
            ok &= row(what, added[0], 'instr', '<= 2', added[0] <= 2)
            row('  code at the site', added[1], 'B')
            row('  code out of the way', added[2], 'B')
    times = figures([program])
    with_event = times['a call with a disabled event, best'][0]
    without = times['a call without an event, best'][0]
    row('disabled event, by the clock (call with - call without)', with_event - without, 'ns')
    return ok


def suite_enabled(build):
    ok = True
    found = figures([os.path.join(build, 'bench', 'bench-enabled')])
    floor = found['rdtsc, best'][0]
    for name, (value, unit) in found.items():
        if not name.endswith(', best'):
            continue
        base = name[:-len(', best')]
        row(base, value, unit)
        if base == 'event 32 B':
            ok &= row('event 32 B / bare rdtsc', value / floor, 'x', '<= 1.6', value / floor <= 1.6)
            row('event 32 B / clock_gettime', value / found['clock_gettime, best'][0], 'x')
        elif base.startswith('event'):
            row(f'{base} / bare rdtsc', value / floor, 'x')
    ratio = found['event 32 B, overwriting, best'][0] / found['event 32 B, best'][0]
    ok &= row('event 32 B, overwriting / dropping', ratio, 'x', '<= 1.1', ratio <= 1.1)
    fallback = figures([os.path.join(build, 'bench', 'bench-enabled')],
                       env={**os.environ, 'GLIBC_TUNABLES': 'glibc.pthread.rseq=0'})
    row('event 32 B without rseq / bare rdtsc',
        fallback['event 32 B, best'][0] / fallback['rdtsc, best'][0], 'x')
    found = figures([os.path.join(build, 'bench', 'bench-contended')])
    ratio = found['8 threads on one CPU, best'][0] / found['1 thread on one CPU, best'][0]
    ok &= row('8 threads on one CPU / 1 thread there', ratio, 'x', '<= 1.3', ratio <= 1.3)
    return ok


def output_folder():
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else tempfile.gettempdir()


def suite_throughput(build):
    program = os.path.join(build, 'bench', 'bench-throughput')
    target = os.path.join(output_folder(), f'ringpipe-bench-{os.getpid()}.nettrace')
    runs = [figures([program, target, '10', '2', '64']) for _ in range(5)]
    best = min(runs, key=lambda run: run['lost'][0])
    ok = row('10 M/s offered to a file on tmpfs, 64 MB: lost, best of 5', best['lost'][0], 'events',
             '0', best['lost'][0] == 0)
    row('  runs without a loss', f"{sum(run['lost'][0] == 0 for run in runs)} of 5")
    row('  offered', best['offered'][0], 'M/s')
    row('  bytes per event in the file', best['bytes per event'][0], 'B')
    row('  drain thread per event', best['drain thread per event'][0], 'ns')
    full = figures([program, target, '0', '2', '64'])
    row('full throttle: offered', full['offered'][0], 'M/s')
    row('full throttle: delivered', full['delivered'][0], 'M/s')
    return ok


def suite_counters(build):
    found = figures([os.path.join(build, 'bench', 'bench-counters')])
    floor, one = (found[name][0] for name in ('relaxed atomic add', 'counter'))
    for name, (value, unit) in found.items():
        row(name, value, unit)
    ok = row('counter / relaxed atomic add', one / floor, 'x', '<= 2', one / floor <= 2)
    for threads in (2, 4, 8):
        ratio = found[f'counter, {threads} threads'][0] / one
        ok &= row(f'{threads} threads / 1 thread', ratio, 'x', '<= 1.3', ratio <= 1.3)
    ok &= row('series with tags / counter', found['series with tags'][0] / one, 'x', '<= 1.3',
              found['series with tags'][0] / one <= 1.3)
    fallback = figures([os.path.join(build, 'bench', 'bench-counters')],
                       env={**os.environ, 'GLIBC_TUNABLES': 'glibc.pthread.rseq=0'})
    row('counter without rseq / relaxed atomic add',
        fallback['counter'][0] / fallback['relaxed atomic add'][0], 'x')
    return ok


def suite_lifecycle(build):
    found = figures([os.path.join(build, 'bench', 'bench-lifecycle')])
    ok = True
    limits = {'start, 10,000 events, best': 5, 'stop, 10,000 events, best': 5,
              'a lone event reaches its listener, worst of 50': 100,
              '10,000 threads that write once, 1 MB session': 2048}
    for name, (value, unit) in found.items():
        limit = limits.get(name)
        if limit is None:
            row(name, value, unit)
        else:
            target = f'< {limit}' if unit == 'ms' else 'ring + 1 MB'
            ok &= row(name, value, unit, target, value < limit)
    return ok


def suite_stacks(build):
    found = figures([os.path.join(build, 'bench', 'bench-stacks')])
    ok = True
    for name, (value, unit) in found.items():
        row(name, value, unit)
    for depth in (int(name.split()[-2]) for name in found if name.startswith('backtrace')):
        ratio = (found[f'event with a stack of {depth} frames'][0] /
                 found[f'backtrace() of {depth} frames'][0])
        ok &= row(f'event with a stack / backtrace(), {depth} frames', ratio, 'x', '<= 0.5',
                  ratio <= 0.5)
    return ok


def suite_clients(build):
    found = figures([os.path.join(build, 'bench', 'bench-clients')])
    limits = {'ProcessInfo beside them, worst': 100000,
              'ProcessInfo right behind their connects, median': 100000,
              'event 32 B, with them / without, median of pairs': 1.1}
    ok = True
    for name, (value, unit) in found.items():
        if name in limits:
            ok &= row(name, value, unit, f'<= {limits[name]:,}', value <= limits[name])
        else:
            row(name, value, unit)
    for which in ('median', 'worst'):
        row(f'ProcessInfo beside them / without them, {which}',
            found[f'ProcessInfo beside them, {which}'][0] /
            found[f'ProcessInfo without them, {which}'][0], 'x')
    return ok


def figures_if_possible(what, build, program, *needs):
    """Its figures, or None where a program that it needs is not built or it may not run: told."""
    programs = [os.path.join(build, 'src', *path) for path in needs]
    if not all(os.access(path, os.X_OK) for path in programs):
        row(what, 'not built')
        return None
    try:
        return figures([os.path.join(build, 'bench', program), *programs[:1]])
    except subprocess.CalledProcessError as error:
        if error.returncode != 77:
            raise
        row(what, 'cannot run')
        return None


def suite_bridge(build):
    found = figures_if_possible('BPF bridge', build, 'bench-bridge', ('tool', 'ringpipe'),
                                ('bpf', 'ringpipe-bpf'))
    if not found:
        return True
    batches, probed = found['by batches'][0], found['by a uprobe on each'][0]
    row('1 M/s seen by BPF, by batches: CPU of the process', batches, 'ns')
    row('  of it writing', found['by batches: writing'][0], 'ns')
    row('  of it drain thread and BPF', found['by batches: drain thread and BPF'][0], 'ns')
    row('1 M/s seen by BPF, by a uprobe on each', probed, 'ns')
    row('  lost by batches', found['lost'][0], 'events')
    row('drain thread and BPF / by a uprobe on each',
        found['by batches: drain thread and BPF'][0] / probed, 'x')
    return row('by batches / by a uprobe on each', batches / probed, 'x', '<= 0.05',
               batches / probed <= 0.05)


def suite_kernel(build):
    found = figures_if_possible("the kernel's events in a trace", build, 'bench-kernel',
                                ('tool', 'ringpipe'), ('kernel', 'ringpipe-kernel'))
    if not found:
        return True
    alone = found.pop('session alone')[0]
    row('getppid(2) with a session alone', alone, 'ns')
    for groups, (cost, _) in found.items():
        row(f'  with --kernel {groups}', cost, 'ns')
        row(f'  with --kernel {groups} / alone', cost / alone, 'x')
    return True


def lttng_user():
    """LTTng's daemons of root have one place for all of the machine: not as root."""
    return {'user': 65534, 'group': 65534, 'extra_groups': []} if os.getuid() == 0 else {}


@contextlib.contextmanager
def lttng_session(*events):
    """A session daemon of its own, with a session that overwrites; its environment."""
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


def suite_lttng(build):
    program = os.path.abspath(os.path.join(build, 'bench', 'bench-lttng'))
    if not os.path.exists(program) or not shutil.which('lttng-sessiond'):
        row('event with only LTTng on', 'cannot run')
        return True
    ok = True
    with lttng_session('bench_hand:*', 'Bench-LTTng:*') as environment:
        found = figures([program], env=environment, cwd='/', **lttng_user())
    for name, text in (('four', '32 B'), ('text', 'with a string')):
        value, by_hand = (found[f'{row_name}, best'][0] for row_name in (name, f'{name} by hand'))
        row(f'event {text}, only LTTng on', value, 'ns')
        row(f'event {text}, LTTng tracepoint by hand', by_hand, 'ns')
        ok &= row(f'event {text}, only LTTng on / by hand', value / by_hand, 'x', '<= 1.15',
                  value / by_hand <= 1.15)
    return ok


def suite_traced(build):
    found = figures_if_possible('event with a tracer of the kernel', build, 'bench-traced')
    if not found:
        return True
    bare, event = (found[f'{name}, best'][0] for name in ('bare uprobe', 'traced event'))
    row('uprobe on a nop, empty BPF program', bare, 'ns')
    row('event with such a tracer', event, 'ns')
    return row('event with a tracer / bare uprobe', event / bare, 'x', '<= 1.1',
               event / bare <= 1.1)


def suite_recover(build):
    with tempfile.TemporaryDirectory(dir=output_folder()) as folder:
        found = figures([os.path.join(build, 'bench', 'bench-recover'), folder])
    ok = True
    for size in ('32 B', '512 B'):
        memory, file = (found[f'event {size}, ring in {place}, best'][0]
                        for place in ('memory', 'a file'))
        row(f'event {size}, ring in memory', memory, 'ns')
        row(f'event {size}, ring in a file', file, 'ns')
        ok &= row(f'event {size}, ring in a file / in memory', file / memory, 'x', '<= 1.05',
                  file / memory <= 1.05)
    return ok


SUITES = {
    'disabled': suite_disabled,
    'enabled': suite_enabled,
    'counters': suite_counters,
    'throughput': suite_throughput,
    'lifecycle': suite_lifecycle,
    'recover': suite_recover,
    'stacks': suite_stacks,
    'clients': suite_clients,
    'lttng': suite_lttng,
    'bridge': suite_bridge,
    'kernel': suite_kernel,
    'traced': suite_traced,
}


def machine():
    model = 'unknown processor'
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            if line.startswith('model name'):
                model = line.split(':', 1)[1].strip()
                break
    return (f'{model}, {os.cpu_count()} CPUs, Linux {platform.release()}, '
            f'{" ".join(platform.libc_ver())}')


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('build', help='a release build configured with -Dbench=true')
    parser.add_argument('suites', nargs='*', metavar='suite',
                        help=f'{", ".join(SUITES)} (default: all)')
    options = parser.parse_args()
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f'no suite {unknown[0]}; there are {", ".join(SUITES)}')
    print(machine())
    print(f'{"":58} {"value":>12} {"unit":8} {"target":24}')
    ok = True
    for name in options.suites or SUITES:
        ok &= SUITES[name](options.build)
    return 0 if ok else 1


if __name__ == '__main__':
    sys.exit(main())
