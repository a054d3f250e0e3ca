#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Checks the notes by which tracers find events, in objects made by all compilers in many ways.

usage: notes_test.py ROOT

Two files that fire the same events become one shared library, which has to hold one note for each
event that is fired, with the event's words where the page says, its semaphore in the upper half of
the last quarter of its enable word, in .probes, and its place at a nop of one byte: a longer one
under a probe costs what lies below the stack pointer. Speaks TAP.
"""
import os
import re
import shutil
import subprocess
import sys

import tap

X86 = ["%rdi", "%rsi", "%rdx", "%rcx", "%r8"] + [f"{8 * word}(%r9)" for word in range(5, 12)]
ARM = [f"x{word}" for word in range(5)] + [f"[x5, {8 * word}]" for word in range(5, 12)]
EVENTS = {
    "bare": [],
    "integers": [-1, 1, -2, 2, -4, 4, -8, 8],
    "others": [1, 1, 4, 8, 8, -8, 8, 8, 8],
    "pairs": [8, 8, 8, 8, 8, 8, 8],
    "secrets": [-2, 8, 8, 8, 1],
    "lengths": [8, 8, 8, 8, 1],
    "twelve": [-4] * 11 + [1],
    "thirteen": [-4] * 11 + [8],
}
C, CXX = ["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++17"]
WAYS = [
    (["gcc", *C], [["-O0"], ["-O1"], ["-O2"], ["-O3", "-flto"], ["-Os", "-ffunction-sections",
                                                                "-Wl,--gc-sections"],
                   ["-O2", "-flto", "-flto-partition=max"]]),
    (["g++", *CXX], [["-O0"], ["-O2"], ["-O3", "-flto"]]),
    (["clang", *C], [["-O0"], ["-O1"], ["-O2"], ["-O3", "-flto"]]),
    (["clang++", *CXX], [["-O0"], ["-O2"], ["-O3"]]),
]
# Not linked, and so one file alone; code that may lie anywhere or not; another machine.
OBJECTS = [
    (["gcc", *C], [["-O2", "-fno-pic", "-fno-pie"], ["-O0", "-fpie"]]),
    (["clang", *C], [["-O2", "-fno-pic", "-fno-pie"]]),
    (["aarch64-linux-gnu-gcc", *C], [["-O2"]]),
]


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def notes_of(path):
    """(name, arguments, semaphore) of each note."""
    text = run(["readelf", "--wide", "--notes", path]).stdout
    return sorted((name, arguments.strip(), int(semaphore, 16)) for name, semaphore, arguments in
                  re.findall(r"Provider: notes\s+Name: (\w+)\s+Location: \S+ Base: \S+ Semaphore: "
                             r"(\w+)\s+Arguments: ?(.*)", text))


def expected_arguments(sizes, places, last):
    texts = [f"{size}@{place}" for size, place in zip(sizes, places)]
    if last:
        texts[11] = "8@" + last
    return " ".join(texts)


def check_arguments(path, arm):
    places, rest = (ARM, "x5") if arm else (X86, "%r9")
    found = [(name, arguments) for name, arguments, _ in notes_of(path) if name != "idle"]
    expected = sorted((name, expected_arguments(sizes, places, name == "thirteen" and rest))
                      for name, sizes in EVENTS.items())
    return "" if found == expected else f"{found}, not {expected}"


def check_words(path):
    """Each semaphore is in its event's word, and that in .probes."""
    symbols = dict(re.findall(r"(\w+) +32 OBJECT +\w+ +\w+ +\w+ notes_(\w+)_event_",
                              run(["readelf", "--wide", "--symbols", path]).stdout))
    words = {name: int(value, 16) for value, name in symbols.items()}
    section = re.search(r"\.probes +PROGBITS +(\w+) \w+ (\w+) +\w+ +WA ",
                        run(["readelf", "--wide", "--sections", path]).stdout)
    if not section:
        return "no writable section .probes"
    start, size = (int(text, 16) for text in section.groups())
    for name, _, semaphore in notes_of(path):
        if semaphore != words.get(name, 0) + 6 or not start <= semaphore < start + size:
            return f"the semaphore of {name} is at {semaphore:#x}, the word at {words}"
    return ""


def check_sites(path):
    for name, place in re.findall(r"Provider: notes\s+Name: (\w+)\s+Location: (0x\w+)",
                                  run(["readelf", "--wide", "--notes", path]).stdout):
        shown = run(["objdump", "--disassemble", f"--start-address={place}",
                     f"--stop-address={int(place, 16) + 2:#x}", path]).stdout
        if not re.search(rf"^ *{int(place, 16):x}:\t90 +\tnop$", shown, re.M):
            return f"the probe of {name} is not at a nop of one byte: {shown}"
    return ""


def verdict(folder, number, compiler, options, linked):
    """'' or what is wrong; None without that compiler."""
    if not shutil.which(compiler[0]):
        return None
    base = os.path.join(folder, str(number))
    objects = []
    for file in ("one", "two") if linked else ("one",):
        objects.append(f"{base}-{file}.o")
        done = run([*compiler, *options, *(["-fPIC"] if linked else []), "-Wall", "-Wextra",
                    "-pedantic-errors", "-Werror", "-Wno-unused-command-line-argument",
                    "-Iinclude", "-c", f"tests/compile/notes_{file}.c", "-o", objects[-1]])
        if done.returncode:
            return done.stdout
    if not linked:
        return check_arguments(objects[0], compiler[0].startswith("aarch64"))
    library = base + ".so"
    done = run([compiler[0], "-shared", *options, *objects, "-o", library])
    if "LLVMgold.so" in done.stdout:
        return None
    if done.returncode:
        return done.stdout
    names = [name for name, _, _ in notes_of(library)]
    if "idle" in names and options != ["-O0"]:
        return "a note for an event without a call site"
    return check_arguments(library, False) or check_words(library) or check_sites(library)


def main():
    os.chdir(sys.argv[1])
    jobs = [(compiler, options, linked) for ways, linked in ((WAYS, True), (OBJECTS, False))
            for compiler, all_options in ways for options in all_options]
    names = [f"{'library' if linked else 'object'} of {compiler[0]} {' '.join(options)} has the "
             "right notes" for compiler, options, linked in jobs]
    sys.exit(tap.report(zip(names, tap.judge(jobs, verdict)), "the compiler is missing, or cannot"))


if __name__ == "__main__":
    main()
