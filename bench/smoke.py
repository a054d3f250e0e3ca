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
        return suites


class Smoke(Case):
    def test_each_suite_becomes_figures_a_table_and_plots(self):
        # A recorder of the machine would take one of the 40 sessions that some suites start.
        self.check(*SUITES, RINGPIPE_DIAGNOSTICS='0')


class Servers(Case):
    """Each server that this machine has gets all of its rows."""

    ROWS = ('CPU time of a request, without the module',
            'without the module, again, upper bound',
            'without the module, again, mean of 1 pairs',
            'off, upper bound', 'off, mean of 1 pairs',
            'request spans, upper bound', 'request spans, mean of 1 pairs',
            'request spans, and the process that records', 'request spans, lost',
            'everything, upper bound', 'everything, mean of 1 pairs',
            'everything, and the process that records', 'everything, lost',
            'requests a second, without the module', 'used by other programs, at most')
    COUNTED = ('instructions of a request, without the module', 'off, by instructions',
               'off, more instructions')
    # redis has no hook that costs nothing, so its rows compare with an empty module, too.
    EMPTY = {'redis': ('an empty module, by instructions', 'an empty module, more instructions')}
    # Only where the same server twice differs by more than servers.NOISE.
    NOISY = {'redis': {f'redis, {way}, {row}' for way in ('request spans', 'everything')
                       for row in ('by instructions without rseq', 'more instructions')}}

    def test_each_server_has_a_row_for_each_cost(self):
        suites = self.check('servers', has_plots=False)
        rows = {row['name']: row['value'] for row in suites['servers']['rows']}
        for name in servers.SERVERS:
            with self.subTest(server=name):
                reason = rows.pop(f'the module in {name}', None)
                if reason:
                    self.assertTrue('no ' in reason or 'cannot' in reason, reason)
                    print(f'# {name}: {reason}')
                    continue
                unit = {'redis': 'command', 'postgresql': 'transaction'}.get(name, 'request')
                expected = {f'{name}, {row}'.replace('a request', f'a {unit}').replace(
                    'requests a', f'{unit}s a') for row in self.ROWS}
                if rows.pop(f'{name}, instructions of a request', None) != 'cannot run':
                    counted = self.COUNTED + self.EMPTY.get(name, ())
                    expected |= {f'{name}, {row}' for row in counted}
                found = {row for row in rows if row.startswith(name + ', ')}
                self.assertEqual(found - self.NOISY.get(name, set()), expected)
                self.assertRegex(rows[f'{name}, CPU time of a {unit}, without the module'], '[1-9]')


class Recording(Case):
    """Alone: it opens sessions in all processes, and a process has a limited number of them."""

    def test_recording_becomes_figures_and_a_table(self):
        self.check('record', 'compress', has_plots=False)


if __name__ == '__main__':
    unittest.main()
