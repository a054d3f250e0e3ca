#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Code that a program generates at run time, as perf shows it: perfmap_test.py HOST [unittest
arguments]"""
import contextlib
import glob
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from command_test import CommandHost
from ipc_host import FAIL, INVALID_ARGUMENT, OK, eventually, message

HOST = None
NONE, ALL, JITDUMP, MAP = 0, 1, 2, 3
CODE = bytes.fromhex("f390833f0074f9c3")


class WithHost(unittest.TestCase):
    def setUp(self):
        if platform.machine() != "x86_64":
            self.skipTest("the host makes code for x86-64 only")
        while not self.starts_clean():
            pass
        self.addCleanup(self.remove_files)

    def starts_clean(self):
        """Whether the host found its file names free. Others with its pid may have left files."""
        self.host = CommandHost(HOST)
        self.addCleanup(self.host.close)
        self.map = "/tmp/perf-%d.map" % self.host.pid
        self.jit = "/tmp/jit-%d.dump" % self.host.pid
        with contextlib.suppress(PermissionError):
            self.remove_files()
        return not (os.path.lexists(self.map) or os.path.lexists(self.jit))

    def remove_files(self):
        for path in [self.map, self.jit, *glob.glob("/tmp/jitted-%d-*.so" % self.host.pid)]:
            if os.path.lexists(path):
                os.unlink(path)

    def code(self, name):
        status, address = self.host.say("code " + name).split()
        self.assertEqual(status, "0")
        return int(address, 16)

    def enable(self, kind, expected=OK):
        hresult, _ = self.host.ask(message(0x04, 0x05, struct.pack("<I", kind)))
        self.assertEqual(hex(hresult), hex(expected))

    def disable(self):
        self.assertEqual(self.host.ask(message(0x04, 0x06)), (OK, bytes(4)))

    def lines(self):
        with open(self.map) as file:
            return file.read().splitlines()

    def records(self):
        """Return (type, content after the time) of each record."""
        with open(self.jit, "rb") as file:
            content = file.read()
        magic, version, size, machine, _, pid, _, flags = struct.unpack_from("<IIIIIIQQ", content)
        self.assertEqual((magic, version, size, machine, pid, flags),
                         (0x4a695444, 1, 40, 62, self.host.pid, 0))
        found, at, last = [], size, 0
        while at < len(content):
            kind, bytes_in_all, time = struct.unpack_from("<IIQ", content, at)
            self.assertGreaterEqual(time, last)
            last = time
            found.append((kind, content[at + 16:at + bytes_in_all]))
            at += bytes_in_all
        self.assertEqual(at, len(content))
        return found


class Files(WithHost):
    def test_map_has_what_was_known_and_what_comes(self):
        address = self.code("early one")
        self.enable(MAP)
        self.assertEqual(self.lines(), ["%x 8 early one" % address])
        self.assertEqual(self.host.say("more late\tone"), "0")
        self.assertEqual(self.lines()[1:], ["%x 8 late?one" % (address + 16)])
        self.assertFalse(os.path.exists(self.jit))
        self.assertEqual(os.stat(self.map).st_mode & 0o777, 0o600)
        self.disable()
        self.assertEqual(self.host.say("more unheard"), "0")
        self.assertEqual(len(self.lines()), 2)

    def test_dump_has_the_code_itself(self):
        address = self.code("early")
        self.enable(JITDUMP)
        self.assertFalse(os.path.exists(self.map))
        self.host.say("more late")
        with open("/proc/%d/maps" % self.host.pid) as maps:
            self.assertRegex(maps.read(), r"r-xp [^\n]*" + self.jit)
        self.disable()
        *loads, close = self.records()
        self.assertEqual(close, (3, b""))
        self.assertEqual([kind for kind, _ in loads], [0, 0])
        pid, _, start, where, size, index = struct.unpack_from("<IIQQQQ", loads[0][1])
        self.assertEqual((pid, start, where, size, index),
                         (self.host.pid, address, address, 8, 0))
        self.assertEqual(loads[0][1][40:], b"early\0" + CODE)
        self.assertEqual(struct.unpack_from("<Q", loads[1][1], 32)[0], 1)

    def test_removed_code_is_not_reported_to_later_clients(self):
        self.code("gone")
        self.assertEqual(self.host.say("remove"), "0")
        self.assertEqual(self.host.say("remove"), "-2")
        self.enable(ALL)
        self.assertEqual(self.lines(), [])
        self.assertEqual(self.records(), [])

    def test_own_files_are_replaced_and_links_not_followed(self):
        self.code("loop")
        with tempfile.NamedTemporaryFile() as victim:
            victim.write(b"kept")
            victim.flush()
            os.symlink(victim.name, self.map)
            with open(self.jit, "w") as stale:
                stale.write("stale")
            self.enable(ALL)
            self.enable(ALL)
            self.assertEqual(victim.seek(0) or victim.read(), b"kept")
        self.assertFalse(os.path.islink(self.map))
        self.assertEqual(len(self.lines()), 1)
        self.assertEqual(len(self.records()), 1)

    def test_what_is_not_ours_is_left_alone(self):
        os.mkdir(self.map)
        self.addCleanup(lambda: os.path.isdir(self.map) and os.rmdir(self.map))
        self.enable(MAP, FAIL)
        self.assertTrue(os.path.isdir(self.map))
        os.rmdir(self.map)
        if os.getuid() != 0:
            return
        with open(self.map, "w") as foreign:
            foreign.write("foreign")
        os.chown(self.map, 65534, 65534)
        self.enable(MAP, FAIL)
        self.assertEqual(self.lines(), ["foreign"])

    def test_forked_child_writes_into_no_file_of_its_parent(self):
        self.code("loop")
        self.enable(ALL)
        self.assertEqual(self.host.say("fork"), "ok")
        self.assertEqual(len(self.lines()), 1)
        self.assertEqual(len(self.records()), 1)
        self.assertEqual(self.host.say("more after"), "0")
        self.assertEqual(len(self.lines()), 2)

    def test_types_are_what_they_are(self):
        self.enable(4, INVALID_ARGUMENT)
        self.enable(0xffffffff, INVALID_ARGUMENT)
        self.enable(NONE)
        self.assertFalse(os.path.lexists(self.map) or os.path.lexists(self.jit))


class Perf(WithHost):
    """Samples of a host that loops in its code, as perf shows them."""

    def setUp(self):
        super().setUp()
        if not shutil.which("perf"):
            self.skipTest("perf is not installed")
        self.folder = tempfile.mkdtemp(prefix="rp-perf-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, "data")

    def perf(self, *arguments):
        # perf inject looks for its files in HOME.
        return subprocess.run(["perf", *arguments], stdin=subprocess.DEVNULL, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, HOME=self.folder), check=False)

    def record(self):
        """Record samples for a while."""
        # Small buffers and many samples, so that the file grows soon.
        command = ["perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "9999", "-m",
                   "1", "-p", str(self.host.pid), "-o", self.data]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as recorder:
            def has_samples():
                if recorder.poll() is not None:
                    self.skipTest("perf cannot sample here: " + recorder.stderr.read())
                return os.path.exists(self.data) and os.path.getsize(self.data) > 20000

            eventually(has_samples, "samples of perf")
            recorder.send_signal(signal.SIGINT)
            recorder.wait()

    def symbols(self, data):
        done = self.perf("script", "-f", "-i", data, "-F", "ip,sym")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_perf_names_code_by_the_map(self):
        self.code("jitted_loop")
        self.enable(MAP)

        def is_named():
            self.record()
            return "jitted_loop" in self.symbols(self.data)

        eventually(is_named, "a sample of the code")

    def test_perf_names_code_by_the_dump(self):
        self.code("jitted_loop")
        jitted = os.path.join(self.folder, "jitted")

        def is_named():
            self.enable(JITDUMP)
            self.record()
            self.disable()
            done = self.perf("inject", "-f", "--jit", "-i", self.data, "-o", jitted)
            self.assertEqual(done.returncode, 0, done.stderr)
            return "jitted_loop" in self.symbols(jitted)

        eventually(is_named, "a sample of the code")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: perfmap_test.py HOST [unittest arguments]")
    HOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
