# SPDX-License-Identifier: MIT
"""Measures what a disabled event adds to the code around it, from object files."""

import functools
import os
import re
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(os.path.dirname(HERE), 'include')

COMPILERS = (('gcc', 'c'), ('g++', 'c++'), ('clang', 'c'), ('clang++', 'c++'))
KEYS = '-DRP_STATIC_KEYS=1'
OPTIONS = (('-O2',), ('-O2', '-fPIC'), ('-O2', '-fno-pie', '-fno-pic'), ('-O2', '-flto'), ('-O3',),
           ('-O3', '-fPIC'), ('-O3', '-flto'), ('-O2', KEYS), ('-O2', '-fPIC', KEYS),
           ('-O2', '-fno-pie', '-fno-pic', KEYS), ('-O2', '-flto', KEYS), ('-O3', KEYS))
PADDING = ('nop', 'endbr64', 'data16', 'cs nop', 'xchg   %ax,%ax')


def missing():
    """Return the reason why object files cannot be read here, or None."""
    return None if shutil.which('objdump') else 'no objdump'


@functools.lru_cache(maxsize=None)
def version(compiler):
    """Return text such as `gcc 12.2.0`, or None without such a compiler."""
    if not shutil.which(compiler):
        return None
    text = subprocess.run([compiler, '-dumpfullversion', '-dumpversion'], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return f'{compiler} {text.split()[0]}'


def build(folder, compiler, language, options):
    """
    Return objdump's text of the object, or of a library if the linker compiles. None if the linker
    has no plugin for the compiler.
    """
    sources = [os.path.join(HERE, 'site.c')]
    target = os.path.join(folder, 'site')
    what = ['-c']
    if '-flto' in options:
        with open(os.path.join(folder, 'work.c'), 'w', encoding='utf-8') as file:
            file.write('#include "site.h"\nuint64_t (*volatile hidden)(uint64_t);\n'
                       '__attribute__((noinline)) uint64_t work(uint64_t value)\n'
                       '{ return hidden(value); }\n')
        sources.append(file.name)
        # The library defines the symbols that are undefined here; it may come from another
        # compiler.
        what = ['-shared', '-fPIC', '-Wl,-Bsymbolic']
    result = subprocess.run([compiler, '-x', language, '-D_GNU_SOURCE', '-I' + INCLUDE,
                             '-I' + HERE, *options, *what, *sources, '-o', target],
                            stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode and '-flto' in options and 'plugin' in result.stderr:
        return None
    if result.returncode:
        raise RuntimeError(result.stderr)
    return subprocess.run(['objdump', '-d', '-w', target], check=True, stdout=subprocess.PIPE,
                          text=True).stdout


def instructions(text, function):
    """Return (bytes, instruction) of each instruction of a function and of its cold part."""
    parts = re.findall(rf'<{function}(\.cold)?>:\n(.*?)(?:\n\n|\Z)', text, re.S)
    if not parts:
        raise ValueError(f'no {function}')
    found = {'': [], '.cold': []}
    for suffix, body in parts:
        for line in body.splitlines():
            fields = line.split('\t')
            if len(fields) > 2:
                found[suffix].append((len(fields[1].split()), fields[2].strip()))
    return found[''] + found['.cold']


def straight(code):
    """Return (instructions, bytes) from the entry to the first return, with no branch taken."""
    seen = size = 0
    for length, instruction in code:
        if instruction.startswith(PADDING):
            continue
        seen += 1
        size += length
        if instruction.startswith('ret'):
            return seen, size
    raise ValueError('no return')


def lines_of_data(code):
    """Return the memory operands on the straight path, without those on the stack."""
    seen = set()
    for _, instruction in code:
        if instruction.startswith('ret'):
            break
        for place in re.findall(r'(?:0x[0-9a-f]+)?\(%rip\)|(?<=,)0x[0-9a-f]+(?=\s|$)', instruction):
            seen.add(instruction + place)
    return len(seen)


def whole(code):
    return sum(length for length, instruction in code if not instruction.startswith(PADDING))


def added(compiler, language, options):
    """
    Return what an event adds to a function while no session enables it: instructions and bytes on
    the straight path, bytes of cold code, and memory operands. The larger cost of two events, one
    with four numbers and one with a string. None if build() fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = build(folder, compiler, language, options)
    if text is None:
        return None
    worst = (0, 0, 0, 0)
    for kind in ('event', 'text'):
        with_it, without = (instructions(text, f'{which}_{kind}') for which in ('with', 'without'))
        count, size = (a - b for a, b in zip(straight(with_it), straight(without)))
        worst = max(worst, (count, size, whole(with_it) - whole(without) - size,
                            lines_of_data(with_it) - lines_of_data(without)))
    return worst
