#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""All consumers report the same events: every type of field, written once while all are attached.

usage: same_test.py HOST RINGPIPE LTTNG_MODULE BPF_PROGRAM [unittest arguments]

The host's own list of events, made without ringpipe, is the reference. Each consumer must report
the same names, values, number, and order within a thread; the class of each consumer lists what the
consumer cannot report. Consumers that cannot run here are reported and skipped.
"""
import calendar
import importlib
import json
import os
import re
import secrets
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from same_tools import (Event, Program, by_writer, eventually, parse, points, run, signed,
                        text16_hex, words_bytes)

HOST, RINGPIPE, LTTNG_MODULE, BPF_PROGRAM = sys.argv[1:5]
EVENTS, THREADS = 4000, 4
# The maximum deviation from CLOCK_MONOTONIC: of a time that was read from that clock, and of one
# that was computed from the processor's counter.
READ_NS, MADE_NS = 100_000, 1_000_000
TRACEFS = "/sys/kernel/tracing"
ALL = {"integers", "reals", "texts", "lists", "secrets"}
UTC_1970 = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)(?:\.(\d+))?Z")


class Lttng:
    """A separate session daemon for the test, with a session of all events."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "lttng")
        self.home = tempfile.mkdtemp()
        self.env = dict(os.environ, LTTNG_HOME=self.home, LTTNG_RUNDIR=self.home)
        self.daemon = Program(["lttng-sessiond", "--no-kernel", "--verbose"],
                              env=self.env)

    def start(self):
        def answers():
            self.daemon.said(b"")
            return subprocess.run(["lttng", "list"], env=self.env, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
        eventually(answers, "a session daemon")
        for command in (["create", "same", "--output", self.folder],
                        ["enable-channel", "-u", "--subbuf-size=4M", "--num-subbuf=4", "all"],
                        ["enable-event", "-u", "-c", "all", "Same:*"], ["start"]):
            run("lttng", *command, env=self.env)

    def stop(self):
        try:
            run("lttng", "stop", env=self.env)
            run("lttng", "destroy", env=self.env)
        finally:
            self.daemon.stop()
            shutil.rmtree(self.home, ignore_errors=True)

    def events(self):
        bt2 = importlib.import_module("bt2")
        found = []
        for message in bt2.TraceCollectionMessageIterator(self.folder):
            if isinstance(message, bt2._DiscardedEventsMessageConst):
                raise AssertionError(f"LTTng discarded {message.count} events")
            if isinstance(message, bt2._EventMessageConst):
                provider, name = message.event.name.split(":")
                assert provider == "Same"
                fields = self.fields(name, message.event.payload_field)
                fields["at"] = str(message.default_clock_snapshot.value)
                found.append(Event(name, fields))
        return found

    @staticmethod
    def leave(event):
        """babeltrace2 2.0.4 shows the previous string instead of an empty one; the trace is
        correct."""
        return Event(event.name, {name: value for name, value in event.fields.items()
                                  if value or name not in ("text", "text16")})

    @staticmethod
    def fields(name, payload):
        fields = {"writer": str(int(payload["writer"])), "serial": str(int(payload["serial"]))}
        if name == "integers":
            for field in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
                fields[field] = str(int(payload[field]))
        elif name == "reals":
            for field in ("truth", "letter", "pointer", "time", "state"):
                fields[field] = str(int(payload[field]))
            fields["f32"] = struct.pack(">f", float(payload["f32"])).hex()
            fields["f64"] = struct.pack(">d", float(payload["f64"])).hex()
        elif name == "texts":
            for field in ("text", "text16"):
                fields[field] = str(payload[field]).encode().hex()
            fields["guid"] = bytes(int(byte) for byte in payload["guid"]).hex()
        elif name == "secrets":
            fields.update(password=str(payload["password"]).encode().hex(),
                          pin=str(int(payload["pin"])))
        else:
            fields["blob"] = bytes(int(byte) for byte in payload["blob"]).hex()
            fields["list"] = f"[{' '.join(str(int(n)) for n in payload['list'])}]"
            fields["point"] = points([(int(payload["point_x"]), int(payload["point_y"]))])
            fields["points"] = "[" + points(zip(map(int, payload["points_x"]),
                                                map(int, payload["points_y"]))) + "]"
        return fields


class Bpftrace:
    """Reads the memory to which a probe's arguments point, as words."""

    def __init__(self, pid):
        def word(place):
            # bpftrace 0.17 has names for six arguments; %r9 points to all of them.
            return f'*(uint64 *)(reg("r9") + {8 * place})'

        def at(place, *words):
            return [f"*(uint64 *)({word(place)} + {8 * i})" for i in words]

        def line(kind, expressions, form="", last=()):
            # Lines of different processors are in any order.
            numbers = ["nsecs", word(0), word(1), *expressions]
            return (f'printf("{kind} {" ".join(["%lld"] * len(numbers))}{form}\\n", '
                    f'{", ".join(numbers + list(last))});')

        actions = {
            "integers": [line("integers", [word(i) for i in range(2, 10)])],
            "reals": [line("reals", [word(i) for i in range(2, 9)])],
            "texts": [line("texts", at(4, 0, 1), " %s", ["str(arg2)"]),
                      line("text16", at(3, *range(6))), line("text16", at(3, *range(6, 12)))],
            "lists": [line("lists", [word(3), *at(2, *range(5))]),
                      line("list", [word(5), *at(4, *range(3))]),
                      line("points", [*at(6, 0), word(8), *at(7, *range(5))])],
            "secrets": [line("secrets", [word(3)], " %s", ["str(arg2)"])],
        }
        script = 'BEGIN { printf("ready\\n"); }\n' + "".join(
            f"usdt:{HOST}:same:{event} {{ {' '.join(lines)} }}\n"
            for event, lines in actions.items())
        self.program = Program(["bpftrace", "-B", "line", "-p", str(pid), "-e", script], env=dict(
            os.environ, BPFTRACE_STRLEN="128", BPFTRACE_PERF_RB_PAGES="1024", LC_ALL="C.UTF-8"))

    def attached(self):
        return self.program.said(b"ready")

    def stop(self):
        self.output = self.program.stop()
        return self.output

    def events(self):
        lost = [line for line in self.program.out + self.program.err if line.startswith(b"Lost")]
        assert not lost, lost
        lines = []
        for line in self.output.decode(errors="surrogateescape").split("\n"):
            kind, _, rest = line.partition(" ")
            if kind in ALL | {"text16", "list", "points"}:
                time_ns, rest = rest.split(" ", 1)
                lines.append((int(time_ns), kind, rest))
        # A stable sort keeps the lines of one event in their order.
        lines.sort(key=lambda line: line[0])
        return list(self.take(lines))

    @staticmethod
    def take(lines):
        parts = {}	# of an event with several lines
        for at, kind, rest in lines:
            numbers = rest.split(" ", 4 if kind == "texts" else -1)
            key = tuple(numbers[:2])
            words = [int(n) for n in numbers[2:{"texts": 4, "secrets": 3}.get(kind)]]
            fields = dict(zip(("writer", "serial"), key), at=str(at))
            if kind == "integers":
                for (name, bits), word in zip((("i8", 8), ("u8", 0), ("i16", 16), ("u16", 0),
                                               ("i32", 32), ("u32", 0), ("i64", 64), ("u64", 0)),
                                              words):
                    size = int(name[1:])
                    fields[name] = str(signed(word, bits) if bits else word & (1 << size) - 1)
                yield Event(kind, fields)
            elif kind == "reals":
                fields.update(truth=str(words[0]), letter=str(words[1] & 0xff),
                              f32=f"{words[2] & 0xffffffff:08x}",
                              f64=f"{words[3] & (1 << 64) - 1:016x}", pointer=str(words[4]),
                              time=str(words[5]), state=str(signed(words[6], 32)))
                yield Event(kind, fields)
            elif kind == "secrets":
                pin, password = rest.split(" ")[2:]
                yield Event(kind, dict(fields, pin=pin, password=password.encode().hex()))
            elif kind in ("texts", "lists"):
                parts[key] = [words, numbers[4] if kind == "texts" else None]
            elif kind == "list":
                parts[key].append(words)
            elif kind == "text16" and len(parts[key]) == 2:
                parts[key].append(words)
            elif kind == "text16":
                guid, text, first = parts.pop(key)
                fields["text"] = text.encode("utf-8", "surrogateescape").hex()
                fields["text16"] = text16_hex(words_bytes(first + words, 96))
                fields["guid"] = words_bytes(guid, 16).hex()
                yield Event("texts", fields)
            else:
                blob, _, numbers = parts.pop(key)
                fields["blob"] = words_bytes(blob[1:], blob[0]).hex()
                values = struct.iter_unpack("<I", words_bytes(numbers[1:], 4 * numbers[0]))
                fields["list"] = f"[{' '.join(str(n) for n, in values)}]"
                fields["point"] = points(struct.iter_unpack("<iH", words_bytes(words[:1], 6)))
                fields["points"] = "[" + points(struct.iter_unpack(
                    "<iH", words_bytes(words[2:], 6 * words[1]))) + "]"
                yield Event("lists", fields)


class Perf:
    """Reads numbers, and for all other fields the address and the count."""

    NAMES = {
        "integers": ("writer", "serial", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"),
        "reals": ("writer", "serial", "truth", "letter", "f32", "f64", "pointer", "time",
                  "state"),
        "texts": ("writer", "serial"),
        "lists": ("writer", "serial", "", "blob", "", "list", "", "", "points"),
        "secrets": ("writer", "serial", "", "pin"),
    }

    def __init__(self, folder, pid):
        self.env = dict(os.environ, HOME=folder, PERF_BUILDID_DIR=os.path.join(folder, "perf"))
        self.data = os.path.join(folder, "perf.data")
        self.forget()
        run("perf", "buildid-cache", "--add", HOST, env=self.env)
        for name in sorted(ALL):
            run("perf", "probe", "--add", f"sdt_same:{name}", env=self.env)
        control, acknowledge = os.path.join(folder, "control"), os.path.join(folder, "acknowledge")
        os.mkfifo(control)
        os.mkfifo(acknowledge)
        self.control = open(control, "r+b", buffering=0)
        self.acknowledge = open(acknowledge, "r+b", buffering=0)
        os.set_blocking(self.acknowledge.fileno(), False)
        self.program = Program(["perf", "record", "-m", "1024", "-o", self.data, "-p", str(pid),
                                "-k", "CLOCK_MONOTONIC", "-e", "sdt_same:*",
                                f"--control=fifo:{control},{acknowledge}"],
                               env=self.env)
        self.control.write(b"ping\n")

    def attached(self):
        self.program.said(b"")
        return self.acknowledge.read(16)

    def forget(self):
        subprocess.run(["perf", "probe", "--del", "sdt_same:*"], env=self.env, check=False,
                       stdin=subprocess.DEVNULL, capture_output=True)

    def stop(self):
        try:
            self.program.stop()
        finally:
            self.forget()
            self.control.close()
            self.acknowledge.close()

    def events(self):
        said = b"".join(self.program.err)
        assert b"lost" not in said.lower(), said
        found = []
        for line in run("perf", "script", "-i", self.data, "--ns", "-F", "time,event,trace",
                        env=self.env).splitlines():
            match = re.match(r"\s*(\d+)\.(\d{9}): +sdt_same:(\w+): +\([0-9a-f]+\) ?(.*)",
                             line)
            if not match:
                continue
            seconds, nanoseconds, event, arguments = match.groups()
            values = [int(value.split("=")[1], 0) for value in arguments.split()]
            fields = {"at": seconds + nanoseconds}
            for name, value in zip(self.NAMES[event], values):
                if name == "f32":
                    fields[name] = f"{value & 0xffffffff:08x}"
                elif name == "f64":
                    fields[name] = f"{value & (1 << 64) - 1:016x}"
                elif event == "integers" and name[0] == "i":
                    fields[name] = str(signed(value, int(name[1:])))	# perf omits signs
                elif name == "state":
                    fields[name] = str(signed(value, 32))
                elif name:
                    fields[name] = str(value)
            found.append(Event(event, fields))
        return found

    @staticmethod
    def leave(event):
        """Return the part of an event that perf can report."""
        fields = {name: event.fields[name] for name in Perf.NAMES[event.name] if name}
        if event.name == "lists":
            fields["blob"] = str(len(fields["blob"]) // 2)
            fields["list"] = str(len(fields["list"][1:-1].split()))
            fields["points"] = str(fields["points"].count("x="))
        return Event(event.name, fields)


class Bridge:
    """ringpipe bpf: the batch probe, read by a BPF program."""

    def __init__(self, pid):
        self.program = Program([RINGPIPE, "bpf", "print", "-p", str(pid), "--providers", "Same",
                                "--format=json"])

    def attached(self):
        return self.program.said(b"Attached")

    def stop(self):
        self.output = self.program.stop()

    def events(self):
        said = b"".join(self.program.err)
        assert self.program.process.returncode == 0, said
        found = []
        for line in filter(None, self.output.decode().split("\n")):
            event = json.loads(line)
            if "event" not in event:
                assert not event.get("lost"), line
                continue
            assert event["provider"] == "Same"
            found.append(Event(event["event"], dict(self.fields(event["fields"]),
                                                    at=str(event["time_ns"]))))
        return found

    @staticmethod
    def fields(reported):
        fields = {}
        for name, value in reported.items():
            if name == "f32":
                value = struct.pack(">f", value).hex()
            elif name == "f64":
                value = struct.pack(">d", value).hex()
            elif name == "letter":
                value = ord(value) if value else 0	# NUL is no text
            elif name == "truth":
                value = int(value)
            elif name == "time":
                match = UTC_1970.fullmatch(value)
                day = time.strptime("-".join(match.groups()[:6]), "%Y-%m-%d-%H-%M-%S")
                value = calendar.timegm(day) * 10**9 + int((match[7] or "").ljust(9, "0"))
            elif name in ("text", "text16", "password"):
                value = value.encode().hex()
            elif name == "guid":
                value = value.replace("-", "")
            elif name == "list":
                value = f"[{' '.join(str(number) for number in value)}]"
            elif name == "point":
                value = points([(value["x"], value["y"])])
            elif name == "points":
                value = "[" + points((point["x"], point["y"]) for point in value) + "]"
            fields[name] = str(value)
        return fields


class SameTest(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.missing, cls.consumers = {}, {}
        cls.host = None
        try:
            cls.listen()
            cls.write()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        for consumer in cls.consumers.values():
            try:
                consumer.stop()
            except (AssertionError, OSError, ValueError):
                pass
        if cls.host:
            cls.host.kill()
            cls.host.wait()
            cls.host.stdin.close()
            cls.host.stdout.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def say(cls, word):
        cls.host.stdin.write(word + "\n")
        cls.host.stdin.flush()
        return cls.host.stdout.readline().strip()

    @classmethod
    def why_not(cls):
        """Return what this machine lacks, by consumer."""
        why = {}
        if not LTTNG_MODULE:
            why["lttng"] = "built without the LTTng module"
        elif not shutil.which("lttng-sessiond"):
            why["lttng"] = "no lttng-sessiond"
        else:
            try:
                importlib.import_module("bt2")
            except ImportError:
                why["lttng"] = "no python3-bt2"
        for name, command in (("bpftrace", "bpftrace"), ("perf", "perf")):
            if os.geteuid() != 0:
                why[name] = "probes of the kernel need root"
            elif not shutil.which(command):
                why[name] = "no " + command
            elif not os.path.exists(TRACEFS + "/uprobe_events") and \
                    subprocess.run(["mount", "-t", "tracefs", "nodev", TRACEFS], check=False,
                                   capture_output=True).returncode != 0:
                why[name] = "no tracefs"
        if os.geteuid() != 0:
            why["bridge"] = "BPF needs root"
        elif not BPF_PROGRAM:
            why["bridge"] = "built without ringpipe-bpf"
        return why

    @classmethod
    def listen(cls):
        cls.missing = cls.why_not()
        environment = dict(os.environ, RINGPIPE_LTTNG="0")
        if "lttng" not in cls.missing:
            cls.consumers["lttng"] = lttng = Lttng(cls.folder)
            lttng.start()
            environment = dict(lttng.env, RINGPIPE_LTTNG="1")
        cls.host = subprocess.Popen(
            [HOST, "run", cls.folder, str(EVENTS), str(THREADS), str(secrets.randbits(48))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        # Each consumer alone first, since a session would already have enabled the events.
        if "lttng" not in cls.missing:
            eventually(lambda: set(cls.say("enabled").split()) >= ALL, "events on by LTTng")
        if "bridge" not in cls.missing:
            cls.consumers["bridge"] = bridge = Bridge(cls.host.pid)
            eventually(bridge.attached, "the bridge")
        if "bpftrace" not in cls.missing:
            cls.consumers["bpftrace"] = tracer = Bpftrace(cls.host.pid)
            eventually(tracer.attached, "bpftrace")
        if "perf" not in cls.missing:
            cls.consumers["perf"] = tracer = Perf(cls.folder, cls.host.pid)
            eventually(tracer.attached, "perf")
        assert cls.say("start") == "started"

    @classmethod
    def write(cls):
        assert cls.say("write") == "written"
        cls.lost = cls.say("stop")
        with open(os.path.join(cls.folder, "account"), encoding="ascii") as file:
            lines = [parse(line) for line in file]
        cls.expected = by_writer(event for event in lines if event.name != "when")
        cls.when = {(event.fields["writer"], event.fields["serial"]):
                    (int(event.fields["before"]), int(event.fields["after"]))
                    for event in lines if event.name == "when"}
        for consumer in cls.consumers.values():
            consumer.stop()

    def check(self, events, leave=lambda event: event, within_ns=MADE_NS):
        """Compare thread by thread, one event at a time, for readable failures."""
        reported = by_writer(events)
        self.check_times(reported, within_ns)
        self.assertEqual({writer: len(events) for writer, events in reported.items()},
                         {writer: len(events) for writer, events in self.expected.items()})
        for writer, wrote in self.expected.items():
            for expected, seen in zip(wrote, reported[writer]):
                expected = leave(expected)
                known = {name: value for name, value in seen.fields.items()
                         if name in expected.fields}
                self.assertEqual((seen.name, sorted(known.items())),
                                 (expected.name, sorted(expected.fields.items())))

    def check_times(self, reported, within_ns):
        """All times are between the clock's times before and after the event's write."""
        for event in sum(reported.values(), []):
            at = int(event.fields["at"])
            before, after = self.when[event.fields["writer"], event.fields["serial"]]
            self.assertGreaterEqual(at, before - within_ns, event)
            self.assertLessEqual(at, after + within_ns, event)

    def check_consumer(self, name, **options):
        if name in self.missing:
            self.skipTest(self.missing[name])
        self.check(self.consumers[name].events(), **options)

    def test_expected_values_have_every_type_and_all_serials(self):
        self.assertEqual(sorted(self.expected), list(range(THREADS)))
        for events in self.expected.values():
            self.assertEqual([int(event.fields["serial"]) for event in events],
                             list(range(1, EVENTS // THREADS + 1)))
            self.assertEqual({event.name for event in events}, ALL)

    def test_nothing_was_lost_in_file_and_listener(self):
        self.assertEqual(self.lost, "0 0")

    def test_file_reports_what_was_written(self):
        trace = os.path.join(self.folder, "trace.nettrace")
        self.check(parse(line) for line in run(HOST, "read", trace).splitlines())

    def test_listener_receives_what_was_written(self):
        with open(os.path.join(self.folder, "listener"), encoding="ascii") as reported:
            self.check([parse(line) for line in reported])

    def test_babeltrace2_shows_what_was_written_through_lttng(self):
        self.check_consumer("lttng", leave=Lttng.leave, within_ns=READ_NS)

    def test_bpftrace_sees_what_was_written(self):
        self.check_consumer("bpftrace", within_ns=READ_NS)

    def test_perf_script_shows_the_numbers_that_were_written(self):
        self.check_consumer("perf", leave=Perf.leave, within_ns=READ_NS)

    def test_batch_probe_gives_a_bpf_program_what_was_written(self):
        self.check_consumer("bridge")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
