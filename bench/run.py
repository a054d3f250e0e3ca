#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the benchmarks of a build and prints a table: ratios inside one run, floors named."""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import callgrind
import compress
import disassembly
import growth
import inbox_cost
import measure
import page
import peers
import read_rate
import record_cost
import report
import servers
import view
from measure import figures, ratio, row
from peers import lttng_session, lttng_user


def no_rseq():
    return {**os.environ, 'GLIBC_TUNABLES': 'glibc.pthread.rseq=0'}


def callgrind_instructions(program):
    """Return the instructions of one disabled event, or None without a valgrind that can read the
    program."""
    count = 100000
    totals = [callgrind.instructions([program, kind, str(count)]) for kind in ('with', 'without')]
    if None in totals:
        return None
    # Two runs differ by some instructions at start-up; a call has a whole number.
    return round((totals[0] - totals[1]) / count, 1)


def processor_counts(program):
    """
    Return {what: of one call with a disabled event, minus one without}, from the processor's
    counters; empty without perf or without counters, as on many virtual machines.
    """
    if not shutil.which('perf'):
        return {}
    count, totals = 10_000_000, {}
    for kind, sign in (('with', 1), ('without', -1)):
        result = subprocess.run(
            ['perf', 'stat', '-x,', '-e', 'instructions:u,cycles:u,L1-dcache-loads:u', program,
             kind, str(count)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            check=False, env={**os.environ, 'RINGPIPE_DIAGNOSTICS': '0'})
        for line in result.stderr.splitlines():
            fields = line.split(',')
            if len(fields) > 2 and fields[0].isdigit():
                what = fields[2].split(':')[0]
                totals[what] = totals.get(what, 0) + sign * int(fields[0]) / count
    return totals


def suite_disabled(build):
    ok = True
    program = os.path.join(build, 'bench', 'bench-disabled')
    instructions = callgrind_instructions(program)
    if instructions is None:
        row('disabled event, by callgrind', 'cannot run')
    else:
        ok &= row('disabled event, by callgrind', instructions, 'instr', '<= 2', instructions <= 2)
    counts = processor_counts(program)
    for what, value in counts.items():
        row(f"disabled event, by the processor's counters: {what}", value)
    if not counts:
        row("disabled event, by the processor's counters", 'none here')
    worst = {False: [], True: []}
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
            worst[disassembly.KEYS in options].append(added[0])
            row(what, added[0], 'instr')
            row('  code at the site', added[1], 'B')
            row('  code out of line', added[2], 'B')
            row('  cache lines of data', added[3], 'lines')
    for with_keys, what, most in ((False, 'disabled event, the worst of these', 2),
                                  (True, 'disabled event with static keys, the worst', 1)):
        if worst[with_keys]:
            found = max(worst[with_keys])
            ok &= row(what, found, 'instr', f'<= {most}', found <= most)
    times = figures([program])
    with_event = times['a call with a disabled event, best'][0]
    without = times['a call without an event, best'][0]
    row('disabled event, by the clock (call with - call without)', with_event - without, 'ns')
    return ok


def suite_enabled(build):
    ok = True
    found = figures([os.path.join(build, 'bench', 'bench-enabled')])
    measure.rows_of(found)
    for name in found.rounds:
        if name == 'event 32 B':
            ok &= ratio(found, name, 'rdtsc', limit=1.35)
            ratio(found, name, 'clock_gettime')
        elif name.startswith('event') and not name.startswith('event 32 B, '):
            ratio(found, name, 'rdtsc')
    ok &= ratio(found, 'event 32 B, coarse time', 'rdtsc', limit=0.5)
    for name in ('event 32 B', 'event 32 B, coarse time', 'floor: the same section'):
        if f'{name}, a long burst' in found.rounds:
            ratio(found, f'{name}, a long burst', 'rdtsc, a long burst',
                  f'{name} / rdtsc, a long burst')
    ok &= ratio(found, 'event 32 B, overwriting', 'event 32 B', limit=1.1)
    rounds = {} if measure.QUICK else {'BENCH_ROUNDS': '1000'}
    fallback = figures([os.path.join(build, 'bench', 'bench-enabled')],
                       env={**no_rseq(), **rounds})
    ratio(fallback, 'event 32 B', 'rdtsc', 'event 32 B without rseq / rdtsc')
    found = figures([os.path.join(build, 'bench', 'bench-contended')])
    measure.curve('Enabled event by threads on one CPU', 'threads', 'ns', {'threads on one CPU': [
        (int(name.split()[0]), min(rounds)) for name, rounds in found.rounds.items()]})
    return ok & ratio(found, '8 threads on one CPU', '1 thread on one CPU', limit=1.2)


def suite_counters(build):
    found = figures([os.path.join(build, 'bench', 'bench-counters')])
    for name in ('relaxed atomic add', 'counter', 'series with tags', 'histogram'):
        row(name, *found[name], spread=statistics.quantiles(found.rounds[name], n=4))
    ok = ratio(found, 'counter', 'relaxed atomic add', limit=2)
    ok &= ratio(found, 'counter, 8 threads', 'counter', limit=1.2)
    ok &= ratio(found, 'series with tags', 'counter', limit=1.2)
    # Medians: in the best round, the threads may not have run simultaneously.
    measure.curve('Counting by threads', 'threads', 'ns', {
        name: [(threads, found[f'{name}{more}, median'][0]) for threads, more in
               ((1, ''), *((n, f', {n} threads') for n in (2, 4, 8, 16, 32, 64)))]
        for name in ('counter', 'atomic add to one word')})
    curves = figures([os.path.join(build, 'bench', 'bench-series')]).curves
    measure.curve('A counter by its series', 'series', 'ns', {
        name: curves[name] for name in
        ('made', 'counted, by a stored pointer', 'counted, by its tag')})
    measure.curve('Reading a counter by its series', 'series', 'us',
                  {'all read': curves['all read']})
    measure.each_more('series', curves['all read'], 'us')
    measure.curve('Emitting counters', 'counters', 'ns',
                  {'emitting a counter': curves['emitting a counter']})
    fallback = figures([os.path.join(build, 'bench', 'bench-counters')],
                       env={**no_rseq(), 'BENCH_ROUNDS': '3'})
    ratio(fallback, 'counter', 'relaxed atomic add', 'counter without rseq / relaxed atomic add')
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
    curves = {'event with a stack': [], 'backtrace()': []}
    for depth in (int(name.split()[-2]) for name in found.rounds if name.startswith('backtrace')):
        for name, points in curves.items():
            points.append((depth, min(found.rounds[f'{name} of {depth} frames'])))
        ok &= ratio(found, f'event with a stack of {depth} frames',
                    f'backtrace() of {depth} frames', limit=0.5)
    measure.curve('Event with its stack by frames', 'frames', 'ns', curves)
    measure.each_more('frame', curves['event with a stack'], 'ns')
    ratio(found, 'event with a stack and 3 frames of a host',
          'event with a stack below an interpreter')
    return ok


def suite_clients(build):
    found = figures([os.path.join(build, 'bench', 'bench-clients')])
    limits = {'ProcessInfo with them, worst': 100000,
              'ProcessInfo right after their connects, median': 100000,
              'event 32 B, with them / without, median of pairs': 1.1}
    ok = True
    for name, (value, unit) in found.items():
        if name in limits:
            ok &= row(name, value, unit, f'<= {limits[name]:,}', value <= limits[name])
        else:
            row(name, value, unit)
    for which in ('median', 'worst'):
        row(f'ProcessInfo with them / without them, {which}',
            found[f'ProcessInfo with them, {which}'][0] /
            found[f'ProcessInfo without them, {which}'][0], 'x')
    return ok


def figures_if_possible(what, target, build, program, *needs):
    """Return the figures, or None after a message if a required program is missing or not
    permitted."""
    programs = [os.path.join(build, 'src', 'tools', name, name) for name in needs]
    if not all(os.access(path, os.X_OK) for path in programs):
        row(what, 'not built', target=target)
        return None
    try:
        return figures([os.path.join(build, 'bench', program), *programs[:1]])
    except subprocess.CalledProcessError as error:
        if error.returncode != 77:
            raise
        row(what, 'cannot run', target=target)
        return None


def suite_bridge(build):
    found = figures_if_possible('BPF bridge', '<= 0.05', build, 'bench-bridge',
                                'ringpipe', 'ringpipe-bpf')
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
    found = figures_if_possible("the kernel's events in a trace", '', build, 'bench-kernel',
                                'ringpipe', 'ringpipe-kernel')
    if not found:
        return True
    row('getppid(2) with a session alone', found['session alone'][0], 'ns')
    for groups in ('sched', 'syscalls', 'all'):
        row(f'  with --kernel {groups}', found[groups][0], 'ns')
        ratio(found, groups, 'session alone', f'  with --kernel {groups} / alone')
    return True


def suite_keys(build):
    # On all processors, not only AMD's.
    os.environ['RINGPIPE_STATIC_KEYS'] = '1'
    found = figures_if_possible('static keys', '< 1,000', build, 'bench-keys')
    if not found:
        return True
    limits = {'start, 100,000 sites off, worst': 1000}
    ok = True
    for name, (value, unit) in found.items():
        if name in limits:
            ok &= row(name, value, unit, f'< {limits[name]:,}', value < limits[name])
        elif not name.startswith('event'):
            row(name, value, unit)
    measure.rows_of(found)
    ratio(found, 'event 32 B, static key on', 'event 32 B, load and branch on')
    return ok


def suite_component(build):
    found = figures([os.path.join(build, 'bench', name) for name in
                     ('bench-component', 'bench-component-module.so')])
    measure.rows_of(found)
    ratio(found, 'dynamic event of a component, 4 fields', 'event 32 B')
    return ratio(found, "event 32 B through a component's table", 'event 32 B', limit=1.15)


def suite_context(build):
    found = figures([os.path.join(build, 'bench', 'bench-context')])
    name = 'attach or detach, published'
    measure.rows_of(found)
    ratio(found, 'attach or detach', 'rdtsc')
    ratio(found, name, 'rdtsc')
    value = min(found.rounds[name])
    return row('attach or detach ids that profilers see', value, 'ns', '<= 5', value <= 5)


def suite_lttng(build):
    program = os.path.abspath(os.path.join(build, 'bench', 'bench-lttng'))
    if not os.path.exists(program) or not shutil.which('lttng-sessiond'):
        row('event with only LTTng on', 'cannot run', target='<= 1.15')
        return True
    ok = True
    with lttng_session('bench_hand:*', 'Bench-LTTng:*') as environment:
        found = figures([program], env=environment, cwd='/', **lttng_user())
    measure.rows_of(found)
    for name in ('event 32 B, only LTTng on', 'event with a string, only LTTng on'):
        ok &= ratio(found, name, name.replace('only LTTng on', 'LTTng tracepoint by hand'),
                    f'{name} / by hand', limit=1.15)
    return ok


def suite_traced(build):
    found = figures_if_possible('event with a tracer of the kernel', '<= 1.1', build,
                                'bench-traced')
    if not found:
        return True
    measure.rows_of(found)
    return ratio(found, 'event with such a tracer', 'uprobe on a nop, empty BPF program',
                 'event with a tracer / bare uprobe', limit=1.1)


def suite_waits(build):
    found = figures_if_possible('waits of all threads', '', build, 'bench-waits', 'ringpipe',
                                'ringpipe-record')
    if not found:
        return True
    measure.rows_of(found)
    for way in ('ringpipe record', 'records of perf_events'):
        ratio(found, f'switch, {way}', 'switch')
    return True


def suite_recover(build):
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder:
        found = figures([os.path.join(build, 'bench', 'bench-recover'), folder])
    ok = True
    measure.rows_of(found)
    for size in ('32 B', '512 B'):
        ok &= ratio(found, f'event {size}, ring in a file', f'event {size}, ring in memory',
                    f'event {size}, ring in a file / in memory', limit=1.05)
    return ok


SUITES = {
    'disabled': suite_disabled,
    'enabled': suite_enabled,
    'peers': peers.suite_peers,
    **growth.SUITES,
    'counters': suite_counters,
    'keys': suite_keys,
    'component': suite_component,
    'context': suite_context,
    'lifecycle': suite_lifecycle,
    'recover': suite_recover,
    'stacks': suite_stacks,
    'inbox': inbox_cost.suite_inbox,
    'clients': suite_clients,
    'lttng': suite_lttng,
    'bridge': suite_bridge,
    'kernel': suite_kernel,
    'traced': suite_traced,
    'waits': suite_waits,
    'record': record_cost.suite_record,
    'compress': compress.suite_compress,
    'reader': read_rate.suite_reader,
    'view': view.suite_view,
    'servers': servers.suite_servers,
}


def run_suite(name, build):
    """
    Run one suite. A failure becomes a row, and the other suites still run. Return (suite, False if
    a target is missed or the suite failed).
    """
    suite = measure.begin(name)
    try:
        ok = SUITES[name](build)
    except Exception as error:	# an unexpected failure must not stop the other suites
        traceback.print_exc()
        row('the suite failed', ' '.join(str(error).replace('|', '/').split()), ok=False)
        ok = False
    return suite.end(), ok


def run_all(options, about):
    """Return: the exit status."""
    names = options.suites or list(SUITES)
    begun, ok = time.monotonic(), True
    missed, reached = [], 0
    for number, name in enumerate(names, 1):
        minutes, seconds = divmod(int(time.monotonic() - begun), 60)
        print(f'-- {name}, {number} of {len(names)}, after {minutes}:{seconds:02}', flush=True)
        suite, suite_ok = run_suite(name, options.build)
        ok &= suite_ok
        reached += sum(row['verdict'] == 'reached' for row in suite.rows)
        missed += [f"{name}: {row['name']}" for row in suite.rows if row['verdict'] == 'MISSED']
        if options.output:
            folder = options.output.replace('KIND', report.kind(about))
            report.write(folder, about, suite, SUITES)
            for path in options.page:
                page.update(path, folder)
        if options.plots:
            report.write_plots(options.plots, suite)
    print(f'-- {reached} targets reached, {len(missed)} missed, '
          f'{(time.monotonic() - begun) / 60:.1f} minutes')
    for what in missed:
        print(f'   missed: {what}')
    return 0 if ok else 1


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, epilog='Ends with 0; with 1 where a target is missed or a suite broke '
        'off; with 130 when it is interrupted: the suites that ended by then are written.')
    parser.add_argument('--output', metavar='FOLDER',
                        help='write results.md there; KIND in it is replaced by the kind of '
                             'machine')
    parser.add_argument('--plots', metavar='FOLDER',
                        help='draw the curves there, each as an SVG; takes gnuplot')
    parser.add_argument('--page', metavar='FILE', action='append', default=[],
                        help="rewrite the table of the output's figures in it, if it has one")
    parser.add_argument('--quick', action='store_true',
                        help='a few rounds of each, whose figures mean nothing: does it work?')
    parser.add_argument('build', help='a release build configured with -Dbench=true')
    parser.add_argument('suites', nargs='*', metavar='suite',
                        help=f'{", ".join(SUITES)} (default: all)')
    options = parser.parse_args(arguments)
    unknown = [name for name in options.suites if name not in SUITES]
    if unknown:
        parser.error(f'no suite {unknown[0]}; there are {", ".join(SUITES)}')
    if options.quick:
        measure.be_quick()
    about = report.machine()
    print(f"{about['processor']}, {about['cpus']} CPUs, Linux {about['versions']['kernel']}, "
          f"{about['versions']['libc']}")
    print(f'{"":58} {"value":>12} {"unit":8} {"quartiles":>16} target')
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run_all(options, about)
    except KeyboardInterrupt:
        print(f'interrupted in {measure.SUITE.name}', file=sys.stderr)
        return 130


if __name__ == '__main__':
    sys.exit(main())
