#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The LTTng provider that `ringpipe gen --to lttng` generates: a session of a real daemon records
each event with the values that were passed to its function, and babeltrace2 reads them.

Environment: that of gen_test.py. The reader is a module for Debian's own Python.
"""
import os
import shutil
import struct
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../linux")]
# pylint: disable=wrong-import-position
import manifest_oracle
from gen_test import ALL_TYPES, CLR, LIBRARY, SANITIZERS, GenTest
from lttng_daemon import Daemon, user
from lttng_trace import bt2, read
from tool import run_tests

HEADER = "lttng/tracepoint.h"
BYTES = ("win:Binary", "win:SID", "win:CountedBinary")
TEXTS = ("win:UnicodeString", "win:AnsiString", "win:CountedUnicodeString",
         "win:CountedAnsiString")


def numbers(field, value):
    """Return the integers that LTTng has for one element of an array."""
    if field.type in ("win:Float", "win:Double"):
        kind = "fI" if field.type == "win:Float" else "dQ"
        return list(struct.unpack("<" + kind[1], struct.pack("<" + kind[0], value)))
    if field.type == "win:GUID":
        return list(value.bytes)
    if field.type == "win:SYSTEMTIME":
        return list(struct.unpack("<8H", value))
    return [int(value)]


def expected(field, value):
    """Return the value of LTTng's field for the value of a manifest's field."""
    if field.type == "struct" or (isinstance(value, list) and field.type in TEXTS):
        return list(manifest_oracle.encode(field, value))
    if isinstance(value, list):
        return [number for each in value for number in numbers(field, each)]
    if field.type in BYTES:
        return list(value)
    if field.type in (*TEXTS, "win:Float", "win:Double"):
        return value
    if field.type in ("win:GUID", "win:SYSTEMTIME"):
        return numbers(field, value)
    return int(value)


class LttngCase(GenTest):
    def setUp(self):
        super().setUp()
        self.daemon = Daemon()
        self.addCleanup(self.daemon.stop)
        self.daemon.start()

    def object(self, name, options):
        built = self.path(f"{name}.o")
        subprocess.run([*os.environ["CC"].split(), "-std=gnu11", *options,
                        "-I" + os.environ["HEADERS"], "-I" + self.path("out"), "-c",
                        self.path(f"out/{name}.c"), "-o", built], check=True)
        return built

    def build(self, manifest, macro=True):
        """Build a program that writes each event once. Return the events."""
        stem = self.generate(manifest, "--to", "lttng")
        events = manifest_oracle.read(manifest)
        self.write("out/fire_all.c", manifest_oracle.program(stem + ".h", events).encode())
        options = [f"-D{stem.upper()}_LTTNG"] if macro else []
        self.link(*(self.object(name, options) for name in (stem, stem + "_lttng", "fire_all")),
                  "-llttng-ust", "-ldl")
        return events

    def trace(self, *options, **environment):
        """Run the program while an LTTng session has its events. Return those that it recorded."""
        path = os.path.join(self.daemon.home, "trace")
        self.daemon.run("create", "all", f"--output={path}")
        self.daemon.run("enable-event", "--userspace", *(options or ["--all"]))
        self.daemon.run("start")
        program = shutil.copy(self.path("fire"), self.daemon.home)
        done = subprocess.run([program], cwd=self.daemon.home, check=False, timeout=120,
                              stderr=subprocess.PIPE, **user(),
                              env={**self.daemon.environment, "RINGPIPE_LTTNG": "0",
                                   **environment})
        self.daemon.run("destroy")
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))
        return [event for event in read(path) if not event.name.startswith("lttng_ust_")]

    def check(self, events, found):
        self.assertEqual([f"{event.prefix}:{event.symbol}" for event in events],
                         [event.name for event in found])
        for event, recorded in zip(events, found):
            with self.subTest(event=event.symbol):
                for field in event.fields:
                    name = field.name + ("_" if field.name == "class" else "")
                    self.assertEqual(recorded.fields[name],
                                     expected(field, event.values[field.name]), name)
                keywords = f"{event.keywords:#x}" if event.keywords else "0"
                self.assertEqual(recorded.uri, f"ringpipe:id={event.id};version={event.version};"
                                 f"level={event.level};opcode={event.opcode};keywords={keywords}")


class LttngProvider(LttngCase):
    def test_lttng_records_the_values_of_every_type_and_enables_the_events(self):
        # The program fails if an event's function states that the event is not enabled.
        self.check(self.build(ALL_TYPES), self.trace())

    def test_one_call_fires_the_tracepoint_and_writes_the_event_of_ringpipe(self):
        events = self.build(ALL_TYPES)
        trace = os.path.join(self.daemon.home, "fired.nettrace")
        self.check(events, self.trace(RINGPIPE_CONFIG="Test-Gen:ffffffffffffffff:5",
                                      RINGPIPE_OUTPUT=trace))
        out, _ = self.run_tool("report", trace, "events")
        for event in events:
            self.assertIn(f"Test-Gen/{event.symbol}", out)

    def test_a_program_without_the_macro_fires_no_tracepoint(self):
        self.build(ALL_TYPES, macro=False)
        self.assertEqual(self.trace(RINGPIPE_CONFIG="Test-Gen:ffffffffffffffff:5",
                                    RINGPIPE_OUTPUT="fired.nettrace"), [])

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    def test_the_function_of_cmake_adds_the_provider(self):
        events = manifest_oracle.read(ALL_TYPES)
        self.write("fire_all.c", manifest_oracle.program("all_types.h", events).encode())
        shutil.copy(ALL_TYPES, self.directory)
        self.write("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.16)
project(fire C)
set(RINGPIPE_COMMAND "{os.path.abspath(os.environ['RINGPIPE'])}")
include("{os.path.join(HERE, '../../cmake/ringpipeGenerate.cmake')}")
add_executable(fire fire_all.c)
target_include_directories(fire PRIVATE "{os.environ['HEADERS']}")
target_link_libraries(fire PRIVATE "{LIBRARY}")
ringpipe_generate(fire LTTNG all_types.man)
""".encode())
        for command in (["-S", ".", "-B", "."], ["--build", "."]):
            subprocess.run(["cmake", *command], cwd=self.directory, check=True,
                           stdout=subprocess.DEVNULL)
        self.check(events, self.trace())

    def test_the_log_level_is_the_level_of_the_event(self):
        events = self.build(ALL_TYPES)
        found = self.trace("test_gen:*", "--loglevel=WARNING",
                           RINGPIPE_CONFIG="Test-Gen:ffffffffffffffff:5",
                           RINGPIPE_OUTPUT="fired.nettrace")
        self.assertEqual([event.name for event in found],
                         [f"test_gen:{event.symbol}" for event in events if event.level <= 3])

    def test_the_provider_has_no_warning_in_c_and_in_cxx(self):
        stem = self.generate(ALL_TYPES, "--to", "lttng")
        for language in ("c", "c++"):
            for name in (stem, stem + "_lttng"):
                self.compile(name, "-DALL_TYPES_LTTNG", language=language)


@unittest.skipUnless(os.path.exists(CLR), "RINGPIPE_TEST_DATA has no manifest")
class LttngClr(LttngCase):
    def test_lttng_records_every_event_of_the_clr(self):
        events = self.build(CLR)
        self.assertEqual(len(events), 384)
        self.check(events, self.trace())


def skip_reason():
    if bt2 is None:
        return "no module bt2 for this Python (python3-bt2)"
    for program in ("lttng", "lttng-sessiond", "babeltrace2"):
        if not shutil.which(program):
            return f"no {program} (lttng-tools, babeltrace2)"
    if SANITIZERS != "none":
        return "LTTng-UST's own threads and locks would be reported, too"
    found = subprocess.run([*os.environ["CC"].split(), "-E", "-x", "c", "-"], check=False,
                           input=f"#include <{HEADER}>\n".encode(), stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    if found.returncode != 0:
        return f"no {HEADER} (liblttng-ust-dev)"
    if subprocess.run(["test", "-r", LIBRARY], check=False, **user()).returncode != 0:
        return "the build is closed to the user nobody"
    return None


if __name__ == "__main__":
    REASON = skip_reason()
    if REASON:
        print(REASON)
        sys.exit(77)
    run_tests()
