#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent reports exactly the events that were lost, counted by gaps in serial numbers.

overload_host.c writes more than a session of 1 MB holds. Environment: INTEROP_BUILD, OVERLOAD_HOST,
RINGPIPE.
"""

import json
import os
import subprocess
import threading
import unittest

import clients
import drive
from ipc_host import OK, Host, eventually, message, provider, reply_of, stop

HOST = os.environ["OVERLOAD_HOST"]
EVENTS = 200000		# minimum for each writer


class Losses(clients.Scratch):
    def check(self, trace, writers):
        """Compare four counts: gaps, TraceEvent, the EventsLost events, ringpipe's own reader."""
        rows, summary = clients.TraceRead().events(trace)
        arrived = [[] for _ in writers]
        for row in rows:
            if row["provider"] == "Overload-Host":
                arrived[row["fields"]["writer"]].append(row["fields"]["serial"])
        missing = 0
        for serials, writer in zip(arrived, writers):
            self.assertEqual(serials, sorted(set(serials)), "a thread's order, each once")
            self.assertTrue(not serials or serials[-1] < writer["offered"])
            self.assertEqual(writer["offered"] - len(serials), writer["refused"])
            missing += writer["offered"] - len(serials)
        self.assertGreater(missing, 0, "nothing was lost: no overload")
        self.assertEqual(summary["events_lost"], missing, "TraceEvent")
        self.assertEqual(clients.reported_losses(rows), missing, "EventsLost events")
        report = drive.report(os.environ["RINGPIPE"], trace)
        self.assertEqual(report["lost"], missing, "ringpipe report")
        self.assertEqual(sum(row["count"] for row in report["lost_by"]), missing)
        return missing

    def test_losses_of_an_own_session_are_reported_exactly(self):
        trace = self.path("own.nettrace")
        done = subprocess.run([HOST, str(EVENTS), trace], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=True, timeout=300)
        books = json.loads(done.stdout)
        missing = self.check(trace, books["writers"])
        self.assertEqual(books["lost"], missing)
        self.assertEqual(books["delivered"] + missing,
                         sum(writer["offered"] for writer in books["writers"]))

    def test_losses_of_dotnet_trace_are_reported_exactly(self):
        trace = self.path("attached.nettrace")
        with subprocess.Popen([HOST, str(EVENTS)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as host:
            try:
                pid = int(host.stdout.readline())
                with clients.Collection(pid, trace, "Overload-Host:ffffffffffffffff:5",
                                        "--buffersize", "1") as collection:
                    books = json.loads(host.stdout.readline())
                    collection.stop()
            except BaseException:
                host.kill()
                raise
            finally:
                host.stdin.close()
        self.assertEqual(host.returncode, 0)
        self.check(trace, books["writers"])

    def test_losses_of_a_tree_are_reported_exactly(self):
        trace = self.path("tree.nettrace")
        done = subprocess.run([os.environ["RINGPIPE"], "collect", "--tree", "--buffer", "1", "-o",
                               trace, "--", HOST, str(EVENTS)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=True, timeout=300)
        self.check(trace, json.loads(done.stdout.splitlines()[1])["writers"])

    def test_a_client_that_reads_nothing_loses_alone(self):
        """Both sessions exist before the first event."""
        host = Host(str(EVENTS), prefix=[HOST], waits=True,
                    settings={"DOTNET_DefaultDiagnosticPortSuspend": "1"})
        self.addCleanup(host.close)
        wanted = provider("Overload-Host")
        (slow, slow_id), (fast, fast_id) = (host.collect(wanted, mb=mb) for mb in (1, 64))
        self.addCleanup(slow.close)
        reader = threading.Thread(target=self.keep, args=(fast, "fast"))
        reader.start()
        try:
            self.assertEqual(host.ask(message(0x04, 0x01))[0], OK)
            self.assertEqual(int(host.process.stdout.readline()), host.pid)
            books = json.loads(host.process.stdout.readline())
            offered = sum(writer["offered"] for writer in books["writers"])
            fast_stats = eventually(lambda: self.settled(host, fast_id, offered), "its last event")
            slow_stats = host.stats(slow_id)
            self.assertGreater(slow_stats["lost"], 0)
            self.assertGreater(fast_stats["delivered"], slow_stats["delivered"])
            # It can still request the end, and read the available data.
            stops = [host.send(stop(number)) for number in (fast_id, slow_id)]
            self.keep(slow, "slow")
            for connection in stops:
                self.assertEqual(reply_of(connection)[0], OK)
                connection.close()
        finally:
            host.process.kill()
            reader.join()
        for name in ("fast", "slow"):
            report = drive.report(os.environ["RINGPIPE"], self.path(name))
            delivered = sum(kind["events"] for row in report["providers"] for kind in row["kinds"]
                            if row["name"] == "Overload-Host")
            self.assertEqual(delivered + report["lost"], offered, name)

    def keep(self, stream, name):
        with open(self.path(name), "wb") as file, stream:
            while piece := stream.recv(1 << 16):
                file.write(piece)

    @staticmethod
    def settled(host, session, offered):
        stats = host.stats(session)
        return stats if stats["delivered"] + stats["lost"] >= offered else None


if __name__ == "__main__":
    clients.main(clients.trace_read_command, clients.dotnet_trace_command)
