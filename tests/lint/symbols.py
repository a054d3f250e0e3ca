#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares the exports of the shared library with the declarations of the public headers.

usage: symbols.py ROOT LIBRARY COMMAND

Every exported symbol must begin with rp_ and be declared RP_PUBLIC, and every declaration must be
exported. The library needs only libc and liburcu. It calls no function of libc with a lock that
fork(2) leaves locked in a child. The command is linked to the static library. It must not contain
FRONT_DOOR, because the library would then open a diagnostics socket in the command.
"""
import re
import subprocess
import sys

import tree

OF_OTHERS = {'otel_thread_ctx_v1'}    # OpenTelemetry's OTEP 4947 prescribes the name
FRONT_DOOR = 'rp_object_register'    # in the same object file as the constructor
DECLARATION = re.compile(r'\bRP_PUBLIC\b([^;{]*?)\b(\w+)\s*\(', re.S)
ALLOWED = re.compile(r'^(libc\.so|libpthread\.so|liburcu[\w-]*\.so|ld-linux[\w-]*\.so)')

# Functions of libc that take an internal lock which a forked child may inherit locked, so that the
# child would wait for ever: the locks of time zones, translations, databases and random(3).
# setenv(3) and newlocale(3) also take such a lock, but the library calls them only while it is
# loaded or at a client's request.
LOCKED_IN_CHILDREN = re.compile(
    r'^(gmtime|localtime|mktime|timelocal|timegm|strftime|tzset|ctime|strerror|perror|'
    r'd?c?n?gettext|setlocale|random|srandom|rand|srand|get(pw|gr|host|serv)\w+|getaddrinfo|syslog|'
    r'iconv_open|backtrace|atexit|on_exit|popen|tmpfile|psignal|strsignal)(_r|_l)?$')


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
        if kind != 'A':    # the version symbol itself
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


def check_forked(library):
    output = subprocess.run(['nm', '-D', '--undefined-only', library], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    names = sorted({line.split()[-1].split('@')[0] for line in output.splitlines()})
    return [f'{name}: has a lock that a forked child may find locked' for name in names
            if LOCKED_IN_CHILDREN.match(name.strip('_'))]


def main():
    root, library, command = sys.argv[1:]
    promised, given = declared(root), defined(library, '-D') - OF_OTHERS
    complaints = []
    if not promised:
        complaints.append('no declaration found in include/ringpipe')
    complaints += [f'{name}: exported, but no rp_ name' for name in sorted(given)
                   if not name.startswith('rp_')]
    complaints += [f'{name}: exported, not declared RP_PUBLIC' for name in sorted(given - promised)]
    complaints += [f'{name}: declared RP_PUBLIC, not exported' for name in sorted(promised - given)]
    complaints += [f'{name}: the library may not need it' for name in needed(library)
                   if not ALLOWED.match(name)]
    complaints += check_forked(library)
    complaints += check_command(command)
    tree.report(complaints)


if __name__ == '__main__':
    main()
