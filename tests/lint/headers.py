#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles every public header alone, and the samples of tests/compile.

usage: headers.py ROOT

Each header must compile as C11, C++11 and C++17 without the warnings that servers commonly enable.
The script uses gcc and clang, if they are installed, and includes each header twice to test its
include guard.
"""
import os
import shutil
import subprocess
import sys

import tree

FLAGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Wundef', '-Wcast-qual',
         '-Werror', '-fsyntax-only']
COMPILERS = (('gcc', 'c', 'c11'), ('g++', 'c++', 'c++11'), ('clang', 'c', 'c11'),
             ('clang++', 'c++', 'c++17'))


def complaint(root, command, text, what):
    result = subprocess.run(command, input=text, cwd=root, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, check=False)
    if result.returncode == 0:
        return []
    return [f'{what}: {command[0]} refuses:\n' + result.stdout.strip()]


def main():
    root = sys.argv[1]
    headers = [os.path.relpath(path, 'include') for path in tree.files(root, 'include')
               if path.endswith('.h')]
    samples = [path for path in ('tests/compile/fields.c', 'tests/compile/namespaces.cpp')
               if os.path.exists(os.path.join(root, path))]
    present = [row for row in COMPILERS if shutil.which(row[0])]
    complaints = [] if headers else ['there are no public headers']
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
