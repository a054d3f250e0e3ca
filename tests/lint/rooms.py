#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks who includes whom against the table of rooms.

usage: rooms.py ROOT

Complains about an #include against the arrows, one that names no file, files that include each
other in a circle, and a table in doc/architecture.md that says something else.
"""
import os
import re
import sys

import tree

# Room -> rooms whose headers it may include besides its own and the public ones. This is the only
# place that knows; the table in doc/architecture.md is compared with it.
ROOMS = {
    'include/ringpipe/': [],
    'src/base/': [],
    'src/ring/': ['src/base/'],
    'src/host/': ['src/base/'],
    'src/symbols/': ['src/host/'],
    'src/recover/': ['src/nettrace/', 'src/ring/', 'src/base/'],
    'src/core/': ['src/recover/', 'src/nettrace/', 'src/ring/', 'src/unwind/', 'src/base/'],
    'src/export/': ['src/nettrace/', 'src/core/', 'src/base/'],
    'src/lttng/': ['src/export/', 'src/core/', 'src/base/'],
    'src/unwind/': ['src/base/'],
    'src/sample/': ['src/unwind/', 'src/core/', 'src/base/'],
    'src/nettrace/': ['src/base/'],
    'src/sink/': ['src/nettrace/', 'src/core/', 'src/sample/',
                  'src/host/', 'src/base/'],
    'src/counter/': ['src/core/', 'src/ring/', 'src/base/'],
    'src/trigger/': ['src/core/', 'src/sink/', 'src/counter/', 'src/base/'],
    'src/dump/': ['src/base/'],
    'src/diag/': ['src/core/', 'src/sample/', 'src/sink/', 'src/export/', 'src/host/', 'src/base/',
                  'src/dump/'],
    'src/ringpipe.c': ['src/base/', 'src/ring/', 'src/host/', 'src/core/', 'src/nettrace/',
                       'src/sink/', 'src/counter/', 'src/diag/', 'src/sample/',
                       'src/export/', 'src/trigger/'],
    'bpf/': [],
    'src/kernel/': ['src/nettrace/', 'src/base/', 'bpf/'],
    'src/tool/': ['src/recover/', 'src/nettrace/'],
    'src/bpf/': ['bpf/', 'src/tool/'],
    'examples/': [],
    'bench/': [],
    'tests/unit/': ['src/base/', 'src/ring/', 'src/host/', 'src/symbols/', 'src/core/',
                    'src/nettrace/', 'src/sink/', 'src/counter/', 'src/diag/', 'src/unwind/',
                    'src/sample/', 'src/export/', 'src/lttng/', 'src/tool/',
                    'src/dump/', 'src/kernel/', 'src/recover/', 'src/trigger/'],
    'tests/fuzz/': ['src/host/', 'src/ring/', 'src/nettrace/', 'src/diag/', 'src/unwind/',
                    'src/tool/', 'src/dump/', 'src/kernel/', 'src/recover/', 'src/trigger/'],
    'tests/': [],
}

# Headers of other projects, and the rooms that may include them.
FOREIGN = {
    'urcu': ('src/', 'tests/'),
    'criterion': ('tests/',),
    'microhttpd.h': ('examples/', 'src/tool/'),
    'sqlite3.h': ('examples/',),
    'json.h': ('src/tool/',),
    'json-c': ('src/tool/',),
    'bpf': ('bpf/', 'src/bpf/', 'src/kernel/', 'tests/linux/'),
    'seccomp.h': ('src/kernel/',),
    'gelf.h': ('src/symbols/',),
    'elfutils': ('src/symbols/',),
    'lttng': ('src/lttng/', 'tests/unit/', 'bench/'),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
DOCUMENT = 'doc/architecture.md'


def room_of(path):
    """The room with the longest name that the path lies in."""
    fitting = [room for room in ROOMS if path.startswith(room)]
    return max(fitting, key=len) if fitting else None


def resolve(paths, path, quote, name):
    """The file of the tree that an #include in `path` means, or None."""
    bases = (os.path.dirname(path), 'src', 'include') if quote == '"' else ('include',)
    for base in bases:
        candidate = os.path.normpath(os.path.join(base, name))
        if candidate in paths:
            return candidate
    return None


def check_include(paths, path, line, quote, name):
    """(the file included or None, a complaint or None)"""
    target = resolve(paths, path, quote, name)
    where = f'{path}:{line}'
    if target is None:
        if quote == '"':
            return None, f'{where}: there is no "{name}"'
        if name.startswith('ringpipe/'):
            return None, f'{where}: there is no public header <{name}>'
        owner = FOREIGN.get(name.split('/')[0])
        if owner and not path.startswith(owner):
            return None, f'{where}: <{name}> belongs into {", ".join(owner)}'
        return None, None
    room, target_room = room_of(path), room_of(target)
    if target_room is None:
        return target, f'{where}: "{name}" lies in no room'
    if target_room in (room, 'include/ringpipe/') or target_room in ROOMS[room]:
        return target, None
    # What lies beside each other below tests/ or examples/ may share.
    if not target_room.startswith('src/') and target_room.split('/')[0] == room.split('/')[0]:
        return target, None
    return target, f'{where}: {room} may not include {target_room} ("{name}")'


def circles(edges):
    """Complaints about files that include each other."""
    complaints, done, stack = [], set(), []

    def visit(path):
        if path in stack:
            circle = stack[stack.index(path):] + [path]
            complaints.append('circle: ' + ' -> '.join(circle))
            return
        if path in done:
            return
        stack.append(path)
        for target in edges.get(path, ()):
            visit(target)
        stack.pop()
        done.add(path)

    for path in sorted(edges):
        visit(path)
    return complaints


def document_table(text):
    """Room -> rooms, from the rows | `room` | what | `room` `room` | of the document."""
    table = {}
    for match in re.finditer(r'^\| *`([^`]+)` *\|[^|]*\|([^|]*)\| *$', text, re.M):
        table[match.group(1)] = re.findall(r'`([^`]+)`', match.group(2))
    return table


def check_document(root):
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return [f'{DOCUMENT}: missing']
    table = document_table(tree.read(root, DOCUMENT))
    complaints = []
    for room, allowed in ROOMS.items():
        if room not in table:
            complaints.append(f'{DOCUMENT}: has no row for `{room}`')
        elif sorted(table[room]) != sorted(allowed):
            complaints.append(f'{DOCUMENT}: `{room}` may use {table[room]}, here {allowed}')
    return complaints


def main():
    root = sys.argv[1]
    paths = set(path for path in tree.files(root) if tree.is_c(path))
    complaints, edges = check_document(root), {}
    for path in sorted(paths):
        if room_of(path) is None:
            complaints.append(f'{path}: lies in no room')
            continue
        text = tree.without_comments(tree.read(root, path))
        for match in INCLUDE.finditer(text):
            line = text.count('\n', 0, match.start()) + 1
            target, complaint = check_include(paths, path, line, match.group(1), match.group(2))
            if complaint:
                complaints.append(complaint)
            if target:
                edges.setdefault(path, []).append(target)
    tree.report(complaints + circles(edges))


if __name__ == '__main__':
    main()
