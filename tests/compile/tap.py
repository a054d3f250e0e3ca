# SPDX-License-Identifier: MIT
"""Judges the cases of a script in this folder, and prints the verdicts as TAP."""
import concurrent.futures
import os
import tempfile


def judge(jobs, verdict):
    """Return [verdict(folder, number, *job)] of all jobs, with a temporary folder, in parallel."""
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda row: verdict(folder, row[0], *row[1]), enumerate(jobs)))


def report(rows, missing=""):
    """Print a line for each row (name, wrong). `wrong` is '' for nothing, or None for a case that
    is skipped because of `missing`. Return the exit status: 1 if a case failed or none exists."""
    number, failed = 0, False
    print("TAP version 13")
    for number, (name, wrong) in enumerate(rows, 1):
        failed = failed or bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - {name}" +
              (f" # SKIP {missing}" if wrong is None else ""))
        for line in (wrong or "").splitlines():
            print("# " + line)
    print(f"1..{number}")
    return 1 if failed or number == 0 else 0
