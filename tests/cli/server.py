# SPDX-License-Identifier: MIT
"""A diagnostics server to test clients with: the test's handler decides the replies."""
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from port import socket_path, start_ticks

MAGIC = b"DOTNET_IPC_V1\0"
OK, ERROR = 0x00, 0xFF
UNKNOWN_COMMAND, FAIL, INVALID = 0x80131385, 0x80004005, 0x80070057


def message(kind, payload=b"", command_set=0xFF):
    # The size has 16 bits: a longer message ends with the connection.
    size = min(20 + len(payload), 0xffff)
    return MAGIC + struct.pack("<HBBH", size, command_set, kind, 0) + payload


def ok(payload=b""):
    return message(OK, payload)


def error(hresult, reason=None):
    return message(ERROR, struct.pack("<I", hresult) + (string(reason) if reason else b""))


def string(text):
    return struct.pack("<I", len(text.encode("utf-16-le")) // 2 + 1) + \
        text.encode("utf-16-le") + b"\0\0"


def process_info(version, command=0x08):
    """Return the payload of ProcessInfo3, 2 or 1."""
    payload = struct.pack("<Q", os.getpid()) + b"\x11" * 16
    payload += string("test server") + string("Linux") + string("x64")
    if command != 0x00:
        payload += string("test") + string(version)
    return struct.pack("<I", 1) + payload + string("linux-x64") if command == 0x08 else payload


def receive(connection, size, leaves_unread=False):
    if leaves_unread:
        return connection.recv(size, socket.MSG_PEEK | socket.MSG_WAITALL)
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the client went away")
        data += part
    return data


class Request:
    def __init__(self, connection, leaves_unread=False):
        header = receive(connection, 20)
        assert header[:14] == MAGIC, header
        size, self.set, self.id, reserved = struct.unpack("<HBBH", header[14:])
        assert reserved == 0
        self.payload = receive(connection, size - 20, leaves_unread)
        self.command = (self.set, self.id)


def peer_of(connection):
    return struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED,
                                                      12))[0]


def is_ours(pid):
    """Whether that process belongs to this test, which has a separate session, or has ended."""
    try:
        if os.getsid(pid) == os.getsid(0):
            return True
        while pid > 1 and pid != os.getpid():
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return True
    return pid > 1


class Server:
    """Listen in `directory` as this process; `handler(connection, request)` runs in a thread for
    each connection, which is closed afterwards. Received requests are in `requests`. If it leaves
    payloads unread, clients see a reset when the connection is closed."""

    def __init__(self, directory, handler, leaves_unread=False):
        self.leaves_unread = leaves_unread
        self.path = socket_path(directory, os.getpid())
        self.handler = handler
        self.requests = []
        self.failures = []
        self.stopped = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            # Commands of other tests search all folders for processes.
            if not is_ours(peer_of(connection)):
                return
            try:
                request = Request(connection, self.leaves_unread)
                self.requests.append(request)
                self.handler(connection, request)
            except OSError:
                pass
            except Exception as failure:  # reported to the test by check()
                self.failures.append(failure)

    def check(self):
        if self.failures:
            raise self.failures[0]

    def close(self):
        self.stopped.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
