#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dotnet-trace attaches to the shop under load; four independent counts of the events agree.

The counts come from the shop itself, its in-process listener, TraceEvent and `ringpipe report`.
Environment: INTEROP_BUILD, SHOP, RINGPIPE.
"""

import json
import os
import subprocess
import unittest

import clients
import drive

SHOP = os.environ["SHOP"]
RINGPIPE = os.environ["RINGPIPE"]
LOAD_S = 3
EVERYTHING = ",".join(f"{name}:ffffffffffffffff:5" for name in drive.PROVIDERS)


class DotnetTrace(clients.Scratch):
    @classmethod
    def setUpClass(cls):
        clients.need("wrk", "wrk is not installed")
        cls.dotnet_trace = clients.dotnet_trace_command()
        cls.trace_read = clients.TraceRead()

    def collect(self, shop, trace, sessions, providers=EVERYTHING):
        """Run the load during a collection. Return the offers, and the shop's counts afterwards."""
        with clients.Collection(shop.pid, trace, providers) as collection:
            shop.wait_for_sessions(sessions, [collection.process])
            before = shop.stats()
            drive.load(shop.url, LOAD_S)
            after = shop.wait_until_quiet()
            collection.stop()
        shop.wait_for_sessions(sessions - 1)
        self.assertEqual(drive.books(shop.stats()), drive.books(after), "load outside the session")
        offered = drive.difference(drive.books(before), drive.books(after))
        self.assertGreater(min(offered[key] for key in offered if key != ("Shop-Storage", 3)), 0)
        return offered, after

    def check_serials(self, rows, offered):
        """Check that each serial was drawn and occurs at most once. Return event -> number of
        missing ones."""
        serials = {key: [] for key in offered}
        for row in rows:
            if row["provider"] in drive.PROVIDERS:
                serials[row["provider"], row["id"]].append(row["fields"]["serial"])
        for key, seen in serials.items():
            self.assertEqual(len(set(seen)), len(seen), f"{key}: a serial number twice")
            self.assertTrue(not seen or max(seen) < offered[key], f"{key}: a number never drawn")
        return {key: offered[key] - len(seen) for key, seen in serials.items()}

    def check_requests(self, rows):
        """Start and stop of a request carry one activity, and so do the events in between."""
        paths, inside = {}, 0
        for row in rows:
            if (row["provider"], row["id"]) == ("Shop-Http", 1):
                self.assertIsNotNone(row["activity"])
                self.assertNotIn(row["activity"], paths)
                paths[row["activity"]] = row["fields"]["url_path"]
            elif (row["provider"], row["id"]) == ("Shop-Http", 2):
                self.assertEqual(row["fields"]["url_path"], paths[row["activity"]])
            elif row["provider"] == "Shop-Orders":
                self.assertIn(paths[row["activity"]], ("/buy", "/order"))
                inside += 1
        self.assertGreater(inside, 0)

    def test_four_witnesses_count_the_same(self):
        trace = self.path("shop.nettrace")
        with drive.shop(SHOP, "--db", self.path("shop.db"), "--listen") as shop:
            offered, after = self.collect(shop, trace, 2)
            self.assertEqual(sum(offered.values()), sum(drive.books(after).values()))

            def heard():
                stats = shop.stats()
                far = stats["listener"]["delivered"] + stats["listener"]["lost"]
                return far == sum(offered.values()) and stats
            stats = drive.wait_for(heard, "the listener's last event", [shop.process])
            self.assertEqual(drive.interrupt(shop.process), 0)
        rows, summary = self.trace_read.events(trace)
        missing = self.check_serials(rows, offered)
        counted = clients.counts(summary, drive.PROVIDERS)
        report = drive.report(RINGPIPE, trace)
        reported = {key: offered[key] - missing[key] for key in offered if offered[key]}
        self.assertEqual(counted, reported, "TraceEvent and the shop")
        self.assertEqual(drive.report_counts(report), counted, "ringpipe report and TraceEvent")
        self.assertEqual(summary["events_lost"], sum(missing.values()), "losses by TraceEvent")
        self.assertEqual(report["lost"], sum(missing.values()), "losses by ringpipe report")
        self.assertEqual(sum(drive.books(stats, "heard").values()), stats["listener"]["delivered"])
        if stats["listener"]["lost"] == 0:
            self.assertEqual(drive.books(stats, "heard"), offered, "the listener and the shop")
        if summary["events_lost"] == 0:
            self.check_requests(rows)

    def test_two_simultaneous_clients_see_the_same(self):
        traces = [self.path("dotnet-trace.nettrace"), self.path("ringpipe.nettrace")]
        command = [RINGPIPE, "collect", "-q", "-p", None, "-o", traces[1],
                   "--providers", ",".join(drive.PROVIDERS)]
        with drive.shop(SHOP, "--db", self.path("shop.db")) as shop:
            command[4] = str(shop.pid)
            with drive.running(command) as second:
                shop.wait_for_sessions(1, [second])
                offered, _ = self.collect(shop, traces[0], 2)
                self.assertEqual(drive.interrupt(second), 0)
        for trace in traces:
            rows, summary = self.trace_read.events(trace)
            missing = self.check_serials(rows, offered)
            self.assertEqual(summary["events_lost"], sum(missing.values()), trace)
            self.assertEqual(drive.report(RINGPIPE, trace)["lost"], sum(missing.values()), trace)

    def test_a_killed_shop_leaves_what_was_sent(self):
        trace = self.path("killed.nettrace")
        with drive.shop(SHOP) as shop:
            with clients.Collection(shop.pid, trace, EVERYTHING) as collection:
                shop.wait_for_sessions(1, [collection.process])
                def has_events():
                    drive.load(shop.url, 1)
                    return os.path.getsize(trace) > 100000
                drive.wait_for(has_events, "events in the file", [collection.process])
                shop.process.kill()
                shop.process.wait()
                collection.process.wait(drive.DEADLINE_S)
        done = subprocess.run([RINGPIPE, "report", "--format=json", trace],
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"stops before its end", done.stderr)
        report = json.loads(done.stdout)
        self.assertFalse(report["complete"])
        self.assertGreater(report["events"], 100)

    def test_keywords_and_levels_choose(self):
        trace = self.path("chosen.nettrace")
        with drive.shop(SHOP, "--db", self.path("shop.db")) as shop:
            # orders without rejections; requests; the non-verbose part of storage
            offered, _ = self.collect(shop, trace, 1,
                                      "Shop-Orders:1:5,Shop-Http:1:4,Shop-Storage:ff:4")
        summary = self.trace_read.summary(trace)
        self.assertEqual(summary["events_lost"], 0)
        self.assertEqual(clients.counts(summary, drive.PROVIDERS),
                         {key: offered[key] for key in offered if offered[key] and
                          key not in (("Shop-Orders", 2), ("Shop-Storage", 1))})

    def test_ps_lists_the_shop(self):
        with drive.shop(SHOP) as shop:
            done = subprocess.run([RINGPIPE, "ps"], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, check=True, timeout=60)
            for listed in (clients.dotnet_trace_ps(), done.stdout):
                self.assertRegex(listed, rf"(?m)^\s*{shop.pid}\s+.*\bshop\b")


if __name__ == "__main__":
    unittest.main()
