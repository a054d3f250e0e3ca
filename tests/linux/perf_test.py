#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Events read by perf: perf_test.py HOST LIBRARY LIBRINGPIPE TOOL [unittest arguments]"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import probes
from probes import (FEW, NUMBERS, PATIENCE_S, REALS, TRACEFS, Host, References, Tracer, eventually,
                    narrow, random_words)

HOST = LIBRARY = None
EVENTS = 10
ATTEMPTS = 20


class Aborted(Exception):
    """perf was killed by an error of its own."""


class WithHost(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.made = []
        self.addCleanup(self.take_back)
        self.persist(self.perf, "buildid-cache", "--add", HOST)

    def persist(self, function, *arguments, **options):
        """perf 6.1 and 6.12 may abort by an assertion of their own, or by the checks of libc, when
        they read or add build ids. On a busy machine, this happens in half of the attempts."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(Aborted):
                return function(*arguments, **options)
        self.skipTest(f"perf was killed {ATTEMPTS} times by an error of its own")

    def perf(self, *arguments, files="cache"):
        command = ["perf", "--buildid-dir", os.path.join(self.folder, files), *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.check_aborted(done.returncode)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    @staticmethod
    def check_aborted(status):
        if status in (-signal.SIGABRT, -signal.SIGSEGV):
            raise Aborted

    @staticmethod
    def enable_in_kernel(line):
        """Without a Python file object, which would seek to the end."""
        file = os.open(TRACEFS + "/uprobe_events", os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def take_back(self):
        for name in self.made:
            self.enable_in_kernel(f"-:{name}\n")

    def define(self, event):
        """Return the name that `perf probe` chose; others on this machine may use the event's
        name."""
        name, = re.findall(r"perf record -e (\S+)",
                           self.persist(self.perf, "probe", "-f", "sdt_probes:" + event))
        self.made.append(name.replace(":", "/"))
        return name

    def record(self, name, fire):
        return self.persist(self.record_once, name, fire)

    def record_once(self, name, fire):
        """Return lines of arguments for what `fire` did, starting at the first instruction."""
        data = os.path.join(self.folder, "data")
        host = Host("perf", "record", "-q", "-B", "-o", data, "-e", name, "--", HOST)
        try:
            fire(host)
        finally:
            status = host.close()
        self.check_aborted(status)
        shown = self.perf("script", "-i", data, "-F", "event,trace")
        return [line.split(") ", 1)[-1] for line in shown.splitlines() if name in line]

    def arguments(self, line):
        return [int(value) for value in re.findall(r"arg\d+=(-?\d+)", line)]


class Perf(WithHost):
    def test_events_are_listed(self):
        listed = self.persist(self.perf, "list", "sdt")
        for event in ("few", "numbers", "references", "bare", "shared"):
            self.assertRegex(listed, rf"sdt_probes:{event}\b")

    def test_event_is_on_while_perf_records(self):
        host = Host(HOST)
        self.addCleanup(host.close)
        name = self.define("bare")
        self.assertEqual(host.enabled(), set())
        tracer = Tracer(["perf", "record", "-q", "-o", os.path.join(self.folder, "data"), "-e",
                         name, "-p", str(host.pid)])
        self.addCleanup(tracer.stop)
        eventually(lambda: host.enabled() == {"bare"}, "the event on")
        tracer.stop()
        eventually(lambda: host.enabled() == set(), "the event off")

    def compare(self, event, sizes, truths=()):
        fired = [random_words(sizes, truths) for _ in range(EVENTS)]
        lines = self.record(self.define(event),
                            lambda host: [host.fire(event, *words) for words in fired])
        # perf 6.1 shows some negative values as unsigned.
        self.assertEqual(
            [[narrow(word, size) for word, size in zip(self.arguments(line), sizes)]
             for line in lines],
            [[narrow(word, size) for word, size in zip(words, sizes)] for words in fired])
        return lines

    def test_stacks_by_dwarf_lead_from_the_event_to_where_the_program_began(self):
        with open(HOST, "rb") as file:
            if b"clang version" in file.read():
                self.skipTest("clang's assembler emits no unwind rules for probes")
        frames = self.stack_of_bare("--call-graph", "dwarf")
        self.assertEqual(frames[:2], ["probes_bare_probe_", "probes_bare_write_"], frames)
        self.assertEqual(frames[-1], "_start", frames)

    def test_stacks_by_frame_pointers_begin_at_the_probe_and_lead_to_the_caller(self):
        # Without optimization, the stack includes the generated function.
        frames = [name for name in self.stack_of_bare("-g") if name != "probes_bare"]
        self.assertEqual(frames[:2], ["probes_bare_probe_", "fire_bare"])

    def stack_of_bare(self, *options):
        return self.persist(self.stack_once, self.define("bare"), *options)

    def stack_once(self, name, *options):
        data = os.path.join(self.folder, "data")
        host = Host("perf", "record", "-q", "-B", *options, "-o", data, "-e", name, "--", HOST)
        host.fire("bare")
        self.check_aborted(host.close())
        shown = self.perf("script", "-i", data, "--no-inline", "-F", "ip,sym")
        return re.findall(r"^\s+[0-9a-f]+ (\S+)", shown, re.M)

    def test_six_arguments_are_what_was_written(self):
        for line in self.compare("few", FEW):
            self.assertEqual(len(self.arguments(line)), len(FEW))

    def test_twelve_arguments_are_what_was_written(self):
        for line in self.compare("reals", REALS, truths={2}):
            self.assertEqual(len(self.arguments(line)), 12)

    def test_of_more_arguments_eleven_are_shown_and_where_all_are(self):
        fired = [random_words(NUMBERS, truths={0}) for _ in range(EVENTS)]
        lines = self.record(self.define("numbers"),
                            lambda host: [host.fire("numbers", *words) for words in fired])
        self.assertEqual(len(lines), EVENTS)
        for line, words in zip(lines, fired):
            shown = self.arguments(line)
            self.assertEqual(len(shown), 12)
            self.assertNotEqual(shown[11], 0)
            self.assertEqual([narrow(*one) for one in zip(shown[:11], NUMBERS)],
                             [narrow(*one) for one in zip(words[:11], NUMBERS)])

    def test_string_is_shown_once_it_is_reported_to_be_one(self):
        name = self.define("references").replace(":", "/")
        with open(TRACEFS + "/uprobe_events", encoding="utf-8") as file:
            made, = [line for line in file if line.startswith(f"p:{name} ")]
        texts = re.sub(r"arg1=(\S+):u64", r"text=+0(\1):string", made)
        texts = re.sub(r"^p:\S+", f"p:probes_{os.getpid()}/texts", texts)
        self.enable_in_kernel(texts)
        self.made.append(f"probes_{os.getpid()}/texts")
        some = [References() for _ in range(EVENTS)]
        lines = self.record(
            f"probes_{os.getpid()}:texts",
            lambda host: [host.say("references", *one.words()) for one in some])
        self.assertEqual([re.search('text="(.*?)" arg2', line).group(1) for line in lines],
                         [one.text for one in some])


class Travel(WithHost):
    """Reads a trace on a system with other programs than the traced ones."""

    def setUp(self):
        super().setUp()
        self.data = os.path.join(self.folder, "data")
        self.persist(self.perf, "buildid-cache", "--add", LIBRARY)

    def record_library(self, *options, files="cache"):
        """An event in a library, whose caller is in the program."""
        self.persist(self.record_library_once, self.define("shared"), options, files)

    def record_library_once(self, name, options, files):
        host = Host("perf", "--buildid-dir", os.path.join(self.folder, files), "record", "-q",
                    *options, "-o", self.data, "-e", name, "--", HOST)
        host.fire("library", 1)
        self.check_aborted(host.close())
        self.assertEqual(host.process.returncode, 0)

    def elsewhere(self, files):
        """Find names of functions in the copied files of the programs."""
        there, away = os.path.dirname(HOST), os.path.dirname(HOST) + ".away"
        os.rename(there, away)
        try:
            shown = self.persist(self.perf, "script", "-i", self.data, "--no-inline", "-F",
                                 "ip,sym", files=files)
        finally:
            os.rename(away, there)
        return re.findall(r"^\s+[0-9a-f]+ (\S+)", shown, re.M)

    def unpack(self, files):
        """Return the files that `perf archive` packs."""
        programs = subprocess.run(["perf", "--exec-path"], check=True, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True).stdout.strip()
        if not os.path.exists(os.path.join(programs, "perf-archive")):
            self.skipTest("no perf archive")
        if not shutil.which("bzip2"):
            self.skipTest("no bzip2, which perf archive packs with")
        self.persist(self.perf, "archive", self.data)
        os.mkdir(os.path.join(self.folder, files))
        subprocess.run(["tar", "xf", self.data + ".tar.bz2", "-C",
                        os.path.join(self.folder, files)], check=True, stdin=subprocess.DEVNULL)

    def need_stacks(self):
        with open(LIBRARY, "rb") as file:
            if b"clang version" in file.read():
                self.skipTest("clang's assembler emits no unwind rules for probes")

    def test_archive_has_the_files_where_the_events_are(self):
        self.record_library()
        self.unpack("archive")
        self.assertEqual(self.elsewhere("nothing"), ["[unknown]"])
        self.assertEqual(self.elsewhere("archive"), ["probes_shared_probe_"])

    def test_archive_has_not_the_files_of_callers(self):
        self.need_stacks()
        if " 6.1." not in self.persist(self.perf, "--version"):
            self.skipTest("the page says it of perf 6.1")
        self.record_library("--call-graph", "dwarf")
        self.unpack("archive")
        frames = self.elsewhere("archive")
        self.assertEqual(frames[0], "probes_shared_probe_")
        self.assertEqual(frames[-1], "[unknown]", frames)

    def test_folder_with_all_files_has_those_of_callers(self):
        self.need_stacks()
        self.record_library("--buildid-all", "--call-graph", "dwarf", files="all")
        frames = self.elsewhere("all")
        self.assertEqual(frames[0], "probes_shared_probe_")
        self.assertEqual(frames[-1], "_start", frames)
        self.assertNotIn("[unknown]", frames)


def main():
    global HOST, LIBRARY
    probes.need("perf")
    HOST, LIBRARY, _ = probes.copies(*sys.argv[1:4])
    del sys.argv[1:5]
    unittest.main()


if __name__ == "__main__":
    main()
