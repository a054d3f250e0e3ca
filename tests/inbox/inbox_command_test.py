#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`ringpipe inbox -- COMMAND` runs programs with the library, and refuses those that it cannot.

Environment: STATIC, a program that is linked statically; the others as in inbox.py.
"""
import os
import shutil
import signal
import subprocess
import unittest

from inbox import INBOX, PROGRAM, InboxTest
from tool import PATIENCE

STATIC = os.environ["STATIC"]
LOADER = b"/lib64/ld-linux-x86-64.so.2"
CLASS, MACHINE = 4, 18  # offsets in the header of an ELF file


class Runs(InboxTest):
    def test_the_command_replaces_itself_by_the_program_with_its_arguments_and_status(self):
        out, err = self.run_tool("inbox", "--", "sh", "-c", 'echo "$0 $1"; exit 3', "a b", "c",
                                 status=3)
        self.assertEqual((out, err), ("a b c\n", ""))

    def test_the_library_comes_before_those_that_the_user_preloads(self):
        self.environment["LD_PRELOAD"] = "libm.so.6"
        out, _ = self.run_tool("inbox", "--", "sh", "-c", "echo $LD_PRELOAD")
        first, second = out.strip().split(":")
        self.assertTrue(os.path.samefile(first, INBOX))
        self.assertEqual(second, "libm.so.6")

    def test_scripts_run_if_their_interpreter_does(self):
        for line in "#!/bin/sh", "#! /bin/sh -e", "#!/usr/bin/env sh":
            self.write("script", f"{line}\necho ran \"$LD_PRELOAD\"\n".encode())
            os.chmod(self.path("script"), 0o755)
            out, _ = self.run_tool("inbox", "--", self.path("script"))
            self.assertTrue(out.startswith("ran /"), out)

    def test_collect_records_a_program_that_the_command_starts(self):
        out = self.path("out.nettrace")
        self.run_tool("collect", "--providers", "ringpipe-threads", "-o", out, "--", self.tool(),
                      "inbox", "--", PROGRAM, "threads")
        text, _ = self.run_tool("report", out, "events")
        self.assertEqual(text.count("ringpipe-threads/started"), 30)

    def test_a_program_of_address_sanitizer_runs_with_the_documented_option(self):
        done = subprocess.run(["cc", "-fsanitize=address", "-x", "c", "-", "-o", self.path("asan")],
                              input=b"#include <stdlib.h>\nint main(int count, char **words)\n"
                                    b"{ char *p = calloc(9, 1); free(p); return p[count]; }\n",
                              stderr=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            self.skipTest("no AddressSanitizer")
        command = ("inbox", "--", self.path("asan"))
        self.environment["ASAN_OPTIONS"] = ""  # meson's may abort
        _, err = self.run_tool(*command, status=1)
        self.assertIn("ASan runtime does not come first", err)
        self.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        _, err = self.run_tool(*command, status=1)
        self.assertIn("heap-use-after-free", err)

    @staticmethod
    def tool():
        return os.environ["RINGPIPE"]


class Refuses(InboxTest):
    def refuse(self, path, *words, status=1):
        out, err = self.run_tool("inbox", "--", path, status=status)
        self.assertEqual(out, "")
        self.assertEqual(err.count("\n"), 1, err)
        for word in words:
            self.assertIn(word, err)

    def copy(self, change=lambda data: data):
        with open(PROGRAM, "rb") as file:
            self.write("program", change(file.read()))
        os.chmod(self.path("program"), 0o755)
        return self.path("program")

    @staticmethod
    def put(data, at, byte):
        return data[:at] + bytes([byte]) + data[at + 1:]

    def test_a_static_program(self):
        self.refuse(STATIC, STATIC, "linked statically")

    def test_a_program_of_musl(self):
        musl = b"/lib/ld-musl-x86_64.so.1".ljust(len(LOADER), b"\0")
        with open(PROGRAM, "rb") as file:
            if LOADER not in file.read():
                self.skipTest("the loader of this machine has another name")
        self.refuse(self.copy(lambda data: data.replace(LOADER, musl)), "musl", "needs glibc")
        other = b"/lib/ld-other.so.1".ljust(len(LOADER), b"\0")
        self.refuse(self.copy(lambda data: data.replace(LOADER, other)), "another C library",
                    "ld-other.so.1")

    def test_a_program_that_gets_other_rights(self):
        path = self.copy()
        if os.geteuid() != 0:
            self.skipTest("only root can make a program of another user")
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        self.refuse(path, "set-user-ID")
        os.chmod(path, 0o2755)
        self.refuse(path, "set-group-ID")
        os.chmod(path, 0o755)
        self.run_tool("inbox", "--", path, "threads")

    def test_a_program_with_file_capabilities(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give capabilities to a file")
        if not shutil.which("setcap"):
            self.skipTest("setcap is not installed")
        path = self.copy()
        os.chmod(self.directory, 0o755)

        def run_as_nobody():
            return subprocess.run(
                [os.environ["RINGPIPE"], "inbox", "--", path, "threads"], user=65534, group=65534,
                extra_groups=[], env=dict(self.environment, TMPDIR=self.directory),
                capture_output=True, text=True, timeout=PATIENCE, check=False)
        try:
            before = run_as_nobody()
        except PermissionError:
            self.skipTest("another user cannot execute the program")
        self.assertEqual((before.returncode, before.stderr), (0, ""))
        done = subprocess.run(["setcap", "cap_net_bind_service=ep", path], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"setcap: {done.stderr.strip()}")
        after = run_as_nobody()
        self.assertEqual((after.returncode, after.stdout), (1, ""))
        self.assertIn("the file has capabilities, so the loader ignores LD_PRELOAD", after.stderr)
        # Root gets no more rights from the file than it has.
        self.run_tool("inbox", "--", path, "threads")

    def test_a_program_of_another_architecture(self):
        for at in CLASS, MACHINE:
            self.refuse(self.copy(lambda data, at=at: self.put(data, at, 1)),
                        "another architecture")

    def test_damaged_programs(self):
        for size in range(0, 200, 7):
            self.refuse(self.copy(lambda data, size=size: data[:size]), "program")
        for at in range(32, 64):
            changed = self.copy(lambda data, at=at: self.put(data, at, 0xff))
            process = self.start("inbox", "--", changed)
            process.communicate(timeout=PATIENCE)
            self.assertIn(process.returncode, (1, 2, -signal.SIGSEGV, -signal.SIGKILL))

    def test_scripts_with_an_interpreter_that_is_refused(self):
        for first in f"#!{STATIC}", f"#! {STATIC} -x", f"#!/usr/bin/env {STATIC}":
            self.write("script", f"{first}\n".encode())
            os.chmod(self.path("script"), 0o755)
            self.refuse(self.path("script"), STATIC, "linked statically")
        self.write("script", b"#!\n")
        self.refuse(self.path("script"), "names no interpreter")
        self.write("script", f"#!{self.path('script')}\n".encode())
        self.refuse(self.path("script"), "too many interpreters")
        self.write("script", b"echo without a first line\n")
        self.refuse(self.path("script"), "neither an ELF program nor a script")

    def test_names_without_a_program(self):
        self.refuse("no-such-program", "No such file")
        self.refuse(self.path("missing"), "No such file")
        self.refuse(self.directory, "Is a directory")

    def test_a_command_without_dashes_and_a_missing_library(self):
        _, err = self.run_tool("inbox", "ls", status=2)
        self.assertIn("give the command after --", err)
        alone = self.path("ringpipe")
        shutil.copy(os.environ["RINGPIPE"], alone)
        self.assertEqual(os.spawnve(os.P_WAIT, alone, [alone, "inbox", "--", "true"],
                                    dict(self.environment)), 1)


if __name__ == "__main__":
    unittest.main()
