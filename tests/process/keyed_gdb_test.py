#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A debugger's breakpoint at a site with a static key: debugger and library do not interfere.

usage: keyed_gdb_test.py PROGRAM
"""
import re
import shutil
import subprocess
import sys


def debug(program, *commands):
    words = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    for command in commands:
        words += ["-ex", command]
    return subprocess.run([*words, "--args", program, "under_a_debugger"], check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240).stdout


def main():
    program = sys.argv[1]
    if not shutil.which("gdb"):
        print("no gdb")
        return 77
    if "exited" not in debug("/bin/true", "run"):
        print("gdb cannot run programs here")
        return 77
    # The breakpoint is at the site: it replaces the byte that the library would change.
    found = re.search(r"(0x[0-9a-f]+) <[^>]*>:\s+(?:jmp|test) ",
                      debug(program, "break main", "run", "x/12i mark"))
    if not found:
        print("no site in mark()")
        return 1
    said = debug(program, "break main", "run", f"break *{found.group(1)}", *["continue"] * 4,
                 "x/i $pc", "delete", "continue")
    print(said)
    hits = len(re.findall(r"^(?:Thread .* hit )?Breakpoint 2, ", said, re.M))
    if "exited normally" not in said or "SIG" in said or hits != 4:
        print(f"{hits} hits")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
