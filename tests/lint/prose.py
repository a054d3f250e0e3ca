#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Limits the number of phrases in comments and pages that make readers stumble.

usage: prose.py ROOT

Each kind of phrase has a limit: the number of occurrences when the limit was last set. A change may
lower a limit but must not raise it.
"""
import re
import sys

import tree

FOLDERS = ('src/', 'include/', 'bpf/', 'bench/', 'tests/', 'doc/', 'examples/')
# Phrase, limit, and the words to use instead.
PHRASES = (
    (r'(?:^|[.:;] )(?:What|Who|Whose|Whom)\b(?![^.]*\?)', 16,
     'a sentence with a subject and a verb'),
    (r'\b(?:nobody|somebody|anybody|whoever)\b', 24, 'the thread, process or user'),
    (r'\b(?:tells?|told|telling)\b', 4, 'report, emit, show, return'),
    (r'\bfor want of\b|\bin vain\b', 10, 'for lack of; without success'),
    (r'\bmade at run time\b', 1, 'dynamic'),
    (r'\bbeside\b', 1, 'next to, with, compared with, while'),
    (r'\banew\b', 18, 'again'),
    (r'\b(?:no|finds?|makes?|has) room\b', 24, 'space'),
    (r'\bin turn\b|\btakes? turns\b', 4, 'multi-session; alternate'),
    (r'\bstands? still\b', 12, 'stall'),
)


def texts(root, path):
    """Yields (line, text) of each comment, or of the whole page."""
    if path.endswith('.md'):
        return [(1, tree.read(root, path))]
    if tree.is_c(path) and path.startswith(FOLDERS):
        return tree.comments(tree.read(root, path))
    return []


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
