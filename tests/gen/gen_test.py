#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`ringpipe gen`: every event of a manifest is written by its generated function, and a second
reader and a second parser of manifests find the same bytes in the trace.

Environment: RINGPIPE, LIBRARY (the shared library), HEADERS, CC, CXX, SANITIZERS;
RINGPIPE_TEST_DATA, a folder with the manifest of .NET's runtime; optional.
"""
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../cli")]
import manifest_oracle  # pylint: disable=wrong-import-position
import oracle  # pylint: disable=wrong-import-position
from tool import ToolTest, PATIENCE, VERSION, run_tests  # pylint: disable=wrong-import-position

CLR = os.path.join(os.environ.get("RINGPIPE_TEST_DATA", "/nonexistent"), "manifest/ClrEtwAll.man")
ALL_TYPES = os.path.join(HERE, "all_types.man")
LIBRARY = os.environ.get("LIBRARY", "")
DESCRIBED = (*manifest_oracle.NUMBERS, "win:Boolean", "win:Float", "win:Double", "win:GUID",
             "win:Pointer", "win:FILETIME", "win:UnicodeString")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZERS = os.environ.get("SANITIZERS", "none")
EXTRA = [] if SANITIZERS == "none" else [f"-fsanitize={SANITIZERS}"]


ONE_EVENT = """<instrumentationManifest><instrumentation><events>
<provider name="Test-One" guid="{10000000-0000-0000-0000-000000000001}" symbol="ONE">
<templates><template tid="t"><data name="wide" inType="win:CountedUnicodeString"/>
<data name="narrow" inType="win:CountedAnsiString"/><data name="day" inType="win:SYSTEMTIME"/>
<data name="user" inType="win:SID"/></template></templates>
<events><event value="1" symbol="Said" level="win:Informational" template="t"/></events>
</provider></events></instrumentation></instrumentationManifest>
"""
# Returns 0 if the texts that do not fit are refused, and the missing values are written.
LIMITS = """#include "one.h"
#include <errno.h>
#include <string.h>
static char narrow[70000];
static rp_char16 wide[35000];
int main(void)
{
	memset(narrow, 'x', sizeof(narrow) - 1);
	memset(wide, 'x', sizeof(wide) - sizeof(*wide));
	return one_Said(NULL, narrow, NULL, NULL) != -EMSGSIZE ||
	       one_Said(wide, NULL, NULL, NULL) != -EMSGSIZE || one_Said(NULL, NULL, NULL, NULL);
}
"""


class PayloadTrace(oracle.Trace):
    """A trace whose events have their payloads too."""

    def _event(self, now, payload):
        count = len(self.events)
        super()._event(now, payload)
        for event in self.events[count:]:
            event["payload"] = bytes(payload)


class GenTest(ToolTest):
    def generate(self, manifest, *options):
        self.run_tool("gen", manifest, "-o", "out", "-q", *options)
        return os.path.splitext(os.path.basename(manifest))[0]

    def compile(self, name, *options, language="c", folder="out"):
        """Compile FOLDER/NAME.c; return the object's path."""
        compiler, standard = (os.environ["CC"], "gnu11") if language == "c" else \
            (os.environ["CXX"], "gnu++17")
        built = self.path(f"{name}-{language}.o")
        done = subprocess.run([*compiler.split(), "-x", language, f"-std={standard}", *WARNINGS,
                               *EXTRA, "-I" + os.environ["HEADERS"], "-I" + self.path(folder),
                               *options, "-c", self.path(f"{folder}/{name}.c"), "-o", built],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, ""))
        return built

    def link(self, *objects):
        folder = os.path.dirname(LIBRARY)
        subprocess.run([*os.environ["CC"].split(), *EXTRA, "-o", self.path("fire"), *objects,
                        "-L" + folder, "-lringpipe", "-Wl,-rpath," + folder], check=True)

    def run_program(self):
        environment = dict(self.environment, RINGPIPE_CONFIG="*:ffffffffffffffff:5",
                           RINGPIPE_OUTPUT=self.path("fired.nettrace"))
        done = subprocess.run([self.path("fire")], env=environment, timeout=PATIENCE, check=False,
                              stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ""))

    def fire_all(self, manifest, *options):
        """Write each event of the manifest once. Return the events and the trace's events."""
        stem = self.generate(manifest)
        events = manifest_oracle.read(manifest)
        self.write("out/fire_all.c", manifest_oracle.program(stem + ".h", events).encode())
        self.link(self.compile(stem, *options), self.compile("fire_all", *options))
        self.run_program()
        providers = {event.provider for event in events}
        trace = PayloadTrace(self.read("fired.nettrace"))
        return events, [event for event in trace.events if event["provider"] in providers]

    def check_all(self, manifest, *options):
        events, found = self.fire_all(manifest, *options)
        self.assertEqual(
            [(event.provider, event.id, event.version, event.level, event.opcode, event.keywords,
              event.payload()) for event in events],
            [(event["provider"], event["id"], event["version"], event["level"], event["opcode"],
              event["keywords"], event["payload"]) for event in found])
        return events

    def decoded(self, providers):
        """Return the fields of the providers' events that ringpipe itself reads."""
        self.run_tool("convert", "--to", "jsonl", "fired.nettrace", "-o", "fired.jsonl", "-q")
        return [row["fields"] for row in map(json.loads, self.read("fired.jsonl").splitlines())
                if row["provider"] in providers]


class FiredEvents(GenTest):
    def test_a_second_reader_decodes_every_type_count_length_struct_and_version(self):
        self.assertEqual(len(self.check_all(ALL_TYPES)), 8)

    @unittest.skipUnless(platform.machine() == "x86_64", "no other machine has static keys")
    def test_call_sites_with_static_keys_write_the_same_events(self):
        events = self.check_all(ALL_TYPES, "-O2", "-DRP_STATIC_KEYS=1")
        sections = subprocess.run(["readelf", "-SW", self.path("fire_all-c.o")], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        sizes = re.findall(r" rp_keys +PROGBITS +\w+ \w+ (\w+)", sections)
        # Each event has a site for its function and one for the test whether it is enabled.
        self.assertGreaterEqual(sum(int(size, 16) for size in sizes) // 8, 2 * len(events))

    def test_report_shows_the_values_of_a_generated_event(self):
        events, _ = self.fire_all(ALL_TYPES)
        plain = next(event for event in events if event.symbol == "Plain")
        out, _ = self.run_tool("report", "fired.nettrace", "events")
        line = next(line for line in out.splitlines() if "Test-Gen/Plain" in line)
        for name in ("i8", "u16", "i64", "u64"):
            self.assertIn(f'"{name}":{plain.values[name]}', line)


    def test_events_of_a_killed_program_are_recovered_with_their_fields(self):
        stem, events = self.generate(ALL_TYPES), manifest_oracle.read(ALL_TYPES)
        program = "#include <signal.h>\n" + manifest_oracle.program(stem + ".h", events)
        self.write("out/fire_all.c", program.replace(
            "\treturn failures >", "\traise(SIGKILL);\n\treturn failures >").encode())
        self.link(self.compile(stem), self.compile("fire_all"))
        done = subprocess.run([self.path("fire")], timeout=PATIENCE, check=False, env=dict(
            self.environment, RINGPIPE_CONFIG="*:ffffffffffffffff:5",
            RINGPIPE_RECOVER=self.path("keep"), RINGPIPE_OUTPUT=self.path("cut.nettrace")))
        self.assertEqual(done.returncode, -signal.SIGKILL)
        session, = os.listdir(self.path("keep"))
        self.run_tool("recover", os.path.join("keep", session), "-o", "fired.nettrace")
        found = [event for event in PayloadTrace(self.read("fired.nettrace")).events
                 if event["provider"] == "Test-Gen"]
        self.assertEqual([event["payload"] for event in found],
                         [event.payload() for event in events])
        fields = self.decoded({"Test-Gen"})[[event.symbol for event in events].index("Arrays")]
        self.assertEqual(list(fields), ["n"])

    def test_report_shows_the_fields_before_the_first_that_has_no_description(self):
        events, _ = self.fire_all(ALL_TYPES)
        described = dict(zip((event.symbol for event in events), self.decoded({"Test-Gen"})))
        for symbol, names in (("Arrays", ["n"]), ("Structs", ["n"])):
            event = next(event for event in events if event.symbol == symbol)
            self.assertEqual(described[symbol], {name: event.values[name] for name in names})
        # Without such fields, the payload is shown as bytes.
        event = next(event for event in events if event.symbol == "Texts")
        self.assertEqual(described["Texts"], {"…payload": event.payload().hex()})


@unittest.skipUnless(os.path.exists(CLR), "RINGPIPE_TEST_DATA has no manifest")
class ClrEvents(GenTest):
    def test_every_event_of_the_clr_has_the_bytes_that_its_manifest_defines(self):
        events = self.check_all(CLR)
        self.assertEqual(len(events), 384)
        decoded = self.decoded({event.provider for event in events})
        self.assertEqual(len(decoded), len(events))
        for event, fields in zip(events, decoded):
            if "…payload" in fields:
                self.assertEqual(bytes.fromhex(fields.pop("…payload")), event.payload())
            # The fields after the first that cannot be described have no description.
            self.assertEqual(list(fields),
                             [field.name for field in event.fields][:len(fields)])
            self.assertEqual(bool(fields), bool(event.fields) and
                             event.fields[0].type in DESCRIBED, event.symbol)
            for name, value in fields.items():
                if isinstance(value, (int, str)) and not isinstance(value, bool):
                    expected = event.values[name]
                    self.assertEqual(value, expected if isinstance(value, int) else str(expected),
                                     (event.symbol, name))

    def test_code_of_the_clr_has_no_warning_in_cxx(self):
        self.compile(self.generate(CLR), language="c++")


class RawProbes(GenTest):
    """The probes of events whose payloads no fields describe."""

    RAW = ("Texts", "Arrays", "Structs")

    def build(self):
        stem = self.generate(ALL_TYPES)
        events = manifest_oracle.read(ALL_TYPES)
        self.write("out/fire_all.c", manifest_oracle.program(stem + ".h", events).encode())
        self.link(self.compile(stem), self.compile("fire_all"))
        return {event.symbol: event for event in events}

    def test_the_notes_have_the_payload_its_size_and_the_parts(self):
        self.build()
        notes = subprocess.run(["readelf", "-n", self.path("fire")], check=True, text=True,
                               stdout=subprocess.PIPE).stdout
        for name in self.RAW:
            found = re.search(rf"Provider: test_gen\n +Name: {name}\n.*\n +Arguments: (.*)", notes)
            sizes = [argument.split("@")[0] for argument in found.group(1).split()]
            self.assertEqual(sizes, ["8", "8", "8", "4"])

    @unittest.skipUnless(shutil.which("bpftrace") and os.geteuid() == 0 and not EXTRA,
                         "bpftrace needs root, and a program without sanitizers")
    def test_bpftrace_reads_the_payloads(self):
        events = self.build()
        script = ",".join(f"usdt:./fire:test_gen:{name}" for name in self.RAW) + \
            ' { printf("%s %d %d %r\\n", probe, arg1, arg3, buf(arg0, arg1)); }'
        done = subprocess.run(["bpftrace", "-q", "-c", "./fire", "-e", script], check=False,
                              cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(self.environment, RINGPIPE_LTTNG="0",
                                       BPFTRACE_STRLEN="200"), timeout=PATIENCE)
        found = dict(re.findall(r"test_gen:(\w+) (\d+ 1 .*)\n", done.stdout.decode()))
        if not found and done.returncode != 0:
            self.skipTest("bpftrace cannot trace here: " + done.stderr.decode())
        for name in self.RAW:
            payload = events[name].payload()
            text = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in payload)
            self.assertEqual(found[name], f"{len(payload)} 1 {text}")


class GeneratedCode(GenTest):
    def test_code_has_no_warning_in_c_and_in_cxx(self):
        stem = self.generate(ALL_TYPES)
        for language in ("c", "c++"):
            self.compile(stem, language=language)

    def test_a_message_has_its_insertions_and_characters(self):
        self.generate(ALL_TYPES)
        self.assertIn(rb'RP_MESSAGE("Text {0} of \"{1}\":\n100% \?\? \011 = done")',
                      self.read("out/all_types.h"))

    def test_a_text_that_is_too_long_is_refused_and_a_missing_value_is_zero(self):
        self.write("one.man", ONE_EVENT.encode())
        stem = self.generate(self.path("one.man"))
        self.write("out/limits.c", LIMITS.encode())
        self.link(self.compile(stem), self.compile("limits"))
        self.run_program()
        event, = [event for event in PayloadTrace(self.read("fired.nettrace")).events
                  if event["provider"] == "Test-One"]
        self.assertEqual(event["payload"], bytes(2 + 2 + 16 + 8))

    def test_texts_are_those_of_the_culture(self):
        with open(ALL_TYPES, encoding="utf-8") as file:
            text = file.read()
        english = text[text.index('   <string id="red" value="Red"'):
                       text.index("   </stringTable>\n  </resources>\n </localization>")]
        german = english.replace('"Red"', '"Rot"')
        first, rest = text.split(' <localization>\n  <resources culture="de-DE">')
        rest = rest[rest.index("  </resources>\n") + len("  </resources>\n"):]
        self.write("one.man", (first + ' <localization><resources culture="de-DE"><stringTable>' +
                               german + "</stringTable></resources></localization>\n"
                               " <localization>\n" + rest).encode())
        for options, red in (((), "Red"), (("--culture", "en-US"), "Red"),
                             (("--culture", "de-de"), "Rot")):
            stem = self.generate(self.path("one.man"), *options)
            self.assertIn(f'return "{red}"'.encode(), self.read(f"out/{stem}.c"))

    def test_output_is_the_same_each_time(self):
        stem = self.generate(ALL_TYPES)
        first = [self.read(f"out/{stem}{suffix}") for suffix in (".h", ".c")]
        self.generate(ALL_TYPES)
        self.assertEqual([self.read(f"out/{stem}{suffix}") for suffix in (".h", ".c")], first)

    def test_names_of_keywords_levels_tasks_and_maps_are_functions(self):
        stem = self.generate(ALL_TYPES)
        checks = [("test_gen_keyword_name(TEST_GEN_KEYWORD_High)", "High"),
                  ("test_gen_level_name(TEST_GEN_LEVEL_Careful)", "Careful"),
                  ("test_gen_task_name(TEST_GEN_TASK_Trip)", "Trip"),
                  ("test_gen_Color_name(TEST_GEN_Color_Red)", "Red"),
                  ("test_gen_Color_name(TEST_GEN_Color_no_color)", "no color"),
                  ("test_gen_Color_name(TEST_GEN_Color_no_color_2)", "no-color"),
                  ("test_gen_Flags_name(TEST_GEN_Flags_Last)", "Last")]
        lines = [f'\tif (strcmp({call}, "{name}") != 0)\n\t\treturn {number + 1};'
                 for number, (call, name) in enumerate(checks)]
        self.write("out/names.c", "\n".join([
            '#include "all_types.h"', "#include <string.h>", "int main(void)", "{", *lines,
            "\treturn test_gen_Color_name(77) || TEST_GEN_OPCODE_Job_Pause != 11 ||",
            "\t       TEST_GEN_OPCODE_Pause != 13;", "}", ""]).encode())
        self.link(self.compile(stem), self.compile("names"))
        self.run_program()

    def test_a_file_that_was_not_generated_is_replaced_only_with_force(self):
        os.mkdir(self.path("out"))
        self.write("out/all_types.c", b"int mine;\n")
        _, err = self.run_tool("gen", ALL_TYPES, "-o", "out", status=1)
        self.assertIn("was not generated; --force replaces it", err)
        self.assertEqual(self.read("out/all_types.c"), b"int mine;\n")
        self.run_tool("gen", ALL_TYPES, "-o", "out", "--force")
        self.assertIn(b"Generated by ringpipe gen", self.read("out/all_types.c"))

    def test_channels_are_ignored_with_a_note(self):
        _, err = self.run_tool("gen", ALL_TYPES, "-o", "out")
        self.assertIn("the channels of Test-Gen are ignored", err)


class OtherForms(GenTest):
    def generate_form(self, form):
        self.run_tool("gen", ALL_TYPES, "-o", "out", "-q", "--to", form)
        return sorted(os.listdir(self.path("out")))

    def test_to_selects_the_files(self):
        self.assertEqual(self.generate_form("markdown"), ["all_types.md"])
        self.assertEqual(self.generate_form("dtrace"), ["all_types.d", "all_types.md"])
        self.assertEqual(self.generate_form("all"),
                         ["all_types.c", "all_types.d", "all_types.h", "all_types.md",
                          "all_types_component.c", "all_types_component.h",
                          "all_types_component_host.c", "all_types_component_host.h",
                          "all_types_component_stub.h",
                          "all_types_lttng.c", "all_types_lttng.h"])
        self.assertIn("c, lttng, component, dtrace, markdown or all", self.run_tool(
            "gen", ALL_TYPES, "-o", "out", "--to", "rust", status=2)[1])

    def test_the_reference_has_each_event_with_its_fields(self):
        self.generate_form("markdown")
        text = self.read("out/all_types.md").decode()
        for event in manifest_oracle.read(ALL_TYPES):
            part = text.split(f"\n### {event.symbol}\n".replace("_", "\\_"))[1].split("\n### ")[0]
            self.assertIn(f"Id {event.id}, version {event.version}, ", part)
            for field in event.fields:
                self.assertIn(f"\n| {field.name} | ", part)

    @unittest.skipUnless(shutil.which("dtrace") and shutil.which("readelf"),
                         "dtrace of systemtap is not installed")
    def test_dtrace_makes_a_probe_for_each_event(self):
        self.generate_form("dtrace")
        subprocess.run(["dtrace", "-h", "-s", "out/all_types.d", "-o", "out/probes.h"], check=True,
                       cwd=self.directory)
        events = manifest_oracle.read(ALL_TYPES)
        few = [event for event in events if len(event.fields) <= 12]
        calls = [f"\tTEST_GEN_{event.symbol.upper()}({', '.join('0' for _ in event.fields)});"
                 for event in few]
        self.write("out/probes.c", "\n".join(['#include "probes.h"', "int main(void)", "{", *calls,
                                              "\treturn 0;", "}", ""]).encode())
        subprocess.run([*os.environ["CC"].split(), "-c", "out/probes.c", "-o", "probes.o"],
                       check=True, cwd=self.directory)
        notes = subprocess.run(["readelf", "-n", "probes.o"], check=True, stdout=subprocess.PIPE,
                               cwd=self.directory, text=True).stdout
        for event in few:
            self.assertRegex(notes, rf"Provider: test_gen\n +Name: {event.symbol}\n")


class BuildSystems(GenTest):
    """The function of CMake and the generator of meson that the documentation shows."""

    def setUp(self):
        super().setUp()
        self.write("fire.c", b"""#include "all_types.h"
int main(void) { return test_gen_Nothing(); }
""")
        shutil.copy(ALL_TYPES, self.directory)
        self.command = os.path.abspath(os.environ["RINGPIPE"])

    def build(self, *command):
        done = subprocess.run(command, cwd=self.directory, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    def test_cmake_generates_and_compiles(self):
        generate = os.path.join(HERE, "../../cmake/ringpipeGenerate.cmake")
        self.write("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.16)
project(fire C)
set(RINGPIPE_COMMAND "{self.command}")
include("{generate}")
add_executable(fire fire.c)
target_include_directories(fire PRIVATE "{os.environ['HEADERS']}")
target_link_libraries(fire PRIVATE "{LIBRARY}")
target_compile_options(fire PRIVATE {' '.join(EXTRA)})
target_link_options(fire PRIVATE {' '.join(EXTRA)})
ringpipe_generate(fire all_types.man)
""".encode())
        self.build("cmake", "-S", ".", "-B", "built")
        self.build("cmake", "--build", "built")
        self.build("built/fire")

    @unittest.skipUnless(shutil.which("meson"), "meson is not installed")
    def test_meson_generates_and_compiles(self):
        self.write("meson.build", f"""project('fire', 'c')
gen = generator(find_program('{self.command}'), output: ['@BASENAME@.h', '@BASENAME@.c'],
	arguments: ['gen', '@INPUT@', '-o', '@BUILD_DIR@', '--quiet'])
executable('fire', 'fire.c', gen.process('all_types.man'),
	include_directories: include_directories('{os.environ["HEADERS"]}'),
	c_args: {EXTRA}, link_args: {EXTRA + [LIBRARY]})
""".encode())
        self.build("meson", "setup", "built")
        self.build("meson", "compile", "-C", "built")
        self.build("built/fire")


if __name__ == "__main__":
    run_tests()
