#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Compares the costs that are the same number in each run with those in exact.json.

A figure that differs, better or worse, or that is missing, fails until --accept writes it down.
Figures of instructions are stored for each version of a compiler; an unknown version is skipped
with a message.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import disassembly
import header
import inbox_steps
import summary_steps

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, 'exact.json')
ANY = 'any machine'
EVENTS = 100_000
KINDS = {'bytes32': 'of 32 B', 'text': 'with a string', 'activity': 'with activity id',
         'mixed': 'of two alternating kinds'}
TRIES = 20
BLOCK = re.compile(b'\5\5\1.\0\0\0.\0\0\0.\0\0\0((?:Event|Metadata|Stack|SP)Block)\6', re.S)
QUIET = {**os.environ, 'RINGPIPE_DIAGNOSTICS': '0', 'RINGPIPE_LTTNG': '0'}


class Skip(Exception):
    """The reason why something cannot be counted here."""


def sites(_build):
    """Return {compiler: {figure: number}}: what a disabled event adds to an object file."""
    reason = disassembly.missing()
    if reason:
        raise Skip(reason)
    found = {}
    for compiler, language in disassembly.COMPILERS:
        version = disassembly.version(compiler)
        if not version:
            print(f'skipped: no {compiler}')
            continue
        found[version] = {}
        for options in disassembly.OPTIONS:
            numbers = disassembly.added(compiler, language, options)
            if numbers is None:
                print(f'skipped: {version} cannot link with {" ".join(options)}')
                numbers = (None, None, None)
            for what, number in zip(('instructions', 'bytes', 'bytes out of line'), numbers):
                found[version][f'disabled event, {" ".join(options)}: {what}'] = number
    return found


def headers(_build):
    """Return {compiler: {figure: number}}: what a header of events costs the files that include
    it."""
    return {disassembly.version(compiler): header.figures(compiler, language)
            for compiler, language in disassembly.COMPILERS if disassembly.version(compiler)}


def counted(build, *arguments):
    """Run bench-exact with a temporary file. Return (its output, the file's content)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'exact.nettrace')
        result = subprocess.run([os.path.join(build, 'bench', 'bench-exact'), path, *arguments],
                                env=QUIET, check=False, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        if result.returncode == 77:
            raise Skip(result.stderr.strip())
        if result.returncode:
            raise RuntimeError(f'bench-exact: exit {result.returncode}: {result.stderr.strip()}')
        with open(path, 'rb') as opened:
            return result.stdout, opened.read()


def steps(build):
    """Count instructions and system calls of events and passes, and allocations of the process."""
    found, key = collections.defaultdict(dict), None
    for line in counted(build)[0].splitlines():
        if '\t' not in line:
            key = line
            continue
        name, value, unit = line.split('\t')
        value = float(value)
        found[key][f'{name}: {unit}'] = int(value) if value.is_integer() else value
    return found


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def chance_bytes(block):
    """
    Return (events, bytes that vary by chance) of an event block's compressed events: a time of more
    than one byte, as the first of a block has, and a thread's number. Source: nettrace V4, the page
    NetTraceFormat.md of microsoft/perfview.
    """
    at, events, chance, size = int.from_bytes(block[:2], 'little'), 0, 0, 0
    while at < len(block):
        flags = block[at]
        at += 1
        # Metadata id; sequence number, capture thread, processor; thread; stack; time.
        for bit, by_chance in ((1, (0,)), (2, (0, 1, 0)), (4, (1,)), (8, (0,)), (0, (1,))):
            for is_chance in by_chance if flags & bit or not bit else ():
                begun = at
                at = varint(block, at)[1]
                chance += is_chance * (at - begun - 1)
        at += 16 * ((flags >> 4 & 1) + (flags >> 5 & 1))
        if flags & 0x80:
            size, at = varint(block, at)
        at += size
        events += 1
    return events, chance


def file_size(data):
    """Return (events, bytes of the file), without the alignment of blocks, and with one byte for
    each value that varies by chance."""
    at, events, left = 0, 0, len(data)
    while match := BLOCK.search(data, at):
        at = match.end() + 4
        size = int.from_bytes(data[match.end():at], 'little')
        left -= -at % 4
        at += -at % 4
        if match.group(1) in (b'EventBlock', b'MetadataBlock'):
            more, chance = chance_bytes(data[at:at + size])
            events += more if match.group(1) == b'EventBlock' else 0
            left -= chance
        at += size
    return events, left


def file(build):
    """
    Return what events add to a file without events, including block headers. The events are written
    while the drain thread is blocked, so the blocks are the same in each run, except that
    interruptions of the writer may add bytes. So repeat until the minimum was seen twice.
    """
    sizes = {}
    for kind, text in (('none', ''), *KINDS.items()):
        count, tries = EVENTS if text else 0, []
        while tries.count(min(tries, default=0)) < 2 and len(tries) < TRIES:
            events, size = file_size(counted(build, kind, str(count))[1])
            if events < count:
                raise RuntimeError(f'{events} of {count} events found in the file')
            tries.append(size)
        sizes[kind] = min(tries)
    return {ANY: {f'{EVENTS} events {text}, in a file: bytes': sizes[kind] - sizes['none']
                  for kind, text in KINDS.items()}}


def by_valgrind(build, count):
    """Return {compiler: {figure: number}} of a function that counts with valgrind."""
    found = count(build)
    if not found:
        raise Skip('no valgrind that can read the program')
    compiler = subprocess.run([os.path.join(build, 'bench', 'bench-exact'), 'compiler'],
                              stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    return {compiler: found}


def summary(build):
    """Count the instructions of `ringpipe report summary` for an event."""
    return by_valgrind(build, summary_steps.figures)


def inbox(build):
    """Count the instructions that the in-box providers add to a call."""
    return by_valgrind(build, inbox_steps.figures)


PARTS = {'sites': sites, 'headers': headers, 'steps': steps, 'file': file,
         'summary': summary, 'inbox': inbox}


def depends_on_chance(key, name, now, before):
    """Whether the figure varies: by its id, a thread's first event in the fallback may claim a
    buffer. By their addresses, two rules of a walk may have one place in the cache, which costs the
    walk less than a tenth."""
    if key.endswith('fallback') and name.startswith('first event of a thread: instructions'):
        return True
    return name == 'event 32 B with a stack: instructions' and None not in (now, before) and \
        abs(now - before) < before / 10


def compare(found, reference):
    """
    Print the differences, and how much was compared. A figure is None if it is not available, which
    was reported. Return (whether all figures match, compared).
    """
    same, compared, unknown = True, 0, []
    for part, keys in found.items():
        for key, figures in keys.items():
            known = reference.get(part, {}).get(key)
            if known is None:
                unknown.append(key)
                continue
            for name in sorted({*figures, *known}):
                now, before = figures.get(name), known.get(name)
                if now == before:
                    compared += 1
                elif depends_on_chance(key, name, now, before) and name in figures:
                    continue
                elif name not in figures:
                    print(f'GONE    {key}: {name}: not found any more, reference is {before}')
                    same = False
                elif now is None:
                    continue
                elif before is None:
                    print(f'NEW     {key}: {name}: {now}, without a reference')
                    same = False
                else:
                    compared += 1
                    word = 'WORSE ' if now > before else 'BETTER'
                    print(f'{word}  {key}: {name}: {now}, reference is {before}')
                    same = False
    for key in unknown:
        print(f'skipped: no reference for {key}')
    print(f'{compared} figures compared')
    return same, compared


def accept(found, reference):
    """Replace all stored figures of the same kind by those found."""
    for part, keys in found.items():
        for key, figures in keys.items():
            reference.setdefault(part, {})[key] = {
                name: value for name, value in figures.items() if value is not None}
    with open(REFERENCE, 'w', encoding='utf-8') as opened:
        json.dump(reference, opened, indent='\t', sort_keys=True)
        opened.write('\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--accept', action='store_true',
                        help='store the figures as the new reference')
    parser.add_argument('build', help='a build directory')
    parser.add_argument('parts', nargs='*', metavar='part',
                        help=f'{", ".join(PARTS)} (default: all)')
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f'no part {unknown[0]}; there are {", ".join(PARTS)}')
    found = {}
    for part in options.parts or PARTS:
        try:
            found[part] = PARTS[part](options.build)
        except Skip as reason:
            print(f'skipped: {part}: {reason}')
    with open(REFERENCE, encoding='utf-8') as opened:
        reference = json.load(opened)
    if options.accept:
        accept(found, reference)
        return 0
    same, compared = compare(found, reference)
    if not same:
        print('\nIf the difference is intended: scripts/bench --accept')
        return 1
    return 0 if compared else 77


if __name__ == '__main__':
    sys.exit(main())
