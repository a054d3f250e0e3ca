#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs the benchmarks of a build with a few rounds each, and parses and writes out their output.

usage: smoke.py BUILD [unittest's arguments]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import measure
import report
import servers

HERE = os.path.dirname(os.path.abspath(__file__))
SUITES = ['enabled', 'peers', 'sizes', 'many', 'latency', 'delivery', 'memory', 'counters',
          'lifecycle', 'recover', 'stacks', 'stall', 'listener', 'bytes', 'starts', 'reader',
          'inbox']
BUILD = sys.argv.pop(1)


class Case(unittest.TestCase):
    def check(self, *names, has_plots=True, **environment):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [os.path.join(HERE, 'run.py'), '--quick', '--output', folder,
                 '--plots', folder, BUILD, *names],
                env={**os.environ, 'RINGPIPE_LTTNG': '0', **environment},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stdout)
            suites = report.read(os.path.join(folder, 'results.md'))
            images = [name for name in os.listdir(folder) if name.endswith('.svg')]
            self.assertTrue(images or not has_plots or 'gnuplot is missing' in result.stdout)
            for image in images:
                self.assertTrue(os.path.getsize(os.path.join(folder, image)), image)
        self.assertEqual(sorted(suites), sorted(names))
        for name, suite in suites.items():
            with self.subTest(suite=name):
                values = [row['value'] for row in suite['rows']]
                self.assertTrue(any(re.search('[1-9]', value) for value in values))


class Smoke(Case):
    def test_each_suite_becomes_figures_a_table_and_plots(self):
        # A recorder of the machine would take one of the 40 sessions that some suites start.
        self.check(*SUITES, RINGPIPE_DIAGNOSTICS='0')

    def test_the_build_has_the_allocator_of_the_servers(self):
        self.assertTrue(os.path.exists(os.path.join(BUILD, servers.ALLOCATOR)))


class Recording(Case):
    """Alone: it opens sessions in all processes, and a process has a limited number of them."""

    def test_recording_becomes_figures_and_a_table(self):
        self.check('record', 'compress', has_plots=False)


class Servers(unittest.TestCase):
    def test_the_cost_of_a_module_in_a_server_becomes_rows(self):
        # Without the instructions: valgrind is slow.
        with mock.patch.object(measure, 'QUICK', True), \
                mock.patch.object(servers, 'add_instruction_rows', lambda *_: True):
            suite = measure.begin('servers')
            self.assertTrue(servers.suite_servers(BUILD, names=('postgresql',)))
        names = [row['name'] for row in suite.rows]
        if names[0] == 'the module in postgresql':
            self.skipTest(suite.rows[0]['value'])
        for way in ('off', 'request spans', 'everything', servers.PROBES):
            self.assertTrue([name for name in names if name.startswith(f'postgresql, {way}')], way)


if __name__ == '__main__':
    unittest.main()
