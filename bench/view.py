# SPDX-License-Identifier: MIT
"""
Measures `ringpipe view` with 100 million events: the making of the index, the time from there to
the first picture and to the complete page, the frames of a series of moves and zooms, the reading
of the whole trace, and the memory.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time

import measure
from compress import cpu_ns
from measure import row
from record_cost import PLAIN, TOOL

HERE = os.path.dirname(os.path.abspath(__file__))
BROWSE = os.path.join(HERE, '..', 'tests', 'view', 'browse.mjs')
EVENTS = 100_000_000
EVENTS_QUICK = 3_000_000
MB = 1 << 20


def find_missing(tool):
    """Return what the suite needs and the machine lacks; or None."""
    for program in ('node', 'chromium'):
        if not shutil.which(program):
            return program
    if not os.path.isdir(os.path.join(os.path.dirname(BROWSE), 'node_modules')):
        return 'the packages of tests/view, which scripts/setup bench fetches'
    refused = subprocess.run([tool, 'view', os.devnull], capture_output=True, text=True,
                             check=False).stderr
    return 'the page of ringpipe view' if 'has no page' in refused else None


def peak_memory(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith('VmHWM'))


def browse(url, *steps):
    seen = json.loads(subprocess.run(['node', BROWSE, shutil.which('chromium'), url, *steps],
                                     stdout=subprocess.PIPE, check=True).stdout)
    if seen['errors']:
        raise RuntimeError(f'the page failed: {seen["errors"][0]}')
    return seen['results']


def measure_page(tool, trace):
    begin = time.monotonic()
    view = subprocess.Popen([tool, 'view', trace], stdout=subprocess.PIPE, text=True, env=PLAIN)
    try:
        url = view.stdout.readline().strip()
        opened = time.monotonic() - begin
        early, moved, moved_cost, _, late = browse(url, 'cost', 'pan', 'cost', 'loaded', 'cost')
        loaded = time.monotonic() - begin
        used = peak_memory(view.pid)
    finally:
        view.terminate()
        view.wait()
        view.stdout.close()
    first = opened + early['first_picture_ms'] / 1e3
    heap = max(cost['heap_bytes'] for cost in (early, moved_cost, late)) / MB
    ok = row('first picture, after the index', first, 's', '<= 2', first <= 2)
    row('complete page, after the index', opened + early['complete_ms'] / 1e3, 's')
    ok &= row('95th percentile of the frames of moves and zooms', moved['p95_ms'], 'ms', '<= 50',
              moved['p95_ms'] <= 50)
    ok &= row('heap of the page', heap, 'MB', '<= 512', heap <= 512)
    row('until moved, and the whole trace is read', loaded, 's')
    row('memory of the command', used, 'MB')
    row('largest answer', max(late['largest'].values()) / 1e6, 'MB')
    return ok


def suite_view(build):
    tool = os.path.join(build, TOOL)
    missing = find_missing(tool)
    if missing:
        row('view', f'cannot run without {missing}')
        return True
    count = EVENTS_QUICK if measure.QUICK else EVENTS
    # The trace may be larger than the memory of the machine's files.
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, 'large.nettrace')
        wrote = json.loads(subprocess.run(
            [os.path.join(build, 'bench', 'bench-view_trace'), trace, str(count)], check=True,
            stdout=subprocess.PIPE).stdout)
        row('size of the trace', os.path.getsize(trace) / MB, 'MB')
        used = cpu_ns([tool, 'report', trace, 'events', '--format', 'csv', '--from', '1ms', '--to',
                       '1001us'])
        rate = wrote['events'] / used * 1e3
        ok = row('index: events a second of processor time', rate, 'M/s', '>= 10', rate >= 10)
        ok &= measure_page(tool, trace)
    return ok
