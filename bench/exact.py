#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The gate: what of the cost is the same number each time, compared with what exact.json says.

A figure that got worse fails; so does one that got better, until --accept writes it down. Figures
of instructions are kept for each version of a compiler; one that is not known is skipped and told.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import disassembly

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = os.path.join(HERE, 'exact.json')
ANY = 'any machine'
EVENTS = 100_000
QUIET = {**os.environ, 'RINGPIPE_DIAGNOSTICS': '0', 'RINGPIPE_LTTNG': '0'}


class Skip(Exception):
    """Why something cannot be counted here."""


def sites(_build):
    """{compiler: {figure: number}} of what a disabled event is in an object file."""
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
                continue
            for what, number in zip(('instructions', 'bytes', 'bytes out of the way'), numbers):
                found[version][f'disabled event, {" ".join(options)}: {what}'] = number
    return found


def steps(build):
    """Instructions and system calls of events, allocations of the process."""
    result = subprocess.run([os.path.join(build, 'bench', 'bench-exact')], env=QUIET, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode == 77:
        raise Skip(result.stderr.strip())
    if result.returncode:
        raise RuntimeError(f'bench-exact: exit {result.returncode}: {result.stderr.strip()}')
    found, key = collections.defaultdict(dict), None
    for line in result.stdout.splitlines():
        if '\t' not in line:
            key = line
            continue
        name, value, unit = line.split('\t')
        found[key if unit == 'instructions' else ANY][f'{name}: {unit}'] = int(value)
    return found


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def time_bytes(block):
    """
    (events, bytes of their times) of an event block's compressed events; nettrace V4, the page
    NetTraceFormat.md of microsoft/perfview.
    """
    at, events, times, size = int.from_bytes(block[:2], 'little'), 0, 0, 0
    while at < len(block):
        flags = block[at]
        at += 1
        for _ in range((flags & 1) + 3 * (flags >> 1 & 1) + (flags >> 2 & 1) + (flags >> 3 & 1)):
            at = varint(block, at)[1]
        begun = at
        at = varint(block, at)[1]
        times += at - begun
        at += 16 * ((flags >> 4 & 1) + (flags >> 5 & 1))
        if flags & 0x80:
            size, at = varint(block, at)
        at += size
        events += 1
    return events, times


def file_size(data):
    """(events, bytes of the file without the times of events): how long a time is, is chance."""
    marker = b'\5\5\1\2\0\0\0\2\0\0\0\x0a\0\0\0EventBlock\6'
    at, events, left = data.find(marker), 0, len(data)
    while at >= 0:
        at += len(marker)
        size = int.from_bytes(data[at:at + 4], 'little')
        at = (at + 4 + 3) & ~3
        more, times = time_bytes(data[at:at + size])
        events += more
        left -= times
        at = data.find(marker, at + size)
    return events, left


def file(build):
    """What of a file is not time, by event, in whole bytes: blocks have a head of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'exact.nettrace')
        result = subprocess.run([os.path.join(build, 'bench', 'bench-exact'), path, str(EVENTS)],
                                env=QUIET, check=False, stderr=subprocess.PIPE, text=True)
        if result.returncode == 77:
            raise Skip(result.stderr.strip())
        result.check_returncode()
        with open(path, 'rb') as opened:
            events, size = file_size(opened.read())
    if events < EVENTS:
        raise RuntimeError(f'{events} of {EVENTS} events found in the file')
    return {ANY: {'event 32 B in a file, without its time: bytes': round(size / events)}}


PARTS = {'sites': sites, 'steps': steps, 'file': file}


def compare(found, kept):
    """Prints what differs, and how much was compared. Return: (whether all is as kept, compared)"""
    same, compared, unknown = True, 0, []
    for key, figures in found.items():
        if key not in kept:
            unknown.append(key)
            continue
        for name, now in figures.items():
            if name not in kept[key]:
                print(f'NEW     {key}: {name}: {now}, and nothing is kept')
                same = False
                continue
            compared += 1
            if now != kept[key][name]:
                word = 'WORSE ' if now > kept[key][name] else 'BETTER'
                print(f'{word}  {key}: {name}: {now}, kept is {kept[key][name]}')
                same = False
    for key in unknown:
        print(f'skipped: nothing is kept for {key}')
    print(f'{compared} figures compared')
    return same, compared


def accept(found, kept):
    for key, figures in found.items():
        kept[key] = {**kept.get(key, {}), **figures}
    with open(KEPT, 'w', encoding='utf-8') as opened:
        json.dump(kept, opened, indent='\t', sort_keys=True)
        opened.write('\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--accept', action='store_true', help='what is found is kept from now on')
    parser.add_argument('build', help='a build directory')
    parser.add_argument('parts', nargs='*', metavar='part',
                        help=f'{", ".join(PARTS)} (default: all)')
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f'no part {unknown[0]}; there are {", ".join(PARTS)}')
    found = collections.defaultdict(dict)
    for part in options.parts or PARTS:
        try:
            for key, figures in PARTS[part](options.build).items():
                found[key].update(figures)
        except Skip as reason:
            print(f'skipped: {part}: {reason}')
    with open(KEPT, encoding='utf-8') as opened:
        kept = json.load(opened)
    if options.accept:
        accept(found, kept)
        return 0
    same, compared = compare(found, kept)
    if not same:
        print('\nIf it is meant to be so: scripts/bench --accept')
        return 1
    return 0 if compared else 77


if __name__ == '__main__':
    sys.exit(main())
