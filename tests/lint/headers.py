#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles every public header alone, and the samples of tests/compile.

usage: headers.py ROOT

Every struct of the API has the size of its first version, which tests/unit/api_sizes.c repeats as a
number, or <ringpipe/types.h> lists it among those that never grow. A struct with a size has an
_INIT, unless types.h lists it among those that a program only receives.

Each header must compile as C11, C++11 and C++17 without the warnings that servers commonly enable.
The script uses gcc and clang, if they are installed, and includes each header twice to test its
include guard.
"""
import os
import re
import shutil
import subprocess
import sys

import tree

TYPES = 'include/ringpipe/types.h'
SINKS = 'ringpipe/sinks/'       # for other libraries, whose headers may not be installed
SIZES = 'tests/unit/api_sizes.c'
FLAGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Wundef', '-Wcast-qual',
         '-Werror', '-fsyntax-only']
GROWS = r'(\w+_SIZE_V1) (?:\\\n\s*)?RP_SIZE_THROUGH_\(struct (\w+),'
COMPILERS = (('gcc', 'c', 'c11'), ('g++', 'c++', 'c++11'), ('clang', 'c', 'c11'),
             ('clang++', 'c++', 'c++17'))


def complaint(root, command, text, what):
    result = subprocess.run(command, input=text, cwd=root, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, check=False)
    if result.returncode == 0:
        return []
    return [f'{what}: {command[0]} refuses:\n' + result.stdout.strip()]


def check_structs(root):
    headers = {path: tree.read(root, path) for path in tree.files(root, 'include')
               if path.endswith('.h')}
    growing = dict(re.findall(GROWS, '\n'.join(headers.values())))
    promise = re.search(r'These never grow:.*?\*/', headers.get(TYPES, ''), re.S)
    fixed = set(re.findall(r'\brp_\w+', promise[0])) if promise else set()
    received = re.search(r'have no \.\.\._INIT:.*?\n \*\n', headers.get(TYPES, ''), re.S)
    received = set(re.findall(r'\brp_\w+', received[0])) if received else set()
    pinned = tree.read(root, SIZES) if growing else ''
    complaints = [f'{path}: struct {name} has no _SIZE_V1, and {TYPES} does not list it'
                  for path, text in headers.items()
                  for name in re.findall(r'^struct (rp_\w*[^\W_]) \{', text, re.M)
                  if name not in fixed and name not in growing.values()]
    complaints += [f'{path}: struct {name} has no _INIT, and {TYPES} does not list it'
                   for path, text in headers.items() if '/detail/' not in path
                   for _, name in re.findall(GROWS, text)
                   if name not in received and f'#define {name.upper()}_INIT ' not in text]
    return complaints + [f'{SIZES}: no static assertion of {constant}' for constant in growing
                         if not re.search(rf'_Static_assert\({constant} == \d+', pinned)]


def main():
    root = sys.argv[1]
    headers = [os.path.relpath(path, 'include') for path in tree.files(root, 'include')
               if path.endswith('.h') and SINKS not in path]
    samples = [path for path in ('tests/compile/fields.c', 'tests/compile/namespaces.cpp')
               if os.path.exists(os.path.join(root, path))]
    present = [row for row in COMPILERS if shutil.which(row[0])]
    complaints = check_structs(root) if headers else ['there are no public headers']
    if not present:
        print('no compiler found')
        sys.exit(77)
    for compiler, language, standard in present:
        base = [compiler, '-x', language, f'-std={standard}', '-Iinclude', *FLAGS]
        for header in headers:
            text = f'#include <{header}>\n' * 2 + 'typedef int not_empty;\n'
            complaints += complaint(root, base + ['-'], text, f'{header} as {standard}')
        for sample in samples:
            if language == 'c' and sample.endswith('.cpp'):
                continue
            complaints += complaint(root, base + [sample], None, f'{sample} as {standard}')
    tree.report(complaints)


if __name__ == '__main__':
    main()
