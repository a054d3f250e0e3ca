#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Limits phrases that make readers stumble, in comments, messages, pages, scripts and build files.

usage: prose.py ROOT

Each kind of phrase has a limit: the number of occurrences when the limit was last set. A change may
lower a limit but must not raise it.
"""
import re
import sys

import tree

FOLDERS = ('src/', 'include/', 'bpf/', 'bench/', 'tests/', 'doc/', 'examples/', 'integrations/')
# Phrase, limit, and the words to use instead.
PHRASES = (
    (r'(?:^|[.:;] )(?:What|Who|Whose|Whom)\b(?![^.]*\?)', 0,
     'a sentence with a subject and a verb'),
    (r'\b(?:nobody|somebody|anybody|whoever)\b', 4, 'the thread, process or user'),
    (r'\b(?:tells?|told|telling)\b', 0, 'report, emit, show, return'),
    (r'\bfor want of\b|\bin vain\b', 0, 'for lack of; without success'),
    (r'\bmade at run time\b', 0, 'dynamic'),
    (r'\bbeside\b', 2, 'next to, with, compared with, while'),
    (r'\banew\b', 0, 'again'),
    (r'\b(?:no|finds?|makes?|has) room\b', 0, 'space'),
    (r'\bin turn\b|\btakes? turns\b', 0, 'multi-session; alternate'),
    (r'\bstands? still\b', 0, 'stall'),
)


def texts(root, path):
    """Yields (line, text) of each comment and message, or of the whole page or script."""
    if path.endswith(('.md', 'meson.build')) or path.startswith('scripts/') or \
            re.search(r'^man/.*\.\d$', path):
        yield 1, tree.read(root, path)
    elif path.endswith('.py') and not path.startswith('tests/lint/'):
        code = tree.read(root, path)
        for text in re.finditer(r'^\s*"""(.*?)"""', code, re.S | re.M):
            yield code.count('\n', 0, text.start(1)) + 1, text[1]
    elif tree.is_c(path) and path.startswith(FOLDERS):
        code = tree.read(root, path)
        yield from tree.comments(code)
        if path.startswith(('src/', 'include/')):
            yield from tree.strings(code)


def places(root, pattern):
    for path in tree.files(root):
        if path.startswith('bench/results/'):
            continue
        for line, text in texts(root, path):
            # A sentence may continue on the next line, after the comment's star.
            plain = re.sub(r'\s+', ' ', re.sub(r'^/\*|\n\s*\*', ' ', text)).strip()
            yield from (f'{path}:{line}: {match[0].strip()}'
                        for match in re.finditer(pattern, plain))


def main():
    root = sys.argv[1]
    complaints = []
    for pattern, limit, instead in PHRASES:
        found = list(places(root, pattern))
        if len(found) > limit:
            complaints += found
            complaints.append(f'{len(found)} of these, at most {limit} allowed; say: {instead}')
    tree.report(complaints)


if __name__ == '__main__':
    main()
