#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ABI of the library, compared with the description of version 1 by libabigail's abidiff.

usage: abi_test.py LIBRARY HEADERS DESCRIPTION [--write] [unittest arguments]

--write prints what abidiff finds and writes the description again. It is for additions: a new
function, or a member at the end of a struct that has a ..._SIZE_V1, which does not change.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = HEADERS = DESCRIPTION = None
# The members of libc's FILE, which differ between its versions. libc keeps its own ABI.
FILE_MEMBERS = re.compile(r"(<class-decl name='_IO_FILE' [^>]*>).*?(?=\n *</class-decl>)",
                          re.DOTALL)
# Later versions of libabigail give each type a hash.
HASH = re.compile(r" hash='\w+'")


def describe():
    """The library's description, without what depends on the build."""
    text = subprocess.run(
        ["abidw", "--exported-interfaces-only", "--headers-dir", HEADERS, "--drop-private-types",
         "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--no-parameter-names",
         "--no-write-default-sizes", "--no-elf-needed", LIBRARY],
        stdout=subprocess.PIPE, check=True, text=True).stdout
    return FILE_MEMBERS.sub(r"\1", HASH.sub("", text))


def compare(before, after, *options):
    """(abidiff's exit status, what it found)."""
    with tempfile.TemporaryDirectory() as directory:
        paths = [os.path.join(directory, name) for name in ("before.abi", "after.abi")]
        for path, text in zip(paths, (before, after)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run(["abidiff", *options, *paths], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, text=True)
    return done.returncode, done.stdout


def read_description():
    with open(DESCRIPTION, encoding="utf-8") as file:
        return file.read()


class Abi(unittest.TestCase):
    def setUp(self):
        self.description = read_description()

    def changed(self, pattern, replacement):
        text, count = re.subn(pattern, replacement, self.description, count=1, flags=re.DOTALL)
        self.assertEqual(count, 1, pattern)
        self.assertNotEqual(text, self.description)
        return text

    def test_library_has_the_abi_that_was_described(self):
        self.assertEqual(compare(self.description, describe()), (0, ""))

    def test_symbols_have_the_version_of_the_first_release(self):
        versions = re.findall(r"<elf-symbol [^>]* version='(\w+)'", describe())
        self.assertGreater(len(versions), 70)
        self.assertEqual(set(versions), {"RINGPIPE_1"})

    def expect_finding(self, after, said):
        status, found = compare(self.description, after)
        self.assertNotEqual(status, 0)
        self.assertIn(said, found)

    def test_function_that_goes_is_found(self):
        self.expect_finding(self.changed(r" *<elf-symbol name='rp_session_stop'[^\n]*\n", ""),
                            "rp_session_stop")

    def test_member_that_moves_is_found(self):
        self.expect_finding(self.changed(
            r"(<class-decl name='rp_session_stats'.*?)layout-offset-in-bits='64'",
            r"\1layout-offset-in-bits='128'"), "delivered' offset changed")

    def test_member_of_another_type_is_found(self):
        self.expect_finding(self.changed(
            r"(<class-decl name='rp_session_stats'.*?<var-decl name='error' type-id=')[\w-]+'",
            rf"\1{self.type_of('delivered')}'"), "error")

    def test_struct_that_grows_is_found(self):
        for name in ("rp_field", "rp_part", "rp_session_options"):
            with self.subTest(name=name):
                self.expect_finding(self.changed(
                    rf"(<class-decl name='{name}' size-in-bits=')(\d+)('.*?)( *)</class-decl>",
                    lambda m: f"{m[1]}{int(m[2]) + 64}{m[3]}{m[4]}  <data-member access='public' "
                              f"layout-offset-in-bits='{m[2]}'>\n<var-decl name='added' "
                              f"type-id='{self.type_of('delivered')}' visibility='default'/>\n"
                              f"{m[4]}  </data-member>\n{m[4]}</class-decl>"), "'uint64_t added'")

    def type_of(self, member):
        return re.search(rf"<var-decl name='{member}' type-id='([\w-]+)'", self.description)[1]


def write():
    after = describe()
    if os.path.exists(DESCRIPTION):
        print(compare(read_description(), after)[1], end="")
    with open(DESCRIPTION, "w", encoding="utf-8") as file:
        file.write(after)


def main():
    global LIBRARY, HEADERS, DESCRIPTION
    LIBRARY, HEADERS, DESCRIPTION = sys.argv[1:4]
    del sys.argv[1:4]
    if not shutil.which("abidiff"):
        print("abidiff is not installed")
        sys.exit(77)
    if "--write" in sys.argv:
        write()
        return
    unittest.main()


if __name__ == "__main__":
    main()
