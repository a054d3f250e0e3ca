#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Dumps of a process, checked with gdb: dump_test.py HOST [unittest arguments]"""
import glob
import os
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

from command_test import CommandHost
from ipc_host import (BAD_ENCODING, FAIL, INVALID_ARGUMENT, NOT_SUPPORTED, OK, Reader, eventually,
                      is_open, message, receive, reply_of, string)

HOST = None
MINI, HEAP, TRIAGE, FULL = 1, 2, 3, 4
FOUND = bytes(letter ^ 1 for letter in b"ufyu!up!cf!gpvoe")
LAST = bytes(letter ^ 1 for letter in b"bu!uif!mbtu!qbhf")
SECRET = bytes(letter ^ 1 for letter in b"opu!up!cf!evnqfe")
NOTE_NAMES = 0x544e


def request(path, kind=FULL, flags=0, command_set=0x01, command=0x03):
    return message(command_set, command, string(path) + struct.pack("<II", kind, flags))


def refusal_of(host, asked):
    """Return HRESULT and text of an error reply."""
    with host.send(asked) as connection:
        header = receive(connection, 20)
        payload = receive(connection, struct.unpack("<H", header[14:16])[0] - 20)
    reader = Reader(payload)
    hresult = reader.number("I")
    return hresult, reader.string() if reader.payload else None


class Core:
    """Reads program headers, notes and memory of a core."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        assert self.bytes[:6] == b"\x7fELF\x02\x01", "no ELF file"
        assert struct.unpack_from("<H", self.bytes, 16)[0] == 4, "no core"
        offset, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        self.headers = [struct.unpack_from("<IIQQQQQQ", self.bytes, offset + i * size)
                        for i in range(count)]

    def notes(self):
        place = next(row for row in self.headers if row[0] == 4)
        at, end = place[2], place[2] + place[5]
        while at < end:
            name_bytes, size, kind = struct.unpack_from("<III", self.bytes, at)
            name = self.bytes[at + 12:at + 12 + name_bytes - 1].decode()
            at += 12 + (name_bytes + 3 & ~3)
            yield name, kind, self.bytes[at:at + size]
            at += size + 3 & ~3

    def thread_names(self):
        names = {}
        for name, kind, content in self.notes():
            if (name, kind) == ("ringpipe", NOTE_NAMES):
                for at in range(0, len(content), 20):
                    tid, comm = struct.unpack_from("<I16s", content, at)
                    names[tid] = comm.rstrip(b"\0").decode()
        return names


class WithHost(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rp-dump-")
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *lines, **options):
        host = CommandHost(HOST, **options)
        self.addCleanup(host.close)
        for line in lines:
            self.assertEqual(host.say(line), "ok")
        return host

    def path(self, name="core"):
        return os.path.join(self.folder, name)

    def dump(self, host, kind=FULL, name="core", command=0x03):
        hresult, payload = host.ask(request(self.path(name), kind, command=command))
        self.assertEqual((hresult, payload), (OK, bytes(4)))
        return Core(self.path(name))

    def sleepers(self, host):
        """Wait until all threads have their names and sleep. Return them."""
        def named():
            names = {}
            for comm in glob.glob("/proc/%d/task/*/comm" % host.pid):
                with open(comm) as file:
                    names[int(comm.split("/")[-2])] = file.read().rstrip("\n")
            return names if {"sleeper-one", "sleeper-two", "sleeper-three"} <= \
                set(names.values()) else None

        return eventually(named, "the threads' names")

    def gdb(self, *commands, name="core"):
        if not shutil.which("gdb"):
            self.skipTest("gdb is not installed")
        arguments = [word for command in commands for word in ("-ex", command)]
        done = subprocess.run(["gdb", "-batch", "-nx", *arguments, HOST, self.path(name)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout


class Content(WithHost):
    def test_gdb_shows_all_threads_with_registers_and_stacks(self):
        host = self.start("threads")
        # A recorder of the whole machine may start the drain thread, and end it.
        names = {tid: name for tid, name in self.sleepers(host).items()
                 if tid == host.pid or name.startswith("sleeper-")}
        for kind in (FULL, HEAP, MINI):
            core = self.dump(host, kind)
            self.assertLessEqual(names.items(), core.thread_names().items())
            said = self.gdb("info threads", "thread apply all -q print/x $r12",
                            "thread apply all -q print/x $xmm7.v2_int64[0]",
                            "thread apply all -q bt")
            self.assertEqual({int(tid) for tid in re.findall(r"\(?LWP (\d+)\)? ", said)} &
                             set(names), set(names), said)
            self.assertIn("main ()", said)
            self.assertEqual(said.count("#0  wait_for_ever"), 3, said)
            if os.uname().machine == "x86_64":
                self.assertEqual(said.count("= 0x5ca1ab1e0ddba11"), 6, said)

    def test_memory_is_there_and_what_is_not_to_be_dumped_is_not(self):
        host = self.start("threads")
        for kind, wanted in ((FULL, True), (HEAP, True), (MINI, False), (TRIAGE, False)):
            core = self.dump(host, kind)
            self.assertEqual(core.bytes.count(FOUND), wanted)
            self.assertEqual(core.bytes.count(LAST), wanted)
            self.assertNotIn(SECRET, core.bytes)

    def test_reserved_memory_makes_no_file_long(self):
        host = self.start("threads")
        self.dump(host, HEAP)
        self.assertLess(os.stat(self.path()).st_size, 1 << 30)
        sizes = {}
        for kind in (MINI, HEAP, FULL):
            self.dump(host, kind)
            sizes[kind] = os.stat(self.path()).st_size
        self.assertLess(sizes[MINI], sizes[HEAP])
        self.assertLess(sizes[HEAP], sizes[FULL])

    def test_readelf_finds_nothing_wrong(self):
        if not shutil.which("readelf"):
            self.skipTest("readelf is not installed")
        host = self.start("threads")
        self.dump(host)
        done = subprocess.run(["readelf", "-W", "-h", "-l", "-n", self.path()], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        self.assertEqual(done.stderr, "")
        for note in ("NT_PRSTATUS", "NT_PRPSINFO", "NT_AUXV", "NT_FILE", "NT_FPREGSET"):
            self.assertIn(note, done.stdout)


class Manners(WithHost):
    def test_every_version_of_the_command_writes_a_core(self):
        host = self.start()
        for command in (0x01, 0x02, 0x03):
            self.dump(host, HEAP, "core%d" % command, command)

    def test_host_runs_on_and_sees_no_child(self):
        host = self.start("threads")
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        before = host.descriptors()
        for _ in range(5):
            self.dump(host, MINI)
        self.assertEqual(host.say("children"), "0 none")
        eventually(lambda: host.descriptors() <= before, "the descriptors closed")
        with open("/proc/%d/status" % host.pid) as status:
            self.assertIn("TracerPid:\t0\n", status.read())

    def test_file_is_private_and_replaces_what_was_there(self):
        host = self.start()
        with open(self.path("victim"), "w") as victim:
            victim.write("kept")
        os.symlink("victim", self.path())
        self.dump(host, MINI)
        self.assertTrue(stat.S_ISREG(os.lstat(self.path()).st_mode))
        self.assertEqual(os.stat(self.path()).st_mode & 0o777, 0o600)
        with open(self.path("victim")) as victim:
            self.assertEqual(victim.read(), "kept")
        self.dump(host, MINI)
        self.assertEqual(sorted(os.listdir(self.folder)), ["core", "victim"])

    def test_frames_report_size_and_pause(self):
        host = self.start("threads")
        names = self.sleepers(host)
        with host.send(request(self.path(), HEAP, command_set=0x52, command=0x04)) as connection:
            self.assertEqual(reply_of(connection), (OK, b""))
            state = 1
            while state == 1:
                frame = receive(connection, 48)
                state, hresult, threads, running, done, total, size, pause = \
                    struct.unpack("<IIIIQQQQ", frame)
                self.assertLessEqual(done, total)
            self.assertEqual(receive(connection, 100), string(""))
        self.assertEqual((state, hresult, threads, running), (2, OK, len(names), 0))
        self.assertEqual(done, total)
        self.assertEqual(size, os.stat(self.path()).st_size)
        self.assertGreater(pause, 0)


class BadLuck(WithHost):
    def assert_nothing_is_left(self):
        self.assertEqual(os.listdir(self.folder), [])

    def test_wrong_requests_get_the_error_that_fits(self):
        host = self.start()
        for asked, expected, text in (
                (request("core"), INVALID_ARGUMENT, "begin with /"),
                (request(""), INVALID_ARGUMENT, "begin with /"),
                (request(self.path(), 0), INVALID_ARGUMENT, "type 0"),
                (request(self.path(), 5), INVALID_ARGUMENT, "type 5"),
                (request(self.path(), FULL, 4), NOT_SUPPORTED, "crashes"),
                (request(self.path("none/core")), FAIL, "No such file"),
                (request(self.folder), FAIL, "Is a directory"),
                (request("/" + 5000 * "x"), FAIL, "too long")):
            hresult, said = refusal_of(host, asked)
            self.assertEqual(hex(hresult), hex(expected), said)
            self.assertIn(text, said)
            old = asked[:17] + b"\x01" + asked[18:]
            self.assertEqual(host.ask(old), (expected, b""))
        self.assertEqual(host.ask(message(0x01, 0x03, string("/x")))[0], BAD_ENCODING)
        self.assert_nothing_is_left()

    def test_folder_without_permission_is_reported(self):
        if os.getuid() == 0:
            self.skipTest("root may write anywhere")
        host = self.start()
        os.chmod(self.folder, 0o500)
        self.addCleanup(os.chmod, self.folder, 0o700)
        hresult, said = refusal_of(host, request(self.path()))
        self.assertEqual(hresult, FAIL)
        self.assertIn("Permission denied", said)

    def test_file_beyond_the_limit_leaves_nothing(self):
        host = self.start(preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                             (100000, 100000)))
        hresult, said = refusal_of(host, request(self.path()))
        self.assertEqual(hresult, FAIL)
        self.assertIn("File too large", said)
        self.assert_nothing_is_left()
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))

    def test_full_disk_leaves_nothing(self):
        mount = ("mount -t tmpfs -o size=200k rp-dump " + self.folder + " && exec \"$0\"",)
        prefix = ("unshare", "--mount", "sh", "-c", *mount)
        if subprocess.run([*prefix[:4], mount[0].replace("exec", "test -n"), "x"],
                          stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("cannot mount a file system here")
        host = self.start(prefix=prefix)
        hresult, said = refusal_of(host, request(self.path()))
        self.assertEqual(hresult, FAIL)
        self.assertIn("No space left on device", said)
        self.assertEqual(os.listdir("/proc/%d/root%s" % (host.pid, self.folder)), [])
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))

    def test_process_that_a_debugger_holds_is_left_alone(self):
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        host = self.start()
        with subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=none", "-p", str(host.pid)],
                              stderr=subprocess.DEVNULL) as tracer:
            self.addCleanup(tracer.wait)
            self.addCleanup(tracer.terminate)

            def traced():
                with open(host.thread() + "/status") as status:
                    return "TracerPid:\t0\n" not in status.read()

            eventually(traced, "strace")
            hresult, said = refusal_of(host, request(self.path()))
            self.assertEqual(hresult, FAIL)
            self.assertIn("another program traces", said)
            tracer.terminate()
        self.assert_nothing_is_left()

    def asked_helper(self, host):
        """Return a request for a dump, and its helper at work, which waits a while for a thread
        that does not stop. Repeat the request if the helper ended too early to be seen."""
        while True:
            connection = host.send(request(self.path()))
            helper = self.helper_of(host, connection)
            if helper:
                return connection, helper
            connection.close()
            os.unlink(self.path())

    @staticmethod
    def helper_of(host, connection):
        def found():
            if not is_open(connection):
                return -1
            for cmdline in glob.glob("/proc/[0-9]*/cmdline"):
                try:
                    with open(cmdline, "rb") as file:
                        words = file.read().split(b"\0")
                except OSError:
                    continue
                if words[:2] == [b"ringpipe-dump", b"%d" % host.pid]:
                    return int(cmdline.split("/")[2])
            return None

        helper = eventually(found, "the helper")
        return helper if helper > 0 else None

    def vfork_host(self):
        host = self.start("vfork")

        def waits():
            for state in glob.glob("/proc/%d/task/*/stat" % host.pid):
                with open(state) as file:
                    if file.read().rpartition(")")[2].split()[0] == "D":
                        return True
            return False

        eventually(waits, "a thread in vfork")
        with open("/proc/%d/task/%d/children" % (host.pid, host.pid)) as children:
            pids = children.read().split()
        for task in glob.glob("/proc/%d/task/*/children" % host.pid):
            with open(task) as children:
                pids += children.read().split()
        for pid in set(pids):
            self.addCleanup(os.kill, int(pid), signal.SIGKILL)
        return host

    def test_helper_that_is_killed_leaves_nothing_and_the_host_runs(self):
        host = self.vfork_host()
        connection, helper = self.asked_helper(host)
        with connection:
            os.kill(helper, signal.SIGKILL)
            header = receive(connection, 20)
            self.assertEqual(header[16:18], b"\xff\xff")
            reader = Reader(receive(connection, struct.unpack("<H", header[14:16])[0] - 20))
            self.assertEqual(reader.number("I"), FAIL)
            self.assertIn("helper ended", reader.string())
        self.assert_nothing_is_left()
        self.assertEqual(host.say("get NOTHING"), "(none)")

    def test_thread_that_does_not_stop_is_reported(self):
        host = self.vfork_host()
        with host.send(request(self.path(), MINI, command_set=0x52, command=0x04)) as connection:
            self.assertEqual(reply_of(connection), (OK, b""))
            state, running = 1, 0
            while state == 1:
                state, _, _, running = struct.unpack("<IIII32x", receive(connection, 48))
        self.assertEqual((state, running), (2, 1))
        self.assertIn("main ()", self.gdb("bt"))

    def test_dump_without_a_client_is_given_up(self):
        host = self.vfork_host()
        self.asked_helper(host)[0].close()
        self.assertEqual(host.ask(message(0x04, 0x01)), (OK, bytes(4)))
        self.assertEqual(host.say("get NOTHING"), "(none)")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: dump_test.py HOST [unittest arguments]")
    HOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
