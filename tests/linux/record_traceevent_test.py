# SPDX-License-Identifier: MIT
"""TraceEvent's views of one recording of four processes under load.

Thread Time is compared with what each thread of waits_host.c measured itself, by getrusage(2) and
by its clock. Three things make them differ:

- Waits below the threshold of the recorder count as CPU time. The kernel's count of switches of the
  thread states how many waits the trace lacks.
- If the trace does not state when the next thread began to run on the processor, TraceEvent begins
  the wait at the first sample of that thread. The trace states how far this is from the real begin.
- The kernel's accounting and its events have different times of a switch: TOLERANCE_MS and SHARE.
"""
import collections
import json
import os
import signal
import subprocess
import tempfile
import unittest

import record_case
from record_case import (HOST, KERNEL_START, PATIENCE, PLAIN, SHOP, TOOL, WAITS_HOST, ask, clients,
                         drive, events_of, functions, in_one_of_three)

THRESHOLD_MS = 0.1
TOLERANCE_MS = 2
SHARE = 0.02
PROVIDERS = (*drive.PROVIDERS, "Beside")


class View(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "t.nettrace")
            cls.record(trace)
            cls.events, cls.summary = events_of(trace)
            trace_read = clients.TraceRead()
            cls.kinds = trace_read.summary(trace)["kinds"]
            cls.times = list(trace_read.lines(trace, "--thread-time"))
            cls.report = json.loads(subprocess.run(
                [TOOL, "report", "--all", "--format", "json", trace], stdout=subprocess.PIPE,
                check=True, timeout=PATIENCE).stdout)

    @classmethod
    def record(cls, trace):
        """Record the processes; keep their ids and what waits_host printed."""
        command = ["dotnet", clients.beside_command()]
        with drive.running([TOOL, "record", "-o", trace, "--off-cpu", "100us", "--providers",
                            ",".join(PROVIDERS)], stderr=subprocess.PIPE) as recorder, \
             drive.shop(SHOP, env=PLAIN) as shop, \
             subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              env=PLAIN) as dotnet:
            # Another recorder of the machine may have a session already.
            drive.wait_for(lambda: os.path.exists(trace) and os.path.getsize(trace) > 0
                           and all(shop.stats()["sessions"].values()), "the recorder")
            busy = subprocess.Popen([HOST, "1000"], stdout=subprocess.DEVNULL)
            waits = subprocess.Popen([WAITS_HOST], stdout=subprocess.PIPE, text=True)
            while waits.poll() is None:
                ask(shop, 10)
            lines = [line.split() for line in waits.communicate()[0].splitlines()]
            busy.wait(PATIENCE)
            dotnet.stdin.close()
            dotnet.wait(PATIENCE)
            shop.wait_until_quiet()
            recorder.send_signal(signal.SIGINT)
            errors = recorder.communicate(timeout=PATIENCE)[1].decode()
        if recorder.returncode:
            raise drive.Failure(errors)
        if "no waits are recorded" in errors:
            raise unittest.SkipTest(errors)
        cls.pids = {"busy": busy.pid, "waits": waits.pid, "shop": shop.pid, "dotnet": dotnet.pid}
        cls.host = {key: int(value) for key, value in lines}

    def prepare_again(self):
        self.setUpClass()

    def test_each_kind_has_as_many_events_as_in_the_report(self):
        expected, found = collections.Counter(), collections.Counter()
        for kind in self.kinds:
            expected[kind["provider"], kind["id"], kind["version"]] += kind["count"]
        for provider in self.report["providers"]:
            for kind in provider["kinds"]:
                found[provider["provider"], kind["id"], kind["version"]] += kind["events"]
        self.assertEqual(found - expected, expected - found)
        self.assertLessEqual({"Universal.Events", "Universal.System", "Ringpipe-Machine",
                              "Shop-Http", "Beside"}, {provider for provider, _, _ in found})

    def names_of(self, process, event):
        """Return the names in the stacks of the events of a process, and those of the kernel."""
        rows = [row for row in self.events if row["process"] == self.pids[process]
                and row["event"] == event and row["stack"]]
        self.assertTrue(rows, f"{event} of {process}")
        frames = [frame for row in rows for frame in row["stack"]]
        return ({frame["method"] for frame in frames if frame["address"] < KERNEL_START},
                {frame["method"] for frame in frames if frame["address"] >= KERNEL_START})

    @in_one_of_three
    def test_stacks_of_all_processes_and_of_the_kernel_have_names(self):
        own, _ = self.names_of("busy", "cpu")
        self.assertLessEqual({"innermost", "middle", "outermost", "main", "_start"}, own)
        own, kernel = self.names_of("waits", "cswitch")
        self.assertLessEqual({"wait_for_time", "wait_for_word", "wait_for_pipe", "main"}, own)
        self.assertLessEqual({"hrtimer_nanosleep", "futex_wait", "anon_pipe_read"}, kernel)
        own, kernel = self.names_of("shop", "cswitch")
        self.assertLessEqual({"epoll_wait", "start_thread"}, own)
        self.assertIn("do_syscall_64", kernel)
        own, kernel = self.names_of("dotnet", "cswitch")
        self.assertIn("pthread_cond_timedwait", own)
        self.assertIn("futex_wait", kernel)

    def displaced(self, thread):
        """Return the sum of the times by which TraceEvent begins waits too early or too late."""
        on, sampled, total = {}, None, 0
        for event in self.events:
            if event["event"] not in ("cpu", "cswitch"):
                continue
            processor = event["processor"]
            if event["thread"] != thread:
                if event["event"] == "cpu" and on.get(processor) == thread and sampled is None:
                    sampled = event["time_ms"]
            elif event["event"] == "cswitch":
                if sampled is not None:
                    begin = event["time_ms"] - event["fields"]["Value"] / 1e6
                    total += abs(sampled - begin)
                sampled = None
            on[processor] = event["thread"]
        return total

    def thread_time(self, thread, begin, end):
        """Return kind -> milliseconds of a thread between two times."""
        times = collections.Counter()
        for row in self.times:
            if row["thread"] == str(thread):
                within = (min(end, row["time_ms"] + row["duration_ms"])
                          - max(begin, row["time_ms"]))
                times[row["frames"][0]] += max(0, within)
        return times

    @in_one_of_three
    def test_thread_time_of_each_thread_is_what_the_thread_measured(self):
        self.assertEqual(self.summary["events_lost"], 0)
        reading = next(row for row in self.events if row["event"] == "ClockReading")
        zero = reading["fields"]["monotonic_ns"] / 1e6 - reading["time_ms"]
        for name in "waiter", "waker":
            thread, switches = self.host[name], self.host[name + "_switches"]
            begin, end = (self.host[f"{name}_{what}_ns"] / 1e6 - zero for what in ("begin", "end"))
            cpu = self.host[name + "_cpu_ns"] / 1e6
            waited = end - begin - cpu
            waits = sum(row["event"] == "cswitch" and row["thread"] == thread
                        and begin < row["time_ms"] < end for row in self.events)
            displaced = self.displaced(thread)
            bound = (TOLERANCE_MS + SHARE * cpu + displaced
                     + THRESHOLD_MS * max(0, switches - waits))
            found = self.thread_time(thread, begin, end)
            print(f"# figure: {name}: on {cpu:.1f} ms, Thread Time {found['CPU_TIME'] - cpu:+.2f}; "
                  f"off {waited:.1f} ms, {found['BLOCKED_TIME'] - waited:+.2f}; bound {bound:.2f}, "
                  f"of it {displaced:.2f} displaced; {switches} switches, {waits} waits")
            self.assertGreaterEqual(cpu, 100)
            self.assertAlmostEqual(found["CPU_TIME"], cpu, delta=bound)
            self.assertAlmostEqual(found["BLOCKED_TIME"], waited, delta=bound)


if __name__ == "__main__":
    record_case.main()
