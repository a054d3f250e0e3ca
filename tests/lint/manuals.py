#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares the manual pages with the sources.

usage: manuals.py ROOT

groff reads each page without a warning; ringpipe(1), its synopsis and the completion know every
command and option of src/tool and no other option; libringpipe(7) names the environment variables
that the library reads and no other.
"""
import re
import shutil
import subprocess
import sys

import tree

OPTION_ROW = re.compile(r"\{\s*RP_OPTION_\w+,\s*(?:0|'.'),\s*\"([\w-]+)\"")
COMMAND_ROW = re.compile(r'\.name = "(\w+)"')
# The magic of the diagnostics protocol looks like a variable.
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


def check_command(root):
    code = ''.join(tree.without_comments(tree.read(root, path))
                   for path in tree.files(root, 'src/tool') if path.endswith('.c'))
    options = set(OPTION_ROW.findall(code))
    commands = set(COMMAND_ROW.findall(code))
    page = tree.read(root, 'man/ringpipe.1')
    completion = tree.read(root, 'man/ringpipe.bash')
    tagged = set(re.findall(r'^\.It .*Fl -([a-z-]+)', page, re.M)) - {'version'}
    complaints = [] if options and commands else ['src/tool: no options or commands found']
    complaints += compare('--', tagged, 'man/ringpipe.1', options, 'src/tool')
    complaints += compare('command', set(re.findall(r'^\.It Cm (\w+)', page, re.M)),
                          'man/ringpipe.1', commands, 'src/tool')
    synopsis = page.partition('.Sh SYNOPSIS')[2].partition('.Sh ')[0]
    complaints += compare('command', set(re.findall(r'^\.Cm (\w+)', synopsis, re.M)),
                          "man/ringpipe.1's synopsis", commands, 'src/tool')
    offered = set(re.findall(r'--([a-z][a-z-]*)', completion)) - {'version'}
    complaints += compare('--', offered, 'man/ringpipe.bash', options, 'src/tool')
    cases = set(re.findall(r'^\t(\w+)\)', completion, re.M))
    return complaints + compare('command', cases, 'man/ringpipe.bash', commands, 'src/tool')


def check_environment(root):
    read = set()
    for path in tree.files(root, 'src'):
        if path.endswith('.c') and not path.startswith('src/tool/'):
            read.update(VARIABLE.findall(tree.without_comments(tree.read(root, path))))
    page = tree.read(root, 'man/libringpipe.7')
    told = set(re.findall(r'\b((?:RINGPIPE|DOTNET)_\w+)', page))
    return compare('variable', told, 'man/libringpipe.7', read, 'src')


def main():
    root = sys.argv[1]
    complaints = check_command(root) + check_environment(root)
    if not shutil.which('groff'):
        print('groff is missing: the pages were not formatted')
        tree.report(complaints)
    for page in tree.files(root, 'man'):
        if re.search(r'\.[1-8]$', page):
            complaints += check_groff(root, page)
    tree.report(complaints)


if __name__ == '__main__':
    main()
