# SPDX-License-Identifier: MIT
"""Suites whose figures are curves: how a cost grows with a quantity."""

import mmap
import os
import subprocess
import tempfile

import measure
from measure import curve, each_more, figures, output_folder, row


def program(build, name):
    return os.path.join(build, 'bench', f'bench-{name}')


def suite_sizes(build):
    found = figures([program(build, 'sizes')])
    row('event without a payload', found['event without a payload'][0], 'ns')
    curve('Enabled event by bytes', 'bytes', 'ns',
          {name: found.curves[name] for name in ('event', 'event with an activity id', 'memcpy')})
    curve('Enabled event by integers', 'fields', 'ns', {'integers': found.curves['integers']})
    each_more('integer', found.curves['integers'], 'ns')
    curve('Enabled event by strings', 'strings', 'ns',
          {'strings of 16 bytes': found.curves['strings of 16 bytes']})
    each_more('string of 16 bytes', found.curves['strings of 16 bytes'], 'ns')
    curve("Enabled event by a string's bytes", 'bytes', 'ns', {'string': found.curves['string']})
    each_more('byte of a string', found.curves['string'], 'ns')
    return True


def suite_many(build):
    found = figures([program(build, 'many'), *(['100'] if measure.QUICK else [])])
    curves = found.curves
    curve('Enabled event by sessions', 'sessions', 'ns', {'sessions': curves['sessions']})
    first, more = curves['sessions'][0][1], each_more('session', curves['sessions'], 'ns')
    ok = row('each more session / the first', more / first, 'x', '<= 1', more <= first)
    curve('Enabled event by threads that write simultaneously', 'threads', 'ns',
          {'simultaneous threads': curves['simultaneous threads']})
    curve('A thread in all by threads', 'threads', 'us',
          {name: curves[name] for name in ('thread that writes once', 'thread that does not')})
    curve('Memory by threads', 'threads', 'kB',
          {'session and threads': curves['session and threads']})
    for what in ('events', 'providers'):
        making = 'creating an event' if what == 'events' else 'creating a provider with an event'
        curve(f'Making {what}', what, 'us', {making: curves[making]})
        curve(f'Start and stop by {what}', what, 'us',
              {f'{which} of a session': curves[f'{which} of a session, by {what}']
               for which in ('start', 'stop')})
        each_more(f'{what[:-1]} that is enabled', curves[f'start of a session, by {what}'],
                  'us')
    curve('Memory by events', 'events', 'kB', {'memory of events': curves['memory of events']})
    each_more('event', curves['memory of events'], 'kB')
    return ok


def suite_latency(build):
    found = figures([program(build, 'latency')])
    for name, (value, unit) in found.items():
        row(name, value, unit)
    curve('Longest of so many events', 'events', 'ns', found.curves)
    ok = True
    for other in ('a computing thread', 'a writing thread'):
        value = found[f'with {other}, p99.9'][0] / found[f'with {other}, p50'][0]
        ok &= row(f'with {other}, p99.9 / p50', value, 'x', '<= 20', value <= 20)
    return ok


def memory_of_its_own(size):
    """
    Reserve memory that the host has already given to this machine, free except for a page of each
    MB. A virtual machine may return blocks of free pages to its host, and the fault that gets such
    a page back costs more than everything measured here. Return the object that keeps the memory.
    """
    page, block = mmap.PAGESIZE, 1 << 20
    size = min(size, os.sysconf('SC_AVPHYS_PAGES') * page // 2 // block * block)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, size, page):
        memory[at] = 1
    for at in range(0, size, block):
        memory.madvise(mmap.MADV_DONTNEED, at + page, block - page)
    return memory


def offer(build, target, rate, around=()):
    """Return the figures of the best of some runs, since other machines may use the processor."""
    seconds, runs = ('0.1', 1) if measure.QUICK else ('1', 5)
    found = [figures([*around, program(build, 'throughput'), target, str(rate), seconds, '64'])
             for _ in range(runs)]
    return min(found, key=lambda run: (run['offered'][0] < 0.95 * rate,
                                       run['lost'][0] / run['delivered'][0],
                                       run['drain thread per event'][0]))


def compare_drain_with_writer(name, found, limit=True):
    """
    Add the CPU time per event of the drain thread and of the writer, and their floor. Return
    whether the drain thread needs no more than its target, if it has one.
    """
    writer, drain = found['writer per event'][0], found['drain thread per event'][0]
    floor = found["write(2) of an event's bytes alone"][0]
    lines = found['copy of an event from the other CPU alone'][0]
    row(f'{name}, 10 M/s: writer per event', writer, 'ns')
    row('  drain thread per event', drain, 'ns')
    row("  write(2) of an event's bytes alone", floor, 'ns')
    row('  copy of an event from the other CPU alone', lines, 'ns')
    ok = row(f'{name}: drain thread / writer', drain / writer, 'x', '<= 1' if limit else '',
             drain <= writer if limit else None)
    row(f'{name}: write(2) alone / writer', floor / writer, 'x')
    row(f'{name}: write(2) and that copy alone / writer', (floor + lines) / writer, 'x')
    return ok


def large_pages(build, folder):
    """Run the same on a tmpfs with large pages, in a separate mount namespace."""
    name = 'file on tmpfs of large pages'
    mount = ['unshare', '--map-root-user', '--mount', 'sh', '-c',
             'mount -t tmpfs -o huge=within_size tmpfs "$0" && exec "$@"', folder]
    if subprocess.run([*mount, 'true'], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        row(f'{name}: drain thread / writer', 'cannot run')
        return True
    found = offer(build, os.path.join(folder, 'bench.nettrace'), 10, mount)
    return compare_drain_with_writer(name, found)


def deliver(build, target, name):
    """
    Add rows for each rate, and points (rate, the drain thread's time). Return points, the highest
    rate in M/s without losses, and whether the drain thread's time is within its target.
    """
    points, most, ok = [], 0, True
    for rate in (1, 2, 5, 10, 20):
        found = offer(build, target, rate)
        lost, whole = found['lost'][0], found['offered'][0] >= 0.95 * rate
        row(f'{name}, {rate} M/s: lost, best of 5' + ('' if whole else ', and offered less'), lost,
            'events')
        points.append((found['offered'][0], found['drain thread per event'][0]))
        if rate == 10 and target != 'socket':
            ok = compare_drain_with_writer(name, found, name == 'file on tmpfs')
        most = rate if lost == 0 and whole else most
    found = offer(build, target, 0)
    row(f'{name}, at full speed: offered', found['offered'][0], 'M/s')
    row(f'{name}, at full speed: delivered', found['delivered'][0], 'M/s')
    row(f'{name}: bytes per event of 32 B', found['bytes per event'][0], 'B')
    return points, most, ok


def suite_delivery(build):
    """Measure the whole path to a file on tmpfs, a file on a disk, and a socket."""
    curves, most, ok = {}, {}, True
    with tempfile.TemporaryDirectory(dir=output_folder()) as memory, \
            tempfile.TemporaryDirectory(dir='/var/tmp') as disk, \
            memory_of_its_own(64 << 20 if measure.QUICK else 3 << 30):
        for name, target in (('file on tmpfs', os.path.join(memory, 'bench.nettrace')),
                             ('file on a disk', os.path.join(disk, 'bench.nettrace')),
                             ('socket', 'socket')):
            curves[name], most[name], within = deliver(build, target, name)
            ok &= within
        ok &= large_pages(build, memory)
    for name in ('file on a disk', 'socket'):
        row(f'{name}: most without a loss', most[name], 'M/s')
    ok &= row('file on tmpfs: most without a loss', most['file on tmpfs'], 'M/s', '>= 20',
              most['file on tmpfs'] >= 20)
    curve('Drain thread by rate', 'M/s', 'ns', curves)
    return ok


def suite_stall(build):
    """Stall the disk while events are written; compare the losses with those that the file
    reports."""
    curves, unreported = {}, 0
    with tempfile.TemporaryDirectory(dir=output_folder()) as folder:
        target = os.path.join(folder, 'bench.nettrace')
        for rate in (1,) if measure.QUICK else (1, 5):
            points = curves[f'{rate} M/s'] = []
            for ms in (10, 30) if measure.QUICK else (10, 30, 100, 300, 1000, 2000):
                found = figures([program(build, 'stall'), target, str(rate), str(ms)])
                lost = found['missing in the file'][0]
                points.append((ms, lost))
                unreported += abs(lost - found['reported in the file'][0])
                unreported += abs(lost - found['lost'][0])
            bridged = max((ms for ms, lost in points if lost == 0), default=0)
            row(f'longest stall without a loss, 64 MB, {rate} M/s', bridged, 'ms')
        curve('Events lost by a stall of the disk', 'ms', 'events', curves)
        found = figures([program(build, 'stall'), target, '1',
                         *(('30', '100') if measure.QUICK else ('1000', '3000'))])
        row('1 M/s, stall of 1,000 ms, block mode: lost', found['lost'][0], 'events')
        row('  longest delay of the writer', found['longest batch'][0], 'ms')
    return row('lost in stalls, missing in the file', unreported, 'events', '0', unreported == 0)


def suite_listener(build):
    found = figures([program(build, 'listener')])
    curve('CPU of an event delivered to listeners', 'listeners', 'ns',
          {'listeners': found.curves['listeners']})
    curve('CPU of a delivered event by bytes', 'bytes', 'ns',
          {name: found.curves[name] for name in ('listener', 'session without output')})
    row('delivered, minimum of all of these',
        min(share for _, share in found.curves['delivered to listeners']), '%')
    curve('Memory by listeners', 'listeners', 'kB',
          {'memory of listeners': found.curves['memory of listeners']})
    each_more('listener', found.curves['memory of listeners'], 'kB')
    return True


def suite_bytes(build):
    with tempfile.TemporaryDirectory(dir=output_folder()) as folder:
        curves = figures([program(build, 'bytes'), folder]).curves
    curve("Bytes of an event beyond its payload, by the payload's", 'bytes', 'B',
          {'one thread': curves['one thread']})
    curve('Bytes of an event beyond its payload, by threads', 'threads', 'B',
          {'alternating threads': curves['alternating threads']})
    most = max(more for bytes, more in curves['one thread'] if bytes <= 512)
    return row('bytes beyond the payload, one busy thread, up to 512 B', most, 'B', '<= 6',
               most <= 6)


def suite_starts(build):
    found = figures([program(build, 'starts'), *(['100'] if measure.QUICK else [])])
    curves = found.curves
    for what, label in (('sessions', 'sessions, its own one too'), ('MB', 'MB of rings'),
                        ('writers', 'threads that write meanwhile'),
                        ('threads', 'threads that are there')):
        curve(f'Start and stop by {label}', what, 'us',
              {name: curves[name] for name in (f'start, by {what}', f'stop, by {what}')})
    curve('First event of each thread', 'threads', 'us',
          {'first event of each thread': curves['first event of each thread']})
    memory = curves['session and threads alive']
    curve('Memory by threads that are there', 'threads', 'kB', {'session and threads': memory})
    threads, kilobytes = memory[-1]
    if threads < 10000:
        row('10,000 threads alive, each wrote once, session of 1 MB', 'cannot run',
            target='ring + 1 MB')
        return True
    return row('10,000 threads alive, each wrote once, session of 1 MB', kilobytes, 'kB',
               'ring + 1 MB', kilobytes <= 2048)


def suite_memory(build):
    found = figures([program(build, 'memory')])
    curves = found.curves
    curve('Memory by providers and series', 'providers or series', 'kB', {
        name: curves[name] for name in
        ('providers', 'series of a counter', 'series of a histogram, a value in each')})
    each_more('provider', curves['providers'], 'kB')
    each_more('series of a counter', curves['series of a counter'], 'kB')
    each_more('series of a histogram', curves['series of a histogram, a value in each'], 'kB')
    curve('Memory by sessions', 'sessions', 'kB',
          {'sessions without events': curves['sessions without events']})
    each_more('session without events', curves['sessions without events'], 'kB')
    for name, (value, unit) in found.items():
        row(name, value, unit)
    return True


SUITES = {
    'sizes': suite_sizes,
    'many': suite_many,
    'latency': suite_latency,
    'delivery': suite_delivery,
    'stall': suite_stall,
    'bytes': suite_bytes,
    'listener': suite_listener,
    'starts': suite_starts,
    'memory': suite_memory,
}
