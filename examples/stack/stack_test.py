#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trace ids of requests cross all servers in one recording."""
import os
import sys
import tempfile
import unittest

import stack


class StackTest(unittest.TestCase):
    def test_traces_cross_all_servers_that_have_a_module(self):
        with tempfile.TemporaryDirectory() as out:
            os.chmod(out, 0o755)
            self.assertGreater(stack.main(os.environ["BUILD"], out, 1), 0)


if __name__ == "__main__":
    if reason := stack.missing():
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main()
