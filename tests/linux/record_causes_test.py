#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The records of ringpipe record name what delays a thread: the file of a system call, the disk of
a request, page faults, and the thread that used the processor meanwhile. The programs say what is
right."""
import json
import os
import subprocess
import sys
import unittest

import record_case
from record_case import PATIENCE, TOOL, WITHOUT_LEAKS, Busy, Case, in_one_of_three, lacks_bpf

CALLS = """
import ctypes, os, socket, struct, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
file = os.open("orders.db", os.O_RDWR | os.O_CREAT, dir_fd=folder)
other = os.open("x" * 255, os.O_RDWR | os.O_CREAT, dir_fd=folder)
ends = socket.socketpair()
ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("qq", 0, 10_000))
for number in range(10):
    os.pwrite(file, bytes(1 << 20), 0)
    os.fsync(file)
    os.write(other, bytes(1 << 20))
    os.sendfile(other, file, 0, 1 << 20)
    os.copy_file_range(file, other, 1 << 20, 0, 0)
    try:
        os.read(ends[0].fileno(), 1)
    except BlockingIOError:
        pass
# These two open the files, and need time to remove their contents.
call = ctypes.CDLL(None).syscall
for name in "created", "opened":
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(bytes(16 << 20))
created = call(85, os.path.join(sys.argv[1], "created").encode(), 0o600)
how = struct.pack("QQQ", os.O_WRONLY | os.O_TRUNC, 0, 0)
opened = call(437, folder, b"opened", how, ctypes.c_size_t(len(how)))
print(created, opened)
"""
# A process of a high priority takes the processor of the first one ten times.
TAKE = """
import os, time
os.sched_setaffinity(0, {0})
def run(ns):
    end = time.monotonic_ns() + ns
    while time.monotonic_ns() < end:
        pass
taker = os.fork()
if taker == 0:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
    with open("/proc/self/comm", "w") as name:
        name.write("taker")
    for _ in range(10):
        time.sleep(0.01)
        run(3_000_000)
    os._exit(0)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
while os.waitpid(taker, os.WNOHANG)[0] == 0:
    pass
print(os.getpid(), taker)
"""

PAGES = 200
TOUCH = f"""
import ctypes, mmap, time
memory = mmap.mmap(-1, {PAGES} * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
began = time.monotonic_ns()
for page in range({PAGES}):
    memory[page * 4096] = 1
took = time.monotonic_ns() - began
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), took)
"""
READ_PAGE = """
import ctypes, mmap, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(file, bytes(64 * 4096))
os.fsync(file)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
memory = mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE)
began = time.monotonic_ns()
memory[5 * 4096]
took = time.monotonic_ns() - began
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + 5 * 4096, took)
"""


class Records(Case):
    def check_messages(self, errors):
        if lacks_bpf(errors):
            self.skipTest(errors)

    def record_command(self, groups, *command):
        """Return the output of a command, and the machine's events of its process."""
        done = self.record("--providers", "none", "--kernel", groups, "--off-cpu", "0",
                           "--buffer", "64", "--", "sh", "-c", 'echo $$; exec "$@"', "sh",
                           *command, env=WITHOUT_LEAKS)
        self.check_messages(done.stderr)
        pid, _, out = done.stdout.partition("\n")
        return out, [row for row in self.rows() if row["provider"] == "Ringpipe-Machine"
                     and row.get("process_id") == int(pid)]

    def rows(self):
        lines = subprocess.run([TOOL, "convert", "--quiet", "--to", "jsonl", "-o", "-", self.trace],
                               stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
        return [json.loads(line) for line in lines.splitlines()]

    def record_python(self, groups, code, *arguments):
        return self.record_command(groups, sys.executable, "-c", code, *arguments)

    def test_the_trace_states_which_groups_it_has(self):
        for groups, stated in ("all", "sched,syscalls,futex,faults,block,irq"), ("irq", "irq"):
            done = self.record("--kernel", groups, "--off-cpu", "2ms", "-f", "--", "true")
            self.check_messages(done.stderr)
            line = subprocess.run([TOOL, "convert", "--quiet", "--to", "jsonl", "-o", "-",
                                   "--where", 'event == "Groups"', self.trace],
                                  stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
            row, = (row for row in map(json.loads, line.splitlines()) if row["event"] == "Groups")
            self.assertEqual(row["fields"], {"groups": stated, "threshold_ns": 2_000_000})

    @in_one_of_three
    def test_a_call_that_may_wait_for_a_disk_has_the_name_of_its_file(self):
        if not record_case.disk_of(os.path.dirname(self.trace)):
            self.skipTest("no folder for temporary files is on a disk")
        out, rows = self.record_python("syscalls", CALLS, os.path.dirname(self.trace))
        calls = [row["fields"] for row in rows if row["event"] == "Syscall"]
        self.assertEqual({call["name"] for call in calls if call["file"] == "orders.db"} -
                         {"openat"}, {"pwrite64", "fsync", "sendfile", "copy_file_range"})
        self.assertEqual([(call["name"], call["file"], call["result"]) for call in calls
                          if call["name"] in ("creat", "openat2")],
                         list(zip(("creat", "openat2"), ("created", "opened"),
                                  map(int, out.split()))))
        syncs = [call for call in calls if (call["name"], call["file"]) == ("fsync", "orders.db")]
        self.assertEqual(len(syncs), 10)
        # No name is longer.
        writes = [call for call in calls if (call["name"], call["file"]) == ("write", "x" * 255)]
        self.assertEqual(len(writes), 10)
        # -EAGAIN: of the socket.
        reads = [call for call in calls if call["name"] == "read" and call["result"] == -11]
        self.assertEqual([call["file"] for call in reads], 10 * [""])

    @in_one_of_three
    def test_a_wait_for_the_processor_names_the_thread_that_used_it(self):
        out, rows = self.record_python("sched", TAKE)
        first, taker = map(int, out.split())
        waits = [row["fields"] for row in rows
                 if row["event"] == "Wait" and row["thread_id"] == first]
        taken = [wait for wait in waits if wait["previous_thread"] == taker]
        self.assertTrue(all((wait["previous_process"], wait["previous_name"]) == (taker, "taker")
                            for wait in taken))
        long = [wait for wait in taken if wait["previous_ns"] > 2_900_000]
        self.assertGreaterEqual(len(long), 9)
        for wait in waits:
            self.assertLessEqual(wait["previous_ns"], wait["runnable_ns"])

    @in_one_of_three
    def test_each_page_that_a_program_touches_first_is_a_fault(self):
        out, rows = self.record_python("faults", TOUCH)
        begin, took = map(int, out.split())
        touched = [row["fields"] for row in rows if row["event"] == "PageFault" and
                   begin <= row["fields"]["address"] < begin + PAGES * 4096]
        self.assertEqual(sorted(fault["address"] for fault in touched),
                         [begin + page * 4096 for page in range(PAGES)])
        # Nothing is read for new pages. The kernel needs time for each, within the program's time.
        self.assertEqual({(fault["is_write"], fault["is_major"]) for fault in touched},
                         {(True, False)})
        self.assertGreater(min(fault["duration_ns"] for fault in touched), 0)
        self.assertLess(sum(fault["duration_ns"] for fault in touched), took)

    @in_one_of_three
    def test_a_page_that_is_read_is_a_major_fault(self):
        out, rows = self.record_python("faults", READ_PAGE, self.trace + ".data")
        address, took = map(int, out.split())
        faults = [row["fields"] for row in rows
                  if row["event"] == "PageFault" and row["fields"]["address"] == address]
        self.assertTrue(faults)
        fault = faults[-1]	# The addresses may have had other memory before.
        if not fault["is_major"]:
            if not record_case.disk_of(os.path.dirname(self.trace)):
                self.skipTest("the file system keeps the page in memory")
            raise Busy("the kernel still writes the page, and keeps it in memory")
        self.assertGreater(fault["duration_ns"], 0)
        self.assertLess(fault["duration_ns"], took)

    @in_one_of_three
    def test_each_read_past_the_page_cache_is_a_request_to_the_disk(self):
        path = self.trace + ".data"
        with open(path, "wb") as file:
            file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())
        device = os.stat(path).st_dev
        link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
        if not os.path.exists(link):
            self.skipTest("the folder for temporary files is on no disk")
        _, rows = self.record_command("block", "dd", f"if={path}", "of=/dev/null", "bs=64k",
                                      "iflag=direct", "status=none")
        reads = [row["fields"] for row in rows if row["event"] == "BlockRequest"
                 and row["fields"]["operation"] == "read"]
        # A page of the program itself may come from the disk, too.
        self.assertGreaterEqual(sum(read["bytes"] for read in reads), 1 << 20)
        self.assertGreaterEqual(len(reads), 16)
        for request in reads:
            self.assertEqual((request["status"], request["device"]),
                             (0, os.path.basename(os.readlink(link))))
            self.assertGreater(request["duration_ns"], 0)


class Repetition(unittest.TestCase):
    preparations = 0

    def prepare_again(self):
        self.preparations += 1

    def runs_of(self, *outcomes):
        """Return how often a test with these outcomes is prepared again, and its last outcome."""
        left, last = list(outcomes), None
        self.preparations = 0

        @in_one_of_three
        def test(_):
            if outcome := left.pop(0):
                raise outcome
        try:
            test(self)
        except (AssertionError, unittest.SkipTest) as failure:
            last = failure
        return self.preparations, last

    def test_a_test_runs_again_if_it_fails_or_the_machine_is_busy_but_not_if_it_cannot_run(self):
        skip, busy, failure = unittest.SkipTest(), Busy(), AssertionError()
        for outcomes, runs in (((None,), (0, None)), ((skip,), (0, skip)),
                               ((busy, failure, None), (2, None)), ((failure, skip), (1, skip)),
                               ((failure, failure, busy), (2, busy))):
            with self.subTest(outcomes=outcomes):
                self.assertEqual(self.runs_of(*outcomes), runs)

    def test_a_failure_within_a_subtest_repeats_the_whole_test(self):
        runs = []

        @in_one_of_three
        def test(case):
            runs.append(None)
            for number in range(3):
                with case.subTest("part", number=number):
                    case.assertNotEqual((len(runs), number), (1, 1))
        test(self)
        self.assertEqual((len(runs), self.preparations), (2, 1))
        self.assertNotIn("subTest", vars(self))


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
