#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks every #include against the table of folders, which the code calls rooms.

usage: rooms.py ROOT [LIBRARY]

The script reports an #include that the table does not permit, an #include of a missing file, files
that include each other in a circle, two files or types of the product with the same name, and a
table in doc/architecture.md that differs from this one. LIBRARY is the static library: the script
also reports an object that uses a symbol against the table.
"""
import os
import re
import subprocess
import sys

import tree

# Each folder, and the folders whose headers it may include besides its own and the public ones. The
# order is from the lowest layer to the highest: a folder uses only those above its row. `core`
# means src/lib/core/, src/modules/core/ or src/tools/core/. The script compares the table in
# doc/architecture.md with this one.
ROWS = {
    'include/ringpipe/': '',
    'src/lib/base/': '',
    'src/lib/ring/': 'base',
    'src/lib/ipc/': 'base',
    'src/lib/unwind/': 'base',
    'src/lib/host/': 'base',
    'src/lib/nettrace/': 'base',
    'src/lib/recover/': 'nettrace ring base',
    'src/lib/core/': 'recover ring unwind base',
    'src/lib/sample/': 'unwind core base',
    'src/lib/export/': 'nettrace core base',
    'src/lib/sink/': 'nettrace core sample host base',
    'src/lib/counter/': 'core ring base',
    'src/lib/trigger/': 'core sink counter base',
    'src/lib/component/': 'core base',
    'src/lib/diag/': 'core sample sink export host ipc base',
    'src/lib/otel/': 'nettrace core host base',
    'src/lib/prepare.c': 'base host core counter sample diag',
    'src/lib/ringpipe.c': 'base ring host core nettrace sink counter diag sample export trigger '
                          'otel',
    'src/modules/symbols/': 'host base',
    'src/modules/lttng/': 'export core base',
    'src/modules/inbox/': '',
    'src/modules/lua/': '',
    'src/host_test/': '',
    'bpf/': '',
    'src/tools/ringpipe-dump/': 'diag base',
    'src/tools/ringpipe-kernel/': 'nettrace base bpf/',
    'src/tools/cli/': 'base',
    'src/tools/trace/': 'cli nettrace base',
    'src/tools/analysis/': 'trace cli base',
    'src/tools/formats/': 'analysis trace cli nettrace base',
    'src/tools/view/': 'formats analysis trace cli base',
    'src/tools/client/': 'trace cli nettrace ipc base',
    'src/tools/ringpipe/': 'client view formats analysis trace cli recover nettrace ipc host '
                           'base',
    'src/tools/ringpipe-record/': 'bpf/ symbols client trace cli nettrace host unwind base',
    'src/tools/ringpipe-symbolize/': 'symbols trace cli nettrace host base',
    'src/tools/ringpipe-gen/': 'cli base',
    'src/tools/ringpipe-bpf/': 'bpf/ client trace cli ipc base',
    'src/python/': 'trace nettrace',
    'examples/': '',
    'integrations/': '',
    'bench/': '',
    'tests/unit/': 'base ring ipc host symbols core nettrace sink counter diag unwind sample '
                   'export lttng cli trace analysis client ringpipe ringpipe-dump ringpipe-kernel '
                   'ringpipe-record recover trigger',
    'tests/fuzz/': 'host ring ipc nettrace diag unwind cli trace analysis formats client '
                   'ringpipe ringpipe-dump ringpipe-gen ringpipe-kernel ringpipe-record '
                   'ringpipe-symbolize recover trigger',
    'tests/': '',
}


def full(name):
    """Returns the folder that a word of a row means."""
    for parent in ('', 'src/lib/', 'src/modules/', 'src/tools/'):
        for form in (parent + name, parent + name + '/'):
            if form in ROWS:
                return form
    raise KeyError(name)


ROOMS = {room: [full(name) for name in names.split()] for room, names in ROWS.items()}

# Symbols that a folder may use against the table, and why.
UPWARD = {
    # The writers in assembly end with a jump to them, for events that they do not write.
    # ring/regs.h declares them as functions of the layer above. A pointer that core sets would need
    # a load and an indirect jump for such an event, and a value before a constructor writes one.
    ('src/lib/ring/', 'rp_event_write_slow'),
    ('src/lib/ring/', 'rp_event_write_multi_slow'),
    # Public functions whose address is taken: to find other copies of the library in the process,
    # and to make a static link take the file with the constructor.
    ('src/lib/host/', 'rp_object_register'),
    ('src/lib/core/', 'rp_object_register'),
    # The bridge to LTTng tests in place whether the thread has ids, as the writers do.
    ('src/lib/export/', 'rp_thread_ring'),
}

# Headers of other projects, and the folders that may include them.
FOREIGN = {
    'urcu': ('src/', 'tests/'),
    'criterion': ('tests/',),
    'microhttpd.h': ('examples/', 'src/tools/ringpipe/', 'src/tools/view/'),
    'sqlite3.h': ('examples/',),
    'json.h': ('src/tools/',),
    'zstd.h': ('src/tools/trace/',),
    'archive': ('src/tools/ringpipe-record/',),
    'json-c': ('src/tools/',),
    'bpf': ('bpf/', 'src/tools/ringpipe-bpf/', 'src/tools/ringpipe-kernel/',
            'src/tools/ringpipe-record/', 'tests/linux/'),
    'seccomp.h': ('src/tools/ringpipe-kernel/', 'src/tools/ringpipe-record/'),
    'gelf.h': ('src/modules/symbols/',),
    'elfutils': ('src/modules/symbols/',),
    'lua.h': ('src/modules/lua/', 'tests/lua/', 'integrations/haproxy/'),
    'lauxlib.h': ('src/modules/lua/', 'tests/lua/', 'integrations/haproxy/'),
    'expat.h': ('src/tools/ringpipe-gen/',),
    'Python.h': ('src/python/',),
    'lttng': ('src/modules/lttng/', 'tests/unit/', 'bench/'),
}

# Headers that the build generates, and their sources.
GENERATED = {'src/lib/ring/asm_offsets.h': 'src/lib/ring/asm_offsets.c'}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
DOCUMENT = 'doc/architecture.md'


def room_of(path):
    """Returns the room with the longest name that contains the path."""
    fitting = [room for room in ROOMS if path.startswith(room)]
    return max(fitting, key=len) if fitting else None


def resolve(paths, path, quote, name):
    """Returns the file of the tree that an #include in `path` names, or None."""
    bases = (os.path.dirname(path), 'src/lib', 'src', 'include') if quote == '"' else ('include',)
    for base in bases:
        candidate = os.path.normpath(os.path.join(base, name))
        candidate = GENERATED.get(candidate, candidate)
        if candidate in paths:
            return candidate
    return None


def check_include(paths, path, line, quote, name):
    """Returns (the file included or None, a complaint or None)."""
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
    # Files of subfolders of tests/, and of examples/, may include each other.
    if not target_room.startswith('src/') and target_room.split('/')[0] == room.split('/')[0]:
        return target, None
    return target, f'{where}: {room} may not include {target_room} ("{name}")'


def circles(edges):
    """Reports files that include each other."""
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


def check_layers(rooms):
    """Reports folders that use a higher layer; every circle contains such a folder."""
    order = list(rooms)
    return [f'{room} may not use {used}, which is higher' for room in order
            for used in rooms[room]
            if order.index(used) >= order.index(room)]


def document_table(text):
    """Reads the rows | `room` | contents | `room` `room` | of the document."""
    table = {}
    for match in re.finditer(r'^\| *`([^`]+)` *\|[^|]*\|([^|]*)\| *$', text, re.M):
        table[match.group(1)] = re.findall(r'`([^`]+)`', match.group(2))
    return table


def check_document(root):
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return [f'{DOCUMENT}: missing']
    table = document_table(tree.read(root, DOCUMENT))
    complaints = []
    if [room for room in table if room in ROOMS] != list(ROOMS):
        complaints.append(f'{DOCUMENT}: the rows are in another order than here')
    for room, allowed in ROOMS.items():
        if room not in table:
            complaints.append(f'{DOCUMENT}: has no row for `{room}`')
        elif sorted(table[room]) != sorted(allowed):
            complaints.append(f'{DOCUMENT}: `{room}` may use {table[room]}, here {allowed}')
    return complaints


def same_names(paths):
    """Reports files of the product with the same name, because a bare name would be ambiguous."""
    complaints, seen = [], {'main.c': None}
    for path in sorted(paths):
        name = os.path.basename(path)
        if not path.startswith(('src/', 'include/', 'bpf/')):
            continue
        if seen.get(name):
            complaints.append(f'{path}: {seen[name]} has the same name')
        seen.setdefault(name, path)
    return complaints


def same_structs(root, paths):
    """Reports structs, unions and enums with the same tag, including those private to a file."""
    complaints, seen = [], {}
    for path in sorted(paths):
        if not path.startswith(('src/', 'include/', 'bpf/')):
            continue
        for kind, tag in re.findall(r'^(?:static |const )*(struct|union|enum) (\w+) \{',
                                    tree.read(root, path), re.M):
            if seen.get(tag, path) != path:
                complaints.append(f'{path}: {kind} {tag} has the tag of a type in {seen[tag]}')
            seen.setdefault(tag, path)
    return complaints


def room_of_member(member):
    """The room of an object in the static library: meson makes lib_ring_slot.c.o of ring/slot.c."""
    path = 'src/' + re.sub(r'\.o$', '', member).replace('_', '/', 1)
    return room_of(path) or room_of(path.replace('_', '/', 1))


def check_symbols(library):
    """Complaints about objects of the static library that use a symbol against the table."""
    listed = subprocess.run(['nm', '-A', '-g', library], check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    owners, uses = {}, []
    line = r'^[^:\n]*:([^:\n]+\.o):\S* +(\w) (\S+)$'
    for member, kind, symbol in re.findall(line, listed, re.M):
        if kind in 'Uvw':
            uses.append((member, symbol))
        else:
            owners[symbol] = room_of_member(member)
    complaints = []
    for member, symbol in sorted(set(uses)):
        room, owner = room_of_member(member), owners.get(symbol)
        if owner and owner not in (room, *ROOMS.get(room, ())) and (room, symbol) not in UPWARD:
            complaints.append(f'{member}: {room} may not use {owner} ({symbol})')
    return complaints


def main():
    root = sys.argv[1]
    paths = set(path for path in tree.files(root) if tree.is_c(path))
    complaints, edges = check_layers(ROOMS) + check_document(root), {}
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
    if len(sys.argv) > 2:
        complaints += check_symbols(sys.argv[2])
    tree.report(complaints + same_names(paths) + same_structs(root, paths) + circles(edges))


if __name__ == '__main__':
    main()
