#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Debian's redis-server gives the same replies with the in-box providers as without.

Environment: as in inbox.py.
"""
import os
import shutil
import signal
import socket
import subprocess
import unittest

from inbox import INBOX, InboxTest, named, oracle
from tool import PATIENCE

COMMANDS = [
    *(f"SET key:{i} {'x' * (i * 7 % 4000)}" for i in range(3000)),
    *(f"GET key:{i}" for i in range(0, 3000, 3)),
    *(f"LPUSH list {i}" for i in range(500)), "LRANGE list 0 -1", "INCRBY number 41",
    *(f"HSET hash field:{i} {i}" for i in range(500)), "HLEN hash", "SADD set a b c d",
    'EVAL "local n = 0; for i = 1, 1000 do n = n + #tostring(i) end; return n" 0',
    *(f"DEL key:{i}" for i in range(0, 3000, 2)), "DBSIZE", "NOSUCHCOMMAND", "FLUSHALL", "DBSIZE",
]
PROVIDERS = "ringpipe-heap::4:SampleBytes=4096,ringpipe-locks,ringpipe-threads,ringpipe-process," \
    "ringpipe-signals,ringpipe-loader,ringpipe-syslog,ringpipe-exceptions"


@unittest.skipUnless(shutil.which("redis-server"), "redis-server is not installed")
class Redis(InboxTest):
    def replies(self, name, **settings):
        folder = self.path(name)
        os.mkdir(folder)
        path = os.path.join(folder, "socket")
        with open(os.path.join(folder, "log"), "wb") as log:
            server = subprocess.Popen(
                ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save",
                 "", "--io-threads", "2"], env={**self.environment, **settings}, stdout=log,
                stderr=subprocess.STDOUT)
        self.addCleanup(self.reap, server)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            self.wait_until(lambda: server.poll() is not None or client.connect_ex(path) == 0)
            client.sendall("".join(command + "\r\n" for command in COMMANDS).encode())
            client.sendall(b"ECHO the-end\r\n")
            data = b""
            while not data.endswith(b"$7\r\nthe-end\r\n"):
                part = client.recv(1 << 20)
                self.assertTrue(part, "the server closed the connection")
                data += part
            # A save forks, and the end of the server is a signal.
            client.sendall(b"BGSAVE\r\n")
            client.recv(1000)
            self.wait_until(lambda: os.path.exists(os.path.join(folder, "dump.rdb")))
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(PATIENCE), 0)
        return data

    def test_replies_are_the_same_with_events(self):
        without = self.replies("without")
        self.assertGreater(len(without), 1000000)
        self.assertEqual(self.replies("off", LD_PRELOAD=INBOX), without)
        trace = self.path("redis.nettrace")
        self.assertEqual(self.replies("on", LD_PRELOAD=INBOX, RINGPIPE_CONFIG=PROVIDERS,
                                      RINGPIPE_OUTPUT=trace, RINGPIPE_BUFFER_MB="64"), without)
        events = oracle.Trace(self.read("redis.nettrace")).events
        for provider, name in (("ringpipe-heap", "allocated"), ("ringpipe-heap", "freed"),
                               ("ringpipe-threads", "started"), ("ringpipe-process", "forked"),
                               ("ringpipe-signals", "delivered")):
            self.assertGreater(len(named(events, provider, name)), 0, name)
        self.assertEqual([event["fields"]["signal"]
                          for event in named(events, "ringpipe-signals", "delivered")][-1],
                         signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
