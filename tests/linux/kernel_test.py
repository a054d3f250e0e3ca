#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the kernel did for a process stands in its trace: ringpipe collect --kernel.

kernel_host.c does a known number of things. Environment: RINGPIPE, KERNEL_HOST, RINGPIPE_KERNEL
(empty: not built).
"""
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = os.environ["RINGPIPE"]
HOST = os.environ["KERNEL_HOST"]
PATIENCE = 60
KERNEL = "Ringpipe-Kernel"
CAP_PERFMON, CAP_BPF = 38, 39


def may_use_bpf():
    with open("/proc/self/status", encoding="utf-8") as status:
        held = int(next(line for line in status if line.startswith("CapEff:")).split()[1], 16)
    return held >> CAP_BPF & 1 and held >> CAP_PERFMON & 1


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


class Host:
    """kernel_host, told what to do."""

    def __init__(self, environment, prefix=()):
        self.process = subprocess.Popen([*prefix, HOST], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment, text=True)
        self.inner = self.pid = int(self.process.stdout.readline())
        if prefix:
            self.pid = children(self.process.pid)[0]

    def await_session(self):
        assert int(self.process.stdout.readline()) == self.inner

    def do(self, *work):
        self.process.stdin.write(" ".join(map(str, work)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


class KernelTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-kernel-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, TMPDIR=self.directory, LC_ALL="C.UTF-8")

    def path(self, name):
        return os.path.join(self.directory, name)

    def host(self, prefix=()):
        host = Host(self.environment, prefix)
        self.addCleanup(host.end)
        return host

    def collect(self, host, *options, environment=None):
        tool = subprocess.Popen([TOOL, "collect", "-p", str(host.pid), "-o", self.path("trace"),
                                 *options], env=environment or self.environment,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.reap, tool)
        host.await_session()
        return tool

    @staticmethod
    def reap(tool):
        if tool.poll() is None:
            tool.kill()
        tool.wait(PATIENCE)
        tool.stderr.close()

    def stop(self, tool):
        """What the tool said; the trace is complete."""
        tool.send_signal(signal.SIGINT)
        _, said = tool.communicate(timeout=PATIENCE)
        self.assertEqual(tool.returncode, 0, said)
        return said

    def report(self):
        done = subprocess.run([TOOL, "report", "--json", self.path("trace")], check=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE)
        return json.loads(done.stdout)

    def events(self):
        done = subprocess.run([TOOL, "report", "--events", self.path("trace")], check=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        times = [row["time_ns"] for row in rows]
        self.assertEqual(times, sorted(times), "in the order of time")
        self.assertGreaterEqual(times[0], 0)
        return rows

    def request(self, rows, thread):
        """The events of a thread, which had one request; and of these all from its start to its
        stop, which have its activity. The clock of the process's events is some microseconds off
        at times, so of what happens at the very ends of a request some may stand outside."""
        mine = [row for row in rows if row["thread"] == thread]
        names = [row["event"] for row in mine]
        first, last = names.index("request_start"), names.index("request_stop")
        inside = mine[first:last + 1]
        self.assertEqual({row.get("activity") for row in inside}, {mine[first]["activity"]})
        self.assertTrue(all("activity" not in row for row in mine[:first] + mine[last + 1:]))
        return mine, inside

    def check_users(self, rows, threads):
        """Not one of the process's own events is missing, and none has been doubled."""
        own = collections.Counter((row["thread"], row["event"]) for row in rows
                                  if row["provider"] == "Kernel-Host")
        self.assertEqual(own, {(thread, event): 1 for thread in threads
                               for event in ("request_start", "request_stop")})


class Told(KernelTest):
    def test_system_calls_have_name_result_and_time(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "syscalls")
        thread = host.do("syscalls", 500)
        self.stop(tool)
        rows = self.events()
        mine, inside = self.request(rows, thread)
        calls = [row for row in mine if row["fields"].get("name") == "getppid"]
        self.assertEqual([row["event"] for row in calls], ["SyscallEnter", "SyscallExit"] * 500)
        self.assertGreater(sum(row in inside for row in calls), 500)
        self.assertEqual({row["fields"]["result"] for row in calls[1::2]}, {os.getpid()})
        self.assertTrue(all(0 < row["fields"]["duration_ns"] < 10**10 for row in calls[1::2]))
        self.assertEqual({row["provider"] for row in calls}, {KERNEL})
        self.check_users(rows, [thread])
        self.assertEqual(self.report()["lost"], 0)

    def test_switches_explain_where_a_request_waited(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "sched,syscalls")
        thread = host.do("sleeps", 20)
        self.stop(tool)
        mine, inside = self.request(self.events(), thread)
        sleeps = [row["fields"]["duration_ns"] for row in mine
                  if row["event"] == "SyscallExit" and "nanosleep" in row["fields"]["name"]]
        self.assertEqual(len(sleeps), 20)
        self.assertGreaterEqual(min(sleeps), 2_000_000)
        # One that lost its processor before it slept was preempted.
        waits = [row["fields"] for row in inside if row["event"] == "SwitchIn"]
        self.assertIn("sleeping", {wait["reason"] for wait in waits})
        waited = sum(wait["off_cpu_ns"] for wait in waits)
        # Loaded, Linux 6.18 itself does not tell of every thread that it is back.
        self.assertGreaterEqual(waited, 20 * 2_000_000 // 2)
        self.assertGreaterEqual(sum(row["event"] == "SwitchOut" for row in mine), 20)
        self.assertLessEqual(waited, inside[-1]["time_ns"] - inside[0]["time_ns"] + 1_000_000)

    def test_page_faults_have_their_address(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "faults")
        thread = host.do("faults", 300)
        self.stop(tool)
        mine, inside = self.request(self.events(), thread)
        faults = [row["fields"] for row in mine if row["event"] == "PageFault"]
        pages = collections.Counter(fields["address"] // os.sysconf("SC_PAGESIZE")
                                    for fields in faults if fields["write"] and fields["user"])
        # What was touched lies in a row, and every page of it once.
        rows = [page for page in pages if pages[page - 1] or pages[page + 1]]
        self.assertGreaterEqual(len(rows), 300)
        self.assertGreater(sum(row["event"] == "PageFault" for row in inside), 250)
        self.assertTrue(all(fields["instruction"] for fields in faults))

    def test_block_requests_are_the_writer_s(self):
        if os.major(os.stat(self.directory).st_dev) == 0:
            self.skipTest("no disk behind " + self.directory)
        host = self.host()
        tool = self.collect(host, "--kernel", "block")
        thread = host.do("disk", self.path("written"), 1 << 20)
        self.stop(tool)
        mine, inside = self.request(self.events(), thread)
        requests = [row["fields"] for row in mine if row["event"] == "BlockRequest"]
        completes = [row["fields"] for row in mine if row["event"] == "BlockComplete"]
        self.assertTrue(any(row["event"] == "BlockComplete" for row in inside))
        written = [fields for fields in completes if fields["operation"] == "write"]
        self.assertGreaterEqual(sum(fields["bytes"] for fields in written), 1 << 20)
        self.assertTrue(all(fields["latency_ns"] > 0 for fields in completes))
        self.assertEqual({fields["status"] for fields in completes}, {0})
        key = ("device", "operation", "sector", "bytes")
        ended = collections.Counter(tuple(fields[name] for name in key) for fields in completes)
        asked = collections.Counter(tuple(fields[name] for name in key) for fields in requests)
        self.assertEqual(ended - asked, collections.Counter())


class Lost(KernelTest):
    def test_losses_are_told_exactly(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "faults", "--buffer", "1")
        helper, = children(tool.pid)
        os.kill(helper, signal.SIGSTOP)
        # 128 KB hold some 2,300 records.
        thread = host.do("faults", 20000)
        os.kill(helper, signal.SIGCONT)
        self.stop(tool)
        rows = self.events()
        told = [row["fields"] for row in rows
                if row["provider"] == KERNEL and row["event"] == "EventsLost"]
        seen = sum(row["event"] == "PageFault" for row in rows if row["thread"] == thread)
        lost = sum(fields["count"] for fields in told)
        self.assertEqual(told[-1]["total"], lost)
        self.assertEqual(self.report()["lost"], lost)
        self.assertGreaterEqual(lost + seen, 20000)
        self.assertLess(lost + seen, 21000)
        self.assertGreater(lost, 10000)
        self.check_users(rows, [thread])


if __name__ == "__main__":
    if not os.environ["RINGPIPE_KERNEL"]:
        print("SKIP: ringpipe-kernel is not built: no libbpf, clang, bpftool or libseccomp")
        sys.exit(77)
    if not may_use_bpf():
        print("SKIP: no CAP_BPF and CAP_PERFMON")
        sys.exit(77)
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        print("SKIP: this kernel has no BTF")
        sys.exit(77)
    unittest.main()
