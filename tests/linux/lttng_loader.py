#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs the stress test of the loader while a daemon of LTTng records the libraries' events.

usage: lttng_loader.py LOADER LIBRARY...
"""
import os
import shutil
import subprocess
import sys

from lttng_daemon import Daemon, user


def skip_reason():
    for program in ('lttng', 'lttng-sessiond'):
        if not shutil.which(program):
            return f'no {program} (lttng-tools)'
    if not os.path.exists(os.environ['MODULE']):
        return 'built without LTTng'
    program = os.path.abspath(sys.argv[1])
    if subprocess.run(['test', '-x', program], check=False, **user()).returncode != 0:
        return 'the build is closed to the user nobody'
    return None


def main():
    reason = skip_reason()
    if reason:
        print(f'1..0 # SKIP {reason}')
        sys.exit(0)
    program = [os.path.abspath(path) for path in sys.argv[1:]]
    daemon = Daemon()
    try:
        daemon.start()
        trace = os.path.join(daemon.home, 'trace')
        daemon.run('create', 'loader', f'--output={trace}')
        # The buffers of a process are written when it ends.
        daemon.run('enable-channel', '--userspace', '--buffers-pid', 'libraries')
        daemon.run('enable-event', '--userspace', '--channel=libraries', 'Loader-Library-*')
        daemon.run('start')
        status = subprocess.run(program, check=False, cwd=daemon.home,
                                env={**daemon.environment, 'LOADER_TRACE': trace},
                                **user()).returncode
    finally:
        daemon.stop()
    sys.exit(status)


if __name__ == '__main__':
    main()
