#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe record reads what programs without ringpipe publish for OpenTelemetry's profilers: the
trace ids of threads and the attributes of processes, as OTEPs 4947 and 4719 say. The writers work
for one request in one function, so the stacks say which samples have to have which id."""
import json
import os
import subprocess
import unittest

import record_case
from record_case import PATIENCE, TOOL, Case, in_one_of_three, lacks_bpf

WRITERS = [line.split() for line in os.environ["CONTEXT_WRITERS"].splitlines()]
REQUESTS = {"11" * 16: "request_one", "22" * 16: "request_two"}
UNKNOWN = "33" * 16


def length_of(size):
    return bytes([size]) if size < 128 else bytes([size & 127 | 128]) + length_of(size >> 7)


def field(number, content):
    """Return a field of Protocol Buffers with bytes."""
    return bytes([number << 3 | 2]) + length_of(len(content)) + content


def attribute(key, value):
    """Return an attribute of a resource; `value` is a text, or the bytes of a message AnyValue."""
    value = field(1, value.encode()) if isinstance(value, str) else value
    return field(1, field(1, key.encode()) + field(2, value))


def number_at(content, at):
    """Return the number at a place, and the place after it."""
    number = shift = 0
    while True:
        number |= (content[at] & 127) << shift
        shift += 7
        at += 1
        if content[at - 1] < 128:
            return number, at


def inner(content, wanted):
    """Yield the contents of the fields with a number."""
    at = 0
    while at < len(content):
        tag, at = number_at(content, at)
        if tag & 7 == 2:
            size, at = number_at(content, at)
            if tag >> 3 == wanted:
                yield content[at:at + size]
            at += size
        elif tag & 7 == 1:
            at += 8
        else:
            _, at = number_at(content, at)


def resources_of(profiles):
    """Return the attributes of each resource of OTLP profiles. A value is a text, or the bytes of a
    message AnyValue."""
    for profile in inner(profiles, 1):
        for resource in inner(profile, 1):
            yield {next(inner(row, 1)).decode():
                   next((text.decode() for text in inner(value, 1)), value)
                   for row in inner(resource, 1) for value in inner(row, 2)}


def run(*arguments, status=0):
    done = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=PATIENCE, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


class Contexts(Case):
    def setUp(self):
        super().setUp()
        self.message = self.trace + ".message"
        self.write_message(attribute("service.name", "foreign"),
                           attribute("deployment.environment.name", "t\u00e9st"),
                           attribute("replicas", b"\x18\x05"))

    def write_message(self, *attributes):
        with open(self.message, "wb") as file:
            file.write(field(1, b"".join(attributes)))

    def record_writer(self, writer, *options, ms=2000, recorder=()):
        done = self.record("-f", "--providers", "none", *recorder, "--", *writer,
                           "-c", self.message, "-t", str(ms), *options)
        if lacks_bpf(done.stderr):
            self.skipTest("the kernel loads no BPF programs")
        return done

    def rows(self, *words):
        return json.loads(run("report", "--format", "json", self.trace, *words))

    def events(self, where):
        done = run("report", "--format", "json", self.trace, "events", "--where", where)
        return [json.loads(line) for line in done.splitlines()]

    def attributes(self):
        return {event["fields"]["key"]: event["fields"]["value"]
                for event in self.events('event == "ProcessAttribute"')}

    def labelled(self, trace_id):
        """Return, for samples and for waits with the id, the inclusive shares of functions."""
        where = f'trace_id == "{trace_id}"'
        # Only the first request sleeps.
        kinds = ("cpu", "offcpu") if REQUESTS[trace_id] == "request_one" else ("cpu",)
        return [{row["function"]: row["inclusive_share"]
                 for row in self.rows(kind, "--top", "100", "--where", where)}
                for kind in kinds]

    def check_labels(self):
        for trace_id, function in REQUESTS.items():
            for shares in self.labelled(trace_id):
                # No function but that of the request has the id.
                self.assertEqual(shares[function], 1)
                for other in ("without_request", *REQUESTS.values()):
                    self.assertTrue(other == function or other not in shares, shares)

    @in_one_of_three
    def test_samples_and_waits_have_the_ids_that_threads_publish(self):
        for writer in WRITERS:
            with self.subTest(writer=os.path.basename(writer[0])):
                self.record_writer(writer)
                self.check_labels()
                self.assertEqual(run("report", self.trace, "cpu", "--where",
                                     f'trace_id == "{UNKNOWN}"', status=1), "")

    @in_one_of_three
    def test_most_samples_of_a_request_have_its_id(self):
        self.record_writer(WRITERS[0], ms=3000)
        counts = {row["function"]: row["inclusive_samples"]
                  for row in self.rows("cpu", "--top", "1000")}
        labelled = {row["function"]: row["inclusive_samples"]
                    for row in self.rows("cpu", "--top", "100", "--where",
                                         f'trace_id == "{"22" * 16}"')}
        # The recorder notes a new program after some hundred milliseconds.
        self.assertGreaterEqual(labelled["request_two"], 0.5 * counts["request_two"])

    @in_one_of_three
    def test_explain_divides_the_time_of_a_request_without_events(self):
        self.record_writer(WRITERS[0], recorder=["--off-cpu", "0"])
        for trace_id, function in REQUESTS.items():
            runs = json.loads(run("explain", self.trace, "--id", trace_id, "--format", "json"))
            self.assertTrue(runs)
            self.assertEqual({row["trace_id"] for row in runs}, {trace_id})
            self.assertEqual(len({row["thread_id"] for row in runs}), 1)
            for row in runs:
                self.assertEqual(sum(row["parts_ns"].values()), row["duration_ns"])
            self.assertGreater(sum(row["parts_ns"]["program"] for row in runs), 0)
            self.assertIn(function, run("explain", self.trace, "--id", trace_id))
            slept = [row for row in runs if row["parts_ns"]["sleep"]]
            # Only the first request sleeps.
            self.assertEqual(bool(slept), function == "request_one")
        run("explain", self.trace, "--id", UNKNOWN, status=1)
        run("explain", self.trace, "--id", "11" * 16, "--span", "other", status=1)

    @in_one_of_three
    def test_system_calls_have_the_ids(self):
        self.record_writer(WRITERS[1], recorder=["--kernel", "sched,syscalls", "--off-cpu", "0"])
        calls = self.events(f'event == "Syscall" and trace_id == "{"11" * 16}"')
        self.assertEqual({call["fields"]["name"] for call in calls}, {"clock_nanosleep"})
        self.assertFalse(self.events(f'event == "Syscall" and trace_id == "{"22" * 16}" and '
                                     'name == "clock_nanosleep"'))

    def test_attributes_of_the_process_are_in_the_trace_and_in_otlp(self):
        self.record_writer(WRITERS[0], ms=500)
        self.assertEqual(self.attributes(), {
            "service.name": "foreign", "deployment.environment.name": "t\u00e9st",
            "replicas": "5"})
        profiles = self.trace + ".otlp"
        run("convert", "-f", "--to", "otlp-profiles", "-o", profiles, self.trace)
        with open(profiles, "rb") as file:
            resources = list(resources_of(file.read()))
        self.assertEqual({resource.pop("process.pid")[:1] for resource in resources}, {b"\x18"})
        self.assertIn({"service.name": "foreign", "deployment.environment.name": "t\u00e9st",
                       "replicas": b"\x18\x05", "host.name": os.uname().nodename}, resources)
        self.assertEqual({resource["host.name"] for resource in resources},
                         {os.uname().nodename})

    def test_ten_thousand_attributes_are_limited(self):
        self.write_message(*[attribute(f"key{number}", "v" * 20) for number in range(10_000)])
        self.record_writer(WRITERS[0], ms=500)
        attributes = self.attributes()
        self.assertEqual(len(attributes), 1024)
        self.assertEqual(attributes["key0"], "v" * 20)

    def test_contexts_that_lie_are_left_out(self):
        for lie in ("pointer", "cut", "invalid", "address", "bytes", "version", "unfinished",
                    "header"):
            with self.subTest(lie=lie):
                self.record_writer(WRITERS[0], "-x", lie, ms=400)
                is_of_thread = lie in ("pointer", "cut", "invalid")
                self.assertEqual(bool(self.attributes()), is_of_thread)
                if is_of_thread:
                    for trace_id in REQUESTS:
                        self.assertFalse(self.events(f'trace_id == "{trace_id}"'))

    def test_attributes_that_change_all_the_time_are_whole(self):
        self.record_writer(WRITERS[0], "-x", "restless", ms=800)
        found = self.events('event == "ProcessAttribute"')
        times = {}
        for event in found:
            times.setdefault(event["fields"]["published_ns"], []).append(event["fields"]["key"])
        for keys in times.values():
            self.assertEqual(sorted(keys),
                             ["deployment.environment.name", "replicas", "service.name"])

    def test_processes_that_end_immediately_do_no_harm(self):
        writer = " ".join(WRITERS[0])
        loop = f"for i in 1 2 3 4 5 6 7 8 9 10; do {writer} -t 5 -c {self.message} & done; wait"
        done = self.record("-f", "--providers", "none", "--", "sh", "-c", loop)
        self.assertNotIn("cannot", done.stderr)

    @in_one_of_three
    def test_the_ids_of_a_program_that_replaced_another_are_found(self):
        done = self.record("-f", "--providers", "none", "--", "sh", "-c",
                           f"exec {' '.join(WRITERS[1])} -t 2000 -c {self.message}")
        if lacks_bpf(done.stderr):
            self.skipTest("the kernel loads no BPF programs")
        self.check_labels()


if __name__ == "__main__":
    record_case.require_recorder()
    unittest.main()
