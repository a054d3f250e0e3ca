#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs a program in a machine of its own, on a kernel built for that.

usage: tests/linux/qemu/boot.py [--cpus N] INIT PROGRAM [ARGUMENT...]

The machine has N processors, or one. INIT is init.c. What the program prints is printed, and its
exit status is the script's. Libraries go along, and files named by arguments. Exit status 77:
something is missing, told in the last line.
"""
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

BOOT_S = 600
BOOTS = 3


def skip(reason):
    print(reason)
    sys.exit(77)


def entry(name, mode, data=b"", device=(0, 0)):
    """One member of an archive in cpio's "newc" format, as initramfs-buffer-format.rst has it."""
    name = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def libraries(program):
    """What the dynamic linker maps for it, and the linker: path in the machine -> path here."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    # The linker alone is looked for at its own path.
    return {path if " => " not in line else "/lib/" + os.path.basename(path): path
            for line in listed.splitlines() for path in re.findall(r"(/\S+) \(0x", line)}


def initramfs(files):
    """`files`: path in the machine -> path here."""
    archive = b""
    for folder in ("dev", "lib", "lib64", "proc", "sys", "tmp"):
        archive += entry(folder, 0o40755)
    # Without it the first process has no output.
    archive += entry("dev/console", 0o20600, device=(5, 1))
    for path, source in sorted(files.items()):
        with open(source, "rb") as content:
            archive += entry(path[1:], 0o100755, content.read())
    return gzip.compress(archive + entry("TRAILER!!!", 0), 1)


def boot(kernel, archive, cpus, arguments):
    """Gives what came out of the serial console, and how the machine ended."""
    command = ["timeout", "--kill-after=5", str(BOOT_S), "qemu-system-x86_64", "-nodefaults",
               "-display", "none", "-no-reboot", "-cpu", "max",
               # In turn on one thread: more processors than the host has only wait for each other.
               "-accel", "tcg,thread=single",
               # The table of processors that a small kernel reads has one for each socket.
               "-smp", f"{cpus},sockets={cpus}", "-m", "512", "-serial", "stdio",
               "-kernel", kernel, "-initrd", archive, "-append",
               " ".join(["console=ttyS0", "loglevel=3", "panic=-1", "reboot=t", "no_timer_check",
                         "--", *arguments])]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False)
    return run.stdout.decode(errors="replace").replace("\r", ""), run.returncode


def run(init, program, *arguments, cpus=1):
    """Gives what the program printed, and its exit status."""
    if not shutil.which("qemu-system-x86_64"):
        skip("no qemu-system-x86_64; scripts/setup long installs it")
    here = os.path.dirname(os.path.abspath(__file__))
    built = subprocess.run([here + "/kernel"], capture_output=True, text=True, check=False)
    if built.returncode == 77:
        skip(built.stderr.strip().splitlines()[-1])
    if built.returncode != 0:
        sys.exit(built.stderr + "the kernel could not be built")
    files = {"/init": init, "/program": program, **libraries(init), **libraries(program)}
    inside = []
    for argument in arguments:
        inside.append(argument)
        if os.path.isfile(argument):
            inside[-1] = "/lib/" + os.path.basename(argument)
            files.update({inside[-1]: argument, **libraries(argument)})
    with tempfile.NamedTemporaryFile() as archive:
        archive.write(initramfs(files))
        archive.flush()
        # A host that has no time for it makes a kernel give up before the program begins.
        for _ in range(BOOTS):
            output, status = boot(built.stdout.strip(), archive.name, cpus, inside)
            if "\nbegan\n" in output:
                break
    said = re.search(r"^began\n(.*)^ended: (\d+)$", output, re.M | re.S)
    if not said:
        sys.exit(output + "the machine ended without a word (%d)" % status)
    return said[1].rstrip("\n"), int(said[2])


def main(*arguments):
    cpus = 1
    if arguments[:1] == ("--cpus",):
        cpus, arguments = int(arguments[1]), arguments[2:]
    printed, status = run(*arguments, cpus=cpus)
    print(printed)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
