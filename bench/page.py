# SPDX-License-Identifier: MIT
"""
Updates the table of figures in a page from results.md: between a line that names the folder and one
that ends the table. `[suite: row]` is replaced by a row's value.
"""

import os
import re

import report

# Used in README.md, and at the beginning of doc/performance.md.
SHORT = (
    ('disabled event',
     '[disabled: disabled event, the worst of these] instructions, [disabled: code at the '
     'site] bytes, [disabled: cache lines of data] cache line of data',
     '[disabled: disabled event with static keys, the worst] instruction with a static key'),
    ('enabled event, 32 bytes', '[enabled: event 32 B] ns',
     '[enabled: event 32 B / rdtsc] × `rdtsc`, [enabled: event 32 B / clock_gettime] × '
     '`clock_gettime`'),
    ('enabled event, 32 bytes, with coarse time', '[enabled: event 32 B, coarse time] ns',
     '[enabled: event 32 B, coarse time / rdtsc] × `rdtsc`'),
    ('events of 32 bytes without a loss',
     'tmpfs: [delivery: file on tmpfs: most without a loss], disk: [delivery: file on a '
     'disk: most without a loss], socket: [delivery: socket: most without a loss] M/s', ''),
    ('10,000 threads alive that each wrote once',
     '[starts: 10,000 threads alive, each wrote once, session of 1 MB] kB',
     'session of 1 MB, its rings included'),
)
MORE = (
    ('enabled event with a string; 512 bytes; an activity id',
     '[enabled: event with a string]; [enabled: event 512 B]; [enabled: event 32 B with '
     'activity id] ns',
     '[enabled: event with a string / rdtsc]; [enabled: event 512 B / rdtsc]; [enabled: '
     'event 32 B with activity id / rdtsc] × `rdtsc`'),
    ('enabled event into an overwriting session', '',
     '[enabled: event 32 B, overwriting / event 32 B] × into another session'),
    ('LTTng-UST tracepoint', '[peers: LTTng-UST tracepoint] ns',
     "[peers: LTTng-UST tracepoint / ringpipe] × ringpipe's event"),
    ('fprintf to a file', '[peers: fprintf to a file] ns',
     '[peers: fprintf to a file / ringpipe] ×'),
    ('spdlog, asynchronous', '[peers: spdlog, asynchronous] ns',
     '[peers: spdlog, asynchronous / ringpipe] ×'),
    ('USDT with bpftrace', '[peers: USDT with bpftrace] ns',
     '[peers: USDT with bpftrace / ringpipe] ×'),
    (".NET's EventPipe without stacks", '[peers: .NET EventPipe, without stacks] ns at best',
     '[peers: .NET EventPipe, without stacks / ringpipe, medians] × of medians'),
    ('event with a stack of 27 frames', '',
     '[stacks: event with a stack of 27 frames / backtrace() of 27 frames] × `backtrace()`'),
    ('event of 32 bytes whose ring is a file, for recovery', '',
     '[recover: event 32 B, ring in a file / in memory] × one in memory'),
    ('event with only LTTng on, 32 bytes; with a string',
     '[lttng: event 32 B, only LTTng on]; [lttng: event with a string, only LTTng on] ns',
     '[lttng: event 32 B, only LTTng on / by hand]; [lttng: event with a string, only '
     'LTTng on / by hand] × the tracepoint by hand'),
    ('8 threads on one CPU', '',
     '[enabled: 8 threads on one CPU / 1 thread on one CPU] × one thread there'),
    ('40 sessions', '[many: each more session] ns for each more',
     'the first: [many: sessions, 1 sessions] ns'),
    ('99.9th percentile of events on a CPU with a busy thread',
     '[latency: with a computing thread, p99.9] ns',
     '[latency: with a computing thread, p99.9 / p50] × the median'),
    ('event of 32 bytes in a file', '[delivery: file on tmpfs: bytes per event of 32 B] bytes', ''),
    ('drain thread, event of 32 bytes to tmpfs, 10 M/s',
     '[delivery: file on tmpfs: drain thread / writer] × the writer',
     'write(2) of its bytes alone: [delivery: file on tmpfs: write(2) alone / writer] ×'),
    ('longest stall of the disk without a loss, 1 M/s; 5 M/s',
     '[stall: longest stall without a loss, 64 MB, 1 M/s]; [stall: '
     'longest stall without a loss, 64 MB, 5 M/s] ms',
     'losses in longer stalls that the trace misses: [stall: lost in stalls, missing '
     'in the file]'),
    ('start; stop of a session, 10,000 events registered',
     '[lifecycle: start, 10,000 events, best]; [lifecycle: stop, 10,000 events, best] ms', ''),
    ('event of 32 bytes without restartable sequences', '',
     '[enabled: event 32 B without rseq / rdtsc] × `rdtsc`'),
    ('event of 32 bytes with an enabled static key', '[keys: event 32 B, static key on] ns',
     '[keys: event 32 B, static key on / event 32 B, load and branch on] × with a load '
     'and a branch'),
    ('each more integer; string of 16 bytes; frame of a stack',
     '[sizes: each more integer]; [sizes: each more string of 16 bytes]; [stacks: each '
     'more frame] ns', ''),
    ('payload of 64 KB', '[sizes: event, 65,500 bytes] ns',
     'memcpy of as much: [sizes: memcpy, 65,500 bytes] ns'),
    (".NET's EventPipe with stacks", '[peers: .NET EventPipe, with stacks] ns at best',
     '[peers: .NET EventPipe, with stacks / ringpipe, medians] × of medians'),
    ('64 simultaneous threads on two CPUs', '[many: simultaneous threads, 64 threads] ns',
     'one: [many: simultaneous threads, 1 threads] ns'),
    ('counter; histogram', '[counters: counter]; [counters: histogram] ns',
     '[counters: counter / relaxed atomic add] × a relaxed atomic add'),
    ('drain thread, the same to tmpfs of large pages',
     '[delivery: file on tmpfs of large pages: drain thread / writer] × the writer',
     'write(2) and a copy from the other CPU alone: '
     '[delivery: file on tmpfs of large pages: write(2) and that copy alone / writer] ×'),
    ('event delivered to a listener', '[listener: listeners, 1 listeners] ns',
     'by each of 40: [listener: listeners, 40 listeners] ns'),
    ('start; stop with 39 other sessions',
     '[starts: start, by sessions, 40 sessions]; '
     '[starts: stop, by sessions, 40 sessions] us', ''),
    ('start with 100,000 events; providers',
     '[many: start of a session, 100,000 events]; [many: start of a session, 100,000 '
     'providers] us', ''),
    ('memory of an event; a provider; a series; a histogram',
     '[many: each more event]; [memory: each more provider]; [memory: each more series of '
     'a counter]; [memory: each more series of a histogram] kB', ''),
    ('memory of a session without events; a listener',
     '[memory: each more session without events]; [listener: each more listener] kB', ''),
)
MARKED = re.compile(r'(<!-- (short )?figures of (\S+), by scripts/bench -->\n).*?(<!-- end -->\n)',
                    re.S)


def value(suites, suite, name):
    for row in suites.get(suite, {'rows': ()})['rows']:
        if row['name'] == name:
            return re.sub(r'\.00$', '', row['value'])
    return 'not taken'


def table(suites, short=False):
    lines = ['| | | compared with, in the same run |', '| --- | --- | --- |']
    for line in SHORT if short else SHORT + MORE:
        cells = [re.sub(r'\[(\w+): ([^\]]+)\]', lambda match: value(suites, *match.groups()), cell)
                 for cell in line]
        lines.append('| ' + ' | '.join(cells).rstrip() + ' |')
    return '\n'.join(lines) + '\n'


def with_table(text, folder, suites):
    """Return the page with the table of that folder's results, if the page has such a table."""
    def replaced(match):
        begin, short, name, end = match.groups()
        if os.path.basename(name) != os.path.basename(folder):
            return match.group()
        return begin + table(suites, short) + end

    return MARKED.sub(replaced, text)


def update(page, folder):
    with open(page, encoding='utf-8') as file:
        text = file.read()
    new = with_table(text, folder, report.read(os.path.join(folder, 'results.md')))
    if new != text:
        with open(page, 'w', encoding='utf-8') as file:
            file.write(new)
