#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks that a disabled event costs C++'s own types no more than C: what the façade compiles to.

usage: facade_test.py ROOT

Each function of facade.cpp begins with the compare and the branch of its event, or with the jump of
a static key, and the path without a session has nothing else but the return. And a program in the
style of C means the same with ringpipe.hpp as with ringpipe.h. Speaks TAP.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

FUNCTIONS = ("write_texts", "write_lists", "write_structs")
PLAIN = ["cmpq", "jne", "xor", "ret"]
KEYED = ["jmp", "xor", "ret"]


def moves_arguments(compiler):
    """gcc 14 may put an argument that the path with a session needs into another register, before
    the gate. The processor executes no such move, it renames the register."""
    version = subprocess.run([compiler, "-dumpversion"], stdout=subprocess.PIPE, check=True,
                             text=True).stdout
    return compiler == "g++" and int(version.split(".")[0]) >= 14


def instructions(path, function, moves):
    """The mnemonics of a function, from its first to the first return, without `moves` of them
    between two registers at its start."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}",
                           path], stdout=subprocess.PIPE, check=True, text=True).stdout
    found = re.findall(r"^ +[0-9a-f]+:\t(\w+) *(.*?)$", text, re.MULTILINE)
    found = [instruction for instruction in found if instruction[0] != "endbr64"]
    while moves and re.fullmatch(r"mov %\w+,%\w+", " ".join(found[0])):
        found, moves = found[1:], moves - 1
    found = [name for name, _ in found]
    return found[:found.index("ret") + 1] if "ret" in found else found


def compiled(compiler, root, output, source, *options):
    return subprocess.run(
        [compiler, "-x", "c++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror",
         "-Iinclude", *options, "-c", "-o", output, source], cwd=root, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def cases(directory, root, compiler):
    """(name, '' or what is wrong)."""
    output = os.path.join(directory, "out.o")
    if os.uname().machine == "x86_64":
        moves = 1 if moves_arguments(compiler) else 0
        for expected, options in ((PLAIN, []), (KEYED, ["-DRP_STATIC_KEYS=1"])):
            done = compiled(compiler, root, output, "tests/compile/facade.cpp", *options)
            for function in FUNCTIONS:
                found = done.stdout or instructions(output, function, moves)
                wrong = "" if found == expected else f"{found}, not {expected}"
                yield f"{function} {' '.join(options)} has the gate alone while off", wrong
    done = compiled(compiler, root, output, "tests/compile/fields.c", "-include",
                    "ringpipe/ringpipe.hpp")
    yield "calls in the style of C are taken", done.stdout


def main():
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(tap.report((f"{compiler}: {name}", wrong)
                            for compiler in ("g++", "clang++") if shutil.which(compiler)
                            for name, wrong in cases(directory, sys.argv[1], compiler)))


if __name__ == "__main__":
    main()
