#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Prints what has to be built for some tests, for the option --ninja-args of `meson compile`.

usage: scripts/testtargets.py BUILD [--suite SUITE]… [--no-suite SUITE]…

The options select tests as those of `meson test` do.
"""
import argparse
import json
import os
import subprocess


def introspect(build, what):
    done = subprocess.run(['meson', 'introspect', build, '--' + what], stdout=subprocess.PIPE,
                          check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build')
    parser.add_argument('--suite', action='append', default=[])
    parser.add_argument('--no-suite', action='append', default=[])
    arguments = parser.parse_args()
    wanted, unwanted = set(arguments.suite), set(arguments.no_suite)
    needed = set()
    for test in introspect(arguments.build, 'tests'):
        suites = {suite.split(':')[-1] for suite in test['suite']}
        if (not wanted or suites & wanted) and not suites & unwanted:
            needed.update(test['depends'])
    root = os.path.realpath(arguments.build)
    print(','.join(os.path.relpath(file, root)
                   for target in introspect(arguments.build, 'targets') if target['id'] in needed
                   for file in target['filename']))


main()
