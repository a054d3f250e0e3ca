#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record under bad conditions: files that vanish, strange names, many mappings and
processes, a recorder that does not run for a while, two recorders."""
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

import record_case
from merge_test import Reader
from oracle import Bytes
from record_case import (HOST, PATIENCE, PLAIN, TOOL, WAITS_HOST, Case, drive, events_of,
                         functions, lacks_bpf)

SHIM = os.environ["SHIM"]

# Maps a page of this file so often, as executable, each with a gap before the next.
MANY_MAPPINGS = """
import ctypes, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
base = libc.mmap(None, (2 * int(sys.argv[2]) + 2) * 4096, 0, 0x4022, -1, 0)
file = open(sys.argv[1], "rb")
for i in range(int(sys.argv[2])):
    if libc.mmap(base + 8192 * i, 4096, 5, 0x12, file.fileno(), 0) in (None, 2**64 - 1):
        sys.exit(f"mmap {i}")
"""


class Files(Case):
    def names_of(self, name):
        """Return the innermost functions in the samples of a program."""
        return {functions(event)[0] for event in events_of(self.trace)[0]
                if event["event"] == "cpu" and event["process_name"].startswith(name)}

    def record_while(self, program, change):
        """Record a program, and change its file when it runs."""
        with subprocess.Popen([program, "3000"], stdout=subprocess.DEVNULL) as process:
            recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, "--providers", "none"],
                                        stderr=subprocess.PIPE, text=True)
            self.addCleanup(recorder.stderr.close)
            change()
            process.wait(PATIENCE)
            self.assertEqual(drive.interrupt(recorder), 0)

    def test_a_deleted_program_has_its_own_names_or_none(self):
        program = os.path.join(os.path.dirname(self.trace), "deleted")
        shutil.copy(HOST, program)
        self.record_while(program, lambda: os.unlink(program))
        self.assertIn("innermost", self.names_of("deleted"))

    def test_a_replaced_program_does_not_get_names_of_the_new_file(self):
        folder = os.path.dirname(self.trace)
        program, other = os.path.join(folder, "replaced"), os.path.join(folder, "other")
        shutil.copy(HOST, program)
        shutil.copy(WAITS_HOST, other)
        self.record_while(program, lambda: os.rename(other, program))
        names = self.names_of("replaced")
        self.assertEqual(names & {"wait_for_time", "wait_for_word", "wait_for_pipe", "now_ns",
                                  "sleeps_so_far"}, set())
        self.assertIn("innermost", names)

    def test_names_with_newlines_and_bytes_that_are_no_text_are_shown_on_one_line(self):
        program = os.path.join(os.path.dirname(self.trace).encode(), b"a\nb\xff\x1b[31m")
        shutil.copy(HOST, program)
        done = subprocess.run([TOOL, "record", "-o", self.trace, "--providers", "none", "--",
                               program, "500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = subprocess.run([TOOL, "report", self.trace], stdout=subprocess.PIPE, check=True,
                                timeout=PATIENCE).stdout
        self.assertNotIn(b"\x1b", report)
        self.assertTrue([line for line in report.decode().splitlines()
                         if "innermost" in line and "a" in line and "b" in line], report)
        self.assertTrue(events_of(self.trace)[0])

    def test_tens_of_thousands_of_mappings_cost_only_those_that_stacks_need(self):
        count = 30000
        self.record("--providers", "none", "--", sys.executable, "-c", MANY_MAPPINGS, HOST,
                    str(count))
        self.assertLess(os.path.getsize(self.trace), 10_000_000)
        with open(self.trace, "rb") as file:
            trace = Reader(file.read())
        self.assertTrue(trace.ended)
        mappings = [Bytes(event["payload"]) for event in trace.events
                    if event["name"] == "ProcessMapping"]
        self.assertIn(len(mappings), range(1, 2000))


class Processes(Case):
    def test_thousands_of_short_processes_are_recorded_or_counted_as_lost(self):
        done = self.record("--providers", "none", "--", "bash", "-c",
                           "for ((i = 0; i < 5000; i++)); do (exit 0) & "
                           "((i % 100)) || wait; done; wait")
        with open(self.trace, "rb") as file:
            trace = Reader(file.read())
        self.assertTrue(trace.ended)
        self.assertRegex(done.stderr, r", [\d,]+ lost")
        report = json.loads(subprocess.run([TOOL, "report", "--format", "json", self.trace],
                                           check=True, stdout=subprocess.PIPE,
                                           timeout=PATIENCE).stdout)
        self.assertEqual(report["lost"], trace.lost)
        # Each process of the trace has a beginning, and those that ended an end.
        begun = [event["process"] for event in trace.events
                 if event["name"] in ("ProcessCreate", "ExistingProcess")]
        ended = [event["process"] for event in trace.events if event["name"] == "ProcessExit"]
        self.assertTrue(begun)
        self.assertLessEqual(set(ended), set(begun))


class Recorders(Case):
    def test_a_recorder_that_does_not_run_counts_what_the_rings_could_not_take(self):
        recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, "--buffer", "1",
                                     "--profile", "cpu", "--providers", "none"],
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.kill)
        drive.wait_for(lambda: os.path.exists(self.trace) and os.path.getsize(self.trace) > 0,
                       "the first bytes")
        recorder.send_signal(signal.SIGSTOP)
        subprocess.run([HOST, "3000"], stdout=subprocess.DEVNULL, check=True)
        recorder.send_signal(signal.SIGCONT)
        subprocess.run([HOST, "500"], stdout=subprocess.DEVNULL, check=True)
        status = drive.interrupt(recorder)
        errors = recorder.stderr.read()
        self.assertEqual(status, 0, errors)
        self.assertRegex(errors, r"[1-9][\d,]* lost \([\d,]+ ring of perf_events full\)")
        events, summary = events_of(self.trace)
        losses = [event["fields"] for event in events if event["event"] == "Loss"]
        self.assertEqual({loss["reason"] for loss in losses}, {"ring of perf_events full"})
        self.assertEqual(losses[-1]["lost"], summary["events_lost"])

    def record_measured(self, *options):
        """Record the machine. Return the messages, and the largest memory in KB."""
        with subprocess.Popen([TOOL, "record", "-o", self.trace, *options], text=True,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as recorder:
            errors = recorder.stderr.read()
            _, status, usage = os.wait4(recorder.pid, 0)
            recorder.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(recorder.returncode, 0, errors)
        return errors, usage.ru_maxrss

    def rows(self, *kinds):
        """Yield the machine's events of some kinds."""
        with subprocess.Popen([TOOL, "convert", "--quiet", "--to", "jsonl", "-o", "-", self.trace],
                              stdout=subprocess.PIPE) as convert:
            for row in map(json.loads, convert.stdout):
                if row["event"] in kinds:
                    yield row
        self.assertEqual(convert.returncode, 0)

    def assert_no_overlaps(self):
        """A thread has one wait, one system call and one page fault at a time."""
        ends = {}
        for row in self.rows("Wait", "Syscall", "PageFault"):
            key = row["event"], row["thread_id"]
            began = row["time_ns"] - row["fields"]["duration_ns"]
            self.assertGreaterEqual(began, ends.get(key, began), row)
            ends[key] = row["time_ns"]
        self.assertEqual({kind for kind, _ in ends}, {"Wait", "Syscall", "PageFault"})

    def test_programs_that_never_pause_leave_the_memory_bounded_and_the_records_in_order(self):
        touch = """
import mmap
while True:
    memory = mmap.mmap(-1, 4096 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(4096):
        memory[page * 4096] = 1
    memory.close()
"""
        with contextlib.ExitStack() as programs:
            for _ in range(2 * os.cpu_count()):
                programs.enter_context(drive.running([sys.executable, "-c", touch]))
            errors, largest_kb = self.record_measured("--providers", "none", "--kernel", "all",
                                                      "--off-cpu", "0", "--buffer", "4",
                                                      "-d", "3")
        if lacks_bpf(errors):
            self.skipTest(errors)
        self.assertRegex(errors, r"[1-9][\d,]* ring of BPF programs full")
        # The rings and the queue have 10 MB; the rest is for processes and names.
        if os.environ["SANITIZERS"] == "none":
            self.assertLess(largest_kb, 200_000)
        self.assert_no_overlaps()

    def record_without_storage(self, entries, *command):
        """Record a command while the kernel creates no storage of threads."""
        if os.environ["SANITIZERS"] != "none":
            self.skipTest("a preloaded library would come before the sanitizer's")
        done = self.record("--providers", "none", "--", *command,
                           env={**PLAIN, "LD_PRELOAD": SHIM, "BPF_SHIM": f"storage:{entries}"})
        if lacks_bpf(done.stderr):
            self.skipTest(done.stderr)
        return done

    def test_threads_that_end_free_their_states(self):
        alive = len(glob.glob("/proc/[0-9]*/task/[0-9]*"))
        # Each thread leaves its processor before it ends.
        threads = """
import os, sys, threading, time
for _ in range(2000):
    thread = threading.Thread(target=time.sleep, args=(0.0001,))
    thread.start()
    thread.join()
print(os.getpid(), flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""
        done = self.record_without_storage(alive + 1000, sys.executable, "-c", threads, WAITS_HOST)
        self.assertNotIn("state of a thread", done.stderr)
        pid, *lines = done.stdout.splitlines()
        sleeps = [line for line in lines
                  if line.startswith("time ") and int(line.split()[1]) > 1_100_000]
        waits = [row for row in self.rows("Wait") if row["process_id"] == int(pid)]
        self.assertTrue(sleeps)
        self.assertGreaterEqual(len(waits), len(sleeps))

    def test_a_thread_that_has_no_state_is_counted_as_lost(self):
        done = self.record_without_storage(1, "sh", "-c", "sleep 0.2 & sleep 0.2; wait")
        self.assertRegex(done.stderr, r"[1-9][\d,]* no memory for the state of a thread")

    def test_two_recorders_have_the_same_processes(self):
        other = self.trace + ".2"
        recorders = [subprocess.Popen([TOOL, "record", "-o", trace, "--providers", "none"],
                                      stderr=subprocess.PIPE, text=True)
                     for trace in (self.trace, other)]
        for recorder in recorders:
            self.addCleanup(recorder.stderr.close)
            self.addCleanup(recorder.kill)
        for trace in self.trace, other:
            drive.wait_for(lambda path=trace: os.path.exists(path) and os.path.getsize(path) > 0,
                           "the first bytes")
        with subprocess.Popen([HOST, "1500"], stdout=subprocess.DEVNULL) as host:
            host.wait(PATIENCE)
        for recorder in recorders:
            status = drive.interrupt(recorder)
            self.assertEqual(status, 0, recorder.stderr.read())
        for trace in self.trace, other:
            samples = [event for event in events_of(trace)[0]
                       if event["event"] == "cpu" and event["process"] == host.pid]
            self.assertGreater(len(samples), 80)
            self.assertIn("innermost", functions(samples[len(samples) // 2]))


if __name__ == "__main__":
    record_case.main()
