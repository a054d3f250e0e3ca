#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The `ringpipe` command on a real process: HOST writes `tick` events with serial numbers."""
import json
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import time
import unittest

import nettrace_decode
from server import socket_path
from tool import PATIENCE, TOOL, ToolTest

HOST = os.environ.get("HOST", "")
FLOOD = os.environ.get("FLOOD", "")
LIVE_HOST = os.environ.get("LIVE_HOST", "")
CUT = 0xc07  # the last frame of a stack that was cut


class Live(ToolTest):
    def start_host(self, program=HOST):
        host = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env=self.environment, cwd=self.directory)
        self.addCleanup(self.reap, host)
        self.assertEqual(int(host.stdout.readline()), host.pid)
        self.wait_for_port(host.pid)
        return host

    def events(self, path, status=0):
        out, _ = self.run_tool("report", path, "events", "--format=json", status=status)
        return [json.loads(line) for line in out.splitlines()]

    def collect_for_a_second(self, host, path, *arguments):
        """Wait for events of the host in a file, which a loaded machine may have delayed."""
        def has_events():
            self.run_tool("collect", "-p", host.pid, "-d", "1s", "-f", "-o", path, *arguments)
            return any(event["provider"] == "Ipc-Host" for event in self.events(path))

        self.wait_until(has_events)

    def check_serials(self, path, status=0):
        """No serial is missing between the first tick and the last, and none is duplicated."""
        serials = [event["fields"]["serial"] for event in self.events(path, status)
                   if event["provider"] == "Ipc-Host"]
        self.assertGreater(len(serials), 0)
        self.assertEqual(serials, list(range(serials[0], serials[0] + len(serials))))
        found = self.strict(path, *(["--cut"] if status else []),
                            "--serials", "Ipc-Host/tick:serial")
        self.assertEqual((found["missing"], found["complete"]), (0, status == 0))
        return serials

    def rows(self, host):
        return [row for row in json.loads(self.run_tool("list", host.pid, "--format=json")[0])
                if row["provider"] == "Ipc-Host"]

    def collect(self, host, *arguments, **options):
        """Start a collect that has begun: the host itself confirms that."""
        process = self.start("collect", "-p", host.pid, "-o", "t.nettrace", *arguments, **options)
        self.wait_until(lambda: self.rows(host)[0]["kind"] == "session")
        return process

    def processes(self):
        """Return the rows of this folder: other tests may run processes in other namespaces."""
        return [row for row in json.loads(self.run_tool("ps", "--format=json")[0])
                if row["socket"].startswith(self.directory)]

    def wait_for_bytes(self):
        """Wait until some events are in the file, which are more than the header and a
        description."""
        self.wait_until(lambda: os.path.getsize(self.path("t.nettrace")) > 2000)

    def test_ps_knows_the_runtime(self):
        host = self.start_host()
        rows = []

        def has_runtime():  # ps waits half a second for it
            rows[:] = self.processes()
            return rows[0]["runtime"]

        self.wait_until(has_runtime)
        row, = rows
        self.assertEqual((row["process_id"], row["name"], row["command"]),
                         (host.pid, os.path.basename(HOST)[:15], HOST))
        self.assertRegex(row["runtime"], r"^ringpipe \d+\.\d+\.\d+$")

    def test_a_name_that_two_have_is_refused(self):
        # Other tests, also of another build, may run processes with the same name.
        name = f"two-{os.getpid()}"
        os.symlink(HOST, self.path(name))
        self.start_host(self.path(name))
        self.start_host(self.path(name))
        err = self.run_tool("collect", "-n", name, status=1)[1]
        self.assertIn(f"2 processes are named {name}; choose one by -p", err)

    def test_a_stopped_process_does_not_hang_ps(self):
        host = self.start_host()
        self.freeze(host)
        row, = self.processes()
        self.assertEqual((row["process_id"], row["runtime"]), (host.pid, None))
        host.send_signal(signal.SIGCONT)

    def test_a_command_is_traced_from_its_first_event_for_the_duration(self):
        def is_traced():
            self.heard = ""
            process = self.start("collect", "-d", "1s", "-f", "-o", "t.nettrace", "--providers",
                                 "Ipc-Host", "--", HOST, stdin=subprocess.PIPE)
            self.assertGreater(int(process.stdout.readline()), 0)
            self.wait_until(lambda: re.search(" events? in ", self.stderr_so_far(process)))
            self.assertIsNone(process.poll())
            process.stdin.close()
            process.stdin = None
            self.finish(process, 0)
            numbers = [event["fields"]["serial"] for event in self.events("t.nettrace")
                       if event["event"] == "tick"]
            self.assertEqual(numbers, list(range(len(numbers))))
            return len(numbers) > 10

        # On a loaded machine it may have written less within a second.
        self.wait_until(is_traced)

    def test_writers_that_wait_lose_nothing_though_there_is_little_space(self):
        """Half a million events, many times the session's megabyte."""
        process = self.start("collect", "--block", "60000", "--buffer", "1", "-o", "t.nettrace",
                             "--providers", "Test-Host", "--format=json", "--", FLOOD, "flood")
        out, _ = self.finish(process, 0)
        summary = json.loads(out[out.index("{"):])
        events = {row["provider"]: row["events"] for row in summary["providers"]}
        self.assertEqual((events["Test-Host"], summary["lost"]), (500100, 0))

    def test_coarse_times_are_reported_and_keep_the_order(self):
        host = self.start_host()
        process = self.collect(host, "--coarse")
        self.wait_until(lambda: os.path.getsize(self.path("t.nettrace")) > 10000)
        process.send_signal(signal.SIGINT)
        self.finish(process, 0)
        self.check_serials("t.nettrace")
        events = self.events("t.nettrace")
        self.assertEqual((events[0]["provider"], events[0]["event"], events[0]["fields"]),
                         ("ringpipe", "CoarseTime", {"step_ns": 1000000}))
        times = [event["time_ns"] for event in events]
        self.assertEqual(times, sorted(times))
        self.assertIn("Times      coarse, from a clock that advances each 0.001 s\n",
                      self.run_tool("report", "t.nettrace")[0])
        summary = json.loads(self.run_tool("report", "t.nettrace", "--format=json")[0])
        self.assertEqual(summary["time_step_ns"], 1000000)

    def stderr_so_far(self, process):
        os.set_blocking(process.stderr.fileno(), False)
        self.heard += (process.stderr.read() or b"").decode()
        return self.heard

    def test_list_shows_the_session_while_it_runs(self):
        host = self.start_host()
        row, = self.rows(host)
        self.assertEqual(row["kind"], "provider")
        process = self.collect(host, "--providers", "Ipc-Host:f:4:a=b")
        row, = self.rows(host)
        self.assertEqual((row["keywords"], row["level"], row["events"], row["filter"]),
                         (0xf, 4, 2, "a=b"))
        process.send_signal(signal.SIGINT)
        self.finish(process, 0)
        row, = self.rows(host)
        self.assertEqual(row["kind"], "provider")

    def test_list_shows_the_events_and_their_fields(self):
        host = self.start_host()
        rows = [row for row in json.loads(self.run_tool("list", host.pid, "--events", "--fields",
                                                        "--format=json")[0])
                if row["provider"] == "Ipc-Host"]
        self.assertEqual([(row["event"], row["id"], row["level"], row["keywords"],
                           [(field["name"], field["type"]) for field in row["fields"]])
                          for row in rows],
                         [("tick", 1, 4, 1, [("serial", "u64"), ("text", "string")]),
                          ("reported", 2, 4, 2, [("arguments", "string")])])

    def explained(self, pid, wanted, **options):
        """Expect a reason from collect for a process."""
        err = self.finish(self.start("collect", "-p", pid, **options), 1)[1]
        self.assertRegex(err, rf"\Aringpipe: .*{wanted}.*\n\Z")
        self.assertIn(f"process {pid}", err)

    def start_other(self, *command, **options):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**self.environment, **options})
        self.addCleanup(self.reap, process)
        return process

    def test_the_reason_why_a_process_cannot_be_collected_is_true(self):
        """Each of these processes lacks a socket for one of the reasons that collect states."""
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            self.explained(int(file.read()), "there is no process")  # ids are below
        self.explained(self.start_other("cat").pid, "neither libringpipe.so nor .NET is loaded")
        ended = self.start_other("cat")
        ended.kill()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.explained(ended.pid, "kernel thread, or its main thread has ended")
        headless = self.start_other(sys.executable, "-c", """
import ctypes, threading
threading.Thread(target=ctypes.CDLL(None).pause).start()
print(flush=True)
ctypes.CDLL(None).pthread_exit(None)""")
        headless.stdout.readline()
        self.wait_until(lambda: not self.maps(headless.pid))
        self.assertIsNone(headless.poll())
        self.explained(headless.pid, "kernel thread, or its main thread has ended")

    @staticmethod
    def maps(pid):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return file.read()

    def test_the_reason_why_a_process_with_ringpipe_cannot_be_collected_is_true(self):
        silent = self.start_other(HOST, RINGPIPE_DIAGNOSTICS="0")
        self.assertEqual(int(silent.stdout.readline()), silent.pid)
        is_shared = "/libringpipe.so" in self.maps(silent.pid)
        self.explained(silent.pid, "its diagnostics are disabled")
        unable = self.start_other(HOST, TMPDIR=self.path("missing"))
        self.assertEqual(int(unable.stdout.readline()), unable.pid)
        if is_shared:
            self.explained(unable.pid, f"in {self.path('missing')}: .*the directory is missing")
        host = self.start_host()
        os.unlink(socket_path(self.directory, host.pid))
        if is_shared:
            self.explained(host.pid, "its socket was removed")
        host = self.start_host()
        host.kill()
        os.waitid(os.P_PID, host.pid, os.WEXITED | os.WNOWAIT)
        self.explained(host.pid, "no process listens on .* any more")

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_the_reason_why_another_users_process_cannot_be_collected_is_true(self):
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            subprocess.run([TOOL, "--version"], stdout=subprocess.DEVNULL, check=True, **nobody)
        except PermissionError:
            self.skipTest("another user has no access to the build")
        os.chmod(self.directory, 0o777)
        self.explained(self.start_other("cat").pid, r"environ: Permission denied\)", **nobody)
        host = self.start_host()
        self.explained(host.pid, r"no access to .*; run as its user \(root\) or root", **nobody)

    def test_a_provider_that_the_process_lacks_is_an_error_at_the_start(self):
        host = self.start_host()
        err = self.run_tool("collect", "-p", host.pid, "--providers", "Ipc-Hoast", status=1)[1]
        self.assertIn("has no provider 'Ipc-Hoast'; it has: Ipc-Host, Micro", err)

    def test_a_provider_that_a_short_command_lacks_is_an_error_at_its_end(self):
        for arguments, missing in ((["--providers", "Ipc-Host,Ipc-Hoast"], 1),
                                   (["--providers", "Ipc-Host"], 0),
                                   (["--providers", "Microsoft-DotNETCore-SampleProfiler"], 0),
                                   (["--providers", "Ipc-Hoast", "--allow-missing"], 0)):
            with self.subTest(arguments):
                err = self.run_tool("collect", "-f", "-o", "t.nettrace", *arguments, "--", HOST,
                                    status=missing)[1]
                self.assertEqual(err.count("has no provider"), missing, err)
                if missing:
                    self.assertRegex(err, r"has no provider 'Ipc-Hoast'; it has: .*\bIpc-Host\b")
                self.assertIn("t.nettrace: ", err)  # its trace is whole all the same
                piped = subprocess.run([TOOL, "collect", "-o", "-", *arguments, "--", HOST],
                                       env=self.environment, cwd=self.directory,
                                       stdin=subprocess.DEVNULL, capture_output=True,
                                       timeout=PATIENCE, check=False)
                self.assertEqual(piped.returncode, missing, piped.stderr)
                self.assertEqual(piped.stderr.count(b"has no provider"), missing)

    def test_a_provider_that_a_command_lacks_is_reported_while_the_command_runs(self):
        self.heard = ""
        for output in ("t.nettrace", "-"):
            process = self.start("collect", "-o", output, "--providers", "Ipc-Hoast", "--", HOST,
                                 stdin=subprocess.PIPE)
            self.wait_until(lambda: "has no provider 'Ipc-Hoast'; it has: Ipc-Host" in
                            self.stderr_so_far(process))
            self.assertIsNone(process.poll())
            os.set_blocking(process.stderr.fileno(), True)
            err = process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(process.returncode, 1)
            self.assertNotIn(b"has no provider", err)
            self.heard = ""

    def test_a_provider_missing_from_the_environment_is_reported_while_the_process_runs(self):
        self.environment["RINGPIPE_CONFIG"] = "Ipc-Hoast"
        self.environment["RINGPIPE_OUTPUT"] = self.path("trace")
        self.start_host()
        del self.environment["RINGPIPE_CONFIG"]
        found = []

        def is_reported():
            found[:] = [event["fields"] for event in self.events("trace", status=1)
                        if event["event"] == "ProviderMissing"]
            return found

        self.wait_until(is_reported)
        self.assertEqual(found[0]["provider"], "Ipc-Hoast")
        self.assertIn("Ipc-Host", found[0]["existing"].split(", "))

    def test_ctrl_c_gives_a_whole_trace(self):
        process = self.collect(self.start_host())
        self.wait_for_bytes()
        process.send_signal(signal.SIGINT)
        self.finish(process, 0)
        self.check_serials("t.nettrace")

    def test_report_agrees_with_the_events(self):
        host = self.start_host()
        self.collect_for_a_second(host, "t.nettrace")
        serials = self.check_serials("t.nettrace")
        summary = json.loads(self.run_tool("report", "t.nettrace", "--format=json")[0])
        self.assertEqual((summary["process_id"], summary["lost"], summary["complete"]),
                         (host.pid, 0, True))
        self.assertIsNone(summary["time_step_ns"])
        sums = {each["provider"]: each["events"] for each in summary["providers"]}
        self.assertEqual(sums["Ipc-Host"], len(serials))

    def test_stacks_are_recorded_when_asked_for(self):
        host = self.start_host()
        for arguments, expected in [((), False), (("--stacks",), True)]:
            self.collect_for_a_second(host, "s", *arguments)
            ticks = [event for event in self.events("s") if event["event"] == "tick"]
            self.assertEqual({"stack" in tick for tick in ticks}, {expected})

    def test_two_simultaneous_ones_do_not_disturb_each_other(self):
        host = self.start_host()
        process = self.collect(host)
        self.collect_for_a_second(host, "other")
        self.wait_for_bytes()
        process.send_signal(signal.SIGTERM)
        self.finish(process, 0)
        self.check_serials("t.nettrace")
        self.check_serials("other")

    def test_a_process_that_exits_completes_the_trace(self):
        host = self.start_host()
        process = self.collect(host)
        self.wait_for_bytes()
        host.stdin.close()
        _, err = self.finish(process, 0)
        self.assertIn(f"Process {host.pid} ended the session", err)
        self.check_serials("t.nettrace")

    def test_a_process_that_is_killed_leaves_what_came(self):
        host = self.start_host()
        process = self.collect(host)
        self.wait_for_bytes()
        host.kill()
        host.wait(PATIENCE)
        _, err = self.finish(process, 1)
        self.assertIn("ended before it completed", err)
        self.check_serials("t.nettrace", status=1)

    def test_the_host_outlives_a_collect_that_is_killed(self):
        host = self.start_host()
        process = self.collect(host)
        process.kill()
        process.wait(PATIENCE)
        self.wait_until(lambda: self.rows(host)[0]["kind"] == "provider")
        self.collect_for_a_second(host, "after")
        self.check_serials("after")

    def test_the_live_line_counts(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = self.collect(self.start_host(), stderr=slave)
        os.close(slave)
        seen = b""
        while b" 0 lost" not in seen:
            seen += os.read(master, 4096)
        process.send_signal(signal.SIGINT)
        self.finish(process, 0)
        self.assertRegex(seen.decode(), r"\d+ events?  [0-9.]+ k?B  0 lost")

    def collect_asked(self, count, *arguments):
        """Collect events of a host that writes one when it is asked to, and is asked when the last
        one is here, so only time can flush it. Return the trace, and how long each event took."""
        host = self.start_host(program=LIVE_HOST)
        process = self.start("collect", "-p", host.pid, "--providers", "Test-Asked", "-o", "-",
                             *arguments)
        seen, delays_ms = b"", []
        self.wait_until(lambda: any(
            (row["kind"], row["provider"]) == ("session", "Test-Asked")
            for row in json.loads(self.run_tool("list", host.pid, "--format=json")[0])))
        for serial in range(0x1d5a9c3e7b24f600, 0x1d5a9c3e7b24f600 + count):
            asked = time.monotonic()
            host.stdin.write(b".")
            host.stdin.flush()
            while struct.pack("<Q", serial) not in seen:
                self.assertTrue(select.select([process.stdout], [], [], PATIENCE)[0],
                                f"event {serial & 0xff} is held back")
                seen += os.read(process.stdout.fileno(), 65536)
            delays_ms.append((time.monotonic() - asked) * 1000)
        process.send_signal(signal.SIGINT)
        seen += process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 0)
        return seen, delays_ms

    def test_stacks_that_a_writer_cut_are_marked_and_counted(self):
        """The rules of the first stack are not cached, so it ends with the mark. The drain thread
        caches a rule for each later stack, until one reaches main()."""
        trace, _ = self.collect_asked(20, "--stacks")
        stacks, rules = [], 0
        for line in nettrace_decode.decode(trace):
            head, _, stack = line.partition("\t")
            frames = [number for number, in struct.iter_unpack("<Q", bytes.fromhex(stack))]
            if "Test-Asked|" in head:
                stacks.append(frames)
            else:
                self.assertNotIn(CUT, frames)
            if "ringpipe|" in head and "|StacksCut|" in head:
                rules += int.from_bytes(bytes.fromhex(head.split()[-1]), "little")
        self.assertEqual(len(stacks), 20)
        self.assertEqual((stacks[0][-1], CUT in stacks[-1]), (CUT, False))
        for frames in stacks:  # of one call, so a cut one is a part of the whole one
            correct = frames[:-1] if frames[-1] == CUT else frames
            self.assertEqual(correct, stacks[-1][:len(correct)])
            self.assertIn(frames[-1], (CUT, stacks[-1][-1]))
        cut = sum(frames[-1] == CUT for frames in stacks)
        path = self.write("t.nettrace", trace)
        summary = json.loads(self.run_tool("report", path, "--format=json")[0])
        self.assertEqual((summary["stacks"], summary["stacks_cut"],
                          summary["unwind_rules_missing"]), (20, cut, rules))
        self.assertGreater(rules, 0)
        self.assertIn(f"Stacks     20, {cut} of them cut: {rules} unwind rules not cached yet\n",
                      self.run_tool("report", path)[0])

    def test_each_event_reaches_standard_output_before_the_next_is_written(self):
        delays_ms = self.collect_asked(100)[1]
        print(f"# figure: a single event reaches the reader of collect -o - after "
              f"{statistics.median(delays_ms):.1f} ms (median of {len(delays_ms)}), at most "
              f"{max(delays_ms):.1f} ms")

    def test_there_is_no_live_line_among_the_data_of_standard_output(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        host = self.start_host()
        process = self.start("collect", "-p", host.pid, "-o", "-", "-d", "3s", stderr=slave)
        os.close(slave)
        self.assertTrue(process.communicate(timeout=PATIENCE)[0].startswith(b"Nettrace"))
        self.assertEqual(process.returncode, 0)
        os.set_blocking(master, False)
        try:
            said = os.read(master, 4096)
        except OSError:
            said = b""  # the other end is closed, and nothing was printed
        self.assertEqual(said, b"")

    def test_a_command_is_traced_from_its_first_event(self):
        process = self.start("collect", "-o", "t.nettrace", "--", HOST, stdin=subprocess.PIPE)
        process.stdout.readline()
        self.wait_for_bytes()
        self.finish(process, 0)  # ends its standard input
        self.assertEqual(self.check_serials("t.nettrace")[0], 0)

    def test_a_command_gets_a_file_named_by_its_pid(self):
        out, err = self.run_tool("collect", "--", HOST)
        name, = [name for name in os.listdir(self.directory) if name.endswith(".nettrace")]
        self.assertRegex(name, rf"^{os.path.basename(HOST)}_{out.strip()}_\d+_\d+\.nettrace$")
        self.assertIn(name, err)


if __name__ == "__main__":
    unittest.main()
