# SPDX-License-Identifier: MIT
"""Tools of same_test.py: events as text, and programs to run."""
import collections
import os
import signal
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from eventually import PATIENCE_S, eventually  # noqa: E402

Event = collections.namedtuple("Event", "name fields")


def parse(line):
    """Parse an event in the host's format: values are text, [] contains others."""
    name, rest = line.rstrip("\n").split(" ", 1)
    fields, depth, start = {}, 0, 0
    for place, letter in enumerate(rest + " "):
        depth += (letter == "[") - (letter == "]")
        if letter == " " and depth == 0:
            field, value = rest[start:place].split("=", 1)
            fields[field] = value
            start = place + 1
    return Event(name, fields)


def by_writer(events):
    writers = collections.defaultdict(list)
    for event in events:
        writers[int(event.fields["writer"])].append(event)
    return dict(writers)


def points(pairs):
    return " ".join(f"[x={x} y={y}]" for x, y in pairs)


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def words_bytes(words, size):
    """Return the first bytes of data that was read as words of 64 bits."""
    return b"".join(struct.pack("<Q", word & (1 << 64) - 1) for word in words)[:size]


def text16_hex(data):
    """Convert UTF-16 up to its NUL to UTF-8 in hex."""
    end = next(i for i in range(0, len(data), 2) if data[i:i + 2] == b"\0\0")
    return data[:end].decode("utf-16-le").encode().hex()


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Program:
    """A tracer that prints until it is interrupted."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **options)
        self.out, self.err = [], []
        self.threads = [threading.Thread(target=lambda f=f, to=to: to.extend(iter(f.readline, b"")),
                                         daemon=True)
                        for f, to in ((self.process.stdout, self.out),
                                      (self.process.stderr, self.err))]
        for thread in self.threads:
            thread.start()

    def said(self, text):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.process.args} ended: {b''.join(self.out + self.err)}")
        return any(text in line for line in self.out + self.err)

    def interrupt(self):
        """Interrupt again, but not soon: bpftrace 0.17 loses a signal that arrives outside its
        epoll_wait(), and drops unread data at the next signal."""
        for _ in range(6):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(PATIENCE_S / 6)
                return
            except subprocess.TimeoutExpired:
                pass
        raise AssertionError(f"{self.process.args} does not end")

    def stop(self):
        try:
            self.interrupt()
        finally:
            self.process.kill()
            for thread in self.threads:
                thread.join()
            self.process.stdout.close()
            self.process.stderr.close()
        return b"".join(self.out)
