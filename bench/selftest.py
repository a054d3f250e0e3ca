#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the tools of the benchmarks, without measuring time."""

import contextlib
import importlib
import io
import json
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

import disassembly
import exact
import measure
import page
import record_cost
import report
import run
import servers

REFERENCE = {'steps': {'any machine': {'calls': 0}, 'gcc 12.2.0': {'instructions': 2}},
             'file': {'any machine': {'bytes': 33}}}


def compare(**found):
    """Return (whether all matched, figures compared, printed text)."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        same, compared = exact.compare(found, REFERENCE)
    return same, compared, output.getvalue()


class Gate(unittest.TestCase):
    def test_figure_equal_to_the_reference_passes(self):
        self.assertEqual(compare(**REFERENCE)[:2], (True, 3))

    def test_worse_figure_fails_and_both_are_printed(self):
        same, _, output = compare(steps={'gcc 12.2.0': {'instructions': 3}})
        self.assertFalse(same)
        self.assertIn('WORSE   gcc 12.2.0: instructions: 3, reference is 2', output)

    def test_better_figure_fails_until_it_is_accepted(self):
        same, _, output = compare(steps={'gcc 12.2.0': {'instructions': 1}})
        self.assertFalse(same)
        self.assertIn('BETTER', output)

    def test_figure_without_a_reference_fails(self):
        self.assertFalse(compare(steps={'any machine': {'calls': 0, 'allocations': 0}})[0])

    def test_missing_figure_fails(self):
        same, _, output = compare(steps={'gcc 12.2.0': {}})
        self.assertFalse(same)
        self.assertIn('GONE    gcc 12.2.0: instructions: not found any more, reference is 2',
                      output)

    def test_unavailable_figure_is_skipped(self):
        self.assertEqual(compare(steps={'gcc 12.2.0': {'instructions': None}})[:2], (True, 0))

    def test_figures_of_other_parts_are_not_required(self):
        self.assertEqual(compare(file={'any machine': {'bytes': 33}})[:2], (True, 1))

    def test_unknown_compiler_is_skipped_with_the_reason(self):
        same, compared, output = compare(steps={'gcc 99': {'instructions': 9}})
        self.assertEqual((same, compared), (True, 0))
        self.assertIn('skipped: no reference for gcc 99', output)

    def test_every_way_has_recorded_values(self):
        """A way without an accepted figure is reported only by the test that runs it."""
        with open(exact.REFERENCE, encoding='utf-8') as opened:
            reference = json.load(opened)['steps']
        with open(os.path.join(exact.HERE, 'exact_ways.c'), encoding='utf-8') as opened:
            ways = re.findall(r'\tWAY\("([^"]+)"', opened.read())
        self.assertGreater(len(ways), 30)
        for key, figures in reference.items():
            for way in ways if 'library' in key else ():
                if way != 'nothing':
                    self.assertIn(f'{way}: instructions', figures, key)


class Disassembly(unittest.TestCase):
    TEXT = ('0000 <f>:\n'
            '   0:\tf3 0f 1e fa          \tendbr64\n'
            '   4:\t48 83 3d 00 00 00 00 00 \tcmpq   $0x0,0x0(%rip)\n'
            '   c:\t75 02                \tjne    10 <f+0x10>\n'
            '   e:\tc3                   \tret\n'
            '   f:\t90                   \tnop\n'
            '\n'
            '0020 <f.cold>:\n'
            '  20:\te8 00 00 00 00       \tcall   25 <g>\n')

    def test_straight_path_ends_with_the_first_return(self):
        self.assertEqual(disassembly.straight(disassembly.instructions(self.TEXT, 'f')), (3, 11))

    def test_whole_function_includes_its_cold_part_and_no_padding(self):
        self.assertEqual(disassembly.whole(disassembly.instructions(self.TEXT, 'f')), 16)

    def test_word_of_the_gate_is_one_place_in_memory(self):
        self.assertEqual(disassembly.lines_of_data(disassembly.instructions(self.TEXT, 'f')), 1)

    def test_function_that_is_not_there_is_no_zero(self):
        self.assertRaises(ValueError, disassembly.instructions, self.TEXT, 'g')


class File(unittest.TestCase):
    # Metadata id 1, capture thread 300, thread 7, a time of two bytes, three bytes of payload; then
    # another event that repeats everything except the time.
    BLOCK = (b'\x14\0\0\0' + bytes(16) + b'\x87\1\0\xac\2\0\7\x80\1\3abc' + b'\0\5def')
    NAME = b'\5\5\1\2\0\0\0\2\0\0\0\x0a\0\0\0EventBlock\6'

    def test_times_and_threads_of_events_are_a_byte_each(self):
        self.assertEqual(exact.chance_bytes(self.BLOCK), (2, 2))

    def test_all_else_of_a_file_counts_but_for_what_aligns_it(self):
        size = len(self.BLOCK).to_bytes(4, 'little')
        for head in range(4):
            start = bytes(head) + self.NAME + size
            data = start + bytes(-len(start) % 4) + self.BLOCK + b'end'
            self.assertEqual(exact.file_size(data), (2, len(start) + len(self.BLOCK) + 3 - 2))


class Rounds(unittest.TestCase):
    def setUp(self):
        self.found = measure.Figures()
        for line in ('a\t4,2,6,8\tns', 'b\t2,2,2,2\tns', 'lost\t0\tevents', 'c\t10:5\tns',
                     'c\t20:10\tns'):
            self.found.add(line)

    def test_best_and_median_are_those_of_the_rounds(self):
        self.assertEqual(self.found['a, best'], (2, 'ns'))
        self.assertEqual(self.found['a, median'], (5, 'ns'))

    def test_ratio_is_that_of_the_best_with_quartiles_of_the_pairs(self):
        value, (low, middle, high) = self.found.ratio('a', 'b')
        self.assertEqual((value, middle), (1, 2.5))
        self.assertTrue(1 <= low < middle < high <= 4)

    def test_one_figure_is_no_round(self):
        self.assertEqual(self.found['lost'], (0, 'events'))
        self.assertNotIn('lost', self.found.rounds)

    def test_points_make_a_curve(self):
        self.assertEqual(self.found.curves, {'c': [(10, 5), (20, 10)]})

    def test_growth_is_reported_from_the_curve(self):
        self.assertEqual(measure.growth([(1, 3), (10, 30), (100, 300)]), 'linear, x^1.00')
        self.assertEqual(measure.growth([(1, 3), (10, 3.1), (100, 2.9)]), 'constant')
        self.assertEqual(measure.growth([(1, 1), (10, 100), (100, 10000)]), 'x^2.00')

    def test_missed_target_is_reported(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            measure.begin('x')
            self.assertFalse(measure.ratio(self.found, 'a', 'b', limit=0.5))
            self.assertTrue(measure.ratio(self.found, 'a', 'b', limit=1))
        self.assertIn('MISSED', output.getvalue())


class Report(unittest.TestCase):
    ABOUT = {'processor': 'P', 'cpus': 2, 'memory GiB': 4, 'versions': {}}

    @staticmethod
    def suite(name, value):
        suite = measure.Suite(name)
        suite.rows = [{'name': 'figure', 'value': value, 'unit': 'ns', 'target': '', 'verdict': '',
                       'spread': [], 'growth': ''}]
        return suite

    def test_run_of_one_suite_preserves_the_results_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            for suite in (self.suite('two', 2.0), self.suite('one', 1.0),
                          self.suite('two', 'not here')):
                report.write(folder, self.ABOUT, suite, ('one', 'two'))
            with open(os.path.join(folder, 'results.md'), encoding='utf-8') as file:
                page = file.read()
        self.assertIn('| figure | 1.00 | ns |', page)
        self.assertIn('| figure | not here | ns |', page)
        self.assertNotIn('2.00', page)

    def test_processors_of_one_name_are_reported_apart_by_their_family(self):
        cpuinfo = 'processor\t: 0\ncpu family\t: {}\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\n'
        self.assertEqual(report.processor(cpuinfo.format(25).splitlines()),
                         'AMD EPYC (family 25)')
        self.assertEqual(report.processor(cpuinfo.format(26).splitlines()),
                         'AMD EPYC (family 26)')
        self.assertEqual(report.processor(['model name\t: Cortex-A72']), 'Cortex-A72')
        self.assertEqual(report.processor([]), 'unknown processor')

    def test_kind_of_machine_is_the_name_of_a_folder(self):
        self.assertEqual(report.kind({'processor': 'AMD EPYC (9R14)', 'cpus': 2}),
                         'amd-epyc-9r14-2-cpus')


def one_figure(_build):
    return measure.row('figure', 1.0, 'ns')


def missed_target(_build):
    return measure.row('figure', 2.0, 'ns', '<= 1', False)


def broken(_build):
    raise RuntimeError('no such\ndaemon')


def interrupted(_build):
    raise KeyboardInterrupt


class Runner(unittest.TestCase):
    @staticmethod
    def run_suites(**suites):
        """Return (exit status, names of the suites that were written, the page)."""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict(run.SUITES, suites, clear=True), \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            status = run.main(['--output', folder, 'no-build'])
            written = list(report.read(os.path.join(folder, 'results.md')))
            with open(os.path.join(folder, 'results.md'), encoding='utf-8') as file:
                return status, written, file.read()

    def test_all_is_well_where_every_target_is_reached(self):
        self.assertEqual(self.run_suites(one=one_figure, two=one_figure)[:2], (0, ['one', 'two']))

    def test_missed_target_is_in_the_first_table_and_the_status(self):
        status, _, page = self.run_suites(one=one_figure, two=missed_target)
        self.assertEqual(status, 1)
        first = page.split('## ')[1]
        self.assertIn('| figure | 2.00 | ns |  | <= 1 | MISSED |', first)
        self.assertNotIn('1.00', first)

    def test_suite_that_breaks_off_says_so_and_others_go_on(self):
        status, written, page = self.run_suites(one=broken, two=one_figure)
        self.assertEqual((status, written), (1, ['one', 'two']))
        self.assertIn('| the suite failed | no such daemon |', page)

    def test_what_ended_before_an_interruption_is_written(self):
        status, written, _ = self.run_suites(one=one_figure, two=interrupted, three=one_figure)
        self.assertEqual((status, written), (130, ['one']))

    def test_help_names_every_suite(self):
        script = os.path.join(os.path.dirname(run.__file__), '..', 'scripts', 'bench')
        with open(script, encoding='utf-8') as file:
            words = file.read().split('Suites:')[1].split('\n\n')[0].split()
        self.assertEqual(words, list(run.SUITES))


class Counters(unittest.TestCase):
    # The format of `perf stat -x,`; the second run, without the event, counts less.
    PERF = ('#!/bin/sh\n'
            'for word; do last=$kind kind=$word; done\n'
            '[ "$last" = with ] && count=30000000 || count=10000000\n'
            'echo "$count,,instructions:u,1,100.00,," >&2\n'
            'echo "<not supported>,,cycles:u,0,100.00,," >&2\n')

    def test_processor_counts_are_of_one_call_and_those_it_lacks_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'perf')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(self.PERF)
            os.chmod(path, 0o755)
            with mock.patch.dict(os.environ, PATH=f'{folder}:{os.environ["PATH"]}'):
                self.assertEqual(run.processor_counts('program'), {'instructions': 2})


class RecordCost(unittest.TestCase):
    def test_quantiles_are_those_of_students_distribution(self):
        for freedom, expected in ((5, 2.015), (9, 1.833), (29, 1.699)):
            self.assertAlmostEqual(record_cost.student(0.95, freedom), expected, places=2)

    def test_upper_bound_is_above_the_mean_by_the_error_of_the_mean(self):
        self.assertAlmostEqual(record_cost.upper_bound([1, 3] * 15), 2 + 1.699 * 1.017 / 30**0.5,
                               places=2)
        self.assertEqual(record_cost.upper_bound([4]), 4)

    def test_processes_that_began_in_a_window_count_from_their_start(self):
        self.assertEqual(record_cost.cpu_between({1: 10, 2: 5}, {1: 15, 3: 7}), 12)

    def test_only_the_calmest_rounds_are_taken(self):
        rounds = iter([(0.5, 'a'), (0.05, 'b'), (0.2, 'c'), (0.3, 'd')])
        way = record_cost.Way('w')
        with mock.patch.object(record_cost, 'run_round',
                               lambda *_: next((other, {way: name}) for other, name in rounds)):
            self.assertEqual(record_cost.run_pairs('', mock.MagicMock(), [way], 2, 1), 0.2)
        self.assertEqual(way.windows, ['b', 'c'])

    def test_memory_of_this_process_is_that_of_its_mappings(self):
        with open('/proc/self/smaps_rollup', encoding='ascii') as file:
            whole = int(re.search(r'^Pss: +(\d+)', file.read(), re.M).group(1)) << 10
        self.assertLess(abs(record_cost.mappings_bytes(os.getpid()) / whole - 1), 0.1)


class ServerCost(unittest.TestCase):
    INTEGRATIONS = os.path.join(servers.HERE, os.pardir, 'integrations')

    def test_each_module_is_measured_with_the_same_limits(self):
        found = {name for name in os.listdir(self.INTEGRATIONS)
                 if os.path.exists(os.path.join(self.INTEGRATIONS, name, f'{name}_bench.py'))}
        self.assertEqual(set(servers.SERVERS), found)
        for name in servers.SERVERS:
            with self.subTest(server=name):
                sys.path.insert(0, os.path.join(self.INTEGRATIONS, name))
                server = importlib.import_module(f'{name}_bench')
                for function in ('why_not', 'prepare', 'Load', 'instructions'):
                    self.assertTrue(callable(getattr(server, function)), function)
                self.assertTrue(server.UNIT and server.UNITS)
                limits = {way: limit for way, (_, _, limit) in server.WAYS.items()}
                self.assertEqual(limits, {'off': 0.5, 'request spans': 2, 'everything': 5})

    def decide(self, noise, own_ns, instructions):
        """Return whether a module that is off reaches its target by time, and by instructions."""
        base, off = (servers.ServerWay(name, None, limit=0.5) for name in ('base', 'off'))
        base.windows = [mock.Mock(server_ns=1000)] * 3
        off.windows = [mock.Mock(server_ns=own_ns)] * 3
        base.instructions = lambda *_: 1000
        off.instructions = lambda *_: instructions
        with contextlib.redirect_stdout(io.StringIO()):
            return (servers.add_time_rows('s', off, base, noise),
                    servers.add_instruction_rows('', '', 's', base, [off], noise))

    def test_a_module_that_is_off_is_judged_by_instructions_where_time_is_noisy(self):
        self.assertEqual(self.decide(0.1, 1004, 2000), (True, True))
        self.assertEqual(self.decide(0.1, 1006, 1000), (False, True))
        self.assertEqual(self.decide(0.3, 2000, 1004), (True, True))
        self.assertEqual(self.decide(0.3, 1000, 1006), (True, False))

    def test_other_programs_add_no_instructions_to_a_server(self):
        server = mock.Mock()
        with mock.patch.object(servers.callgrind.shutil, 'which', lambda name: name):
            servers.callgrind.server_instructions(server, lambda: None)
        environment = server.start.call_args.args[2]
        self.assertEqual({name: environment.get(name) for name in servers.callgrind.ALONE},
                         {'RINGPIPE_DIAGNOSTICS': '0', 'RINGPIPE_LTTNG': '0'})

    def test_a_server_that_cannot_be_prepared_is_a_row(self):
        server = mock.Mock()
        server.why_not.return_value = None
        server.prepare.side_effect = servers.drive.Failure('no source')
        with mock.patch.object(servers.importlib, 'import_module', lambda _: server), \
                mock.patch.dict(os.environ), mock.patch.object(sys, 'path', []), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertTrue(servers.measure_server('', 'some', 1, 0))
        self.assertIn('no source', output.getvalue())


class Page(unittest.TestCase):
    ROOT = os.path.join(os.path.dirname(os.path.abspath(run.__file__)), '..')
    PAGE = 'x\n<!-- figures of results/kind, by scripts/bench -->\n<!-- end -->\ny\n'

    def test_figures_of_the_pages_are_those_of_the_results(self):
        for name in ('README.md', 'doc/performance.md'):
            with open(os.path.join(self.ROOT, name), encoding='utf-8') as file:
                text = file.read()
            folders = [match.group(3) for match in page.MARKED.finditer(text)]
            self.assertTrue(folders)
            for folder in folders:
                results = report.read(os.path.join(self.ROOT, folder, 'results.md'))
                self.assertNotIn('not taken', page.table(results))
                self.assertEqual(page.with_table(text, folder, results), text,
                                 'scripts/bench writes both')

    def test_table_of_another_machine_stays(self):
        results = {}
        self.assertEqual(page.with_table(self.PAGE, 'results/other', results), self.PAGE)
        self.assertIn('| 64 simultaneous threads on two CPUs | not taken ns | one: not taken ns |',
                      page.with_table(self.PAGE, 'results/kind', results))


if __name__ == '__main__':
    unittest.main()
