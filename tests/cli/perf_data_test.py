#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports on perf.data, compared with what `perf script` prints of the same file."""
import collections
import datetime
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

from tool import PATIENCE, ToolTest

PROGRAM = ["sh", "-c", "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; sleep 0.01; :"]


class PerfData(ToolTest):
    def record(self, *options, to_pipe=False):
        """Record a short program. Return the path of the file."""
        if not shutil.which("perf"):
            self.skipTest("perf is not here (package linux-perf)")
        path = self.path("perf.data")
        command = ["perf", "record", "-q", "-e", "cpu-clock:u" if os.geteuid() else "cpu-clock",
                   "-F", "2000", *options, "-o", "-" if to_pipe else path, "--", *PROGRAM]
        with open(path if to_pipe else self.path("log"), "wb") as out:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, check=False,
                                  stderr=subprocess.PIPE, timeout=PATIENCE,
                                  env=dict(self.environment, HOME=self.directory))
        if done.returncode:
            self.skipTest("perf may not record here: " + done.stderr.decode()[:200])
        return path

    def script(self, path, fields, *options):
        done = subprocess.run(["perf", "script", "-i", path, "-F", fields, *options],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.DEVNULL, timeout=PATIENCE,
                              env=dict(self.environment, HOME=self.directory))
        if done.returncode == -signal.SIGABRT:
            self.skipTest("perf script aborts here")
        self.assertEqual(done.returncode, 0)
        return done.stdout.decode().splitlines()

    def check_samples(self, path):
        """The samples of each file and of each thread are those of `perf script`."""
        files, threads = collections.Counter(), collections.Counter()
        for line in self.script(path, "pid,tid,ip,dso", "-G"):
            pid, tid, file = re.fullmatch(r"\s*(\d+)/(\d+)\s+[0-9a-f]+ \((.*)\)", line).groups()
            kernel = file.startswith("[kernel") or file.endswith(".ko")
            files["vmlinux" if kernel else file] += 1
            threads[int(pid), int(tid)] += 1
        self.assertGreater(sum(files.values()), 5)
        rows = json.loads(self.run_tool("report", path, "cpu", "--format=json",
                                        "--top=100000")[0])
        ours = collections.Counter()
        for row in rows:
            ours[row["file"] or "[unknown]"] += row["exclusive_samples"]
        self.assertEqual(+ours, files)
        rows = json.loads(self.run_tool("report", path, "timeline", "--format=json",
                                        "--top=100000")[0])
        self.assertEqual({(row["process_id"], row["thread_id"]): row["total"] for row in rows
                          if row["measure"] == "cpu"}, threads)
        self.assertIn("sh", {row["process"] for row in rows})

    def test_samples_of_a_file_are_those_of_perf_script(self):
        self.check_samples(self.record())

    def test_samples_of_a_pipe_are_those_of_perf_script(self):
        path = self.record(to_pipe=True)
        self.check_samples(path)
        self.assertEqual(self.run_tool("report", "-", "cpu", data=self.read("perf.data"))[0],
                         self.run_tool("report", path, "cpu")[0])

    def test_switches_are_waits(self):
        path = self.record("--switch-events")
        out, waits = {}, []
        for line in self.script(path, "tid,time,event", "-G", "--show-switch-events", "--ns"):
            found = re.match(r"\s*(\d+)\s+(\d+)\.(\d{9}):.*PERF_RECORD_SWITCH\S*\s+(IN|OUT)", line)
            if not found:
                continue
            tid, ns = int(found[1]), int(found[2]) * 10**9 + int(found[3])
            if found[4] == "OUT":
                out[tid] = ns
            elif tid in out:
                waits.append(ns - out.pop(tid))
        self.assertGreater(len(waits), 0)
        lines = self.run_tool("report", path, "events", "--format=json")[0].splitlines()
        self.assertEqual(sum('"cswitch"' in line for line in lines), len(waits))
        rows = json.loads(self.run_tool("report", path, "timeline", "--format=json",
                                        "--top=100000")[0])
        # A wait that began before the first sample counts from that on.
        waited = sum(row["total"] for row in rows if row["measure"] == "waiting")
        self.assertTrue(sum(waits) / 2 < waited <= sum(waits), (waited, sum(waits)))

    def record_switches(self, *options):
        """Record switches with their stacks. Return the path of the file."""
        return self.record("-g", "-e", "sched:sched_switch", *options)

    def script_stacks(self, path):
        """Return (event, tid, ns, addresses, text) of samples and switches, in order."""
        rows = []
        for line in self.script(path, "tid,time,event,ip,sym,trace", "--show-switch-events",
                                "--ns"):
            # The kernel gives a thread that has left the id -1, while it still runs.
            found = re.match(r"\s*(-?\d+)\s+(\d+)\.(\d{9}):\s+(\S+)(.*)", line)
            if found:
                tid, ns = int(found[1]), int(found[2]) * 10**9 + int(found[3])
                rows.append([found[4].rstrip(":"), tid, ns, [], found[5].strip()])
            elif re.match(r"\s+[0-9a-f]+\s(?!.*next_pid=)", line):
                rows[-1][3].append(line.split(None, 1))
            elif rows:  # the rest of a text with a thread's name that contains a newline
                rows[-1][4] += "\n" + line
        # Under load, perf prints records late.
        return sorted(rows, key=lambda row: row[2])

    def events(self, path, name):
        lines = self.run_tool("report", path, "events", "--format=json")[0].splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def test_waits_have_the_stack_of_the_switch(self):
        path = self.record_switches("--switch-events")

        def kernel_part(frames):
            """perf prints offsets in files for the addresses of programs."""
            return [frame if frame >> 63 else 0 for frame in (int(each, 16) for each in frames)]

        stopped, out, expected = {}, set(), []
        for event, tid, _, frames, text in self.script_stacks(path):
            if event == "sched:sched_switch":
                stopped[tid] = kernel_part(frame[0] for frame in frames)
            elif "SWITCH" in event and text.startswith("OUT"):
                out.add(tid)
            elif "SWITCH" in event and text.startswith("IN"):
                frames = stopped.pop(tid, [])
                if tid in out:
                    expected.append((tid, frames))
                out.discard(tid)
        self.assertTrue(any(frames for _, frames in expected))
        self.assertEqual([(event["thread_id"], kernel_part(event.get("stack", [])))
                          for event in self.events(path, "cswitch")], expected)

    def test_switches_of_the_whole_machine_are_waits_with_wakers(self):
        path = self.record_switches("-a", "-e", "sched:sched_waking")
        out, woken, expected = {}, {}, []
        for event, tid, ns, _, text in self.script_stacks(path):
            if event == "sched:sched_switch":
                following = int(re.search(r"next_pid=(\d+)", text)[1])
                if tid > 0:
                    out[tid] = ns
                    woken.pop(tid, None)
                if following and following in out:
                    begin = out.pop(following)
                    waker, at = woken.pop(following, (0, 0))
                    expected.append((following, ns - begin, waker, ns - at if at else None))
            elif event == "sched:sched_waking":
                thread = int(re.search(r"pid=(\d+)", text)[1])
                if thread in out:
                    woken.setdefault(thread, (tid, ns))
            else:
                out.pop(tid, None)
        self.assertTrue(any(waker for _, _, waker, _ in expected))
        ours = [(event["thread_id"], event["fields"]) for event in self.events(path, "Wait")]
        self.assertEqual([(tid, fields["duration_ns"], fields["waker_thread"])
                          for tid, fields in ours], [each[:3] for each in expected])
        self.assertEqual([fields["runnable_ns"] for _, fields in ours if fields["waker_thread"]],
                         [each[3] for each in expected if each[2]])

    def test_functions_of_the_running_kernel_have_names(self):
        path = self.record_switches("--switch-events")
        names, starts = {}, collections.defaultdict(set)
        with open("/proc/kallsyms", encoding="ascii") as file:
            for line in file:  # several names may have one address
                starts[line.split()[2]].add(line.split()[0])
        for _, _, _, frames, _ in self.script_stacks(path):
            names.update({int(frame[0], 16): frame[1] for frame in frames if len(frame) > 1})
        checked = 0
        for event in self.events(path, "cpu") + self.events(path, "cswitch"):
            for address, name in zip(event.get("stack", []), event.get("functions", [])):
                if int(address, 16) >> 63 and names.get(int(address, 16), "[unknown]") != \
                        "[unknown]":
                    self.assertTrue(starts[name] & starts[names[int(address, 16)]], name)
                    checked += 1
        if not checked:
            self.skipTest("perf shows no names of the kernel's functions here")
        # Another kernel has other addresses.
        data = self.read("perf.data")
        with open("/sys/kernel/notes", "rb") as file:
            notes = file.read()
        build_id = re.search(rb"\x14\0\0\0\x03\0\0\0GNU\0(.{20})", notes, re.DOTALL)[1]
        self.assertIn(build_id, data)
        path = self.write("other", data.replace(build_id, bytes(20)))
        for event in self.events(path, "cswitch"):
            self.assertNotIn("__schedule", event.get("functions", []))

    def test_the_summary_has_what_the_header_states_and_nothing_else(self):
        path = self.record()
        out = self.run_tool("report", path)[0]
        self.assertNotIn("1970", out)
        self.assertNotRegex(out, "Process  |Started ")
        self.assertIn(f"Host       {os.uname().nodename}\n", out)
        self.assertRegex(out, r"Command    \S*perf record -q -e cpu-clock")
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertEqual((summary["host"], summary["process_id"], summary["start_utc"],
                          summary["processors"]),
                         (os.uname().nodename, None, None, os.sysconf("SC_NPROCESSORS_ONLN")))

    def test_a_recording_with_a_known_clock_has_the_time_of_day(self):
        before = time.time()
        path = self.record("-k", "mono")
        after = time.time()
        start = json.loads(self.run_tool("report", path, "--format=json")[0])["start_utc"]
        start = datetime.datetime.fromisoformat(start[:26] + "+00:00").timestamp()
        self.assertTrue(before - 0.01 <= start <= after, (before, start, after))

    def test_frames_are_those_of_the_call_chains(self):
        path = self.record("-g")
        rows = json.loads(self.run_tool("report", path, "cpu", "--format=json",
                                        "--top=100000")[0])
        samples = [each for each in "\n".join(self.script(path, "ip")).split("\n\n")
                   if each.strip()]
        self.assertEqual(sum(row["exclusive_samples"] for row in rows), len(samples))

    def test_another_byte_order_and_other_files_are_refused(self):
        for data, text in ((b"2ELIFREP" + bytes(96), "other byte order"),
                           (b"PERFILE2", "header is cut"), (b"PERFfect", "no perf.data"),
                           (b"PERFILE2" + b"\x68" + bytes(7), "header is damaged"),
                           (b"PERFILE2" + b"\x10" + bytes(7), "no events"),
                           (b"PERFILE2" + b"\x11" + bytes(7), "unknown size")):
            for source in (self.write("p", data), "-"):
                err = self.run_tool("report", source, status=1, data=data)[1]
                self.assertIn(text, err)
                self.assertEqual(err.count("\n"), 1, err)

    def test_damage_never_crashes(self):
        self.record("-g")
        data, chance = bytearray(self.read("perf.data")), random.Random(8)
        for i in range(60):
            damaged = bytearray(data)
            if i % 2:
                damaged = damaged[:chance.randrange(len(damaged))]
            for _ in range(8 if i % 3 else 0):
                at = chance.randrange(16, len(damaged)) if len(damaged) > 16 else 0
                damaged[at:at + 1] = bytes([chance.choice((0, 255, chance.randrange(256)))])
            path = self.write("damaged", damaged)
            process = self.start("report", path, "timeline")
            process.communicate(timeout=PATIENCE)
            self.assertIn(process.returncode, (0, 1))


if __name__ == "__main__":
    unittest.main()
