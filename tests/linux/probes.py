# SPDX-License-Identifier: MIT
"""Runs the host of the probe tests and tracers, and computes how its events appear to tracers."""
import atexit
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from eventually import PATIENCE_S, eventually  # noqa: E402

SKIPPED = 77
TRACEFS = "/sys/kernel/tracing"
ENVIRONMENT = dict(os.environ, RINGPIPE_DIAGNOSTICS="0", RINGPIPE_LTTNG="0",
                   LC_ALL="C.UTF-8")

# The sizes of each event's words; negative: signed.
FEW = [-1, 1, -2, 2, -4, 4]
NUMBERS = [1, 1, -1, 1, -2, 2, -4, 4, -8, 8, 4, 8, 8, -8]
REALS = [4, 8, 1, 1, 8, -8, -8, 8, -1, -2, -4, 1]


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)


def numbers_are_the_kernels():
    """Whether BPF programs see a process's own pid: not in another pid namespace."""
    return os.stat("/proc/self/ns/pid").st_ino == 0xeffffffc  # PROC_PID_INIT_INO


def need(*commands):
    """Skip the test if tracing is not possible."""
    if os.geteuid() != 0:
        skip("probes of the kernel need root")
    for command in commands:
        if not shutil.which(command):
            skip(f"no {command}")
    if not os.path.exists(TRACEFS + "/uprobe_events"):
        done = subprocess.run(["mount", "-t", "tracefs", "nodev", TRACEFS], check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0 or not os.path.exists(TRACEFS + "/uprobe_events"):
            skip("no tracefs with uprobes: " + done.stderr.strip())


def copies(host, *libraries):
    """Copy the files for this test alone, into one folder: a probe in a file is in every process
    that uses the file, and enables the event in all of them."""
    folder = tempfile.mkdtemp(prefix="rp-probes-")
    atexit.register(shutil.rmtree, folder)
    # Before the program's own path, and before Meson's.
    ENVIRONMENT["LD_LIBRARY_PATH"] = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    made = [shutil.copy(host, folder)]
    for library in libraries:
        made.append(shutil.copy(library, os.path.join(folder, soname(library))))
    return made


def soname(library):
    said = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                          text=True).stdout
    return re.search(r"\(SONAME\).*\[(.*)\]", said).group(1)


class Host:
    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**ENVIRONMENT, **environment})
        self.pid = self.process.pid

    def say(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def fire(self, event, *words):
        answer = self.say(event, *("%x" % (word & (1 << 64) - 1) for word in words))
        assert answer == "0", answer

    def enabled(self, *who):
        """Return the enabled events; in the child with `who` "child"."""
        return set(self.say(*who, "enabled").rstrip(".").split())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(PATIENCE_S)


class Tracer:
    """A program that attaches, prints lines, and ends when it is interrupted."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **options)
        self.lines, self.errors = [], []
        self.readers = [threading.Thread(target=lambda into=into, file=file: into.extend(
            iter(file.readline, "")), daemon=True)
            for into, file in ((self.lines, self.process.stdout),
                               (self.errors, self.process.stderr))]
        for reader in self.readers:
            reader.start()
        atexit.register(self.stop)

    def reported(self, prefix, count):
        """Wait for `count` lines that begin with `prefix`, and return the rest of each."""
        def found():
            ended = self.process.poll() is not None
            lines = [line[len(prefix):].rstrip("\n") for line in list(self.lines)
                     if line.startswith(prefix) and line.endswith("\n")]
            if ended and len(lines) < count:
                raise AssertionError("the tracer ended")
            return lines if len(lines) >= count else None
        try:
            return eventually(found, f"{count} lines '{prefix}'")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.lines} {self.errors}") from None

    def stop(self):
        atexit.unregister(self.stop)
        def ended():
            # Repeatedly: bpftrace 0.17 loses a signal that arrives outside its epoll_wait().
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
            return self.process.poll() is not None
        try:
            eventually(ended, "the tracer's end")
        finally:
            self.process.kill()
            self.process.wait()
            for reader in self.readers:
                reader.join()
            self.process.stdout.close()
            self.process.stderr.close()


def random_word(size):
    """Return a random value of that size, often at the limits of its range."""
    bits = 8 * abs(size)
    low = -(1 << bits - 1) if size < 0 else 0
    high = low + (1 << bits) - 1
    return random.choice([low, high, random.randint(low, high), random.randint(low, high)])


def random_words(sizes, truths=()):
    """Return words for an event; those with an index in `truths` are booleans."""
    return [random.randint(0, 1) if place in truths else random_word(size)
            for place, size in enumerate(sizes)]


def unsigned(word):
    return word & (1 << 64) - 1


def narrow(word, size):
    """Return a word as shown by a tool without signed numbers."""
    return word & (1 << 8 * abs(size)) - 1


class References:
    """Values for the event `references`; some of them NULL."""

    def __init__(self):
        letters = "abcXYZ 0189_.-/ äß€"
        self.text = "".join(random.choices(letters, k=random.randint(1, 20)))
        self.text16 = "".join(random.choices(letters, k=3))
        self.guid = random.randbytes(16)
        self.blob = random.randbytes(random.randint(1, 8))
        self.list = [random_word(4) for _ in range(random.randint(1, 5))]
        self.point = (random_word(-4), random_word(2))
        self.points = [(random_word(-4), random_word(2)) for _ in range(random.randint(1, 3))]

    def words(self):
        """Return them in the host's input format."""
        point = struct.pack("<iH", *self.point)
        points = b"".join(struct.pack("<iH", *one) for one in self.points)
        return [part.hex() for part in (
            self.text.encode() + b"\0", self.text16.encode("utf-16-le") + b"\0\0", self.guid,
            self.blob, struct.pack(f"<{len(self.list)}I", *self.list), point, points)]
