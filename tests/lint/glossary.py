#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks names against the glossary.

usage: glossary.py ROOT

A name is an identifier of C, C++, assembly, Promela, Python, meson or the shell, a quoted name in a
meson.build, or a file's name. The glossary lists, for each concept, its one term and the words that
no name may contain instead. A word is one or more parts of a name between underscores, dots and
hyphens. Words that also have a plain sense are forbidden only in the folders of the concept.
"""
import collections
import fnmatch
import io
import os
import re
import sys
import tokenize

import tree

# say: the term; words: what no name may contain instead; only: prefixes of the paths to which the
# row applies (none: all); plain: patterns of names in which the words have their plain sense.
Row = collections.namedtuple('Row', 'say words only plain', defaults=((), ()))

RING = ('src/lib/ring/', 'tests/unit/ring_', 'tests/unit/core_ring_cache')
ENGINE = ('src/lib/ring/', 'src/lib/core/')

GLOSSARY = (
    Row('sub-buffer or boundary', ('border', 'borders')),
    Row('sub-buffer or switch_subbuf', ('chunk', 'chunks', 'turn'), RING),
    # A room is a folder.
    Row('space or capacity', ('room', 'rooms'), (),
        ('ROOMS', 'rooms', 'room', 'room_of*', 'target_room', 'rooms.py')),
    Row('header', ('head',), (),
        # The head of a ring or of a list.
        ('head', 'HEAD', 'RING_HEAD', 'IS_HEAD', 'WRONG_HEAD_FIRST', 'retired_head', 'data_head',
         'cds_*', 'CDS_*',
         # Names of Python and of HAProxy.
         'PyObject_HEAD', 'PyObject_VAR_HEAD', 'PyModuleDef_HEAD_INIT', 'pool_head*')),
    Row('reserve, copy, commit', ('begin_write', 'begin_record', 'begin_records', 'put_record',
                                  'put_ids', 'store_head'), ENGINE),
    Row('multi or write_multi', ('in_turn', 'turns')),
    Row('regs', ('words',), ('src/meson.build', 'src/lib/ring/', 'src/lib/core/write.c',
                             'tests/unit/ring_', 'tests/mutation/mistakes'),
        # copy_words: machine words.
        ('copy_words',)),
    Row('slow or miss', ('slowly', 'anew')),
    # A clock map rests while no session runs.
    Row('slow or miss', ('rest',), ENGINE, ('rp_clock_map_rest',)),
    Row('ring cache', ('known',), RING + ('src/lib/core/write.c', 'tests/model/',
                                          'tests/mutation/')),
    Row('slow_path_mask or slow_mask', ('special', 'unusual')),
    Row('recovery', ('keep', 'keeps'), ('src/lib/recover/', 'src/lib/ring/', 'src/lib/core/'),
        # Names of secret fields, of a sink's descriptor, and of a copied text.
        ('keep', 'keep_fd', 'rp_text_keep')),
    Row('state_rings', ('kept',), ENGINE + ('tests/unit/core_state',)),
    Row('stats', ('account', 'accounts'), (), ('SHOP_ACCOUNTS_H', 'accounts.*')),
    # The figures of benchmarks keep their name.
    Row('stats', ('figure', 'figures'), ('include/', 'src/', 'bpf/', 'tests/', 'examples/')),
    Row('emit, report or announce', ('tell', 'tells', 'telling', 'told', 'untold')),
    Row('dynamic', ('made_at_run_time', 'at_run_time')),
    Row('rp_cancel_disable or RP_NO_CANCEL', ('until_return', 'cancel_hold', 'hold_cancel')),
    Row('spawn_detached', ('stranger', 'strangers')),
    Row('quiesced', ('handshaken',)),
    Row('no_deadline', ('patient', 'patiently', 'impatient')),
    Row('async', ('aside',)),
    Row('batch or repeat_run', ('row', 'rows', 'again'), ('src/lib/ring/', 'src/lib/core/',
                                                          'src/lib/sink/'),
        # Rows of a listing, and times at which a writer may wait again.
        ('row', 'rows', 'enabled_row', 'enabled_rows', 'traced_row', 'add_row', 'collect_rows',
         'again', 'again_ns', 'listen_again')),
    Row('batch or repeat_run', ('give_run', 'run_ahead', 'event_run'), ENGINE + ('src/lib/sink/',)),
    Row('unwind_cache', ('learnt', 'learned')),
    Row('address_ranges', ('places',), ('src/lib/', 'src/tools/trace/', 'src/tools/ringpipe/'),
        # Where a program's file may lie; decimal places.
        ('places', 'PLACES_MIN', 'PLACES_MAX')),
    Row('trace_merge', ('weave', 'weaves', 'woven')),
    Row('kernel_inject', ('splice', 'splices', 'spliced')),
    # FRONT_DOOR: a door of the example's house.
    Row('library_init', ('door',), (), ('FRONT_DOOR',)),
    Row('warn', ('complain', 'complains')),
    Row('check_peer_credentials', ('other_end', 'who_is')),
    Row('attach and detach, or another pair', ('put_on', 'take_off', 'taken_off')),
)

NAME = re.compile(r'\b[A-Za-z_]\w*')
STRINGS = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
# Any word of the glossary, in what parts_of() returns. Few names contain one.
ANY_WORD = re.compile(f"_(?:{'|'.join(word for row in GLOSSARY for word in row.words)})_")
SEPARATORS = re.compile(r'[_.-]+')
SHELL_NAME = re.compile(r'^\s*(?:(?:local|export|readonly|declare) +)?(\w+)(?:=| ?\(\))', re.M)


def parts_of(name):
    """The name in lower case, with an underscore before and after each of its parts."""
    return f'_{"_".join(SEPARATORS.split(name.lower()))}_'


def c_names(text):
    text = tree.COMMENT.sub(lambda match: '\n' * match[0].count('\n'), text)
    for number, line in enumerate(text.split('\n'), 1):
        if not line.startswith('#include'):
            yield from ((number, name) for name in NAME.findall(line))


def python_names(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def meson_names(text):
    for number, line in enumerate(text.split('\n'), 1):
        code = re.sub(r'#.*', '', line)
        yield from ((number, name) for name in re.findall(r"'([\w.+-]+)'", code))
        yield from ((number, name) for name in NAME.findall(STRINGS.sub('', code)))


def shell_names(text):
    for match in SHELL_NAME.finditer(text):
        yield text.count('\n', 0, match.start(1)) + 1, match[1]


def names(root, path):
    """Yields (line, name) for each name in a file, starting with the file's own name."""
    yield 0, os.path.basename(path)
    if tree.is_c(path) or path.endswith('.pml'):
        yield from c_names(tree.read(root, path))
    elif path.endswith('.py'):
        yield from python_names(tree.read(root, path))
    elif path.endswith('meson.build'):
        yield from meson_names(tree.read(root, path))
    elif tree.is_shell(root, path):
        yield from shell_names(tree.read(root, path))


def complaint(row, name):
    """The word of the row that the name contains, or None."""
    parts = parts_of(name)
    word = next((word for word in row.words if f'_{word}_' in parts), None)
    if word and not any(fnmatch.fnmatchcase(name, pattern) for pattern in row.plain):
        return word
    return None


def main():
    root = sys.argv[1]
    bad = False
    for path in tree.files(root):
        # The corpus has one input of a fuzzer in each file.
        if path == 'tests/lint/glossary.py' or path.startswith('tests/fuzz/corpus/'):
            continue
        rows = [row for row in GLOSSARY if not row.only or path.startswith(row.only)]
        seen = set()
        for line, name in names(root, path):
            if name in seen:
                continue
            seen.add(name)
            if not ANY_WORD.search(parts_of(name)):
                continue
            for row in rows:
                word = complaint(row, name)
                if word:
                    print(f'{path}:{line}: "{name}" contains "{word}"; say {row.say}')
                    bad = True
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
