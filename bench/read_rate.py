# SPDX-License-Identifier: MIT
"""
Measures how fast traces are read: by the library, by TraceEvent on the same file, and the
index of a trace. The floor is read(2) of the same bytes. Measures conversions to other formats,
whose floor is reading the events and copying the bytes of the output, and JSON events against
events with the same values in fields.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import measure
import peers
from compress import cpu_ns
from measure import row
from record_cost import PLAIN, TOOL

HERE = os.path.dirname(os.path.abspath(__file__))
EVENTS = 12_000_000
EVENTS_QUICK = 200_000
READINGS = 5
EVENTS_CONVERTED = 2_000_000
# Millions of events a second of processor time.
CONVERSIONS = {'chrome': 2, 'jsonl': 1.5, 'csv': 0, 'perfetto': 0}


class TraceLoop:
    """A process in which TraceEvent reads a trace. It is not there without the .NET SDK."""

    def __init__(self, build):
        folder = os.path.abspath(os.path.join(build, 'dotnet'))
        built = subprocess.run([peers.BUILD_DOTNET, folder, 'TraceLoop',
                                os.path.join(HERE, 'TraceLoop')],
                               stdout=subprocess.PIPE, text=True, check=False)
        self.loop = None
        if built.returncode:
            print('no TraceEvent: the .NET SDK is missing, or the program cannot be built',
                  file=sys.stderr)
            return
        self.loop = subprocess.Popen(['dotnet', built.stdout.strip()], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True,
                                     env={**os.environ, **peers.DOTNET})

    def read(self, trace):
        """Return nanoseconds of processor time per event."""
        self.loop.stdin.write(f'{trace}\n')
        self.loop.stdin.flush()
        return float(self.loop.stdout.readline().split()[1])

    def close(self):
        if self.loop:
            self.loop.stdin.close()
            self.loop.wait()


def pair_ratio(theirs, ours, text, least):
    """Compare readings that alternated: the load of the machine was the same for both of a pair."""
    pairs = [a / b for a, b in zip(theirs, ours)]
    value = statistics.median(pairs)
    return row(text, value, 'x', f'>= {least}', value >= least, statistics.quantiles(pairs, n=4))


def measure_readers(build, program, trace, events):
    """
    Measure the library, `ringpipe report summary` with its start, and TraceEvent, which read the
    same file alternately. Return: whether all targets were reached.
    """
    command = [os.path.join(build, TOOL), 'report', trace, 'summary']
    theirs, library, summary, floor = [], [], [], []
    loop = TraceLoop(build) if not measure.QUICK else None
    try:
        # The .NET runtime recompiles the loop during the first readings.
        for _ in range(2 if loop and loop.loop else 0):
            loop.read(trace)
        for _ in range(3 if measure.QUICK else READINGS):
            found = measure.figures([program, trace, 'read'], env=PLAIN)
            library.append(found['ringpipe, median'][0])
            floor.append(found['read(2), median'][0])
            theirs += [loop.read(trace)] if loop and loop.loop else []
            summary.append(cpu_ns(command) / events)
    finally:
        if loop:
            loop.close()
    for name, taken in (('read(2)', floor), ('ringpipe', library), ('report summary', summary),
                        ('TraceEvent', theirs)):
        if taken:
            row(name, min(taken), 'ns', spread=statistics.quantiles(taken, n=4))
    row('ringpipe / read(2)', min(library) / min(floor), 'x')
    rates = 1e3 / min(library), 1e3 / min(summary)
    ok = row('events a second of processor time', rates[0], 'M/s', '>= 30', rates[0] >= 30)
    ok &= row('report summary: events a second of processor time', rates[1], 'M/s', '>= 30',
              rates[1] >= 30)
    if theirs:
        ok &= pair_ratio(theirs, library, 'TraceEvent / ringpipe', 5)
        ok &= pair_ratio(theirs, summary, 'TraceEvent / report summary', 5)
    else:
        row('TraceEvent', 'not here', target='>= 5')
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


def measure_json(build, program, folder):
    """Measure how fast JSON events are opened into fields, against events that have them."""
    events = EVENTS_QUICK if measure.QUICK else EVENTS_CONVERTED
    taken = {}
    for kind in 'write-json', 'write-typed':
        trace = os.path.join(folder, f'{kind}.nettrace')
        subprocess.run([program, trace, kind, str(events)], check=True, env=PLAIN)
        command = [os.path.join(build, TOOL), 'convert', trace, '--to', 'jsonl', '-q', '-f', '-o',
                   '/dev/null']
        taken[kind] = min(cpu_ns(command) / events for _ in range(2 if measure.QUICK else READINGS))
    row('JSON events with 4 members, --to jsonl: events a second', 1e3 / taken['write-json'], 'M/s')
    row('  JSON events / events with the same fields', taken['write-json'] / taken['write-typed'],
        'x')


def suite_reader(build):
    program = os.path.join(build, 'bench', 'bench-reader')
    count = EVENTS_QUICK if measure.QUICK else EVENTS
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder:
        trace = os.path.join(folder, 'bench.nettrace')
        subprocess.run([program, trace, 'write', str(count)], check=True, env=PLAIN)
        ok = measure_readers(build, program, trace, count)
        ok &= measure_index(build, trace, count)
        ok &= measure_conversions(build, program, folder)
        measure_json(build, program, folder)
    return ok
