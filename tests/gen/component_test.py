#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The code of `ringpipe gen --to component`: a component that does not link the library writes
each event of a manifest through its host, and the trace has the values. Builds with the stub write
nothing.

Environment: that of gen_test.py.
"""
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
# pylint: disable=wrong-import-position
import manifest_oracle
from gen_test import ALL_TYPES, CLR, EXTRA, LIBRARY, GenTest, PayloadTrace
from tool import PATIENCE, run_tests

MANIFEST = """<instrumentationManifest
 xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>
<provider name="Test-Two" guid="{20000000-0000-0000-0000-000000000002}" symbol="TWO">
<templates><template tid="n"><data name="n" inType="win:UInt32"/></template>
<template tid="wide"><data name="n" inType="win:UInt64"/></template>
<template tid="many"><struct name="items" count="1"><data name="n" inType="%s"/></struct>
</template></templates>
<events>%s</events>
</provider></events></instrumentation></instrumentationManifest>
"""
EVENT = '<event value="{0}" symbol="{1}" level="win:Informational" template="{2}"/>'


class ComponentCase(GenTest):
    maxDiff = None

    def source(self, name, text, folder="out"):
        self.write(f"{folder}/{name}.c", text.encode())

    def build_component(self, stem, events, language="c", folder="out"):
        """Build a library that does not link ringpipe."""
        self.source("component", manifest_oracle.component(events), folder)
        options = [f'-DCOMPONENT="{stem}_component.h"', "-fPIC", "-O2"]
        objects = [self.compile(name, *options, language=language, folder=folder)
                   for name in (f"{stem}_component", "component")]
        strict = [] if EXTRA else ["-Wl,-z,defs"]
        subprocess.run([*os.environ["CC"].split(), *EXTRA, "-shared", *strict, "-o",
                        self.path("component.so"), *objects], check=True)

    def build_host(self, stem, events, language="c"):
        self.source("host", manifest_oracle.component_host(f"{stem}_component_host.h", events))
        self.link(*(self.compile(name, "-O2", language=language)
                    for name in (stem, f"{stem}_component_host", "host")), "-ldl")

    def run_host(self, **environment):
        done = subprocess.run([self.path("fire"), self.path("component.so")], timeout=PATIENCE,
                              env={**self.environment, **environment}, check=False,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.stderr.decode(), "")
        return done.returncode

    def record(self, events):
        """Return the events of the manifest's providers that the component wrote, and how many
        were off."""
        off = self.run_host(RINGPIPE_CONFIG="*:ffffffffffffffff:5",
                            RINGPIPE_OUTPUT=self.path("fired.nettrace"))
        providers = {event.provider for event in events}
        trace = PayloadTrace(self.read("fired.nettrace"))
        return off, [event for event in trace.events if event["provider"] in providers]

    def check_component(self, manifest, language="c"):
        stem = self.generate(manifest, "--to", "component")
        events = manifest_oracle.read(manifest)
        self.build_component(stem, events, language)
        self.build_host(stem, events, language)
        off, found = self.record(events)
        self.assertEqual(off, 0)
        self.assertEqual(
            [(event.provider, event.id, event.version, event.payload()) for event in events],
            [(event["provider"], event["id"], event["version"], event["payload"])
             for event in found])
        # Without a session, every event is off.
        self.assertEqual(self.run_host(), min(len(events), 253))
        return events

    def check_stub(self, manifest):
        stem = self.generate(manifest, "--to", "component")
        events = manifest_oracle.read(manifest)
        self.source("component", manifest_oracle.component(events))
        self.source("main", "int fire_all(void);\nint main(void)\n{\n\treturn fire_all() != "
                            f"{len(events)};\n}}\n")
        for language in ("c", "c++"):
            built = self.compile("component", f'-DSTUB="{stem}_component_stub.h"',
                                 "-Wno-unused-function", language=language)
            # The object needs no function at all, at any level of optimisation.
            subprocess.run([*os.environ["CC"].split(), *EXTRA, self.compile("main"), built, "-o",
                            self.path("stub")], check=True)
            subprocess.run([self.path("stub")], check=True)


class Components(ComponentCase):
    def test_a_component_in_c_or_cxx_writes_every_type_through_its_host(self):
        for language in ("c", "c++"):
            self.assertEqual(len(self.check_component(ALL_TYPES, language)), 8)

    def test_the_stub_writes_nothing_and_needs_no_function(self):
        self.check_stub(ALL_TYPES)

    def test_arguments_are_evaluated_only_if_the_event_is_written(self):
        stem = self.generate(ALL_TYPES, "--to", "component")
        for header in ("component", "component_stub"):
            self.source("evaluated", f"""#include "{stem}_{header}.h"
static int evaluated;
static uint32_t count(void) {{ evaluated++; return 1; }}
int main(void)
{{
	TEST_GEN_FIRE_Versioned(0, count());
	(void)count;
	return evaluated;
}}
""")
            built = [self.compile("evaluated")]
            if header == "component":
                built.append(self.compile(f"{stem}_component"))
            subprocess.run([*os.environ["CC"].split(), *EXTRA, *built, "-o", self.path("one")],
                           check=True)
            subprocess.run([self.path("one")], check=True)

    def test_each_side_may_come_from_another_version_of_the_manifest(self):
        same, other = EVENT.format(1, "Same", "n"), EVENT.format(2, "Other", "many")
        # Version 2 has another order, one more event, and different parameters of two events.
        first = MANIFEST % ("win:UInt8", same + EVENT.format(3, "Wider", "n") + other)
        second = MANIFEST % ("win:UInt16", EVENT.format(4, "New", "n") + other +
                             EVENT.format(3, "Wider", "wide") + same)
        for component, host in ((first, second), (second, first)):
            os.makedirs(self.path("out"), exist_ok=True)
            self.write("two.man", component.encode())
            self.run_tool("gen", self.path("two.man"), "-o", "other", "-q", "--to", "component")
            events = manifest_oracle.read(self.path("two.man"))
            self.build_component("two", events, folder="other")
            self.write("two.man", host.encode())
            stem = self.generate(self.path("two.man"), "--to", "component")
            self.build_host(stem, events)
            off, found = self.record(events)
            self.assertEqual([(event["id"], event["payload"]) for event in found],
                             [(event.id, event.payload()) for event in events
                              if event.symbol == "Same"])
            self.assertEqual(off, len(events) - 1)


class BuildSystem(ComponentCase):
    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    def test_cmake_builds_a_component_and_its_host(self):
        events = manifest_oracle.read(ALL_TYPES)
        shutil.copy(ALL_TYPES, self.directory)
        self.write("component.c", manifest_oracle.component(events).encode())
        self.write("host.c", manifest_oracle.component_host("all_types_component_host.h",
                                                            events).encode())
        generate = os.path.join(HERE, "../../cmake/ringpipeGenerate.cmake")
        self.write("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.16)
project(fire C)
set(RINGPIPE_COMMAND "{os.path.abspath(os.environ['RINGPIPE'])}")
include("{generate}")
add_executable(fire host.c)
add_library(component MODULE component.c)
set_target_properties(component PROPERTIES PREFIX "")
target_compile_definitions(component PRIVATE "COMPONENT=\\"all_types_component.h\\"")
foreach(target fire component)
	target_include_directories(${{target}} PRIVATE "{os.environ['HEADERS']}")
	target_compile_options(${{target}} PRIVATE {' '.join(EXTRA)})
	target_link_options(${{target}} PRIVATE {' '.join(EXTRA)})
endforeach()
target_link_libraries(fire PRIVATE "{LIBRARY}" ${{CMAKE_DL_LIBS}})
ringpipe_generate(fire HOST all_types.man)
ringpipe_generate(component COMPONENT all_types.man)
""".encode())
        for command in (["-S", ".", "-B", "."], ["--build", "."]):
            done = subprocess.run(["cmake", *command], cwd=self.directory, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout.decode())
        off, found = self.record(events)
        self.assertEqual((off, len(found)), (0, len(events)))


@unittest.skipUnless(os.path.exists(CLR), "RINGPIPE_TEST_DATA has no manifest")
class ClrComponent(ComponentCase):
    def test_a_component_writes_every_event_of_the_clr_through_its_host(self):
        self.assertEqual(len(self.check_component(CLR)), 384)

    def test_code_of_the_clr_has_no_warning_in_cxx(self):
        stem = self.generate(CLR, "--to", "component")
        for name in ("_component", "_component_host"):
            self.compile(stem + name, language="c++")

    def test_the_stub_of_the_clr_writes_nothing(self):
        self.check_stub(CLR)


if __name__ == "__main__":
    run_tests()
