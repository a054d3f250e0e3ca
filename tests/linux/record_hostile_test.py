#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record under bad conditions: files that vanish, strange names, many mappings and
processes, a recorder that does not run for a while, two recorders."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

import record_case
from merge_test import Reader
from oracle import Bytes
from record_case import (HOST, PATIENCE, PLAIN, TOOL, WAITS_HOST, Case, descendants_of, drive,
                         events_of, functions, lacks_bpf)
from tool import ToolTest

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


def user_ticks(pid):
    """Return the ticks that a process has used in user mode."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[11])


def is_real_time(pid):
    """Return whether the process exists and runs before those without a real-time priority."""
    with contextlib.suppress(ProcessLookupError):
        return os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
    return False


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

    @contextlib.contextmanager
    def mounted(self, name="mount", content=HOST, program="mount/program"):
        """Mount a file system of one file that another process serves, with that content, in a
        new folder. Run a program. Yield the processes of both."""
        parent = os.path.dirname(self.trace)
        folder = os.path.join(parent, name)
        os.mkdir(folder)
        server = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuse_server.py")
        with drive.running([sys.executable, server, folder, content], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True) as process, \
                process.stdout, process.stderr:
            if not process.stdout.readline():
                self.skipTest(f"the kernel mounts no FUSE: {process.stderr.read()}")
            try:
                with drive.running([os.path.join(parent, program), "600000"],
                                   stdout=subprocess.DEVNULL) as running:
                    yield process, running
            finally:
                # The end of the server ends all waits for it.
                process.kill()
                subprocess.run(["umount", "--lazy", folder], check=True)
                os.rmdir(folder)

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_program_of_a_served_file_system_has_its_names(self):
        with self.mounted() as (_, program):
            self.record("--providers", "none", "-d", "1", "-p", str(program.pid))
        self.assertIn("innermost", self.names_of("program"))

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    def test_a_file_system_that_never_answers_costs_the_names_of_its_files_alone(self):
        for number in signal.SIGSTOP, signal.SIGUSR1:
            with self.subTest(number=number.name), self.mounted() as (server, program):
                drive.wait_for(lambda pid=program.pid: user_ticks(pid) > 20,
                               "the pages of the program")
                server.send_signal(number)
                self.record("--providers", "none", "-d", "2", "-p", str(program.pid))
                # No signal ends a process that waits for a request which the server has taken.
                if number == signal.SIGUSR1:
                    self.assertEqual(server.stdout.readline(), "taken\n")
                self.assertNotIn("innermost", self.names_of("program"))
                self.assertTrue(self.names_of("program"))
                self.prepare_again()

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "there is no /dev/fuse")
    @record_case.in_one_of_three
    def test_a_debug_file_that_is_served_has_names_and_costs_only_these_if_it_never_answers(self):
        folder = os.path.dirname(self.trace)
        stripped, debug = os.path.join(folder, "stripped"), os.path.join(folder, "debug", "program")
        os.makedirs(os.path.dirname(debug), exist_ok=True)
        subprocess.run(["objcopy", "--only-keep-debug", HOST, debug], check=True)
        subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", HOST, stripped],
                       check=True)
        for answers in True, False:
            with self.subTest(answers=answers), \
                    self.mounted(".debug", debug, "stripped") as (server, program):
                if not answers:
                    server.send_signal(signal.SIGUSR1)
                self.record("--providers", "none", "-d", "1", "-p", str(program.pid))
                if not answers:
                    self.assertEqual(server.stdout.readline(), "taken\n")
                self.assertEqual("innermost" in self.names_of("stripped"), answers)
                self.prepare_again()

    def test_many_files_leave_most_of_the_open_files_free(self):
        folder = os.path.dirname(self.trace)
        source, library = os.path.join(folder, "many.c"), os.path.join(folder, "0.so")
        with open(source, "w", encoding="ascii") as file:
            file.write("int many;")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        for i in range(1, 400):
            shutil.copy(library, os.path.join(folder, f"{i}.so"))
        load = "import ctypes, sys\nkept = [ctypes.CDLL(f'{sys.argv[1]}/{i}.so') for i in " \
               "range(400)]\nprint(flush=True)\nwhile True: pass"
        with drive.running([sys.executable, "-c", load, folder],
                           stdout=subprocess.PIPE) as program, program.stdout:
            program.stdout.readline()
            limits = "import os, resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, " \
                     "(256, 256))\nos.execvp(sys.argv[1], sys.argv[1:])"
            self.prefix = (sys.executable, "-c", limits)
            self.record("--providers", "none", "-d", "1", "-p", str(program.pid))
        self.assertIn("_PyEval_EvalFrameDefault",
                      {name for event in events_of(self.trace)[0] if event["event"] == "cpu"
                       for name in functions(event)})

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
        self.assertEqual(sum(loss["lost"] for loss in losses), summary["events_lost"])

    def test_the_last_line_has_the_losses_of_processes_as_the_report_of_losses(self):
        hosts = [subprocess.Popen([os.environ["LOSS_HOST"], *arguments], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                 for arguments in (["large"], [])]
        for host in hosts:
            self.addCleanup(host.communicate)
        recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, "--profile", "cpu",
                                     "--providers", "Test-Loss", "-p", str(hosts[0].pid),
                                     "-p", str(hosts[1].pid)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.stderr.close)
        self.addCleanup(recorder.kill)
        refused = {host.pid: json.loads(host.stdout.readline()) for host in hosts}
        status = drive.interrupt(recorder)
        last = recorder.stderr.read().splitlines()[-1]
        self.assertEqual(status, 0, last)
        said = {(int(pid), int(ring) if ring else None, reason): int(lost.replace(",", ""))
                for lost, reason, ring, pid in re.findall(
                    r"([\d,]+) ([\w-]+)(?: in ring (\d+))? of loss_host \((\d+)\)", last)}
        losses = json.loads(subprocess.run(
            [TOOL, "report", self.trace, "losses", "--format", "json"], check=True,
            stdout=subprocess.PIPE).stdout)
        reported = {}
        for row in losses:
            if row["process_id"] in refused:
                key = row["process_id"], row["ring"], row["reason"]
                reported[key] = reported.get(key, 0) + row["lost"]
        self.assertEqual(said, reported, last)
        for pid, counts in refused.items():
            by_reason = {reason: sum(lost for key, lost in said.items()
                                     if key[0] == pid and key[2] == reason)
                         for reason in ("full", "full-fallback")}
            self.assertEqual(sum(by_reason.values()), sum(counts.values()), last)
            self.assertGreater(by_reason["full-fallback" if counts["large"] else "full"], 0, last)
        self.assertNotIn("without a reason", last)

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
        self.assertLess(largest_kb, 200_000)
        self.assert_no_overlaps()

    def record_without_storage(self, entries, *command):
        """Record a command while the kernel creates no storage of threads."""
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

    def test_a_busy_machine_delays_neither_the_recorder_nor_its_workers(self):
        with drive.running([TOOL, "record", "-o", self.trace, "--providers", "none"],
                           stderr=subprocess.DEVNULL) as recorder:
            drive.wait_for(lambda: os.path.exists(self.trace) and
                                   os.path.getsize(self.trace) > 0, "the first bytes")

            def are_real_time():
                # The workers are below the recorder. A busy machine may need several of them.
                itself, *below = map(is_real_time, descendants_of(recorder.pid))
                return itself and any(below)

            drive.wait_for(are_real_time, "a recorder and a worker")
            self.assertEqual(drive.interrupt(recorder), 0)

    def test_killed_workers_cost_names_which_is_reported_once(self):
        with drive.running([TOOL, "record", "-o", self.trace, "--providers", "none"],
                           stderr=subprocess.PIPE, text=True) as recorder, recorder.stderr:
            drive.wait_for(lambda: os.path.exists(self.trace) and
                                   os.path.getsize(self.trace) > 0, "the first bytes")
            for pid in descendants_of(recorder.pid):
                # The workers end with the process that forked them.
                with contextlib.suppress(ProcessLookupError):
                    if pid != recorder.pid:
                        os.kill(pid, signal.SIGKILL)
            subprocess.run([HOST, "300"], stdout=subprocess.DEVNULL, check=True)
            self.assertEqual(drive.interrupt(recorder), 0)
            self.assertEqual(recorder.stderr.read().count("names of functions and trace ids"), 1)

    def test_a_command_has_the_priority_of_its_caller(self):
        self.prefix = ("nice", "-n", "5")
        done = self.record("--providers", "none", "--", sys.executable, "-c",
                           "import os; print(os.nice(0), os.sched_getscheduler(0))")
        self.assertEqual(done.stdout.split(), ["5", str(os.SCHED_OTHER)])

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
            found = sum("innermost" in functions(sample) for sample in samples)
            self.assertGreater(found, 0.8 * len(samples))


class Unread(ToolTest):
    def test_signals_end_a_recording_whose_trace_nothing_reads(self):
        for options in [], ["--providers", "none"]:
            with self.subTest(options=options):
                process = self.start_unread("record", "-o", "-", *options)
                self.assertIn("cancelled", self.interrupt_twice(process))
                process = self.start_unread("record", "-o", "-", *options)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(PATIENCE), 1)
                self.assertIn("has stopped reading", process.stderr.read().decode())

    def test_a_recording_whose_reader_has_left_ends_quietly(self):
        for options in [], ["--providers", "none"]:
            with self.subTest(options=options):
                process = self.start("record", "-o", "-", *options)
                process.stdout.read(100)
                process.stdout.close()
                self.assertEqual(process.wait(PATIENCE), 141)
                self.assertNotIn(b"cannot write", process.stderr.read())


if __name__ == "__main__":
    record_case.main()
