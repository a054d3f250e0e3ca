#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compares the stats of a session to a slow peer with the whole events that the peer received.

usage: delivered_test.py PROGRAM [unittest arguments]
"""
import random
import select
import socket
import struct
import subprocess
import sys
import time
import unittest

from whole_events import whole_events

PROGRAM = None
PATIENCE_S = 120
PROVIDER = "Test-Delivered"


class Session:
    """The program, its stream, and the part of the stream that was read."""

    def __init__(self, threads, buffer):
        self.peer, end = socket.socketpair()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        self.peer.setblocking(False)
        self.received = bytearray()
        self.process = subprocess.Popen([PROGRAM, str(end.fileno()), str(threads)], text=True,
                                        pass_fds=[end.fileno()], bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        end.close()

    def send(self, line):
        self.process.stdin.write(line + "\n")

    def answer(self):
        return [int(word) for word in self.process.stdout.readline().split() if word.isdigit()]

    def ask(self, line):
        self.send(line)
        return self.answer()

    def read(self, most):
        """Reads up to `most` available bytes. Returns their number; 0 at the end."""
        if not select.select([self.peer], [], [], PATIENCE_S)[0]:
            raise TimeoutError("nothing to read")
        piece = self.peer.recv(most)
        self.received += piece
        return len(piece)

    def read_all(self):
        while self.read(1 << 20):
            pass

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.peer.close()
        return self.process.wait(PATIENCE_S)


class Delivered(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(self.id())

    def open(self, threads=3, buffer=4096):
        session = Session(threads, buffer)
        self.addCleanup(session.close)
        return session

    def wait_for(self, session, wanted, read=0):
        """Waits for stats that `wanted` accepts. With `read`, the peer reads meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while not wanted(stats := session.ask("stats")):
            self.assertLess(time.monotonic(), end, stats)
            if read and select.select([session.peer], [], [], 0.01)[0]:
                session.read(read)
        return stats

    def check_payloads(self, payloads):
        """Checks that each thread's serials increase, so that no event appears twice."""
        last = {}
        for payload in payloads:
            thread, serial = struct.unpack_from("<QQ", payload)
            self.assertLess(last.get(thread, -1), serial)
            last[thread] = serial

    def check_end(self, session, offered, is_exact=True):
        """After the stop: the peer has all delivered events, and all others are lost."""
        delivered, lost, error = session.ask("stop")
        session.read_all()
        payloads, ended = whole_events(bytes(session.received), PROVIDER)
        self.assertEqual(len(payloads), delivered)
        self.check_payloads(payloads)
        if is_exact:
            self.assertEqual(delivered + lost, offered)
        else:
            # Each thread may have been in a write when the session ended.
            self.assertLessEqual(delivered + lost, offered)
            self.assertGreaterEqual(delivered + lost + 3, offered)
        return delivered, lost, error, ended

    def test_delivered_moves_while_a_slow_peer_reads(self):
        session = self.open()
        session.ask("start")
        before = 0
        for _ in range(5):
            stats = self.wait_for(session, lambda stats, old=before: stats[0] > old,
                                  read=self.random.randrange(1, 30000))
            before = stats[0]
        offered, = session.ask("pause")
        # When the rings are empty, every event is in one of the two sums.
        delivered, lost, error = self.wait_for(session, lambda stats: sum(stats) == offered,
                                               read=1 << 20)
        self.assertEqual(error, 0)
        payloads, ended = whole_events(bytes(session.received), PROVIDER)
        self.assertFalse(ended)
        while len(payloads) < delivered:
            session.read(1 << 20)
            payloads, ended = whole_events(bytes(session.received), PROVIDER)
        self.assertEqual(len(payloads), delivered)
        session.send("stop")
        session.read_all()
        self.assertEqual(session.answer(), [delivered, lost, 0])
        self.assertTrue(whole_events(bytes(session.received), PROVIDER)[1])

    def test_delivered_is_what_a_peer_has_that_stops_reading(self):
        session = self.open()
        session.ask("start")
        while len(session.received) < 300000:
            session.read(self.random.randrange(1, 5000))
        # The peer stops reading: the socket buffer, the sink and the rings fill up.
        stuck = self.wait_for(session, lambda stats: stats[1] > 0)
        self.assertGreater(stuck[0], 0)
        offered, = session.ask("pause")
        delivered, lost, error, ended = self.check_end(session, offered)
        self.assertEqual((error, ended), (110, False))
        self.assertGreaterEqual(delivered, stuck[0])
        self.assertGreater(lost, 0)

    def test_delivered_is_what_a_peer_has_that_goes(self):
        for kept in (200, 5000, 100000, 1000000):
            with self.subTest(kept=kept):
                session = self.open(buffer=self.random.choice([4096, 30000, 200000]))
                session.ask("start")
                while len(session.received) < kept:
                    session.read(self.random.randrange(1, kept))
                # The peer can still read the bytes in the socket; the next write fails.
                session.peer.shutdown(socket.SHUT_RD)
                self.wait_for(session, lambda stats: stats[2] == 32)
                offered, = session.ask("pause")
                _, lost, error, ended = self.check_end(session, offered, is_exact=False)
                self.assertEqual((error, ended), (32, False))
                self.assertGreater(lost, 0)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
