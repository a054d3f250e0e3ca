#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counts the tests of one `meson test` run.

usage: scripts/testlog.py [--failures] TESTLOG.json
       scripts/testlog.py --required LIST RUN [TESTLOG.json]
       scripts/testlog.py --repeatable TESTLOG.json
       scripts/testlog.py --merge TESTLOG.json SECOND.json

Prints `PASSED FAILED SKIPPED`, then a line for each failed and each skipped test, then the figures
that tests printed, each in a line `# figure: TEXT`. A program that prints TAP, or is a Python
unittest, counts as its sub-tests; any other counts as one test.

With --failures: prints the names of failed tests, each with the end of the program's output,
without the lines of its other tests.

With --required: prints a line for each test that was skipped, in whole or in part, or did not run,
unless LIST permits RUN to skip it. Without a log the whole run was skipped. LIST has sections
`[RUN]` with lines `SUITE/NAME`, patterns as of fnmatch(3), and `except SUITE/NAME SUB-TEST #
REASON`.

With --repeatable: prints the names of the failed programs if all of them may run a second time:
other programs on the machine can make them fail, and they are few.

With --merge: replaces each failed program of the first log that passed in the second one, and
prints lines `unstable: NAME`, each with the output of the failure.
"""
import fnmatch
import json
import re
import sys

LINES_OF_A_FAILURE = 20
REASON_MAX = 300	# characters

# The result of a test in these suites depends on ringpipe alone, so a failure is never repeated.
OWN_RESULT = {'unit', 'stress', 'model', 'mutation', 'golden', 'fuzz', 'fuzzers', 'compile', 'gen',
              'lint', 'cost', 'soak'}
REPEATABLE_MAX = 3
OTHER_TEST = re.compile(r'^ok\b|\.\.\. (?:ok|skipped .*)$')
TAP_LINE = re.compile(r'^(?P<no>not )?ok\b\s*-?\s*(?P<name>.*?)\s*'
                      r'(?:# *SKIP\b\s*(?P<why>.*))?$', re.I)
STAT_LINE = re.compile(r'^# figure: (.*)$', re.M)


def tap_results(text):
    """Return (name, 'passed' | 'failed' | 'skipped', reason) of each sub-test. The reason of a
    failure is the first comment before it."""
    results, comments = [], []
    for line in text.splitlines():
        match = TAP_LINE.match(line)
        if not match:
            comments += [line[1:].strip()] if line.startswith('#') else []
            continue
        verdict = 'passed'
        if match['why'] is not None:
            verdict = 'skipped'
        elif match['no']:
            verdict = 'failed'
        name = re.sub(r'\s*\([0-9.]+s\)$', '', match['name'])
        failure = short(comments[0]) if verdict == 'failed' and comments else ''
        results.append((name, verdict, match['why'] or failure))
        comments = []
    return results


def short(text):
    return text if len(text) <= REASON_MAX else text[:REASON_MAX] + ' …'


def exceptions_of(text):
    """Return {name: exception} of each test that Python's unittest reports as failed."""
    found = {}
    for name, block in re.findall(r'^(?:FAIL|ERROR): (\w+).*\n-+\n((?:(?!={70}|-{70}).*\n)*)', text,
                                  re.M):
        lines = re.findall(r'^(?!Traceback)\w[\w.]*(?:: .*)?$', block, re.M)
        found.setdefault(name, short(lines[-1]) if lines else '')
    return found


def skipped_tests(text):
    """Return (name, reason) of each test that Python's unittest reports as skipped. Lines of a
    child may be between both."""
    skipped, name = [], None
    for line in text.splitlines():
        begin = re.match(r'(\w+) \(', line)
        name = begin[1] if begin else name
        end = re.search(r'(?:^|\.\.\. )(?:ok|FAIL|ERROR|skipped ([\'"].*))$', line)
        if end and end[1] and name and name.startswith('test_'):
            skipped.append((name, end[1]))
        name = None if end else name
    return skipped


def unittest_results(text):
    """Return the same from the final output of Python's unittest, without the names of passed
    tests."""
    count = re.search(r'^Ran (\d+) tests? in ', text, re.M)
    end = re.search(r'^(?:OK|FAILED)(?: \(([^)]*)\))?$', text, re.M)
    if not count or not end:
        return []
    reported = dict(part.split('=') for part in (end[1] or '').split(', ') if '=' in part)
    skipped = skipped_tests(text)
    results = [(name, 'failed', why) for name, why in exceptions_of(text).items()]
    results += [('a test', 'skipped', '')] * max(0, int(reported.get('skipped', 0)) - len(skipped))
    results += [(name, 'skipped', why) for name, why in skipped]
    return results + [('', 'passed', '')] * max(0, int(count[1]) - len(results))


def program_results(entry):
    """Return the same for one program of the log."""
    name = entry['name'].split(':', 1)[-1]
    output = entry.get('stdout') or ''
    verdict = {'OK': 'passed', 'EXPECTEDFAIL': 'passed', 'SKIP': 'skipped'}.get(
        entry['result'], 'failed')
    lines = [line for line in output.splitlines() if line.strip()]
    if output.startswith('TAP version'):
        results = tap_results(output)
    else:
        results = unittest_results(entry.get('stderr') or '') if verdict != 'skipped' else []
    if not results:
        return [(name, verdict, lines[-1] if lines else entry['result'])]
    results = [(f'{name}: {test}', result, why) for test, result, why in results]
    # A program may die, leak or hang although every sub-test passed.
    if verdict == 'failed' and all(result != 'failed' for _, result, _ in results):
        results.append((name, 'failed', f"the program ended with {entry['result']}"))
    return results


def failures_of(entry):
    return [(name, why) for name, verdict, why in program_results(entry) if verdict == 'failed']


def print_failures(entries, word='failed'):
    for entry in entries:
        failed = failures_of(entry)
        for name, why in failed:
            print(f'{word}: {name}' + (f' ({why})' if why else ''))
        for stream in ('stdout', 'stderr') if failed else ():
            lines = [line for line in (entry.get(stream) or '').splitlines()
                     if line.strip() and not OTHER_TEST.search(line)]
            for line in lines[-LINES_OF_A_FAILURE:]:
                print(f'    {line}')


def print_repeatable(entries):
    failed = [entry['name'].split(':', 1)[-1].split(' / ') for entry in entries
              if failures_of(entry)]
    if len(failed) <= REPEATABLE_MAX and \
       not any(OWN_RESULT & set(suites.split('+')) for suites, _ in failed):
        print('\n'.join(name for _, name in failed))


def merge(path, second_path):
    passed = {entry['name']: entry for entry in read_log(second_path)
              if entry['result'] != 'SKIP' and not failures_of(entry)}
    entries = read_log(path)
    unstable = [entry for entry in entries if failures_of(entry) and entry['name'] in passed]
    print_failures(unstable, 'unstable')
    with open(path, 'w', encoding='utf-8') as log:
        for entry in entries:
            merged = passed[entry['name']] if entry in unstable else entry
            log.write(json.dumps(merged) + '\n')


def read_required(path, run):
    """Return (patterns, (test, sub-test) pairs that may be skipped); None without a section."""
    section, required = None, None
    with open(path, encoding='utf-8') as file:
        lines = [line.partition('#')[0].split() for line in file]
    for words in filter(None, lines):
        if len(words) == 1 and words[0].startswith('['):
            section = words[0].strip('[]')
            if section == run:
                required = ([], [])
        elif section == run and words[0] == 'except' and len(words) > 2:
            required[1].append((words[1], ' '.join(words[2:])))
        elif section == run and len(words) == 1:
            required[0].append(words[0])
        elif section == run:
            sys.exit(f'{path}: cannot read: {" ".join(words)}')
    return required


def test_of(entry):
    """Return `SUITE/NAME` of a program of the log; the first suite if it has several."""
    suites, _, name = entry['name'].split(':', 1)[-1].partition(' / ')
    return suites.split('+')[0] + '/' + name


def may_skip(exceptions, test, name):
    return any(fnmatch.fnmatchcase(test, where) and fnmatch.fnmatchcase(name, what)
               for where, what in exceptions)


def print_required(path, run, log):
    required = read_required(path, run)
    if required is None:
        return
    if log is None:
        print(f'required: {run}: the whole run was skipped')
        return
    patterns, exceptions = required
    tests = [(test_of(entry), entry) for entry in read_log(log)]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(test, pattern) for test, _ in tests):
            print(f'required: {pattern} did not run')
    for test, entry in tests:
        if not any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns):
            continue
        for name, verdict, why in program_results(entry):
            part = name.rpartition(': ')[2]
            if verdict == 'skipped' and not may_skip(exceptions, test, part):
                print(f'required: {test} was skipped: {name} ({why})')


def read_log(path):
    with open(path, encoding='utf-8', errors='replace') as log:
        return [json.loads(line) for line in log if line.strip()]


def print_stats(entries):
    for entry in entries:
        name = entry['name'].rpartition(' / ')[2]
        for figure in STAT_LINE.findall(entry.get('stdout') or ''):
            print(f'figure: {name}: {figure}')


def main():
    if len(sys.argv) in (4, 5) and sys.argv[1] == '--required':
        print_required(sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) == 5 else None)
        return
    if len(sys.argv) == 3 and sys.argv[1] == '--repeatable':
        print_repeatable(read_log(sys.argv[2]))
        return
    if len(sys.argv) == 4 and sys.argv[1] == '--merge':
        merge(*sys.argv[2:])
        return
    failures = '--failures' in sys.argv
    names = [name for name in sys.argv[1:] if name != '--failures']
    if len(names) != 1:
        sys.exit(__doc__)
    entries = read_log(names[0])
    if failures:
        print_failures(entries)
        return
    results = [result for entry in entries for result in program_results(entry)]
    counts = {verdict: sum(result == verdict for _, result, _ in results)
              for verdict in ('passed', 'failed', 'skipped')}
    print(counts['passed'], counts['failed'], counts['skipped'])
    for name, verdict, why in results:
        if verdict != 'passed':
            print(f'{verdict}: {name}' + (f' ({why})' if why else ''))
    print_stats(entries)


if __name__ == '__main__':
    main()
