# SPDX-License-Identifier: MIT
"""Runs the `ringpipe` command, from RINGPIPE, in a separate directory."""
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from server import Server, socket_path

TOOL = os.environ.get("RINGPIPE", "ringpipe")
STRICT = os.environ.get("STRICT", "strict")
VERSION = os.environ.get("TEST_NETTRACE_VERSION", "4")  # of the traces that sessions write
PATIENCE = 120  # seconds until a thing that must happen is given up


def run_tests():
    """Run the tests of the program. Exit with 77 if all were skipped, and print the reasons."""
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and result.testsRun <= len(result.skipped) > 0:
        print(*sorted({reason for _, reason in result.skipped}), sep="\n")
        sys.exit(77)
    sys.exit(not result.wasSuccessful())


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-cli-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, TMPDIR=self.directory, LC_ALL="C.UTF-8", TZ="UTC",
                                RINGPIPE_FORMAT=VERSION)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def write_versions(self, data):
        """Write a trace of version 6, and convert it to version 4. Return both paths."""
        paths = self.write("v6.nettrace", data), self.path("v4.nettrace")
        self.run_tool("convert", paths[0], "-q", "-f", "--format", "4", "-o", paths[1])
        return paths

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def serve(self, handler):
        fake = Server(self.directory, handler)
        self.addCleanup(fake.check)
        self.addCleanup(fake.close)
        return fake

    @staticmethod
    def in_version(arguments):
        """Return the arguments of a command that starts a session, with the version to test."""
        for words in (("collect",), ("flight", "start")):
            if arguments[:len(words)] == words and "--format" not in arguments and VERSION != "4":
                return [*words, "--format", VERSION, *arguments[len(words):]]
        return arguments

    def start(self, *arguments, tool=TOOL, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        arguments = self.in_version(arguments)
        process = subprocess.Popen([tool, *map(str, arguments)],
                                   env=self.environment, cwd=self.directory, **options)
        self.addCleanup(self.reap, process)
        return process

    def start_unread(self, *arguments, **options):
        """Start a command whose standard output is a pipe that nothing reads, and wait until it is
        full."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        process = self.start(*arguments, stdout=write, **options)
        self.wait_until(lambda: not select.select([], [write], [], 0)[1])
        return process

    def interrupt_twice(self, process):
        """Send both signals before the command sees the first one. Return what it reports."""
        self.freeze(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(PATIENCE), 130)
        return process.stderr.read().decode()

    @staticmethod
    def reap(process):
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def finish(self, process, status):
        out, err = process.communicate(timeout=PATIENCE)
        err = (err or b"").decode()
        self.assertEqual(process.returncode, status, err)
        return out.decode(), err

    def run_tool(self, *arguments, status=0, data=None):
        process = self.start(*arguments, stdin=subprocess.PIPE)
        out, err = process.communicate(data, timeout=PATIENCE)
        self.assertEqual(process.returncode, status, err.decode())
        return out.decode(), err.decode()

    def strict(self, path, *options):
        """Return the findings of the strict reader in a trace of a session."""
        self.assertEqual(self.read(path)[8:12] == bytes(4), VERSION == "6")
        return self.read_strictly(path, *options)

    def read_strictly(self, path, *options):
        """Return the findings of the strict reader, independent of the library, in a trace without
        a fault."""
        done = subprocess.run([STRICT, *options, self.path(path)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        return json.loads(done.stdout)

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it did not happen")
            select.select([], [], [], 0.01)

    @staticmethod
    def signals_of(process, kind):
        """Return a set of signals, as proc_pid_status(5) names it: a bit for each."""
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return int(re.search(kind + r":\s*(\w+)", status.read())[1], 16)

    def takes_signals(self, process):
        """Return whether the command reads signals instead of being ended by them."""
        return self.signals_of(process, "SigBlk") >> (signal.SIGINT - 1) & 1

    def send_and_wait(self, process, number):
        """Send a signal, and wait until the command has read it."""
        process.send_signal(number)
        self.wait_until(lambda: not self.signals_of(process, "ShdPnd") >> (number - 1) & 1)

    def freeze(self, process):
        """Stop the process: until SIGCONT none of its threads runs."""
        def is_stopped():
            for task in os.listdir(f"/proc/{process.pid}/task"):
                try:
                    with open(f"/proc/{process.pid}/task/{task}/stat", encoding="utf-8") as stat:
                        state = stat.read().rpartition(")")[2].split()[0]
                except (FileNotFoundError, ProcessLookupError):
                    return False  # it has ended since
                if state != "T":
                    return False
            return True

        process.send_signal(signal.SIGSTOP)
        self.wait_until(is_stopped)

    def wait_for_port(self, pid):
        self.wait_until(lambda: os.path.exists(socket_path(self.directory, pid)))


def run_in_namespace():
    """Run the tests of the program in a PID namespace, where no process of others is found."""
    unshare = ["unshare", "--pid", "--mount", "--mount-proc", "--fork"]
    if os.environ.get("INSIDE"):
        unittest.main()
    if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("needs the right to create a PID namespace")
        sys.exit(77)
    os.execvpe("unshare", [*unshare, sys.executable, *sys.argv], {**os.environ, "INSIDE": "1"})
