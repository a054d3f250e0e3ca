# SPDX-License-Identifier: MIT
"""demo.sh BUILD OUT: traces the shop of BUILD under load into OUT/shop.nettrace, and reads its
counters."""

import contextlib
import os
import signal
import sys

import drive

SECONDS = 5


@contextlib.contextmanager
def log_of_failures(path):
    """Print the program's log if the block fails."""
    try:
        yield
    except drive.Failure as failure:
        with open(path, encoding="utf-8", errors="replace") as log:
            said = log.read().strip()
        raise drive.Failure(f"{failure}\n{path}:\n{said or '(empty)'}") from failure


def collect(build, out, shop):
    """Run the load during a collection. Return requests per second, offered events, refused
    events."""
    command = [os.path.join(build, "src/tools/ringpipe/ringpipe"), "collect", "-p", str(shop.pid),
               "--force", "--providers", ",".join(drive.PROVIDERS),
               "-o", os.path.join(out, "shop.nettrace")]
    path = os.path.join(out, "collect.log")
    with log_of_failures(path), open(path, "wb") as log, \
            drive.running(command, stdout=log, stderr=log) as collector:
        shop.wait_for_sessions(1, [collector])
        before = shop.stats()
        rate = drive.load(shop.url, SECONDS)
        after = shop.wait_until_quiet()
        if drive.interrupt(collector) != 0:
            raise drive.Failure("ringpipe collect failed")
    shop.wait_for_sessions(0)
    if drive.books(shop.stats()) != drive.books(after):
        raise drive.Failure("the shop was not quiet when the collection ended")
    return rate, [drive.difference(drive.books(before, what), drive.books(after, what))
                  for what in ("offered", "refused")], drive.names(after)


def print_table(offered, refused, traced, names, reported):
    """Return whether offered = traced + lost for each event, and whether the reported losses
    agree."""
    fine = True
    print(f"{'EVENT':<28}{'SHOP COUNTED':>14}{'IN THE TRACE':>14}{'LOST':>10}  OK")
    for key, count in offered.items():
        match = count == traced.get(key, 0) + refused[key]
        fine = fine and match
        print(f"{key[0] + '/' + names[key]:<28}{count:>14,}{traced.get(key, 0):>14,}"
              f"{refused[key]:>10,}  {'yes' if match else 'NO'}")
    match = sum(refused.values()) == reported
    print(f"{'all':<28}{sum(offered.values()):>14,}{sum(traced.values()):>14,}{reported:>10,}  "
          f"{'yes' if match else 'NO'}")
    return fine and match


def print_counters(expected, reported):
    """Return whether each counter, read from outside, equals the shop's own count."""
    print(f"\n{'COUNTER':<46}{'SHOP COUNTED':>14}{'FROM OUTSIDE':>14}  OK")
    for name, count in expected.items():
        seen = f"{reported[name]:,.0f}" if name in reported else "none"
        print(f"{name:<46}{count:>14,}{seen:>14}  "
              f"{'yes' if reported.get(name) == count else 'NO'}")
    return reported == expected


def demo(build, out):
    database = os.path.join(out, "shop.db")
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(database + suffix):
            os.unlink(database + suffix)
    print(f"The shop serves 16 connections for {SECONDS} s while ringpipe collects its events …",
          flush=True)
    with drive.shop(os.path.join(build, "examples/shop/shop"), "--db", database) as shop:
        rate, (offered, refused), names = collect(build, out, shop)
        expected = drive.expected_counters(shop.stats())
        reported = drive.read_counters(os.path.join(build, "src/tools/ringpipe/ringpipe"), shop)
        if drive.interrupt(shop.process) != 0:
            raise drive.Failure(f"the shop ended with {shop.process.returncode}")
    trace = os.path.join(out, "shop.nettrace")
    summary = drive.report(os.path.join(build, "src/tools/ringpipe/ringpipe"), trace)
    print(f"\n{rate:,.0f} requests a second; {summary['events']:,} events in "
          f"{summary['bytes'] / 1e6:.1f} MB, {summary['lost']:,} lost\n")
    if not print_table(offered, refused, drive.report_counts(summary), names, summary["lost"]):
        raise drive.Failure("the trace and the shop's books disagree")
    if not print_counters(expected, reported):
        raise drive.Failure("the counters and the shop's books disagree")
    if not sum(offered.values()):
        raise drive.Failure("the shop offered nothing")
    print(f"\nLook closer:  {build}/src/tools/ringpipe/ringpipe report {trace}\n{trace}")


def main():
    if len(sys.argv) != 3:
        print("usage: demo.sh BUILD-DIRECTORY OUTPUT-DIRECTORY", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        os.makedirs(sys.argv[2], exist_ok=True)
        demo(sys.argv[1], sys.argv[2])
    except (drive.Failure, OSError) as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
