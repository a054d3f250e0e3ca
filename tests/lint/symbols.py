#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares what the shared library exports with what the public headers declare.

usage: symbols.py ROOT LIBRARY COMMAND

Every exported symbol begins with rp_ and is declared RP_PUBLIC; every declaration is exported; the
library needs libc and liburcu, nothing else. The command, which is linked to the static library,
does not carry the front door, which would make it a host with a socket of its own.
"""
import re
import subprocess
import sys

import tree

FRONT_DOOR = 'rp_object_register'    # lies in the same object file as the constructor
DECLARATION = re.compile(r'\bRP_PUBLIC\b([^;{]*?)\b(\w+)\s*\(', re.S)
ALLOWED = re.compile(r'^(libc\.so|libpthread\.so|liburcu[\w-]*\.so|ld-linux[\w-]*\.so)')


def declared(root):
    names = set()
    for path in tree.files(root, 'include/ringpipe'):
        code = tree.without_comments(tree.read(root, path))
        code = re.sub(r'^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*', '', code, flags=re.M)
        names.update(match.group(2) for match in DECLARATION.finditer(code))
    return names


def defined(file, *options):
    output = subprocess.run(['nm', '--defined-only', *options, file], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    names = set()
    for line in output.splitlines():
        kind, name = line.split()[-2:]
        if kind != 'A':    # the version itself
            names.add(name.split('@')[0])
    return names


def check_command(command):
    names = defined(command)
    if 'main' not in names:
        return [f'{command}: no symbols to look at']
    return [f'{command}: carries the front door'] if FRONT_DOOR in names else []


def needed(library):
    output = subprocess.run(['readelf', '-d', library], check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    return re.findall(r'\(NEEDED\).*\[([^\]]+)\]', output)


def main():
    root, library, command = sys.argv[1:]
    promised, given = declared(root), defined(library, '-D')
    complaints = []
    if not promised:
        complaints.append('no declaration found in include/ringpipe')
    complaints += [f'{name}: exported, but no rp_ name' for name in sorted(given)
                   if not name.startswith('rp_')]
    complaints += [f'{name}: exported, not declared RP_PUBLIC' for name in sorted(given - promised)]
    complaints += [f'{name}: declared RP_PUBLIC, not exported' for name in sorted(promised - given)]
    complaints += [f'{name}: the library may not need it' for name in needed(library)
                   if not ALLOWED.match(name)]
    complaints += check_command(command)
    tree.report(complaints)


if __name__ == '__main__':
    main()
