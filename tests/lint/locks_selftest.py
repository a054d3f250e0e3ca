#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Shows that locks.py reports the faults of locks_fault.c and locks_fault_module.c, and no others.

usage: locks_selftest.py LOCKS LIBRARY MODULE
"""
import subprocess
import sys

locks, library, module = sys.argv[1:]
reported = subprocess.run([sys.executable, locks, library, '--module', module],
                          stdout=subprocess.PIPE, text=True, check=False).stdout
print(reported, end='')
faults = [line for line in reported.splitlines() if 'dlsym() under' in line]
sys.exit(0 if len(faults) == 2 and 'dlopen()' not in reported and
         all(any(chain in line for line in faults)
             for chain in ('find < locks_fault_find', 'find < on_add')) else 1)
