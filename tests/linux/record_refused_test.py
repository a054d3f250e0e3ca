#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record without the right to load BPF programs: perf_events report the waits."""
import os
import subprocess

import record_case
from record_case import (KERNEL_START, PATIENCE, TOOL, WAITS_HOST, Case, clients, events_of,
                         functions, in_one_of_three)

# root without CAP_BPF and CAP_SYS_ADMIN, but with CAP_PERFMON
WITHOUT_BPF = ("setpriv", "--bounding-set=-cap_39,-sys_admin")


class WithoutBpf(Case):
    def waits(self, *options):
        """Record waits_host. Return the messages, what it measured, and its waits."""
        done = subprocess.run([*WITHOUT_BPF, TOOL, "record", "-o", self.trace, *options, "--",
                               WAITS_HOST], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        took = {}
        for line in done.stdout.splitlines():
            kind, number = line.split()
            took.setdefault(kind, []).append(int(number))
        events, summary = events_of(self.trace)
        self.assertEqual(summary["events_lost"], 0, done.stderr)
        name = os.path.basename(WAITS_HOST)
        found = []
        for event, following in zip(events, events[1:]):
            if event["event"] == "cswitch" and event["process_name"] == name:
                self.assertEqual(following["event"], "Wait")
                found.append((event, following["fields"]))
        return done.stderr, took, found

    @in_one_of_three
    def test_each_sleep_above_the_threshold_has_its_duration_and_the_stack_of_the_kernel(self):
        messages, took, waits = self.waits()
        self.assertIn("waits have the kernel's stack alone, and no waker", messages)
        sleeps = [fields["duration_ns"] for event, fields in waits
                  if event["thread"] == event["process"] and
                  "hrtimer_nanosleep" in functions(event)]
        measured = [ns for ns in took["time"] if ns > 1_100_000]
        self.assertEqual(len(sleeps), len(measured))
        for duration, ns in zip(sleeps, measured):
            self.assertLess(duration, ns)
        self.assertGreater(sum(sleeps), 0.9 * sum(measured))
        for event, fields in waits:
            self.assertEqual((fields["waker_thread"], fields["runnable_ns"]), (0, 0))
            self.assertIn(fields["state"], (0, 1))
            self.assertGreaterEqual(fields["duration_ns"], 1_000_000)
            self.assertGreaterEqual(event["stack"][0]["address"], KERNEL_START)

    @in_one_of_three
    def test_shorter_waits_are_there_on_request(self):
        waits = self.waits("--off-cpu", "0")[2]
        self.assertTrue([fields for _, fields in waits if fields["duration_ns"] < 1_000_000])

    def test_what_only_bpf_programs_record_is_reported_as_missing(self):
        done = subprocess.run([*WITHOUT_BPF, TOOL, "record", "-o", self.trace, "--profile", "all",
                               "--", "true"], text=True, stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no system calls, futexes, page faults, block requests or interrupts are "
                      "recorded", done.stderr)
        self.assertIn("CAP_BPF", done.stderr)


if __name__ == "__main__":
    if subprocess.run([*WITHOUT_BPF, "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode:
        clients.skip("setpriv cannot drop CAP_BPF")
    record_case.main()
