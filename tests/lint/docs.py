#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the code in README.md and doc/*.md.

usage: docs.py ROOT

Every fenced block says its language. A block of `c` compiles as it stands, as C11 and C++17,
without a warning; one of `c fragment` is a piece for a function's body and compiles inside one. In
a block of `sh` every command exists: a script of this tree, a subcommand that src/tool knows, or
one of the programs named below. `text` and `console` are not looked at. Links to files of the tree
lead to files.
"""
import os
import re
import subprocess
import sys

import tree

FENCE = re.compile(r'^```(.*)$')
LINK = re.compile(r'\]\(([^)#:]+)(?:#[^)]*)?\)')
PROGRAMS = {'git', 'meson', 'cc', 'gcc', 'c++', 'dotnet-trace', 'dotnet', 'sudo', 'man', 'cd',
            'curl', 'kill', 'pkg-config', 'wrk', 'sh'}
UNCHECKED = {'text', 'console', 'mermaid'}


def blocks(text):
    """(line, language words, code) of each fenced block."""
    found, start, language, code = [], None, [], []
    for number, line in enumerate(text.split('\n'), 1):
        match = FENCE.match(line)
        if not match:
            if start is not None:
                code.append(line)
        elif start is None:
            start, language, code = number, match.group(1).split(), []
        else:
            found.append((start, language, '\n'.join(code) + '\n'))
            start = None
    return found


def check_c(root, where, language, code):
    if 'fragment' in language:
        code = '#include <ringpipe/ringpipe.h>\n#include <ringpipe/reader.h>\n' \
               'void fragment(void);\nvoid fragment(void)\n{\n' + code + '}\n'
    complaints = []
    for compiler, name, standard in (('gcc', 'c', 'c11'), ('g++', 'c++', 'c++17')):
        result = subprocess.run(
            [compiler, '-x', name, f'-std={standard}', '-Iinclude', '-Wall', '-Wextra', '-Werror',
             '-fsyntax-only', '-'],
            input=code, cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False)
        if result.returncode:
            complaints.append(f'{where}: does not compile as {standard}:\n' + result.stdout.strip())
    return complaints


def subcommands(root):
    """The words that src/tool knows: its string literals."""
    words = set()
    for path in tree.files(root, 'src/tool'):
        if tree.is_c(path):
            words.update(re.findall(r'"([a-z][a-z-]*)"', tree.read(root, path)))
    return words


def check_command(root, where, line, known, made):
    words = line.split()
    while words and re.match(r'^[A-Za-z_]\w*=', words[0]):
        words.pop(0)
    if not words:
        return []
    if words[0] == 'ringpipe':
        if len(words) > 1 and not words[1].startswith('-') and words[1] not in known:
            return [f'{where}: `ringpipe {words[1]}` is not known']
        return []
    if '/' in words[0]:
        # What a build makes is not there before the build.
        if words[0] not in made and not words[0].startswith('build/') and \
           not os.access(os.path.join(root, words[0]), os.X_OK):
            return [f'{where}: {words[0]} cannot be run']
        return []
    return [] if words[0] in PROGRAMS else [f'{where}: no known command: {words[0]}']


def check_sh(root, where, code):
    complaints = []
    known = subcommands(root)
    made = {f'./{name}' for name in re.findall(r' -o (\S+)', code)}
    for line in re.sub(r'\\\n', ' ', code).split('\n'):
        line = line.split(' #')[0].strip()
        if line and not line.startswith('#'):
            for command in re.split(r'&&|\|\||[|;&]', line):
                complaints += check_command(root, where, command.strip(), known, made)
    return complaints


def check_links(root, path, text):
    complaints = []
    for match in LINK.finditer(text):
        target = os.path.normpath(os.path.join(root, os.path.dirname(path), match.group(1)))
        if not os.path.exists(target):
            line = text.count('\n', 0, match.start()) + 1
            complaints.append(f'{path}:{line}: there is no {match.group(1)}')
    return complaints


def check_page(root, path):
    text = tree.read(root, path)
    complaints = check_links(root, path, text)
    for line, language, code in blocks(text):
        where = f'{path}:{line}'
        if not language:
            complaints.append(f'{where}: the block does not say its language')
        elif language[0] == 'c':
            complaints += check_c(root, where, language, code)
        elif language[0] == 'sh':
            complaints += check_sh(root, where, code)
        elif language[0] not in UNCHECKED:
            complaints.append(f'{where}: blocks of {language[0]} are not checked by anything')
    return complaints


def main():
    root = sys.argv[1]
    pages = [path for path in tree.files(root)
             if path == 'README.md' or re.fullmatch(r'doc/[^/]+\.md', path)]
    complaints = [] if 'README.md' in pages else ['README.md: missing']
    for page in pages:
        complaints += check_page(root, page)
    tree.report(complaints)


if __name__ == '__main__':
    main()
