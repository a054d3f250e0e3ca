# SPDX-License-Identifier: MIT
"""Counts the instructions of a program by valgrind's callgrind."""

import collections
import os
import re
import shutil
import subprocess
import tempfile


# The allocator of the servers, whose cost does not depend on their heaps; None: glibc's.
ALLOCATOR = None
# Without a socket and without LTTng's library: other programs of the machine, such as a recorder or
# a daemon of LTTng, would start threads in the program and so add instructions.
ALONE = {'RINGPIPE_DIAGNOSTICS': '0', 'RINGPIPE_LTTNG': '0'}


def run(command, folder, environment):
    """Run a command, whose costs go to the file `out` of a folder. Return what valgrind writes, or
    None without a valgrind that can read the command's program."""
    if not shutil.which('valgrind'):
        return None
    result = subprocess.run(
        ['valgrind', '--tool=callgrind', f'--callgrind-out-file={folder}/out', *command],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        env={**os.environ, **ALONE, **environment})
    # Valgrind 3.19 fails on the DWARF 5 that clang 14 writes.
    if 'debuginfo reader' in result.stderr:
        return None
    result.check_returncode()
    return result.stderr


def instructions(command, **environment):
    """Return the instructions of a command, or None without a valgrind that can read its
    program."""
    with tempfile.TemporaryDirectory() as folder:
        written = run(command, folder, environment)
    return int(re.search(r'Collected : (\d+)', written).group(1)) if written else None


def functions(command, library, **environment):
    """Return {function: its own instructions} of a library, or None as above."""
    found, names, now, is_callee = collections.Counter(), {}, {}, False
    with tempfile.TemporaryDirectory() as folder:
        if not run(command, folder, environment):
            return None
        with open(f'{folder}/out', encoding='utf-8', errors='replace') as file:
            lines = file.read().splitlines()
    for line in lines:
        if named := re.match(r'(c?)(ob|fn)=\((\d+)\)(?: (.*))?', line):
            of_callee, kind, number, name = named.groups()
            name = names.setdefault((kind, number), name)
            if not of_callee:
                now[kind] = name
        elif line.startswith('calls='):
            is_callee = True  # the next line has the costs of the callee
        elif re.match(r'[\d+*-]', line):
            if not is_callee and library in now['ob']:
                found[now['fn']] += int(line.split()[1])
            is_callee = False
    return found


def server_instructions(server, work):
    """Return the instructions of a server from its start through `work` to its end, in all its
    processes, or None without valgrind. `server` has start(is_traced, wrapper, environment) and
    stop()."""
    if not shutil.which('valgrind'):
        return None
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        wrapper = ['valgrind', '--quiet', '--tool=callgrind', '--trace-children=yes',
                   f'--callgrind-out-file={folder}/%p']
        allocator = {'LD_PRELOAD': ALLOCATOR} if ALLOCATOR else {}
        server.start(False, wrapper, {**os.environ, **allocator, **ALONE})
        try:
            work()
        finally:
            server.stop()
        total = 0
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding='utf-8', errors='replace') as file:
                total += sum(int(found) for found in re.findall(r'^totals: (\d+)', file.read(),
                                                                re.M))
        return total
