#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module where redis is a daemon, or has few rights."""
import os
from unittest import mock

import redis_case
from redis_case import HERE, RedisCase, drive

from integrations import restrictions  # redis_case has added the path


class RedisHostingTest(restrictions.UnitTests, RedisCase):
    unit = os.path.join(HERE, "redis.service")

    def setUp(self):
        super().setUp()
        self.visible = self.build

    def check_spans(self, server):
        with self.recording(server) as events:
            server.run("get", "a")
            server.run("bgsave")
            drive.wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "0",
                           "the end of the child", [server.process])
        self.assertEqual(self.counts(events)["get"], 1)
        self.assertEqual([event["state"] for event in self.of_name(events, "persistence")],
                         ["started", "ended"])

    def trace_restricted(self, wrapper, sockets, preexec_fn):
        server = self.serve(wrapper=wrapper, preexec_fn=preexec_fn, env=dict(
            os.environ, LD_LIBRARY_PATH=self.library, TMPDIR=sockets))
        self.check_spans(server)
        return server.process.pid

    def trace_and_end(self, wrapper):
        # The tracer is another process (-D), so the server keeps its pid.
        server = self.serve(wrapper=[wrapper[0], "-D", *wrapper[1:]])
        self.check_spans(server)
        server.stop()

    def test_a_daemon_is_traced(self):
        server = self.serve("--daemonize", "yes", "--pidfile", self.folder + "/pid",
                            is_daemon=True)
        self.addCleanup(server.run, "shutdown", "nosave")
        self.assertEqual(server.process.wait(redis_case.PATIENCE), 0)
        with open(self.folder + "/pid", encoding="ascii") as file:
            daemon = mock.Mock(pid=int(file.read()), poll=lambda: None)
        with mock.patch.object(server, "process", daemon):
            self.check_spans(server)


if __name__ == "__main__":
    redis_case.main()
