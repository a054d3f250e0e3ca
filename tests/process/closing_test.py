#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in programs that were not built for it and close descriptors of other code.

usage: closing_test.py LIBRARY SNATCHING [unittest arguments]
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = None
SNATCHING = None
PYTHON = "/usr/bin/python3"
# The library is preloaded, so Python 3.12 warns about fork(2) in a process with threads.
QUIET = "-Wignore::DeprecationWarning"

# Closes descriptors that it did not open, as daemons do, and reuses all their numbers immediately.
CLOSES = """
import os, socket, sys
os.closerange(3, 256)
kind, count = sys.argv[1], 40
if kind == "files":
    own = [os.open("own%d" % i, os.O_CREAT | os.O_RDWR) for i in range(count)]
else:
    pairs = [socket.socketpair() for _ in range(count // 2)]
    own = [end.fileno() for pair in pairs for end in pair]
before = [os.fstat(fd).st_ino for fd in own]
"""

# Waits until the trace has its header and no thread of the library is about to write. If the host
# opens a descriptor between a check and a write, that write goes to it (doc/architecture.md,
# Descriptors).
HAS_HEADER = """
import glob, os, time

def is_quiet():
    for task in glob.glob("/proc/self/task/*/stat"):
        with open(task) as stat:
            name, _, rest = stat.read().partition("(")[2].rpartition(")")
        if name.startswith("ringpipe") and rest.split()[0] != "S":
            return False
    return os.path.exists("trace") and os.path.getsize("trace") > 0

end = time.monotonic() + 60
while not is_quiet():
    assert time.monotonic() < end, "no head"
    time.sleep(0.01)
"""

CHECKS = """
assert [os.fstat(fd).st_ino for fd in own] == before, "a descriptor is gone"
if kind == "files":
    assert [os.fstat(fd).st_size for fd in own] == [0] * len(own), "a file was written to"
else:
    for fd in own:
        try:
            got = os.recv(fd, 1) if hasattr(os, "recv") else \\
                socket.socket(fileno=os.dup(fd)).recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        raise AssertionError("a socket was written to, or ended: %r" % got)
"""

# The same in a child: the child must not close again what its parent closed.
FORKS = """
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""

WAITS = """
import os, socket, sys, time

def close_all(order):
    for fd in range(3, 256) if order == "up" else range(255, 2, -1):
        try:
            os.close(fd)
        except OSError:
            pass

# The listening process answers. The earlier socket, in whose backlog a client could wait, does not.
def wait_for_port():
    key = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
    path = "dotnet-diagnostic-%d-%s-socket" % (os.getpid(), key)
    end = time.monotonic() + 60
    while True:
        assert time.monotonic() < end, "no process listens"
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(b"DOTNET_IPC_V1\\0" + bytes((20, 0, 4, 4, 0, 0)))
                if client.recv(14) == b"DOTNET_IPC_V1\\0":
                    return
        except (ConnectionError, FileNotFoundError):
            time.sleep(0.01)
"""

COMES_BACK = WAITS + """
wait_for_port()
for _ in range(6):
    close_all(sys.argv[1])
    wait_for_port()
"""

DAEMON = WAITS + """
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    close_all("up")
    wait_for_port()
"""

# The host replaces one descriptor of the library by its own, which must stay unchanged.
REPLACES = """
import os, select, socket, struct, sys, time

kind, by = sys.argv[1:]
with open("/proc/self/stat") as stat:
    PATH = "dotnet-diagnostic-%d-%s-socket" % (os.getpid(),
                                               stat.read().rpartition(")")[2].split()[19])

def message(group, number, payload=b""):
    return b"DOTNET_IPC_V1\\0" + struct.pack("<HBBH", 20 + len(payload), group, number,
                                             0) + payload

def text(string):
    return struct.pack("<I", len(string) + 1) + (string + "\\0").encode("utf-16-le")

def connect():
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect(PATH)
    return client

def ask(request, client=None):
    client = client or connect()
    client.sendall(request)
    reply = b""
    while len(reply) < 20 or len(reply) < struct.unpack_from("<H", reply, 14)[0]:
        piece = client.recv(struct.unpack_from("<H", reply, 14)[0] - len(reply)
                            if len(reply) >= 20 else 20 - len(reply))
        if not piece:
            raise ConnectionError("no reply")
        reply += piece
    assert reply[16:18] == b"\\xff\\0", reply
    return reply[20:]

def info():
    return ask(message(4, 4))

def collect():
    client = connect()
    return client, ask(message(2, 3, struct.pack("<IIBI", 16, 1, 0, 1) + struct.pack("<QI", 0, 5) +
                               text("Nobody") + text("")), client)

def stop(client, session):
    assert ask(message(2, 1, session)) == session
    while client.recv(65536):
        pass

def ours():
    links = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            links[int(fd)] = os.readlink("/proc/self/fd/" + fd)
        except FileNotFoundError:
            pass  # that of the list itself
    return links

def sockets(type, listens):
    found = []
    for fd, link in ours().items():
        if not link.startswith("socket:"):
            continue
        try:
            copy = os.dup(fd)
        except OSError:
            continue  # a connection, whose end the server has come to
        with socket.socket(fileno=copy) as one:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == type and \
               one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == listens:
                found.append(fd)
    return sorted(found)

before = set(ours())
client = session = None
if kind in ("stream", "copy"):
    client, session = collect()
elif kind == "client":
    client = connect()
    client.sendall(b"DOTNET")
    # It is taken before those that come later.
    info()
if kind == "epoll":
    number, = [fd for fd, link in ours().items() if "eventpoll" in link]
elif kind == "listener":
    number, = sockets(socket.SOCK_STREAM, 1)
elif kind in ("woken", "calling"):
    number = sockets(socket.SOCK_SEQPACKET, 0)[kind == "calling"]
else:
    new = set(sockets(socket.SOCK_STREAM, 0)) - before - {client.fileno()}
    number = sorted(new)[kind == "copy"]

far = None
if by == "file":
    mine = os.open("own", os.O_CREAT | os.O_RDWR)
elif by == "socket":
    near, far = socket.socketpair(type=socket.SOCK_STREAM)
    mine = near.detach()
else:
    # The host gets what it waits for, and no other thread takes it.
    near, far = socket.socketpair(type=socket.SOCK_STREAM)
    poll = select.epoll()
    poll.register(near, select.EPOLLIN | select.EPOLLONESHOT)
    far.send(b"x")
    mine = poll.fileno()
os.dup2(mine, number, False)
identity = os.fstat(number).st_ino, os.readlink("/proc/self/fd/%d" % number)

end = time.monotonic() + 60
while True:
    try:
        info()
        break
    except (ConnectionError, FileNotFoundError):
        assert time.monotonic() < end, "no process answers"
        time.sleep(0.01)
if kind == "copy":
    ask(message(2, 1, session))
    while client.recv(65536):
        pass
elif kind == "stream":
    stop(client, session)
elif kind == "client":
    assert client.recv(1) == b"", "it is served still"
# A call on another thread reports its end.
for _ in range(2):
    stop(*collect())
    info()

def check():
    now = os.fstat(number).st_ino, os.readlink("/proc/self/fd/%d" % number)
    assert now == identity, "the host's is gone"
    if by == "file":
        assert os.fstat(number).st_size == 0, "it was written to"
    elif by == "socket":
        try:
            assert far.recv(1, socket.MSG_DONTWAIT) is None, "it was written to, or ended"
        except BlockingIOError:
            pass
    else:
        assert poll.poll(0) == [(near.fileno(), select.EPOLLIN)], "its event was taken"
        poll.modify(near, select.EPOLLIN | select.EPOLLONESHOT)

check()
# In a child nothing of the host's is closed either.
child = os.fork()
if child == 0:
    try:
        check()
    except BaseException:
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "in the child"
if by == "epoll":
    poll.poll(0)
    poll.modify(near, select.EPOLLIN | select.EPOLLONESHOT)
    check()
print(len(sockets(socket.SOCK_STREAM, 1)), len(sockets(socket.SOCK_SEQPACKET, 0)),
      sum("eventpoll" in link for link in ours().values()) - 2 * (by == "epoll"))
"""


class Closing(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="rp-closing-")
        self.addCleanup(shutil.rmtree, self.directory)

    def run_program(self, text, *arguments, **variables):
        # The library would open descriptors for an LTTng daemon on this machine.
        environment = dict(os.environ, TMPDIR=self.directory, RINGPIPE_LTTNG="0",
                           **{"LD_PRELOAD": LIBRARY, **variables})
        done = subprocess.run([PYTHON, QUIET, "-c", text, *arguments], cwd=self.directory,
                              check=False, env=environment, stdin=subprocess.DEVNULL,
                              timeout=120, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def sizes(self):
        return {os.path.getsize(path) for path in glob.glob(self.directory + "/own*")}

    def test_a_preloaded_program_has_a_port_and_takes_it_away(self):
        done = self.run_program("import glob; print(len(glob.glob('dotnet-diagnostic-*')))")
        self.assertEqual(done.stdout, "1\n")
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_the_host_has_under_our_numbers_is_left_alone(self):
        for kind in ("files", "sockets"):
            done = self.run_program(CLOSES + FORKS + CHECKS, kind)
            self.assertEqual(done.stderr, "")
        self.assertEqual(self.sizes(), {0})

    def test_one_descriptor_that_the_host_replaced_is_its_own(self):
        for kind in ("epoll", "listener", "woken", "calling", "client", "stream", "copy"):
            for by in ("file", "socket", "epoll"):
                with self.subTest(kind=kind, by=by):
                    done = self.run_program(REPLACES, kind, by)
                    # The numbers are unchanged: one port, a socket pair, an epoll set.
                    self.assertEqual(done.stdout, "1 2 1\n")
                    self.assertEqual(done.stderr, "")
                    self.assertEqual(self.sizes() | {0}, {0})
                    self.assertLessEqual(set(os.listdir(self.directory)), {"own"})

    def test_the_port_comes_back_whenever_it_is_closed(self):
        for order in ("up", "down"):
            self.run_program(COMES_BACK, order)
            self.assertEqual(os.listdir(self.directory), [])

    def test_a_daemon_that_closes_all_has_a_port(self):
        self.run_program(DAEMON)
        self.assertEqual(os.listdir(self.directory), [])

    def test_the_port_comes_back_though_the_host_closes_what_is_being_opened(self):
        for call in ("epoll_create1", "socketpair", "socket", "bind", "listen"):
            for text, *arguments in (DAEMON,), (COMES_BACK, "up"):
                with self.subTest(call=call, arguments=arguments):
                    self.run_program(text, *arguments, LD_PRELOAD=SNATCHING + ":" + LIBRARY,
                                     SNATCH=call, SNATCH_TIMES="3")

    def test_a_session_whose_file_was_closed_ends_and_says_so(self):
        for kind in ("files", "sockets"):
            done = self.run_program(HAS_HEADER + CLOSES + FORKS + CHECKS, kind,
                                    RINGPIPE_CONFIG="*", RINGPIPE_OUTPUT="trace")
            self.assertIn("Bad file descriptor", done.stderr)
        self.assertEqual(self.sizes(), {0})


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        print("no " + PYTHON)
        sys.exit(77)
    LIBRARY = os.path.abspath(sys.argv.pop(1))
    SNATCHING = os.path.abspath(sys.argv.pop(1))
    unittest.main()
