#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks that declarations in a header cost data once in an object, and nothing where not used.

usage: data_test.py ROOT

Two files that use the same declarations become one program, or a program and a library, by every
compiler and linker in many ways. The program checks the tables that it registers: each event and
counter that a file uses is there once, complete, and every file has the same word. Then a file that
only includes declarations is compiled with and without them: both have the same sections. TAP.
"""
import os
import re
import shutil
import subprocess
import sys

import tap

C, CXX = ["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++11"]
COMPILERS = {"gcc": C, "g++": CXX, "clang": C, "clang++": CXX}
MOLD = "-B/usr/libexec/mold"  # as `ld`, since not every gcc knows it by -fuse-ld
GC = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
KEYS = "-DRP_STATIC_KEYS=1"
SHARED = "-DDATA_SHARED"
# Each of the two files has its compiler; the first one links.
WAYS = [
    ("gcc", "gcc", [["-O0"], ["-O1", *GC], ["-O2", "-fno-pie", "-no-pie", "-fno-common"],
                    ["-O2", "-static"], ["-O2", "-static-pie", KEYS], ["-O3", "-flto"],
                    ["-O2", "-flto", "-flto-partition=max", *GC], ["-O2", "-fuse-ld=gold", *GC],
                    ["-O2", "-fuse-ld=lld", *GC], ["-O2", MOLD, *GC], ["-O2", KEYS, SHARED],
                    ["-O0", SHARED], ["-O2", "-flto", SHARED],
                    ["-O2", "-fuse-ld=lld", *GC, SHARED]]),
    ("g++", "g++", [["-O0"], ["-O2"], ["-O2", "-flto", *GC], ["-O2", MOLD, KEYS, *GC]]),
    ("clang", "clang", [["-O0"], ["-O2", *GC], ["-O2", "-static"],
                        ["-O2", "-flto", "-fuse-ld=lld", *GC], ["-O0", SHARED],
                        ["-O2", "-flto=thin", "-fuse-ld=lld", SHARED]]),
    ("clang++", "clang++", [["-O0"], ["-O2", KEYS, "-fuse-ld=gold"],
                            ["-O2", "-flto", "-fuse-ld=lld", *GC], ["-O2", "-fuse-ld=mold"]]),
    ("g++", "gcc", [["-O0"], ["-O2"], ["-O2", "-flto"], ["-O2", SHARED]]),
    ("clang++", "gcc", [["-O2"]]), ("g++", "clang", [["-O0"]]), ("gcc", "clang", [["-O2", *GC]]),
]
IDLE = [["-O0", "-fPIC"], ["-O1"], ["-O2", KEYS]]


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


class Refused(Exception):
    """A command failed, with what it said."""


def must(*command):
    done = run(*command)
    if done.returncode:
        raise Refused(done.stdout or f"exit {done.returncode}: {' '.join(command)}")
    return done.stdout


def compiled(compiler, options, source, target):
    must(compiler, *COMPILERS[compiler], "-Wall", "-Wextra", "-pedantic-errors", "-Werror",
         "-Iinclude", "-Wno-unused-command-line-argument",
         *(option for option in options if not option.startswith(("-Wl,", "-fuse-ld"))), "-c",
         f"tests/compile/{source}.c", "-o", target)


def program(base, first, second, options):
    """Builds and runs the program."""
    objects = [base + "-one.o", base + "-two.o"]
    shared = SHARED in options
    compiled(first, options, "data_one", objects[0])
    compiled(second, [*options, "-fPIC"] if shared else options, "data_two", objects[1])
    if shared:
        library = base + ".so"
        must(second, "-shared", *options, objects.pop(), "-o", library)
        objects += [library, "-rdynamic", "-Wl,-rpath," + os.path.dirname(base)]
    must(first, *options, *objects, "-o", base)
    must(base)


def sections(path):
    """{name: size} of what an object brings into memory, and of its relocations."""
    rows = re.findall(r"^ +\[ *\d+\] (\S+) +(\w+) +\w+ \w+ (\w+) \w+ +(\w*) ",
                      run("readelf", "--wide", "--sections", path).stdout, re.M)
    return {name: int(size, 16) for name, kind, size, flags in rows
            if int(size, 16) and ("A" in flags or kind == "RELA")}


def idle(base, compiler, options):
    """Compiles a file with declarations that it does not use, and without."""
    compiled(compiler, [*options, "-DINCLUDED"], "data_idle", base + "-with.o")
    compiled(compiler, options, "data_idle", base + "-without.o")
    found, expected = sections(base + "-with.o"), sections(base + "-without.o")
    if not expected or found != expected:
        raise Refused(f"{found}, without declarations {expected}")


def verdict(folder, number, _what, job, arguments):
    """Return the mistake, '' if there is none, None where a compiler or linker is missing."""
    if not all(shutil.which(word) for word in arguments if isinstance(word, str)) or \
            MOLD in arguments[-1] and not os.access(MOLD[2:] + "/ld", os.X_OK):
        return None
    try:
        job(os.path.join(folder, str(number)), *arguments)
    except Refused as refused:
        text = str(refused)
        missing = ("LLVMgold.so", "cannot find", "invalid linker name")
        return None if any(word in text for word in missing) else text
    return ""


def main():
    os.chdir(sys.argv[1])
    jobs = [("program", program, (first, second, options))
            for first, second, ways in WAYS for options in ways]
    jobs += [("unused header", idle, (compiler, options))
             for compiler in COMPILERS for options in IDLE]
    names = [f"{what} of {' and '.join(compilers)} {' '.join(options)} has its data "
             f"{'once' if what == 'program' else 'nowhere'}"
             for what, _, (*compilers, options) in jobs]
    sys.exit(tap.report(zip(names, tap.judge(jobs, verdict)), "a compiler or linker is missing"))


if __name__ == "__main__":
    main()
