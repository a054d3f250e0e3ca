# SPDX-License-Identifier: MIT
"""ringpipe record --kernel irq: hard interrupts and softirqs."""
import collections
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import record_case
from oracle import Trace
from record_case import PATIENCE, TOOL, Busy, Case, events_of, in_one_of_three, lacks_bpf
from record_refused_test import WITHOUT_BPF

DATAGRAMS = 1000			# of each processor at least
RECEIVERS = 100				# of each datagram, so that its softirq takes about 0.1 ms
READERS, READS = 4, 1000		# a read ends with an interrupt of the disk, if any
GROUP = "239.255.77.1"


def handlers():
    """Return the names of the handlers of each hard interrupt, which may be shared."""
    found = {}
    for irq in os.listdir("/sys/kernel/irq"):
        with contextlib.suppress(OSError), \
             open(f"/sys/kernel/irq/{irq}/actions", encoding="ascii") as actions:
            found[int(irq)] = [name for name in actions.read().strip().split(",") if name]
    return found


def counts():
    """Return how often the kernel has counted each softirq by name, and each hard interrupt."""
    found = collections.Counter()
    for path, kind in ("/proc/softirqs", "soft"), ("/proc/interrupts", "hard"):
        with open(path, encoding="ascii") as lines:
            processors = len(next(lines).split())
            for line in lines:
                name, _, numbers = line.strip().partition(":")
                if kind == "soft" or name.isdigit():
                    found[f"{kind} {name}"] = sum(map(int, numbers.split()[:processors]))
    return found


@contextlib.contextmanager
def receivers():
    """Open sockets that receive the datagrams of a group. Yield their address."""
    with contextlib.ExitStack() as stack:
        port = 0
        for _ in range(RECEIVERS):
            one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((GROUP, port))
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                           socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1"))
            port = one.getsockname()[1]
        yield GROUP, port


def send(processor, address, readers):
    """Send datagrams, whose NET_RX run in this thread, until the disk's interrupts have ended."""
    os.sched_setaffinity(0, {processor})
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                          socket.inet_aton("127.0.0.1"))
        while sent < DATAGRAMS or any(reader.poll() is None for reader in readers):
            sender.sendto(b"x", address)
            sent += 1


def spin(processor):
    """Keep a processor busy. Print that this has begun."""
    os.sched_setaffinity(0, {processor})
    print(flush=True)
    while True:
        pass


@contextlib.contextmanager
def busy_processors():
    """Keep each processor busy: perf's tracepoints leave out the interrupts of an idle one."""
    with contextlib.ExitStack() as stack:
        for processor in os.sched_getaffinity(0):
            spinner = stack.enter_context(subprocess.Popen(
                [sys.executable, __file__, str(processor), "spin"], stdout=subprocess.PIPE))
            stack.callback(spinner.kill)
            spinner.stdout.readline()
        yield


def load():
    """Cause softirqs on each processor and, meanwhile, interrupts of a disk. Print how often the
    kernel counted each, the times around the two readings, and the process."""
    with receivers() as address, tempfile.NamedTemporaryFile() as file, busy_processors():
        file.write(bytes(READS * 4096))
        file.flush()
        os.fsync(file.fileno())
        times = [time.monotonic_ns()]
        before = counts()
        times.append(time.monotonic_ns())
        readers = [subprocess.Popen(["dd", f"if={file.name}", "of=/dev/null", "iflag=direct",
                                     "bs=4k"], stderr=subprocess.DEVNULL)
                   for _ in range(READERS)]
        senders = [threading.Thread(target=send, args=(processor, address, readers))
                   for processor in os.sched_getaffinity(0)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        times.append(time.monotonic_ns())
        after = counts()
        times.append(time.monotonic_ns())
    print(json.dumps({"counts": {key: after[key] - before[key] for key in after},
                      "times": times, "process": os.getpid()}))


def idle_ticks():
    with open("/proc/stat", encoding="ascii") as stat:
        return int(stat.readline().split()[4])


def rest():
    """Wait until the processors were idle for a while, but for interrupts of the disk, if any.
    Print whether they were."""
    before, end = idle_ticks(), time.monotonic() + PATIENCE / 4
    with tempfile.NamedTemporaryFile() as file:
        while idle_ticks() < before + 20 and time.monotonic() < end:
            select.select([], [], [], 0.01)
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    print(idle_ticks() >= before + 20)


class Load(Case):
    """The load, recorded once for all tests."""
    options = ("--kernel", "irq", "--off-cpu", "0")
    lack = None				# the message without which the tests can run; None: any

    def prepare_again(self):
        self.record_load()

    def setUp(self):
        super().setUp()
        if "message" not in vars(type(self)):
            self.record_load()

    def record_load(self):
        for _ in range(3):
            super().prepare_again()
            done = self.record("--providers", "none", *self.options, "--", sys.executable,
                               __file__, "load")
            # Other programs may load the machine so that the kernel drops records.
            if " 0 lost" in done.stderr:
                break
        if self.lack in done.stderr if self.lack else lacks_bpf(done.stderr):
            self.skipTest(done.stderr)
        with open(self.trace, "rb") as trace:
            rows = [row for row in Trace(trace.read()).events if row["name"] == "Interrupt"]
        type(self).load, type(self).message, type(self).rows = \
            json.loads(done.stdout), done.stderr, rows

    def own_rows(self):
        """Return the rows of the softirqs that delivered the load's datagrams in its threads."""
        return [row for row in self.rows if row["process"] == self.load["process"]
                and row["fields"]["name"] == "NET_RX"]


class Interrupts(Load):
    def count(self, first, last):
        """Return the numbers of rows between two of the load's times, as counts() does."""
        first, last = self.load["times"][first], self.load["times"][last]
        return collections.Counter(
            "soft " + row["fields"]["name"] if row["fields"]["kind"] == "soft" else
            f"hard {row['fields']['number']}"
            for row in self.rows if first <= row["time"] <= last)

    @in_one_of_three
    def test_each_interrupt_that_the_kernel_counted_is_there_once(self):
        self.assertIn(" 0 lost", self.message)
        names, counted = handlers(), self.load["counts"]
        most, least = self.count(0, 3), self.count(1, 2)
        self.assertGreaterEqual(counted["soft NET_RX"],
                                DATAGRAMS * len(os.sched_getaffinity(0)))
        for key in counted.keys() | most.keys():
            # Each handler of a shared interrupt has its own event.
            if key.startswith("hard") and len(names[int(key.split()[1])]) > 1:
                continue
            # The kernel counts at the start, and each processor may have been in one at a reading.
            number = counted.get(key, 0)
            self.assertGreaterEqual(most[key], 0.98 * number - os.cpu_count(), key)
            self.assertLessEqual(least[key], number + os.cpu_count(), key)

    def test_an_interrupt_has_the_name_of_its_handler_and_its_processor(self):
        names = handlers()
        for row in self.rows:
            fields = row["fields"]
            self.assertEqual(row["cpu"], fields["processor"])
            self.assertLess(row["cpu"], os.cpu_count())
            if fields["kind"] == "hard":
                self.assertIn(fields["name"], names[fields["number"]])
            else:
                self.assertEqual((fields["kind"], fields["is_handled"]), ("soft", 1))

    @in_one_of_three
    def test_an_interrupt_belongs_to_the_thread_that_it_interrupted(self):
        # The rest is left to a thread of the kernel.
        self.assertGreater(len(self.own_rows()), DATAGRAMS / 2)

    def test_each_processor_handles_one_interrupt_of_a_kind_at_a_time(self):
        spent = collections.Counter()
        for row in self.rows:
            fields = row["fields"]
            self.assertGreater(fields["duration_ns"], 0)
            spent[fields["kind"], row["cpu"]] += fields["duration_ns"]
        first, last = self.rows[0], self.rows[-1]
        elapsed = last["time"] - first["time"] + first["fields"]["duration_ns"]
        self.assertEqual({place: ns for place, ns in spent.items() if ns > elapsed}, {})

    def test_the_message_has_the_number_of_interrupts_and_no_waits(self):
        self.assertIn(" 0 waits ", self.message)
        self.assertIn(f", {len(self.rows):,} interrupts in ", self.message)


@unittest.skipIf(subprocess.run([*WITHOUT_BPF, "true"], stderr=subprocess.DEVNULL,
                                check=False).returncode, "setpriv cannot drop CAP_BPF")
class Tracepoints(Interrupts):
    """Where the kernel refuses BPF programs, its tracepoints report the same interrupts."""
    prefix = WITHOUT_BPF
    lack = "no interrupts are recorded"

    def test_the_message_states_where_interrupts_come_from(self):
        self.assertIn("interrupts come from tracepoints: ", self.message)


class Threshold(Load):
    options = ("--kernel", "irq")

    @in_one_of_three
    def test_interrupts_below_the_threshold_are_left_out_and_are_no_losses(self):
        self.assertIn(" 0 lost", self.message)
        self.assertEqual([row for row in self.rows if row["fields"]["duration_ns"] < 1e6], [])
        self.assertLess(len(self.own_rows()), DATAGRAMS / 2)


class Groups(Case):
    @in_one_of_three
    def test_an_interrupt_of_an_idle_processor_belongs_to_thread_0_of_the_recorder(self):
        done = self.record("--providers", "none", "--kernel", "irq", "--off-cpu", "0", "--",
                           sys.executable, __file__, "rest")
        if lacks_bpf(done.stderr):
            self.skipTest(done.stderr)
        if done.stdout.strip() != "True":
            raise Busy("other programs kept the processors busy")
        idle = [row for row in events_of(self.trace)[0] if row["thread"] == 0]
        self.assertEqual({row["event"] for row in idle}, {"Interrupt"})
        self.assertEqual({row["process_name"] for row in idle}, {"ringpipe-record"})

    @in_one_of_three
    def test_all_groups_have_interrupts(self):
        for option in ["--kernel", "all"], ["--profile", "all"]:
            done = self.record("--providers", "none", "--off-cpu", "0", *option, "--",
                               sys.executable, __file__, "load")
            if lacks_bpf(done.stderr):
                self.skipTest(done.stderr)
            self.assertRegex(done.stderr, r" waits? of .* system calls?, .* interrupts? in ")
            self.prepare_again()

    def test_interrupts_are_no_group_of_one_process(self):
        done = subprocess.run([TOOL, "collect", "-p", str(os.getpid()), "-o", self.trace,
                               "--kernel", "irq"], text=True, stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--kernel requires GROUPS", done.stderr)


if __name__ == "__main__":
    if sys.argv[-1] == "spin":
        spin(int(sys.argv[1]))
    {"load": load, "rest": rest}.get(sys.argv[-1], record_case.main)()
