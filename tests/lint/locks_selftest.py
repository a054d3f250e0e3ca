#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Shows that locks.py reports the fault of locks_fault.c, and nothing else.

usage: locks_selftest.py LOCKS LIBRARY
"""
import subprocess
import sys

locks, library = sys.argv[1:]
reported = subprocess.run([sys.executable, locks, library], stdout=subprocess.PIPE, text=True,
                      check=False).stdout
print(reported, end='')
fault = [line for line in reported.splitlines() if 'dlsym() under' in line]
sys.exit(0 if len(fault) == 1 and 'find < locks_fault_find' in fault[0] and
         'dlopen()' not in reported else 1)
