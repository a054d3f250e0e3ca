# SPDX-License-Identifier: MIT
"""
Serves a file system of one file, whose reads take milliseconds, by the protocol of /dev/fuse.
Source: include/uapi/linux/fuse.h of the kernel, version 7.31.
"""
import ctypes
import errno
import os
import random
import struct
import threading
import time

NAME = "slow.data"
FILE_BYTES = 64 << 20
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, FORGET_MANY = \
    1, 2, 3, 14, 15, 18, 25, 26, 36, 42
ROOT, FILE = 1, 2	# ids of nodes
DIRECT_IO = 1		# no page cache: each read(2) is a request
NOSUID_NODEV, DETACH = 6, 2
VALID_S = 3600


def attributes(node):
    mode, size = (0o40755, 0) if node == ROOT else (0o100444, FILE_BYTES)
    return struct.pack("<6Q10I", node, size, size >> 9, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class SlowFiles:
    """Mounts the file system in a folder. It raises OSError where that is impossible."""

    def __init__(self, folder, delays_s=(0.002, 0.005)):
        self.folder = folder
        self.path = os.path.join(folder, NAME)
        self.delays_s = delays_s
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self.libc.mount(b"slow", os.fsencode(folder), b"fuse", NOSUID_NODEV, options.encode()):
            error = ctypes.get_errno()
            os.close(self.device)
            raise OSError(error, os.strerror(error))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self):
        self.libc.umount2(os.fsencode(self.folder), DETACH)
        self.thread.join()
        os.close(self.device)

    def serve(self):
        chance = random.Random(1)
        while True:
            try:
                request = os.read(self.device, 1 << 20)
            except InterruptedError:
                continue
            except OSError:	# the file system was unmounted
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if opcode == READ:
                time.sleep(chance.uniform(*self.delays_s))
            if opcode in (FORGET, INTERRUPT, FORGET_MANY):
                continue
            error, answer = self.answer(opcode, node, request[40:])
            os.write(self.device, struct.pack("<IiQ", 16 + len(answer), -error, unique) + answer)

    @staticmethod
    def answer(opcode, node, body):
        """Return (errno, the answer to a request)."""
        if opcode == INIT:
            return 0, struct.pack("<4IHHIIHHI28x", 7, 31, 0, 0, 16, 12, 1 << 16, 1, 0, 0, 0)
        if opcode == LOOKUP and body.rstrip(b"\0") == NAME.encode():
            return 0, struct.pack("<4QII", FILE, 0, VALID_S, VALID_S, 0, 0) + attributes(FILE)
        if opcode == LOOKUP:
            return errno.ENOENT, b""
        if opcode == GETATTR:
            return 0, struct.pack("<QII", VALID_S, 0, 0) + attributes(node)
        if opcode == OPEN:
            return 0, struct.pack("<QIi", 1, DIRECT_IO, 0)
        if opcode == READ:
            return 0, bytes(struct.unpack_from("<QQI", body)[2])
        return (0 if opcode in (RELEASE, FLUSH) else errno.ENOSYS), b""
