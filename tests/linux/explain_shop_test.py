#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe explain, on requests that the shop made slow by known causes, mixed at random.

The shop's log says which cause a request had, how long it took, and how much time the cause added.
The trace has none of the shop's events but the spans."""
import collections
import contextlib
import http.client
import json
import math
import os
import random
import subprocess
import unittest

import record_case
from record_case import (PATIENCE, SHOP, TOOL, WITHOUT_LEAKS, Case, disk_of, drive,
                         explain_all, in_one_of_three, record_shop, without_losses)

REQUESTS = int(os.environ.get("REQUESTS", "20"))	# of each cause
WRONG_MAX = max(1, REQUESTS // 20)	# 5 % of each cause
SEED = int(os.environ.get("SEED", "1"))
PARTS = {"lock": "lock", "disk": "block_io", "processor": "runnable", "page": "page_fault",
         "supplier": "callee"}
# The time of a cause contains also the calls that read, and the way to the other process.
MORE = {"disk": ("system_call", "interrupt", "runnable"), "supplier": ("network",)}
SPANS = 'provider == "Ringpipe-Machine" or provider == "Universal.Events" or ' \
        'provider == "Universal.System" or provider == "Shop-Supplier" or ' \
        'provider == "Shop-Http"'
Known = collections.namedtuple("Known", "cause wall_ns added_ns")


def send(shop, trace_id, cause, delay_us):
    connection = http.client.HTTPConnection(shop.url.removeprefix("http://"), timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/", headers={
            "traceparent": f"00-{trace_id}-00f067aa0ba902b7-01",
            "slow-by": f"{cause} {delay_us}"})
        connection.getresponse().read()


def wait_for_lines(path, count):
    def has_lines():
        with open(path, encoding="ascii") as log:
            return len(log.readlines()) >= count
    drive.wait_for(has_lines, "the shop's records of all requests")


def lower_bound(right, count, z=1.96):
    """Return the lower end of Wilson's interval of 95 % for the share of right answers."""
    share = right / count
    middle = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (middle - spread) / (1 + z * z / count)


def write_text(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


@contextlib.contextmanager
def throttled(disk, rate):
    """Make a control group that reads at most `rate` bytes a second from a disk. Yield a function
    that moves a process into it."""
    forms = (("/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", f"{disk} {rate}"),
             ("/sys/fs/cgroup", "io.max", f"{disk} rbps={rate}"))
    base, name, limit = next((form for form in forms if os.path.exists(form[0])), forms[0])
    group = os.path.join(base, f"ringpipe-test-{os.getpid()}")
    try:
        os.mkdir(group)
        write_text(os.path.join(group, name), limit)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.rmdir(group)
        raise unittest.SkipTest(f"no control group can limit a disk: {error}") from None
    try:
        yield lambda pid: write_text(os.path.join(group, "cgroup.procs"), str(pid))
    finally:
        os.rmdir(group)


class Causes(Case):
    causes = sorted(PARTS)
    kind = ""

    def setUp(self):
        super().setUp()
        if not disk_of(os.path.dirname(self.trace)):
            self.causes = [cause for cause in self.causes if cause != "disk"]

    def slow_down(self, _):
        """Slow the shop down by a cause outside of it."""

    def record_requests(self):
        """Record the shop while it serves requests of all causes. Return what the shop knows of
        them, and the messages of the recorder."""
        log = self.trace + ".log"
        chance = random.Random(SEED)
        causes = self.causes * REQUESTS
        chance.shuffle(causes)

        def send_all(recorder):
            drive.wait_for(lambda: shop.stats()["supplier_is_traced"],
                           "a session in the supplier", [shop.process, recorder])
            self.slow_down(shop)
            for cause in causes:
                send(shop, f"{chance.getrandbits(128):032x}", cause, chance.randint(2000, 5000))
            wait_for_lines(log, len(causes))

        # The search for leaks cannot suspend the shop's threads of high priority.
        with drive.shop(SHOP, "--slow", log, env=WITHOUT_LEAKS) as shop:
            errors = record_shop(self, shop, 256, send_all)
        with open(log, encoding="ascii") as lines:
            known = {trace_id: Known(cause, int(wall), int(added))
                     for trace_id, cause, wall, added in map(str.split, lines)}
        self.assertEqual(len(known), len(causes))
        return known, errors

    def strip(self):
        """Remove all events of the shop but the spans. Return the path of the trace."""
        stripped = self.trace + ".spans"
        subprocess.run([TOOL, "convert", "--quiet", "--format", "6", "--where", SPANS, "-f", "-o",
                        stripped, self.trace], check=True, timeout=PATIENCE)
        return stripped

    @in_one_of_three
    def test_the_cause_of_each_slow_request_of_the_shop_is_found(self):
        known, errors = without_losses(self, self.record_requests)
        rows = {row["trace_id"]: row for row in explain_all(self.strip())}
        right, near, wrong = collections.Counter(), collections.Counter(), []
        whole_ns = unexplained_ns = 0
        for trace_id, request in known.items():
            row = rows[trace_id]
            parts = row["parts_ns"]
            self.assertEqual(sum(parts.values()), row["duration_ns"])
            self.assertLess(abs(row["duration_ns"] - request.wall_ns),
                            0.1 * request.wall_ns + 20_000, errors)
            is_right = row["largest_part"] == PARTS[request.cause] and \
                parts[PARTS[request.cause]] >= 0.5 * request.added_ns
            right[request.cause] += is_right
            took_ns = sum(parts[part] for part in (PARTS[request.cause],
                                                   *MORE.get(request.cause, ())))
            # The shop's own time of a cause contains the time in which its thread waits for a
            # processor after the cause has ended.
            late_ns = 0 if request.cause == "processor" else parts["runnable"]
            near[request.cause] += 0.9 * request.added_ns - late_ns <= took_ns <= \
                1.1 * request.added_ns
            if not is_right:
                wrong.append((trace_id, request, {part: ns for part, ns in parts.items() if ns}))
            whole_ns += row["duration_ns"]
            unexplained_ns += parts["unexplained"]
        for cause in self.causes:
            self.assertGreaterEqual(right[cause], REQUESTS - WRONG_MAX, (cause, wrong[:10], errors))
        # The durations of all causes are judged together.
        self.assertGreaterEqual(near.total(), len(self.causes) * (REQUESTS - WRONG_MAX),
                                (near, errors))
        self.assertLessEqual(unexplained_ns, 0.01 * whole_ns)
        for name, found in ("cause", right), ("duration", near):
            shares = ", ".join(f"{cause} {found[cause]} of {REQUESTS} "
                               f"(>= {lower_bound(found[cause], REQUESTS):.1%})"
                               for cause in self.causes)
            print(f"# figure: explain{self.kind}: the {name} is right: {shares}")
        print(f"# figure: explain{self.kind}: {unexplained_ns / whole_ns:.2%} unexplained")


class Convoys(Causes):
    """Each request queues behind those that the previous one left in the queue."""
    causes = ["lock"]
    kind = ", convoys"


class ThrottledDisk(Causes):
    """The disk is slow because a control group limits the shop's reads."""
    causes = ["disk", "page"]
    kind = ", throttled disk"

    def setUp(self):
        super().setUp()
        disk = disk_of(os.path.dirname(self.trace))
        if not disk:
            self.skipTest("no folder for temporary files is on a disk")
        groups = contextlib.ExitStack()
        self.addCleanup(groups.close)
        self.move = groups.enter_context(throttled(disk, 200_000_000))

    def slow_down(self, shop):
        self.move(shop.pid)


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
