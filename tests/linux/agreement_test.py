# SPDX-License-Identifier: MIT
"""ringpipe record and perf record of the same load in the same seconds agree on each function.

A run lasts SECONDS. perf samples 101 times a second, and ringpipe 99 times. For each function with
100 samples or more, the share of the samples is taken in each second. The scatter of these shares
states the error of their mean, for each recorder. In a run, the means of the two recorders may
differ by BOUND errors of the difference. If nothing is wrong, a function exceeds this in one of
16,000 cases (Student's t, 12 degrees of freedom), so 20 runs with five functions pass in 99 of 100
cases.

With several runs, the mean of the differences is compared in the same way with their scatter. In 20
runs, its error is 0.006 for a share of 0.4, so a function that gets a tenth too much is found."""
import collections
import math
import os
import re
import shutil
import signal
import statistics
import subprocess

import record_case
from record_case import KERNEL_START, PATIENCE, TOOL, Case, clients, drive, events_of

HOT_HOST = os.environ["HOT_HOST"]
RUNS = int(os.environ.get("RUNS", "1"))
SECONDS = 8
ENOUGH = 100
BOUND = 6


def shares(samples):
    """Return function -> its share in each whole second, for functions with enough samples."""
    first = min(time for time, _ in samples)
    blocks = collections.defaultdict(collections.Counter)
    for time, function in samples:
        blocks[int(time - first)][function] += 1
    whole = [blocks[second] for second in range(SECONDS - 1)]
    total = sum(whole, collections.Counter())
    return {function: [block[function] / max(1, sum(block.values())) for block in whole]
            for function, count in total.items() if count >= ENOUGH}


def mean_and_error(values):
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def prefer(pid):
    """Give the process enough of a processor for its shares, whatever else runs. A session is a
    group of its own for the scheduler, if the kernel makes such groups."""
    os.setpriority(os.PRIO_PROCESS, pid, -10)
    path = f"/proc/{pid}/autogroup"
    if os.path.exists(path):
        with open(path, "w", encoding="ascii") as file:
            file.write("-10")


class Agreement(Case):
    def record(self, pid):
        """Run both recorders. Return the samples of each: (time in seconds, function)."""
        data = f"{self.trace}.data"
        ours = subprocess.Popen([TOOL, "record", "-f", "-p", str(pid), "--providers", "none",
                                 "--profile", "cpu", "-d", str(SECONDS), "-o", self.trace],
                                stderr=subprocess.PIPE)
        # Without build ids (-B): perf 6.1 may abort while it adds them on a busy machine.
        perf = subprocess.Popen(["perf", "record", "-q", "-B", "-F", "101", "-e", "cpu-clock:u",
                                 "-p", str(pid), "-o", data, "--", "sleep", str(SECONDS)],
                                stderr=subprocess.PIPE)
        for process in ours, perf:
            _, errors = process.communicate(timeout=PATIENCE)
            if process is perf and process.returncode == -signal.SIGABRT:
                self.skipTest("perf record was killed by signal 6")
            self.assertEqual(process.returncode, 0, errors)
        script = subprocess.run(["perf", "script", "-i", data, "-F", "time,ip,sym"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                                timeout=PATIENCE).stdout
        rows = re.findall(r"(?m)^\s*([\d.]+):\s+[0-9a-f]+ (\S+)", script)
        theirs = [(float(time), function) for time, function in rows]
        events, summary = events_of(self.trace)
        self.assertEqual(summary["events_lost"], 0)
        mine = [(event["time_ms"] / 1e3, event["stack"][0]["method"]) for event in events
                if event["event"] == "cpu" and event["stack"]
                and event["stack"][0]["address"] < KERNEL_START]
        return mine, theirs

    def test_shares_of_functions_are_those_of_perf(self):
        differences = collections.defaultdict(list)
        with subprocess.Popen([HOT_HOST], stdout=subprocess.PIPE,
                              start_new_session=True) as host:
            self.addCleanup(host.kill)
            host.stdout.readline()
            if os.geteuid() == 0:
                prefer(host.pid)
            for run in range(RUNS):
                with self.subTest(run=run):
                    mine, theirs = map(shares, self.record(host.pid))
                    # A share near the limit may be above it in one recording only.
                    both = set(mine) & set(theirs)
                    self.assertGreaterEqual(both, {"hot_40", "hot_25"})
                    for function in both:
                        (one, error), (two, other) = map(mean_and_error,
                                                         (mine[function], theirs[function]))
                        differences[function].append(one - two)
                        print(f"{function}: {one:.3f} and {two:.3f}, "
                              f"{abs(one - two) / math.hypot(error, other):.1f} errors apart",
                              flush=True)
                        self.assertLess(abs(one - two), BOUND * math.hypot(error, other),
                                        function)
            host.kill()
        for function, found in differences.items():
            if len(found) >= 10:
                mean, error = mean_and_error(found)
                print(f"{function}: mean difference {mean:.4f}, error {error:.4f}")
                self.assertLess(abs(mean), BOUND * error, function)


if __name__ == "__main__":
    if not shutil.which("perf"):
        clients.skip("perf is not installed")
    if os.environ["SANITIZERS"] != "none":
        clients.skip("the recorder is compared as users have it")
    record_case.main()
