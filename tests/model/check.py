#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the models of the lock-free core with spin.

usage: check.py [--deep]

The unchanged models must hold in every state. With one mistake (-DWRONG_…), spin must find the
mistake; otherwise the model could not find it in the core either. --deep: larger sizes, which need
half an hour and 16 GB, so spin explores one model at a time; otherwise one per processor.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

SECTIONS, FALLBACK, BOTH = 'WAYS=1', 'WAYS=2', 'WAYS=3'
SMALL = ['CPUS=1', 'EVENTS=1', 'SWITCHES=1']
MIGRATING = ['CPUS=2', 'EVENTS=2', 'SWITCHES=1']
POOL = ['CPUS=1', 'EVENTS=2', 'PASSES=3', 'SWITCHES=2']
TAKING = ['CPUS=1', 'EVENTS=1', 'PASSES=3', 'SWITCHES=1']
# Models of progress: spin looks for cycles without a label progress_…, each process running on.
PROGRESS = ['pool_progress']
FULL_RING = ['CPUS=1', 'EVENTS=2', 'SWITCHES=1', 'SIZE=1']

# Promises that hold, with the sizes to check: in a second or two, longer, and longest.
HOLDS = [
    ('the fallback delivers or counts each event', 'ring', [FALLBACK] + FULL_RING),
    ('no event stays in a ring while the drain thread sleeps', 'sleep', ['EVENTS=3']),
    ('no event stays in a ring where there is no membarrier', 'sleep',
     ['EVENTS=3', 'NO_MEMBARRIER']),
    ('writers that wait find the space', 'wait', []),
    ('writers that wait find the end of their session', 'wait', ['STOP']),
    ('a copy of a ring that overwrites has what was written', 'overwrite', []),
    ('coarse times of sections and fallback keep the order', 'coarse',
     [BOTH, 'CPUS=1', 'EVENTS=2', 'SWITCHES=1']),
    ('one reading of the clock for two sessions is passed by no sequence point', 'clock', SMALL),
    ('the ring cache of a thread is never used for another ring', 'ring_cache', []),
    ('a buffer is one concurrency id\'s alone, and becomes free when no writer reaches it', 'pool',
     ['CPUS=1', 'EVENTS=1', 'PASSES=2']),
    ('a writer that retries gets a buffer in the end', 'pool_progress', ['BUFFERS=2']),
    ('a writer that retries gets one where ids keep their rings', 'pool_progress',
     ['BUFFERS=2', 'KEEP_RINGS_OF_IDS']),
    ('a section that sees a session\'s bit finds its ring', 'start', []),
]
LONG = [
    ('sections on one processor deliver or count each event', 'ring',
     [SECTIONS, 'CPUS=1', 'EVENTS=1', 'SWITCHES=2']),
    ('sections with a full ring deliver or count each event', 'ring', [SECTIONS] + FULL_RING),
    ('sections on two processors deliver or count each event', 'ring',
     [SECTIONS, 'CPUS=2', 'EVENTS=1', 'SWITCHES=1']),
    ('sections and fallback side by side deliver or count each event', 'ring',
     [BOTH, 'CPUS=1', 'EVENTS=2', 'SWITCHES=1']),
    ('coarse times of threads that migrate keep the order', 'coarse', [SECTIONS] + MIGRATING),
    ('coarse times of handlers keep the order', 'coarse',
     [BOTH, 'CPUS=1', 'EVENTS=3', 'SWITCHES=1']),
    ('coarse times keep the order while others move the clock', 'coarse',
     [BOTH, 'MOVER', 'CPUS=1', 'EVENTS=2', 'SWITCHES=1']),
    ('one reading of the clock, two events one after another', 'clock',
     ['CPUS=1', 'EVENTS=2', 'SWITCHES=1']),
    ('one reading of the clock for three sessions', 'clock',
     ['CPUS=1', 'EVENTS=1', 'SWITCHES=1', 'SESSIONS=3']),
    ('one reading of the clock in threads that migrate', 'clock',
     ['CPUS=2', 'EVENTS=1', 'SWITCHES=1']),
    ('buffers of threads that share a concurrency id', 'pool',
     ['CPUS=1', 'EVENTS=2', 'PASSES=2']),
    ('buffers of two concurrency ids', 'pool', ['EVENTS=2', 'PASSES=2', 'SWITCHES=0']),
    ('rings that are taken back from their id', 'pool',
     ['TAKES'] + TAKING),
    ('writers that retry get one of three buffers', 'pool_progress', []),
]
DEEP = [
    ('sections on two processors, threads migrating', 'ring',
     [SECTIONS, 'CPUS=2', 'EVENTS=1', 'SWITCHES=2']),
    ('sections on one processor, two events and two passes', 'ring',
     [SECTIONS, 'CPUS=1', 'EVENTS=2', 'SWITCHES=2', 'PASSES=2']),
    ('the fallback on two processors', 'ring', [FALLBACK, 'CPUS=2', 'EVENTS=2', 'SWITCHES=1']),
    ('coarse times of threads that migrate twice', 'coarse',
     [SECTIONS, 'CPUS=2', 'EVENTS=2', 'SWITCHES=2']),
    ('coarse times of sections and fallback on two processors', 'coarse', [BOTH] + MIGRATING),
    ('coarse times between two sequence points', 'coarse',
     [BOTH, 'CPUS=1', 'EVENTS=2', 'SWITCHES=1', 'PASSES=2']),
    ('one reading of the clock, interrupted twice', 'clock',
     ['CPUS=1', 'EVENTS=2', 'SWITCHES=2']),
    ('one reading of the clock in threads that migrate twice', 'clock',
     ['CPUS=2', 'EVENTS=1', 'SWITCHES=2']),
    ('buffers through three passes', 'pool', ['CPUS=1', 'EVENTS=2', 'PASSES=3']),
    ('the ring cache through more events, sessions and migrations', 'ring_cache',
     ['EVENTS=4', 'STARTS=4', 'SWITCHES=3']),
]

# Mistakes that a model must detect, with the sizes that show them.
CAUGHT = [
    ('a sequence point without a membarrier', 'ring',
     [SECTIONS, 'WRONG_NO_FENCE_AT_POINT'] + SMALL),
    ('a sequence point that waits for no fallback lock', 'ring',
     [FALLBACK, 'WRONG_NO_WAIT_AT_POINT'] + SMALL),
    ('a section that does not test the bit again', 'ring',
     [SECTIONS, 'WRONG_NO_TEST_INSIDE'] + SMALL),
    ('a fallback that does not test the bit again', 'ring',
     [FALLBACK, 'WRONG_NO_TEST_UNDER_LOCK'] + SMALL),
    ('the end of a session without a membarrier', 'ring',
     [SECTIONS, 'WRONG_NO_FENCE_AT_END'] + SMALL),
    ('the end of a session that waits for no fallback lock', 'ring',
     [FALLBACK, 'WRONG_NO_WAIT_AT_END'] + SMALL),
    ('a head stored before its record', 'ring', [SECTIONS, 'WRONG_HEAD_FIRST'] + SMALL),
    ('a space check that lets one record too many in', 'ring',
     [SECTIONS, 'WRONG_SPACE'] + FULL_RING),
    ('merging up to the heads', 'ring',
     [SECTIONS, 'WRONG_NO_BOUND', 'CPUS=2', 'EVENTS=1', 'SWITCHES=1']),
    ('a clock read before the lock is held', 'ring',
     [FALLBACK, 'WRONG_CLOCK_BEFORE_LOCK'] + SMALL),
    ('a tail published before its records are read', 'ring',
     [SECTIONS, 'WRONG_TAIL_FIRST'] + FULL_RING),
    ('a loss counted outside a section', 'ring', [SECTIONS, 'WRONG_LOSS_OUTSIDE'] + FULL_RING),
    ('a section that is not restarted', 'ring', [SECTIONS, 'WRONG_NO_ABORT'] + SMALL),
    ('falling asleep without a membarrier', 'sleep', ['WRONG_NO_FENCE']),
    ('falling asleep without a check for requests', 'sleep', ['WRONG_WORK_NOT_SEEN']),
    ('a lock given back without a fence, where there is no membarrier', 'sleep',
     ['NO_MEMBARRIER', 'WRONG_PLAIN_UNLOCK']),
    ('a wait without a second check', 'wait', ['WRONG_NO_SECOND_LOOK']),
    ('a word without rounds', 'wait', ['STOP', 'WRONG_NO_ROUNDS']),
    ('waking before there is space', 'wait', ['WRONG_WAKE_FIRST']),
    ('a check for waiting writers without a fence', 'wait', ['WRONG_PLAIN_LOOK']),
    ('the end of a session that wakes first', 'wait', ['STOP', 'WRONG_STOP_WAKES_FIRST']),
    ('a copy that does not check whether the sub-buffer was overwritten', 'overwrite',
     ['WRONG_NO_LOOK']),
    ('a copy that checks first', 'overwrite', ['WRONG_LOOK_FIRST']),
    ('a sub-buffer written before it is released', 'overwrite', ['WRONG_CELL_FIRST']),
    ('a head stored before its record, in a ring that overwrites', 'overwrite',
     ['WRONG_HEAD_FIRST']),
    ('a sequence point that does not move the coarse clock', 'coarse',
     [SECTIONS, 'WRONG_NO_PASS'] + SMALL),
    ('a sequence point that moves the coarse clock to itself', 'coarse',
     [SECTIONS, 'WRONG_NOT_BEHIND'] + SMALL),
    ('a coarse clock moved after the membarrier', 'coarse',
     [SECTIONS, 'WRONG_FENCE_FIRST'] + SMALL),
    ('a coarse clock moved without a membarrier', 'coarse',
     [SECTIONS, 'WRONG_NO_FENCE'] + SMALL),
    ('a coarse clock that decreases', 'coarse', [SECTIONS, 'MOVER', 'WRONG_BACK'] + SMALL),
    ('a coarse time equal to the previous one', 'coarse', [SECTIONS, 'WRONG_NO_STEP'] + SMALL),
    ("a coarse time that is not later than its ring's", 'coarse',
     [SECTIONS, 'WRONG_RING'] + SMALL),
    ('a coarse time stored in the ring after the commit', 'coarse',
     [SECTIONS, 'WRONG_RING_LATE'] + MIGRATING),
    ("a coarse time that is not later than its thread's", 'coarse',
     [SECTIONS, 'WRONG_THREAD'] + MIGRATING),
    ("a fallback that uses only the clock", 'coarse',
     [BOTH, 'CPUS=1', 'EVENTS=2', 'SWITCHES=1', 'WRONG_CLOCK_ALONE']),
    ('a fallback that does not store the coarse time of the thread', 'coarse',
     [BOTH, 'CPUS=1', 'EVENTS=2', 'SWITCHES=1', 'WRONG_FALLBACK_SILENT']),
    ("a fallback that takes a handler's coarse time back", 'coarse',
     [BOTH, 'CPUS=1', 'EVENTS=3', 'SWITCHES=1', 'WRONG_PLAIN_STAMP']),
    ('an earlier clock value without a check for interruptions', 'clock',
     ['WRONG_NO_LOOK'] + SMALL),
    ('a check for interruptions outside of the section', 'clock',
     ['WRONG_LOOK_OUTSIDE'] + SMALL),
    ('a section repeated with an earlier clock value', 'clock',
     ['WRONG_POINTS_RETRIED'] + SMALL),
    ('one reading of the clock and a sequence point without a membarrier', 'clock',
     ['WRONG_NO_FENCE'] + SMALL),
    ('the start of a session without a membarrier', 'start', ['WRONG_NO_FENCE_AT_START']),
    ('the start of a session that sets its bits first', 'start', ['WRONG_BIT_FIRST']),
    ('the end of the previous session without a membarrier', 'start', ['WRONG_NO_FENCE_AT_END']),
    ('a session that starts during a section that is not restarted', 'start',
     ['WRONG_NO_ABORT']),
    ('a cached ring without a check of its session', 'ring_cache', ['WRONG_NO_BIT']),
    ('a cached ring without a check of the generation', 'ring_cache', ['WRONG_NO_GENERATION']),
    ('a cached ring without a check of the concurrency id', 'ring_cache', ['WRONG_NO_CID']),
    ('a generation that moves after the bits', 'ring_cache', ['WRONG_LATE']),
    ('a look-up that leaves a ring half cached', 'ring_cache', ['WRONG_HALF']),
    ('the end of a session whose rings are cached, without a membarrier', 'ring_cache',
     ['WRONG_NO_FENCE']),
    ('a section that knows its ring and is not restarted', 'ring_cache', ['WRONG_NO_ABORT']),
    ('a claimed buffer installed without a look whose it is', 'pool', ['WRONG_NO_TOKEN'] + POOL),
    ('a buffer that becomes free without a membarrier', 'pool', ['WRONG_NO_FENCE'] + POOL),
    ('a buffer that retires while threads remember it', 'pool', ['WRONG_NO_GENERATION'] + POOL),
    ('a retired buffer that was a ring in between', 'pool', ['WRONG_NO_SECOND_LOOK'] + POOL),
    ('a buffer that becomes free at once', 'pool', ['WRONG_AT_ONCE'] + POOL),
    ('a section that installs a buffer and is not restarted', 'pool', ['WRONG_NO_ABORT'] + POOL),
    ('a ring taken back that retires in the same pass', 'pool', ['WRONG_TAKE_FIRST'] + TAKING),
    ('a ring taken back that retires already', 'pool', ['TAKES', 'WRONG_TAKE_RETIRING'] + TAKING),
    ('rings that stay with their locks when no buffer is free', 'pool_progress',
     ['BUFFERS=2', 'WRONG_KEEP_RINGS_OF_LOCKS']),
    ('all buffers of a pool as rings of ids that keep them', 'pool_progress',
     ['BUFFERS=2', 'CIDS=2', 'LOCKS=1', 'KEEP_RINGS_OF_IDS']),
]


def explore(model, definitions, optimization):
    """Return (errors, states, spin's output) of one model with these definitions."""
    kind, options = (['-DNP', '-DNOREDUCE'], ['-l', '-f']) if model in PROGRESS else \
        (['-DSAFETY'], [])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(['spin', '-a'] + ['-D' + name for name in definitions] +
                       [os.path.join(HERE, model + '.pml')], cwd=folder, check=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=3000)
        subprocess.run(['gcc', optimization, '-w', *kind, '-DCOLLAPSE', '-DMEMLIM=16000',
                        '-o', 'pan', 'pan.c'], cwd=folder, check=True, timeout=3000)
        said = subprocess.run(['./pan', '-m1000000', *options], cwd=folder, text=True, timeout=3000,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    errors = re.search(r'errors: (\d+)', said)
    states = re.search(r'(\d+) states, stored', said)
    if not errors or not states:
        return -1, 0, said
    if 'max search depth too small' in said or 'out of memory' in said or \
            'Search not completed' in said and errors[1] == '0':
        return -1, int(states[1]), said
    return int(errors[1]), int(states[1]), said


def explore_case(case):
    holds, _, model, definitions = case
    return explore(model, definitions, '-O1' if holds else '-O0')


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].splitlines()[0])
    parser.add_argument('--deep', action='store_true')
    options = parser.parse_args()
    right, wrong = HOLDS + LONG + (DEEP if options.deep else []), CAUGHT
    if not shutil.which('spin'):
        print('spin is missing')
        sys.exit(77)
    plan = [(True, *case) for case in right] + [(False, *case) for case in wrong]
    print('TAP version 13')
    print(f'1..{len(plan)}')
    total = caught = failed = 0
    pool = concurrent.futures.ThreadPoolExecutor(1 if options.deep else os.cpu_count())
    explored = pool.map(explore_case, plan)
    for number, ((holds, name, *_), (errors, states, said)) in enumerate(zip(plan, explored), 1):
        good = errors == 0 if holds else errors > 0
        total += states
        caught += good and not holds
        failed += not good
        print(f'{"ok" if good else "not ok"} {number} - {name}'
              f'{"" if holds else ": is caught"} ({states} states)', flush=True)
        if not good:
            print('\n'.join('# ' + line for line in said.splitlines()))
    print(f'# figure: {total} states explored, {caught} of {len(wrong)} mutations caught')
    sys.exit(failed != 0)


if __name__ == '__main__':
    main()
