#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record writes what the machine does into one trace, which TraceEvent reads.

record_host.c uses CPU time in known functions and prints how much; waits_host.c waits in known
functions and prints for how long; brief_host.c ends after an instant. Environment: RINGPIPE, HOST,
WAITS_HOST, BRIEF_HOST, SHOP, RECORD (empty: not built), SANITIZERS, INTEROP_BUILD.
"""
import collections
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import record_case
from record_case import (PATIENCE, PLAIN, RATE, KERNEL_START, HOST, WAITS_HOST, BRIEF_HOST,
                         SHOP, TOOL, Busy, Case, arguments_below, ask, below_interrupts,
                         children_of, clients, drive, events_of, functions, in_one_of_three,
                         lacks_bpf, stacks_of, stolen_seconds)


class Samples(Case):
    @in_one_of_three
    def test_a_process_has_a_sample_for_each_99th_of_a_second_that_it_ran(self):
        stolen = stolen_seconds()
        seconds, samples, summary = self.record_host(2000)
        self.assertEqual(summary["events_lost"], 0, summary["stderr"])
        # A hypervisor may take the processor away: the kernel's timer then comes late, and samples
        # are taken in time that is not the process's own.
        self.assertGreater(len(samples), 0.8 * RATE * seconds)
        self.assertLess(len(samples), 1.05 * RATE * (seconds + stolen_seconds() - stolen) + 2)

    def test_report_counts_the_same_functions_as_traceevent(self):
        # Short processes have samples before exec(2), and after their ends were reported.
        self.record("--", "sh", "-c", f"'{HOST}' 500 & '{HOST}' 500 deep & "
                    f"for i in $(seq 60); do '{HOST}' 1; done; wait")
        expected, by_process = collections.Counter(), collections.Counter()
        for sample in stacks_of(self.trace)[0]:
            by_process[sample["process"]] += 1
            if sample["process_name"] != os.path.basename(HOST):
                continue
            frames = [frame for frame in sample["stack"] if frame["address"] < KERNEL_START]
            method = (frames or sample["stack"])[0]["method"]
            expected[sample["process"], method or None] += 1
        report = json.loads(subprocess.run([TOOL, "report", "--format", "json", self.trace],
                                           stdout=subprocess.PIPE, check=True,
                                           timeout=PATIENCE).stdout)
        rows = report["hot_functions"]
        found = collections.Counter()
        for row in rows:
            found[row["process_id"]] += row["samples"]
        self.assertEqual(found, by_process)
        of_host = [row for row in rows if row["process"] == os.path.basename(HOST)]
        # libc and the vDSO may have a function of the same name.
        of_function = collections.Counter()
        for row in of_host:
            of_function[row["process_id"], row["function"]] += row["samples"]
        self.assertEqual(of_function, expected)
        self.assertEqual(of_host[0]["function"], "innermost")

    def test_functions_before_exec_keep_their_names(self):
        self.record("--providers", "none", "--", HOST, "300", "exec")
        rows = json.loads(subprocess.run(
            [TOOL, "report", "--format", "json", "--top", "100000", self.trace, "cpu"],
            stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout)
        self.assertIn("innermost", [row["function"] for row in rows])

    def test_stacks_without_frame_pointers_reach_the_first_function(self):
        _, samples, _ = self.record_host(1000)
        whole = [below_interrupts(sample) for sample in samples
                 if "innermost" in functions(sample)]
        self.assertGreater(len(whole), 0.8 * len(samples))
        for stack in whole:
            self.assertEqual(stack[:4], ["innermost", "middle", "outermost", "main"])
            self.assertEqual(stack[-1], "_start")

    def test_stacks_below_large_arrays_reach_the_first_function(self):
        _, samples, _ = self.record_host(1000, "deep")
        whole = [below_interrupts(sample) for sample in samples
                 if "innermost" in functions(sample)]
        self.assertGreater(len(whole), 0.8 * len(samples))
        for stack in whole:
            self.assertEqual(stack[:5],
                             ["innermost", "middle", "below_arrays", "outermost", "main"])
            self.assertEqual(stack[-1], "_start")

    def test_generated_code_has_the_names_of_its_map(self):
        _, samples, _ = self.record_host(1000, "code")
        names = collections.Counter(functions(sample)[0] for sample in samples)
        self.assertGreater(names["generated function"], 0.8 * len(samples), names)

    def test_the_kernels_functions_have_names(self):
        self.record("--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000",
                    "status=none")
        samples, _ = stacks_of(self.trace)
        reads = [functions(sample) for sample in samples if sample["process_name"] == "dd"
                 and "vfs_read" in functions(sample)]
        self.assertGreater(len(reads), 10)
        for stack in reads:
            # dd itself has no symbols, but libc, which called its main(), has.
            self.assertIn("__libc_start_main", stack)

    @in_one_of_three
    def test_processes_that_start_during_the_recording_have_their_own_names(self):
        self.record("--", "sh", "-c", f"{HOST} 400 & {HOST} 400 deep & wait")
        samples, _ = stacks_of(self.trace)
        name = os.path.basename(HOST)
        processes = collections.Counter(sample["process"] for sample in samples
                                        if sample["process_name"] == name)
        self.assertEqual(len(processes), 2, processes)
        for count in processes.values():
            self.assertGreater(count, 0.8 * RATE * 0.4)


class Chosen(Case):
    @in_one_of_three
    def test_only_the_process_and_what_it_starts_are_recorded(self):
        script = f"{HOST} 400; {HOST} 400 deep; read _"
        with subprocess.Popen([HOST, "5000"], stdout=subprocess.DEVNULL) as other:
            with subprocess.Popen(["sh", "-c", "read _; " + script], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL) as chosen:
                with subprocess.Popen([TOOL, "record", "-o", self.trace, "-p", str(chosen.pid)],
                                      stderr=subprocess.PIPE, text=True) as process:
                    drive.wait_for(lambda: os.path.exists(self.trace) and
                                   os.path.getsize(self.trace) > 0, "the first bytes")
                    chosen.stdin.write(b"\n")
                    chosen.stdin.flush()
                    drive.wait_for(lambda: b"deep" in arguments_below(chosen.pid), "the second")
                    drive.wait_for(lambda: not arguments_below(chosen.pid), "its end")
                    process.send_signal(signal.SIGINT)
                    _, errors = process.communicate(timeout=PATIENCE)
                chosen.communicate(b"\n", timeout=PATIENCE)
            other.kill()
        self.assertEqual(process.returncode, 0, errors)
        events, _ = events_of(self.trace)
        samples = [event for event in events if event["event"] == "cpu"]
        self.assertGreater(len(samples), 0.8 * RATE * 0.8)
        self.assertNotIn(other.pid, {event["process"] for event in events})
        self.assertLessEqual({sample["process_name"] for sample in samples},
                             {"sh", os.path.basename(HOST)})

    @in_one_of_three
    def test_several_processes_are_all_recorded(self):
        with contextlib.ExitStack() as stack:
            hosts = [stack.enter_context(subprocess.Popen([HOST, "60000"],
                                                          stdout=subprocess.DEVNULL))
                     for _ in range(3)]
            for host in hosts:
                stack.callback(host.kill)
            for count, size, text in ((1, "20kB", " of 1 process "),
                                      (2, "100kB", " of 2 processes ")):
                chosen = [option for host in hosts[:count] for option in ("-p", str(host.pid))]
                done = self.record("-f", "--providers", "none", "--until", size, *chosen)
                self.assertIn(text, done.stderr)
                samples = stacks_of(self.trace)[0]
                self.assertEqual({sample["process"] for sample in samples},
                                 {host.pid for host in hosts[:count]})

    def test_a_process_that_does_not_exist_is_reported(self):
        for others in [], ["-p", str(os.getpid())]:
            done = subprocess.run([TOOL, "record", "-o", self.trace, *others,
                                   "-p", str(2 ** 22 - 1)], text=True, stderr=subprocess.PIPE,
                                  timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"there is no process {2 ** 22 - 1}", done.stderr)
            self.assertFalse(os.path.exists(self.trace))


class Waits(Case):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.record_waits()

    def prepare_again(self):
        self.record_waits()

    @classmethod
    def record_waits(cls):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t.nettrace")
            done = subprocess.run([TOOL, "record", "-o", trace, *cls.options, "--", WAITS_HOST],
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=PATIENCE, check=True)
            if lacks_bpf(done.stderr):
                raise unittest.SkipTest(done.stderr)
            events, cls.summary = events_of(trace)
        name = os.path.basename(WAITS_HOST)
        cls.events = [event for event in events if event["process_name"] == name]
        lines = [line.split() for line in done.stdout.splitlines()]
        cls.waker = next(int(number) for word, number in lines if word == "waker")
        cls.took = collections.defaultdict(list)
        for kind, number in lines:
            if kind != "waker":
                cls.took[kind].append(int(number))

    def waits_in(self, function):
        """Return the waits whose stack has the function, each with its details."""
        found = []
        for event, following in zip(self.events, self.events[1:]):
            if event["event"] == "cswitch" and function in functions(event):
                self.assertEqual(following["event"], "Wait")
                self.assertEqual(following["thread"], event["thread"])
                self.assertEqual(following["fields"]["duration_ns"], event["fields"]["Value"])
                found.append((event, following["fields"]))
        return found

    def check(self, kind, function, kernel_function):
        """Each sleep above a millisecond is there once, with duration and stacks, or is lost."""
        took, lost = self.took[kind], self.summary["events_lost"]
        waits = [wait for wait in self.waits_in(function) if wait[1]["state"]]
        self.rounds = [i for i, ns in enumerate(took) if ns > 1100000]
        self.assertGreaterEqual(len(waits) + lost, len(self.rounds))
        if lost:
            raise Busy(f"the kernel had no space for {lost} records, which were counted")
        if len(waits) != len(self.rounds):
            self.rounds = [i for i, ns in enumerate(took) if ns > 1000000]
        self.assertEqual(len(waits), len(self.rounds))
        for (event, fields), i in zip(waits, self.rounds):
            names = functions(event)
            self.assertIn(kernel_function, names)
            self.assertLess(names.index(kernel_function), names.index(function))
            self.assertIn("main", names)
            self.assertEqual(names[-1], "_start")
            self.assertEqual(fields["state"], 1)
            self.assertLess(fields["duration_ns"], took[i])
            self.assertLess(fields["runnable_ns"], fields["duration_ns"])
        return waits

    @in_one_of_three
    def test_each_sleep_above_the_threshold_is_there_once(self):
        waits = self.check("time", "wait_for_time", "hrtimer_nanosleep")
        for (_, fields), i in zip(waits, self.rounds):
            # The timer is started some microseconds before the thread leaves its processor.
            asked = (3e5, 2e6, 5e6, 20e6)[i % 4]
            self.assertGreater(fields["duration_ns"], asked - 5e5)

    @in_one_of_three
    def test_each_wait_for_a_thread_names_that_thread(self):
        for kind, function, kernel_function in (("word", "wait_for_word", "futex_wait"),
                                                ("pipe", "wait_for_pipe", "anon_pipe_read")):
            for _, fields in self.check(kind, function, kernel_function):
                self.assertEqual(fields["waker_thread"], self.waker)

    @in_one_of_three
    def test_each_waking_has_the_stack_of_the_waker(self):
        for function in "wake_by_word", "wake_by_pipe":
            wakings = [event for event in self.events if event["event"] == "Waking"
                       and function in functions(event)
                       # An interrupt in the function may have woken a thread of another process.
                       and event["fields"]["woken_process"] == event["process"]]
            self.assertEqual(len(wakings), 20)
            for event in wakings:
                self.assertEqual(event["thread"], self.waker)
                self.assertIn("start_thread", functions(event))

    @in_one_of_three
    def test_nothing_is_lost(self):
        self.assertEqual(self.summary["events_lost"], 0)


class AllWaits(Waits):
    options = ("--off-cpu", "0")

    def check(self, kind, function, kernel_function):
        """The trace has as many sleeps as the kernel counted, and each has its stack."""
        waits = [(event, fields) for event, fields in self.waits_in(function) if fields["state"]]
        self.assertEqual([len(waits)], self.took[kind + "_sleeps"])
        for event, fields in waits:
            self.assertIn(kernel_function, functions(event))
            self.assertLess(fields["runnable_ns"], fields["duration_ns"])
        return waits

    @in_one_of_three
    def test_each_sleep_above_the_threshold_is_there_once(self):
        waits = self.check("time", "wait_for_time", "hrtimer_nanosleep")
        self.assertTrue([fields for _, fields in waits if fields["duration_ns"] < 1e6])


class Calls(Waits):
    """The groups that run on request; waits are recorded as without them."""
    options = ("--kernel", "all")

    def calls_in(self, function, event="Syscall"):
        return [row for row in self.events if row["event"] == event
                and function in functions(row)]

    def check_calls(self, kind, function, name, result):
        """Each call above a millisecond is there once, with its duration and stack."""
        calls = self.calls_in(function)
        seen = [ns for ns in self.took[kind] if ns > 1100000]
        self.assertEqual(len(calls), len(seen))
        for call, took in zip(calls, seen):
            self.assertEqual((call["fields"]["name"], call["fields"]["result"]), (name, result))
            self.assertGreater(call["fields"]["duration_ns"], took - 1e6)
            self.assertLess(call["fields"]["duration_ns"], took)
            self.assertEqual(functions(call)[-1], "_start")
        return calls

    @in_one_of_three
    def test_each_long_system_call_is_there_once(self):
        self.check_calls("time", "wait_for_time", "clock_nanosleep", 0)
        for call in self.check_calls("pipe", "wait_for_pipe", "read", 1):
            self.assertEqual(call["fields"]["argument2"], 1)

    @in_one_of_three
    def test_each_wait_for_a_futex_names_the_thread_that_ended_it(self):
        waits = self.calls_in("wait_for_word", "FutexWait")
        calls = self.calls_in("wait_for_word")
        self.assertEqual(len(waits), len([ns for ns in self.took["word"] if ns > 1100000]))
        self.assertEqual([wait["fields"]["duration_ns"] for wait in waits],
                         [call["fields"]["duration_ns"] for call in calls])
        for wait, call in zip(waits, calls):
            self.assertEqual(wait["fields"]["address"], call["fields"]["argument0"])
            self.assertEqual(wait["fields"]["waker_thread"], self.waker)
            self.assertEqual(wait["fields"]["waker_process"], wait["process"])


class Groups(Case):
    def test_what_a_small_ring_cannot_take_is_counted_in_the_trace(self):
        copies = 200000
        copy = f"dd if=/dev/zero of=/dev/null bs=1 count={copies} status=none"
        done = self.record("--buffer", "1", "--off-cpu", "0", "--kernel", "syscalls", "--",
                           "sh", "-c", f"{copy} & echo $!; {copy} & echo $!; wait")
        copiers = done.stdout.split()
        if lacks_bpf(done.stderr):
            self.skipTest(done.stderr)
        report = json.loads(subprocess.run([TOOL, "report", "--format", "json", self.trace],
                                           stdout=subprocess.PIPE, check=True,
                                           timeout=PATIENCE).stdout)
        rows = subprocess.run([TOOL, "report", self.trace, "events", "--format", "json"],
                              stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
        losses = collections.Counter()
        for line in rows.splitlines():
            if b'"Loss"' in line:
                fields = json.loads(line)["fields"]
                losses[fields["reason"]] += fields["lost"]
        lost = losses["ring of BPF programs full"]
        self.assertGreater(lost, 0)
        # Each copy is a read and a write; the loader reads, too. Other programs lost calls as well.
        call = f'"process_id":({"|".join(copiers)}),.*"Syscall".*"name":"(read|write)"'.encode()
        copied = len([line for line in rows.splitlines() if re.search(call, line)])
        self.assertGreaterEqual(copied + lost, 4 * copies)
        self.assertLess(copied, 4 * copies + 100)
        self.assertEqual(sum(losses.values()), report["lost"])
        self.assertIn(f"In all, {report['lost']:,} events lost.",
                      subprocess.run([TOOL, "report", self.trace, "losses"], text=True,
                                     stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout)
        self.assertIn("ring of BPF programs full", done.stderr)

    def test_a_profile_of_the_processor_has_no_waits(self):
        done = self.record("--profile", "cpu", "--", HOST, "500")
        events, _ = events_of(self.trace)
        self.assertIn(" 0 waits ", done.stderr)
        self.assertEqual({event["event"] for event in events} & {"Wait", "Waking", "Syscall"},
                         set())

    def test_wrong_groups_are_refused(self):
        for option in ["--kernel", "disk"], ["--profile", "cpu,io"], ["--profile", "fast"]:
            done = subprocess.run([TOOL, "record", "-o", self.trace, *option], text=True,
                                  stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(option[0], done.stderr)
            self.assertFalse(os.path.exists(self.trace))


class Sessions(Case):
    def start(self, *options):
        options = options or ("--providers", ",".join(drive.PROVIDERS))
        process = subprocess.Popen([TOOL, "record", "-o", self.trace, *options],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait, PATIENCE)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        events, summary = events_of(self.trace)
        counts = collections.defaultdict(collections.Counter)
        for event in events:
            if event["provider"] in drive.PROVIDERS:
                counts[event["process"]][event["provider"], event["id"]] += 1
        return counts, events, summary, errors

    @in_one_of_three
    def test_each_process_has_its_own_events_next_to_the_machines(self):
        with drive.shop(SHOP, env=PLAIN) as first:
            process = self.start()
            first.wait_for_sessions(1)
            # This one starts during the recording.
            with drive.shop(SHOP, env=PLAIN) as second:
                second.wait_for_sessions(1)
                for shop in first, second:
                    ask(shop, 300)
                books = {shop.pid: drive.books(shop.wait_until_quiet())
                         for shop in (first, second)}
                counts, events, summary, errors = self.finish(process)
        self.assertEqual(summary["events_lost"], 0, errors)
        for pid, expected in books.items():
            self.assertEqual(counts[pid], {key: n for key, n in expected.items() if n})
            samples = [event for event in events if event["process"] == pid
                       and event["event"] == "cpu"]
            self.assertEqual({event["process_name"] for event in samples} - {"shop"}, set())
        times = [event["time_ms"] for event in events]
        self.assertEqual(times, sorted(times))

    @in_one_of_three
    def test_processes_that_live_for_an_instant_have_their_events(self):
        self.record("--providers", "Test-Brief", "--", "sh", "-c",
                    f"for i in 1 2 3 4 5 6 7 8 9 10; do '{BRIEF_HOST}' || exit 1; done")
        events, summary = events_of(self.trace)
        serials = collections.defaultdict(list)
        for event in events:
            if event["provider"] == "Test-Brief":
                serials[event["process"]].append(event["fields"]["serial"])
        self.assertEqual(list(serials.values()), [list(range(10))] * 10)
        self.assertEqual(summary["events_lost"], 0)

    @in_one_of_three
    def test_more_processes_than_open_files_have_their_events(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

        self.record("--providers", "Test-Brief", "--profile", "cpu", "--", "sh", "-c",
                    f"for i in $(seq 400); do '{BRIEF_HOST}' || exit 1; done",
                    preexec_fn=few_files)
        events, summary = events_of(self.trace)
        counts = collections.Counter(event["process"] for event in events
                                     if event["provider"] == "Test-Brief")
        self.assertEqual(list(counts.values()), [10] * 400)
        self.assertEqual(summary["events_lost"], 0)

    def test_processes_beyond_the_limit_of_open_files_are_reported(self):
        def no_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (52, 52))

        with drive.shop(SHOP, env=PLAIN) as one, drive.shop(SHOP, env=PLAIN) as two, \
             drive.shop(SHOP, env=PLAIN) as three:
            done = self.record("--profile", "cpu", "--providers", ",".join(drive.PROVIDERS), "-d",
                               "1", preexec_fn=no_files)
        refused = [shop.pid for shop in (one, two, three)
                   if f"cannot record process {shop.pid}: Too many open files" in done.stderr]
        self.assertTrue(refused)
        self.assertTrue(events_of(self.trace)[0])

    def test_a_killed_process_costs_no_more_than_the_end_of_its_stream(self):
        with drive.shop(SHOP, env=PLAIN) as first, drive.shop(SHOP, env=PLAIN) as second:
            process = self.start()
            for shop in first, second:
                shop.wait_for_sessions(1)
                ask(shop, 300)
            first.process.kill()
            first.process.wait(PATIENCE)
            expected = drive.books(second.wait_until_quiet())
            counts, _, _, errors = self.finish(process)
        self.assertIn(f"process {first.pid} ended before it completed its part", errors)
        self.assertGreater(sum(counts[first.pid].values()), 100)
        self.assertEqual(counts[second.pid], {key: n for key, n in expected.items() if n})

    def events_so_far(self, providers=tuple(drive.PROVIDERS)):
        """Return how many events of the providers the trace has, as it is on the disk."""
        done = subprocess.run([TOOL, "report", "--format", "json", self.trace],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                              timeout=PATIENCE)
        report = json.loads(done.stdout or b'{"providers": []}')
        return sum(kind["events"] for provider in report["providers"]
                   if provider["provider"] in providers for kind in provider["kinds"])

    def test_by_default_native_processes_and_those_of_dotnet_have_events(self):
        runtime = "Microsoft-Windows-DotNETRuntime"
        command = ["dotnet", clients.beside_command()]  # builds it, by programs of .NET
        process = self.start("--off-cpu", "10ms")
        with drive.shop(SHOP, env=PLAIN) as shop, \
             subprocess.Popen(command, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, env=PLAIN) as dotnet:
            shop.wait_for_sessions(1)
            ask(shop, 100)
            drive.wait_for(lambda: self.events_so_far((runtime,)) > 0, "events of the runtime")
            expected = drive.books(shop.wait_until_quiet())
            dotnet.stdin.close()
            dotnet.wait(PATIENCE)
            counts, events, _, _ = self.finish(process)
        # Its verbose events are left out.
        self.assertEqual(counts[shop.pid]["Shop-Http", 1], 200)
        self.assertLess(counts[shop.pid].items(), expected.items())
        self.assertIn(dotnet.pid,
                      {event["process"] for event in events if event["provider"] == runtime})

    @unittest.skipUnless(os.environ["SANITIZERS"] == "none",
                         "the runtime of .NET loads no library with a sanitizer")
    def test_a_process_with_libringpipe_and_dotnet_has_a_session_of_each(self):
        command = ["dotnet", clients.beside_command()]
        process = self.start("--profile", "cpu", "--providers", "Beside,ringpipe")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**PLAIN, "LD_PRELOAD": os.environ["LIBRARY"]}) as dotnet:
            drive.wait_for(lambda: self.events_so_far(("Beside",)) > 0, "events of .NET")
            dotnet.stdin.close()
            dotnet.wait(PATIENCE)
            _, events, _, _ = self.finish(process)
        own = [event for event in events if event["process"] == dotnet.pid]
        # ProcessTraced begins the events of each session.
        self.assertEqual(len([event for event in own
                              if (event["provider"], event["id"]) == ("ringpipe", 64)]), 2)
        serials = [event["fields"]["serial"] for event in own if event["provider"] == "Beside"]
        self.assertEqual(serials, list(range(serials[0], serials[0] + len(serials))))
        # Both name the threads of the process alike.
        self.assertEqual([event["thread"] for event in own if event["thread"] >= 1 << 22], [])

    def test_chosen_processes_alone_have_sessions(self):
        with drive.shop(SHOP, env=PLAIN) as first, drive.shop(SHOP, env=PLAIN) as second, \
             drive.shop(SHOP, env=PLAIN) as third:
            process = self.start("-p", str(first.pid), "-p", str(third.pid))
            for shop in first, third:
                shop.wait_for_sessions(1)
            for shop in second, first, third:
                ask(shop, 10)
            for shop in first, third:
                shop.wait_until_quiet()
            counts, _, _, _ = self.finish(process)
        self.assertEqual(set(counts), {first.pid, third.pid})

    def test_no_process_has_a_session_if_none_is_requested(self):
        self.record("--providers", "none", "--", "sh", "-c", f"'{BRIEF_HOST}' 300; true")
        events, _ = events_of(self.trace)
        self.assertEqual({event["provider"] for event in events}
                         & {"ringpipe", "Test-Brief"}, set())

    def test_a_killed_recorder_leaves_the_events_of_processes_up_to_then(self):
        with drive.shop(SHOP, env=PLAIN) as shop:
            process = self.start()
            shop.wait_for_sessions(1)
            ask(shop, 300)
            drive.wait_for(lambda: self.events_so_far() > 1000,
                           "events in the file")
            for writer in children_of(process.pid):
                os.kill(writer, signal.SIGKILL)
            _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn("was killed by signal 9", errors)
        events, summary = events_of(self.trace, "--cut")
        self.assertEqual(summary["events_lost"], 0)
        of_shop = [event for event in events if event["process"] == shop.pid
                   and event["provider"] in drive.PROVIDERS]
        self.assertGreater(len(of_shop), 900)
        self.assertEqual(self.events_so_far(), len(of_shop))

    def test_a_stopped_process_is_reported_and_costs_only_its_events(self):
        with drive.shop(SHOP, env=PLAIN) as stopped, drive.shop(SHOP, env=PLAIN) as shop:
            os.kill(stopped.pid, signal.SIGSTOP)
            process = self.start()
            shop.wait_for_sessions(1)
            ask(shop, 10)
            expected = drive.books(shop.wait_until_quiet())
            counts, _, summary, errors = self.finish(process)
            os.kill(stopped.pid, signal.SIGCONT)
        self.assertIn(f"process {stopped.pid} could not be traced", errors)
        self.assertEqual(counts[shop.pid], {key: n for key, n in expected.items() if n})
        # The kernel's events end before the sessions do, and so do their losses.
        self.assertEqual(summary["events_lost"], 0, errors)
        self.assertIn(" 0 lost", errors)

    def test_a_full_disk_ends_the_recording_with_an_error(self):
        with drive.shop(SHOP, env=PLAIN) as shop:
            done = subprocess.run([TOOL, "record", "-d", "30", "-f", "-o", "/dev/full",
                                   "--providers", ",".join(drive.PROVIDERS)], text=True,
                                  stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            # The program goes on.
            ask(shop, 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write /dev/full: No space left on device", done.stderr)


class Refused(Case):
    def test_an_unknown_command_is_reported(self):
        done = subprocess.run([TOOL, "record", "-o", self.trace, "--", "/nonexistent"], text=True,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot run /nonexistent: No such file or directory", done.stderr)
        self.assertFalse(os.path.exists(self.trace))


if __name__ == "__main__":
    record_case.main()
