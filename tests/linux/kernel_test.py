#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A trace contains the kernel's events of a process: ringpipe collect --kernel.

kernel_host.c causes a known number of events. Environment: RINGPIPE, KERNEL_HOST, RINGPIPE_KERNEL
(empty: not built), SHIM, SANITIZERS, INTEROP_BUILD.
"""
import collections
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))
import clients  # noqa: E402

TOOL = os.environ["RINGPIPE"]
STRICT = os.environ["STRICT"]
VERSION = os.environ["TEST_NETTRACE_VERSION"]  # of the traces
HOST = os.environ["KERNEL_HOST"]
SHIM = os.environ["SHIM"]
SANITIZED = os.environ["SANITIZERS"] != "none"
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
PATIENCE = 120
KERNEL = "Ringpipe-Kernel"
CAP_SETGID, CAP_SETUID, CAP_PERFMON, CAP_BPF = 6, 7, 38, 39


def has(*capabilities):
    with open("/proc/self/status", encoding="utf-8") as status:
        held = int(next(line for line in status if line.startswith("CapEff:")).split()[1], 16)
    return all(held >> capability & 1 for capability in capabilities)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


class Host:
    """Runs kernel_host, and sends it commands."""

    def __init__(self, environment, prefix=(), **options):
        self.process = subprocess.Popen([*prefix, HOST], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment, text=True,
                                        **options)
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
        os.chmod(self.directory, 0o777)
        self.environment = dict(os.environ, TMPDIR=self.directory, LC_ALL="C.UTF-8")

    def path(self, name):
        return os.path.join(self.directory, name)

    def host(self, prefix=(), **options):
        host = Host(self.environment, prefix, **options)
        self.addCleanup(host.end)
        return host

    def collect(self, host, *arguments, prefix=(), shim=None, **options):
        environment = dict(self.environment)
        if shim:
            environment.update(LD_PRELOAD=SHIM, BPF_SHIM=shim)
        tool = subprocess.Popen([*prefix, TOOL, "collect", "-p", str(host.pid), "-o",
                                 self.path("trace"), "--format", VERSION, *arguments],
                                env=environment, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(self.reap, tool)
        host.await_session()
        # The session that the host sees may be that of another recorder on this machine.
        end = time.monotonic() + PATIENCE
        while not os.path.exists(self.path("trace")) or not os.path.getsize(self.path("trace")):
            self.assertIsNone(tool.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        return tool

    @staticmethod
    def reap(tool):
        if tool.poll() is None:
            tool.kill()
        tool.wait(PATIENCE)
        tool.stderr.close()

    def stop(self, tool):
        """Return the tool's output; the trace is complete."""
        tool.send_signal(signal.SIGINT)
        _, said = tool.communicate(timeout=PATIENCE)
        self.assertEqual(tool.returncode, 0, said)
        return said

    def report(self):
        done = subprocess.run([TOOL, "report", "--format=json", self.path("trace")], check=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE)
        return json.loads(done.stdout)

    def strict(self):
        """Return the findings of the strict reader, independent of the library, in a trace without
        a fault."""
        with open(self.path("trace"), "rb") as trace:
            self.assertEqual(trace.read(12)[8:] == bytes(4), VERSION == "6")
        done = subprocess.run([STRICT, "--kernel", self.path("trace")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        return json.loads(done.stdout)

    def events(self):
        done = subprocess.run([TOOL, "report", self.path("trace"), "events", "--format=json"],
                              check=True, stdout=subprocess.PIPE, timeout=PATIENCE)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        times = [row["time_ns"] for row in rows]
        self.assertEqual(times, sorted(times), "in the order of time")
        self.assertGreaterEqual(times[0], 0)
        return rows

    def request(self, rows, thread):
        """Return the events of a thread, which had one request, and those between the request's
        start and stop, which have its activity. The clock of the process's events may differ by
        some microseconds, so events at the ends of the request may be outside."""
        mine = [row for row in rows if row["thread_id"] == thread]
        names = [row["event"] for row in mine]
        first, last = names.index("requestStart"), names.index("requestStop")
        inside = mine[first:last + 1]
        self.assertEqual({row.get("activity") for row in inside}, {mine[first]["activity"]})
        self.assertTrue(all("activity" not in row for row in mine[:first] + mine[last + 1:]))
        return mine, inside

    def check_users(self, rows, threads):
        """None of the process's own events is missing or duplicated."""
        own = collections.Counter((row["thread_id"], row["event"]) for row in rows
                                  if row["provider"] == "Kernel-Host")
        self.assertEqual(own, {(thread, event): 1 for thread in threads
                               for event in ("requestStart", "requestStop")})


class Reported(KernelTest):
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
        # A thread that lost its processor before it slept was preempted.
        waits = [row["fields"] for row in inside if row["event"] == "SwitchIn"]
        self.assertIn("sleeping", {wait["reason"] for wait in waits})
        waited = sum(wait["off_cpu_ns"] for wait in waits)
        # Under load, Linux 6.18 itself does not report the return of every thread.
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
        # The touched pages are contiguous, and each page faults once.
        rows = [page for page in pages if pages[page - 1] or pages[page + 1]]
        self.assertGreaterEqual(len(rows), 300)
        self.assertGreater(sum(row["event"] == "PageFault" for row in inside), 250)
        self.assertTrue(all(fields["instruction"] for fields in faults))

    def test_block_requests_are_the_writer_s(self):
        if os.major(os.stat(self.directory).st_dev) == 0:
            self.skipTest("no disk behind " + self.directory)
        for _ in range(3):
            host = self.host()
            tool = self.collect(host, "--kernel", "block")
            thread = host.do("disk", self.path("written"), 1 << 20)
            self.stop(tool)
            mine, inside = self.request(self.events(), thread)
            requests = [row["fields"] for row in mine if row["event"] == "BlockRequest"]
            completes = [row["fields"] for row in mine if row["event"] == "BlockComplete"]
            written = sum(fields["bytes"] for fields in completes if fields["operation"] == "write")
            if written >= 1 << 20:
                break
            # If the writer loses its processor, a thread of the kernel issues its requests.
            os.unlink(self.path("trace"))
        self.assertGreaterEqual(written, 1 << 20)
        self.assertTrue(any(row["event"] == "BlockComplete" for row in inside))
        self.assertTrue(all(fields["latency_ns"] > 0 for fields in completes))
        self.assertEqual({fields["status"] for fields in completes}, {0})
        key = ("device", "operation", "sector", "bytes")
        ended = collections.Counter(tuple(fields[name] for name in key) for fields in completes)
        asked = collections.Counter(tuple(fields[name] for name in key) for fields in requests)
        self.assertEqual(ended - asked, collections.Counter())

    def test_one_trace_has_all_that_the_kernel_did_for_each_request(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "all")
        expected = {("sleeps", 20): {"SwitchOut", "SwitchIn", "SyscallEnter", "SyscallExit"},
                    ("faults", 300): {"PageFault"},
                    ("syscalls", 100): {"SyscallEnter", "SyscallExit"}}
        if os.major(os.stat(self.directory).st_dev) != 0:
            expected["disk", self.path("written"), 1 << 20] = {
                "BlockRequest", "BlockComplete", "SyscallEnter", "SyscallExit"}
        threads = {host.do(*work): kinds for work, kinds in expected.items()}
        self.stop(tool)
        rows = self.events()
        for thread, kinds in threads.items():
            _, inside = self.request(rows, thread)
            self.assertLessEqual(kinds, {row["event"] for row in inside
                                         if row["provider"] == KERNEL})
        self.check_users(rows, threads)
        self.assertEqual(self.report()["lost"], 0)
        self.assertEqual(self.strict()["lost_in_gaps"], 0)


class Lost(KernelTest):
    def test_losses_are_reported_exactly(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "faults", "--buffer", "1")
        helper, = children(tool.pid)
        os.kill(helper, signal.SIGSTOP)
        # A buffer of 128 KB holds about 2,300 records.
        thread = host.do("faults", 20000)
        os.kill(helper, signal.SIGCONT)
        self.stop(tool)
        rows = self.events()
        reported = [row["fields"] for row in rows
                if row["provider"] == KERNEL and row["event"] == "EventsLost"]
        seen = sum(row["event"] == "PageFault" for row in rows if row["thread_id"] == thread)
        lost = sum(fields["count"] for fields in reported)
        self.assertEqual(reported[-1]["total"], lost)
        self.assertEqual(self.report()["lost"], lost)
        found = self.strict()
        self.assertEqual((found["lost_in_gaps"], found["lost_in_points"]), (lost, 0))
        self.assertGreaterEqual(lost + seen, 20000)
        # A sanitizer touches additional pages for these.
        self.assertLess(lost + seen, 25000)
        self.assertGreater(lost, 10000)
        self.check_users(rows, [thread])


@unittest.skipUnless(shutil.which("dotnet"), "the .NET SDK is not installed")
class TraceEvent(KernelTest):
    def test_traceevent_reads_the_same(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "all", "--buffer", "1")
        host.do("sleeps", 3)
        helper, = children(tool.pid)
        os.kill(helper, signal.SIGSTOP)
        host.do("syscalls", 5000)
        os.kill(helper, signal.SIGCONT)
        host.do("syscalls", 10)
        self.stop(tool)
        rows = self.events()
        lost = self.report()["lost"]
        self.assertGreater(lost, 0)
        theirs, summary = clients.TraceRead().events(self.path("trace"))
        self.assertEqual(summary["events_lost"], lost)
        self.assertEqual([row["event"] for row in theirs if row["provider"] == KERNEL],
                         [row["event"] for row in rows if row["provider"] == KERNEL])
        for name in ("number", "name", "result", "duration_ns", "off_cpu_ns", "reason", "count"):
            self.assertEqual([row["fields"][name] for row in theirs if name in row["fields"]],
                             [row["fields"][name] for row in rows if name in row["fields"]], name)
        self.assertEqual([row["activity"] for row in theirs if row["provider"] == KERNEL],
                         [row.get("activity") for row in rows if row["provider"] == KERNEL])
        times = [row["time_ms"] for row in theirs]
        self.assertEqual(times, sorted(times))


class Namespace(KernelTest):
    def test_threads_have_the_numbers_of_their_own_pid_namespace(self):
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no pid namespaces here")
        host = self.host(unshare)
        self.assertNotEqual(host.inner, host.pid)
        tool = self.collect(host, "--kernel", "all")
        thread = host.do("syscalls", 100)
        self.stop(tool)
        rows = self.events()
        mine, _ = self.request(rows, thread)
        calls = [row["event"] for row in mine if row["fields"].get("name") == "getppid"]
        self.assertEqual(calls, ["SyscallEnter", "SyscallExit"] * 100)
        self.check_users(rows, [thread])


    def test_times_are_those_of_a_time_namespace(self):
        unshare = ["unshare", "--time", "--monotonic", "123456", "--fork", "--kill-child"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no time namespaces here")
        host = self.host(unshare)
        tool = self.collect(host, "--kernel", "syscalls")
        thread = host.do("syscalls", 200)
        self.stop(tool)
        _, inside = self.request(self.events(), thread)
        self.assertGreater(sum(row["fields"].get("name") == "getppid" for row in inside), 200)


class Ends(KernelTest):
    def test_command_is_traced_from_start_to_end(self):
        done = subprocess.run([TOOL, "collect", "-q", "--kernel", "syscalls", "-o",
                               self.path("trace"), "--format", VERSION, "--", HOST],
                              input="syscalls 50\n", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, env=self.environment,
                              timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        thread = int(done.stdout.splitlines()[-1])
        rows = self.events()
        mine, _ = self.request(rows, thread)
        calls = [row["event"] for row in mine if row["fields"].get("name") == "getppid"]
        self.assertEqual(calls, ["SyscallEnter", "SyscallExit"] * 50)
        self.check_users(rows, [thread])
        self.assertTrue(self.report()["complete"])

    def test_full_disk_is_reported_and_the_process_lives_on(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "syscalls", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (20000, 20000)))
        host.do("syscalls", 2000)
        tool.send_signal(signal.SIGINT)
        _, said = tool.communicate(timeout=PATIENCE)
        self.assertEqual(tool.returncode, 1)
        self.assertIn("ringpipe: cannot write the trace: File too large", said)
        host.do("syscalls", 1)

    def test_lost_helper_ends_the_trace(self):
        host = self.host()
        tool = self.collect(host, "--kernel", "syscalls")
        helper, = children(tool.pid)
        os.kill(helper, signal.SIGKILL)
        host.do("syscalls", 1)
        _, said = tool.communicate(timeout=PATIENCE)
        self.assertEqual(tool.returncode, 1)
        self.assertIn("; the trace ends there", said)
        host.do("syscalls", 1)


class Refused(KernelTest):
    """Missing features are reported once; the trace is made without them."""

    def check(self, message, *kinds, shim=None, **options):
        host = self.host(**options)
        tool = self.collect(host, "--kernel", "all", shim=shim, **options)
        thread = host.do("sleeps", 3)
        said = self.stop(tool)
        self.assertIn(message, said)
        self.assertEqual(said.count("ringpipe: "), 1, said)
        rows = self.events()
        self.check_users(rows, [thread])
        kernel = {row["event"] for row in rows if row["provider"] == KERNEL}
        for name in ("SwitchIn", "SyscallExit"):
            self.assertEqual(name in kernel, name in kinds, kernel)

    def test_without_permission(self):
        if subprocess.run(["test", "-x", HOST], check=False, **NOBODY).returncode != 0:
            self.skipTest("the build is closed to the user nobody")
        self.check("--kernel: no permission: it takes root, or CAP_BPF and CAP_PERFMON", **NOBODY)

    def test_the_capabilities_that_are_reported_are_enough(self):
        if not has(CAP_SETGID, CAP_SETUID) or not shutil.which("setpriv") or \
                subprocess.run(["test", "-x", HOST], check=False, **NOBODY).returncode != 0:
            self.skipTest("no capabilities to give, or nobody may not run the build")
        host = self.host(**NOBODY)
        tool = self.collect(host, "--kernel", "all", prefix=[
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
            "--inh-caps=-all,+bpf,+perfmon", "--ambient-caps=-all,+bpf,+perfmon"])
        thread = host.do("syscalls", 20)
        self.assertNotIn("--kernel", self.stop(tool))
        mine, _ = self.request(self.events(), thread)
        self.assertEqual(sum(row["fields"].get("name") == "getppid" for row in mine), 40)

    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_a_kernel_without_bpf(self):
        self.check("--kernel: this kernel has no BPF", shim="none")

    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_a_kernel_without_a_tracepoint(self):
        self.check("--kernel: syscalls: this kernel has no such tracepoints", "SwitchIn",
                   shim="without:sys_enter")

    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_a_verifier_that_refuses(self):
        self.check("--kernel: sched: the kernel's verifier refuses it: invalid", "SyscallExit",
                   shim="refuse:sched_switch")

    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_a_verifier_that_refuses_all(self):
        self.check("--kernel: the kernel's verifier refuses it: invalid",
                   shim="refuse:put_mark")

    def test_groups_that_do_not_exist(self):
        for groups in ("", "sched,", "disk", "all,disk", ",", "sched;block"):
            done = subprocess.run([TOOL, "collect", "-p", "1", "--kernel", groups], check=False,
                                  stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--kernel requires GROUPS", done.stderr)


if __name__ == "__main__":
    if not os.environ["RINGPIPE_KERNEL"]:
        print("SKIP: ringpipe-kernel is not built: no libbpf, clang, bpftool or libseccomp")
        sys.exit(77)
    if not has(CAP_BPF, CAP_PERFMON):
        print("SKIP: no CAP_BPF and CAP_PERFMON")
        sys.exit(77)
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        print("SKIP: this kernel has no BTF")
        sys.exit(77)
    unittest.main()
