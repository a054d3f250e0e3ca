# SPDX-License-Identifier: MIT
"""Counts the instructions of a program by valgrind's callgrind."""

import os
import re
import shutil
import subprocess
import tempfile


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
