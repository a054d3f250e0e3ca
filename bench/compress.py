# SPDX-License-Identifier: MIT
"""
Measures compressed traces: their size, and the CPU time that `ringpipe convert` adds for them. The
floor is zstd(1) on the same trace, in turns with it.
"""

import json
import os
import shutil
import subprocess
import tempfile

import measure
from measure import row
from record_cost import PLAIN, TOOL, ShopLoad, drive

ROUNDS = 7
SECONDS = 10
LEVELS = (3, 1)


def record_shop(build, path, seconds):
    """Record the events of the shop under wrk's load."""
    load = ShopLoad(build, None)
    try:
        subprocess.run([os.path.join(build, TOOL), 'collect', str(load.shop.pid), '-q', '-o', path,
                        '--providers', ','.join(drive.PROVIDERS), '-d', str(seconds)],
                       check=True, env=PLAIN)
    finally:
        load.close()


def cpu_ns(command):
    """Run a program. Return its CPU time."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               env=PLAIN)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return (usage.ru_utime + usage.ru_stime) * 1e9


def ways(build, trace):
    """Return way -> (command, its output). Both conversions encode the trace again."""
    convert = [os.path.join(build, TOOL), 'convert', '-q', '-f', '--format', '4', trace, '-o']
    made = {'plain': ([*convert, f'{trace}.4'], f'{trace}.4'),
            'compressed': ([*convert, f'{trace}.zst'], f'{trace}.zst')}
    for level in LEVELS if shutil.which('zstd') else ():
        output = f'{trace}.{level}'
        made[f'zstd -{level}'] = (['zstd', f'-{level}', '--single-thread', '-qf', trace, '-o',
                                   output], output)
    return made


def measure_trace(build, title, trace, rounds):
    events = json.loads(subprocess.run(
        [os.path.join(build, TOOL), 'report', '--format', 'json', trace], check=True,
        stdout=subprocess.PIPE, env=PLAIN).stdout)['events']
    commands = ways(build, trace)
    times = {way: [] for way in commands}
    for _ in range(rounds):
        for way, (command, _) in commands.items():
            times[way].append(cpu_ns(command))
    plain = os.path.getsize(trace)
    sizes = {way: os.path.getsize(output) for way, (_, output) in commands.items()}
    best = {way: min(found) for way, found in times.items()}
    used = best['compressed'] - best['plain']
    row(f'{title}: size', plain / 1e6, 'MB')
    row(f'  {title}: bytes of an event', plain / events, 'B')
    row(f'  {title}: compressed', sizes['compressed'] / 1e6, 'MB')
    row(f'  {title}: size / compressed size', plain / sizes['compressed'], 'x')
    row(f'  {title}: CPU time of the compression, a GB', used / plain, 's')
    row(f'  {title}: CPU time of the compression, an event', used / events, 'ns')
    row(f'  {title}: CPU time of the conversion without it, an event', best['plain'] / events, 'ns')
    for way in (f'zstd -{level}' for level in LEVELS):
        if way not in best:
            row(f'  {title}: {way}', 'not here')
            continue
        row(f'  {title}: {way}: size / compressed size', plain / sizes[way], 'x')
        row(f'  {title}: {way}: CPU time, a GB', best[way] / plain, 's')
        row(f'  {title}: compression / {way}: CPU time', used / best[way], 'x')


def suite_compress(build):
    rounds, seconds = (1, 1) if measure.QUICK else (ROUNDS, SECONDS)
    with tempfile.TemporaryDirectory(dir=measure.output_folder()) as folder:
        names = ('shop', 'orders', 'orders with 8 random bytes')
        traces = dict(zip(names, (os.path.join(folder, f'{n}.nettrace') for n in range(3))))
        subprocess.run([os.path.join(build, 'bench', 'bench-compress'), traces[names[1]],
                        traces[names[2]]], check=True)
        if not os.access(os.path.join(build, 'examples/shop/shop'), os.X_OK) \
                or not shutil.which('wrk'):
            row('shop', 'cannot run')
            del traces['shop']
        else:
            record_shop(build, traces['shop'], seconds)
        for title, trace in traces.items():
            measure_trace(build, title, trace, rounds)
            for left in os.listdir(folder):
                if left.startswith(os.path.basename(trace)):
                    os.unlink(os.path.join(folder, left))
    return True
