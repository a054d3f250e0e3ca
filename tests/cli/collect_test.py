#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe collect`, with correct and faulty servers."""
import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import threading
import unittest

import nettrace
import server
from server import Server, UNKNOWN_COMMAND, error, ok, string
from tool import PATIENCE, TOOL, ToolTest

COLLECT4, COLLECT3, COLLECT2, STOP = (2, 5), (2, 4), (2, 3), (2, 1)
RUNDOWN = 0x80020139  # the .NET runtime's default keywords for it
STATS, OWN = (0x52, 1), (0x52, 11)
SESSION = 0x1122334455667788
# A filter that adds nothing, and that Ctrl-C does not end.
FILTER = b"""#!/bin/sh
trap '' INT TERM HUP PIPE
printf r >&3
cat 2>/dev/null && printf d >&3
"""


class Runtime:
    """A handler that records: sends `before` immediately and `after` at the stop request."""

    def __init__(self, before, after=b"", versions=(COLLECT4,), stats=None):
        self.before, self.after, self.versions, self.stats = before, after, versions, stats
        self.stop = threading.Event()
        self.sent = threading.Event()
        self.hold = None  # called with the stream before the stop

    def __call__(self, connection, request):
        if request.command in self.versions:
            connection.sendall(ok(struct.pack("<Q", SESSION)) + self.before)
            self.sent.set()
            if self.hold:
                self.hold(connection)
            self.stop.wait(PATIENCE)
            connection.sendall(self.after)
        elif request.command == STOP:
            assert request.payload == struct.pack("<Q", SESSION), request.payload
            self.stop.set()
            connection.sendall(ok(request.payload))
        elif request.command == STATS and self.stats:
            connection.sendall(ok(self.stats))
        else:
            connection.sendall(error(UNKNOWN_COMMAND))


class Collect(ToolTest):
    def collect(self, *arguments):
        return self.start("collect", "-p", os.getpid(), "-o", "out.nettrace", *arguments)

    def whole(self, **options):
        data = nettrace.sample(**options)
        return data[:-1], data[-1:]

    def test_a_signal_stops_and_drains(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            with self.subTest(number):
                before, after = self.whole()
                runtime = Runtime(before, after)
                fake = Server(self.directory, runtime)
                process = self.collect("--force")
                self.assertTrue(runtime.sent.wait(PATIENCE))
                self.wait_until(lambda: os.path.exists(self.path("out.nettrace")) and
                                self.read("out.nettrace") == before)
                process.send_signal(number)
                _, err = self.finish(process, 0)
                fake.close()
                fake.check()
                self.assertEqual(self.read("out.nettrace"), before + after)
                self.assertIn("out.nettrace: 3 events", err)

    def test_the_request_says_what_was_asked_for(self):
        runtime = Runtime(*self.whole())
        fake = self.serve(runtime)
        process = self.collect("--providers", "Shop-Orders:f0:4:a=b;c=d,Zoë",
                               "--allow-missing", "--buffer", "17",
                               "--stacks", "--duration", "1s")
        self.finish(process, 0)
        # Stacks need the names of a rundown.
        expected = struct.pack("<IIQBI", 17, 1, RUNDOWN, 1, 2)
        expected += struct.pack("<QI", 0xf0, 4) + string("Shop-Orders") + string("a=b;c=d")
        expected += struct.pack("<QI", 0xffffffffffffffff, 5) + string("Zoë") + string("")
        self.assertEqual(fake.requests[0].command, COLLECT4)
        self.assertEqual(fake.requests[0].payload, expected)

    def test_version_6_is_asked_for_by_the_format_of_the_request(self):
        runtime = Runtime(*self.whole())
        fake = self.serve(runtime)
        self.finish(self.collect("--format", "6", "--duration", "1s"), 0)
        self.assertEqual(fake.requests[0].payload[:8], struct.pack("<II", 64, 6))

    def test_waiting_writers_and_coarse_times_are_asked_for_by_our_own_command(self):
        for arguments, block, coarse in [(["--block", "250"], 250, 0), (["--coarse"], 0, 1),
                                         (["--coarse", "--block", "9"], 9, 1)]:
            with self.subTest(arguments=arguments):
                runtime = Runtime(*self.whole(losses=True), versions=(OWN,))
                runtime.stop.set()
                fake = Server(self.directory, runtime)
                _, err = self.finish(self.collect("--force", *arguments), 0)
                fake.close()
                self.assertEqual(fake.requests[0].command, OWN)
                self.assertEqual(fake.requests[0].payload,
                                 struct.pack("<IIIIQBI", block, coarse, 64, 1, 0, 0, 1) +
                                 struct.pack("<QI", 0xffffffffffffffff, 5) + string("*") +
                                 string(""))
                self.assertIn("12 lost (10 full, 2 busy), ", err)

    def test_runtime_that_has_neither_is_not_traced_without_what_was_asked_for(self):
        self.serve(Runtime(*self.whole(), versions=(COLLECT4, COLLECT3)))
        for arguments in (["--block", "250"], ["--coarse"]):
            with self.subTest(arguments=arguments):
                _, err = self.finish(self.collect(*arguments), 1)
                self.assertIn(f"with {arguments[0]}: its runtime does not support it", err)
                self.assertFalse(os.path.exists(self.path("out.nettrace")))

    def test_samples_bring_stacks_and_so_want_names(self):
        fake = self.serve(Runtime(*self.whole()))
        self.finish(self.collect("--providers", "Microsoft-DotNETCore-SampleProfiler", "-d", "1"),
                    0)
        self.assertEqual(fake.requests[0].payload[:21],
                         struct.pack("<IIQBI", 64, 1, RUNDOWN, 0, 1))

    def test_all_providers_are_asked_for_by_default(self):
        fake = self.serve(Runtime(*self.whole()))
        self.finish(self.collect("-d", "1"), 0)
        self.assertEqual(fake.requests[0].payload, struct.pack("<IIQBI", 64, 1, 0, 0, 1) +
                         struct.pack("<QI", 0xffffffffffffffff, 5) + string("*") + string(""))

    def test_older_runtimes_get_older_requests(self):
        for version, head in [(COLLECT3, struct.pack("<IIBBI", 64, 1, 0, 0, 1)),
                              (COLLECT2, struct.pack("<IIBI", 64, 1, 0, 1))]:
            with self.subTest(version=version):
                fake = Server(self.directory, Runtime(*self.whole(), versions=(version,)))
                self.finish(self.collect("-d", "1", "--force"), 0)
                fake.close()
                last = [request for request in fake.requests if request.command == version][0]
                self.assertTrue(last.payload.startswith(head))

    def test_a_stop_is_one_also_if_the_server_resets_the_connection(self):
        """The kernel reports ECONNRESET if the server closes with bytes that it did not read."""
        before, after = self.whole()
        runtime = Runtime(before, after, versions=(OWN,))
        for arguments in (["--block", "250"], ["--coarse"]):
            with self.subTest(arguments=arguments):
                runtime.stop.clear()
                runtime.sent.clear()
                fake = Server(self.directory, runtime, leaves_unread=True)
                process = self.collect("--force", *arguments)
                self.assertTrue(runtime.sent.wait(PATIENCE))
                self.wait_until(lambda: os.path.exists(self.path("out.nettrace")) and
                                self.read("out.nettrace") == before)
                process.send_signal(signal.SIGINT)
                _, err = self.finish(process, 0)
                fake.close()
                fake.check()
                self.assertEqual(self.read("out.nettrace"), before + after)
                self.assertNotIn("ended", err)

    def test_the_session_may_end_by_itself(self):
        before, after = self.whole()
        runtime = Runtime(before, after)
        runtime.stop.set()
        self.serve(runtime)
        _, err = self.finish(self.collect(), 0)
        self.assertIn("ended the session", err)
        self.assertEqual(self.read("out.nettrace"), before + after)

    def test_a_process_that_dies_leaves_what_came(self):
        before, _ = self.whole()
        runtime = Runtime(before)
        runtime.stop.set()
        self.serve(runtime)
        _, err = self.finish(self.collect(), 1)
        self.assertIn("ended before it completed the trace", err)
        self.assertIn("3 events", err)
        self.assertEqual(self.read("out.nettrace"), before)

    def test_refusals_leave_no_file(self):
        for answer, said in [
                (error(server.FAIL), "too many sessions"),
                (error(server.INVALID), "it reports an invalid argument"),
                (error(UNKNOWN_COMMAND), "does not have this command"),
                (b"\xff" * 100, "violates the diagnostics protocol"),
                (ok(), "violates the diagnostics protocol"),
                (ok(struct.pack("<Q", 0)), "violates the diagnostics protocol"),
                (b"", "without an answer"),
                (ok(struct.pack("<Q", 1)), "before it sent a byte"),
        ]:
            with self.subTest(said=said, answer=answer[:24]):
                fake = Server(self.directory,
                              lambda connection, request: connection.sendall(answer))
                _, err = self.finish(self.collect(), 1)
                fake.close()
                self.assertIn(said, err)
                self.assertFalse(os.path.exists(self.path("out.nettrace")))

    def test_a_stream_that_is_no_trace_is_reported(self):
        runtime = Runtime(b"These are no events" * 50)
        runtime.stop.set()
        self.serve(runtime)
        self.assertIn("sent an invalid trace", self.finish(self.collect(), 1)[1])

    def test_a_signal_that_its_sender_repeats_stops_once(self):
        """As timeout(1) does: it signals the command, and then its group."""
        before, after = self.whole()
        runtime = Runtime(before, after)
        repeated = threading.Event()
        runtime.hold = lambda _: repeated.wait(PATIENCE)
        self.serve(runtime)
        process = self.collect()

        def is_pending():
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                pending = re.search(r"ShdPnd:\s*(\w+)", status.read()).group(1)
            return int(pending, 16) >> (signal.SIGTERM - 1) & 1

        self.assertTrue(runtime.sent.wait(PATIENCE))
        process.send_signal(signal.SIGTERM)
        self.assertTrue(runtime.stop.wait(PATIENCE))
        process.send_signal(signal.SIGTERM)
        self.wait_until(lambda: not is_pending())
        repeated.set()
        self.finish(process, 0)
        self.assertEqual(self.read("out.nettrace"), before + after)

    def test_a_second_ctrl_c_ends_immediately(self):
        before, _ = self.whole()
        runtime = Runtime(before)

        def endless(connection):
            while True:
                connection.sendall(before)

        runtime.hold = endless
        self.serve(runtime)
        process = self.collect()
        self.assertTrue(runtime.sent.wait(PATIENCE))
        process.send_signal(signal.SIGINT)
        self.assertTrue(runtime.stop.wait(PATIENCE))
        subprocess.run(["kill", "-INT", str(process.pid)], check=True)
        _, err = self.finish(process, 130)
        self.assertIn("cancelled", err)
        self.assertTrue(self.read("out.nettrace").startswith(before))

    def test_ctrl_c_twice_leaves_a_server_that_never_answers(self):
        asked = threading.Event()

        def silent(connection, _):
            asked.set()
            connection.recv(1)

        self.serve(silent)
        process = self.collect()
        self.assertTrue(asked.wait(PATIENCE))
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        self.finish(process, 130)
        self.assertFalse(os.path.exists(self.path("out.nettrace")))

    def test_existing_files_are_kept_unless_forced(self):
        self.write("out.nettrace", b"precious" * 10000)
        fake = self.serve(Runtime(*self.whole()))
        self.assertIn("exists already", self.finish(self.collect(), 1)[1])
        self.assertEqual(fake.requests, [])
        self.assertEqual(self.read("out.nettrace"), b"precious" * 10000)
        self.finish(self.collect("--force", "-d", "1"), 0)
        self.assertEqual(self.read("out.nettrace"), nettrace.sample())

    def test_a_forced_file_survives_a_refusal(self):
        self.write("out.nettrace", b"precious")
        self.serve(lambda connection, request: connection.sendall(error(server.FAIL)))
        self.finish(self.collect("--force"), 1)
        self.assertEqual(self.read("out.nettrace"), b"precious")

    def test_a_full_disk_is_reported_and_the_file_is_read_up_to_there(self):
        before, after = self.whole(orders=20000)
        self.serve(Runtime(before, after))
        limit = 300000
        process = subprocess.run(
            ["bash", "-c", f'ulimit -f {limit // 1024}; exec "$0" "$@"', TOOL, "collect", "-p",
             str(os.getpid()), "-o", "out.nettrace"], env=self.environment, cwd=self.directory,
            stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"File too large; the trace ends there", process.stderr)
        self.assertEqual(self.read("out.nettrace"), before[:limit // 1024 * 1024])
        fake = self.path("full")
        os.symlink("/dev/full", fake)
        err = self.run_tool("collect", "-p", os.getpid(), "-o", fake, "--force", status=1)[1]
        self.assertIn("No space left on device", err)

    def test_a_full_disk_is_reported_with_the_name_of_the_file_of_a_tree(self):
        self.serve(Runtime(*self.whole(orders=20000)))
        for output, name in ("out.nettrace", "out.nettrace"), ("-", "standard output"):
            with self.subTest(output=output):
                # Without a duration: the recording ends by itself.
                process = subprocess.run(
                    ["bash", "-c", 'ulimit -f 300; exec "$0" "$@"', TOOL, "collect", "--tree",
                     "-p", str(os.getpid()), "-o", output], env=self.environment,
                    cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    check=False, timeout=PATIENCE)
                self.assertEqual(process.returncode, 1)
                self.assertIn(f"cannot write a part of {name}: File too large; the trace ends "
                              "there", process.stderr.decode())

    def test_a_full_disk_ends_a_tree_whose_root_executed_another_program(self):
        large = Runtime(*self.whole(orders=20000))
        ended = []

        def handler(connection, request):
            # The trace of the first program breaks off, as if execve(2) had closed it.
            if request.command in large.versions and not ended:
                ended.append(True)
                connection.sendall(ok(struct.pack("<Q", SESSION)) + nettrace.sample()[:-1])
            else:
                large(connection, request)

        self.serve(handler)
        process = subprocess.run(
            ["bash", "-c", 'ulimit -f 300; exec "$0" "$@"', TOOL, "collect", "--tree", "-p",
             str(os.getpid()), "-o", "out.nettrace"], env=self.environment, cwd=self.directory,
            stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"no space to record process {os.getpid()}; its part ends there",
                      process.stderr.decode())

    def test_places_that_cannot_be_written_are_reported(self):
        self.serve(Runtime(*self.whole()))
        err = self.run_tool("collect", "-p", os.getpid(), "-o", "none/out", status=1)[1]
        self.assertIn("cannot write none/out: No such file", err)

    def test_standard_output_and_pipes_take_it_without_force(self):
        os.mkfifo(self.path("fifo"))
        reader = os.open(self.path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        for path in ("-", "/dev/stdout", "fifo"):
            with self.subTest(path):
                before, after = self.whole()
                runtime = Runtime(before, after)
                runtime.stop.set()
                fake = Server(self.directory, runtime)
                process = self.start("collect", "-p", os.getpid(), "-o", path)
                out, err = process.communicate(timeout=PATIENCE)
                fake.close()
                fake.check()
                self.assertEqual(process.returncode, 0, err)
                read = os.read(reader, 1 << 16) if path == "fifo" else out
                self.assertEqual(read, before + after)
        self.assertFalse(os.path.exists(self.path("-")))

    @contextlib.contextmanager
    def endless_trace(self):
        def endless(connection):
            with contextlib.suppress(OSError):
                while not runtime.stop.is_set():
                    connection.sendall(runtime.before)
            runtime.stop.set()

        runtime = Runtime(self.whole()[0])
        runtime.hold = endless
        fake = Server(self.directory, runtime)
        yield
        fake.close()
        fake.check()

    def install_filter(self, script):
        """Return a copy of the command that uses the script as the program of --kernel."""
        folders = [self.path(name) for name in ("ringpipe", "ringpipe-kernel")]
        for folder in folders:
            os.mkdir(folder)
        tool = shutil.copy(TOOL, folders[0])
        self.write(self.path("ringpipe-kernel/ringpipe-kernel"), script)
        os.chmod(self.path("ringpipe-kernel/ringpipe-kernel"), 0o755)
        return tool

    def test_signals_end_a_command_whose_trace_nothing_reads(self):
        tool = self.install_filter(FILTER)
        for options in [], ["--kernel", "sched"]:
            with self.subTest(options=options), self.endless_trace():
                process = self.start_unread("collect", *options, "-p", os.getpid(), "-o", "-",
                                            tool=tool)
                self.assertIn("cancelled", self.interrupt_twice(process))

    def test_a_command_whose_reader_has_left_ends_quietly(self):
        tool = self.install_filter(FILTER)
        for options, status in [([], -signal.SIGPIPE), (["--kernel", "sched"], 141)]:
            with self.subTest(options=options), self.endless_trace():
                process = self.start("collect", *options, "-p", os.getpid(), "-o", "-", tool=tool)
                process.stdout.read(100)
                process.stdout.close()
                self.assertEqual(process.wait(PATIENCE), status)
                self.assertEqual(process.stderr.read(), b"")

    def test_the_default_name_reports_process_and_time(self):
        self.serve(Runtime(*self.whole()))
        self.run_tool("collect", "-p", os.getpid(), "-d", "1", "-q")
        name, = [name for name in os.listdir(self.directory) if name.endswith(".nettrace")]
        self.assertRegex(name, rf"^\S+_{os.getpid()}_\d{{8}}_\d{{6}}\.nettrace$")

    def test_pid_in_the_name_is_replaced(self):
        self.serve(Runtime(*self.whole()))
        self.run_tool("collect", "-p", os.getpid(), "-d", "1", "-o", "a{pid}b", "-q")
        self.assertTrue(os.path.exists(self.path(f"a{os.getpid()}b")))

    def test_a_process_is_found_by_name(self):
        self.serve(Runtime(*self.whole()))
        # Other tests may run processes with the same name.
        name = f"served-{os.getpid()}"
        with open("/proc/self/comm", "w", encoding="utf-8") as comm:
            comm.write(name)
        self.run_tool("collect", "-n", name, "-d", "1", "-o", "named")
        self.assertTrue(os.path.exists(self.path("named")))
        err = self.run_tool("collect", "-n", name + "x", status=1)[1]
        self.assertIn(f"no process named {name}x", err)

    def test_quiet_says_nothing(self):
        self.serve(Runtime(*self.whole()))
        self.assertEqual(self.run_tool("collect", "-p", os.getpid(), "-d", "1", "-q", "-o", "q"),
                         ("", ""))

    def test_json_sums_up(self):
        self.serve(Runtime(*self.whole(losses=True)))
        out, _ = self.run_tool("collect", "-p", os.getpid(), "-d", "1", "--format=json", "-o", "j")
        summary = json.loads(out)
        self.assertEqual((summary["events"], summary["lost"], summary["complete"]), (6, 12, True))

    def on_terminal(self, runtime, enough):
        """Return the stderr of a collect on a terminal, stopped by Ctrl-C once it matches
        `enough`."""
        self.serve(runtime)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = self.collect_on(slave)
        os.close(slave)
        seen, stopped = b"", False
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            seen += part
            if re.search(enough, seen) and not stopped:
                process.send_signal(signal.SIGINT)
                stopped = True
            if not part:
                break
        self.finish(process, 0)
        return seen.decode()

    def collect_on(self, terminal):
        return self.start("collect", "-p", os.getpid(), "-o", "out.nettrace", stderr=terminal,
                          stdin=terminal)

    def test_the_live_line_shows_the_stats_of_the_session(self):
        stats = struct.pack("<QQQI5Qi", 1234567, 89, 1000, 5, 89, 0, 0, 0, 0, 0)
        seen = self.on_terminal(Runtime(*self.whole(), stats=stats), b"89 lost")
        self.assertIn("1,234,567 events", seen)
        self.assertIn("Ctrl-C stops", seen)

    def test_the_live_line_does_without_stats(self):
        seen = self.on_terminal(Runtime(*self.whole()), b"Ctrl-C stops")
        line = seen[:seen.index("Ctrl-C stops")].rpartition("\r")[2]
        self.assertRegex(line, r"00:0\d:\d\d  \d+ B  $")

    def test_a_terminal_that_ctrl_s_stopped_does_not_stop_the_recording(self):
        asked = []
        runtime = Runtime(*self.whole(), stats=struct.pack("<QQQI5Qi", 1, *[0] * 9))

        def handler(connection, request):
            if request.command == STATS:
                asked.append(request)
            runtime(connection, request)

        self.serve(handler)
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        process = self.collect_on(slave)
        seen = b""
        while b"Ctrl-C stops" not in seen:
            seen += os.read(master, 4096)
        os.write(master, b"\x13")
        self.wait_until(lambda: not select.select([], [slave], [], 0)[1])
        # The line is shown before each request for its numbers.
        enough = len(asked) + 2
        self.wait_until(lambda: len(asked) >= enough)
        os.write(master, b"\x11")
        process.send_signal(signal.SIGINT)
        self.finish(process, 0)

    def test_the_live_line_survives_an_empty_answer(self):
        self.check_garbage(b"")

    def test_the_live_line_survives_a_short_answer(self):
        self.check_garbage(b"\xff" * 7)

    def check_garbage(self, stats):
        asked = []
        runtime = Runtime(*self.whole())

        def handler(connection, request):
            if request.command != STATS:
                return runtime(connection, request)
            asked.append(request)
            return connection.sendall(ok(stats))

        # The second request shows that the first answer did not disturb the recording.
        seen = self.on_terminal(handler, rb"00:00:(0[2-9]|[1-5]\d)")
        self.assertGreaterEqual(len(asked), 2)
        self.assertNotIn(" lost  ", seen)


if __name__ == "__main__":
    unittest.main()
