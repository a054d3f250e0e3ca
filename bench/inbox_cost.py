# SPDX-License-Identifier: MIT
"""Measures the in-box providers, and other libraries that wrap the functions of libc."""

import contextlib
import glob
import os
import shutil
import statistics
import subprocess
import sys

import measure
from measure import Figures, figures, ratio, row
from peers import lttng_session, lttng_user

ROUNDS = 15
INTERVAL = 512 * 1024  # bytes between samples
CALLS = ['malloc and free', 'mutex', 'read lock']
FOLDERS = ['/usr/lib/*', '/usr/lib', '/usr/lib64']
LTTNG = ['liblttng-ust-libc-wrapper.so', 'liblttng-ust-pthread-wrapper.so']


def library(name):
    """Return the path of an installed library, or None."""
    found = [path for folder in FOLDERS for path in glob.glob(f'{folder}/{name}')]
    return found[0] if found else None


def ways(build, lttng):
    """Return {way: variables of the environment, or None if its library is not installed}."""
    inbox = os.path.abspath(os.path.join(build, 'src', 'libringpipe-inbox.so.1'))
    plain = {'LD_PRELOAD': inbox, 'RINGPIPE_OUTPUT': '/dev/null'}
    session = {**plain, 'RINGPIPE_STACKS': '1'}
    every = {'RINGPIPE_CONFIG': 'ringpipe-heap::4:SampleBytes=1'}
    wrappers = [library(f'{name}*') for name in LTTNG]
    preload = {'LD_PRELOAD': ':'.join(wrappers)} if all(wrappers) else None
    tcmalloc, heaptrack = library('libtcmalloc.so.4'), \
        library('heaptrack/libheaptrack_preload.so')
    return {
        'without a library': {},
        'without a library, again': {},
        'ringpipe, off': {'LD_PRELOAD': inbox},
        'ringpipe, sampling': {**session, 'RINGPIPE_CONFIG': 'ringpipe-heap,ringpipe-locks'},
        'ringpipe, each block': {**plain, **every},
        'ringpipe, each block with its stack': {**session, **every},
        "LTTng's wrappers, off": preload,
        "LTTng's wrappers, on": {**lttng, **preload} if preload and lttng else None,
        'heaptrack, each block with its stack': {
            'LD_PRELOAD': heaptrack, 'DUMP_HEAPTRACK_OUTPUT': '/dev/null'} if heaptrack else None,
        'tcmalloc': {'LD_PRELOAD': tcmalloc} if tcmalloc else None,
        'tcmalloc, sampling': {'LD_PRELOAD': tcmalloc,
                               'TCMALLOC_SAMPLE_PARAMETER': str(INTERVAL)} if tcmalloc else None,
    }


def run_all(build):
    """Return the figures of all ways, one process of each in each round."""
    program = os.path.abspath(os.path.join(build, 'bench', 'bench-inbox-load'))
    found = Figures()
    with contextlib.ExitStack() as stack:
        lttng = None
        if shutil.which('lttng-sessiond') and not measure.QUICK:
            try:
                lttng = stack.enter_context(lttng_session('lttng_ust_libc:*',
                                                          'lttng_ust_pthread:*'))
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f'no LTTng: {error}', file=sys.stderr)
        base = {**os.environ, 'RINGPIPE_LTTNG': '0', 'RINGPIPE_DIAGNOSTICS': '0',
                'LTTNG_UST_REGISTER_TIMEOUT': '0'}
        for _ in range(3 if measure.QUICK else ROUNDS):
            for way, variables in ways(build, lttng).items():
                if variables is None:
                    continue
                environment = {**base, **variables}
                user = lttng_user() if way.endswith("wrappers, on") else {}
                if user:
                    environment['LTTNG_UST_REGISTER_TIMEOUT'] = '3000'
                for call, (value, _) in figures([program], env=environment, cwd='/',
                                                **user).items():
                    found.rounds.setdefault(f'{call}, {way}', []).append(value)
                    found[f'{call}, {way}'] = (value, 'ns')
    return found


def added(found, call, way, base='without a library', most=None):
    """Add a row with what a library adds to a call: the median of the differences of rounds."""
    name = f'{call}, {way}'
    if name not in found.rounds:
        row(f'{call}: {way}, added', 'not here')
        return True
    ours, theirs = found.rounds[name], found.rounds[f'{call}, {base}']
    spread = statistics.quantiles([a - b for a, b in zip(ours, theirs)], n=4)
    more = spread[1]
    return row(f'{call}: {way}, added', more, 'ns', f'<= {most}' if most else '',
               more <= most if most else None, spread)


def suite_inbox(build):
    if not os.path.exists(os.path.join(build, 'bench', 'bench-inbox-load')):
        row('in-box providers', 'not built')
        return True
    found = run_all(build)
    measure.rows_of(found)
    ok = True
    for call in CALLS:
        # The same program twice: the noise of the rows below.
        added(found, call, 'without a library, again')
        for way in 'ringpipe, off', 'ringpipe, sampling':
            ok &= added(found, call, way, most=2)
        for way in "LTTng's wrappers, off", "LTTng's wrappers, on":
            added(found, call, way)
    call = CALLS[0]
    added(found, call, 'tcmalloc, sampling', 'tcmalloc')
    for ours, theirs in (('ringpipe, each block', "LTTng's wrappers, on"),
                         ('ringpipe, each block with its stack',
                          'heaptrack, each block with its stack')):
        added(found, call, ours)
        added(found, call, theirs)
        if f'{call}, {theirs}' in found.rounds:
            ok &= ratio(found, f'{call}, {theirs}', f'{call}, {ours}',
                        f'{call}: {theirs} / {ours}'.replace(' with its stack', ''), least=1)
    return ok
