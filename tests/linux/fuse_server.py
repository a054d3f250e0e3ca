#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mounts a file system at the first argument that has one file, /program, with the content of the
second argument. Prints a line when it is mounted, and serves it until this process ends. After
SIGUSR1, it takes one more request, prints a line, and stops."""
import ctypes
import errno
import os
import signal
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, INTERRUPT, BATCH_FORGET = \
    1, 2, 3, 14, 15, 17, 18, 26, 36, 42
ROOT, FILE = 1, 2


def attributes(node, size):
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o755
    return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body, content):
    """Return an error, and the rest of the reply."""
    if opcode == INIT:
        return 0, struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 8, 8, 65536, 1, 16, *[0] * 9)
    if opcode == LOOKUP:
        if body.rstrip(b"\0") != b"program":
            return -errno.ENOENT, b""
        return 0, struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + attributes(FILE, len(content))
    if opcode == GETATTR:
        return 0, struct.pack("<Q2I", 0, 0, 0) + attributes(node, len(content))
    if opcode == OPEN:
        return 0, struct.pack("<Q2I", 0, 0, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<2QI", body)
        return 0, content[offset:offset + size]
    if opcode == STATFS:
        return 0, bytes(80)
    return (0 if opcode == RELEASE else -errno.ENOSYS), b""


def main(folder, path):
    with open(path, "rb") as file:
        content = file.read()
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"ringpipe-test", folder.encode(), b"fuse", 0, options) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    signals = []
    signal.signal(signal.SIGUSR1, lambda number, _: signals.append(number))
    print("mounted", flush=True)
    while True:
        request = os.read(device, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("<2I2Q", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        if signals:
            print("taken", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        error, rest = answer(opcode, node, request[40:], content)
        os.write(device, struct.pack("<IiQ", 16 + len(rest), error, unique) + rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
