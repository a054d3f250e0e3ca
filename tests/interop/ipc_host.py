# SPDX-License-Identifier: MIT
"""Runs a program to trace, and builds the messages for its diagnostics socket."""
import glob
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from eventually import PATIENCE_S as PATIENCE, eventually
from port import socket_path, start_ticks

MAGIC = b"DOTNET_IPC_V1\0"
OK = 0
FAIL = 0x80004005
INVALID_ARGUMENT = 0x80070057
BAD_ENCODING = 0x80131384
UNKNOWN_COMMAND = 0x80131385
UNKNOWN_MAGIC = 0x80131386
INVALID_OPERATION = 0x80131509
NOT_SUPPORTED = 0x80131515


def message(command_set, command, payload=b"", size=None, magic=MAGIC):
    size = 20 + len(payload) if size is None else size
    return magic + struct.pack("<HBBH", size, command_set, command, 0) + payload


def string(text):
    return struct.pack("<I", len(text.encode("utf-16-le")) // 2 + 1) + \
        (text + "\0").encode("utf-16-le")


def provider(name, keywords=0xffffffffffffffff, level=5, arguments=""):
    return struct.pack("<QI", keywords, level) + string(name) + string(arguments)


def provider_with_filter(name):
    """Build a provider for CollectTracing5, with all events."""
    return provider(name) + struct.pack("<BI", 0, 0)


def collect(*providers, mb=16):
    return message(0x02, 0x03, struct.pack("<IIBI", mb, 1, 0, len(providers)) +
                   b"".join(providers))


def collect_with_stacks(*providers, rundown):
    return message(0x02, 0x04, struct.pack("<IIBBI", 16, 1, rundown, 1, len(providers)) +
                   b"".join(providers))


def stop(session):
    return message(0x02, 0x01, struct.pack("<Q", session))


def receive(connection, size):
    """Read exactly size bytes, or fewer at the end of the connection."""
    taken = b""
    while len(taken) < size:
        try:
            piece = connection.recv(size - len(taken))
        except ConnectionResetError:
            break
        if not piece:
            break
        taken += piece
    return taken


def reply_of(connection):
    """Return (HRESULT, payload) of one reply; None if the connection ended without one."""
    header = receive(connection, 20)
    if not header:
        return None
    assert header[:14] == MAGIC, header
    size, command_set, command, _ = struct.unpack("<HBBH", header[14:])
    assert command_set == 0xff, header
    # The size field has 16 bits: a longer reply has the maximum there and ends with the connection.
    payload = receive(connection, size - 20 if size < 0xffff else 1 << 30)
    assert len(payload) >= size - 20, (size, payload)
    if command == 0xff:
        return struct.unpack("<I", payload)[0], b""
    assert command == 0x00, header
    return OK, payload


class Reader:
    def __init__(self, payload):
        self.payload = payload

    def take(self, size):
        assert size <= len(self.payload), "the payload is too short"
        taken, self.payload = self.payload[:size], self.payload[size:]
        return taken

    def number(self, letter):
        return struct.unpack("<" + letter, self.take(struct.calcsize("<" + letter)))[0]

    def string(self):
        units = self.take(2 * self.number("I")).decode("utf-16-le")
        assert units[-1] == "\0", units
        return units[:-1]


class Tool:
    """Listens on a port to which hosts connect, like dotnet-trace."""

    def __init__(self, path, backlog=10):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(PATIENCE)
        self.listener.bind(path)
        self.listener.listen(backlog)

    def accept(self):
        """Return the next connection and its advertisement: (connection, cookie, pid)."""
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE)
        advertise = receive(connection, 34)
        assert len(advertise) == 34 and advertise[:8] == b"ADVR_V1\0", advertise
        assert advertise[32:] == b"\0\0", advertise
        return connection, advertise[8:24], struct.unpack("<Q", advertise[24:32])[0]

    def ask(self, request):
        connection = self.accept()[0]
        with connection:
            connection.sendall(request)
            reply = reply_of(connection)
            assert receive(connection, 1) == b"", "the host goes on after its reply"
            return reply

    def close(self):
        self.listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


class Host:
    """The program under test, with a separate directory for its socket."""

    def __init__(self, program, prefix=(), arguments=(), preexec=None, directory=None,
                 directory_mode=0o700, owner=None, waits=False, settings=None):
        """With `waits`, its start is suspended: it prints its pid later."""
        self.directory = directory or tempfile.mkdtemp(prefix="rp-ipc-")
        os.chmod(self.directory, directory_mode)
        if owner is not None:
            os.chown(self.directory, owner, owner)
        environment = dict(os.environ, TMPDIR=self.directory, **(settings or {}))
        self.process = subprocess.Popen([*prefix, program, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment,
                                        preexec_fn=preexec, close_fds=preexec is None)
        self.pid = self.process.pid if waits else int(self.process.stdout.readline())

    def sockets(self):
        return glob.glob(self.directory + "/dotnet-diagnostic-*")

    def path(self):
        return eventually(self.sockets, "a socket in TMPDIR")[0]

    def connect(self):
        path = self.path()
        deadline = time.monotonic() + PATIENCE
        while True:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(PATIENCE)
            try:
                connection.connect(path)
                return connection
            except (ConnectionRefusedError, FileNotFoundError, BlockingIOError):
                # Refused between bind and listen, while a stale file is replaced, or with a full
                # backlog.
                connection.close()
                if time.monotonic() > deadline:
                    raise

    def send(self, request):
        connection = self.connect()
        try:
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was read
        return connection

    def ask(self, request):
        with self.send(request) as connection:
            reply = reply_of(connection)
            if reply is not None:
                assert receive(connection, 1) == b"", "the server goes on after its reply"
            return reply

    def collect(self, *providers, **options):
        """Return a stream after its reply, and the session's id."""
        connection = self.send(collect(*providers, **options))
        hresult, payload = reply_of(connection)
        assert hresult == OK, hex(hresult)
        return connection, struct.unpack("<Q", payload)[0]

    def sessions(self):
        """Return the rows of the private listing whose provider is enabled."""
        with self.send(message(0x52, 0x00)) as connection:
            hresult, payload = reply_of(connection)
            assert hresult == OK, hex(hresult)
            # The reply may be longer than its size field can say, and ends with the connection.
            while piece := connection.recv(65536):
                payload += piece
        reader, rows = Reader(payload), []
        for _ in range(reader.number("I")):
            rows.append({"provider": reader.string(), "name": reader.string(),
                         "id": reader.number("Q"), "keywords": reader.number("Q"),
                         "level": reader.number("I"), "events": reader.number("I"),
                         "filter": reader.string()})
        # Kernel tracers, which other users of this machine may have attached to the library.
        for _ in range(reader.number("I")):
            reader.string(), reader.string(), reader.number("I")
        # Events that exporters lost.
        for _ in range(reader.number("I")):
            reader.string(), reader.string(), reader.number("Q")
        assert reader.payload == b"", "bytes behind the last row"
        return [row for row in rows if row["id"]]

    def stats(self, session):
        hresult, payload = self.ask(message(0x52, 0x01, struct.pack("<Q", session)))
        assert hresult == OK, hex(hresult)
        reader = Reader(payload)
        stats = {"delivered": reader.number("Q"), "lost": reader.number("Q"),
                 "bytes": reader.number("Q")}
        stats["reasons"] = [reader.number("Q") for _ in range(reader.number("I"))]
        stats["error"] = reader.number("i")
        assert reader.payload == b"", "bytes behind the figures"
        return stats

    def thread(self):
        """Return the folder of the server's thread in /proc."""
        for task in glob.glob("/proc/%d/task/*" % self.pid):
            with open(task + "/comm") as comm:
                if comm.read() == "ringpipe-diag\n":
                    return task
        raise AssertionError("no thread ringpipe-diag")

    def freeze(self):
        """Stop the process: until go_on(), none of its threads runs."""
        self.process.send_signal(signal.SIGSTOP)
        eventually(lambda: all(state_of(task) == "T"
                               for task in glob.glob("/proc/%d/task/*" % self.pid)), "a stop")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def end(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        shutil.rmtree(self.directory)


def state_of(task):
    """Return the letter of a thread's state."""
    with open(task + "/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def is_open(connection):
    """Whether the peer has neither answered nor closed so far."""
    return not select.select([connection], [], [], 0)[0]
