#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the names of the product's code against the glossary.

usage: glossary.py ROOT

A name is an identifier or the name of a file under include/, src/ or bpf/. For each concept, the
glossary lists one term, and the words that no name may contain instead. A word is a part of a name
between underscores, dots and hyphens.
"""
import os
import re
import sys

import tree

FOLDERS = ('include/', 'src/', 'bpf/')
# The term -> the words that no name may contain.
GLOSSARY = {
    'boundary': ('border', 'borders'),
    'space or capacity': ('room', 'rooms'),
    'slow or miss': ('slowly', 'anew'),
    'multi': ('turns',),
    'stats': ('figure', 'figures', 'account', 'accounts'),
    'emit, report or announce': ('tell', 'tells', 'telling', 'told', 'untold'),
    'spawn_detached': ('stranger', 'strangers'),
    'quiesced': ('handshaken',),
    'no_deadline': ('patient', 'patiently'),
    'async': ('aside',),
    'unwind_cache': ('learnt',),
    'trace_merge': ('weave', 'weaves', 'woven'),
    'kernel_inject': ('splice', 'splices', 'spliced'),
    'library_init': ('door',),
    'warn': ('complain', 'complains'),
}
TERM = {word: term for term, words in GLOSSARY.items() for word in words}
NAME = re.compile(r'\b[A-Za-z_]\w*')


def names(root, path):
    """Yields (line, name) for each name in a file, starting with the file's own name."""
    yield 0, os.path.basename(path)
    if not tree.is_c(path):
        return
    text = tree.COMMENT.sub(lambda match: '\n' * match[0].count('\n'), tree.read(root, path))
    for number, line in enumerate(text.split('\n'), 1):
        if not line.startswith('#include'):
            yield from ((number, name) for name in NAME.findall(line))


def main():
    root = sys.argv[1]
    bad = False
    for path in tree.files(root):
        if not path.startswith(FOLDERS):
            continue
        seen = set()
        for line, name in names(root, path):
            wrong = [word for word in re.split(r'[_.\-]+', name.lower()) if word in TERM]
            if wrong and name not in seen:
                seen.add(name)
                print(f'{path}:{line}: "{name}" contains "{wrong[0]}"; say {TERM[wrong[0]]}')
                bad = True
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
