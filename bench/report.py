# SPDX-License-Identifier: MIT
"""Writes a run's outputs: results.md, and a plot in SVG for each curve."""

import os
import platform
import re
import shutil
import subprocess

from measure import number

TARGETS = '## Targets'


def first_line(*command):
    """Return the version line of a program, or None if it is missing."""
    if not shutil.which(command[0]):
        return None
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False).stdout
    return output.strip().split('\n')[0]


def debian(package):
    version = first_line('dpkg-query', '-W', '-f', '${Version}', package)
    return version if version and 'no packages' not in version else None


def processor(lines):
    """
    Return fields of /proc/cpuinfo, including the family: a virtual machine may use one name for all
    models, and the relative cost of a clock read differs most between families.
    """
    about = {}
    for line in lines:
        name, _, text = line.partition(':')
        about.setdefault(name.strip(), text.strip())
    model = about.get('model name', 'unknown processor')
    return f"{model} (family {about['cpu family']})" if about.get('cpu family') else model


def machine():
    """Return the machine's description, and the versions of the programs involved."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    versions = {
        'kernel': platform.release(), 'libc': ' '.join(platform.libc_ver()),
        'gcc': first_line('gcc', '-dumpfullversion'), 'clang': first_line('clang', '-dumpversion'),
        'LTTng-UST': debian('liblttng-ust-dev'), 'spdlog': debian('libspdlog-dev'),
        'bpftrace': first_line('bpftrace', '--version'),
        '.NET SDK': first_line('dotnet', '--version'),
    }
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        model = processor(file)
    return {'processor': model, 'cpus': os.cpu_count(), 'memory GiB': round(memory),
            'versions': {name: text for name, text in versions.items() if text}}


def kind(about):
    """Return the name of a folder for machines of this kind."""
    text = f"{about['processor']} {about['cpus']} cpus".lower()
    return re.sub(r'[^a-z0-9]+', '-', text).strip('-')


def plot_name(plot):
    return re.sub(r'[^a-z0-9]+', '-', plot['title'].lower()).strip('-') + '.svg'


def draw(plot, target):
    """Return: False without gnuplot."""
    if not shutil.which('gnuplot'):
        return False
    lines = ['set terminal svg size 760,420 font "sans,12" background "white" linewidth 1.5',
             f'set output "{target}"', f'set title "{plot["title"]}"',
             f'set xlabel "{plot["x"]}"', f'set ylabel "{plot["y"]}"', 'set grid',
             'set key below', 'set logscale xy', 'set format "%g"']
    curves = {label: [f'{x} {y}' for x, y in points if x > 0 and y > 0]
              for label, points in plot['curves'].items()}
    curves = {label: drawn for label, drawn in curves.items() if drawn}
    for axis, place in (('x', 0), ('y', 1)):
        values = [float(point.split()[place]) for drawn in curves.values() for point in drawn]
        # Leave a margin, so that no point lies on the frame.
        lines.append(f'set {axis}range [{min(values) / 1.5}:{max(values) * 1.5}]')
    for index, drawn in enumerate(curves.values()):
        lines += [f'$data{index} << END', *drawn, 'END']
    lines.append('plot ' + ', '.join(f'$data{index} with linespoints title "{label}"'
                                     for index, label in enumerate(curves)))
    subprocess.run(['gnuplot'], input='\n'.join(lines) + '\n', text=True, check=True)
    return True


def text_of(value):
    return value if isinstance(value, str) else number(value)


def table(rows):
    lines = ['| figure | value | unit | quartiles | target | |',
             '| --- | ---: | --- | --- | --- | --- |']
    for row in rows:
        spread = row['spread']
        around = f'{text_of(spread[0])} to {text_of(spread[-1])}' if spread else ''
        lines.append(f"| {row['name']} | {text_of(row['value'])} | {row['unit']} | {around} | "
                     f"{row['target'] or row['growth']} | {row['verdict']} |")
    return lines


def targets(suites):
    """Return the rows of all suites that have a target, including rows without a value."""
    return [row for suite in suites.values() for row in suite['rows'] if row['target']]


def markdown(about, suites):
    lines = [f"# {about['processor']}, {about['cpus']} CPUs, {about['memory GiB']} GiB", '',
             'Written by `scripts/bench`; [performance.md](../../../doc/performance.md) says what',
             'each figure means and how it was taken.', '']
    lines += [f'- {name}: {text}' for name, text in about['versions'].items()]
    lines += ['', TARGETS, '', *table(targets(suites))]
    for name, suite in suites.items():
        lines += ['', f'## {name}', '', suite['taken'], '', *table(suite['rows'])]
    return '\n'.join(lines) + '\n'


def row_of(line):
    """Parse a line of a table, as table() writes it."""
    name, value, unit, around, target, verdict = (cell.strip() for cell in
                                                  line.strip('|').split('|'))
    grows = target.startswith('grows')
    spread = around.split(' to ') if around else []
    return {'name': name, 'value': value, 'unit': unit, 'spread': spread,
            'target': '' if grows else target, 'growth': target if grows else '',
            'verdict': verdict}


def read(path):
    """Parse the suites of a results.md, values as text: {name: {'taken': …, 'rows': […]}}."""
    suites = {}
    if not os.path.exists(path):
        return suites
    with open(path, encoding='utf-8') as file:
        sections = re.split(r'^## ', file.read(), flags=re.M)
    for section in sections[2:]:
        name, _, taken, _, _, _, *lines = section.rstrip('\n').split('\n')
        suites[name] = {'taken': taken, 'rows': [row_of(line) for line in lines if line]}
    return suites


def write(folder, about, suite, order):
    """Replace the suite's results of an earlier run; suites keep their order."""
    path = os.path.join(folder, 'results.md')
    os.makedirs(folder, exist_ok=True)
    suites = read(path)
    suites[suite.name] = {
        'taken': f'Taken on {suite.taken} in {suite.seconds:.0f} s; load average before it '
                 f'{suite.load:.1f}.', 'rows': suite.rows,
    }
    with open(path, 'w', encoding='utf-8') as file:
        file.write(markdown(about, {name: suites[name] for name in order if name in suites}))


def write_plots(folder, suite):
    """Write one SVG for each curve, named after its title."""
    os.makedirs(folder, exist_ok=True)
    for plot in suite.plots:
        if not draw(plot, os.path.join(folder, plot_name(plot))):
            print('no plots: gnuplot is missing')
            return
