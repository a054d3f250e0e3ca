#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""All tests of the module with redis, in Debian's Valkey, whose filters get the client's id."""
import os
import subprocess
import sys
import unittest

import redis_case
import redis_long_test
import redis_test
from redis_case import BUILD, HERE, PATIENCE

SETUP = os.path.join(HERE, "..", "..", "scripts", "setup-valkey")


class ValkeyTest(redis_test.RedisTest):
    def test_the_server_is_valkey_and_its_filters_get_ids_of_clients(self):
        server = self.serve()
        self.assertIn("valkey_version", server.info("server"))
        self.assertEqual(server.info("ringpipe")["ringpipe_client_ids"], "1")
        client = server.connect()
        with self.recording(server, "--providers", "redis:1") as events:
            number = int(client.run("client", "id").lstrip(":"))
            client.run("get", "a")
        client.close()
        self.assertEqual([start["client"] for start in self.of_name(events, "commandStart")
                          if start["command"] == "get"], [number])


class ValkeyLongTest(redis_long_test.RedisLongTest):
    pass


class PackageTest(unittest.TestCase):
    done = None

    def test_the_packages_of_valkey_can_be_downloaded(self):
        if self.done.returncode == 77:
            self.skipTest(self.done.stderr.strip())
        self.assertEqual(self.done.returncode, 0, self.done.stderr)


def run():
    done = subprocess.run([SETUP, BUILD], check=False, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=5 * PATIENCE)
    PackageTest.done = done
    ValkeyTest.program = ValkeyLongTest.program = done.stdout.strip()
    # Without the packages, the first test is skipped and no other runs.
    cases = (PackageTest, ValkeyTest, ValkeyLongTest)[:1 if done.returncode else None]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    redis_case.main(run)
