#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe collect -- COMMAND`."""
import fcntl
import functools
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import types
import unittest

import nettrace
from tool import PATIENCE, TOOL, ToolTest

RUNTIME = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runtime.py")
# Writes a line for each SIGINT, up to the end of input. A shell is unsuitable: if it is interrupted
# right before its read, it first waits for a line.
INTERRUPTED = """
import os, select, signal
signals, to = os.pipe()
os.set_blocking(to, False)
signal.set_wakeup_fd(to)
signal.signal(signal.SIGINT, lambda *_: None)
open("ready", "w").close()
end = False
while not end:
    ready = select.select([0, signals], [], [])[0]
    if signals in ready:
        with open("ints", "a") as ints:
            ints.write("int\\n" * len(os.read(signals, 100)))
    end = ready == [0] and not os.read(0, 100)
"""
# Writes a line for each SIGHUP.
HUNG_UP = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
open("ready", "w").close()
while signal.sigwait({signal.SIGHUP}):
    with open("hups", "a") as hups:
        hups.write("hup\\n")
"""


def has_ended(pid):
    """Whether the process does not exist, or is a zombie, whose parent can wait for it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Child(ToolTest):
    """Commands after "--"; a script replaces a program that uses the library."""

    def command(self, script="true", *more):
        self.write("sample", nettrace.sample())
        return [sys.executable, RUNTIME, "sample", script, *more]

    def test_what_the_command_prints_is_not_in_a_trace_on_standard_output(self):
        done = subprocess.run([TOOL, "collect", "-q", "-o", "-", "--",
                               *self.command("echo printed; echo reported >&2")],
                              env=self.environment, cwd=self.directory, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE, check=True)
        self.assertEqual(done.stdout, self.read("sample"))
        self.assertEqual(done.stderr, b"printed\nreported\n")

    def test_the_trace_is_asked_for_over_a_port(self):
        self.run_tool("collect", "--providers", "Shop:1:4", "--buffer", "17", "-o",
                      "t{pid}.nettrace", "--", *self.command("echo $PPID >pid"))
        name = f"t{int(self.read('pid'))}.nettrace"
        self.assertEqual(self.read(name), self.read("sample"))
        self.assertEqual(os.stat(self.path(name)).st_mode & 0o7777, 0o600)
        request = self.read("request")
        self.assertEqual(request[:4], struct.pack("<I", 17))
        self.assertIn(struct.pack("<QI", 1, 4), request)
        self.assertIn("Shop\0".encode("utf-16-le"), request)
        port = self.read("port").decode()
        directory = os.path.dirname(port)
        self.assertEqual(os.path.dirname(directory), os.path.realpath(self.directory))
        self.assertFalse(os.path.exists(directory))

    def test_the_status_is_the_commands(self):
        for script, status in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)]:
            with self.subTest(script=script):
                self.run_tool("collect", "-f", "-o", "t", "--", *self.command(script),
                              status=status)

    def test_no_trace_is_a_failure(self):
        err = self.run_tool("collect", "-o", "t", "--", "true", status=1)[1]
        self.assertIn("true was not traced", err)
        self.assertFalse(os.path.exists(self.path("t")))

    def test_a_cut_trace_is_a_failure(self):
        err = self.run_tool("collect", "-o", "t", "--", *self.command("true", "cut"), status=1)[1]
        self.assertIn("stops before its end", err)

    def test_a_command_that_is_not_there_is_reported(self):
        err = self.run_tool("collect", "-o", "t", "--", "./not-there", status=1)[1]
        self.assertIn("cannot start ./not-there: No such file", err)
        self.assertEqual(os.listdir(self.directory), [])

    def test_existing_files_are_kept(self):
        self.write("t", b"precious")
        err = self.run_tool("collect", "-o", "t", "--", "touch", "ran", status=1)[1]
        self.assertIn("exists already", err)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_a_file_that_cannot_be_written_does_not_keep_the_command_from_running(self):
        err = self.run_tool("collect", "-o", "no/such/folder/t", "--",
                            *self.command("touch ran"), status=1)[1]
        self.assertIn("cannot write", err)
        self.assertTrue(os.path.exists(self.path("ran")))

    def test_a_command_that_refuses_to_be_resumed_says_why(self):
        err = self.run_tool("collect", "-o", "t", "--", *self.command("exit 3", "refusing"),
                            status=3)[1]
        self.assertRegex(err, r"cannot resume process \d+: not now")
        self.assertEqual(self.read("t"), self.read("sample"))

    def test_the_duration_ends_the_trace_and_not_the_command(self):
        os.mkfifo(self.path("fifo"))
        process = self.start("collect", "-d", "1s", "-o", "t", "--",
                             *self.command("read -r line <fifo; exit 5"))
        self.wait_until(lambda: os.path.exists(self.path("t")) and
                        self.read("t") == self.read("sample"))
        self.assertIsNone(process.poll())
        with open(self.path("fifo"), "w", encoding="utf-8") as fifo:
            fifo.write("\n")
        self.assertIn("3 events", self.finish(process, 5)[1])

    def test_what_the_command_starts_itself_is_not_held_up(self):
        again = f"exec {sys.executable} {RUNTIME} sample 'touch second'"
        self.run_tool("collect", "-o", "t", "--", *self.command(f"cd .; {again}"))
        self.assertTrue(os.path.exists(self.path("second")))
        self.assertEqual(self.read("t"), self.read("sample"))

    def test_another_process_that_connects_first_is_rejected(self):
        os.mkfifo(self.path("fifo"))
        command = self.command()
        process = self.start("collect", "-o", "t", "--", "sh", "-c",
                             'echo "$DOTNET_DiagnosticPorts" >where; read -r line <fifo; '
                             'exec "$@"', "sh", *command)
        self.wait_until(lambda: os.path.exists(self.path("where")) and self.read("where"))
        path = self.read("where").decode().rstrip("\n")
        for advertise in (b"", b"ADVR_V1\0" + struct.pack("<QQQH", 1, 2, os.getpid(), 0)):
            with socket.socket(socket.AF_UNIX) as other:
                other.settimeout(PATIENCE)
                other.connect(path)
                try:
                    other.sendall(advertise)
                    self.assertEqual(other.recv(1), b"")
                except (BrokenPipeError, ConnectionResetError):
                    pass
        with open(self.path("fifo"), "w", encoding="utf-8") as fifo:
            fifo.write("\n")
        self.assertIn("3 events", self.finish(process, 0)[1])
        self.assertEqual(self.read("t"), self.read("sample"))

    def test_other_users_cannot_read_the_ports_directory(self):
        self.run_tool("collect", "-o", "t", "--", *self.command(
            'stat -c %a "${DOTNET_DiagnosticPorts%/*}" "$DOTNET_DiagnosticPorts" >modes'))
        root = os.geteuid() == 0
        self.assertEqual(self.read("modes").split(),
                         [b"711", b"666"] if root else [b"700", b"600"])

    def test_what_outlives_the_command_is_traced(self):
        os.mkfifo(self.path("fifo"))
        command = self.command("echo >fifo")
        self.run_tool("collect", "-o", "t", "--", "sh", "-c",
                      '(setsid "$@" &); read -r line <fifo; exit 3', "sh", *command, status=3)
        self.assertEqual(self.read("t"), self.read("sample"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can change its user")
    def test_a_command_that_becomes_another_user_is_traced(self):
        os.chmod(self.directory, 0o777)
        command = self.command()
        os.chmod(self.path("sample"), 0o644)  # independent of the umask
        self.environment["RUNTIME_UID"] = "65534"
        self.run_tool("collect", "-o", "t", "--", *command)
        self.assertEqual(os.stat(self.path("request")).st_uid, 65534)
        self.assertEqual(self.read("t"), self.read("sample"))

    def test_signals_reach_the_command(self):
        os.mkfifo(self.path("fifo"))
        process = self.start("collect", "-o", "t", "--", *self.command(
            "trap 'exit 5' INT; touch ready; while :; do read -r line <fifo; done"))
        self.wait_until(lambda: os.path.exists(self.path("ready")))
        process.send_signal(signal.SIGINT)

        def ended():
            # The shell runs its trap between two reads, and may have run it already.
            try:
                fifo = os.open(self.path("fifo"), os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                return process.poll() is not None
            try:
                os.write(fifo, b"\n")
            except OSError:
                pass
            os.close(fifo)
            return process.poll() is not None

        self.wait_until(ended)
        self.finish(process, 5)

    def test_each_of_two_equal_signals_reaches_the_command(self):
        self.write("hung_up.py", HUNG_UP.encode())
        process = self.start("collect", "-o", "t", "--",
                             *self.command(f"exec {sys.executable} hung_up.py"))
        self.wait_until(lambda: os.path.exists(self.path("ready")))
        for count in (1, 2, 3):
            process.send_signal(signal.SIGHUP)
            self.wait_until(lambda: os.path.exists(self.path("hups")) and
                            len(self.read("hups").split()) == count)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 256 - signal.SIGTERM)  # the status of runtime.py

    def test_a_signal_that_timeout_repeats_is_one_request(self):
        """One process sends the signal to the command and to its group, as timeout(1) does."""
        os.mkfifo(self.path("fifo"))
        os.mkfifo(self.path("hold"))
        command = self.command("echo $PPID >fifo; read -r line <hold")
        process = self.start("collect", "-o", "t", "--", "sh", "-c",
                             '(setsid "$@" &); read -r line <fifo; echo "$$ $line" >pids', "sh",
                             *command)

        def taken():
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                pending = re.search(r"ShdPnd:\s*(\w+)", status.read())[1]
            return not int(pending, 16) >> (signal.SIGTERM - 1) & 1

        self.wait_until(lambda: os.path.exists(self.path("pids")) and
                        self.read("pids").endswith(b"\n"))
        shell, pid = map(int, self.read("pids").split())
        self.wait_until(lambda: not os.path.exists(f"/proc/{shell}"))
        # Only then may the script end.
        self.addCleanup(lambda: os.close(os.open(self.path("hold"), os.O_RDWR)))
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        self.freeze(types.SimpleNamespace(pid=pid, send_signal=functools.partial(os.kill, pid)))
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            self.wait_until(taken)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(self.read("t"), self.read("sample"))

    def record_unread(self, script):
        """Record a runtime whose script writes its parent and itself into `pids`, while nothing
        reads the trace. Return the recorder and these ids."""
        command = self.command(script)
        self.write("sample", nettrace.sample(orders=200))  # more than the pipe takes
        process = self.start_unread("collect", "-o", "-", "--", *command)
        self.wait_until(lambda: os.path.exists(self.path("pids")) and
                        self.read("pids").endswith(b"\n"))
        return process, *map(int, self.read("pids").split())

    def finish_unread(self, process):
        self.assertEqual(process.wait(PATIENCE), 1)
        self.assertIn("has stopped reading", process.stderr.read().decode())

    def test_signals_reach_the_command_also_if_nothing_reads_the_trace(self):
        process, pid, _ = self.record_unread("echo $PPID $$ >pids; exec tail -f /dev/null")
        process.send_signal(signal.SIGINT)
        self.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.finish_unread(process)

    def test_a_signal_that_is_read_with_the_end_of_the_command_stops_the_recording(self):
        process, pid, script = self.record_unread("echo $PPID $$ >pids; exec tail -f /dev/null")
        self.freeze(process)
        for each in pid, script:
            os.kill(each, signal.SIGKILL)
            self.wait_until(lambda: has_ended(each))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        self.finish_unread(process)

    def test_two_signals_that_are_read_with_the_end_of_the_command_keep_its_trace(self):
        command = self.command("echo $PPID $$ >pids; exec tail -f /dev/null")
        self.write("sample", nettrace.sample(orders=200))  # more than the pipe takes
        process = self.start("collect", "-o", "-", "--", *command)
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        self.wait_until(lambda: os.path.exists(self.path("pids")) and
                        self.read("pids").endswith(b"\n"))
        self.freeze(process)
        for each in map(int, self.read("pids").split()):
            os.kill(each, signal.SIGKILL)
            self.wait_until(functools.partial(has_ended, each))
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGCONT:
            process.send_signal(number)
        trace, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)
        self.assertEqual(trace, self.read("sample")[:-1])

    def test_the_end_of_an_orphan_stops_no_recording_that_nothing_reads(self):
        process, pid, orphan = self.record_unread("tail -f /dev/null & echo $PPID $! >pids; "
                                                  "exec tail -f /dev/null")
        process.send_signal(signal.SIGINT)
        self.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        os.kill(orphan, signal.SIGKILL)
        # The recorder collects it, so it is no zombie.
        self.wait_until(lambda: not os.path.exists(f"/proc/{orphan}"))
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.finish_unread(process)

    def test_ctrl_c_on_a_terminal_reaches_the_command_once(self):
        # The runtime and its script are both in the foreground: only the script may count signals.
        self.write("interrupted.py", INTERRUPTED.encode())
        command = self.command(f"exec {sys.executable} interrupted.py")
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(TOOL, [TOOL, "collect", "-q", "-o", "t", "--", *command],
                      dict(self.environment, RUNTIME_KEEPS_SIGNALS="1"))
        self.wait_until(lambda: os.path.exists(self.path("ready")))
        for count in (1, 2):
            os.write(terminal, b"\x03")
            self.wait_until(lambda: os.path.exists(self.path("ints")) and
                            len(self.read("ints").split()) >= count)
        os.write(terminal, b"\x04")  # end of input
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        said = os.read(terminal, 4096)
        os.close(terminal)
        self.assertEqual(status, 0, said)
        self.assertEqual(self.read("ints"), b"int\n" * 2)

    def test_its_output_is_left_alone(self):
        out, err = self.run_tool("collect", "-o", "t", "--", *self.command("echo hello"))
        self.assertEqual(out, "hello\n")
        self.assertIn("3 events", err)


if __name__ == "__main__":
    unittest.main()
