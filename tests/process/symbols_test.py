#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The module that names functions, tested with symbol files in the forms that distributions use.

usage: symbols_test.py ASK MODULE CODE [unittest options]
"""
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ASK, MODULE, CODE = sys.argv[1:4]
FUNCTIONS = ["plain_function", "local_function", "sized_function", "calls_all"]
CHECK_OUT = "_ZN4shop6Basket9check_outEi"


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True,
                          timeout=60).stdout


def build_id_of(path):
    for line in run("readelf", "-n", path).splitlines():
        if "Build ID:" in line:
            return line.split()[-1]
    return ""


class Symbols(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-symbols-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.debug = self.path("debug")
        os.mkdir(self.debug)
        self.code = self.path("libcode.so")
        shutil.copy(CODE, self.code)
        self.at = {}
        for line in run("nm", CODE).splitlines():
            address, kind, name = ([""] + line.split())[-3:]
            if kind in "tT":
                self.at[name] = int(address, 16)
        self.build_id = build_id_of(CODE)
        self.assertTrue(self.build_id)

    def path(self, name):
        return os.path.join(self.directory, name)

    def ask(self, *addresses, file=None, build_id=None):
        """Returns (start, end, name) of each function that the module finds."""
        lines = run(ASK, MODULE, self.debug, file or self.code,
                    self.build_id if build_id is None else build_id,
                    *(f"{address:x}" for address in sorted(addresses))).splitlines()
        if lines and lines[0].startswith("error:"):
            return lines[0]
        rows = [line.split(" ", 2) for line in lines]
        return [(int(start, 16), int(end, 16), name) for start, end, name in rows]

    def names(self, **options):
        found = self.ask(*(self.at[name] + 1 for name in FUNCTIONS), **options)
        return sorted(row[2] for row in found)

    def split(self, *options):
        """Creates libcode.debug, and removes .symtab from libcode.so."""
        debug = self.path("libcode.debug")
        run("objcopy", "--only-keep-debug", self.code, debug)
        run("objcopy", "--strip-all", *options, self.code)
        return debug

    def test_functions_are_found_whole_global_or_local(self):
        self.assertEqual(self.names(), sorted(FUNCTIONS))
        (start, end, name), = self.ask(self.at["sized_function"] + 5)
        self.assertEqual((start, end, name), (self.at["sized_function"],
                                              self.at["sized_function"] + 16, "sized_function"))

    def test_addresses_of_one_function_give_it_once(self):
        start = self.at["sized_function"]
        self.assertEqual(len(self.ask(start, start + 1, start + 15)), 1)

    def test_cpp_names_are_demangled(self):
        self.assertEqual([row[2] for row in self.ask(self.at[CHECK_OUT])],
                         ["shop::Basket::check_out(int)"])

    def test_a_label_reaches_to_what_follows_it_and_no_further(self):
        label, after = self.at["bare_label"], self.at["sized_function"]
        self.assertEqual(self.ask(label + 3), [(label, label + 4, "bare_label")])
        self.assertEqual(self.ask(after + 16), [])

    def test_addresses_outside_of_the_code_find_nothing(self):
        self.assertEqual(self.ask(0, 1, 2 ** 63, 2 ** 64 - 1), [])

    def test_a_stripped_file_has_its_exported_functions(self):
        run("objcopy", "--strip-all", self.code)
        self.assertEqual(self.names(), ["calls_all", "plain_function", "sized_function"])

    def test_a_debug_file_is_found_by_build_id(self):
        debug = self.split()
        folder = os.path.join(self.debug, ".build-id", self.build_id[:2])
        os.makedirs(folder)
        shutil.move(debug, os.path.join(folder, self.build_id[2:] + ".debug"))
        self.assertEqual(self.names(), sorted(FUNCTIONS))
        with self.subTest("even when the file itself is gone"):
            os.unlink(self.code)
            self.assertEqual(self.names(), sorted(FUNCTIONS))

    def test_a_debug_file_is_found_by_link(self):
        debug = self.split()
        run("objcopy", "--add-gnu-debuglink=" + debug, self.code)
        for folder in (self.directory, self.path(".debug"), self.debug + self.directory):
            with self.subTest(folder):
                os.makedirs(folder, exist_ok=True)
                debug = shutil.move(debug, os.path.join(folder, "libcode.debug"))
                self.assertEqual(self.names(), sorted(FUNCTIONS))

    def test_a_linked_file_is_believed_by_its_checksum_where_there_is_no_build_id(self):
        run("objcopy", "--remove-section=.note.gnu.build-id", self.code)
        debug = self.split()
        run("objcopy", "--add-gnu-debuglink=" + debug, self.code)
        self.assertEqual(self.names(build_id=""), sorted(FUNCTIONS))
        with open(debug, "ab") as file:
            file.write(b"changed")
        self.assertNotIn("local_function", self.names(build_id=""))

    def test_a_debug_file_of_another_build_is_not_believed(self):
        debug = self.split()
        run("objcopy", "--add-gnu-debuglink=" + debug, self.code)
        run("objcopy", "--remove-section=.note.gnu.build-id", debug)
        self.assertNotIn("local_function", self.names())

    def test_a_file_of_another_build_is_not_believed(self):
        self.assertEqual(self.ask(self.at["plain_function"], build_id="0" * 40),
                         "error: No such file or directory")

    def test_a_packed_symbol_table_is_read(self):
        packed = self.path("packed")
        run("objcopy", "--only-keep-debug", self.code, packed)
        with open(packed, "rb") as file:
            compressed = lzma.compress(file.read())
        with open(packed, "wb") as file:
            file.write(compressed)
        run("objcopy", "--strip-all", "--add-section=.gnu_debugdata=" + packed, self.code)
        self.assertEqual(self.names(), sorted(FUNCTIONS))

    def test_what_is_no_elf_file_is_refused(self):
        with open(self.path("text"), "w", encoding="ascii") as file:
            file.write("not a library\n")
        self.assertEqual(self.ask(1, file=self.path("text"), build_id=""),
                         "error: Exec format error")
        os.mkfifo(self.path("fifo"))
        for name in ("fifo", "missing", "debug"):
            self.assertEqual(self.ask(1, file=self.path(name), build_id=""),
                             "error: No such file or directory")


if __name__ == "__main__":
    for tool in ("objcopy", "nm", "readelf"):
        if not shutil.which(tool):
            print(f"SKIP: {tool} is not installed")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
