#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks that programs may ask for every warning there is and get none from the public headers.

usage: quiet.py ROOT

Each header, and what the macros make in a program's own file, without and with static keys, by gcc
with all that it offers beyond -Wall, and by clang with -Weverything. Speaks TAP.
"""
import os
import shutil
import subprocess
import sys

import tap

GCC = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef",
       "-Wcast-qual", "-Wcast-align", "-Wwrite-strings", "-Wredundant-decls", "-Wlogical-op",
       "-Wduplicated-cond", "-Wduplicated-branches", "-Wnull-dereference", "-Wdouble-promotion",
       "-Wformat=2", "-Wmissing-declarations", "-Wswitch-enum", "-Wvla"]
GCC_C = GCC + ["-Wdeclaration-after-statement", "-Wmissing-prototypes", "-Wstrict-prototypes",
               "-Wbad-function-cast", "-Wnested-externs"]
GCC_CXX = GCC + ["-Wold-style-cast", "-Wuseless-cast", "-Wzero-as-null-pointer-constant",
                 "-Wextra-semi"]
# Not meant: other languages than the one asked for, holes in structs, functions of a header that a
# program may leave alone, the names that the linker gives the ends of a section, and pointers that
# are indexed.
CLANG = ["-Weverything", "-Wno-unknown-warning-option", "-Wno-c++98-compat",
         "-Wno-c++98-compat-pedantic", "-Wno-pre-c11-compat", "-Wno-padded",
         "-Wno-used-but-marked-unused", "-Wno-reserved-identifier", "-Wno-unsafe-buffer-usage"]
COMPILERS = [
    ("gcc", "c", "c11", GCC_C), ("gcc", "c", "gnu11", GCC_C), ("g++", "c++", "c++11", GCC_CXX),
    ("g++", "c++", "c++20", GCC_CXX), ("clang", "c", "c11", CLANG),
    ("clang++", "c++", "c++11", CLANG), ("clang++", "c++", "c++20", CLANG),
]
SAMPLES = ["tests/compile/fields.c", "tests/compile/namespaces.cpp", "tests/compile/facade.cpp"]


def compiled(root, command, text=None):
    """Return the messages of the compiler."""
    done = subprocess.run([*command, "-Iinclude", "-O1", "-S", "-o", "-"], input=text, cwd=root,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    return done.stderr or ("refused" if done.returncode else "")


def cases(root):
    """Name, language and what to compile: all headers in one file, since each alone is linted."""
    headers = sorted(os.path.join("ringpipe", name)
                     for name in os.listdir(os.path.join(root, "include", "ringpipe"))
                     if name.endswith(".h"))
    includes = "".join(f"#include <{header}>\n" for header in headers) + "typedef int not_empty;\n"
    yield "the headers", ["c", "c++"], ["-"], includes
    yield "reader.hpp", ["c++"], ["-"], "#include <ringpipe/reader.hpp>\ntypedef int not_empty;\n"
    for keys in (0, 1):
        for sample in SAMPLES:
            languages = ["c++"] if sample.endswith(".cpp") else ["c", "c++"]
            name = sample + (" with static keys" if keys else "")
            yield name, languages, [f"-DRP_STATIC_KEYS={keys}", sample], None


def verdicts(root):
    for name, languages, arguments, text in cases(root):
        for program, language, standard, flags in COMPILERS:
            if language not in languages or (standard == "c++11" and
                                             ("facade" in name or name == "reader.hpp")):
                continue
            command = [program, "-x", language, "-std=" + standard, *flags, *arguments]
            yield (f"{program} as {standard} is content with {name}",
                   compiled(root, command, text) if shutil.which(program) else None)


def main():
    sys.exit(tap.report(verdicts(sys.argv[1]), "no such compiler"))


if __name__ == "__main__":
    main()
