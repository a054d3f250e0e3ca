# SPDX-License-Identifier: MIT
"""
Counts the instructions of libringpipe-inbox in calls on which no thread waits and whose blocks are
not sampled. Those of libc, which the library calls, are not included.
"""

import os
import tempfile

import callgrind

CALLS = 50000  # COUNT of inbox_load.c
LIBRARY = 'libringpipe-inbox.so'
FUNCTIONS = ['malloc', 'free', 'pthread_mutex_lock', 'pthread_rwlock_rdlock',
             'pthread_rwlock_unlock']
WAYS = {'no session': '', 'sampling': 'ringpipe-heap::4:SampleBytes=281474976710656,ringpipe-locks'}


def figures(build):
    """Return {figure: instructions of a call}, or None without a valgrind that can count them."""
    program = os.path.abspath(os.path.join(build, 'bench', 'bench-inbox-load'))
    library = os.path.abspath(os.path.join(build, 'src', f'{LIBRARY}.1'))
    found = {}
    for way, config in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            # Valgrind's launcher has the library too. With {pid}, it leaves the session to us.
            session = {'RINGPIPE_CONFIG': config,
                       'RINGPIPE_OUTPUT': f'{folder}/{{pid}}.nettrace'} if config else {}
            counts = callgrind.functions([program], LIBRARY, BENCH_ROUNDS='1', LD_PRELOAD=library,
                                         RINGPIPE_LTTNG='0', **session)
        if counts is None:
            return None
        for name in FUNCTIONS:
            found[f'{name}, {way}: instructions'] = round(counts[name] / CALLS)
    return found
