#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares the manual pages with the sources.

usage: manuals.py ROOT

groff must read each page without a warning, including the pages that man/pages.py generates from
the headers. Each exported function must have such a page, with its context, its
results, the cause of each error, and a description of each parameter that is not an object of the
library. ringpipe(1), its synopsis and the shell
completion must list exactly the commands and options of src/tools/ringpipe. libringpipe(7) must
list exactly the environment variables that the library reads.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../man'))
import pages  # pylint: disable=wrong-import-position

TOOL = 'src/tools/ringpipe'
PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../man/pages.py')
# The type of a parameter that describes it.
OBJECT = re.compile(r'(?:const )?struct rp_\w+ \*\*?\w+$')
# Only the macros of declarations call these functions.
INTERNAL = {'rp_event_write_regs', 'rp_object_register', 'rp_object_unregister'}
OPTION_ROW = re.compile(r"\{\s*RP_OPTION_\w+,\s*(?:0|'.'),\s*\"([\w-]+)\"")
COMMAND_ROW = re.compile(r'\.name = "([\w ]+)"')
# The magic of the diagnostics protocol looks like the name of a variable.
VARIABLE = re.compile(r'"((?:RINGPIPE|DOTNET)_(?!IPC_V\d)\w+)"')


def compare(what, promised, where_promised, real, where_real):
    return [f'{what} {name}: in {where_real}, not in {where_promised}'
            for name in sorted(real - promised)] + \
           [f'{what} {name}: in {where_promised}, not in {where_real}'
            for name in sorted(promised - real)]


def check_groff(root, page):
    result = subprocess.run(['groff', '-mandoc', '-ww', '-Tutf8', '-z', page], cwd=root,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    return [f'{page}: groff: {line}' for line in result.stdout.splitlines()]


def check_parameters(root):
    complaints = []
    for function in pages.all_functions(os.path.join(root, 'include/ringpipe')):
        complaints += [f'{function.name}.3: the parameter {name} is not described'
                       for name, declared in zip(function.names(), function.parameters)
                       if not OBJECT.match(declared) and
                       not re.search(rf'[`@*]{name}\b', function.comment)]
    return complaints


def check_functions(root):
    """Checks that each exported function has a page with its own description."""
    exported = re.findall(r'^\t(rp_\w+\*?);', tree.read(root, 'src/lib/libringpipe.map'), re.M)
    declared = set()
    complaints = []
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([sys.executable, PAGES, os.path.join(root, 'include/ringpipe'),
                               directory], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip().split('\n')[-1:]
        for page in sorted(os.listdir(directory)):
            declared.add(page.removesuffix('.3'))
            with open(os.path.join(directory, page), encoding='utf-8') as file:
                text = file.read()
            if shutil.which('groff'):
                complaints += check_groff(root, os.path.join(directory, page))
            summary = re.search(r'^\.Nd (.*)$', text, re.M)[1]
            if len(summary) > 90:
                complaints.append(f'{page}: a summary of {len(summary)} characters: {summary}')
            for section in ('CONTEXT', 'RETURN VALUES'):
                if f'\n.Sh {section}\n' not in text:
                    complaints.append(f'{page}: no section {section}')
            complaints += [f'{page}: {values} without a cause'
                           for values in re.findall(r'^\.It (-E.*)\n\.(?:It|El)', text, re.M)]
    complaints += check_parameters(root)
    for name in exported:
        if name in INTERNAL:
            continue
        found = [page for page in declared if page == name or
                 (name.endswith('*') and page.startswith(name[:-1]))]
        if not found:
            complaints.append(f'{name} is exported and has no page')
    return complaints


def check_command(root):
    code = ''.join(tree.without_comments(tree.read(root, path))
                   for folder in (TOOL, 'src/tools/cli') for path in tree.files(root, folder)
                   if path.endswith('.c'))
    options = set(OPTION_ROW.findall(code))
    commands = set(COMMAND_ROW.findall(code))
    page = tree.read(root, 'man/ringpipe.1')
    tagged = set(re.findall(r'^\.It .*Fl -([a-z-]+)', page, re.M)) - {'version'}
    complaints = [] if options and commands else [f'{TOOL}: no options or commands found']
    complaints += compare('--', tagged, 'man/ringpipe.1', options, TOOL)
    complaints += compare('command', set(re.findall(r'^\.It Cm ([\w ]+)$', page, re.M)),
                          'man/ringpipe.1', commands, TOOL)
    synopsis = page.partition('.Sh SYNOPSIS')[2].partition('.Sh ')[0]
    complaints += compare('command', set(re.findall(r'^\.Cm ([\w ]+)$', synopsis, re.M)),
                          "man/ringpipe.1's synopsis", commands, TOOL)
    return complaints


def check_environment(root):
    read = set()
    for path in tree.files(root, 'src'):
        if path.endswith('.c') and not path.startswith('src/tools/'):
            read.update(VARIABLE.findall(tree.without_comments(tree.read(root, path))))
    page = tree.read(root, 'man/libringpipe.7')
    reported = set(re.findall(r'\b((?:RINGPIPE|DOTNET)_\w+)', page))
    return compare('variable', reported, 'man/libringpipe.7', read, 'src')


def main():
    root = sys.argv[1]
    complaints = check_command(root) + check_environment(root) + check_functions(root)
    if not shutil.which('groff'):
        print('groff is missing: the pages were not formatted')
        tree.report(complaints)
    for page in tree.files(root, 'man'):
        if re.search(r'\.[1-8]$', page):
            complaints += check_groff(root, page)
    tree.report(complaints)


if __name__ == '__main__':
    main()
