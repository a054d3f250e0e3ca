# SPDX-License-Identifier: MIT
"""ringpipe record of the processes of a user or a cgroup."""
import collections
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

import record_case
from merge_test import Reader
from oracle import Bytes
from record_case import (BRIEF_HOST, HOST, NOBODY, OWN_EVENTS, PATIENCE, PLAIN, RATE, SHOP, TOOL,
                         WITHOUT_LEAKS, Busy, Case, ask, drive, events_of, functions,
                         in_one_of_three, lacks_bpf, stacks_of)
from record_refused_test import WITHOUT_BPF

PROVIDERS = ",".join(drive.PROVIDERS)
# Never pauses, and causes a page fault for each of its steps.
TOUCH = """
import mmap
while True:
    memory = mmap.mmap(-1, 4096 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(4096):
        memory[page * 4096] = 1
    memory.close()
"""
# Waits for a line, executes the statement, and waits briefly, again and again, as its child does.
CHANGE = """
import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
exec(sys.argv[1])
parent = os.getpid()
child = os.fork()
if child:
    print(child, flush=True)
while child or os.getppid() == parent:
    time.sleep(0.001)
"""
# At the first line, starts a process and a thread; at the second, both of them sleep many times.
STARTS = """
import os, sys, threading, time
def sleep():
    os.read(go[0], 1)
    for _ in range(40):
        time.sleep(0.005)
go = os.pipe()
print("ready")
sys.stdin.readline()
child = os.fork()
if child == 0:
    sleep()
    os._exit(0)
thread = threading.Thread(target=sleep)
thread.start()
print(child, thread.native_id)
sys.stdin.readline()
os.write(go[1], b"12")
thread.join()
os.wait()
print("done")
"""
# At the first line, starts a thread; at the second, that thread uses a second of CPU time. If
# OTHERS is True, other threads start all the time meanwhile.
BURNS = """
import os, sys, threading, time
def burn():
    os.read(go[0], 1)
    begin = time.thread_time()
    while time.thread_time() < begin + 1:
        pass
    print(time.thread_time() - begin)
def start_others():
    while True:
        other = threading.Thread(target=int)
        other.start()
        other.join()
go = os.pipe()
print("ready")
sys.stdin.readline()
thread = threading.Thread(target=burn)
thread.start()
if OTHERS:
    threading.Thread(target=start_others, daemon=True).start()
print(thread.native_id)
sys.stdin.readline()
os.write(go[1], b"1")
thread.join()
"""
ENABLE_SHIM = os.environ["ENABLE_SHIM_LIBRARY"]
APART = ["unshare", "--time", "--monotonic", "100000", "--boottime", "200000", "--fork"]


@contextlib.contextmanager
def cgroup(folder, name=None):
    """Make a cgroup. Yield its folder."""
    path = os.path.join(folder, name or f"ringpipe-test-{os.getpid()}")
    os.mkdir(path)
    try:
        yield path
    finally:
        drive.wait_for(lambda: not members(path), "the end of the cgroup's processes")
        os.rmdir(path)


def members(path):
    with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as procs:
        return procs.read().split()


def enter(path):
    with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as procs:
        procs.write("0")


def start_with_id(pid, *command):
    """Start a command with the id of a process that has ended. Return None if that fails."""
    for _ in range(1000):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
            last.write(str(pid - 1))
        process = subprocess.Popen(["sh", "-c", 'read go && exec "$@"', "sh", *command],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        # Other programs start processes, too.
        if process.pid == pid:
            process.stdin.write(b"go\n")
            process.stdin.close()
            return process
        process.stdin.close()
        process.wait(PATIENCE)
    return None


class Filters(Case):
    def record_two(self, option, **inside):
        """Record two hosts and two shops, of which one each starts with the options `inside`.
        Return the wanted processes, those in the trace, and those with events of the shop."""
        with drive.shop(SHOP, env=PLAIN) as other, \
             drive.shop(SHOP, env=PLAIN, **inside) as wanted:
            recorder = subprocess.Popen([TOOL, "record", "-o", self.trace, *option,
                                         "--providers", PROVIDERS], stderr=subprocess.PIPE)
            self.addCleanup(recorder.stderr.close)
            self.addCleanup(recorder.kill)
            wanted.wait_for_sessions(1)
            hosts = [subprocess.Popen([HOST, "300"], stdout=subprocess.DEVNULL, **options)
                     for options in ({}, inside)]
            for shop in other, wanted:
                ask(shop, 20)
            for host in hosts:
                host.wait(PATIENCE)
            wanted.wait_until_quiet()
            status = drive.interrupt(recorder)
            self.assertEqual(status, 0, recorder.stderr.read())
        events, _ = events_of(self.trace)
        machine = {event["process"] for event in events
                   if event["provider"] in ("Universal.Events", "Ringpipe-Machine")
                   and event["event"] not in OWN_EVENTS}
        shops = {event["process"] for event in events if event["provider"] in drive.PROVIDERS}
        self.assertEqual(shops, {wanted.pid})
        self.assertNotIn(hosts[0].pid, machine)
        self.assertIn(hosts[1].pid, machine)
        return {wanted.pid, hosts[1].pid}, machine

    def test_only_the_processes_of_a_user_are_in_the_trace(self):
        for name in "nobody", "65534":
            with self.subTest(user=name):
                wanted, machine = self.record_two(["--user", name], **NOBODY)
                self.assertEqual(machine - wanted, set())
                self.prepare_again()

    def folders(self):
        """Return hierarchies of version 1 and 2 of cgroups."""
        found = [path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified",
                                   "/sys/fs/cgroup")
                 if os.path.exists(os.path.join(path, "cgroup.procs"))]
        if not found:
            self.skipTest("no hierarchy of cgroups is mounted")
        return found

    def test_processes_of_a_container_have_its_name_and_their_own_ids(self):
        container = f"{os.getpid():x}".ljust(64, "0")
        inner = self.trace + ".inner"
        with cgroup(self.folders()[0], f"docker-{container}.scope") as path:
            # The name of its socket has the inner pid, so only a look at all processes finds it.
            self.record("--providers", "Test-Brief", "--", "unshare", "--pid", "--fork", "sh",
                        "-ec", f"'{BRIEF_HOST}'; "
                               f"'{HOST}' 500 & echo $! > '{inner}'; wait $!",
                        # LeakSanitizer looks for the inner pid in the outer /proc.
                        env=WITHOUT_LEAKS, preexec_fn=lambda: enter(path))
        with open(inner, encoding="ascii") as file:
            host = int(file.read())
        with open(self.trace, "rb") as file:
            events = Reader(file.read()).events
        shown, created = set(), set()
        for event in events:
            if event["name"] in ("ExistingProcess", "ProcessCreate"):
                c = Bytes(event["payload"])
                pid, name, where = (c.varuint(), *(c.take(c.number("H")).decode()
                                                   for _ in range(2)))
                shown.add((name, where))
                if name == os.path.basename(BRIEF_HOST):
                    created.add(event["thread"])
                if (name, where) == (os.path.basename(HOST), container[:12]):
                    self.assertEqual(pid, host)
        self.assertLessEqual({(os.path.basename(HOST), container[:12]),
                              (os.path.basename(BRIEF_HOST), container[:12])}, shown)
        self.assertEqual({where for _, where in shown} - {container[:12]}, {""})
        # Its events have the thread of its samples, not the id of the thread in the container.
        self.assertEqual({event["thread"] for event in events if event["name"] == "written"},
                         created)

    def test_only_the_processes_of_a_cgroup_are_in_the_trace(self):
        for folder in self.folders():
            with self.subTest(folder=folder), cgroup(folder) as path:
                option = ["--cgroup", "/" + os.path.basename(path)]
                wanted, machine = self.record_two(option, preexec_fn=lambda: enter(path))
                self.assertEqual(machine - wanted, set())
                self.prepare_again()

    def require_waits(self):
        done = self.record("--providers", "none", "--", "true")
        if lacks_bpf(done.stderr):
            self.skipTest(done.stderr)

    def record_after(self, option, change):
        """Record while a process changes, whose id replaces PID in the option. Check that it
        and its child are in the trace. Return the names of the other processes in it."""
        def size():
            return os.path.exists(self.trace) and os.path.getsize(self.trace)

        self.prepare_again()
        with contextlib.ExitStack() as ends:
            process = ends.enter_context(subprocess.Popen(
                [sys.executable, "-c", CHANGE, change], text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE))
            ends.callback(process.kill)
            self.assertEqual(process.stdout.readline(), "ready\n")
            recorder = ends.enter_context(subprocess.Popen(
                [TOOL, "record", "-o", self.trace, "--providers", "none", "--off-cpu", "0",
                 *(word.replace("PID", str(process.pid)) for word in option)]))
            ends.callback(recorder.kill)
            drive.wait_for(size, "the first bytes", [recorder])
            process.stdin.write("\n")
            process.stdin.flush()
            child = int(process.stdout.readline())
            drive.wait_for(lambda: size() > 30_000, "records of the process", [recorder])
            self.assertEqual(drive.interrupt(recorder), 0)
        waits = [event for event in events_of(self.trace)[0] if event["event"] == "Wait"]
        found = collections.Counter(event["process"] for event in waits)
        self.assertGreater(min(found[process.pid], found[child]), 10)
        return {event["process_name"] for event in waits
                if event["process"] not in (process.pid, child)}

    def test_a_process_that_gets_the_user_is_in_the_trace_from_then_on(self):
        self.require_waits()
        # Other programs may run as this user.
        self.record_after(["--user", "nobody"], "os.setuid(65534)")

    def test_a_process_that_enters_the_cgroup_is_in_the_trace_from_then_on(self):
        self.require_waits()
        for folder in self.folders():
            with self.subTest(folder=folder), cgroup(folder) as path:
                enters = f"open({path + '/cgroup.procs'!r}, 'w').write('0')"
                self.assertEqual(self.record_after(["--cgroup", "/" + os.path.basename(path)],
                                                   enters), set())

    def test_descendants_of_a_process_are_in_the_trace_also_without_their_parents(self):
        self.require_waits()
        names = self.record_after(["-p", "PID"], """
ends = os.pipe()
os.set_inheritable(ends[1], True)
if os.fork() == 0:
    if os.fork():
        os._exit(0)
    os.execvp("sh", ["sh", "-c", "sleep 0.1; sleep 0.1"])
os.close(ends[1])
os.read(ends[0], 1)
""")
        self.assertIn("sleep", names)
        self.assertEqual(names - {"sh", "sleep", os.path.basename(sys.executable)}, set())

    def test_what_starts_while_the_recorder_does_is_in_the_trace(self):
        """Neither the process nor the thread runs long enough for a sample."""
        self.require_waits()
        if os.environ["SANITIZERS"] != "none":
            self.skipTest("a preloaded library would come before the sanitizer's")
        os.unlink(self.trace)
        folder = os.path.dirname(self.trace)
        end = os.path.join(folder, "end")
        os.mkfifo(end)
        with contextlib.ExitStack() as stack:
            chosen = stack.enter_context(subprocess.Popen(
                [sys.executable, "-uc", STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True))
            stack.callback(chosen.kill)
            stack.enter_context(chosen.stdin)
            self.assertEqual(chosen.stdout.readline(), "ready\n")
            with drive.running([TOOL, "record", "-o", self.trace, "-p", str(chosen.pid),
                                "--providers", "none"], stderr=subprocess.PIPE, text=True,
                               env={**WITHOUT_LEAKS, "LD_PRELOAD": ENABLE_SHIM,
                                    "ENABLE_SHIM": folder}) as recorder:
                drive.wait_for(lambda: os.path.exists(os.path.join(folder, "begin")),
                               "the events", [recorder])
                chosen.stdin.write("start\n")
                chosen.stdin.flush()
                process, thread = map(int, chosen.stdout.readline().split())
                os.close(os.open(end, os.O_WRONLY))
                drive.wait_for(lambda: os.path.exists(self.trace) and
                               os.path.getsize(self.trace) > 0, "the first bytes", [recorder])
                chosen.stdin.write("sleep\n")
                chosen.stdin.flush()
                self.assertEqual(chosen.stdout.readline(), "done\n")
                status = drive.interrupt(recorder)
                with recorder.stderr:
                    self.assertEqual(status, 0, recorder.stderr.read())
        waits = collections.Counter((event["process"], event["thread"])
                                    for event in events_of(self.trace)[0]
                                    if event["event"] == "cswitch")
        self.assertGreaterEqual(waits[process, process], 20)
        self.assertGreaterEqual(waits[chosen.pid, thread], 20)

    def reuse(self, process, *command):
        """End a process, and run a command with its id. Return the status of the command."""
        if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
            self.skipTest("the id of the next process cannot be chosen")
        process.kill()
        process.wait(PATIENCE)
        try:
            other = start_with_id(process.pid, *command)
        except PermissionError as error:
            self.skipTest(str(error))
        if not other:
            raise Busy("another program's process got the id")
        return other.wait(PATIENCE)

    def test_another_process_that_gets_the_id_of_a_chosen_one_has_no_session(self):
        with drive.running(["sleep", str(PATIENCE)]) as chosen, \
             drive.running([TOOL, "record", "-f", "-o", self.trace, "-p", str(chosen.pid),
                            "--providers", "Test-Brief", "--allow-missing"],
                           stderr=subprocess.DEVNULL) as recorder:
            drive.wait_for(lambda: os.path.exists(self.trace) and
                           os.path.getsize(self.trace) > 0, "bytes", [recorder])
            # The host ends with status 1 if it gets no session.
            self.assertEqual(self.reuse(chosen, BRIEF_HOST, "300"), 1)
            self.assertEqual(drive.interrupt(recorder), 0)
        self.assertNotIn("Test-Brief", {event["provider"] for event in events_of(self.trace)[0]})

    @in_one_of_three
    def test_another_process_that_gets_the_id_of_a_chosen_one_has_no_samples(self):
        """Threads start all the time, so the recorder has opened the events of all processes."""
        samples, process, _, _ = self.record_starting(
            BURNS.replace("OTHERS", "True"), after=lambda chosen: self.reuse(chosen, HOST, "1000"))
        self.assertTrue(samples)
        # The first thread of the chosen process only waits. The host uses a second of CPU time.
        own = [sample for sample in samples if sample["thread"] == process]
        self.assertLess(len(own), 0.3 * RATE)

    @in_one_of_three
    def test_a_user_who_may_not_record_all_has_the_system_calls_of_own_threads(self):
        """Threads start all the time, so the recorder does not open the events of all of them."""
        if subprocess.run([*WITHOUT_BPF, "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode:
            self.skipTest("setpriv cannot drop CAP_BPF")
        sleeps = "for _ in range(20): time.sleep(0.005)\nthread.join()"
        _, process, _, _ = self.record_starting(
            BURNS.replace("OTHERS", "True").replace("thread.join()", sleeps), WITHOUT_BPF,
            options=["--kernel", "syscalls"], REFUSE_SHIM="1")
        self.assertIn("system calls come from tracepoints", self.errors)
        with open(self.trace, "rb") as file:
            names = [event["fields"]["name"] for event in Reader(file.read()).events
                     if event["name"] == "Syscall" and event["thread"] == process]
        self.assertEqual(names.count("clock_nanosleep"), 20)

    def record_starting(self, program, prefix=(), after=lambda chosen: None, options=(),
                        **environment):
        """Record a program that starts a thread before the recorder has opened its events, and
        call a function at its end. Return the samples of the program, its process id, and the id
        and the CPU time of that thread. The recorder gets the environment."""
        if os.environ["SANITIZERS"] != "none":
            self.skipTest("a preloaded library would come before the sanitizer's")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        end = os.path.join(folder.name, "end")
        os.mkfifo(end)
        with subprocess.Popen([sys.executable, "-uc", program], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as chosen:
            self.addCleanup(chosen.kill)
            self.assertEqual(chosen.stdout.readline(), "ready\n")
            with drive.running([*prefix, TOOL, "record", "-f", "-o", self.trace, "-p",
                                str(chosen.pid), "--providers", "none", *options],
                               stderr=subprocess.PIPE, text=True,
                               env={**WITHOUT_LEAKS, "LD_PRELOAD": ENABLE_SHIM,
                                    "OPEN_SHIM": folder.name, **environment}) as recorder:
                drive.wait_for(lambda: os.path.exists(os.path.join(folder.name, "begin")),
                               "the events", [recorder])
                chosen.stdin.write("start\n")
                chosen.stdin.flush()
                thread = int(chosen.stdout.readline())
                os.close(os.open(end, os.O_WRONLY))
                drive.wait_for(lambda: os.path.getsize(self.trace) > 0, "bytes", [recorder])
                chosen.stdin.write("run\n")
                chosen.stdin.flush()
                seconds = float(chosen.stdout.readline())
                after(chosen)
                status = drive.interrupt(recorder)
                with recorder.stderr:
                    self.errors = recorder.stderr.read()
                self.assertEqual(status, 0, self.errors)
            chosen.kill()
        return stacks_of(self.trace)[0], chosen.pid, thread, seconds

    @in_one_of_three
    def test_a_thread_that_starts_before_the_events_are_open_has_each_sample_once(self):
        for others in False, True:
            with self.subTest(others=others):
                samples, process, thread, seconds = self.record_starting(
                    BURNS.replace("OTHERS", str(others)))
                self.assertEqual({sample["process"] for sample in samples}, {process})
                count = sum(sample["thread"] == thread for sample in samples)
                self.assertGreater(count, 0.8 * RATE * seconds)
                self.assertLess(count, 1.05 * RATE * seconds + 2)

    @in_one_of_three
    def test_other_processes_do_not_fill_the_ring(self):
        with contextlib.ExitStack() as programs, cgroup(self.folders()[0]) as path:
            for _ in range(2 * os.cpu_count()):
                programs.enter_context(drive.running([sys.executable, "-c", TOUCH]))
            idle = programs.enter_context(drive.running(["sleep", str(PATIENCE)]))
            name = "/" + os.path.basename(path)
            for option in ["-p", str(idle.pid)], ["--user", "nobody"], ["--cgroup", name]:
                with self.subTest(option=option):
                    done = self.record(*option, "--providers", "none", "--kernel", "all",
                                       "--off-cpu", "0", "--buffer", "8", "-d", "2", "-f")
                    if lacks_bpf(done.stderr):
                        self.skipTest(done.stderr)
                    self.assertNotIn("ring of BPF programs full", done.stderr)

    def test_an_unknown_user_is_refused(self):
        for option in ["--user", "no such user"], ["--cgroup", "relative"]:
            done = subprocess.run([TOOL, "record", "-o", self.trace, *option], text=True,
                                  stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(option[0], done.stderr)


class Clocks(Case):
    @in_one_of_three	# a time of day that is corrected meanwhile
    def test_the_trace_states_the_machine_and_its_clocks(self):
        self.record("--", "true")
        events = events_of(self.trace)[0]
        machine = [event["fields"] for event in events if event["event"] == "Machine"]
        self.assertEqual([row["host"] for row in machine], [os.uname().nodename])
        readings = [event["fields"] for event in events if event["event"] == "ClockReading"]
        self.assertGreaterEqual(len(readings), 2)
        for reading in readings:
            now = time.time_ns() - time.monotonic_ns()
            self.assertLess(abs(reading["utc_ns"] - reading["monotonic_ns"] - now), 100_000_000)

    def test_traceevent_shows_both_machines_of_a_merged_trace(self):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        hosts, paths = [], [self.trace, self.trace + ".2"]
        for path in paths:
            self.trace = path
            hosts.append(len([sample for sample in self.record_host(1000)[1]
                              if "innermost" in functions(sample)]))
        # The second one becomes the recording of another machine.
        with open(paths[1], "rb") as file:
            content = file.read()
        with open(paths[1], "wb") as file:
            file.write(content.replace(boot.encode("utf-16-le"),
                                       ("0" * 8 + boot[8:]).encode("utf-16-le")))
        merged = paths[0] + ".merged"
        done = subprocess.run([TOOL, "merge", *paths, "-o", merged], stderr=subprocess.PIPE,
                              text=True, check=True, timeout=PATIENCE)
        self.assertIn("by readings of its time of day", done.stderr)
        found = collections.Counter(event["process"] >> 26 for event in events_of(merged)[0]
                                    if event["event"] == "cpu" and
                                    event["process_name"].startswith(os.path.basename(HOST)) and
                                    "innermost" in functions(event))
        self.assertEqual([found[0], found[1]], hosts)

    def require_time_namespaces(self):
        if subprocess.run([*APART, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("the kernel has no time namespaces")

    def test_a_recorder_in_a_time_namespace_records_the_times_of_the_machine(self):
        self.require_time_namespaces()
        before = time.monotonic_ns()
        done = subprocess.run([*APART, TOOL, "record", "-o", self.trace, "--providers",
                               "Test-Brief", "--", "sh", "-ec", f"'{BRIEF_HOST}'; sleep 0.1"],
                              text=True, stderr=subprocess.PIPE, timeout=PATIENCE, check=True)
        after = time.monotonic_ns()
        events = events_of(self.trace)[0]
        self.assertEqual(len([event for event in events if event["provider"] == "Test-Brief"]), 10)
        for event in events:
            if event["event"] == "ClockReading":
                self.assertLess(before, event["fields"]["monotonic_ns"])
                self.assertLess(event["fields"]["monotonic_ns"], after)
                ahead = event["fields"]["boottime_ns"] - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                self.assertLess(abs(ahead), 10 * (after - before))
        report = json.loads(subprocess.run([TOOL, "report", "--format", "json", self.trace],
                                           stdout=subprocess.PIPE, check=True,
                                           timeout=PATIENCE).stdout)
        self.assertLess(report["duration_ns"], after - before)
        self.assertIn("sleep", {event["process_name"] for event in events
                                if event["event"] == "cswitch"})
        self.assertNotIn("too late", done.stderr)

    def test_events_of_a_time_namespace_have_the_times_of_the_machine(self):
        self.require_time_namespaces()
        apart = f"{shlex.join(APART)} '{BRIEF_HOST}'"
        done = self.record("--providers", "Test-Brief", "--", "sh", "-ec",
                           f"'{BRIEF_HOST}'; {apart}; '{BRIEF_HOST}'")
        processes = [event["process"] for event in events_of(self.trace)[0]
                     if event["provider"] == "Test-Brief"]
        self.assertEqual(len(processes), 30)
        self.assertEqual(processes, sorted(processes))
        self.assertNotIn("too late", done.stderr)


if __name__ == "__main__":
    record_case.main()
