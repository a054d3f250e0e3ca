#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the tables of sites with static keys, in programs made by all compilers in many ways.

usage: keys_test.py ROOT

The program looks at its own table, changes the sites in it, and sees that no other was left. TAP.
"""
import os
import platform
import shutil
import subprocess
import sys

import tap

SECTIONS = ["-ffunction-sections", "-Wl,--gc-sections", "-Wl,-z,separate-code"]
MOLD = "/usr/libexec/mold"  # as `ld`, since not every gcc knows it by -fuse-ld
WAYS = [
    (["gcc", "-x", "c", "-std=c11"], [
        ["-O0"], ["-O2", "-fno-pie", "-no-pie"], ["-O2", "-static"], ["-O2", "-static-pie"],
        ["-O3", "-flto"], ["-O2", "-flto", "-flto-partition=max"], ["-O2", "-fuse-ld=gold"],
        ["-Os", "-ffunction-sections", "-Wl,--gc-sections"],
        ["-O2", "-Wl,-z,noseparate-code"], ["-O2", "-Wl,-z,separate-code", *SECTIONS],
        ["-O2", "-fuse-ld=lld", *SECTIONS], ["-O2", "-fuse-ld=lld", "-static"],
        ["-O2", "-B" + MOLD, *SECTIONS], ["-O2", "-B" + MOLD, "-static-pie"]]),
    (["g++", "-x", "c++", "-std=c++17"], [
        ["-O0"], ["-O2"], ["-O2", "-flto"], ["-O2", "-fuse-ld=gold"],
        ["-O2", "-ffunction-sections", "-Wl,--gc-sections"]]),
    (["clang", "-x", "c", "-std=c11"], [
        ["-O0"], ["-O2"], ["-O2", "-flto"], ["-O2", "-static"], ["-O2", "-static-pie"],
        ["-O2", "-flto=thin", "-fuse-ld=lld", *SECTIONS]]),
    (["clang++", "-x", "c++", "-std=c++17"], [
        ["-O0"], ["-O2"], ["-O2", "-flto"],
        ["-O2", "-ffunction-sections", "-Wl,--gc-sections"],
        ["-O2", "-flto", "-fuse-ld=lld", *SECTIONS], ["-O2", "-fuse-ld=mold", *SECTIONS]]),
]


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def verdict(folder, number, compiler, options):
    """Return the mistake, '' if there is none, None where a compiler or linker is missing."""
    if not shutil.which(compiler[0]) or \
            "-B" + MOLD in options and not os.access(MOLD + "/ld", os.X_OK):
        return None
    program = os.path.join(folder, str(number))
    built = run([*compiler, *options, "-D_GNU_SOURCE", "-Iinclude", "-Itests/compile",
                 "tests/compile/keys_one.c", "tests/compile/keys_two.c", "-o", program])
    if built.returncode and any(word in built.stdout for word in
                                ("plugin", "cannot find", "invalid linker name")):
        return None
    if built.returncode:
        return built.stdout
    done = run([program])
    if done.returncode == 77:
        return None
    return done.stdout + f"exit {done.returncode}" if done.returncode else ""


def main():
    if platform.machine() != "x86_64":
        print("static keys are x86-64's")
        sys.exit(77)
    os.chdir(sys.argv[1])
    jobs = [(compiler, options) for compiler, ways in WAYS for options in ways]
    names = [f"program of {compiler[0]} {' '.join(options)} has all its sites"
             for compiler, options in jobs]
    sys.exit(tap.report(zip(names, tap.judge(jobs, verdict)), "the compiler is missing, or cannot"))


if __name__ == "__main__":
    main()
