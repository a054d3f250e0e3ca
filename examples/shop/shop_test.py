#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the shop's replies, its error messages, and its counts.

Environment: SHOP, RINGPIPE.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import demo
import drive

SHOP = os.environ["SHOP"]
RINGPIPE = os.environ["RINGPIPE"]
FORM = "application/x-www-form-urlencoded"


def ask(shop, path, body=None, content_type=FORM, method=None):
    """Return status and JSON of a reply."""
    request = urllib.request.Request(shop.url + path, data=body, method=method,
                                     headers={"Content-Type": content_type} if body else {})
    try:
        with urllib.request.urlopen(request, timeout=drive.DEADLINE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def form(**fields):
    return urllib.parse.urlencode(fields).encode()


class Accounting(unittest.TestCase):
    """The demo's table reports differences."""

    KEY, OTHER = ("Shop-Http", 1), ("Shop-Http", 2)
    NAMES = {KEY: "request_start", OTHER: "request_stop"}

    def adds_up(self, offered, refused, traced, reported):
        with contextlib.redirect_stdout(io.StringIO()):
            return demo.print_table(dict(zip(self.NAMES, offered)), dict(zip(self.NAMES, refused)),
                                    dict(zip(self.NAMES, traced)), self.NAMES, reported)

    def test_what_adds_up_is_accepted(self):
        self.assertTrue(self.adds_up((10, 10), (0, 0), (10, 10), 0))
        self.assertTrue(self.adds_up((10, 10), (3, 0), (7, 10), 3))

    def test_what_does_not_is_refused(self):
        self.assertFalse(self.adds_up((10, 10), (0, 0), (9, 10), 0), "one is missing")
        self.assertFalse(self.adds_up((10, 10), (0, 0), (10, 11), 0), "one too many")
        self.assertFalse(self.adds_up((10, 10), (0, 0), (9, 11), 0), "one is taken for another")
        self.assertFalse(self.adds_up((10, 10), (3, 0), (7, 10), 2), "a loss was not reported")
        self.assertFalse(self.adds_up((10, 10), (0, 0), (10, 10), 1), "a loss that was none")


    def test_counters_that_differ_are_refused(self):
        def same(reported):
            with contextlib.redirect_stdout(io.StringIO()):
                return demo.print_counters({"a": 10, "b": 0}, reported)
        self.assertTrue(same({"a": 10.0, "b": 0.0}))
        self.assertFalse(same({"a": 11.0, "b": 0.0}))
        self.assertFalse(same({"a": 9.5, "b": 0.0}))
        self.assertFalse(same({"a": 10.0}))
        self.assertFalse(same({}))


class Shop(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-shop-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.database = os.path.join(self.directory, "shop.db")

    def booked(self, shop):
        stats = shop.wait_until_quiet()
        return {drive.names(stats)[key]: count for key, count in drive.books(stats).items()}

    def refused(self, *options):
        done = subprocess.run([SHOP, *options], stdin=subprocess.DEVNULL, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_orders_are_placed_and_found(self):
        with drive.shop(SHOP, "--db", self.database) as shop:
            self.assertEqual(ask(shop, "/"), (200, {"latest_order": 0}))
            self.assertEqual(ask(shop, "/order", form(customer="李雷 \"🛒\"", total="12.5")),
                             (201, {"order_id": 1}))
            self.assertEqual(ask(shop, "/buy?customer=Anna&total=3"), (201, {"order_id": 2}))
            self.assertEqual(ask(shop, "/order/1"),
                             (200, {"order_id": 1, "customer": "李雷 \"🛒\"", "total": 12.5}))
            self.assertEqual(ask(shop, "/"), (200, {"latest_order": 2}))
            self.assertEqual(self.booked(shop), {
                "request_start": 5, "request_stop": 5, "order_placed": 2, "order_rejected": 0,
                "query": 7, "commit": 2, "failed": 0})

    def test_bad_requests_get_clear_answers(self):
        with drive.shop(SHOP, "--db", self.database) as shop:
            self.assertEqual(ask(shop, "/order/1")[0], 404)
            self.assertEqual(ask(shop, "/nothing")[0], 404)
            self.assertEqual(ask(shop, "/", method="PUT")[0], 405)
            self.assertEqual(ask(shop, "/order", b"x", "text/plain")[0], 415)
            for number in ("x", "-1", "1x", "", "99999999999999999999", "9223372036854775808"):
                self.assertEqual(ask(shop, "/order/" + number)[0], 400, number)
            for fields, reason in (
                    ({"total": 1}, "no customer"),
                    ({"customer": "a" * 201, "total": 1}, "the customer's name is too long"),
                    ({"customer": "a"}, "the total is not a number"),
                    ({"customer": "a", "total": "1x"}, "the total is not a number"),
                    ({"customer": "a", "total": "inf"}, "the total is not a number"),
                    ({"customer": "a", "total": 0}, "the total is not positive")):
                self.assertEqual(ask(shop, "/order", form(**fields)), (422, {"error": reason}))
            booked = self.booked(shop)
            self.assertEqual([booked["order_rejected"], booked["order_placed"]], [6, 0])
            self.assertEqual(booked["request_start"], booked["request_stop"])

    def test_a_locked_database_is_an_error_and_booked(self):
        with drive.shop(SHOP, "--db", self.database) as shop:
            other = sqlite3.connect(self.database, isolation_level=None)
            self.addCleanup(other.close)
            other.execute("BEGIN IMMEDIATE")
            self.assertEqual(ask(shop, "/buy"), (500, {"error": "storage failed"}))
            other.execute("ROLLBACK")
            self.assertEqual(ask(shop, "/buy"), (201, {"order_id": 1}))
            booked = self.booked(shop)
            self.assertEqual([booked["failed"], booked["commit"]], [1, 1])

    def traced(self, path):
        """Return (activity, related activity) of the events in a trace."""
        done = subprocess.run([RINGPIPE, "report", path, "events", "--format=json"],
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, check=True, timeout=60)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [(event["event"], event.get("activity", "").replace("-", ""),
                 event.get("related_activity", "").replace("-", ""))
                for event in events if event["provider"].startswith("Shop-")]

    def test_a_request_joins_the_trace_of_its_sender(self):
        trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
        sent = [f"00-{trace}-{caller}-01", None, "00-" + "0" * 32 + f"-{caller}-01",
                f"00-{trace.upper()}-{caller}-01"]
        output = os.path.join(self.directory, "shop.nettrace")
        environment = dict(os.environ, RINGPIPE_CONFIG="Shop-Http,Shop-Orders,Shop-Storage",
                           RINGPIPE_OUTPUT=output)
        answers = []
        with drive.shop(SHOP, "--db", self.database, env=environment) as shop:
            for header in sent:
                request = urllib.request.Request(shop.url + "/buy", headers={
                    "traceparent": header} if header else {})
                with urllib.request.urlopen(request, timeout=drive.DEADLINE_S) as answer:
                    answers.append(answer.headers["traceparent"].split("-"))
            shop.wait_until_quiet()
            shop.process.terminate()
            self.assertEqual(shop.process.wait(drive.DEADLINE_S), 0)
        events = self.traced(output)
        version, joined, span, flags = answers[0]
        self.assertEqual((version, joined, flags), ("00", trace, "01"))
        self.assertNotEqual(span, caller)
        ours = [event for event in events if event[1] == trace]
        self.assertEqual(sorted(name for name, _, _ in ours),
                         ["commit", "order_placed", "query", "query", "requestStart",
                          "requestStop"])
        self.assertEqual({related for _, _, related in ours}, {caller + span})
        # Without a valid header, the request begins a trace.
        for _, begun, span, _ in answers[1:]:
            self.assertNotIn(begun, (trace, "0" * 32))
            self.assertEqual({(name, related) for name, activity, related in events
                              if activity == begun},
                             {(name, "0" * 16 + span) for name, _, _ in ours})
        self.assertEqual(len({begun for _, begun, _, _ in answers}), 4)

    def test_a_demo_that_fails_says_what_collect_said(self):
        build = self.directory
        with drive.shop(SHOP, "--db", self.database) as shop:
            os.makedirs(os.path.join(build, "src/tools/ringpipe"))
            fake = os.path.join(build, "src/tools/ringpipe/ringpipe")
            with open(fake, "w", encoding="utf-8") as script:
                script.write("#!/bin/sh\necho 'ringpipe: no room for a trace' >&2\nexit 1\n")
            os.chmod(fake, 0o755)
            with self.assertRaisesRegex(drive.Failure, "ended with 1 before[^\n]*\n[^\n]*"
                                        "collect.log:\nringpipe: no room for a trace$"):
                demo.collect(build, build, shop)

    def test_its_counters_seen_from_outside_are_its_books(self):
        with drive.shop(SHOP, "--db", self.database) as shop:
            for _ in range(7):
                ask(shop, "/buy")
            ask(shop, "/buy?total=-1")
            ask(shop, "/nothing")
            shop.wait_until_quiet()
            reported = drive.read_counters(RINGPIPE, shop)
        self.assertEqual(reported, dict(zip(drive.COUNTERS, (9, 7, 1))))

    def test_open_connections_and_the_time_of_requests_are_reported(self):
        with drive.shop(SHOP, "--db", self.database) as shop, contextlib.ExitStack() as stack:
            address = urllib.parse.urlsplit(shop.url)
            for _ in range(3):
                stack.enter_context(socket.create_connection((address.hostname, address.port)))
            read = stack.enter_context(drive.counters(RINGPIPE, shop))
            drive.wait_for(lambda: read().get("shop_http_connections") == 3,
                           "three connections", [shop.process])
            ask(shop, "/buy")
            reported = drive.wait_for(
                lambda: (page := read()).get("shop_http_request_time_milliseconds_count") and page,
                "the time of a request", [shop.process])
            self.assertGreater(reported["shop_http_request_time_milliseconds_sum"], 0)

    def test_signals_end_it_cleanly_and_orders_stay(self):
        for order, number in enumerate((signal.SIGTERM, signal.SIGINT), start=1):
            with drive.shop(SHOP, "--db", self.database, "--threads", "1") as shop:
                self.assertEqual(ask(shop, "/buy"), (201, {"order_id": order}))
                shop.process.send_signal(number)
                self.assertEqual(shop.process.wait(drive.DEADLINE_S), 0)

    def test_bad_options_are_named(self):
        for options, word in ((["--port", "65536"], "65536"), (["--port", "x"], "'x'"),
                              (["--threads", "0"], "--threads"), (["--threads", "-1"], "-1"),
                              (["surplus"], "surplus"), (["--unknown"], "unknown")):
            status, error = self.refused(*options)
            self.assertEqual(status, 2, options)
            self.assertIn(word, error)

    def test_a_taken_port_and_an_impossible_database_are_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            status, error = self.refused("--port", str(taken.getsockname()[1]))
            self.assertEqual(status, 1)
            self.assertIn("Address already in use", error)
        status, error = self.refused("--db", os.path.join(self.directory, "no", "where"))
        self.assertEqual(status, 1)
        self.assertIn("unable to open database file", error)

    def test_the_listener_hears_what_was_offered(self):
        with drive.shop(SHOP, "--listen") as shop:
            for _ in range(50):
                ask(shop, "/buy")
            shop.wait_until_quiet()

            def heard():
                stats = shop.stats()
                total = sum(drive.books(stats).values())
                return stats["listener"]["delivered"] == total and stats
            stats = drive.wait_for(heard, "the last event in the listener", [shop.process])
            self.assertEqual(stats["listener"]["lost"], 0)

            def booked():
                now = shop.stats()
                return drive.books(now) == drive.books(now, "heard")
            drive.wait_for(booked, "the listener's books", [shop.process])
            self.assertTrue(all(row["enabled"] for row in stats["events"]))


if __name__ == "__main__":
    unittest.main()
