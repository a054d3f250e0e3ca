# SPDX-License-Identifier: MIT
"""Measures what declarations in a header cost the files that include it and their objects."""

import os
import re
import subprocess
import tempfile

import disassembly

EVENTS = 200
FILES = 20
HEADER = ''.join(
    ['#include <ringpipe/ringpipe.h>\n', 'RP_PROVIDER(bench, "Bench-Header");\n',
     *(f'RP_EVENT(bench, number_{number}, {number + 1}, RP_LEVEL_INFORMATIONAL, 1, RP_U64(id), '
       f'RP_STRING(text), RP_F64(total));\n' for number in range(EVENTS))])
FUNCTION = '__attribute__((used)) static int work(int id) {{ return id{calls}; }}\n'
NONE = FUNCTION.format(calls='')
UNUSED = HEADER + NONE
USED = HEADER + FUNCTION.format(calls=''.join(f' + bench_number_{number}(1, "text", 2)'
                                              for number in range(EVENTS)))


def sizes(compiler, language, options, source, all_files):
    """Return [(bytes of text, bytes of data, relocations)] of libraries with such numbers of equal
    files."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path, target = os.path.join(folder, 'file.o'), os.path.join(folder, 'file.so')
        subprocess.run([compiler, '-x', language, *options, '-fPIC', '-I',
                        os.path.join(disassembly.HERE, '..', 'include'), '-c', '-o', path, '-'],
                       input=source, text=True, check=True)
        for files in all_files:
            subprocess.run([compiler, '-shared', '-o', target, *[path] * files], check=True)
            found.append(sections(target))
    return found


def sections(path):
    """Return (bytes of text, bytes of data, relocations) of a library."""
    shown = subprocess.run(['readelf', '--wide', '--sections', path], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    rows = [(name, int(size, 16), flags) for name, size, flags in re.findall(
        r'^ +\[ *\d+\] (\S+) +\w+ +\w+ \w+ (\w+) \w+ +(\w+) ', shown, re.M)]
    return (sum(size for name, size, _ in rows if name == '.text'),
            sum(size for name, size, flags in rows
                if 'W' in flags and not name.startswith(('.got', '.dynamic'))),
            sum(size for name, size, _ in rows if name == '.rela.dyn') // 24)


def figures(compiler, language):
    """Return {figure: number}: the cost of a header with 200 events, compared with files without
    it."""
    found = {}
    for use, source, option, all_files in (
            ('none used', UNUSED, '-O0', (FILES,)), ('none used', UNUSED, '-O2', (FILES,)),
            ('all used', USED, '-O0', (1, FILES))):
        for files, numbers, bases in zip(
                all_files, sizes(compiler, language, [option], source, all_files),
                sizes(compiler, language, [option], NONE, all_files)):
            name = f'header of {EVENTS} events, {use}, {files} file{"s"[:files > 1]}, {option}'
            for what, number, base in zip(('bytes of text', 'bytes of data', 'relocations'),
                                          numbers, bases):
                found[f'{name}: {what}'] = number - base
    return found
