#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record without the right to load BPF programs: perf_events report the waits, and the
kernel's tracepoints the other groups. And without the package of perf."""
import collections
import contextlib
import glob
import json
import os
import resource
import subprocess
import sys
import unittest

import record_case
import record_causes_test
from record_case import (HOST, KERNEL_START, NOBODY, PATIENCE, RATE, TOOL, WAITS_HOST,
                         WITHOUT_LEAKS, Case, clients, events_of, functions, in_one_of_three,
                         stacks_of)

# An ordinary user with one capability
WITH_PERFMON = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                "--inh-caps=+perfmon", "--ambient-caps=+perfmon")
# Changes its user, after which the kernel lets only root observe it
SHIELDED = """
import os
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print("ready", flush=True)
input()
"""
# Most of the time is the kernel's.
READS = """
import os, time
end = time.process_time() + 0.5
with open("/dev/zero", "rb", buffering=0) as zero:
    while time.process_time() < end:
        zero.read(1 << 20)
"""
# root without CAP_BPF and CAP_SYS_ADMIN, but with CAP_PERFMON
WITHOUT_BPF = ("setpriv", "--bounding-set=-cap_39,-sys_admin")


class User(Case):
    @in_one_of_three
    def test_a_user_without_rights_records_own_processes_and_sees_what_grants_more(self):
        folder = os.path.dirname(self.trace)
        os.chown(folder, 65534, 65534)
        with subprocess.Popen([HOST, "3000"], stdout=subprocess.DEVNULL) as roots:
            done = self.record("--", HOST, "500", **NOBODY)
            roots.kill()
        self.assertIn("perf_event_open: Permission denied", done.stderr)
        self.assertIn("setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_sys_nice+ep", done.stderr)
        self.assertIn("no waits are recorded", done.stderr)
        samples, _ = stacks_of(self.trace)
        whole = [functions(sample) for sample in samples if "innermost" in functions(sample)]
        self.assertGreater(len(whole), 0.8 * RATE * 0.5)
        for stack in whole:
            self.assertEqual(stack[:4], ["innermost", "middle", "outermost", "main"])
        self.assertNotIn(roots.pid, {sample["process"] for sample in samples})

    @in_one_of_three
    def test_a_process_of_the_user_that_only_root_may_observe_costs_its_own_samples(self):
        os.chown(os.path.dirname(self.trace), 65534, 65534)
        with subprocess.Popen([sys.executable, "-c", SHIELDED], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as shielded:
            self.assertEqual(shielded.stdout.readline(), "ready\n")
            done = self.record("--", HOST, "500", **NOBODY)
            shielded.kill()
        self.assertRegex(done.stderr, r"[1-9]\d* threads? (is|are) not recorded")
        processes = collections.Counter(sample["process"] for sample in stacks_of(self.trace)[0]
                                        if "innermost" in functions(sample))
        self.assertGreater(max(processes.values(), default=0), 0.8 * RATE * 0.5)
        self.assertNotIn(shielded.pid, processes)

    @in_one_of_three
    def test_a_user_with_cap_perfmon_records_all_processes_with_little_locked_memory(self):
        """The memory is enough for the first processor's usual ring, and not for all of them."""
        os.chown(os.path.dirname(self.trace), 65534, 65534)
        limit = 2 << 20
        if os.cpu_count() == 1:
            self.skipTest("needs two processors")
        with subprocess.Popen([HOST, "5000"], stdout=subprocess.DEVNULL) as roots:
            self.addCleanup(roots.kill)
            done = subprocess.run(
                [*WITH_PERFMON, TOOL, "record", "-f", "-o", self.trace, "-d", "1"], text=True,
                stderr=subprocess.PIPE, timeout=PATIENCE, check=False, env=WITHOUT_LEAKS,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit)))
            roots.kill()
        if "setpriv" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("only processes of this user", done.stderr)
        self.assertIn(roots.pid, {sample["process"] for sample in stacks_of(self.trace)[0]})


class OwnKernel(Case):
    prefix = ("env", f"LD_PRELOAD={os.environ['ENABLE_SHIM_LIBRARY']}", "REFUSE_SHIM=1")

    @unittest.skipUnless(os.environ["SANITIZERS"] == "none",
                         "a preloaded library would come before the sanitizer's")
    @in_one_of_three
    def test_a_user_who_may_observe_the_kernel_in_own_processes_has_its_functions(self):
        """As where perf_event_paranoid is 1."""
        done = self.record("--", sys.executable, "-c", READS)
        self.assertIn("only processes of this user are recorded", done.stderr)
        self.assertNotIn("without the kernel", done.stderr)
        self.assertTrue([sample for sample in stacks_of(self.trace)[0]
                         if any(frame["address"] >= KERNEL_START for frame in sample["stack"])])


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

    def test_all_groups_come_from_tracepoints(self):
        done = subprocess.run([*WITHOUT_BPF, TOOL, "record", "-o", self.trace, "--profile", "all",
                               "--", "true"], text=True, stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("system calls, futexes, page faults, block requests and interrupts come from "
                      "tracepoints", done.stderr)
        self.assertNotIn("are recorded", done.stderr)
        self.assertIn("CAP_BPF", done.stderr)

    def test_without_tracepoints_the_groups_are_reported_as_missing(self):
        done = subprocess.run(["unshare", "--mount", "sh", "-c", """
            mount -t tmpfs none /sys/kernel/tracing && mount -t tmpfs none /sys/kernel/debug &&
            exec "$@" """, "sh", *WITHOUT_BPF, TOOL, "record", "-o", self.trace, "--providers",
                               "none", "--kernel", "syscalls,faults,irq", "--", HOST, "100"],
                              text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        if "mount:" in done.stderr or "unshare:" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "no system calls, page faults or interrupts are recorded: "
                                      r"Operation .*; BPF programs need .*; tracepoints: No such")
        self.assertTrue([event for event in events_of(self.trace)[0] if event["event"] == "cpu"])


def find_perf():
    """Return the programs of perf in PATH, and the folders of its other files."""
    names = [os.path.join(folder, name) for folder in os.get_exec_path()
             for name in ("perf", "perf[._]*")]
    return {os.path.realpath(path) for name in [*names, "/usr/lib*/perf-core"]
            for path in glob.glob(name)}


class WithoutPerf(Case):
    prefix = ("unshare", "--mount", "env", "HIDDEN=" + " ".join(find_perf()), "sh", "-c", """
        for path in $HIDDEN; do
            if [ -d "$path" ]; then mount -t tmpfs none "$path"
            else mount --bind /dev/null "$path"; fi || exit
        done
        ! perf --version >/dev/null 2>&1 && exec "$@" """, "sh")

    def test_programs_of_perf_are_not_needed(self):
        tried = subprocess.run([*self.prefix, "true"], stderr=subprocess.PIPE, text=True,
                               check=False)
        if tried.returncode:
            self.skipTest("perf cannot be hidden: " + tried.stderr)
        self.record("--providers", "none", "--", HOST, "500")
        report = subprocess.run([TOOL, "report", "--format", "json", self.trace], check=True,
                                stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        self.assertIn("innermost", [row["function"] for row in json.loads(report)["hot_functions"]
                                    if row["process"] == os.path.basename(HOST)])


CALL = """
import os
for number in range(100):
    try:
        os.lseek(1, number, 7)
    except OSError:
        pass
print("done")
"""


class Tracepoints(record_causes_test.Records):
    """The same records as from BPF programs, except for what only these know."""
    prefix = WITHOUT_BPF
    test_the_trace_states_which_groups_it_has = None
    test_a_call_that_may_wait_for_a_disk_has_the_name_of_its_file = None
    test_a_wait_for_the_processor_names_the_thread_that_used_it = None

    def test_each_read_past_the_page_cache_is_a_request_to_the_disk(self):
        # Some kernels give perf_events no samples in the thread of an idle processor.
        with contextlib.ExitStack() as stack:
            for processor in os.sched_getaffinity(0):
                busy = stack.enter_context(subprocess.Popen(
                    ["taskset", "-c", str(processor), "nice", "-n", "19", sys.executable, "-c",
                     "while True: pass"]))
                stack.callback(busy.kill)
            super().test_each_read_past_the_page_cache_is_a_request_to_the_disk()

    def check_messages(self, errors):
        self.assertIn("come from tracepoints", errors)

    def check_calls(self, rows):
        calls = [row["fields"] for row in rows if row["event"] == "Syscall"
                 and row["fields"]["name"] == "lseek" and row["fields"]["argument2"] == 7]
        self.assertEqual([call["argument1"] for call in calls], list(range(100)))
        for call in calls:
            self.assertLess(call["result"], 0)
            self.assertGreater(call["duration_ns"], 0)

    @in_one_of_three
    def test_each_system_call_has_its_arguments_its_result_and_the_innermost_function(self):
        _, rows = self.record_python("syscalls", CALL)
        self.check_calls(rows)
        for row in rows:
            if row["event"] == "Syscall" and row["fields"]["name"] == "lseek":
                self.assertEqual(len(row["stack"]), 1)

    @in_one_of_three
    def test_a_chosen_process_alone_has_records(self):
        with subprocess.Popen([sys.executable, "-uc", f"input(); exec({CALL!r}); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as chosen:
            self.addCleanup(chosen.kill)
            with record_case.drive.running(
                    [*WITHOUT_BPF, TOOL, "record", "-o", self.trace, "--providers", "none",
                     "--kernel", "syscalls,faults", "--off-cpu", "0", "-p", str(chosen.pid)],
                    stderr=subprocess.PIPE, text=True) as recorder:
                record_case.drive.wait_for(
                    lambda: os.path.exists(self.trace) and os.path.getsize(self.trace) > 0,
                    "the first bytes", [recorder])
                chosen.stdin.write("\n")
                chosen.stdin.flush()
                chosen.stdout.readline()
                status = record_case.drive.interrupt(recorder)
                with recorder.stderr:
                    errors = recorder.stderr.read()
            chosen.communicate("\n", timeout=PATIENCE)
        self.assertEqual(status, 0, errors)
        rows = self.rows()
        self.check_calls(rows)
        self.assertEqual({row["process_id"] for row in rows
                          if row["event"] in ("Syscall", "PageFault")}, {chosen.pid})


if __name__ == "__main__":
    if subprocess.run([*WITHOUT_BPF, "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode:
        clients.skip("setpriv cannot drop CAP_BPF")
    record_case.main()
