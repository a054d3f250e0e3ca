#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Runs a program in a virtual machine, on a kernel built for that.

usage: tests/linux/qemu/boot.py [--cpus N] INIT PROGRAM [ARGUMENT...]

The machine has N processors, or one. INIT is init.c. The script prints the program's output and
exits with its status. The machine also gets its libraries, and the files named by arguments. Exit
status 77: something is missing, which the last line names.
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
    """Build one member of an archive in cpio's "newc" format, see initramfs-buffer-format.rst."""
    name = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def libraries(program):
    """Return the libraries that the dynamic linker maps, and the linker: path in the machine ->
    path here."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    # Only the linker must be at its own path.
    return {path if " => " not in line else "/lib/" + os.path.basename(path): path
            for line in listed.splitlines() for path in re.findall(r"(/\S+) \(0x", line)}


def initramfs(files):
    """Build the archive of `files`: path in the machine -> path here."""
    archive = b""
    for folder in ("dev", "lib", "lib64", "proc", "sys", "tmp"):
        archive += entry(folder, 0o40755)
    # Without the console the first process has no output.
    archive += entry("dev/console", 0o20600, device=(5, 1))
    for path, source in sorted(files.items()):
        with open(source, "rb") as content:
            archive += entry(path[1:], 0o100755, content.read())
    return gzip.compress(archive + entry("TRAILER!!!", 0), 1)


def boot(kernel, archive, cpus, arguments):
    """Return the output of the serial console, and how the machine ended."""
    command = ["timeout", "--kill-after=5", str(BOOT_S), "qemu-system-x86_64", "-nodefaults",
               "-display", "none", "-no-reboot", "-cpu", "max",
               # One thread emulates all processors: more than the host has would only wait for each
               # other.
               "-accel", "tcg,thread=single",
               # A small kernel's table of processors has one entry for each socket.
               "-smp", f"{cpus},sockets={cpus}", "-m", "512", "-serial", "stdio",
               "-kernel", kernel, "-initrd", archive, "-append",
               " ".join(["console=ttyS0", "loglevel=3", "panic=-1", "reboot=t", "no_timer_check",
                         "--", *arguments])]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False)
    return run.stdout.decode(errors="replace").replace("\r", ""), run.returncode


def run(init, program, *arguments, cpus=1):
    """Return the program's output and its exit status."""
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
        # On an overloaded host, the kernel may panic before the program begins.
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
