# SPDX-License-Identifier: MIT
"""A run's outputs: results.json, results.md, and a plot in SVG for each curve."""

import json
import os
import platform
import re
import shutil
import subprocess

from measure import number


def first_line(*command):
    """What a program says about itself, or None where it is missing."""
    if not shutil.which(command[0]):
        return None
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False).stdout
    return output.strip().split('\n')[0]


def debian(package):
    version = first_line('dpkg-query', '-W', '-f', '${Version}', package)
    return version if version and 'no packages' not in version else None


def machine():
    """The machine, and the versions of what takes part."""
    model = 'unknown processor'
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            if line.startswith('model name'):
                model = line.split(':', 1)[1].strip()
                break
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    versions = {
        'kernel': platform.release(), 'libc': ' '.join(platform.libc_ver()),
        'gcc': first_line('gcc', '-dumpfullversion'), 'clang': first_line('clang', '-dumpversion'),
        'LTTng-UST': debian('liblttng-ust-dev'), 'spdlog': debian('libspdlog-dev'),
        'bpftrace': first_line('bpftrace', '--version'),
        '.NET SDK': first_line('dotnet', '--version'),
    }
    return {'processor': model, 'cpus': os.cpu_count(), 'memory GiB': round(memory),
            'versions': {name: text for name, text in versions.items() if text}}


def kind(about):
    """The name of a folder for such machines."""
    text = f"{about['processor']} {about['cpus']} cpus".lower()
    return re.sub(r'[^a-z0-9]+', '-', text).strip('-')


def plot_name(plot):
    return re.sub(r'[^a-z0-9]+', '-', plot['title'].lower()).strip('-') + '.svg'


def draw(plot, target):
    """Return: False without gnuplot."""
    if not shutil.which('gnuplot'):
        return False
    lines = [f'set terminal svg size 720,420 font "sans,12" background "white"',
             f'set output "{target}"', f'set title "{plot["title"]}"',
             f'set xlabel "{plot["x"]}"', f'set ylabel "{plot["y"]}"', 'set grid',
             'set key left top', 'set logscale xy']
    for index, points in enumerate(plot['curves'].values()):
        # On a logarithmic scale there is no zero.
        drawn = [f'{x} {y}' for x, y in points if x > 0 and y > 0]
        lines += [f'$data{index} << END', *drawn, 'END']
    lines.append('plot ' + ', '.join(
        f'$data{index} with linespoints title "{label}"'
        for index, label in enumerate(plot['curves'])))
    subprocess.run(['gnuplot'], input='\n'.join(lines) + '\n', text=True, check=True)
    return True


def table(rows):
    lines = ['| figure | value | unit | quartiles | target | |',
             '| --- | ---: | --- | --- | --- | --- |']
    for row in rows:
        value = row['value'] if isinstance(row['value'], str) else number(row['value'])
        spread = row['spread']
        around = f"{number(spread[0])} to {number(spread[-1])}" if spread else ''
        lines.append(f"| {row['name']} | {value} | {row['unit']} | {around} | {row['target']} | "
                     f"{row['verdict']} |")
    return lines


def markdown(results):
    about = results['machine']
    lines = [f"# {about['processor']}, {about['cpus']} CPUs, {about['memory GiB']} GiB", '',
             'Written by `scripts/bench`; [performance.md](../../../doc/performance.md) says what',
             'each figure means and how it was taken.', '']
    lines += [f'- {name}: {text}' for name, text in about['versions'].items()]
    for name, suite in results['suites'].items():
        lines += ['', f'## {name}', '', *table(suite['rows'])]
        for plot in suite['plots']:
            lines += ['', f"![{plot['title']}]({plot_name(plot)})"]
    return '\n'.join(lines) + '\n'


def write(folder, about, suites):
    """Puts the suites in the place of what an earlier run said about them."""
    path = os.path.join(folder, 'results.json')
    results = {'suites': {}}
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            results = json.load(file)
    results['machine'] = about
    for suite in suites:
        results['suites'][suite.name] = {'rows': suite.rows, 'plots': suite.plots}
        for plot in suite.plots:
            if not draw(plot, os.path.join(folder, plot_name(plot))):
                print('no plots: gnuplot is missing')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(results, file, indent=1)
        file.write('\n')
    with open(os.path.join(folder, 'results.md'), 'w', encoding='utf-8') as file:
        file.write(markdown(results))
