#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the tags that name the two sides of a memory ordering.

usage: ordering.py ROOT

A comment in src/lib/ring or src/lib/core marks one side of an ordering by a tag such as [RING-PUB].
An ordering has two sides, so a tag that appears only once is an error.
"""
import re
import sys

import tree

ROOMS = ('src/lib/ring', 'src/lib/core')
TAG = re.compile(r'\[[A-Z]+-[A-Z]+\]')
NEARLY = re.compile(r'\[[A-Z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)+\]')


def main():
    root = sys.argv[1]
    sites, complaints = {}, []
    for path in tree.files(root, *ROOMS):
        if not tree.is_c(path):
            continue
        for line, comment in tree.comments(tree.read(root, path)):
            for match in NEARLY.finditer(comment):
                at = line + comment.count('\n', 0, match.start())
                if TAG.fullmatch(match.group(0)):
                    sites.setdefault(match.group(0), []).append(f'{path}:{at}')
                elif re.match(r'\[[A-Z]+[-_]', match.group(0)):
                    complaints.append(f'{path}:{at}: {match.group(0)} is no tag: [WORD-WORD]')
    for tag, places in sorted(sites.items()):
        if len(places) < 2:
            complaints.append(f'{places[0]}: {tag} has one side only')
    tree.report(complaints)


if __name__ == '__main__':
    main()
