#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trace ids of requests cross all servers in one recording."""
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import stack


class StackTest(unittest.TestCase):
    def test_traces_cross_all_servers_and_the_slowest_request_is_explained_in_each(self):
        with tempfile.TemporaryDirectory() as out, \
                mock.patch.object(stack.Stack, "start", autospec=True,
                                  side_effect=stack.Stack.start) as start:
            crossing, explained = stack.main(os.environ["BUILD"], out, 1)
        valkey = subprocess.run([stack.SETUP_VALKEY, os.environ["BUILD"]], check=False, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
        self.assertIn(valkey or "redis-server", [call.args[1][0] for call in start.mock_calls])
        self.assertGreater(crossing, 0)
        # An order that the cache has needs no PostgreSQL.
        self.assertLessEqual({"nginx", "Stack-App", "redis"}, explained)


if __name__ == "__main__":
    if reason := stack.missing():
        print("SKIP:", reason)
        sys.exit(77)
    unittest.main()
