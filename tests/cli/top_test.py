#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe top`, on HOST, whose spans have known times, and on hostile processes."""
import csv
import fcntl
import io
import json
import math
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import unittest

try:
    import pyte
except ImportError:
    pyte = None

import nettrace
from server import UNKNOWN_COMMAND, error, ok
from tool import PATIENCE
from written import WrittenTest

PRECISION = 0.004   # of percentiles


class TopTest(WrittenTest):
    def work(self, count, microseconds):
        """Return the bounds of the time of each span, which have ended."""
        self.host.stdin.write(f"{count} {microseconds}\n".encode())
        self.host.stdin.flush()
        line = self.host.stdout.readline().decode()
        bounds = [tuple(map(int, word.split("-"))) for word in line.split()]
        self.assertEqual(len(bounds), count)
        return bounds

    def start_top(self, *arguments, **options):
        """Start a top whose session has begun, as the host confirms."""
        top = self.start("top", "-p", self.host.pid, *arguments, **options)
        self.wait_until(self.is_traced)
        return top

    def is_traced(self):
        rows = json.loads(self.run_tool("list", self.host.pid, "--format=json")[0])
        return [row for row in rows if row["provider"] == "Test-Timed"][0]["kind"] == "session"

    def check_percentile(self, row, key, part, bounds):
        low, high = (sorted(bound[i] for bound in bounds)[math.ceil(part * len(bounds)) - 1]
                     for i in (0, 1))
        self.assertGreaterEqual(row[key], low * (1 - PRECISION) - 1, key)
        self.assertLessEqual(row[key], high * (1 + PRECISION) + 1, key)


class Blocks(TopTest):
    def blocks(self, text):
        return [json.loads(line) for line in text.splitlines()]

    def test_counts_and_latencies_are_those_of_the_process(self):
        self.start_host()
        top = self.start_top("--format", "json")
        bounds = self.work(100, 50) + self.work(20, 500) + self.work(3, 5000)
        top.send_signal(signal.SIGINT)
        blocks = self.blocks(self.finish(top, 0)[0])
        rows = [row for block in blocks for row in block["spans"]]
        self.assertEqual({(row["provider"], row["span"]) for row in rows}, {("Test-Timed", "Work")})
        last = rows[-1]["all"]
        self.assertEqual((last["count"], last["errors"]), (len(bounds), 0))
        self.assertEqual(sum(row["interval"]["count"] for row in rows), len(bounds))
        self.assertEqual(max(row["interval"]["max_ns"] for row in rows), last["max_ns"])
        for key, part in ("p50_ns", 0.5), ("p99_ns", 0.99), ("max_ns", 1):
            self.check_percentile(last, key, part, bounds)
        self.assertEqual(blocks[-1]["all_dropped"], 0)
        for block in blocks:
            self.assertEqual(block["process_id"], self.host.pid)
            for row in block["spans"]:
                self.assertAlmostEqual(row["per_second"] * block["interval_s"],
                                       row["interval"]["count"], places=3)

    def test_an_expression_selects_spans_by_their_starts_and_other_records(self):
        self.start_host()
        top = self.start_top("--format", "json", "--where",
                             "event == 'WorkStart' or Payload.Name == 'works'")
        self.work(7, 10)
        seen, spans = set(), []
        for line in top.stdout:
            block = json.loads(line)
            seen.update(row["counter"] for row in block["counters"])
            # An interval may end while the host works.
            spans = [row["all"]["count"] for row in block["spans"]] or spans
            if seen and sum(spans) >= 7:
                break
        self.assertEqual(seen, {"works"})
        self.assertEqual(spans, [7])
        top.send_signal(signal.SIGINT)
        last = self.blocks(self.finish(top, 0)[0])[-1]
        self.assertEqual((last["functions"], last["all_dropped"]), ([], 0))
        for where, count in (("event == 'WorkStop'", 0), ("event ~ 'Work'", 5)):
            top = self.start_top("--format", "json", "--where", where)
            self.work(5, 10)
            top.send_signal(signal.SIGINT)
            spans = self.blocks(self.finish(top, 0)[0])[-1]["spans"]
            self.assertEqual(sum(row["all"]["count"] for row in spans), count, where)

    def test_functions_counters_and_the_cost_are_shown_while_the_session_runs(self):
        self.start_host()
        top = self.start_top("--format", "json")
        seen = set()
        done = threading.Event()

        def read_blocks():
            for line in top.stdout:
                block = json.loads(line)
                seen.update(row["function"] for row in block["functions"] if row["samples"] > 0)
                seen.update(f"{row['counter']}" for row in block["counters"])
                if block["process_cpu_percent"] is not None:
                    self.assertLess(block["process_cpu_percent"], 100)
                    seen.add("cost")
                if {"timed_mix_numbers", "cost", "works"} <= seen:
                    done.set()

        reader = threading.Thread(target=read_blocks)
        reader.start()
        self.wait_until(lambda: self.work(10, 2000) and done.is_set())
        top.send_signal(signal.SIGTERM)
        reader.join(PATIENCE)
        self.assertEqual(top.wait(PATIENCE), 0)

    def test_text_and_csv_have_a_block_for_each_interval(self):
        self.start_host()
        table = self.start_top("--format", "csv")
        bounds = self.work(7, 100)
        table.send_signal(signal.SIGINT)
        out = self.finish(table, 0)[0]
        rows = list(csv.DictReader(io.StringIO(out)))
        spans = [row for row in rows if row["kind"] == "span"]
        self.assertEqual((spans[-1]["group"], spans[-1]["name"], spans[-1]["all_count"]),
                         ("Test-Timed", "Work", "7"))
        self.check_percentile({"max": int(spans[-1]["all_max_ns"])}, "max", 1, bounds)
        text = self.start_top("-d", "60")
        self.work(7, 100)
        text.send_signal(signal.SIGINT)
        out = self.finish(text, 0)[0]
        self.assertRegex(out, r"(?m)^\d\d:\d\d:\d\d  process \d+ \(timed\)$")
        self.assertRegex(out, r"(?m)^Test-Timed/Work +[\d,.]+ .* 7 ")
        self.assertRegex(out, r"(?m)^tracing takes ")

    def test_a_process_that_ends_or_is_killed_is_reported(self):
        for end in "ends", "is killed":
            with self.subTest(how=end):
                self.start_host()
                top = self.start_top("--format", "json")
                # A block shows that the answer of the process has arrived at the tool.
                top.stdout.readline()
                if end == "ends":
                    self.host.stdin.close()
                    self.host.stdin = None
                else:
                    self.host.kill()
                self.host.wait(PATIENCE)
                _, err = self.finish(top, 0)
                self.assertEqual(err, f"Process {self.host.pid} ended the session.\n")

    def test_a_reader_that_leaves_ends_top_without_a_message(self):
        self.start_host()
        top = self.start_top("--format", "json")
        top.stdout.close()
        self.assertEqual(top.wait(PATIENCE), 0)
        self.assertEqual(top.stderr.read(), b"")
        self.wait_until(lambda: not self.is_traced())

    def test_a_signal_ends_top_while_its_output_is_blocked(self):
        self.start_host()
        output, write = os.pipe()
        self.addCleanup(os.close, output)
        os.write(write, bytes(fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)))
        top = subprocess.Popen([os.environ["RINGPIPE"], "top", str(self.host.pid)], stdout=write,
                               stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.reap, top)
        os.close(write)
        self.wait_until(self.is_traced)
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(PATIENCE), 1)
        self.assertEqual(top.stderr.read(), b"ringpipe: top: stopped before all was printed\n")

    def test_an_output_that_fails_ends_top_with_status_1(self):
        self.start_host()
        with open("/dev/full", "wb") as full:
            top = subprocess.Popen([os.environ["RINGPIPE"], "top", str(self.host.pid)],
                                   stdout=full, stderr=subprocess.PIPE, env=self.environment)
        self.addCleanup(self.reap, top)
        err = top.communicate(timeout=PATIENCE)[1].decode()
        self.assertEqual(top.returncode, 1, err)
        self.assertIn("cannot write the output", err)

    def test_wrong_arguments_are_reported_before_the_session(self):
        self.start_host()
        _, err = self.run_tool("top", self.host.pid, "--providers", "Nonesuch", status=1)
        self.assertIn("Test-Timed", err)
        self.run_tool("top", self.host.pid, "--providers", "a:b:c:d:e:f,", status=2)
        _, err = self.run_tool("top", "1", status=1)
        self.assertIn("process 1", err)


class Hostile(TopTest):
    def serve_stream(self, stream):
        def handler(connection, request):
            if request.set == 2 and request.id != 1:
                connection.sendall(ok(struct.pack("<Q", 1)) + stream)
            else:
                connection.sendall(error(UNKNOWN_COMMAND))
        self.serve(handler)

    def top(self, *arguments, status=0):
        return self.run_tool("top", "-p", os.getpid(), *arguments, status=status)

    def test_hostile_names_do_not_control_the_output(self):
        trace = nettrace.Trace()
        name = "a\x1b[2J\x07\n\u202e\u009b" + "x" * 200
        trace.define(1, "Bad\x1b]0;x\x07", name + "Start", 1, [])
        trace.define(2, "Bad\x1b]0;x\x07", name + "Stop", 2, [])
        trace.events(1, [b""], ns=1000).events(2, [b""], ns=251000)
        self.serve_stream(trace.end())
        for kind in "text", "json", "csv":
            out, _ = self.top("--format", kind)
            self.assertIn("Bad", out)
            self.assertFalse([c for c in out if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)])

    def test_names_beyond_the_bound_share_one_row(self):
        trace, parts = nettrace.Trace(), []
        for number in range(0, 5000, 2):
            trace.define(number + 1, "P", f"n{number}Start", number + 1, [])
            trace.define(number + 2, "P", f"n{number}Stop", number + 2, [])
            trace.events(number + 1, [b""], ns=1000).events(number + 2, [b""], ns=251000)
            # Blocks are aligned to 4 bytes, and the time to append grows with the trace.
            whole = len(trace.bytes) // 4 * 4
            parts.append(trace.bytes[:whole])
            trace.bytes = trace.bytes[whole:]
        self.serve_stream(b"".join(parts) + trace.end())
        block = json.loads(self.top("--format", "json")[0].splitlines()[-1])
        self.assertEqual(len(block["spans"]), 2001)
        self.assertEqual([row["all"]["count"] for row in block["spans"] if row["span"] is None],
                         [500])
        self.assertEqual(sum(row["all"]["count"] for row in block["spans"]), 2500)

    def test_a_stream_that_is_no_trace_is_reported(self):
        self.serve_stream(b"Nettrace" + b"\xff" * 5000)
        _, err = self.top("--format", "json", status=1)
        self.assertIn("top: process", err)


@unittest.skipUnless(pyte, "python3-pyte is not installed")
class Terminal(TopTest):
    """On a pseudo terminal, with pyte as the terminal's screen."""

    def start_terminal(self, *arguments, rows=40, columns=120, before=(), **environment):
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.addCleanup(os.close, slave)
        self.slave = slave
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.resize(rows, columns)
        self.settings = termios.tcgetattr(slave)
        process = subprocess.Popen(
            [*before, os.environ["RINGPIPE"], "top", *map(str, arguments)], stdin=slave,
            stdout=slave, stderr=slave,
            env={**self.environment, "TERM": "linux", **environment},
            cwd=self.directory, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(self.reap, process)
        return process

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def feed(self):
        while select.select([self.master], [], [], 0.01)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self.stream.feed(data)

    def sees(self, text):
        self.feed()
        return text in "\n".join(self.screen.display)

    def press(self, keys):
        os.write(self.master, keys)

    def ends(self, process, status):
        """The process ends, and the terminal is as before."""
        self.wait_until(lambda: self.feed() or process.poll() is not None)
        self.feed()
        self.assertEqual(process.returncode, status, self.raw[-300:])
        self.assertEqual(termios.tcgetattr(self.slave), self.settings)
        self.assertGreater(self.raw.rfind(b"\x1b[?25h"), self.raw.rfind(b"\x1b[?25l"))

    def test_spans_are_shown_and_q_restores_the_terminal(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid)
        self.wait_until(lambda: self.sees("no span has ended so far"))
        self.work(12, 10)
        self.wait_until(lambda: self.sees("Test-Timed/Work"))
        self.wait_until(lambda: self.sees("tracing takes"))
        self.assertNotEqual(termios.tcgetattr(self.slave), self.settings)
        self.press(b"h")
        self.wait_until(lambda: self.sees("choose another process"))
        self.press(b"h")
        self.press(b"s ")
        self.wait_until(lambda: self.sees("PAUSED") and self.sees("sorted by total time"))
        self.press(b"q")
        self.ends(top, 0)
        self.wait_until(lambda: not self.is_traced())

    def test_signals_restore_the_terminal(self):
        self.start_host()
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
            with self.subTest(signal=number.name):
                top = self.start_terminal("-p", self.host.pid)
                self.wait_until(lambda: self.sees("no span has ended so far"))
                top.send_signal(number)
                self.ends(top, -number if number == signal.SIGQUIT else 0)

    def test_the_end_of_the_process_restores_the_terminal_and_is_reported(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid)
        self.wait_until(lambda: self.sees("no span has ended so far"))
        self.host.kill()
        self.ends(top, 0)
        self.assertIn(f"Process {self.host.pid} ended the session.".encode(),
                      self.raw[self.raw.rfind(b"\x1b[?25h"):])

    def test_the_screen_follows_the_size_of_the_terminal(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid)
        self.wait_until(self.is_traced)
        self.work(3, 10)
        self.wait_until(lambda: self.sees("all p99") and self.sees("COUNTER"))
        self.resize(10, 20)
        top.send_signal(signal.SIGWINCH)
        self.wait_until(lambda: self.sees(" spans/s") and self.sees("Test-Tim") and
                        not self.sees("p50"))
        self.resize(5, 20)
        top.send_signal(signal.SIGWINCH)
        self.wait_until(lambda: self.sees("process") and self.sees("q quit"))
        self.press(b"\x1b[6~" * 9)
        self.wait_until(lambda: self.sees("ringpipe/") and not self.sees("process"))
        self.press(b"q")
        self.ends(top, 0)

    def spans_shown(self):
        """Return the number of spans since the start in the row of Work, or None."""
        self.feed()
        end = None
        for line in self.screen.display:
            if line.startswith("SPAN"):
                end = line.index(" all ") + 4
            elif line.startswith("Test-Timed/Work"):
                return int(line[end - 10:end])
        return None

    def test_a_pause_keeps_the_screen_and_its_size_until_the_user_continues(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid)
        self.wait_until(self.is_traced)
        self.work(3, 10)
        self.wait_until(lambda: self.spans_shown() == 3)
        self.press(b" ")
        self.wait_until(lambda: self.sees("PAUSED"))
        self.work(4, 10)
        # Later intervals would have shown them when another program has seen them.
        other = self.start("top", "-p", self.host.pid, "-d", "1", "--format", "json")
        self.finish(other, 0)
        self.assertEqual(self.spans_shown(), 3)
        self.resize(30, 118)
        top.send_signal(signal.SIGWINCH)
        self.wait_until(lambda: self.sees("PAUSED") and self.spans_shown() == 3)
        self.press(b" ")
        self.wait_until(lambda: self.spans_shown() == 7 and not self.sees("PAUSED"))
        self.press(b"q")
        self.ends(top, 0)

    def chosen(self):
        """Return the row that the screen highlights, or an empty text."""
        self.feed()
        for number, line in enumerate(self.screen.display):
            if self.screen.buffer[number][0].reverse:
                return line
        return ""

    def choose(self, pid):
        """Move to the row of the process. The machine may have other processes to trace."""
        for _ in range(1000):
            line = self.chosen()
            if line.split()[:1] == [str(pid)]:
                return
            if line:
                self.press(b"\x1b[B" if int(line.split()[0]) < pid else b"\x1b[A")
                self.wait_until(lambda line=line: self.chosen() not in ("", line))
        self.fail("the row was not reached")

    def test_a_process_is_chosen_where_there_are_several(self):
        self.start_host()
        first = self.host
        self.start_host()
        top = self.start_terminal()
        for process in first, self.host:
            self.wait_until(lambda: self.sees("Choose a process") and self.chosen())
            self.choose(process.pid)
            self.press(b"\n")
            self.wait_until(lambda pid=process.pid: self.sees(f"process {pid} (timed)"))
            self.press(b"p")
        self.wait_until(lambda: self.sees("Choose a process"))
        self.press(b"q")
        self.ends(top, 0)

    def test_the_choice_stays_when_processes_before_it_end(self):
        self.start_host()
        first = self.host
        self.start_host()
        if first.pid > self.host.pid:
            self.skipTest("the numbers of processes have begun again")
        top = self.start_terminal()
        self.wait_until(lambda: self.sees("Choose a process") and self.chosen())
        self.choose(self.host.pid)
        first.kill()
        first.wait(PATIENCE)
        self.wait_until(lambda: not self.sees(f"{first.pid} timed"))
        self.assertEqual(self.chosen().split()[0], str(self.host.pid))
        self.press(b"\n")
        self.wait_until(lambda: self.sees(f"process {self.host.pid} (timed)"))
        self.press(b"q")
        self.ends(top, 0)

    def test_a_stop_restores_the_terminal_and_a_continuation_draws_again(self):
        self.start_host()
        # A shell with job control continues when its job stops, and leaves the settings alone.
        shell = self.start_terminal("-p", self.host.pid, before=(
            "sh", "-c", 'set -m; "$@"; echo "stopped job"; read -r line; fg', "sh"))
        self.wait_until(lambda: self.sees("no span has ended so far"))
        drawn = termios.tcgetattr(self.slave)
        self.press(b"\x1a")
        self.wait_until(lambda: self.sees("stopped job"))
        self.assertEqual(termios.tcgetattr(self.slave), self.settings)
        self.assertGreater(self.raw.rfind(b"\x1b[?25h"), self.raw.rfind(b"\x1b[?25l"))
        self.screen.reset()
        self.press(b"\n")
        self.wait_until(lambda: self.sees("no span has ended so far") and self.sees("q quit"))
        self.assertEqual(termios.tcgetattr(self.slave), drawn)
        self.work(3, 10)
        self.wait_until(lambda: self.sees("Test-Timed/Work"))
        self.press(b"q")
        self.ends(shell, 0)

    def test_after_a_forced_stop_the_terminal_is_taken_again(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid)
        self.wait_until(lambda: self.sees("no span has ended so far"))
        drawn = termios.tcgetattr(self.slave)
        self.freeze(top)
        self.feed()
        self.screen.reset()
        termios.tcsetattr(self.slave, termios.TCSANOW, self.settings)
        top.send_signal(signal.SIGCONT)
        self.wait_until(lambda: self.sees("no span has ended so far") and self.sees("q quit"))
        self.assertEqual(termios.tcgetattr(self.slave), drawn)
        self.press(b"q")
        self.ends(top, 0)

    def test_a_terminal_without_addresses_gets_blocks_without_escapes(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid, TERM="dumb")
        self.wait_until(self.is_traced)
        self.work(3, 10)
        self.wait_until(lambda: self.feed() or b"Test-Timed/Work" in self.raw)
        top.send_signal(signal.SIGINT)
        self.wait_until(lambda: self.feed() or top.poll() is not None)
        self.assertEqual(top.returncode, 0)
        self.assertNotIn(b"\x1b", self.raw)
        self.assertEqual(termios.tcgetattr(self.slave), self.settings)

    def test_colors_and_other_characters_depend_on_the_environment(self):
        self.start_host()
        top = self.start_terminal("-p", self.host.pid, NO_COLOR="1", LC_ALL="C")
        self.wait_until(self.is_traced)
        self.work(3, 10)
        self.wait_until(lambda: self.sees("Test-Timed/Work"))
        self.press(b"q")
        self.ends(top, 0)
        self.assertNotRegex(self.raw, rb"\x1b\[[0-9;]*3[0-7]m")
        self.assertTrue(self.raw.isascii())


if __name__ == "__main__":
    unittest.main()
