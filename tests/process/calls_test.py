#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""usage: calls_test.py PROGRAM

A write makes no system call except the futex that wakes the drain thread. strace records the calls
of each thread between two calls that mark the start and the end.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile


def calls_between(lines):
    """Returns the system calls between the marks, for each thread that made both."""
    inside, calls, marks = set(), collections.Counter(), 0
    for line in lines:
        match = re.match(r'(\d+) +(?:<\.\.\. )?(\w+)', line)
        if not match or line.split()[1] in ('+++', '---'):
            continue
        thread, name = match.groups()
        if re.search(r' write\(98, ', line):
            inside.add(thread)
        elif re.search(r' write\(99, ', line):
            inside.remove(thread)
            marks += 1
        elif thread in inside and ' resumed>' not in line:
            calls[name] += 1
    return calls, marks


def trace(log, command):
    # LeakSanitizer does not work under strace.
    environment = dict(os.environ)
    environment['ASAN_OPTIONS'] = environment.get('ASAN_OPTIONS', '') + ':detect_leaks=0'
    subprocess.run(['strace', '-f', '-o', log, *command], check=True, timeout=120,
                   env=environment)
    with open(log, encoding='utf-8', errors='replace') as file:
        return calls_between(file)


def main():
    if not shutil.which('strace'):
        print('no strace')
        return 77
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, 'log')
        tried = subprocess.run(['strace', '-f', '-o', log, 'true'], check=False,
                               capture_output=True, text=True)
        if tried.returncode != 0:
            print('strace does not work here:', tried.stderr.strip())
            return 77
        calls, marks = trace(log, [sys.argv[1]])
        control, _ = trace(log, [sys.argv[1], 'control'])
    print(f'{marks} threads, calls between the marks: {dict(calls)}')
    others = set(calls) - {'futex'}
    if marks != 2 or others:
        print('not allowed:', ', '.join(sorted(others)) or 'fewer marks than threads')
        return 1
    if control['getppid'] != 2:
        print('a call that was made was not seen:', dict(control))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
