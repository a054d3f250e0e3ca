#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ways to request a session over the socket: collect_test.py HOST"""
import os
import struct
import sys
import unittest

from ipc_host import (Host, OK, eventually, message, provider, provider_with_filter,
                      receive, reply_of, stop)

HOST = None
STREAM_BYTES_MAX = 1 << 30


class Collect(unittest.TestCase):
    def setUp(self):
        self.host = Host(HOST)
        self.addCleanup(self.host.close)

    def wait_for_events(self, session):
        eventually(lambda: self.host.stats(session)["delivered"] > 0, "an event of the host")

    def recorded(self, session, stream):
        """Stop the session. Return its whole stream."""
        with self.host.send(stop(session)) as stopper:
            bytes_of_stream = receive(stream, STREAM_BYTES_MAX)
            self.assertEqual(reply_of(stopper)[0], OK)
        self.assertTrue(bytes_of_stream.startswith(b"Nettrace"), bytes_of_stream[:20])
        return bytes_of_stream

    def test_every_version_of_collect_starts_a_session(self):
        p = provider("Ipc-Host")
        requests = {
            0x02: struct.pack("<III", 16, 1, 1) + p,
            0x03: struct.pack("<IIBI", 16, 1, 0, 1) + p,
            0x04: struct.pack("<IIBBI", 16, 1, 0, 0, 1) + p,
            0x05: struct.pack("<IIQBI", 16, 1, 0, 0, 1) + p,
            0x06: struct.pack("<IIIQBI", 0, 16, 1, 0, 0, 1) + provider_with_filter("Ipc-Host"),
        }
        for command, payload in requests.items():
            with self.host.send(message(0x02, command, payload)) as stream:
                hresult, payload = reply_of(stream)
                self.assertEqual(hresult, OK, command)
                session, = struct.unpack("<Q", payload)
                self.wait_for_events(session)
                self.assertIn("tick".encode("utf-16-le"), self.recorded(session, stream))

    def test_filter_of_event_ids_chooses_the_events(self):
        for enable, ids, wanted, unwanted in ((1, (2, 77), "reported", "tick"),
                                              (0, (2,), "tick", "reported")):
            request = struct.pack("<IIIQBI", 0, 16, 1, 0, 0, 1) + \
                provider("Ipc-Host", arguments="k=v") + \
                struct.pack(f"<BI{len(ids)}I", enable, len(ids), *ids)
            with self.host.send(message(0x02, 0x06, request)) as stream:
                session, = struct.unpack("<Q", reply_of(stream)[1])
                # Another session gets both, so the first one could have got them too.
                other, other_session = self.host.collect(provider("Ipc-Host"))
                self.addCleanup(other.close)
                self.wait_for_events(other_session)
                self.wait_for_events(session)
                recorded = self.recorded(session, stream)
                self.assertIn(wanted.encode("utf-16-le"), recorded)
                self.assertNotIn(unwanted.encode("utf-16-le"), recorded)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: collect_test.py HOST [unittest arguments]")
    HOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
