#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks that mistakes in the use of the event macros are refused by the compiler.

usage: refused.py ROOT [CASES]

Each file of tests/compile/refused has one line that ends in the comment `refused`. gcc and clang,
as C11 and as C++17, must give an error that names that line, and must take the file with
-DREPAIRED, which leaves the line out. The text after a colon in the comment must be in the first
error. Prints TAP.
"""
import os
import re
import shutil
import subprocess
import sys

import tap

COMPILERS = (('gcc', 'c', 'c11'), ('g++', 'c++', 'c++17'), ('clang', 'c', 'c11'),
             ('clang++', 'c++', 'c++17'))


def compile_case(root, path, compiler, *more):
    name, language, standard = compiler
    command = [name, '-x', language, f'-std={standard}', '-Iinclude', '-Wall', '-pedantic-errors',
               '-Werror=implicit-function-declaration', '-Werror=format',
               '-fsyntax-only', *more, path]
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def verdict(root, path, compiler):
    """'' or what is wrong."""
    with open(os.path.join(root, path), encoding='utf-8') as file:
        marked = [(number, *found.groups()) for number, line in enumerate(file, 1)
                  for found in [re.search(r'/\* refused(?:: (.*))? \*/', line)] if found]
    if len(marked) != 1:
        return f'{len(marked)} lines are marked, not 1'
    repaired = compile_case(root, path, compiler, '-DREPAIRED')
    if repaired.returncode:
        return 'refused even without the marked line:\n' + repaired.stdout
    broken = compile_case(root, path, compiler)
    if broken.returncode == 0:
        return 'accepted'
    number, message = marked[0]
    if not re.search(rf'^{re.escape(path)}:{number}:', broken.stdout, re.M):
        return f'no message names line {number}:\n' + broken.stdout
    if message and message not in re.search(r'error: .*', broken.stdout)[0]:
        return f'the first error is not "{message}":\n' + broken.stdout
    return ''


def main():
    root = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else 'tests/compile/refused'
    cases = sorted(name for name in os.listdir(os.path.join(root, folder)) if name.endswith('.c'))
    sys.exit(tap.report(((f'{case[:-2]} is refused by {compiler[0]} as {compiler[2]}',
                          verdict(root, os.path.join(folder, case), compiler)
                          if shutil.which(compiler[0]) else None)
                         for case in cases for compiler in COMPILERS), 'no such compiler'))


if __name__ == '__main__':
    main()
