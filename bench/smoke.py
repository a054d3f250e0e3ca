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

import report

HERE = os.path.dirname(os.path.abspath(__file__))
SUITES = ['enabled', 'peers', 'sizes', 'many', 'latency', 'delivery', 'memory', 'counters',
          'lifecycle', 'record', 'recover', 'stacks', 'stall', 'listener', 'bytes', 'starts']
BUILD = sys.argv.pop(1)


class Smoke(unittest.TestCase):
    def test_each_suite_becomes_figures_a_table_and_plots(self):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [os.path.join(HERE, 'run.py'), '--quick', '--output', folder,
                 '--plots', folder, BUILD, *SUITES],
                env={**os.environ, 'RINGPIPE_LTTNG': '0'}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stdout)
            suites = report.read(os.path.join(folder, 'results.md'))
            images = [name for name in os.listdir(folder) if name.endswith('.svg')]
            self.assertTrue(images or 'gnuplot is missing' in result.stdout)
            for image in images:
                self.assertTrue(os.path.getsize(os.path.join(folder, image)), image)
        self.assertEqual(sorted(suites), sorted(SUITES))
        for name, suite in suites.items():
            with self.subTest(suite=name):
                values = [row['value'] for row in suite['rows']]
                self.assertTrue(any(re.search('[1-9]', value) for value in values))


if __name__ == '__main__':
    unittest.main()
