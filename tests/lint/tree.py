# SPDX-License-Identifier: MIT
"""The files of the tree, for the lint scripts."""
import os
import re
import sys

SKIPPED_FOLDERS = re.compile(r'^(build.*|\.git|__pycache__|bin|obj|node_modules)$')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def files(root, *folders):
    """Returns the paths of all files below the folders (or below root), relative to root."""
    found = []
    for folder in folders or ('.',):
        for here, below, names in os.walk(os.path.join(root, folder)):
            below[:] = sorted(name for name in below if not SKIPPED_FOLDERS.match(name))
            for name in names:
                if name == '.git':  # a file in a linked work tree
                    continue
                found.append(os.path.relpath(os.path.join(here, name), root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
        return file.read()


def is_c(path):
    return path.endswith(('.c', '.h', '.S', '.cpp', '.hpp', '.cc'))


def is_shell(root, path):
    if path.endswith(('.sh', '.bash')):
        return True
    if '.' in os.path.basename(path):
        return False
    with open(os.path.join(root, path), 'rb') as file:
        return re.match(rb'#!.*\b(ba)?sh\b', file.readline()) is not None


def without_comments(text):
    """Returns C code with its comments blanked and its line numbers unchanged."""
    def blank(match):
        token = match.group(0)
        return re.sub(r'[^\n]', ' ', token) if token.startswith('/') else token
    return COMMENT.sub(blank, text)


def comments(text):
    """Returns (line, comment) of each comment of C code."""
    return [(text.count('\n', 0, match.start()) + 1, match.group(0))
            for match in COMMENT.finditer(text) if match.group(0).startswith('/')]


def strings(text):
    """Yields (line, text) of each string literal of C code; adjacent literals are one."""
    text, end, start, parts = without_comments(text), 0, 0, []
    for match in COMMENT.finditer(text):
        if not match.group(0).startswith('"'):
            continue
        if parts and text[end:match.start()].strip():
            yield text.count('\n', 0, start) + 1, ''.join(parts)
            parts = []
        start = match.start() if not parts else start
        parts.append(match.group(0)[1:-1].replace('\\n', '\n'))
        end = match.end()
    if parts:
        yield text.count('\n', 0, start) + 1, ''.join(parts)


def report(complaints):
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)
