#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reader.hpp compiles without warnings with each compiler, and gives the values of the traces.

usage: range_test.py ROOT LIBRARY SANITIZERS [unittest arguments]
"""
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import traces

ROOT = LIBRARY = SANITIZERS = None
COMPILERS = ("g++", "clang++")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow",
            "-Wundef", "-Wcast-qual", "-Wold-style-cast", "-Wnon-virtual-dtor", "-Wextra-semi",
            "-Wzero-as-null-pointer-constant", "-Werror"]
IDS = """Shop/Order 5 3 1099511627776 10 77 501 'wörker' 3 {activity} {related} 401000 402000 n=0 \
labels=2
Shop/Order 5 5 1 20 78 601 'main' 1 {none} {none} n=1 labels=0
Shop/Order 5 3 1099511627776 30 4242 0 '' 0 {none} {none} n=2 labels=0
version 6 events 3 ended 1
"""
TYPES = """1 1 ß A
-1 255 -2 65535
-9223372036854775808 18446744073709551615 -300
0.5 -2.25
{related} Zoë öß worker
ints: 7 8
vis: -1 64
three: 1 2 3
0 1
invalid: Types/All: i8 is not of the requested type
invalid: Types/All: u64 is not of the requested type
invalid: Types/All: u8 is not of the requested type
invalid: Types/All: text is not of the requested type
invalid: Types/All: ints is not of the requested type
range: Types/All: nothing has no value
"""


def compile_range(compiler, output, *options):
    sanitizers = [] if SANITIZERS == "none" else ["-fsanitize=" + SANITIZERS]
    return subprocess.run(
        [compiler, "-O1", "-g", *WARNINGS, *sanitizers, "-I" + os.path.join(ROOT, "include"),
         os.path.join(ROOT, "tests", "python", "range.cpp"), *options, "-o", output],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Range(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="ringpipe-range-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.programs = {}
        for compiler in COMPILERS:
            # A sanitizer's library belongs to the compiler that built the library.
            if SANITIZERS != "none" and compiler != COMPILERS[0]:
                continue
            program = os.path.join(cls.folder, compiler)
            done = compile_range(compiler, program, "-std=c++17", LIBRARY, "-pthread")
            if done.returncode or done.stdout:
                raise AssertionError(done.stdout)
            cls.programs[compiler] = program

    def check(self, name, data, output, status=0, **options):
        path = os.path.join(self.folder, "t.nettrace")
        with open(path, "wb") as file:
            file.write(data)
        for compiler, program in self.programs.items():
            with self.subTest(compiler=compiler):
                done = subprocess.run([program, name, path], check=False, text=True,
                                      stdout=subprocess.PIPE, **options)
                self.assertEqual(done.stdout, output.replace("FILE", path))
                self.assertEqual(done.returncode, status)

    def test_later_standards_compile_too(self):
        for compiler in COMPILERS:
            done = compile_range(compiler, os.devnull, "-std=c++20", "-fsyntax-only")
            self.assertEqual((done.returncode, done.stdout), (0, ""), compiler)

    def test_events_have_ids_threads_and_stacks(self):
        guids = {"activity": traces.ACTIVITY.hex, "related": traces.RELATED.hex, "none": "0" * 32}
        self.check("ids", traces.with_ids_v6(), IDS.format(**guids))

    def test_fields_have_the_requested_type_or_an_exception(self):
        self.check("types", traces.all_types_v6()[0], TYPES.format(related=traces.RELATED.hex))

    def test_fields_after_the_end_of_the_payload_have_no_value(self):
        time = traces.ns(traces.START) + 900
        self.check("cut", traces.all_types_v4(),
                   f"{time} a\ufffdb\n0\nrange: Types/All: bool has no value\n"
                   f"{len(traces.PAYLOAD_V4) + 1}\n")

    def test_a_trace_in_memory_and_in_a_pipe_is_read(self):
        data = traces.orders()
        self.check("orders", data, "0\n1\n2\n")
        self.check("memory", data, "0\n1\n2\n")
        for program in self.programs.values():
            done = subprocess.run([program, "stdin", "-"], check=True, input=data,
                                  stdout=subprocess.PIPE)
            self.assertEqual(done.stdout, b"0\n1\n2\n")

    def test_a_moved_reader_reads_the_trace(self):
        self.check("move", traces.orders(), "0\n1\n2\n" * 2)

    def test_damage_is_an_exception_after_the_events_before_it(self):
        data, offset = traces.in_two_blocks()
        events = "".join(f"{number}\n" for number in traces.NUMBERS)
        self.check("orders", data[:-1], events + "system_error: the file stops before its end at "
                   f"offset {len(data) - 1}: {os.strerror(errno.ENODATA)}\n", errno.ENODATA)
        self.check("orders", data[:offset] + b"\xee" * 40,
                   "".join(f"{number}\n" for number in traces.NUMBERS[:2]) +
                   f"system_error: no object but tag 238 at offset {offset}: "
                   f"{os.strerror(errno.EBADMSG)}\n", errno.EBADMSG)

    def test_a_reader_that_resumes_gives_the_events_after_the_damage_and_its_place(self):
        data, offset = traces.in_two_blocks()
        data = data[:offset] + b"\xee" * 40 + data[offset + 40:-1] + data[offset:]
        self.check("resumed", data, "".join(f"{number}\n" for number in traces.NUMBERS) +
                   f"{offset}: no block\nsystem_error: resume_after_damage: "
                   f"{os.strerror(errno.EINVAL)}\n", errno.EINVAL)

    def test_a_range_of_time_has_its_events_and_an_empty_one_is_an_exception(self):
        data, _ = traces.in_two_blocks()	# at 1,000 and 1,001 us, and at 2,000 and 2,001 us
        self.check("range", data, "".join(f"{number}\n" for number in traces.NUMBERS[1:3]) +
                   f"system_error: set_range: {os.strerror(errno.EINVAL)}\n", errno.EINVAL)

    def test_a_file_that_is_no_trace_is_an_exception_with_its_name(self):
        no_trace = "system_error: FILE: not a nettrace file, or its beginning is damaged"
        said = os.strerror(errno.EBADMSG)
        self.check("orders", b"x" * 99, f"{no_trace}: {said}\n", errno.EBADMSG)
        self.check("orders", b"Nettrace", f"{no_trace}: the file stops before its end at offset 8:"
                   f" {said}\n", errno.EBADMSG)
        program = self.programs[COMPILERS[0]]
        done = subprocess.run([program, "orders", "missing"], check=False, text=True,
                              stdout=subprocess.PIPE, cwd=self.folder)
        self.assertEqual((done.stdout, done.returncode),
                         (f"system_error: missing: {os.strerror(errno.ENOENT)}\n", errno.ENOENT))


if __name__ == "__main__":
    ROOT, LIBRARY, SANITIZERS = sys.argv[1:4]
    COMPILERS = tuple(name for name in COMPILERS if shutil.which(name))
    if not COMPILERS:
        print("no compiler of C++ is installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
