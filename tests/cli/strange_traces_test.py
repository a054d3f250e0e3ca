#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each command that reads a trace file reads strange ones: it ends by itself, within limits of
memory and processor time, and what it prints as JSON is JSON."""
import concurrent.futures
import json
import os
import resource
import struct
import subprocess
import tempfile
import unittest

import nettrace
import nettrace6
from nettrace import STRING, U32, U64, uleb, utf16z
import tool
from tool import TOOL, ToolTest

SANITIZED = os.environ.get("SANITIZERS", "none") != "none"
MEMORY_BYTES = 1 << 30
IS_LONG = os.environ.get("LONG") == "1"
if IS_LONG:  # the processors may be idle for a small part of the time only
    tool.PATIENCE = 500
# Each command has this limit. Work in proportion to the square of 100,000 threads exceeds it.
PROCESSOR_S = 10
START, STOP, WAIT, CALL, SWITCH, SAMPLE, NAME, FUNCTION = range(1, 9)
WAITED = struct.pack("<QQIIQ", 900, 100, 1, 4242, 8)
FORMS = ("text", "json", "csv") if IS_LONG else ("json",)
WHATS = ("summary", "events", "spans", "losses", "cpu", "offcpu", "waits", "counters", "gc",
         "heap", "json", "locks", "timeline")
TARGETS = ("chrome", "perfetto", "speedscope", "pprof", "folded", "firefox", "otlp",
           "otlp-profiles", "jsonl", "csv", "ctf")


def define():
    trace = nettrace.Trace()
    trace.define(START, "Shop", "requestStart", 1, [("path", STRING)])
    trace.define(STOP, "Shop", "requestStop", 2, [("path", STRING)])
    trace.define(WAIT, "Ringpipe-Machine", "Wait", 1, [
        ("duration_ns", U64), ("runnable_ns", U64), ("state", U32), ("waker_process", U32),
        ("waker_thread", U64)])
    trace.define(CALL, "Ringpipe-Machine", "Syscall", 3, [
        ("number", U32), ("name", STRING), ("result", U64), ("duration_ns", U64)])
    trace.define(SWITCH, "Universal.Events", "cswitch", 2, [])
    trace.define(SAMPLE, "Universal.Events", "cpu", 1, [])
    trace.define(NAME, "Universal.System", "ExistingProcess", 0, [])
    return trace.define(FUNCTION, "Universal.System", "ProcessSymbol", 4, [])


def guid(number):
    return struct.pack("<IHH8B", number, 0, 0, *[9] * 8)


def one_request(trace, path, at_ns=1_000_000, stop_ns=2_000_000):
    """Add a span in which its thread waits and is sampled."""
    trace.stacks(1, [[0x1010, 0x2020]])
    return trace.threads([(START, path, 7, at_ns, 0), (SWITCH, uleb(900), 7, stop_ns - 200, 1),
                          (WAIT, WAITED, 7, stop_ns - 200, 0), (SAMPLE, b"\1", 7, stop_ns - 100, 1),
                          (STOP, path, 7, stop_ns, 0)])


def from_the_future():
    return one_request(define(), utf16z("/"), 1 << 60, (1 << 60) + (1 << 61))


def backwards():
    trace = define()
    for at in range(1000, 0, -1):
        trace.threads([(START if at % 2 else STOP, utf16z("/"), 7, at * 1000, 0),
                       (WAIT, WAITED, 7, at * 1000 - 500, 0)])
    return trace


def circle():
    """Three activities, each of which caused the next one, and one that caused itself."""
    trace = define()
    for kind, at in (START, 1000), (STOP, 9000):
        for number, cause in (1, 3), (2, 1), (3, 2), (4, 4):
            trace.activity, trace.related = guid(number), guid(cause)
            trace.threads([(kind, utf16z("/"), number, at + number, 0)])
    return trace


def endless_spans():
    return define().threads([(START, utf16z("/"), number % 5, 1000 * number, 0)
                             for number in range(20_000 if IS_LONG else 2000)])


def many_threads(count=100_000 if IS_LONG else 2000):
    trace = define().stacks(1, [[0x1010, 0x2020]])
    return trace.threads([row for thread in range(1, count + 1) for row in (
        (START, utf16z("/"), thread, 4000 * thread, 0),
        (WAIT, WAITED, thread, 4000 * thread + 2000, 1),
        (STOP, utf16z("/"), thread, 4000 * thread + 3000, 0))])


def one_event():
    return define().threads([(START, utf16z("/"), 7, 0, 0)])


def huge_strings():
    trace = define()
    trace.define(20, "P" * 30_000, "event" * 6000 + "Start", 3, [("f" * 30_000, STRING)])
    trace.threads([(20, utf16z("x"), 7, 500, 0),
                   (NAME, nettrace.process_name("n" * 60_000), 7, 1, 0),
                   (FUNCTION, nettrace.function(1, 1, 0x1000, 0x1fff, "f" * 60_000), 7, 2, 0)])
    return one_request(trace, utf16z("\u20ac" * (1_000_000 if IS_LONG else 100_000)))


def invalid_text():
    """Bytes that are no UTF-8, and halves of UTF-16's pairs, in each kind of name and in values."""
    trace = define()
    half = b"\x00\xd8a\0\x00\xdc\0\0"
    metadata = struct.pack("<I", 20) + half + struct.pack("<I", 3) + half
    metadata += struct.pack("<qIIII", 0, 0, 4, 1, STRING) + half
    trace.metadata(metadata)
    trace.threads([(20, half, 7, 500, 0), (NAME, nettrace.process_name(b"\xff\xc0\x80\xed\xa0\x80"),
                                           7, 1, 0),
                   (FUNCTION, nettrace.function(1, 1, 0x1000, 0x1fff, b"\xf5\x80\xfe\n\"<"), 7, 2,
                    0)])
    return one_request(trace, half)


def programs_of_perf(mappings=60_000, programs=400):
    """A perf.data of processes that inherit many mappings and then execute another program."""
    def record(kind, payload, misc=0):
        payload += bytes(-len(payload) % 8)
        return struct.pack("<IHH", kind, misc, 8 + len(payload)) + payload

    # A software event with the sample type IP | TID | TIME, and no ids.
    events = struct.pack("<IIQQQQQ", 1, 64, 0, 1000, 7, 0, 0).ljust(64, b"\0") + bytes(16)
    data = bytearray()
    for i in range(1, mappings + 1):
        data += record(1, struct.pack("<IIQQQ", 1, 1, 4096 * i, 4096, 0) + b"/a\0")
    for pid in range(100, 100 + programs):
        data += record(7, struct.pack("<IIIIQ", pid, 1, pid, 1, 0))
        data += record(3, struct.pack("<II", pid, pid) + b"x\0", 1 << 13)
    header = struct.pack("<8s8Q", b"PERFILE2", 104, len(events), 104, len(events),
                         104 + len(events), len(data), 0, 0)
    return header.ljust(104, b"\0") + events + data


TRACES = (from_the_future, backwards, circle, endless_spans, many_threads, one_event, huge_strings,
          invalid_text)


def numbers(value, key=""):
    """Yield (key, number) for each number in a value of JSON."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield key, value


def limit():
    if SANITIZED:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))


def commands(path, out):
    """Return (arguments, whether it writes JSON). Each `{}` in `out` becomes a number."""
    for number, (arguments, is_json) in enumerate(all_commands(path, out)):
        yield [word.format(number) if word == out else word for word in arguments], is_json


def all_commands(path, out):
    for what in WHATS:
        for form in FORMS:
            yield ("report", path, what, "--format", form), form == "json"
    for form in FORMS:
        yield ("explain", path, "--slowest", "1000", "--format", form), form == "json"
    yield ("explain", path, "--id", "00000001-0000-0000-0909-090909090909"), False
    for target in TARGETS:
        yield ("convert", "-q", *([] if target == "ctf" else ["-f"]), path, "--to", target, "-o",
               out), target in ("chrome", "speedscope", "firefox")
    yield ("convert", "-q", "-f", path, "--format", "6", "-o", out), False
    yield ("convert", "-q", "-f", path, "--format", "4", "-o", out), False
    yield ("convert", "-q", "-f", path, "--compact", "-o", out), False
    yield ("report", path, "--diff", path), False
    yield ("report", path, "events", "--where", "has path or thread > 1"), False
    yield ("report", path, "events", "--from", "1us", "--to", "1ms"), False
    yield ("merge", "-q", "-f", path, path + ".copy", "-o", out), False
    yield ("symbolize", "-q", "-f", path, "-o", out), False
    yield ("view", "-f", "--html", out, path), False


class StrangeTraces(ToolTest):
    def run_limited(self, arguments, is_json):
        """Return the exit status, standard error, and the JSON that the command wrote."""
        with tempfile.TemporaryFile() as stdout:
            done = subprocess.run([TOOL, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                                  stderr=subprocess.PIPE, preexec_fn=limit, env=self.environment,
                                  cwd=self.directory, timeout=tool.PATIENCE, check=False)
            stdout.seek(0)
            text = stdout.read() if is_json else b""
        if is_json and arguments[0] == "convert" and done.returncode == 0:
            text = self.read(arguments[-1])
        return done.returncode, done.stderr, text

    def has_view(self):
        return b"has no page" not in self.start("view", "absent").communicate()[1]

    def check(self, arguments, status, err, text):
        self.assertIn(status, (0, 1), err[-2000:])
        if status == 1:
            self.assertIn(b"ringpipe: ", err)
        # Events are JSON lines.
        for part in text.splitlines() if "events" in arguments else [text] if text else []:
            values = json.loads(part)
            # A difference of times that became negative would be a huge number.
            for key, number in numbers(values) if arguments[0] != "convert" else ():
                if key.endswith("_ns") and key not in ("start_ns", "time_ns"):
                    self.assertTrue(0 <= number < 1 << 62, (arguments, key, number))
        err.decode()

    def test_each_command_reads_each_trace_within_its_limits(self):
        for make in TRACES:
            path = self.write("t", make().end())
            self.write("t.copy", self.read("t"))
            rows = list(commands(path, self.path(make.__name__ + "{}")))
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                results = list(pool.map(lambda row: self.run_limited(*row), rows))
            for (arguments, _), result in zip(rows, results):
                with self.subTest(trace=make.__name__, arguments=arguments):
                    self.check(arguments, *result)
            self.assertLess(sum(result[0] for result in results), len(results), make.__name__)

    def test_mappings_of_replaced_programs_use_no_memory(self):
        def few():
            if not SANITIZED:
                resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))

        self.finish(self.start("report", self.write("p", programs_of_perf()), preexec_fn=few), 0)

    def test_each_command_refuses_a_format_of_a_later_version_with_a_message(self):
        later = nettrace6.Trace().end()
        later = later[:12] + struct.pack("<I", 7) + later[16:]
        path = self.write("t", later)
        self.write("t.copy", later)
        for arguments, _ in commands(path, self.path("out")):
            if arguments[0] == "view" and not self.has_view():
                continue
            with self.subTest(arguments=arguments):
                err = self.run_tool(*arguments, status=1)[1]
                self.assertIn("version 7", err)


if __name__ == "__main__":
    unittest.main()
