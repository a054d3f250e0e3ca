# SPDX-License-Identifier: MIT
"""Starts the shop, runs load and compares its counts with a trace: for the demo and the tests."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
PROVIDERS = ("Shop-Http", "Shop-Orders", "Shop-Storage")
# A counter in `ringpipe counters serve`, and the event that occurs equally often.
COUNTERS = {
    "shop_http_requests_total": "request_stop",
    'shop_orders_orders_total{outcome="placed"}': "order_placed",
    'shop_orders_orders_total{outcome="rejected"}': "order_rejected",
}
DEADLINE_S = 120


class Failure(Exception):
    """An error, described in a sentence."""


class Late(Failure):
    """A condition did not become true in time."""


def wait_for(condition, what, alive=()):
    """Poll until `condition` returns a true value; fail if a process of `alive` ends."""
    end = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        for process in alive:
            if process.poll() is not None:
                raise Failure(f"{process.args[0]} ended with {process.returncode} "
                              f"before {what}")
        if time.monotonic() > end:
            raise Late(f"no sign of {what} in {DEADLINE_S} s")
        time.sleep(0.02)


@contextlib.contextmanager
def running(command, **options):
    """Run a child that ends with the block at the latest."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def interrupt(process):
    """Send Ctrl-C and wait for the end. Return the exit status."""
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise Failure(f"{process.args[0]} goes on after SIGINT") from None


class Shop:
    def __init__(self, process):
        self.process = process
        line = process.stdout.readline().decode()
        found = re.search(r"http://\S+", line)
        if not found:
            process.wait(DEADLINE_S)
            raise Failure("the shop did not start")
        self.url = found.group()
        self.pid = process.pid

    def stats(self):
        with urllib.request.urlopen(self.url + "/stats", timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def wait_for_sessions(self, count, alive=()):
        """Wait until `count` sessions enable every provider."""
        wait_for(lambda: all(n == count for n in self.stats()["sessions"].values()),
                 f"{count} sessions in the shop", [self.process, *alive])

    def wait_until_quiet(self):
        """Wait until the only connection is this one. Return the counts."""
        def quiet():
            stats = self.stats()
            return stats if stats["connections"] == 1 else None
        return wait_for(quiet, "the end of the load", [self.process])


@contextlib.contextmanager
def shop(binary, *options, **popen):
    with running([binary, *options], stdout=subprocess.PIPE, **popen) as process:
        yield Shop(process)


def load_command(url, seconds, connections=16):
    return ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s",
            "-s", os.path.join(HERE, "load.lua"), url]


def load(url, seconds, connections=16):
    """Run wrk. Return requests per second."""
    done = subprocess.run(load_command(url, seconds, connections), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=seconds + DEADLINE_S)
    found = re.search(r"Requests/sec:\s*([\d.]+)", done.stdout)
    if done.returncode != 0 or not found:
        raise Failure(f"wrk failed:\n{done.stdout}")
    return float(found.group(1))


def books(stats, what="offered"):
    """Return (provider, id) -> count, from the shop's /stats."""
    return {(row["provider"], row["id"]): row[what] for row in stats["events"]}


def names(stats):
    return {(row["provider"], row["id"]): row["event"] for row in stats["events"]}


def difference(before, after):
    return {key: after[key] - before[key] for key in after}


def expected_counters(stats):
    """Return the expected value of each of COUNTERS, from the shop's /stats."""
    events = {row["event"]: row["offered"] for row in stats["events"]}
    return {name: events[event] for name, event in COUNTERS.items()}


@contextlib.contextmanager
def counters(ringpipe, shop):
    """Run `ringpipe counters serve`. Yield a function that reads its page: name -> value."""
    command = [ringpipe, "counters", "serve", "-p", str(shop.pid), "--port", "0", "--counters",
               "Shop-Http,Shop-Orders"]
    with running(command, stdout=subprocess.PIPE) as server:
        url = server.stdout.readline().decode().strip()

        def read():
            if server.poll() is not None:
                raise Failure(f"ringpipe counters ended with {server.returncode}")
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
                lines = answer.read().decode().splitlines()
            return {name: float(value) for name, _, value in
                    (line.rpartition(" ") for line in lines if not line.startswith("#"))}
        yield read
        if interrupt(server) != 0:
            raise Failure("ringpipe counters failed")


def read_counters(ringpipe, shop):
    """Wait until COUNTERS of an idle shop, read from outside, equal the shop's own counts. Return
    them, or the last values after DEADLINE_S."""
    expected = expected_counters(shop.stats())
    reported = {}

    def agree():
        reported.update((name, value) for name, value in read().items() if name in COUNTERS)
        return reported == expected
    with counters(ringpipe, shop) as read, contextlib.suppress(Late):
        wait_for(agree, "the last counts", [shop.process])
    return reported


def report(ringpipe, path, *options):
    """Return the parsed output of `ringpipe report --format json`."""
    done = subprocess.run([ringpipe, "report", "--format=json", *options, path], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=600)
    if done.returncode != 0:
        raise Failure(f"ringpipe report ended with {done.returncode}")
    return json.loads(done.stdout)


def report_counts(summary):
    """Return (provider, id) -> count, from a report."""
    return {(provider["provider"], kind["id"]): kind["events"]
            for provider in summary["providers"] for kind in provider["kinds"]
            if provider["provider"] in PROVIDERS}
