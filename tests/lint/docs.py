#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the code in README.md, doc/*.md and the manual pages.

usage: docs.py ROOT

Every fenced block must name its language. A block of `c` must compile unchanged, as C11 and C++17,
without a warning; a block of `cpp` must compile as C++17; a block of `python` must have
the right syntax. A block of `c fragment` is part of a
function's body and must compile inside a function. A `.Bd -literal` of a manual page is C and must
compile after the public headers. tests/cli/docs_test.py runs blocks of `sh`; install_test.sh and
dependency_test.sh there run those of `cmake` and `meson`. Blocks of `text` are not checked. Links
to files of the tree must lead to existing files, and paths in backticks must exist: a name without
a folder is in the folder of the path before it in its paragraph, if there is one. Each promise of
doc/security.md, an item of a list, must name existing tests. doc/architecture.md must list each
thread of the library by the name that ps(1) shows.
"""
import os
import re
import subprocess
import sys

import tree

FENCE = re.compile(r'^```(.*)$')
LINK = re.compile(r'\]\(([^)#:]+)(?:#[^)]*)?\)')
CODE = re.compile(r'`(?:\./)?([\w.-][\w./-]*)(?:[: ][^`\n]*)?`')
SOURCE = re.compile(r'\.(?:c|h|S|cpp|hpp|py|map|pml|md)$')
FENCED = re.compile(r'^```.*?^```$', re.M | re.S)
# A paragraph, an item of a list, a row of a table.
PARAGRAPH = re.compile(r'\n(?=\s*\n|\s*(?:[*-]|\d+\.) |\|)')
NOT_OURS = {'sys/sdt.h'}
PROMISES = 'doc/security.md'
ITEM = re.compile(r'^\* .*(?:\n  .*)*', re.M)
TEST = re.compile(r'`([\w/]+\.(?:c|cpp|py)): (\w+)`')
ARCHITECTURE = 'doc/architecture.md'
THREAD = re.compile(r'thread_(?:start|create|create_once)\([^;]*?"(ringpipe-\w+)"')
THREAD_ROW = re.compile(r'^\| `(ringpipe-\w+)` \|', re.M)
LITERAL = re.compile(r'^\.Bd -literal.*\n(.*?)^\.Ed$', re.M | re.S)
HEADERS = '#include <ringpipe/ringpipe.h>\n#include <ringpipe/reader.h>\n'
ELSEWHERE = {'sh', 'cmake', 'meson', 'text', 'lua'}


def blocks(text):
    """Returns (line, words after the fence, code) of each fenced block."""
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


def roff_text(text):
    """Returns the text of a manual page without roff's escapes."""
    for escape, plain in (('\\(dq', '"'), ('\\(aq', "'"), ('\\-', '-'), ('\\&', ''),
                          ('\\e', '\\')):
        text = text.replace(escape, plain)
    return text


C = ('gcc', 'c', 'c11')
CPP = ('g++', 'c++', 'c++17')


def check_code(root, where, code, *languages):
    complaints = []
    for compiler, name, standard in languages:
        result = subprocess.run(
            [compiler, '-x', name, f'-std={standard}', '-Iinclude', '-Wall', '-Wextra', '-Werror',
             '-fsyntax-only', '-'],
            input=code, cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False)
        if result.returncode:
            complaints.append(f'{where}: does not compile as {standard}:\n' + result.stdout.strip())
    return complaints


def check_python(where, code):
    try:
        compile(code, where, 'exec')
    except SyntaxError as error:
        return [f'{where}: {error}']
    return []


def check_links(root, path, text):
    complaints = []
    for match in LINK.finditer(text):
        target = os.path.normpath(os.path.join(root, os.path.dirname(path), match.group(1)))
        if not os.path.exists(target):
            line = text.count('\n', 0, match.start()) + 1
            complaints.append(f'{path}:{line}: there is no {match.group(1)}')
    return complaints


def check_paths(root, path, text):
    complaints = []
    files = ['/' + name for name in tree.files(root)]
    # Programs are named without what their sources end in.
    files += [os.path.splitext(file)[0] for file in files]
    tops = {name.split('/')[1] for name in files if name.count('/') > 1}
    for paragraph in PARAGRAPH.split(FENCED.sub('', text)):
        if path == ARCHITECTURE and paragraph.startswith('|'):
            continue  # rooms.py checks that table
        folder = '/'
        for name in CODE.findall(paragraph):
            top, slash, _ = name.partition('/')
            if name in NOT_OURS or 'NAME' in name or \
                    not (SOURCE.search(name) or slash and top in tops):
                continue
            if slash:
                folder = f'/{name.rpartition("/")[0]}/'
            wanted = '/' + name.rstrip('/') if slash else folder + name
            if not any(wanted + '/' in file + '/' for file in files):
                complaints.append(f'{path}: there is no {wanted.strip("/")}')
    return complaints


def check_promises(root, path, text):
    complaints = []
    for item in ITEM.finditer(text):
        where = f'{path}:{text.count(chr(10), 0, item.start()) + 1}'
        tests = TEST.findall(item.group())
        if not tests:
            complaints.append(f'{where}: no test is named that shows this')
        for file, name in tests:
            full = os.path.join(root, 'tests', file)
            if not os.path.exists(full) or \
                    not re.search(rf'(?:\b|_){name}\b', tree.read(root, 'tests/' + file)):
                complaints.append(f'{where}: there is no {name} in tests/{file}')
    return complaints


def check_threads(root):
    started = {name for path in tree.files(root, 'src') if path.endswith('.c')
               for name in THREAD.findall(tree.read(root, path))}
    reported = set(THREAD_ROW.findall(tree.read(root, ARCHITECTURE)))
    return [f'{ARCHITECTURE}: no row for the thread {name}'
            for name in sorted(started - reported)] + \
           [f'{ARCHITECTURE}: there is no thread {name}' for name in sorted(reported - started)]


def check_page(root, path):
    text = tree.read(root, path)
    complaints = check_links(root, path, text) + check_paths(root, path, text)
    if path == PROMISES:
        complaints += check_promises(root, path, text)
    for line, language, code in blocks(text):
        where = f'{path}:{line}'
        if not language:
            complaints.append(f'{where}: the block does not say its language')
        elif language[0] == 'c':
            if 'fragment' in language:
                code = f'{HEADERS}void fragment(void);\nvoid fragment(void)\n{{\n{code}}}\n'
            complaints += check_code(root, where, code, C, CPP)
        elif language[0] == 'cpp':
            complaints += check_code(root, where, code, CPP)
        elif language[0] == 'python':
            complaints += check_python(where, code)
        elif language[0] not in ELSEWHERE:
            complaints.append(f'{where}: blocks of {language[0]} are not checked by anything')
    return complaints


def check_manual(root, path):
    text = tree.read(root, path)
    complaints = []
    for match in LITERAL.finditer(text):
        line = text.count('\n', 0, match.start()) + 1
        code = HEADERS + roff_text(match.group(1))
        complaints += check_code(root, f'{path}:{line}', code, C, CPP)
    return complaints


def check_packages(root):
    """Checks that README.md lists the packages that scripts/setup installs for a build."""
    build = re.search(r'^build=\((.*?)\)', tree.read(root, 'scripts/setup'), re.M | re.S)
    listed = set(re.findall(r'[\w.+-]+', ' '.join(re.findall(
        r'^\|[^|\n]*\|([^|\n]*)\|$', tree.read(root, 'README.md'), re.M))))
    return [f'README.md: no package {package}, which scripts/setup installs'
            for package in build[1].split() if package not in listed]


def main():
    root = sys.argv[1]
    pages = [path for path in tree.files(root)
             if re.fullmatch(r'(doc/[^/]+|tests/README|README|CONTRIBUTING|CHANGELOG)\.md', path)]
    complaints = [] if 'README.md' in pages else ['README.md: missing']
    for page in pages:
        complaints += check_page(root, page)
    complaints += check_threads(root)
    complaints += check_packages(root)
    for page in tree.files(root, 'man'):
        if re.search(r'\.[1-8]$', page):
            complaints += check_manual(root, page)
    tree.report(complaints)


if __name__ == '__main__':
    main()
