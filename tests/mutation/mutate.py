#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Puts mistakes into the sources, one at a time, and checks that the tests find each.

usage: mutate.py BUILD [--part | --all | --races] [--only WORD]

BUILD is a build directory with the unit and stress tests; the script does not change it. A mistake
is one edit of one file under src/. The script compiles the file like the build, links the library
and the test with it, and runs the tests named for the mistake, which must fail; otherwise the
script fails. --part: a third of the mistakes; the day decides which. --all: also mistakes that only
show by chance, under load, or after a minute. --races: mistakes in the fallback that
ThreadSanitizer finds; BUILD must use it.

The models cover mistakes that x86 cannot show (there, a relaxed load is the same code as an
acquire). Such an edit must not change the object's fences and LOCKed instructions, and the models
must contain the mistake, as well as mistakes that would take hours to show.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from mistakes import CERTAIN, LIKELY, OUTSIDE, RACES, RARE, SAME, VISIBLE, Mutation

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = 20         # of a test that finds the mistake by chance
DAY_S = 86400
PARTS = 3           # --part uses one mistake in this many
PATIENCE = 120      # seconds; a test that hangs has found the mistake


def included_as(path):
    """Return the name of a file in an #include."""
    return re.sub(r'^src/(lib/)?', '', path)


def users_of(header, sources):
    line = f'#include "{included_as(header)}"'
    users = [source for source in sources
             if line in open(os.path.join(ROOT, source), encoding='utf-8').read()]
    return users or sys.exit(f'{header}: no file includes it')


class Build:
    """Compiles and links like the build directory, with some objects replaced."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        with open(os.path.join(directory, 'compile_commands.json'), encoding='utf-8') as file:
            commands = json.load(file)
        self.compiles = {}
        for entry in commands:
            source = os.path.relpath(os.path.join(entry['directory'], entry['file']), ROOT)
            if entry['output'].startswith('src/libringpipe.so'):
                self.library = entry['output'].partition('.p/')[0]
            elif not entry['output'].startswith(('src/libringpipe.a.p',
                                                 'src/tools/ringpipe/ringpipe.p',
                                                 'src/tools/cli/', 'src/tools/trace/',
                                                 'src/tools/client/')):
                continue
            self.compiles[source] = shlex.split(entry['command']), entry

    def link_command(self, target):
        said = subprocess.run(['ninja', '-C', self.directory, '-t', 'commands', target],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        return shlex.split(said.strip().splitlines()[-1])

    def run(self, command):
        subprocess.run(command, cwd=self.directory, check=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)

    def compile(self, folder, file, text):
        """Return the objects of a changed source or header, and those that they replace."""
        sources = [file] if file in self.compiles else users_of(file, self.compiles)
        changed = os.path.join(folder, included_as(file))
        os.makedirs(os.path.dirname(changed), exist_ok=True)
        with open(changed, 'w', encoding='utf-8') as stream:
            stream.write(text)
        pairs = [self.compile_one(folder, source, changed if source == file else None)
                 for source in sources]
        return [made for made, _ in pairs], [replaced for _, replaced in pairs]

    def compile_one(self, folder, source, changed):
        command, entry = self.compiles[source]
        made = os.path.join(folder, source.replace('/', '_') + '.o')
        words = []
        skip = False
        for word in command:
            if skip or word in ('-MD', '-MQ', '-MF', '-o', '-c', entry['file'], entry['output']):
                skip = word in ('-MQ', '-MF', '-o')
                continue
            words.append(word)
        first = next(i for i, word in enumerate(words) if word.startswith('-I'))
        words.insert(first, '-I' + folder)
        self.run(words + ['-w', '-o', made, '-c', changed or os.path.join(ROOT, source)])
        # The shared library has separate objects for the sources of the static one.
        own = not entry['output'].startswith('src/libringpipe.a.p')
        return made, entry['output'] if own else 'src/libringpipe-regs.a'

    def link_library(self, folder, made, replaced):
        words = [made[replaced.index(word)] if word in replaced else word
                 for word in self.link_command(self.library)]
        words[words.index('-o') + 1] = os.path.join(folder, 'libringpipe.so.1')
        self.run(words)

    def link_tool(self, folder, made, replaced):
        """Return the link command, with objects replaced or inserted before the archives."""
        words = []
        inserted = [object for object, its in zip(made, replaced)
                    if not its.startswith('src/tools/ringpipe/')]
        for word in self.link_command('src/tools/ringpipe/ringpipe'):
            if word.endswith('.a'):
                words += inserted
                inserted = []
            words.append(made[replaced.index(word)] if word in replaced else word)
        words[words.index('-o') + 1] = os.path.join(folder, 'ringpipe')
        self.run(words)

    def meson_test(self, folder, name, made, replaced, environment):
        """Return the command of a test that meson runs, or of one case of it: NAME:CASE."""
        name, _, case = name.partition(':')
        said = subprocess.run(['meson', 'introspect', self.directory, '--tests'], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        test = next(test for test in json.loads(said) if test['name'] == name)
        self.link_library(folder, made, replaced)
        self.link_tool(folder, made, replaced)
        environment.update(test['env'])
        environment['LD_LIBRARY_PATH'] = f'{folder}:{self.directory}/src'
        places = {self.library: 'libringpipe.so.1', 'src/tools/ringpipe/ringpipe': 'ringpipe'}
        places = {os.path.realpath(os.path.join(self.directory, built)): os.path.join(folder, its)
                  for built, its in places.items()}
        if 'RINGPIPE' in environment:
            environment['RINGPIPE'] = os.path.join(folder, 'ringpipe')
        # Arguments are relative to the build directory.
        words = [places.get(os.path.realpath(os.path.join(self.directory, word)), word)
                 for word in test['cmd']]
        return words + ([case] if case else [])

    def link_test(self, folder, name, made, replaced):
        """Return the command that runs a test with the objects."""
        suite, _, program = name.partition('-')
        if not program:
            words = self.link_command(f'tests/unit/unit-{name}')
            # Before the archive, whose own object is then not needed. Newer versions of meson do
            # not put a single archive into a group.
            groups = [word for word in words if word in ('-Wl,--start-group', 'src/libringpipe.a')]
            place = words.index(groups[0])
            words[place:place] = made
            words[words.index('-o') + 1] = os.path.join(folder, 'unit')
            self.run(words)
            return [os.path.join(folder, 'unit'), *([] if name == 'ring_aborts' else ['--tap=-'])]
        self.link_library(folder, made, replaced)
        target = program if suite == 'process' else f'stress-{program}'
        return [os.path.join(self.directory, 'tests', suite, target)]

    def fails(self, folder, test, made, replaced):
        """Return the failure message of a test with these objects instead of those; None if it
        passes."""
        name, _, way = test.partition('@')
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, RINGPIPE_LTTNG='0',
                           TSAN_OPTIONS=f'halt_on_error=1:suppressions={ROOT}/tests/tsan.supp')
        if way == 'fallback':
            environment['GLIBC_TUNABLES'] = 'glibc.pthread.rseq=0'
        if name.startswith('meson-'):
            command = self.meson_test(folder, name[6:], made, replaced, environment)
        else:
            environment['RINGPIPE_DIAGNOSTICS'] = '1' if name.startswith('diag_') else '0'
            command = self.link_test(folder, name, made, replaced)
        # Stress tests keep their files there; killed tests do not remove them.
        with tempfile.TemporaryDirectory(dir=memory()) as environment['TMPDIR'], \
             open_to_all(folder, environment['TMPDIR']), \
             subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.directory, env=environment, errors='replace',
                              start_new_session=True) as ran:
            hangs = threading.Timer(PATIENCE, os.killpg, (ran.pid, signal.SIGKILL))
            hangs.start()
            try:
                return outcome(ran)
            finally:
                hangs.cancel()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(ran.pid, signal.SIGKILL)


def open_to_all(*folders):
    """Permit access for tests that run as other users."""
    for folder in folders:
        os.chmod(folder, 0o755)
    return contextlib.nullcontext()


def outcome(ran):
    """Return the first failure message of a test; None if it passes."""
    for line in ran.stdout:
        if line.startswith('not ok'):
            return line.rstrip()
        if line.startswith('1..0 # SKIP'):
            print(line)
            sys.exit(77)
    if ran.wait() == -signal.SIGKILL:
        return 'hangs, or was killed'
    if ran.returncode:
        return f'killed by signal {-ran.returncode}' if ran.returncode < 0 else \
               f'ended with {ran.returncode}'
    return None


def changed_text(mutation):
    with open(os.path.join(ROOT, mutation.file), encoding='utf-8') as file:
        text = file.read()
    if mutation.old not in text:
        sys.exit(f'{mutation.file} has no {mutation.old!r} any more: mend "{mutation.name}"')
    return text.replace(mutation.old, mutation.new, 1)


def orderings_of(path):
    """Return the instructions of an object that order memory, in their order."""
    said = subprocess.run(['objdump', '-d', '--no-show-raw-insn', path], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r'\t(lock \S+|xchg\b.*\(|[mls]fence)', said)


def memory():
    """Return a file system in memory with enough space, or None."""
    path = '/dev/shm'
    return path if os.access(path, os.W_OK) and shutil.disk_usage(path).free >= 1 << 30 else None


class Report:
    def __init__(self):
        self.number = self.made = self.caught = self.failed = 0

    def describe(self, good, text):
        self.number += 1
        self.failed += not good
        print(f'{"ok" if good else "not ok"} {self.number} - {text}', flush=True)

    def report_mutation(self, mutation, found):
        self.made += 1
        self.caught += bool(found)
        if not found:
            self.describe(False, f'{mutation.name}: survives {" ".join(mutation.tests)}')
            return
        test, number, why = found
        self.describe(True, f'{mutation.name}: is caught by {test}')
        print(f'# in run {number}: {why}')


def fails_unchanged(build, test):
    with tempfile.TemporaryDirectory() as folder:
        return build.fails(folder, test, [], [])


def find(build, mutation, rounds):
    """Return the test that caught the mistake, in which run, and its message; or None."""
    with tempfile.TemporaryDirectory() as folder:
        made, replaced = build.compile(folder, mutation.file, changed_text(mutation))
        for number in range(1, rounds + 1):
            for test in mutation.tests:
                why = build.fails(folder, test, made, replaced)
                if why:
                    return test, number, why
    return None


def is_modelled(same):
    """Whether the models contain the mistake that this edit makes."""
    with open(os.path.join(ROOT, 'tests/model/check.py'), encoding='utf-8') as file:
        return bool(changed_text(same)) and f"'{same.model}'" in file.read()


def is_same(build, same):
    """Whether the edit changes no ordering instruction, and is modelled."""
    with open(os.path.join(ROOT, same.file), encoding='utf-8') as file:
        before = file.read()
    with tempfile.TemporaryDirectory() as folder:
        orderings = orderings_of(build.compile(os.path.join(folder, 'before'), same.file,
                                               before)[0][0])
        return is_modelled(same) and orderings == orderings_of(
            build.compile(folder, same.file, changed_text(same))[0][0])


def main_races(build, report):
    """The tests also run without a mistake, on the same build."""
    races = RACES + [Mutation(*same[:4], ['stress-accounting']) for same in VISIBLE]
    for race in races:
        report.report_mutation(race, find(build, race, ROUNDS))
    print(f'# figure: {report.made} races made, {report.caught} caught by ThreadSanitizer')


def main_mistakes(build, report, options):
    certain = CERTAIN + OUTSIDE
    if options.part:
        first = int(time.time()) // DAY_S % PARTS
        print(f'# one mistake in {PARTS}, from number {first} on')
        certain = certain[first::PARTS]
    certain = [mutation for mutation in certain if options.only in mutation.name]
    likely = [mutation for mutation in LIKELY if options.only in mutation.name and options.all]
    same = [change for change in SAME if options.only in change.name]
    rare = [change for change in RARE if options.only in change.name]
    tests = sorted({test for mutation in certain + likely for test in mutation.tests})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for test, why in zip(tests, pool.map(lambda test: fails_unchanged(build, test), tests)):
            report.describe(not why, f'without a mistake, {test} passes' +
                            (f': {why}' if why else ''))
        found = pool.map(lambda mutation: find(build, mutation, 1), certain)
        for mutation, result in zip(certain, found):
            report.report_mutation(mutation, result)
        for change, result in zip(same, pool.map(lambda change: is_same(build, change), same)):
            report.describe(result, f'{change.name}: no other order on this machine, left to the '
                        f'model\'s {change.model}')
    for change in rare:
        report.describe(is_modelled(change), f'{change.name}: too rare, left to the model\'s '
                    f'{change.model}')
    for mutation in likely:
        report.report_mutation(mutation, find(build, mutation, ROUNDS))
    left = f'; left to the models: {len(same)} that make no difference on this machine, ' \
           f'{len(rare)} that are too rare'
    print(f'# figure: {report.made} mutations made, {report.caught} caught{left if same else ""}')


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].splitlines()[0])
    parser.add_argument('build')
    parser.add_argument('--part', action='store_true')
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--races', action='store_true')
    parser.add_argument('--only', default='')
    options = parser.parse_args()
    for mutation in CERTAIN + OUTSIDE + LIKELY + RACES + SAME + RARE:
        changed_text(mutation)
    build = Build(options.build)
    report = Report()
    print('TAP version 13')
    if options.races:
        main_races(build, report)
    else:
        main_mistakes(build, report, options)
    print(f'1..{report.number}')
    sys.exit(report.failed != 0)


if __name__ == '__main__':
    main()
