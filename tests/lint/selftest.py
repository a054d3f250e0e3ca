#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Shows that each lint can fail: small trees with one fault each, and one tree without a fault.

usage: selftest.py

The output is TAP. A row contains the lint, its fault, the files that differ from the good tree
(None: the file is missing), and the text that the complaint must contain.
"""
import os
import subprocess
import sys
import tempfile

import rooms

HERE = os.path.dirname(os.path.abspath(__file__))
LICENCE = '/* SPDX-License-Identifier: MIT */\n'


def architecture(table):
    rows = [f'| `{room}` | what | {" ".join(f"`{name}`" for name in used)} |'
            for room, used in table.items()]
    return '# x\n\n| room | what | may use |\n| --- | --- | --- |\n' + '\n'.join(rows) + '\n'


def function(lines):
    return LICENCE + 'int f(void);\n\nint f(void)\n{\n' + '\t;\n' * lines + '}\n'


GOOD = {
    'include/ringpipe/a.h': LICENCE + '#ifndef A_H\n#define A_H\n#define RP_PUBLIC\n\n'
                            '/* Do it. Context: any. Return: 0. */\n'
                            'RP_PUBLIC int rp_a(void);\n#endif\n',
    'src/lib/libringpipe.map': 'V {\nglobal:\n\trp_a;\n};\n',
    'src/lib/base/b.h': LICENCE + '#include <ringpipe/a.h>\n',
    'src/lib/ring/r.c': LICENCE + '#include "base/b.h"\n/* [RING-PUB] one side */\n',
    'src/lib/core/c.c': LICENCE + '/* the other side of [RING-PUB] */\n',
    'src/lib/core/e.c': LICENCE + 'const char *e = "RINGPIPE_X";\n',
    'src/tools/ringpipe/t.c': LICENCE + '#include <ringpipe/a.h>\nx = { .name = "list" };\n'
                    'y = { { RP_OPTION_JSON, 0, "json" } };\n',
    'man/ringpipe.1': '.Dd $Mdocdate$\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd y\n'
                      '.Sh SYNOPSIS\n.Nm\n.Cm list\n.Sh OPTIONS\n.Bl -tag\n'
                      '.It Cm list\nz\n.It Fl -json\nz\n.El\n',
    'man/libringpipe.7': '.Dd $Mdocdate$\n.Dt X 7\n.Os\n.Sh NAME\n.Nm x\n.Nd y\n'
                         '.Ev RINGPIPE_X\n',
    'doc/architecture.md': architecture(rooms.ROOMS),
    'scripts/setup': '#!/bin/bash\n# SPDX-License-Identifier: MIT\nbuild=()\n',
    'scripts/go': '#!/bin/sh\n# SPDX-License-Identifier: MIT\ntrue\n',
    'README.md': '# x\n\nSee [the pages](doc/architecture.md).\n\n'
                 '```sh\n./scripts/go\n```\n\n'
                 '```c\n#include <ringpipe/a.h>\nint g(void);\n'
                 'int g(void) { return rp_a(); }\n```\n',
}

LATER = 'TO' + 'DO'
CASES = (
    ('rooms', 'an arrow that runs up',
     {'src/lib/base/b.h': LICENCE + '#include "core/c.h"\n', 'src/lib/core/c.h': LICENCE},
     'src/lib/base/ may not include src/lib/core/'),
    ('rooms', 'the tool looks inside',
     {'src/lib/ring/r.h': LICENCE,
      'src/tools/ringpipe/t.c': LICENCE + '#include "ring/r.h"\n'},
     'src/tools/ringpipe/ may not include src/lib/ring/'),
    ('rooms', 'a test looks inside', {'tests/cli/t.c': LICENCE + '#include "base/b.h"\n'},
     'tests/ may not include src/lib/base/'),
    ('rooms', 'a public header looks inside',
     {'include/ringpipe/a.h': LICENCE + '#include "base/b.h"\n'},
     'include/ringpipe/ may not include src/lib/base/'),
    ('rooms', 'a circle',
     {'src/lib/base/b.h': LICENCE + '#include "base/d.h"\n',
      'src/lib/base/d.h': LICENCE + '#include "base/b.h"\n'}, 'circle:'),
    ('rooms', 'two files of one name',
     {'src/lib/base/b.h': LICENCE, 'src/lib/ring/b.h': LICENCE}, 'has the same name'),
    ('rooms', 'two structs of one name',
     {'src/lib/base/b.c': LICENCE + 'struct one {\n};\n',
      'src/lib/ring/r.c': LICENCE + 'struct one {\n};\n'}, 'struct one has the tag of a type in'),
    ('rooms', 'an enum with the tag of a struct',
     {'src/lib/base/b.c': LICENCE + 'struct one {\n};\n',
      'src/lib/ring/r.c': LICENCE + 'enum one {\n};\n'}, 'enum one has the tag of a type in'),
    ('rooms', 'a header that is not there', {'src/lib/base/b.h': LICENCE + '#include "base/x.h"\n'},
     'there is no "base/x.h"'),
    ('rooms', 'a library in the wrong room',
     {'src/lib/base/b.h': LICENCE + '#include <sqlite3.h>\n'},
     '<sqlite3.h> belongs into'),
    ('rooms', 'a folder that is no room', {'stray/s.c': LICENCE}, 'lies in no room'),
    ('rooms', 'a table that allows more',
     {'doc/architecture.md': architecture({**rooms.ROOMS, 'src/lib/base/': ['src/lib/core/']})},
     '`src/lib/base/` may use'),
    ('rooms', 'a table without a row',
     {'doc/architecture.md': architecture({k: v for k, v in rooms.ROOMS.items()
                                           if k != 'src/lib/ring/'})}, 'has no row'),
    ('glossary', 'a name in other words',
     {'src/lib/base/b.h': LICENCE + '/* turns */\nint make_room(int told);\n'},
     'src/lib/base/b.h:3: "make_room" contains "room"; say space or capacity'),
    ('glossary', 'a name in other words in Python',
     {'tests/cli/a_test.py': '# SPDX-License-Identifier: MIT\ntest_losses_are_told = 1\n'},
     'tests/cli/a_test.py:2: "test_losses_are_told" contains "told"'),
    ('glossary', 'a target in other words',
     {'src/meson.build': "# SPDX-License-Identifier: MIT\nx = files('words.c', 'cold-words.c')\n"},
     '"cold-words.c" contains "words"; say regs'),
    ('glossary', 'a word that has no plain sense in its folder',
     {'src/lib/ring/r.c': GOOD['src/lib/ring/r.c'] + 'int known;\n',
      'src/lib/base/b.h': GOOD['src/lib/base/b.h'] + 'int known;\n'},
     'src/lib/ring/r.c:4: "known" contains "known"; say ring cache'),
    ('glossary', 'a file in other words', {'src/lib/base/weave.h': LICENCE}, 'say trace_merge'),
    ('prose', 'a page in the old manner',
     {'doc/old.md': 'What is lost is told.\n' * 20}, 'say: a sentence with a subject'),
    ('prose', 'comments in the old manner',
     {'src/lib/base/b.h': LICENCE + '/*\n * It is\n * told.\n */\n' * 5}, '5 of these, at most 0'),
    ('prose', 'messages in the old manner',
     {'src/lib/base/b.c': LICENCE + 'f("It is "\n  "told\\n");\n' * 3}, '3 of these, at most 0'),
    ('prose', 'docstrings in the old manner',
     {'tests/cli/a_test.py': '"""It is told."""\n' * 3}, '3 of these, at most 0'),
    ('prose', 'a build file in the old manner',
     {'src/meson.build': 'It is told.\n' * 3}, '3 of these, at most 0'),
    ('style', 'no licence', {'src/lib/base/b.h': 'int x;\n'}, 'no SPDX'),
    ('style', 'a long line',
     {'src/lib/base/b.h': LICENCE + '\t' * 12 + 'int xy;\n'}, '103 columns'),
    ('style', 'a long line of Markdown',
     {'README.md': f'```sh\n{"# x" * 40}\n```\n| {"a " * 60}|\n<https://{"x" * 100}>\n'
                   f'{"a " * 51}b\n'}, 'README.md:6: 103 columns'),
    ('style', 'a long file', {'src/lib/base/b.h': LICENCE + 'int x;\n' * 600}, '601 lines'),
    ('style', 'a long function', {'src/lib/base/b.c': function(81)}, 'a function of 81 lines'),
    ('style', 'a function of one file that is not static',
     {'src/lib/base/b.h': LICENCE + 'int rp_f(\n\tint a);\n',
      'src/lib/base/b.c': LICENCE + 'int rp_f(\n\tint a)\n{\n\treturn a;\n}\n\n'
                          'static int g(void)\n{\n\treturn rp_f(1);\n}\n'},
     'only this file uses rp_f()'),
    ('style', 'blanks at the end',
     {'src/lib/base/b.h': LICENCE + 'int x; \n'}, 'blanks at the end'),
    ('style', 'something left', {'README.md': f'{LATER}: write\n'}, 'left for later'),
    ('style', 'a path of one machine', {'README.md': 'see /ho' 'me/someone/x\n'}, 'one machine'),
    ('style', 'a registry', {'README.md': 'from py' 'pi.org\n'}, 'host name'),
    ('style', 'a broken script',
     {'scripts/go': '#!/bin/sh\n# SPDX-License-Identifier: MIT\nif\n'}, '-n:'),
    ('ordering', 'a tag with one side', {'src/lib/core/c.c': LICENCE}, 'has one side only'),
    ('ordering', 'a tag in a string', {'src/lib/core/c.c': LICENCE + 'char *x = "[RING-PUB]";\n'},
     'has one side only'),
    ('ordering', 'a tag misspelt', {'src/lib/core/c.c': LICENCE + '/* [RING-PUB] [RING_PUB] */\n'},
     'is no tag'),
    ('headers', 'a header that needs another',
     {'include/ringpipe/n.h': LICENCE + 'uint32_t x(void);\n'}, 'refuses'),
    ('headers', 'a header without a guard',
     {'include/ringpipe/n.h': LICENCE + 'struct twice { int x; };\n'}, 'refuses'),
    ('headers', 'a header that is no C++',
     {'include/ringpipe/n.h': LICENCE + 'int n(int class);\n'}, 'c++17'),
    ('headers', 'a header that warns',
     {'include/ringpipe/n.h': LICENCE + 'static int unused_one;\n'
                              'static inline int n(int x) { return 0; }\n'}, 'refuses'),
    ('headers', 'a struct that may grow or not',
     {'include/ringpipe/n.h': LICENCE + '#ifndef N_H\n#define N_H\nstruct rp_n {\n\tint x;\n};\n'
                              '#endif\n'}, 'struct rp_n has no _SIZE_V1'),
    ('headers', 'a first size that is no number',
     {'include/ringpipe/n.h': LICENCE + '#define RP_N_SIZE_V1 RP_SIZE_THROUGH_(struct rp_n, x)\n',
      'tests/unit/api_sizes.c': LICENCE}, 'no static assertion of RP_N_SIZE_V1'),
    ('headers', 'a struct without an initialiser',
     {'include/ringpipe/n.h': LICENCE + '#define RP_N_SIZE_V1 RP_SIZE_THROUGH_(struct rp_n, x)\n',
      'tests/unit/api_sizes.c': LICENCE}, 'struct rp_n has no _INIT'),
    ('manuals', 'an option without a word',
     {'src/tools/ringpipe/u.c': LICENCE + "y = { { RP_OPTION_TOP, 't', \"top\" } };\n"},
     '-- top: in src/tools/ringpipe, not in man/ringpipe.1'),
    ('manuals', 'a command without a word',
     {'src/tools/ringpipe/u.c': LICENCE + 'x = { .name = "fly" };\n'},
     'command fly: in src/tools/ringpipe, not in man/ringpipe.1'),
    ('manuals', 'a command that the synopsis forgot',
     {'man/ringpipe.1': '.Dd $Mdocdate$\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd y\n'
                        '.Sh SYNOPSIS\n.Nm\n.Sh OPTIONS\n.Bl -tag\n'
                        '.It Cm list\nz\n.It Fl -json\nz\n.El\n'},
     "command list: in src/tools/ringpipe, not in man/ringpipe.1's synopsis"),
    ('manuals', 'a function without a declaration',
     {'src/lib/libringpipe.map': 'V {\nglobal:\n\trp_a;\n\trp_b;\n};\n'},
     'rp_b is exported and has no page'),
    ('manuals', 'a function without a comment',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              'RP_PUBLIC int rp_b(void);\n#endif\n'},
     'rp_b has no comment'),
    ('manuals', 'a function without a contract',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              '/* Do it. Return: 0. */\nRP_PUBLIC int rp_b(void);\n#endif\n'},
     'rp_b.3: no section CONTEXT'),
    ('manuals', 'a function without a result',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              '/* Do it. Context: any. */\nRP_PUBLIC int rp_b(void);\n#endif\n'},
     'rp_b.3: no section RETURN VALUES'),
    ('manuals', 'an error without a cause',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              '/* Do it. Context: any. Return: 0; -EINVAL; -ENOMEM. */\n'
                              'RP_PUBLIC int rp_b(void);\n#endif\n'},
     'rp_b.3: -EINVAL without a cause'),
    ('manuals', 'an error with a digit and without a cause',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              '/* Do it. Context: any. Return: 0; -E2BIG; -ENOMEM. */\n'
                              'RP_PUBLIC int rp_b(void);\n#endif\n'},
     'rp_b.3: -E2BIG without a cause'),
    ('manuals', 'a parameter without a word',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              '/* Do it. Context: any. Return: 0. */\n'
                              'RP_PUBLIC int rp_b(int x);\n#endif\n'},
     'rp_b.3: the parameter x is not described'),
    ('manuals', 'a word about no parameter',
     {'include/ringpipe/b.h': LICENCE + '#ifndef B_H\n#define B_H\n#include <ringpipe/a.h>\n\n'
                              '/*\n * Do it.\n * @y: none.\n *\n * Context: any.\n'
                              ' * Return: 0.\n */\nRP_PUBLIC int rp_b(void);\n#endif\n'},
     'rp_b has no parameter y'),
    ('manuals', 'a variable without a word',
     {'src/lib/core/e.c': LICENCE + 'const char *e[] = { "RINGPIPE_X", "DOTNET_Y" };\n'},
     'variable DOTNET_Y: in src,'),
    ('manuals', 'a variable that nobody reads', {'src/lib/core/e.c': LICENCE},
     'variable RINGPIPE_X: in man/libringpipe.7,'),
    ('docs', 'C that does not compile', {'README.md': '```c\nint f(void) { return x; }\n```\n'},
     'does not compile'),
    ('docs', 'C of a manual that does not compile',
     {'man/x.3': '.Bd -literal -offset indent\nint f(void) { return x; }\n.Ed\n'},
     'man/x.3:1: does not compile'),
    ('docs', 'a block without a language', {'README.md': '```\nx\n```\n'}, 'language'),
    ('docs', 'a promise without a test', {'doc/security.md': '* Nobody sees it.\n'},
     'doc/security.md:1: no test is named'),
    ('docs', 'a promise whose test is gone',
     {'doc/security.md': '* Nobody sees it.\n  `unit/a.c: nobody_sees_it`\n'},
     'there is no nobody_sees_it in tests/unit/a.c'),
    ('docs', 'a thread that nobody tells of',
     {'src/lib/core/u.c': LICENCE + 'x = rp_thread_start(&t, "ringpipe-x", run, 0);\n'},
     'no row for the thread ringpipe-x'),
    ('docs', 'a package that the README does not list', {'scripts/setup': 'build=(gcc libx-dev)\n'},
     'no package libx-dev'),
    ('docs', 'a path to nowhere', {'README.md': 'See `src/lib/base/gone.h`.\n'},
     'README.md: there is no src/lib/base/gone.h'),
    ('docs', 'a name that is in another folder',
     {'README.md': '- It is in `src/lib/base/b.h` and\n  `r.c`.\n'},
     'README.md: there is no src/lib/base/r.c'),
    ('docs', 'a link to nowhere', {'README.md': '[x](doc/gone.md)\n'}, 'there is no doc/gone.md'),
)

OBJECT_CASES = (
    ('objects along the table',
     {'lib_core_write.c.o': 'extern int rp_ring; int *rp_core = &rp_ring;',
      'lib_ring_rings.c.o': 'int rp_ring;'}, ''),
    ('a listed symbol against the table',
     {'lib_core_write.c.o': 'void rp_event_write_slow(void) { }',
      'lib_ring_regs_x86_64.S.o': 'void rp_event_write_slow(void); '
                                  'void f(void) { rp_event_write_slow(); }'}, ''),
    ('a symbol against the table',
     {'lib_core_write.c.o': 'int rp_core;',
      'lib_ring_write_rseq.c.o': 'extern int rp_core; int *rp_ring = &rp_core;'},
     'lib_ring_write_rseq.c.o: src/lib/ring/ may not use src/lib/core/ (rp_core)'),
)

LIBRARY_HEADER = LICENCE + '#define RP_PUBLIC __attribute__((visibility("default")))\n'
SYMBOL_CASES = (
    (None, 'as declared', 'RP_PUBLIC int rp_a(void);\n', 'int rp_a(void) { return 1; }\n', ''),
    ('symbols', 'one too many', 'RP_PUBLIC int rp_a(void);\n',
     'int rp_a(void) { return 1; }\nint rp_b(void) { return 1; }\n', 'not declared RP_PUBLIC'),
    ('symbols', 'a foreign name', 'RP_PUBLIC int rp_a(void);\nRP_PUBLIC int leak(void);\n',
     'int rp_a(void) { return 1; }\nint leak(void) { return 1; }\n', 'no rp_ name'),
    ('symbols', 'one missing', 'RP_PUBLIC int rp_a(void);\nRP_PUBLIC int rp_b(void);\n',
     'int rp_a(void) { return 1; }\n', 'not exported'),
    ('symbols', 'another library', 'RP_PUBLIC double rp_a(double x);\n',
     '#include <math.h>\ndouble rp_a(double x) { return cos(x); }\n', 'may not need'),
    ('symbols', 'a lock that a child inherits',
     'struct tm;\nRP_PUBLIC struct tm *rp_a(long *seconds, struct tm *tm);\n',
     '#include <time.h>\nstruct tm *rp_a(long *seconds, struct tm *tm)\n'
     '{ return gmtime_r(seconds, tm); }\n', 'gmtime_r: has a lock'),
    ('symbols', 'a command that is a host', 'RP_PUBLIC int rp_a(void);\n',
     'int rp_a(void) { return 1; }\n', 'carries the front door'),
)


def lay_out(root, changes):
    for path, text in {**GOOD, **changes}.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(full, 0o755 if path.startswith('scripts/') else 0o644)


def run(lint, *arguments):
    result = subprocess.run([sys.executable, os.path.join(HERE, lint + '.py'), *arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    return result.returncode, result.stdout


def try_lint(lint, changes, wanted):
    """Returns '' or an error. If `wanted` is '', the lint must report nothing."""
    with tempfile.TemporaryDirectory() as root:
        lay_out(root, changes)
        return judge(*run(lint, root), wanted)


def try_symbols(header, source, wanted):
    with tempfile.TemporaryDirectory() as root:
        lay_out(root, {'include/ringpipe/a.h': LIBRARY_HEADER + header, 'l.c': source})
        library = os.path.join(root, 'l.so')
        subprocess.run(['gcc', '-shared', '-fPIC', '-Wl,--no-as-needed', '-o', library,
                        os.path.join(root, 'l.c'), '-lc', *(['-lm'] if 'math' in source else [])],
                       check=True)
        command = os.path.join(root, 'command')
        other = 'void rp_object_register(void) { } ' if 'front door' in wanted else ''
        subprocess.run(['gcc', '-x', 'c', '-', '-o', command], check=True, text=True,
                       input=other + 'int main(void) { return 0; }')
        return judge(*run('symbols', root, library, command), wanted)


def try_objects(sources, wanted):
    """The symbols of objects named as meson names them, against the table of rooms."""
    with tempfile.TemporaryDirectory() as root:
        lay_out(root, {})
        objects = [os.path.join(root, name) for name in sources]
        for path, source in zip(objects, sources.values()):
            subprocess.run(['gcc', '-x', 'c', '-c', '-', '-o', path], check=True, text=True,
                           input=source)
        library = os.path.join(root, 'l.a')
        subprocess.run(['ar', 'rc', library, *objects], check=True)
        return judge(*run('rooms', root, library), wanted)


def judge(status, output, wanted):
    if not wanted:
        return '' if status == 0 else f'a complaint about a good tree:\n{output}'
    if status != 1:
        return f'status {status} in place of 1:\n{output}'
    return '' if wanted in output else f'the complaint does not say "{wanted}":\n{output}'


def main():
    results = [(f'{lint} accepts a good tree', try_lint(lint, {}, ''))
               for lint in ('rooms', 'style', 'ordering', 'headers', 'manuals', 'docs')]
    results += [(f'{lint} finds {what}', try_lint(lint, changes, wanted))
                for lint, what, changes, wanted in CASES]
    results += [(f'symbols {"finds" if lint else "accepts"} {what}',
                 try_symbols(header, source, wanted))
                for lint, what, header, source, wanted in SYMBOL_CASES]
    results += [(f'rooms {"finds" if wanted else "accepts"} {what}', try_objects(sources, wanted))
                for what, sources, wanted in OBJECT_CASES]
    print(f'TAP version 13\n1..{len(results)}')
    for number, (name, wrong) in enumerate(results, 1):
        print(f'{"not ok" if wrong else "ok"} {number} - {name}')
        for line in wrong.splitlines():
            print(f'# {line}')
    sys.exit(1 if any(wrong for _, wrong in results) else 0)


if __name__ == '__main__':
    main()
