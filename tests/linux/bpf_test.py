#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe bpf` on a real kernel: BPF sees exactly the events that the process wrote."""
import collections
import csv
import io
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import unittest

import bpf_case
from bpf_case import HOST, BpfTest
from server import socket_path
from tool import PATIENCE, TOOL

SHIM = os.environ["SHIM"]
SANITIZED = os.environ["SANITIZERS"] != "none"
NOBODY = 65534
# CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF
TO_GIVE = 1 << 6 | 1 << 7 | 1 << 21 | 1 << 38 | 1 << 39
PROVIDER = "Bpf-Host"


def level_of(serial):
    return serial % 1000 - 300


def real_of(serial):
    return serial * 0.5 - 10


def bucket_of(value):
    """Return the slot of an integer in a histogram by powers of two."""
    if value == 0:
        return (0, 1)
    power = 1 << (abs(value).bit_length() - 1)
    return (power, 2 * power) if value > 0 else (1 - 2 * power, 1 - power)


class Counting(BpfTest):
    def test_counts_by_event_are_the_process_own(self):
        result = self.watch(["write 1000", "large", "write 234"], "count")
        counts = {event["event"]: event["events"] for event in result["events"]}
        self.assertEqual(counts, {"numbers": 1234, "texts": 1234, "large": 2})
        self.assertEqual({event["provider"] for event in result["events"]}, {PROVIDER})
        self.assertEqual(result["others"], 0)
        self.check_counts(result["stats"], 2470)

    def test_only_providers_that_were_named_are_counted(self):
        result = self.watch(["write 10"], "count", "--allow-missing", "--providers", "Some-Other")
        self.assertEqual(result["events"], [])
        self.check_counts(result["stats"], 0)

    def test_counts_by_the_values_of_a_text(self):
        result = self.watch(["write 103"], "count", "--event", f"{PROVIDER}:texts",
                            "--field", "name")
        wanted = collections.Counter(
            f"customer {i % 5}" if i % 5 < 4 else "x" * 64 + "…" for i in range(103))
        self.assertEqual({row["value"]: row["events"] for row in result["values"]}, wanted)
        self.assertEqual(result["stats"]["matched"], 103)

    def test_counts_by_a_number_after_texts_arrays_and_structs(self):
        for field, value_of in (("mark", lambda i: i - 50), ("at.y", lambda i: -i)):
            result = self.watch(["write 100"], "count", "--event", f"{PROVIDER}:texts",
                                "--field", field)
            self.assertEqual({row["value"]: row["events"] for row in result["values"]},
                             {value_of(i): 1 for i in range(100)})
            self.assertEqual(result["stats"]["without_field"], 0)

    def test_counts_by_a_float_and_a_bool(self):
        for field, value_of in (("single", lambda i: -(i % 7) * 0.25), ("odd", lambda i: i % 2)):
            result = self.watch(["write 100"], "count", "--event", f"{PROVIDER}:numbers",
                                "--field", field)
            self.assertEqual({row["value"]: row["events"] for row in result["values"]},
                             collections.Counter(value_of(i) for i in range(100)))

    def test_values_beyond_the_most_are_reported(self):
        result = self.watch(["write 11000"], "count", "--event", f"{PROVIDER}:numbers",
                            "--field", "serial", "--top", "20000")
        self.assertEqual(sum(row["events"] for row in result["values"]), 10240)
        self.assertEqual(result["stats"]["dropped"], 11000 - 10240)

    def test_a_table_is_for_people(self):
        tool = self.attach("count")
        self.send("write 1234")
        out, error = self.stop(tool)
        self.assertEqual([line.split() for line in out.splitlines()],
                         [["EVENTS", "PROVIDER", "EVENT"], ["1,234", PROVIDER, "numbers"],
                          ["1,234", PROVIDER, "texts"]])
        self.assertRegex(error, r"^2,468 events in [0-9,]+ batch(es)?, 0 lost\n$")

    def test_ends_after_the_duration(self):
        tool = self.attach("count", "-d", "1", "--format=json")
        self.check_counts(json.loads(self.finish(tool, 0)[0])["stats"], 0)

    def test_intermediate_counts_are_reported_by_refresh(self):
        tool = self.attach("count", "--refresh", "1")
        self.send("write 5")
        while b"numbers" not in tool.stdout.readline():
            pass
        self.assertIsNone(tool.poll())
        self.stop(tool)


class Formats(BpfTest):
    def watch_csv(self, command, *arguments):
        """Return the rows of CSV and the object of JSON, from two simultaneous clients."""
        tools = [self.attach(*arguments, "--format", form) for form in ("csv", "json")]
        self.send(command)
        rows, reported = (self.stop(tool)[0] for tool in tools)
        return list(csv.DictReader(io.StringIO(rows), strict=True)), reported

    @staticmethod
    def fields_of(rows):
        return [{key: str(value) for key, value in row.items()} for row in rows]

    def test_counts_are_the_same_in_each_format(self):
        for key, more in (("events", ()),
                          ("values", ("--event", f"{PROVIDER}:texts", "--field", "name"))):
            rows, reported = self.watch_csv("write 1234", "count", *more)
            self.assertEqual(rows, self.fields_of(json.loads(reported)[key]))
            self.assertEqual(sum(int(row["events"]) for row in rows), 2468 if not more else 1234)

    def test_histograms_have_the_same_buckets_in_each_format(self):
        rows, reported = self.watch_csv("write 3000", "histogram", "--event", f"{PROVIDER}:numbers",
                                    "--field", "serial", "--step", "2")
        reported = json.loads(reported)
        self.assertEqual(rows[:-1], self.fields_of(reported["buckets"]))
        self.assertEqual(rows[-1], {"from": "2048", "to": "", "events": str(reported["above"])})

    def test_events_are_the_same_in_each_format(self):
        rows, reported = self.watch_csv("trip", "print", "--event", f"{PROVIDER}:trip")
        reported = json.loads(reported.splitlines()[0])
        self.assertEqual(json.loads(rows[0].pop("fields")), reported.pop("fields"))
        # Each session reads the clock separately.
        self.assertTrue(all(int(row.pop("time_ns")) for row in (rows[0], reported)))
        self.assertEqual(rows, self.fields_of([reported]))


class Histograms(BpfTest):
    def check(self, field, value_of):
        result = self.watch(["write 3000"], "histogram", "--event", f"{PROVIDER}:numbers",
                            "--field", field)
        wanted = collections.Counter(bucket_of(math.trunc(value_of(i))) for i in range(3000))
        self.assertEqual({(row["from"], row["to"]): row["events"] for row in result["buckets"]},
                         wanted)
        self.assertEqual(result["stats"]["matched"], 3000)

    def test_powers_of_two_of_whole_numbers(self):
        self.check("level", level_of)
        self.check("serial", lambda i: i)

    def test_powers_of_two_of_floats(self):
        self.check("real", real_of)
        self.check("single", lambda i: -(i % 7) * 0.25)

    def test_steps(self):
        result = self.watch(["write 3000"], "histogram", "--event", f"{PROVIDER}:numbers",
                            "--field", "level", "--step", "7")
        values = [level_of(i) for i in range(3000)]
        self.assertEqual({(row["from"], row["to"]): row["events"] for row in result["buckets"]},
                         collections.Counter((v // 7 * 7, v // 7 * 7 + 7)
                                             for v in values if v >= 0))
        self.assertEqual(result["below"], sum(v < 0 for v in values))
        self.assertEqual(result["above"], 0)

    def test_what_is_above_the_last_step_is_reported(self):
        result = self.watch(["write 3000"], "histogram", "--event", f"{PROVIDER}:numbers",
                            "--field", "serial", "--step", "2")
        self.assertEqual(sum(row["events"] for row in result["buckets"]), 2048)
        self.assertEqual(result["above"], 3000 - 2048)

    def test_bars_are_for_people(self):
        tool = self.attach("histogram", "--event", f"{PROVIDER}:numbers", "--field", "serial")
        self.send("write 16")
        out, _ = self.stop(tool)
        bars = [line.split("|") for line in out.splitlines()]
        self.assertEqual([bar[0].split() for bar in bars],
                         [["[0,", "1)", "1"], ["[1,", "2)", "1"], ["[2,", "4)", "2"],
                          ["[4,", "8)", "4"], ["[8,", "16)", "8"]])
        self.assertEqual([bar[1].count("@") for bar in bars], [5, 5, 10, 20, 40])


class Printing(BpfTest):
    def lines(self, commands, *arguments):
        tool = self.attach("print", *arguments, "--format=json")
        for command in commands:
            self.send(command)
        *events, last = [json.loads(line) for line in self.stop(tool)[0].splitlines()]
        self.assertEqual(last["stats"]["dropped"], 0)
        self.assertEqual(len(events), last["stats"]["matched"])
        return events

    def test_values_are_those_written(self):
        events = self.lines(["write 40"])
        numbers = [event["fields"] for event in events if event["event"] == "numbers"]
        texts = [event["fields"] for event in events if event["event"] == "texts"]
        self.assertEqual(numbers, [
            {"serial": i, "level": level_of(i), "real": real_of(i), "single": -(i % 7) * 0.25,
             "odd": bool(i & 1), "small": i} for i in range(40)])
        self.assertEqual(texts, [
            {"name": f"customer {i % 5}" if i % 5 < 4 else "x" * 79, "wide": "wïde €",
             "blob": "0102ff"[:2 * (i % 4)], "list": [7, 8, 9][:i % 3 + 1],
             "at": {"x": i, "y": -i}, "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}][:i % 2 + 1],
             "mark": i - 50} for i in range(40)])

    def test_events_come_in_the_order_of_time_with_thread_and_names(self):
        events = self.lines(["write 100"])
        times = [event["time_ns"] for event in events]
        self.assertEqual(times, sorted(times))
        self.assertEqual({(event["provider"], event["thread_id"]) for event in events},
                         {(PROVIDER, self.pid)})
        self.assertEqual([event["event"] for event in events], ["numbers", "texts"] * 100)
        self.assertEqual({(event["event"], event["id"]) for event in events},
                         {("numbers", 1), ("texts", 2)})

    def test_json_events_are_printed_with_their_members_and_counted_by_their_source(self):
        event = ("--event", f"{PROVIDER}:json_warning")
        result = self.watch(["json 101"], "count", *event, "--field", "source")
        self.assertEqual([row["events"] for row in result["values"]], [51, 50])
        events = self.lines(["json 20"], *event)
        self.assertEqual([event["fields"] for event in events],
                         [{"source": ("even", "odd")[i % 2], "order": i, "name": "€", "none": None,
                           "at": {"rows": [[1, 2], [3]]}} for i in range(20)])

    def test_only_the_event_that_was_named(self):
        events = self.lines(["write 10", "trip"], "--event", f"{PROVIDER}:trip")
        self.assertEqual([(event["event"], event["fields"]) for event in events],
                         [("trip", {"mark": 5})])

    def test_the_session_has_only_the_event_that_was_named(self):
        for providers in ([], ["--providers", f"*,{PROVIDER}:ffff:5"]):
            result = self.watch(["write 10", "trip"], "count", "--event", f"{PROVIDER}:trip",
                                "--field", "mark", *providers)
            self.check_counts(result["stats"], 1)
        self.assertIn("--providers leaves out the provider of --event", self.refuse(
            "print", "-p", self.pid, "--event", f"{PROVIDER}:trip", "--providers", "ringpipe"))

    def test_activity_ids_come_along(self):
        event, = self.lines(["trip"])
        self.assertEqual(event["activity"], "01020304-0506-0708-090a-0b0c0d0e0f10")
        self.assertEqual(event["related_activity"], "100f0e0d-0c0b-0a09-0807-060504030201")

    def test_invalid_text_is_replaced_as_everywhere(self):
        # As in .NET and Unicode: one U+FFFD for the longest incomplete beginning of a character.
        replaced = "\ufffda\ufffdb\u00e9\ufffd\ufffd\ufffd\ufffd\ufffd"
        event, = self.lines(["broken"], "--event", f"{PROVIDER}:texts")
        self.assertEqual((event["fields"]["name"], event["fields"]["wide"]),
                         (replaced, "\ufffda"))
        result = self.watch(["broken"], "count", "--event", f"{PROVIDER}:texts", "--field", "name")
        self.assertEqual([row["value"] for row in result["values"]], [replaced])
        trace = self.path("trace")
        tool = self.start("collect", "-p", self.pid, "--providers", PROVIDER, "-o", trace)
        self.send("await")
        self.send("broken")
        self.stop(tool)
        rows = self.run_tool("report", trace, "events", "--format=json")[0].splitlines()
        reported = [json.loads(row) for row in rows if '"texts"' in row]
        self.assertEqual([event["fields"]["name"] for event in reported], [replaced])

    def test_text_is_for_people(self):
        tool = self.attach("print", "--event", f"{PROVIDER}:trip")
        self.send("trip")
        out, _ = self.stop(tool)
        self.assertRegex(out, rf'^\d+\.\d{{9}} {self.pid} {PROVIDER}:trip {{"mark":5}}\n$')

    def test_a_payload_longer_than_a_batch_is_cut_and_reported(self):
        tool = self.attach("print", "--format=json")
        self.send("large")
        long, short, last = [json.loads(line) for line in self.stop(tool)[0].splitlines()]
        self.assertEqual(short["fields"], {"blob": "00" * 100, "behind": 2})
        self.assertNotIn("behind", long["fields"])
        self.assertTrue(long["fields"]["…truncated"])
        self.assertEqual(last["stats"]["cut"], 1)

    def test_a_field_that_was_cut_off_is_reported(self):
        result = self.watch(["large"], "count", "--event", f"{PROVIDER}:large",
                            "--field", "behind")
        self.assertEqual([row["value"] for row in result["values"]], [2])
        self.assertEqual(result["stats"]["without_field"], 1)


class Volume(BpfTest):
    def test_a_million_events_a_second_are_seen_or_reported_lost(self):
        count = 1000000
        result = self.watch([f"rate {count} {count}"], "count")
        self.assertEqual([event["events"] for event in result["events"]],
                         [result["stats"]["delivered"]])
        self.check_counts(result["stats"], count)

    def test_what_a_stopped_client_loses_is_reported(self):
        tool = self.attach("count", "--format=json", "--buffer", "1")
        self.freeze(tool)
        self.send("rate 100000 100000000")
        tool.send_signal(signal.SIGCONT)
        result = json.loads(self.stop(tool)[0])
        self.check_counts(result["stats"], 100000)
        self.assertGreater(result["stats"]["lost"], 0)
        self.assertGreater(result["stats"]["seen"], 0)

    def test_two_simultaneous_ones_each_see_all(self):
        one = self.attach("count", "--format=json")
        self.send("trip")
        two = self.attach("count", "--format=json")
        self.send("write 500")
        for tool, trips in ((one, 1), (two, 0)):
            result = json.loads(self.stop(tool)[0])
            self.check_counts(result["stats"], 1000 + trips)
            self.assertEqual({event["event"]: event["events"] for event in result["events"]},
                             {"numbers": 500, "texts": 500, **({"trip": 1} if trips else {})})


class Permission(BpfTest):
    """An unprivileged user with only some capabilities."""

    def setUp(self):
        super().setUp()
        if os.getuid() == 0 and subprocess.run(["test", "-x", HOST], check=False, user=NOBODY,
                                               group=NOBODY, extra_groups=[]).returncode != 0:
            self.skipTest("the build is closed to the user nobody")
        self.own = self.start_host(user=NOBODY, group=NOBODY, extra_groups=[])

    def with_capabilities(self, *capabilities):
        """Return the exit status and the output for a process of the same user."""
        names = ",".join(["-all", *(f"+{name}" for name in capabilities)])
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                               "--clear-groups", f"--inh-caps={names}", f"--ambient-caps={names}",
                               TOOL, "bpf", "count", "-p", str(self.own[1]), "-d", "1"],
                              env=self.environment, check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=PATIENCE)
        return done.returncode, done.stderr.decode()

    def test_ordinary_user_gets_the_name_of_the_missing_capability(self):
        error = self.refuse("count", "-p", self.own[1], user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertIn("no permission to load BPF programs: be root, or have the capability "
                      "CAP_SYS_ADMIN\n", error)

    def test_the_capability_that_is_reported_is_enough_and_less_is_reported(self):
        with open("/proc/self/status", encoding="utf-8") as status:
            held = int(re.search(r"CapEff:\s(\w+)", status.read())[1], 16)
        if held & TO_GIVE != TO_GIVE or not shutil.which("setpriv"):
            self.skipTest("no capabilities to give")
        for fewer in ((), ("bpf",), ("perfmon",), ("bpf", "perfmon")):
            status, error = self.with_capabilities(*fewer)
            # Some kernels accept the last set of capabilities.
            if status != 0 or fewer != ("bpf", "perfmon"):
                self.assertEqual(status, 1, error)
                self.assertIn("be root, or have the capability CAP_SYS_ADMIN\n", error)
        status, error = self.with_capabilities("sys_admin")
        self.assertEqual(status, 0, error)
        self.assertIn("0 lost", error)


class Refusals(BpfTest):
    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_the_verifier_is_quoted(self):
        self.environment.update(LD_PRELOAD=SHIM, BPF_SHIM="refuse")
        error = self.refuse("count", "-p", self.pid)
        self.assertIn("the kernel's verifier refuses the BPF program", error)
        self.assertRegex(error, "invalid.* R10|stack")
        self.assertNotIn("processed ", error)

    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_a_kernel_without_bpf_is_reported(self):
        self.environment.update(LD_PRELOAD=SHIM, BPF_SHIM="none")
        self.assertIn("this kernel has no BPF", self.refuse("count", "-p", self.pid))

    @unittest.skipIf(SANITIZED, "a sanitizer wants to be preloaded first")
    def test_others_trace_on_while_it_is_refused(self):
        trace = self.path("trace")
        beside = self.start("collect", "-p", self.pid, "--providers", PROVIDER, "-o", trace)
        self.send("await")
        for wish in ("refuse", "none"):
            self.environment.update(LD_PRELOAD=SHIM, BPF_SHIM=wish)
            self.refuse("count", "-p", self.pid)
        del self.environment["LD_PRELOAD"]
        self.send("write 50")
        self.stop(beside)
        report = json.loads(self.run_tool("report", "--format=json", trace)[0])
        provider, = [one for one in report["providers"] if one["provider"] == PROVIDER]
        self.assertEqual({kind["event"]: kind["events"] for kind in provider["kinds"]},
                         {"numbers": 50, "texts": 50})
        self.assertEqual(report["lost"], 0)

    def test_tracing_goes_on_after_a_refusal(self):
        self.refuse("count", "-p", self.pid, "--event", "nonsense", status=2)
        self.check_counts(self.watch(["write 5"], "count")["stats"], 10)

    def test_a_process_that_is_not_there(self):
        self.reap(self.host)
        self.assertIn(f"{self.pid}", self.refuse("count", "-p", self.pid))

    def test_an_event_that_does_not_come(self):
        error = self.refuse("count", "-p", self.pid, "--event", f"{PROVIDER}:nothing")
        self.assertIn(f"event {PROVIDER}:nothing; its provider has:\nringpipe:     numb", error)
        self.run_tool("counters", "collect", "-p", self.pid, "-d", "1")  # creates EventCounters
        error = self.refuse("count", "-p", self.pid, "--event", "System.Runtime:nothing")
        self.assertNotIn("EventCounters", error)
        error = self.refuse("print", "-p", self.pid, "--providers", "Bpf-Hoast")
        self.assertIn(f"no provider 'Bpf-Hoast'; it has: {PROVIDER}, ", error)
        tool = self.attach("count", "--event", f"{PROVIDER}:nothing", "--field", "x",
                           "--allow-missing")
        self.send("write 5")
        _, error = self.stop(tool, 1)
        self.assertIn(f"wrote no event {PROVIDER}:nothing", error)

    def test_a_field_that_is_not_there(self):
        tool = self.attach("histogram", "--event", f"{PROVIDER}:numbers", "--field", "weight")
        self.send("write 5")
        _, error = self.finish(tool, 1)
        self.assertIn("has no field 'weight'", error)
        self.assertIn("serial", error)

    def test_a_field_that_is_no_number(self):
        tool = self.attach("histogram", "--event", f"{PROVIDER}:texts", "--field", "name")
        self.send("write 5")
        _, error = self.finish(tool, 1)
        self.assertIn("'name' has a type that BPF cannot make a histogram of", error)

    def test_wrong_usage(self):
        event = f"{PROVIDER}:numbers"
        for arguments, said in (
                (["count"], "give one of PID, -p PID and -n NAME"),
                (["draw", "-p", self.pid], "unknown command 'bpf draw'"),
                (["histogram", "-p", self.pid], "histogram requires --event and --field"),
                (["count", "-p", self.pid, "--field", "x"], "--field requires --event"),
                (["print", "-p", self.pid, "--event", event, "--field", "x"],
                 "unknown option --field"),
                (["count", "-p", self.pid, "--step", "5"], "unknown option --step"),
                (["count", "-p", self.pid, "--event", "x"], "requires PROVIDER:EVENT"),
                (["count", "-p", self.pid, "--event", 300 * "n" + ":x"],
                 "--event: a name has up to 255 bytes"),
                (["count", "-p", self.pid, "--event", "x:" + 300 * "n"],
                 "--event: a name has up to 255 bytes"),
                (["count", "-p", self.pid, "--providers", 300 * "n"],
                 "--providers: a name has up to 255 bytes")):
            self.assertIn(said, self.refuse(*arguments, status=2))

    def test_a_process_that_dies_is_reported_with_what_was_seen(self):
        tool = self.attach("count", "--refresh", "1")
        self.send("write 1000")
        line = b"nothing seen yet"
        while line and b"numbers" not in line:
            line = tool.stdout.readline()
        self.host.kill()
        out, error = self.finish(tool, 1)
        self.assertIn(f"process {self.pid} ended", error)
        self.assertIn("numbers", out)

    def test_a_process_that_ends_is_seen_to_its_end(self):
        tool = self.attach("count", "--format=json")
        self.send("write 100")
        self.host.stdin.close()
        self.assertEqual(self.host.wait(PATIENCE), 0)
        self.check_counts(json.loads(self.finish(tool, 0)[0])["stats"], 200)


class Foreign(BpfTest):
    """A client other than `ringpipe`."""

    def connect(self):
        import socket
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(socket_path(self.directory, self.pid))
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def request():
        def text(value):
            return struct.pack("<I", len(value) + 1) + (value + "\0").encode("utf-16-le")
        payload = struct.pack("<IIQBI", 1, 1, 0, 0, 1) + struct.pack("<QI", 2**64 - 1, 5)
        payload += text(PROVIDER) + text("")
        return b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20 + len(payload), 0x52, 5, 0) + payload

    def read(self, connection, size):
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            self.assertTrue(part, "the connection ended")
            data += part
        return data

    def begin(self):
        connection = self.connect()
        connection.sendall(self.request())
        head = self.read(connection, 20)
        self.assertEqual(head[16:18], b"\xff\x00")
        session, address = struct.unpack("<QQ", self.read(connection, 16))
        self.assertTrue(session and address)
        return connection

    def test_events_alone_wait_for_the_answer(self):
        connection = self.begin()
        self.send("write 10")
        kind, size = struct.unpack("<II", self.read(connection, 8))
        self.assertEqual(kind, 1)
        definition = self.read(connection, size)
        self.assertEqual(struct.unpack_from("<II", definition), (0, 1))
        self.check_counts(self.watch(["write 10"], "count")["stats"], 20)
        connection.sendall(b"\1")
        kind, size = struct.unpack("<II", self.read(connection, 8))
        while kind == 2:
            self.read(connection, size)
            kind, size = struct.unpack("<II", self.read(connection, 8))
        self.assertEqual(kind, 1)

    def test_more_answers_than_questions_end_the_session(self):
        connection = self.begin()
        connection.sendall(b"\1" * 100)
        self.send("write 10")
        try:
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            pass
        self.check_counts(self.watch(["write 10"], "count")["stats"], 20)


if __name__ == "__main__":
    bpf_case.main()
