#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the style rules that a script can check.

usage: style.py ROOT

Every source file must name its licence. Lines have at most 100 columns, also those of Markdown
outside of tables, code and headings, unless they have one word. Files have at most 600 lines,
functions at most 80. No file contains a note for later work or a path of one machine. Shell scripts
must parse. A function with the prefix rp_ that is not public is used by several files: a function
of one file is static, and has no prefix.
"""
import collections
import os
import re
import subprocess
import sys

import tree

LINE_MAX = 100
FILE_MAX = 600
FUNCTION_MAX = 80

SOURCE_SUFFIXES = ('.c', '.h', '.S', '.cpp', '.cc', '.cs', '.py', '.sh', '.bash')
DECLARATION = re.compile(r'^[a-zA-Z][^;{}=]*\([^;{}]*\)[^;{}]*;', re.M)
DEFINITION = re.compile(r'^(?!static\b)[a-zA-Z][^;{}()=\n]*\b(rp_\w+)\([^;{}]*\)\n\{', re.M)
PASTED = re.compile(r'\b(rp_\w+_)\s*##')
STRING_LINE = re.compile(r'^\s*"(?:\\.|[^"\\])*"\s*(?:/\*.*\*/)?$')
# The patterns are split so that this file does not match them.
LEFTOVER = re.compile(r'\b(TO' r'DO|FIX' r'ME)\b')
MACHINE_PATH = re.compile(r'(?<![\w.])/(wo' r'rk|ho' r'me|ro' r'ot)/[\w.]')
REGISTRY = re.compile(r'\b(nu' r'get\.org|py' r'pi\.org|npm' r'js\.org|deb\.deb' r'ian\.org)\b')


def is_source(root, path):
    name = os.path.basename(path)
    return (path.endswith(SOURCE_SUFFIXES) or name in ('meson.build', 'meson_options.txt')
            or tree.is_shell(root, path))


def is_text(root, path):
    with open(os.path.join(root, path), 'rb') as file:
        return b'\0' not in file.read(4096)


def check_source(path, lines):
    complaints = []
    if not any('SPDX-License-Identifier: MIT' in line for line in lines[:3]):
        complaints.append(f'{path}:1: no SPDX-License-Identifier line')
    if len(lines) > FILE_MAX:
        complaints.append(f'{path}: {len(lines)} lines, more than {FILE_MAX}')
    for number, line in enumerate(lines, 1):
        columns = len(line.expandtabs(8))
        if columns > LINE_MAX:
            complaints.append(f'{path}:{number}: {columns} columns, more than {LINE_MAX}')
        if line != line.rstrip():
            complaints.append(f'{path}:{number}: blanks at the end of the line')
    return complaints


def check_markdown(path, lines):
    complaints, is_code = [], False
    for number, line in enumerate(lines, 1):
        is_code ^= re.match(r'\s*```', line) is not None
        if is_code or len(line) <= LINE_MAX or line.lstrip().startswith(('|', '#')):
            continue
        if len(line.lstrip('-*0123456789. ').split()) > 1:
            complaints.append(f'{path}:{number}: {len(line)} columns, more than {LINE_MAX}')
    return complaints


def check_functions(path, lines):
    """
    Measures functions: only their braces are alone in column 0. Lines that contain only a string do
    not count, because assembly cannot be split.
    """
    complaints, start, length = [], None, 0
    for number, line in enumerate(lines, 1):
        if line == '{':
            start, length = number, 0
        elif line == '}' and start is not None:
            if length > FUNCTION_MAX:
                complaints.append(
                    f'{path}:{start}: a function of {length} lines, more than {FUNCTION_MAX}')
            start = None
        elif not STRING_LINE.match(line):
            length += 1
    return complaints


def check_words(root, path, lines):
    complaints = []
    # In front of it, other characters would make it a part of another path.
    here = re.compile(r'(?:^|[\s"\'`=:(])' + re.escape(os.path.abspath(root)) +
                      r'(?:[/\s"\']|$)')
    for number, line in enumerate(lines, 1):
        if LEFTOVER.search(line):
            complaints.append(f'{path}:{number}: something left for later')
        if MACHINE_PATH.search(line) or here.search(line):
            complaints.append(f'{path}:{number}: a path of one machine')
        if REGISTRY.search(line):
            complaints.append(f'{path}:{number}: the host name of a registry')
    return complaints


def check_shell(root, path):
    if path.endswith('.bash') or b'bash' in open(os.path.join(root, path), 'rb').readline():
        shell = 'bash'
    else:
        shell = 'sh'
    result = subprocess.run([shell, '-n', path], cwd=root, stderr=subprocess.PIPE, check=False)
    if result.returncode:
        return [f'{path}: {shell} -n: ' + result.stderr.decode(errors='replace').strip()]
    return []


def check_prefixes(codes):
    """Finds functions that could be static. Declarations in headers are no uses."""
    files_of = collections.defaultdict(set)
    for path, code in codes.items():
        code = DECLARATION.sub('', code) if path.endswith('.h') else code
        for name in re.findall(r'\brp_\w+', code):
            files_of[name].add(path)
    public = {name for path, code in codes.items() if path.startswith('include/')
              for name in re.findall(r'\brp_\w+', code)}
    pasted = tuple(part for code in codes.values() for part in PASTED.findall(code))
    return [f'{path}: only this file uses {name}(), so it is static and has no prefix'
            for path, code in codes.items()
            if path.startswith('src/') and not path.endswith('.h')
            for name in DEFINITION.findall(code)
            if name not in public and files_of[name] == {path} and not name.startswith(pasted)]


def main():
    root = sys.argv[1]
    complaints, codes = [], {}
    for path in tree.files(root):
        if not is_text(root, path):
            continue
        lines = tree.read(root, path).split('\n')
        if lines and lines[-1] == '':
            lines.pop()
        complaints += check_words(root, path, lines)
        if is_source(root, path):
            complaints += check_source(path, lines)
        if path.endswith('.md'):
            complaints += check_markdown(path, lines)
        if tree.is_c(path):
            complaints += check_functions(path, lines)
            codes[path] = tree.without_comments('\n'.join(lines))
        if tree.is_shell(root, path):
            complaints += check_shell(root, path)
    tree.report(complaints + check_prefixes(codes))


if __name__ == '__main__':
    main()
