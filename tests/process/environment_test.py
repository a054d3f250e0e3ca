#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Sessions and settings from the environment, in a host that configures nothing itself."""
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

HOST = os.environ['HOST']


class Environment(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.sockets = os.path.join(self.directory, 'sockets')
        os.mkdir(self.sockets)

    def run_host(self, *arguments, **settings):
        """Returns the host's standard output as a dictionary, and its standard error."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(('RINGPIPE_', 'DOTNET_', 'COMPlus_'))}
        # The library would start a thread for an LTTng daemon on this machine.
        environment.update({'RINGPIPE_LTTNG': '0'}, **settings, TMPDIR=self.sockets)
        result = subprocess.run([HOST, *arguments], cwd=self.directory, env=environment, text=True,
                                capture_output=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = dict(line.split(' ', 1) for line in result.stdout.splitlines())
        self.assertEqual(os.listdir(self.sockets), [], 'a socket was left behind')
        return said, result.stderr

    def count(self, name):
        result = subprocess.run([HOST, 'count', os.path.join(self.directory, name)], text=True,
                                capture_output=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return tuple(map(int, result.stdout.split()))

    def count_stacks(self, name):
        return int(subprocess.run([HOST, 'stacks', os.path.join(self.directory, name)],
                                  capture_output=True, timeout=120, check=True).stdout)

    def files(self):
        return sorted(set(os.listdir(self.directory)) - {'sockets'})

    def expect_complaint(self, *words, **settings):
        said, errors = self.run_host(**settings)
        self.assertEqual(errors.count('\n'), 1, errors)
        self.assertTrue(errors.startswith('ringpipe: '), errors)
        for word in words:
            self.assertIn(word, errors)
        self.assertTrue(said['row'].startswith('- '), said)

    def test_nothing_set_is_no_session_and_one_thread_more(self):
        said, errors = self.run_host('socket')
        self.assertEqual(errors, '')
        self.assertEqual(said['row'], '- 0 0 -')
        self.assertEqual(said['threads'], '1')
        self.assertEqual(said['sockets'], '1')
        self.assertEqual(self.files(), [])

    def test_config_starts_a_session_with_all_events_from_the_first(self):
        said, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='trace')
        self.assertEqual(errors, '')
        self.assertEqual(said['row'], 'environment ffffffffffffffff 5 -')
        self.assertEqual(self.files(), ['trace'])
        self.assertEqual(self.count('trace'), (100, 0))

    def test_config_chooses_keywords_level_and_arguments(self):
        said, _ = self.run_host(RINGPIPE_CONFIG='Other,Test-Host:1:4:a=b', RINGPIPE_OUTPUT='trace')
        self.assertEqual(said['row'], 'environment 1 4 a=b')
        self.assertEqual(self.count('trace'), (50, 0))

    def test_pid_in_the_output_becomes_the_process_id(self):
        said, _ = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='t-{pid}.x')
        self.assertEqual(self.files(), [f't-{said["pid"]}.x'])
        self.assertEqual(self.count(f't-{said["pid"]}.x'), (100, 0))

    def test_writers_wait_rather_than_lose_where_that_is_asked_for(self):
        # The first wait would end only after a minute without space; the other, after two seconds.
        for name, settings in (('ours', {'RINGPIPE_CONFIG': 'Test-Host', 'RINGPIPE_BUFFER_MB': '1',
                                         'RINGPIPE_OUTPUT': 'ours', 'RINGPIPE_BLOCK_MS': '60000'}),
                               ('dotnet', {'DOTNET_EnableEventPipe': '1',
                                           'DOTNET_EventPipeConfig': 'Test-Host',
                                           'DOTNET_EventPipeOutputPath': 'dotnet',
                                           'DOTNET_EventPipeCircularMB': '1',
                                           'DOTNET_EventPipeBufferingMode': '1'})):
            with self.subTest(name):
                self.run_host('flood', **settings)
                events, lost = self.count(name)
                self.assertEqual(events + lost, 500100)
                if name == 'ours':
                    self.assertEqual(lost, 0)

    def test_a_recorder_has_an_output_only_where_one_is_named(self):
        settings = {'RINGPIPE_CONFIG': 'Test-Host', 'RINGPIPE_RECORDER': '1'}
        said, errors = self.run_host(**settings)
        self.assertEqual(errors, '')
        self.assertTrue(said['row'].startswith('environment '), said)
        self.assertEqual(self.files(), [])
        self.run_host(RINGPIPE_OUTPUT='trace', **settings)
        self.assertEqual(self.count('trace'), (100, 0))
        self.expect_complaint('flight recorder', 'Test-Host', RINGPIPE_BUFFER_MB='7', **settings)

    def test_signal_that_is_none_is_one_line(self):
        for name in ('USR9', 'SEGV', '0', '99', 'KILL'):
            _, errors = self.run_host(RINGPIPE_SNAPSHOT_SIGNAL=name)
            self.assertEqual(errors.count('\n'), 1, errors)
            self.assertIn(f'the signal "{name}"', errors)

    def test_a_switch_that_is_neither_is_one_line(self):
        for name in ('STACKS', 'COARSE', 'RECORDER', 'LTTNG', 'STATIC_KEYS', 'USER_EVENTS',
                     'DIAGNOSTICS'):
            for value, wrong in (('yes', 1), ('true', 1), ('2', 1), ('0', 0), ('', 0)):
                _, errors = self.run_host(**{f'RINGPIPE_{name}': value})
                self.assertEqual(errors.count('\n'), wrong, errors)
                if wrong:
                    self.assertIn(f'RINGPIPE_{name} is 0 or 1, not "{value}"', errors)

    def test_a_value_that_is_none_is_one_line_for_every_variable(self):
        # Any text is a path.
        wrong = {'OUTPUT': None, 'SNAPSHOTS': None, 'CONFIG': ':', 'BUFFER_MB': 'x', 'FORMAT': '5',
                 'ROLL_MB': '1', 'BLOCK_MS': 'x', 'TRIGGERS': 'x', 'SNAPSHOT_SIGNAL': 'x',
                 'RECOVER': '/proc', 'TRACERS_MS': 'x', 'PORTS': 'x,y', 'CLOCK': 'x'}
        manual = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../man/libringpipe.7')
        with open(manual, encoding='utf-8') as file:
            names = re.findall(r'^\.It Ev RINGPIPE_(\w+)$', file.read(), re.M)
        self.assertLess(set(wrong), set(names))
        for name in names:
            value = wrong.get(name, 'yes')  # of a switch
            if value is None:
                continue
            settings = {'RINGPIPE_CONFIG': 'Test-Host', 'RINGPIPE_OUTPUT': 'trace',
                        f'RINGPIPE_{name}': value}
            with self.subTest(settings=settings):
                _, errors = self.run_host(**settings)
                self.assertRegex(errors, r'^ringpipe: [^\n]+\n$')
                self.assertTrue(f'RINGPIPE_{name}' in errors or f'"{value}"' in errors, errors)

    def test_a_clock_that_is_named_is_taken_without_a_line(self):
        self.assertEqual(self.run_host(RINGPIPE_CLOCK='monotonic')[1], '')
        self.assertIn(self.run_host(RINGPIPE_CLOCK='tsc')[1].partition(', but ')[0],
                      ('', 'ringpipe: RINGPIPE_CLOCK is tsc'))

    def test_output_has_a_default(self):
        said, _ = self.run_host(RINGPIPE_CONFIG='*')
        self.assertEqual(self.files(), [f'trace-{said["pid"]}.nettrace'])

    def test_empty_settings_are_none(self):
        said, errors = self.run_host(RINGPIPE_CONFIG='', DOTNET_EnableEventPipe='')
        self.assertEqual((said['row'], errors), ('- 0 0 -', ''))
        self.assertEqual(self.files(), [])

    def test_dotnet_names_start_a_session_as_in_dotnet(self):
        said, errors = self.run_host(
            DOTNET_EnableEventPipe='1', DOTNET_EventPipeConfig='Test-Host:0x2:5',
            DOTNET_EventPipeOutputPath='dotnet-{pid}', DOTNET_EventPipeCircularMB='10')
        self.assertEqual(errors, '')
        self.assertEqual(said['row'], 'environment 2 5 -')
        self.assertEqual(self.count(f'dotnet-{said["pid"]}'), (50, 0))

    def test_the_runtimes_old_prefix_is_honoured(self):
        self.run_host(COMPlus_EnableEventPipe='1', COMPlus_EventPipeOutputPath='old',
                      DOTNET_EventPipeConfig='Test-Host')
        self.assertEqual(self.count('old'), (100, 0))

    def test_stacks_are_captured_when_asked_for(self):
        for settings, stacks in (({}, 0), ({'RINGPIPE_STACKS': '1'}, 100)):
            self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='ours', **settings)
            self.assertEqual(self.count_stacks('ours'), stacks)
            # At least the first stack of a process is taken before any rule is cached.
            with open(os.path.join(self.directory, 'ours'), 'rb') as file:
                self.assertEqual('StacksCut'.encode('utf-16-le') in file.read(),
                                 bool(stacks) and os.uname().machine == 'x86_64')
        self.run_host(DOTNET_EnableEventPipe='1', DOTNET_EventPipeConfig='Test-Host',
                      DOTNET_EventPipeEnableStackwalk='1')
        self.assertEqual(self.count_stacks('trace.nettrace'), 100)

    def test_a_provider_that_matches_nothing_is_an_event_in_the_stream(self):
        name, existing = ('ProviderMissing'.encode('utf-16-le'),
                          'Test-Host'.encode('utf-16-le'))
        for settings, missing in (({'RINGPIPE_CONFIG': 'Test-Host,Test-Hoast'}, ['Test-Hoast']),
                                  ({'RINGPIPE_CONFIG': '*'}, []),
                                  ({'RINGPIPE_CONFIG': 'Test-Host,ringpipe'}, []),
                                  ({'DOTNET_EnableEventPipe': '1',
                                    'DOTNET_EventPipeConfig': 'Test-Hoast'}, [])):
            with self.subTest(settings):
                _, errors = self.run_host(RINGPIPE_OUTPUT='trace',
                                          DOTNET_EventPipeOutputPath='trace', **settings)
                self.assertEqual(errors, '')
                with open(os.path.join(self.directory, 'trace'), 'rb') as file:
                    trace = file.read()
                self.assertEqual(name in trace, bool(missing))
                for each in missing:
                    self.assertIn(each.encode('utf-16-le') + b'\0\0', trace)
                    self.assertIn(existing, trace)
                os.unlink(os.path.join(self.directory, 'trace'))

    def test_a_provider_that_matches_nothing_is_a_line_on_a_terminal(self):
        for recorder in ('0', '1'):
            master, slave = pty.openpty()
            self.addCleanup(os.close, master)
            environment = dict(os.environ, TMPDIR=self.sockets, RINGPIPE_LTTNG='0',
                               RINGPIPE_RECORDER=recorder,
                               RINGPIPE_CONFIG='Test-Host,Test-Hoast', RINGPIPE_OUTPUT='trace')
            with subprocess.Popen([HOST], cwd=self.directory, env=environment, stderr=slave,
                                  stdout=subprocess.DEVNULL) as host:
                os.close(slave)
                self.assertEqual(host.wait(120), 0)
            said = os.read(master, 4096).decode()
            self.assertRegex(said, r'^ringpipe: this process has no provider "Test-Hoast"; '
                                   r'it has [^\n]*Test-Host[^\n]*\r\n$')

    def test_coarse_times_are_reported_when_asked_for(self):
        for settings, reported in (({}, False), ({'RINGPIPE_COARSE': '1'}, True)):
            self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='ours', **settings)
            with open(os.path.join(self.directory, 'ours'), 'rb') as file:
                self.assertEqual('CoarseTime'.encode('utf-16-le') in file.read(), reported)
        self.assertEqual(self.count('ours'), (100, 0))
        self.expect_complaint('trace-', 'Invalid argument', RINGPIPE_CONFIG='Test-Host',
                              RINGPIPE_COARSE='1', RINGPIPE_RECOVER='1')

    def test_dotnet_names_have_dotnets_default_output(self):
        self.run_host(DOTNET_EnableEventPipe='1', DOTNET_EventPipeConfig='Test-Host')
        self.assertEqual(self.count('trace.nettrace'), (100, 0))

    def test_dotnet_config_alone_or_switched_off_starts_nothing(self):
        for value in (None, '0'):
            settings = {'DOTNET_EventPipeConfig': 'Test-Host'}
            if value:
                settings['DOTNET_EnableEventPipe'] = value
            said, errors = self.run_host(**settings)
            self.assertEqual((said['row'], errors), ('- 0 0 -', ''))
        self.assertEqual(self.files(), [])

    def test_own_names_go_before_dotnets(self):
        self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='ours',
                      DOTNET_EnableEventPipe='1', DOTNET_EventPipeOutputPath='theirs')
        self.assertEqual(self.files(), ['ours'])

    def test_wrong_provider_list_is_one_line_that_says_where(self):
        self.expect_complaint('":wrong"', RINGPIPE_CONFIG='Test-Host,:wrong')
        self.expect_complaint('"9:x"', RINGPIPE_CONFIG='Test-Host:1:9:x')
        self.expect_complaint('a name has up to 255 bytes', f'"{300 * "n"}:1"',
                              RINGPIPE_CONFIG=f'Test-Host,{300 * "n"}:1')
        self.expect_complaint('"zz"', DOTNET_EnableEventPipe='1',
                              DOTNET_EventPipeConfig='Test-Host:zz')
        self.assertEqual(self.files(), [])

    def test_output_that_cannot_be_opened_is_one_line_with_the_path(self):
        self.expect_complaint('missing/trace', 'No such file', RINGPIPE_CONFIG='*',
                              RINGPIPE_OUTPUT='missing/trace')
        self.expect_complaint(self.directory, RINGPIPE_CONFIG='*', RINGPIPE_OUTPUT=self.directory)

    def test_output_that_fills_up_is_one_line_at_the_end(self):
        said, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='/dev/full')
        self.assertEqual(errors.count('\n'), 1, errors)
        self.assertIn('No space left', errors)
        self.assertEqual(said['pid'].isdigit(), True)

    def test_wrong_buffer_size_is_one_line_with_the_value(self):
        for value in ('abc', '12x', '-1', '0', ' ', '1.5', '0x10', '99999999999999999999',
                      '17592186044416'):
            self.expect_complaint(f'"{value}"', RINGPIPE_CONFIG='*', RINGPIPE_OUTPUT='trace',
                                  RINGPIPE_BUFFER_MB=value)
            self.assertEqual(self.files(), [], value)
        self.expect_complaint('"xyz"', DOTNET_EnableEventPipe='1', DOTNET_EventPipeCircularMB='xyz')

    @unittest.skipIf(os.access('/sys/kernel/tracing/user_events_data', os.W_OK) or
                     os.access('/sys/kernel/debug/tracing/user_events_data', os.W_OK),
                     'this kernel takes events of programs')
    def test_kernel_that_takes_no_events_is_one_line(self):
        self.expect_complaint('user_events', RINGPIPE_USER_EVENTS='1')
        self.assertEqual(self.run_host(RINGPIPE_USER_EVENTS='0')[1], '')

    def test_buffer_size_is_taken(self):
        _, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='trace',
                                  RINGPIPE_BUFFER_MB='1')
        self.assertEqual(errors, '')
        self.assertEqual(self.count('trace'), (100, 0))

    def test_output_rolls_where_that_is_asked_for(self):
        for number in ('000001', '000002'):
            _, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_OUTPUT='trace.nettrace',
                                      RINGPIPE_ROLL_MB='8')
            self.assertEqual(errors, '')
            self.assertEqual(self.count(f'trace.{number}.nettrace'), (100, 0))
        self.assertEqual(self.files(), ['trace.000001.nettrace', 'trace.000002.nettrace'])

    def test_format_is_the_version_of_output_snapshots_and_rolling_files(self):
        for version, head in (('4', b'Nettrace\x14\0\0\0'), ('6', b'Nettrace\0\0\0\0\6\0\0\0')):
            for settings, name in (({'RINGPIPE_OUTPUT': 'trace'}, 'trace'),
                                   ({'RINGPIPE_OUTPUT': 'roll.nettrace', 'RINGPIPE_ROLL_MB': '8'},
                                    'roll.000001.nettrace'),
                                   ({'RINGPIPE_OUTPUT': 'flight', 'RINGPIPE_RECORDER': '1'},
                                    'flight')):
                with self.subTest(version=version, name=name):
                    _, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_FORMAT=version,
                                              **settings)
                    self.assertEqual(errors, '')
                    with open(os.path.join(self.directory, name), 'rb') as trace:
                        self.assertEqual(trace.read(len(head)), head)
                    self.assertEqual(self.count(name), (100, 0))
                    os.unlink(os.path.join(self.directory, name))

    def test_format_that_does_not_exist_is_one_line(self):
        for value in ('5', '0', '66', 'x'):
            self.expect_complaint(f'"{value}"', 'RINGPIPE_FORMAT', RINGPIPE_CONFIG='*',
                                  RINGPIPE_OUTPUT='trace', RINGPIPE_FORMAT=value)
        self.assertEqual(self.files(), [])

    def test_trigger_takes_a_snapshot_of_the_recorder(self):
        said, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_RECORDER='1',
                                     RINGPIPE_TRIGGERS='Test-Host:plain,Other:load>5')
        self.assertEqual(errors, '')
        name = f'snapshot-{said["pid"]}.000001.nettrace'
        self.assertIn(name, self.files())
        events, lost = self.count(name)
        self.assertGreaterEqual(events, 1)
        self.assertEqual(lost, 0)

    def test_snapshots_go_where_they_are_reported_to(self):
        for number in ('000001', '000002'):
            self.run_host(RINGPIPE_CONFIG='Test-Host', RINGPIPE_RECORDER='1',
                          RINGPIPE_TRIGGERS='Test-Host:*:Informational', RINGPIPE_SNAPSHOTS='s.x')
            self.assertIn(f's.{number}.x', self.files())

    def test_triggers_that_cannot_be_watched_are_one_line(self):
        for settings in ({'RINGPIPE_RECORDER': '1', 'RINGPIPE_TRIGGERS': 'nonsense'},
                         {'RINGPIPE_RECORDER': '0', 'RINGPIPE_TRIGGERS': 'Test-Host:plain',
                          'RINGPIPE_OUTPUT': '/dev/null'},
                         {'RINGPIPE_RECORDER': '1', 'RINGPIPE_TRIGGERS': 'Test-Host:plain',
                          'RINGPIPE_SNAPSHOTS': 'missing/s.x'}):
            said, errors = self.run_host(RINGPIPE_CONFIG='Test-Host', **settings)
            self.assertEqual(errors.count('\n'), 1, errors)
            self.assertIn(settings['RINGPIPE_TRIGGERS'], errors)
            self.assertTrue(said['row'].startswith('environment '), said)
        self.assertEqual(self.files(), [])

    def test_quota_that_cannot_be_is_one_line(self):
        for value in ('0', '-8', 'x', '8x', '18446744073709551615'):
            self.expect_complaint(f'"{value}"', 'rolling', RINGPIPE_CONFIG='*',
                                  RINGPIPE_OUTPUT='trace', RINGPIPE_ROLL_MB=value)
        self.expect_complaint('Invalid argument', RINGPIPE_CONFIG='*', RINGPIPE_OUTPUT='trace',
                              RINGPIPE_ROLL_MB='7')
        self.assertEqual(self.files(), [])

    def test_diagnostics_can_be_switched_off(self):
        for name in ('RINGPIPE_DIAGNOSTICS', 'DOTNET_EnableDiagnostics',
                     'DOTNET_EnableDiagnostics_IPC'):
            said, errors = self.run_host(**{name: '0'})
            self.assertEqual(errors, '')
            self.assertEqual(said['threads'], '0', name)
            self.assertEqual(said['sockets'], '0', name)
            said, _ = self.run_host('socket', **{name: '1'})
            self.assertEqual((said['threads'], said['sockets']), ('1', '1'), name)

    def test_session_runs_without_diagnostics(self):
        said, _ = self.run_host(RINGPIPE_DIAGNOSTICS='0', RINGPIPE_CONFIG='Test-Host',
                                RINGPIPE_OUTPUT='trace')
        self.assertEqual((said['threads'], said['sockets']), ('1', '0'))
        self.assertEqual(self.count('trace'), (100, 0))


if __name__ == '__main__':
    unittest.main(argv=sys.argv)
