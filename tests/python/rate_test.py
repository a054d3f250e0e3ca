#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python module reads the same from a long trace as the reader in C. Reports both rates.

Environment: READING, the program in C.
"""
import os
import subprocess
import tempfile
import time
import unittest

import ringpipe

import traces

BLOCKS = 300


def count_events(path):
    return sum(1 for _ in ringpipe.open(path)), 0


def sum_one_field(path):
    count = total = 0
    for count, event in enumerate(ringpipe.open(path), 1):
        total += event["order_id"]
    return count, total


def sum_of_all_fields(path):
    count = total = 0
    for count, event in enumerate(ringpipe.open(path), 1):
        total += event.fields["order_id"]
    return count, total


def in_c(path, *field):
    out = subprocess.run([os.environ["READING"], path, *field], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    count, total, us = map(int, out.split())
    return (count, total), count / us


def in_python(function, path):
    begun = time.process_time()
    result = function(path)
    return result, result[0] / (time.process_time() - begun) / 1e6


class Rate(unittest.TestCase):
    def test_python_reads_the_same_numbers_as_c(self):
        with tempfile.NamedTemporaryFile(suffix=".nettrace") as file:
            file.writelines(traces.long_trace(BLOCKS, range(2**40, 2**40 + 1000)))
            file.flush()
            events, c_rate = in_c(file.name)
            one, c_one_rate = in_c(file.name, "order_id")
            self.assertEqual(events, (BLOCKS * 1000, 0))
            self.assertEqual(one, (BLOCKS * 1000, BLOCKS * (2**40 * 1000 + 999 * 500)))
            rates = []
            for function, expected in ((count_events, events), (sum_one_field, one),
                                       (sum_of_all_fields, one)):
                result, rate = in_python(function, file.name)
                self.assertEqual(result, expected)
                rates.append(rate)
        print("# figure: million events per second of CPU time: C {:.1f}, with a field {:.1f}; "
              "Python {:.1f}, with a field {:.1f}, with all fields as a dictionary {:.1f}"
              .format(c_rate, c_one_rate, *rates))


if __name__ == "__main__":
    unittest.main()
