# SPDX-License-Identifier: MIT
"""
Measures how fast traces are read: by the library, by TraceEvent on the same file, and the
index of a trace. The floor is read(2) of the same bytes. Measures conversions to other formats,
whose floor is reading the events and copying the bytes of the output.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import measure
import peers
from compress import cpu_ns
from measure import ratio, row
from record_cost import PLAIN, TOOL

HERE = os.path.dirname(os.path.abspath(__file__))
EVENTS = 12_000_000
EVENTS_QUICK = 200_000
READINGS = 5
EVENTS_CONVERTED = 2_000_000
# Millions of events a second of processor time.
CONVERSIONS = {'chrome': 2, 'jsonl': 1.5, 'csv': 0, 'perfetto': 0}


def trace_event(build, trace, readings):
    """Return nanoseconds of processor time per event, by reading; [] without an SDK."""
    folder = os.path.abspath(os.path.join(build, 'dotnet'))
    built = subprocess.run([peers.BUILD_DOTNET, folder, 'TraceLoop',
                            os.path.join(HERE, 'TraceLoop')],
                           stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        print('no TraceEvent: the .NET SDK is missing, or the program cannot be built',
              file=sys.stderr)
        return []
    loop = subprocess.Popen(['dotnet', built.stdout.strip()], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, env={**os.environ, **peers.DOTNET})
    found = []
    try:
        # The runtime recompiles the loop during the first readings.
        for number in range(readings + 2):
            loop.stdin.write(f'{trace}\n')
            loop.stdin.flush()
            _, ns, _ = loop.stdout.readline().split()
            found += [float(ns)] if number > 1 else []
    finally:
        loop.stdin.close()
        loop.wait()
    return found


def measure_summary(build, trace, events, theirs):
    """Measure `ringpipe report summary`, with its start, against TraceEvent on the same file."""
    command = [os.path.join(build, TOOL), 'report', trace, 'summary']
    taken = [cpu_ns(command) / events for _ in range(3 if measure.QUICK else READINGS)]
    rate = 1e3 / min(taken)
    ok = row('report summary: events a second of processor time', rate, 'M/s', '>= 30', rate >= 30)
    if theirs:
        ok &= peers.dotnet_ratio(theirs, taken, 'TraceEvent / report summary', 5)
    return ok


def measure_index(build, trace, events):
    """Measure the first reading of a range, which makes the index, and the next ones."""
    command = [os.path.join(build, TOOL), 'report', trace, 'events', '--format', 'csv', '--from',
               '1ms', '--to', '1001us']
    index = f'{trace}.rpidx'
    first, later = [], []
    for _ in range(3 if measure.QUICK else READINGS):
        if os.path.exists(index):
            os.unlink(index)
        first.append(cpu_ns(command))
        later.append(cpu_ns(command))
    rate = events / min(first) * 1e3
    ok = row('index: events a second of processor time', rate, 'M/s', '>= 10', rate >= 10)
    row('index: a range of 1 us, with the index there', min(later) / 1e6, 'ms',
        spread=[value / 1e6 for value in statistics.quantiles(later, n=4)])
    return ok


def measure_conversion(build, trace, form, events, reading_ns):
    """Measure a conversion against reading the events and writing the same bytes."""
    output = f'{trace}.{form}'
    rounds = range(2 if measure.QUICK else READINGS)
    command = [os.path.join(build, TOOL), 'convert', trace, '--to', form, '-q', '-f', '-o', output]
    taken = [cpu_ns(command) for _ in rounds]
    copied = [cpu_ns(['dd', f'if={output}', f'of={output}.copy', 'bs=256k', 'status=none'])
              for _ in rounds]
    os.unlink(output)
    os.unlink(f'{output}.copy')
    least, rate = CONVERSIONS[form], events / min(taken) * 1e3
    ok = row(f'--to {form}: events a second of processor time', rate, 'M/s',
             f'>= {least}' if least else '', rate >= least if least else None)
    row(f'  {form} / reading and copying', min(taken) / (reading_ns * events + min(copied)), 'x')
    return ok


def measure_conversions(build, program, folder):
    events = EVENTS_QUICK if measure.QUICK else EVENTS_CONVERTED
    trace = os.path.join(folder, 'convert.nettrace')
    subprocess.run([program, trace, 'write', str(events)], check=True, env=PLAIN)
    found = measure.figures([program, trace, 'read'], env=PLAIN)
    return all([measure_conversion(build, trace, form, events, min(found.rounds['ringpipe']))
                for form in CONVERSIONS])


def suite_reader(build):
    program = os.path.join(build, 'bench', 'bench-reader')
    count = EVENTS_QUICK if measure.QUICK else EVENTS
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder:
        trace = os.path.join(folder, 'bench.nettrace')
        subprocess.run([program, trace, 'write', str(count)], check=True, env=PLAIN)
        found = measure.figures([program, trace, 'read'], env=PLAIN)
        theirs = [] if measure.QUICK else trace_event(build, trace, READINGS)
        again = measure.figures([program, trace, 'read'], env=PLAIN)
        measure.rows_of(found)
        rate = 1e3 / min(found.rounds['ringpipe'] + again.rounds['ringpipe'])
        ok = row('events a second of processor time', rate, 'M/s', '>= 30', rate >= 30)
        ratio(found, 'ringpipe', 'read(2)')
        row('  the same again (A/A)', min(again.rounds['ringpipe']) /
            min(found.rounds['ringpipe']), 'x')
        if theirs:
            row('TraceEvent', min(theirs), 'ns', spread=statistics.quantiles(theirs, n=4))
            ok &= peers.dotnet_ratio(theirs, again.rounds['ringpipe'], 'TraceEvent / ringpipe', 5)
        else:
            row('TraceEvent', 'not here', target='>= 5')
        ok &= measure_summary(build, trace, count, theirs)
        ok &= measure_index(build, trace, count)
        ok &= measure_conversions(build, program, folder)
    return ok
