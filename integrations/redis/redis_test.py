#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module in Debian's redis: the trace holds the commands that the server counts."""
import subprocess

import redis_case
from redis_case import PATIENCE, RedisCase


class RedisTest(RedisCase):
    def benchmark(self, server, *options):
        subprocess.run(["redis-benchmark", "-p", str(server.port), "-q", *options], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE)

    def test_every_command_has_a_span_and_the_counts_equal_commandstats(self):
        server = self.serve()
        with self.recording(server, "--providers", "redis:1") as events:
            server.run("config", "resetstat")
            self.benchmark(server, "-n", "5000", "-P", "16", "-t", "set,get,lpush,mset")
            self.benchmark(server, "-n", "1000", "eval", "return redis.call('incr', 'n')", "0")
            counts = server.command_stats()
        spans = self.counts(events)
        self.assertEqual(spans, self.counts(events, "commandStart"))
        # The server counts the reset after it. INFO and the two PINGs are after the counts.
        self.assertEqual(spans.pop("info"), 1)
        self.assertEqual(spans.pop("ping"), 2)
        self.assertEqual(spans, counts)
        self.assertEqual(counts["incr"], 1000)


if __name__ == "__main__":
    redis_case.main()
