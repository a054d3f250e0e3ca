# SPDX-License-Identifier: MIT
"""Parses what benchmarks print, and collects the rows and curves of a run."""

import math
import os
import statistics
import subprocess
import tempfile
import time

QUICK = False


def be_quick():
    """Make this run a test of the benchmarks: no target counts as missed."""
    global QUICK
    QUICK = True
    os.environ['BENCH_ROUNDS'] = '3'


def output_folder():
    """Return a folder in memory, if there is one."""
    return '/dev/shm' if os.access('/dev/shm', os.W_OK) else tempfile.gettempdir()


class Figures(dict):
    """
    Parse figures: name -> (value, unit). A name with rounds has them in `rounds`, and `NAME, best`
    and `NAME, median` here; curves are label -> [(x, y)] in `curves`.
    """

    def __init__(self):
        super().__init__()
        self.rounds = {}
        self.curves = {}

    def add(self, line):
        name, value, unit = line.split('\t')
        if ':' in value:
            x, y = value.split(':')
            self.curves.setdefault(name, []).append((float(x), float(y)))
            return
        rounds = [float(part) for part in value.split(',')]
        self[name] = (min(rounds), unit)
        if len(rounds) > 1:
            self.rounds[name] = rounds
            self[f'{name}, best'] = (min(rounds), unit)
            self[f'{name}, median'] = (statistics.median(rounds), unit)

    def ratio(self, name, base):
        """Return (best / best, [lower quartile, median, upper quartile] of the round-by-round
        ratios)."""
        pairs = [a / b for a, b in zip(self.rounds[name], self.rounds[base])]
        return min(self.rounds[name]) / min(self.rounds[base]), statistics.quantiles(pairs, n=4)


def figures(command, **kwargs):
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **kwargs).stdout
    found = Figures()
    for line in output.splitlines():
        found.add(line)
    return found


def rows_of(found):
    """Add a row for each name with rounds: the best, and quartiles."""
    for name, rounds in found.rounds.items():
        row(name, min(rounds), found[name][1], spread=statistics.quantiles(rounds, n=4))


class Suite:
    """Begin a suite: its figures, its time, and the load of the machine before it."""

    def __init__(self, name):
        self.name = name
        self.rows = []
        self.plots = []
        self.load = os.getloadavg()[0]
        self.taken = time.strftime('%Y-%m-%d', time.gmtime())
        self.begun = time.monotonic()
        self.seconds = 0.0

    def end(self):
        self.seconds = time.monotonic() - self.begun
        return self


SUITE = Suite('')


def begin(name):
    """Add all following rows to this suite."""
    global SUITE
    SUITE = Suite(name)
    return SUITE


def number(value):
    digits = 0 if value >= 100 else 3 if 0 < value < 0.1 else 2
    return f'{value:,.{digits}f}'


def row(name, value, unit='', target='', ok=None, spread=(), growth=''):
    """
    Add one figure. `spread` is its quartiles; a text as value is the reason why there is none.
    Return False if a target is missed.
    """
    verdict = '' if ok is None or QUICK else 'reached' if ok else 'MISSED'
    text = value if isinstance(value, str) else number(value)
    around = f'{number(spread[0])}-{number(spread[-1])}' if spread else ''
    print(f'{name:58} {text:>12} {unit:8} {around:>16} {target or growth:16} {verdict}', flush=True)
    SUITE.rows.append({'name': name.strip(), 'value': value, 'unit': unit, 'target': target,
                       'verdict': verdict, 'spread': list(spread), 'growth': growth})
    return ok is not False or QUICK


def ratio(found, name, base, text=None, limit=None, least=None):
    """Add a row with name / base, from pairs of rounds; the value is the ratio of the best
    rounds."""
    value, spread = found.ratio(name, base)
    target = f'<= {limit}' if limit else f'>= {least}' if least else ''
    ok = value <= limit if limit else value >= least if least else None
    return row(text or f'{name} / {base}', value, 'x', target, ok, spread)


def exponent(points):
    """Return the exponent of growth: the slope of log y over log x."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    return statistics.linear_regression(*zip(*logs)).slope if len(logs) > 1 else 0.0


def growth(points):
    """Describe the growth in words, from the largest x, where fixed costs no longer matter."""
    power = exponent(points[-max(3, len(points) // 2):])
    if abs(power) < 0.15:
        return 'constant'
    return f'linear, x^{power:.2f}' if 0.85 < power < 1.15 else f'x^{power:.2f}'


def curve(title, x_label, y_label, curves):
    """
    Add a plot of `curves`, {label: [(x, y)]}, and a row for each: first, last, and the growth
    between.
    """
    # A logarithmic scale has no zero.
    if any(x > 0 and y > 0 for points in curves.values() for x, y in points):
        SUITE.plots.append({'title': title, 'x': x_label, 'y': y_label, 'curves': curves})
    for label, points in curves.items():
        first, last = points[0], points[-1]
        row(f'{label}, {number(first[0])} {x_label}'.replace('.00', ''), first[1], y_label)
        row(f'  {label}, {number(last[0])} {x_label}'.replace('.00', ''), last[1], y_label,
            growth=f'grows: {growth(points)}')


def each_more(what, points, unit):
    """Add a row with the cost of one more, from the first to the last point. Return that cost."""
    (x, y), (last_x, last_y) = points[0], points[-1]
    more = (last_y - y) / (last_x - x)
    row(f'  each more {what}', more, unit)
    return more
