# SPDX-License-Identifier: MIT
"""
Counts the instructions of `ringpipe report summary` for an event of a trace. The trace is the same
in each run: a second writer makes it.
"""

import os
import struct
import subprocess
import sys
import tempfile

import callgrind

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, 'tests', 'cli'))
import nettrace6  # noqa: E402

TOOL = os.path.join('src', 'tools', 'ringpipe', 'ringpipe')
BLOCK_EVENTS = 2000
BLOCKS = 20
NAME = nettrace6.utf16z("a customer's name")


def trace(blocks):
    """Return a trace of three kinds of events, which two threads write, each in its blocks."""
    made = nettrace6.Trace().threads({'index': 1, 'thread': 101}, {'index': 2, 'thread': 102})
    for number, name in enumerate(('small', 'four', 'text'), 1):
        made.define(number, 'Bench-Reader', name, number)
    payloads = {1: bytes(8), 2: bytes(32), 3: struct.pack('<Q', 0) + NAME}
    ids = [1, 2, 1, 3] * (BLOCK_EVENTS // 4)
    for block in range(blocks):
        thread = 1 + block % 2
        first = {'thread': thread, 'capture': thread, 'number': 1 + block // 2 * BLOCK_EVENTS}
        made.events(*({'id': kind, 'ns': 100 * (block * BLOCK_EVENTS + i),
                       'payload': payloads[kind], **(first if i == 0 else {})}
                      for i, kind in enumerate(ids)))
    return made.end()


def count(tool, path):
    return callgrind.instructions([tool, 'report', path, 'summary'])


def figures(build):
    """
    Return {figure: instructions of an event}, from a trace and one of twice the length; None
    without a valgrind that can count them.
    """
    tool = os.path.join(build, TOOL)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for version in (4, 6):
            counts = []
            for blocks in (BLOCKS, 2 * BLOCKS):
                path = os.path.join(folder, 'v6.nettrace')
                with open(path, 'wb') as file:
                    file.write(trace(blocks))
                if version == 4:
                    six, path = path, os.path.join(folder, 'v4.nettrace')
                    subprocess.run([tool, 'convert', six, '-q', '-f', '--format', '4', '-o', path],
                                   check=True)
                counts.append(count(tool, path))
            if None in counts:
                return None
            found[f'summary of a trace of version {version}, an event: instructions'] = \
                round((counts[1] - counts[0]) / (BLOCKS * BLOCK_EVENTS))
    return found
