#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""LTTng records exactly what the process wrote: real daemons, with traces read by babeltrace2."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from lttng_daemon import Daemon, PATIENCE, user
from lttng_host import Host, LttngTest, ours
from lttng_trace import bt2, read

HOST = os.environ['HOST']
PLUGIN = os.environ['PLUGIN']
SHIM = os.environ['SHIM']
SANITIZERS = os.environ['SANITIZERS']
NO_FORK = "a child may wait for ASan's allocator, if a thread of LTTng-UST's had it at the fork"
MODULE = os.environ['MODULE']
LIBRARY = os.environ['LIBRARY']
TOOL = os.environ['RINGPIPE']
HELLO = os.environ['HELLO']
LISTENER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lttng_listener.py')
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class TypesTest(LttngTest):
    def test_every_type_reads_back_equal_from_the_first_event_on(self):
        path = self.session()
        self.enable('Lttng-Host:*')
        self.start()
        host = self.host()
        written = [json.loads(line) for line in host.ask('every', 4711, 200)]
        host.expect('activity', 7)
        host.expect('invalid', 8)
        self.end(host)
        self.stop()
        events = ours(read(path))
        self.assertEqual((events[0].name, events[0].fields['text']), ('Lttng-Host:tick', 'early'))
        every = [event.fields for event in events if event.name == 'Lttng-Host:every']
        self.assertEqual(len(every), 200)
        for fields, expected in zip(every, written):
            self.assertEqual((fields.pop('activity_id'), fields.pop('related_activity_id')),
                             ('-', '-'))
            lengths = {name: fields.pop(name) for name in list(fields)
                       if name.endswith('_length')}
            for name in {*fields, *expected}:
                self.assertEqual(fields.get(name), expected.get(name), name)
            for name, length in lengths.items():
                self.assertEqual(length, len(fields[name[1:-len('_length')]]))
        activity, invalid = events[-2:]
        self.assertEqual(activity.fields['activity_id'], '10111213-1415-1617-1819-1a1b1c1d1e1f')
        self.assertEqual(activity.fields['related_activity_id'],
                         'f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff')
        self.assertEqual(activity.fields['change'], -7)
        # As in .NET and Unicode: one U+FFFD for the longest incomplete beginning of a character.
        self.assertEqual(invalid.fields['text'], '\ufffda\ufffdb\u00e9\ufffd\ufffd\ufffd')
        self.assertEqual(invalid.fields['ratio'], 4)
        self.assertEqual(invalid.uri, 'ringpipe:id=1;version=0;level=4;opcode=0;keywords=0x1')

    def test_enumerations_have_the_names_of_their_values(self):
        path = self.session()
        self.enable('Lttng-Host:moved', '--filter', 'from < 1')
        self.enable('Lttng-Enums:*')
        self.start()
        host = self.host()
        host.expect('moves')
        self.end(host)
        self.stop()
        reported = [({name: event.fields[name] for name in event.labels}, event.labels)
                for event in ours(read(path))]
        self.assertEqual(reported, [
            ({'from': -2, 'to_phase': 0x7fffffff},
             {'from': ['PHASE_BEFORE'], 'to_phase': ['PHASE_AFTER']}),
            ({'from': 0, 'to_phase': 5}, {'from': ['PHASE_IN'], 'to_phase': []}),
            ({'colour': 0}, {'colour': ['the "red" one']}),
            ({'colour': 1}, {'colour': ['gr\u00fcn']}),
            ({'colour': (1 << 64) - 1}, {'colour': ['the last']}),
            ({'colour': 2}, {'colour': []})])

    def test_listed_with_level_and_fields(self):
        host = self.host()
        listed = self.daemon.run('list', '--userspace', '--fields')
        for line in ('Lttng-Host:always (loglevel: TRACE_EMERG (0)) (type: tracepoint)',
                     'Lttng-Host:alarm (loglevel: TRACE_ERR (3)) (type: tracepoint)',
                     'Lttng-Host:tick (loglevel: TRACE_INFO (6)) (type: tracepoint)',
                     'Lttng-Host:detail (loglevel: TRACE_DEBUG (14)) (type: tracepoint)',
                     'field: ratio (float)', 'field: wide (string)', 'field: serial (integer)',
                     'field: keywords (integer) [no write]'):
            self.assertIn(line, listed)
        self.end(host)

    def test_each_level_is_one_of_lttng_s_and_a_long_provider_is_cut(self):
        path = self.session()
        self.enable('Lttng-p*', '--loglevel=TRACE_WARNING')
        self.start()
        host = self.host()
        host.expect('graded')
        listed = re.findall(r'^ *(Lttng-p+~[0-9a-f]{8}):(level\d) \(loglevel: (TRACE_\w+) ',
                            self.daemon.run('list', '--userspace'), re.M)
        self.assertEqual([(event, level) for _, event, level in sorted(listed)],
                         list(zip((f'level{level}' for level in range(6)),
                                  ('TRACE_EMERG', 'TRACE_CRIT', 'TRACE_ERR', 'TRACE_WARNING',
                                   'TRACE_INFO', 'TRACE_DEBUG'))))
        provider, = {provider for provider, _, _ in listed}
        self.assertEqual(len(provider), 127)
        for level in range(6):
            host.expect('await', int(level < 4), 0, level)
            host.expect('fire', level, 0, f'text {level}')
        self.end(host)
        self.stop()
        self.assertEqual([(event.name, event.fields['text']) for event in ours(read(path))],
                         [(f'{provider}:level{level}', f'text {level}') for level in range(4)])

    def test_names_and_sizes_at_their_limits(self):
        host = self.host()
        long_one = 'e' * 254 + 'A'
        host.expect('make', 0, 64, 'wide')
        host.expect('make', 1, 0, long_one)
        host.expect('make', 2, 0, 'e' * 254 + 'B')
        host.expect('make', 3, 0, 'b\u00e4d "name"*, it is')
        host.expect('make', 4, 0, 'wide')
        host.expect('make', 5, 128, 'widest')
        path = self.session()
        self.enable('Lttng-Made:*')
        self.start()
        for made in range(6):
            host.expect('await', 1, 0, made)
        host.expect('numbers', 0, 64)
        host.expect('numbers', 5, 128)
        for made in (1, 2, 3, 4):
            host.expect('fire', made, 0, f'text {made}')
        # A payload without the event's fields would corrupt the rest of the trace.
        host.expect('fire', 0, 3, 'abc')
        host.expect('fire', 1, 4, 'abcdefg')
        host.expect('long', 1, 1 << 16)     # one byte longer than the limit, with its NUL
        host.expect('fire', 4, 0, 'the end')
        self.assertIn('Lttng-Made: 3 lost', host.ask('list'))
        shown = subprocess.run([TOOL, 'list', str(host.pid)], env=self.daemon.environment,
                               stdout=subprocess.PIPE, check=True, **user()).stdout.decode()
        self.assertRegex(shown, r'(?m)^PROVIDER +SESSION +LOST\nLttng-Made +lttng +3$')
        self.end(host)
        self.stop()
        events = ours(read(path))
        self.assertEqual(len(events), 7, events)
        for event, count in zip(events, (64, 128)):
            self.assertEqual([event.fields[f'f{i}'] for i in range(count)],
                             [i * 1000003 for i in range(count)])
        self.assertEqual([event.name for event in events[:2]],
                         ['Lttng-Made:wide', 'Lttng-Made:widest'])
        for event in events[2:4]:
            self.assertRegex(event.name, '^Lttng-Made:e{230}~[0-9a-f]{8}$')
        self.assertNotEqual(events[2].name, events[3].name)
        self.assertEqual(events[4].name, 'Lttng-Made:b_d__name____it_is')
        self.assertEqual(events[5].name, 'Lttng-Made:wide~4')
        self.assertEqual([event.fields['text'] for event in events[2:]],
                         ['text 1', 'text 2', 'text 3', 'text 4', 'the end'])

    def test_longest_names_of_fields_and_values_are_listed_and_recorded(self):
        path = self.session()
        self.enable('Lttng-Names:*')
        self.enable('Lttng-Labels:*')
        self.start()
        host = self.host()
        host.expect('names', 1)
        host.expect('labels', 2)
        listed = self.daemon.run('list', '--userspace', '--fields')
        self.end(host)
        self.stop()
        event, *labelled = ours(read(path))
        self.assertIn('field: label (enum)', listed)
        self.assertEqual([event.labels['label'] for event in labelled],
                         [['a' * 255], ['a' * 254 + 'A'], ['"' * 255], ['\\' * 255], ['\n' * 255]])
        self.assertEqual(len(event.fields), 5 + 2)
        for (name, value), (pattern, expected) in zip(event.fields.items(), (
                ('n{245}_[0-9a-f]{8}', 1), ('n{245}_[0-9a-f]{8}', 2), ('s{120}_m{120}', 3),
                ('_l{231}_[0-9a-f]{8}_length', 2), ('l{231}_[0-9a-f]{8}', [4, 5]))):
            self.assertRegex(name, f'^{pattern}$')
            self.assertEqual(value, expected)
            self.assertIn(f'field: {name} ', listed)


class ChoiceTest(LttngTest):
    @staticmethod
    def channel(path, name):
        """Return a trace that has one channel of another."""
        source, = glob.glob(os.path.join(path, 'ust', 'uid', '*', '*'))
        target = os.path.join(path, name)
        os.mkdir(target)
        for file in glob.glob(os.path.join(source, f'{name}_*')) + [f'{source}/metadata']:
            os.symlink(file, os.path.join(target, os.path.basename(file)))
        return target

    def test_by_name_wildcard_level_and_filter(self):
        host = self.host()
        path = self.session()
        tick, ticks = 'Lttng-Host:tick', [f'Lttng-Host:tick {serial}' for serial in range(100, 105)]
        alarm, detail = 'Lttng-Host:alarm 100', 'Lttng-Host:detail 100'
        choices = [
            ((tick,), ticks),
            (('Lttng-H*:t*',), ticks),
            (('Lttng-Host:a*',), ['Lttng-Host:always None', alarm]),
            (('Lttng-Host:*', '--loglevel=TRACE_INFO'), ['Lttng-Host:always None', alarm, *ticks]),
            (('Lttng-Host:*', '--loglevel-only=TRACE_DEBUG'), [detail]),
            (('Lttng-Host:*', '--exclude=Lttng-Host:a*'), [ticks[0], detail, *ticks[1:]]),
        ] + [(('Lttng-Host:*', '--filter', text), events) for text, events in (
            ('serial > 101 && serial != 103', [ticks[2], ticks[4]]),
            ('text == "customer*" && serial < 103', ticks[1:3]),
            ('ratio == 51.5', [ticks[3]]),
            ('change < -102', ticks[3:]),
            ('wide == "\u00f6dd"', [ticks[1], ticks[3]]),
            ('(keywords & 0x1) != 0', ticks),
            ('(keywords & 0x2) != 0 || serial == 104', [alarm, ticks[4]]),
            ('event_id == 1 && opcode == 0 && activity_id == "-" && serial == 102', [ticks[2]]))]
        for number, (options, _) in enumerate(choices):
            self.daemon.run('enable-channel', '--userspace', f'c{number}')
            self.enable(f'--channel=c{number}', *options)
        self.start()
        for name in ('tick', 'alarm', 'detail'):
            host.expect('await', 1, 0, name)
        host.expect('levels', 100)
        host.expect('tick', 101, 4, 'customer one')
        self.stop()
        for name in ('tick', 'alarm', 'detail'):
            host.expect('await', 0, 0, name)
        self.end(host)
        for number, (options, expected) in enumerate(choices):
            events = [f"{event.name} {event.fields.get('serial')}"
                      for event in ours(read(self.channel(path, f'c{number}')))]
            self.assertEqual(events, expected, options)

    def test_provider_component_and_listing_receive_it(self):
        host = self.host()
        self.assertEqual(host.ask('attach'), ['0'])
        self.assertEqual(host.ask('list'), [])
        self.session()
        self.enable('Lttng-Host:alarm')
        self.start()
        self.assertEqual(host.ask('heard', 2), ['enabled 1 level 2 component 2 7'])
        self.enable('Lttng-Host:detail')
        self.assertEqual(host.ask('heard', 6), ['enabled 1 level 5 component 6 3f'])
        self.assertEqual(host.ask('list'), ['Lttng-Host: lttng 2 6 5'])
        shown = subprocess.run([TOOL, 'list', str(host.pid)], env=self.daemon.environment,
                               stdout=subprocess.PIPE, check=True, **user()).stdout.decode()
        self.assertRegex(shown, r'Lttng-Host +lttng +\d+ +6 +5 +2 ')
        self.daemon.run('stop')
        self.assertEqual(host.ask('heard', 0), ['enabled 0 level 0 component 0 0'])
        self.end(host)

    def test_next_look_sees_it_and_the_pause_is_half_of_what_is_promised(self):
        if 'address' in SANITIZERS or 'thread' in SANITIZERS:
            self.skipTest('sanitizers want to be loaded first')
        with open(os.path.join(ROOT, 'doc/linux-tools.md'), encoding='utf-8') as page:
            promised, = re.findall(r'turns on or off is seen within (\d+) ms',
                                   ' '.join(page.read().split()))
        host = self.host({'LD_PRELOAD': SHIM})
        self.session()
        self.enable('Lttng-Host:tick')
        self.start()    # which ends when the process knows of it
        self.assertEqual(host.ask('on', 0, 0, 'tick'), ['0'])
        self.assertEqual(host.ask('look'), [f'{int(promised) // 2} ms'])
        self.assertEqual(host.ask('on', 0, 0, 'tick'), ['1'])
        self.daemon.run('stop')
        self.assertEqual(host.ask('on', 0, 0, 'tick'), ['1'])
        host.expect('tick', 1, 1, 'it is not recorded any more')
        host.ask('look')
        self.assertEqual(host.ask('on', 0, 0, 'tick'), ['0'])
        self.end(host)

    def test_contexts_report_process_and_thread(self):
        path = self.session()
        self.enable('Lttng-Host:tick')
        self.daemon.run('add-context', '--userspace', '--type=vpid', '--type=vtid',
                        '--type=procname')
        self.start()
        host = self.host()
        thread, = host.ask('thread', 1)
        self.assertNotEqual(int(thread), host.pid)
        self.end(host)
        self.stop()
        event, other = ours(read(path))
        self.assertEqual((event.context['vpid'], event.context['vtid']), (host.pid, host.pid))
        self.assertEqual((other.context['vpid'], other.context['vtid']), (host.pid, int(thread)))
        self.assertIn('lttng_host', ''.join(event.context['procname'])
                      if isinstance(event.context['procname'], str) else
                      bytes(filter(None, event.context['procname'])).decode())


class LifeTest(LttngTest):
    def test_library_comes_and_goes_while_a_session_records(self):
        path = self.session()
        self.enable('Lttng-Plugin:*')
        self.start()
        host = self.host()
        for _ in range(3):
            host.expect('load')
            host.expect('await', 1, 0, 'plugin')
            host.expect('plugin', 5)
            host.expect('unload')
        host.expect('make', 1, 0, 'made')
        host.expect('destroy', 1)
        listed = self.daemon.run('list', '--userspace')
        self.assertIn('Lttng-Host:tick', listed)
        self.assertNotIn('Lttng-Plugin:', listed)
        self.assertNotIn('Lttng-Made:', listed)
        self.end(host)
        self.stop()
        self.assertEqual(self.serials(path, 'Lttng-Plugin:call'), [0, 1, 2, 3, 4] * 3)

    def test_daemon_that_dies_and_comes_back_is_found_again(self):
        self.session()
        self.enable('Lttng-Host:tick')
        self.start()
        host = self.host()
        host.expect('await', 1, 0, 'tick')
        self.daemon.kill()
        host.expect('await', 0, 0, 'tick')
        host.expect('tick', 50, 1, 'no listener')
        self.daemon.start()
        path = self.session()
        self.enable('Lttng-Host:tick')
        self.start()
        host.expect('await', 1, 0, 'tick')
        host.expect('tick', 60, 3, 'a listener again')
        self.end(host)
        self.stop()
        self.assertEqual(self.serials(path), [60, 61, 62])

    @unittest.skipIf('address' in SANITIZERS, NO_FORK)
    def test_forked_child_is_traced_as_itself(self):
        path = self.session()
        self.enable('Lttng-Host:tick')
        self.daemon.run('add-context', '--userspace', '--type=vpid')
        self.start()
        host = self.host()
        first, = host.ask('fork', 10, 3)
        second, = host.ask('fork', 20, 2)
        host.expect('tick', 30, 2, 'parent')
        self.end(host)
        self.stop()
        events = [(event.context['vpid'], event.fields['serial']) for event in ours(read(path))]
        self.assertEqual(sorted(events), sorted(
            [(host.pid, 0), (host.pid, 30), (host.pid, 31)] +
            [(int(first), serial) for serial in (10, 11, 12)] +
            [(int(second), serial) for serial in (20, 21)]))

    def test_snapshot_has_the_last_events(self):
        self.session('--snapshot')
        self.enable('Lttng-Host:tick')
        self.start()
        host = self.host()
        host.expect('tick', 1, 100, 'before')
        self.daemon.run('snapshot', 'record', '--name=first')
        host.expect('tick', 101, 10, 'after')
        self.stop()
        self.end(host)
        folders = glob.glob(os.path.join(self.daemon.home, '**', 'first-*'), recursive=True)
        self.assertEqual(len(folders), 1, folders)
        self.assertEqual(self.serials(folders[0]), list(range(101)))

    def test_rotation_ends_one_trace_and_begins_the_next(self):
        path = self.session()
        self.enable('Lttng-Host:tick')
        self.start()
        host = self.host()
        host.expect('tick', 1, 10, 'first')
        self.daemon.run('rotate')
        host.expect('tick', 11, 10, 'second')
        self.stop()
        self.end(host)
        archives = sorted(glob.glob(os.path.join(path, 'archives', '*')))
        self.assertEqual(len(archives), 2, archives)
        self.assertEqual([self.serials(archive) for archive in archives],
                         [list(range(11)), list(range(11, 21))])

    def test_live_shows_events_while_they_happen(self):
        ports = self.daemon.start_relay()
        self.daemon.run('create', 'alive', '--live=100000',
                        f'--ctrl-url=tcp://127.0.0.1:{ports[0]}',
                        f'--data-url=tcp://127.0.0.1:{ports[1]}')
        self.enable('Lttng-Host:tick')
        self.start()
        host = self.host()
        viewer = subprocess.Popen(
            ['babeltrace2', '--input-format=lttng-live',
             f'net://127.0.0.1:{ports[2]}/host/{socket.gethostname()}/alive'],
            env=self.daemon.plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **user())
        self.addCleanup(lambda: (viewer.kill(), viewer.communicate()))
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(viewer.stdout), daemon=True)
        reader.start()

        # A viewer misses events from before its attachment, which it does not report.
        def ticks_until_seen():
            host.expect('tick', 76, 1, 'to whom?')
            return seen
        self.daemon.wait(ticks_until_seen)
        host.expect('tick', 77, 1, 'while it runs')
        self.daemon.wait(lambda: any(b'serial = 77, text = "while it runs"' in line
                                     for line in list(seen)))
        self.end(host)
        self.stop()


class TriggerTest(LttngTest):
    def trigger(self, name, rule, *action):
        self.daemon.run('add-trigger', f'--name={name}', '--condition=event-rule-matches', *rule,
                        *(f'--action={action[0]}', *action[1:]))

    def listener(self):
        """Run a client of notifications, and return its lines."""
        with open(LISTENER, encoding='utf-8') as program:
            process = subprocess.Popen([sys.executable, '-c', program.read()],
                                       env=self.daemon.plain, stdout=subprocess.PIPE, **user())
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return iter(lambda: process.stdout.readline().decode().rstrip('\n'), '')

    def test_notifies_with_what_it_captured_of_filtered_events(self):
        self.trigger('alarms', ('--capture=serial', '--type=user', '--name=Lttng-Host:alarm',
                                '--filter=serial > 6 && serial != 8'), 'notify')
        self.trigger('ticks', ('--capture=serial', '--capture=text', '--type=user',
                               '--name=Lttng-H*:t*', '--filter=text == "look*"'), 'notify')
        lines = self.listener()
        self.assertEqual(next(lines), 'listening')
        host = self.host()
        host.expect('await', 1, 0, 'alarm')
        host.expect('await', 1, 0, 'tick')
        self.assertEqual(host.ask('list'), ['Lttng-Host: lttng 2 3 4'])
        for serial in (6, 7, 8, 9):
            host.expect('levels', serial)
        host.expect('tick', 20, 1, 'look here')
        self.assertEqual([next(lines) for _ in range(3)],
                         ['alarms 7', 'alarms 9', 'ticks 20 look here'])
        self.daemon.run('remove-trigger', 'alarms')
        host.expect('await', 0, 0, 'alarm')
        self.end(host)

    def test_starts_a_session_and_takes_a_snapshot_of_another(self):
        self.session('--snapshot')
        self.enable('Lttng-Host:tick')
        self.start()
        started = self.session()
        self.enable('Lttng-Host:detail')
        for name, action in (('begin', ('start-session', 's2')), ('keep', ('snapshot-session',
                                                                         's1'))):
            self.trigger(name, ('--type=user', '--name=Lttng-Host:alarm',
                                '--filter=serial == 100'), *action)
        host = self.host()
        host.expect('tick', 1, 10, 'before')
        host.expect('levels', 99)   # enables neither
        host.expect('levels', 100)
        host.expect('await', 1, 0, 'detail')
        host.expect('levels', 101)

        self.daemon.wait(lambda: self.snapshots('trace1'))
        self.end(host)
        self.daemon.run('destroy', '--all')
        self.assertEqual(self.serials(started, 'Lttng-Host:detail'), [101])
        folder, = self.snapshots('trace1')
        self.assertEqual(self.serials(folder)[:12], [*range(11), 99])


class PageTest(LttngTest):
    def test_commands_of_the_page_work_as_they_stand(self):
        if not os.path.exists(HELLO):
            self.skipTest('built without examples')
        with open(os.path.join(ROOT, 'doc/linux-tools.md'), encoding='utf-8') as page:
            section = re.search(r'^## LTTng.*?(?=^## )', page.read(), re.M | re.S).group()
        shutil.copy(HELLO, self.daemon.home)
        # Send the next command once the process has slept often enough; it sleeps after each event.
        asleep = ("./hello &\nuntil awk '/^volun/ { exit ($2 < 20) }' /proc/$!/status; "
                  'do sleep 0.05; done\n')
        commands = ''.join(re.findall(r'^```sh\n(.*?)^```', section, re.M | re.S))
        commands = commands.replace('./hello &\n', asleep)
        with tempfile.TemporaryFile() as log:
            script = subprocess.Popen(['sh', '-exc', commands], stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log, start_new_session=True,
                                      env={**self.daemon.environment,
                                           'LD_LIBRARY_PATH': os.path.dirname(LIBRARY)},
                                      cwd=self.daemon.home, **user())
            try:
                status = script.wait(PATIENCE)
                self.daemon.wait(lambda: status or self.snapshots('hello-last'))
            finally:
                os.killpg(script.pid, signal.SIGKILL) # `hello` continues
            log.seek(0)
            shown = log.read().decode()
        self.assertEqual(status, 0, shown)
        self.assertIn('Hello:greeting (loglevel: TRACE_INFO (6)) (type: tracepoint)', shown)
        self.assertIn('field: whom (string)', shown)
        self.daemon.run('destroy', '--all')     # ends everything that the script began
        folder, = self.snapshots('hello-last')
        self.assertIn('Hello:greeting', {event.name for event in read(folder)})
        self.assertRegex(shown, r'Hello:greeting: \{ cpu_id = \d+ \}, \{ .*"hello".* \}, '
                                r'\{ n = 0, whom = "world", activity_id = "-", ')


class WithoutTest(unittest.TestCase):
    """Cases without a session daemon, without the module, or with LTTng switched off."""

    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self.daemon.stop)

    def run_host(self, *commands, program=HOST, **environment):
        host = Host(self.daemon, environment, program)
        self.addCleanup(LttngTest.reap, host)
        answers = [host.ask(*command) for command in commands]
        return (*host.end(), answers, host.pid)

    def test_without_a_daemon_events_go_on_as_ever(self):
        forks = [] if 'address' in SANITIZERS else [('fork', 0, 0)]     # NO_FORK
        status, errors, answers, _ = self.run_host(
            ('tick', 1, 10, 'nobody'), *forks, ('start',), ('list',), RINGPIPE_LTTNG='1',
            RINGPIPE_CONFIG='Lttng-Host', RINGPIPE_OUTPUT=f'{self.daemon.home}/out.nettrace')
        self.assertEqual((status, errors, answers[-2]), (0, '', ['Success']))
        counted = subprocess.run([TOOL, 'report', f'{self.daemon.home}/out.nettrace'],
                                 env=self.daemon.plain, stdout=subprocess.PIPE, check=True,
                                 **user()).stdout.decode()
        self.assertRegex(counted, r' 11 .* tick \(1\)')

    def maps(self, **environment):
        host = Host(self.daemon, environment)
        self.addCleanup(LttngTest.reap, host)
        with open(f'/proc/{host.pid}/maps', encoding='utf-8') as maps:
            text = maps.read()
        host.end()
        return 'libringpipe-lttng' in text

    def test_loaded_when_a_daemon_is_there_or_it_is_asked_for(self):
        if glob.glob('/var/run/lttng/lttng-ust-sock-*'):
            self.skipTest('a session daemon of root is there')
        self.assertFalse(self.maps())
        self.assertTrue(self.maps(RINGPIPE_LTTNG='1'))
        self.daemon.start()
        self.assertTrue(self.maps())
        self.assertFalse(self.maps(RINGPIPE_LTTNG='0'))

    def test_a_call_is_enough_and_the_daemon_may_come_later(self):
        if glob.glob('/var/run/lttng/lttng-ust-sock-*'):
            self.skipTest('a session daemon of root is there')
        host = Host(self.daemon)
        self.addCleanup(LttngTest.reap, host)
        self.assertEqual(host.ask('start'), ['Success'])
        self.daemon.start()
        path = os.path.join(self.daemon.home, 'trace')
        self.daemon.run('create', 'later', f'--output={path}')
        self.daemon.run('enable-event', '--userspace', 'Lttng-Host:tick')
        self.daemon.run('start')
        host.expect('await', 1, 0, 'tick')
        host.expect('tick', 1, 3, 'later')
        self.assertEqual(host.end(), (0, ''))
        self.daemon.run('destroy')
        self.assertEqual([event.fields['serial'] for event in ours(read(path))], [1, 2, 3])

    def test_missing_module_is_reported_on_request(self):
        folder = os.path.join(self.daemon.home, 'alone')
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        shutil.copy(LIBRARY, os.path.join(folder, 'libringpipe.so.1'))
        alone = {'LD_LIBRARY_PATH': folder}
        status, errors, answers, _ = self.run_host(('tick', 1, 1, 'x'), ('start',),
                                                   RINGPIPE_LTTNG='1', **alone)
        self.assertEqual(status, 0)
        self.assertRegex(errors, r'^ringpipe: cannot hand events to LTTng: libringpipe-lttng\.so: '
                                 r'cannot open shared object file.*\n$')
        self.assertEqual(answers[1], ['No such file or directory'])
        self.assertEqual(self.run_host(('tick', 1, 1, 'x'), **alone)[:2], (0, ''))


def skip_reason():
    if bt2 is None:
        return 'no module bt2 for this Python (python3-bt2)'
    for program in ('lttng', 'lttng-sessiond', 'babeltrace2'):
        if not shutil.which(program):
            return f'no {program} (lttng-tools, babeltrace2)'
    if not os.path.exists(MODULE):
        return 'built without LTTng'
    probe = subprocess.run(['test', '-x', HOST, '-a', '-r', PLUGIN], check=False, **user())
    if probe.returncode != 0:
        return 'the build is closed to the user nobody'
    return None


if __name__ == '__main__':
    REASON = skip_reason()
    if REASON:
        print(REASON)
        sys.exit(77)
    unittest.main()
