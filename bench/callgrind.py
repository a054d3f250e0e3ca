# SPDX-License-Identifier: MIT
"""Counts the instructions of a program by valgrind's callgrind."""

import os
import re
import shutil
import subprocess
import tempfile


# The allocator of the servers, whose cost does not depend on their heaps; None: glibc's.
ALLOCATOR = None


def instructions(command, **environment):
    """Return the instructions of a command, or None without a valgrind that can read its
    program."""
    if not shutil.which('valgrind'):
        return None
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ['valgrind', '--tool=callgrind', f'--callgrind-out-file={folder}/out', *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, 'RINGPIPE_DIAGNOSTICS': '0', **environment})
    # Valgrind 3.19 fails on the DWARF 5 that clang 14 writes.
    if 'debuginfo reader' in result.stderr:
        return None
    result.check_returncode()
    return int(re.search(r'Collected : (\d+)', result.stderr).group(1))


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
        server.start(False, wrapper, {**os.environ, **allocator})
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
