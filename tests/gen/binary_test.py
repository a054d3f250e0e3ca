#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`ringpipe gen --from-binary` writes a manifest from the events of an executable or library.

A second parser of manifests reads both the first manifest and the one that was written, and a
second reader of traces compares payloads. Environment: that of gen_test.py.
"""
import os
import random
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../cli")]
# pylint: disable=wrong-import-position
import manifest_oracle
from gen_test import ALL_TYPES, CLR, DESCRIBED, LIBRARY, EXTRA, GenTest, PayloadTrace

MUTATIONS = int(os.environ.get("MUTATIONS", "300"))
# The types that the manifest of a binary has for those of another manifest.
SAME_TYPES = {"win:HexInt32": "win:UInt32", "win:HexInt64": "win:UInt64", "win:SizeT": "win:UInt64"}

# Declared by hand, with every type of field.
DECLARED = """
#include <ringpipe/ringpipe.h>
enum phase { PHASE_BEFORE = -1, PHASE_AFTER = 7 };
RP_PROVIDER(hand, "Hand-Made \\"&<>");
RP_ENUM(phase, PHASE_BEFORE, PHASE_AFTER);
RP_STRUCT(point, RP_I32(x), RP_I32(y));
RP_STRUCT(line, RP_STRUCT_FIELD(point, from), RP_STRUCT_FIELD(point, to), RP_GUID(id));
RP_EVENT_EX(hand, all, (RP_ID(7), RP_VERSION(3), RP_LEVEL(RP_LEVEL_WARNING), RP_KEYWORDS(0x12),
	    RP_OPCODE(77), RP_MESSAGE("{0} is\\t100% {1}0\\n\\"<&>\\" {x}")),
	    RP_BOOL(yes), RP_CHAR(letter), RP_I8(i8), RP_U8(u8), RP_I16(i16), RP_U16(u16),
	    RP_I32(i32), RP_U32(u32), RP_I64(i64), RP_U64(u64), RP_F32(f32), RP_F64(f64),
	    RP_POINTER(address), RP_TIME(when), RP_GUID(id), RP_STRING(text), RP_STRING16(wide),
	    RP_BLOB(bytes), RP_ARRAY(U32, numbers), RP_ARRAY(BOOL, flags),
	    RP_STRUCT_FIELD(line, edge), RP_STRUCT_ARRAY(line, lines), RP_ENUM_FIELD(phase, phase));
RP_EVENT_EX(hand, named, (RP_LEVEL(RP_LEVEL_LOG_ALWAYS)));
"""
VALUES = """
static const struct rp_guid id = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } };
static const uint32_t numbers[] = { 1, 70000, 3 };
static const bool flags[] = { true, false };
"""
BY_HAND = """
static const struct line lines[] = { { { 1, 2 }, { 3, 4 }, { { 9 } } }, { { 5, 6 }, { 7, 8 },
	{ { 8 } } } };
int main(void)
{
	return hand_all(true, 'c', -8, 8, -16, 16, -32, 32, -64, 64, 0.5f, 0.25, (void *)0x1234,
			1600000000123456789, &id, "text", u"wide", "bytes", 5, numbers, 3, flags, 2,
			&lines[0], lines, 2, PHASE_BEFORE) || hand_named();
}
"""
GENERATED = """
static const struct rp_guid nine = { { 9 } }, eight = { { 8 } };
int main(void)
{
	const struct hand_all_edge first = { 1, 2, 3, 4, &nine };
	const struct hand_all_lines lines[] = {
		{ 1, 2, 3, 4, &nine }, { 5, 6, 7, 8, &eight } };
	return hand_all(true, 'c', -8, 8, -16, 16, -32, 32, -64, 64, 0.5f, 0.25,
		(void *)0x1234, 1600000000123456789, &id, u"text", u"wide", "bytes", 5, 3, numbers,
		2, flags, &first, 2, lines, -1) || hand_named();
}
"""


def described(event):
    """Return the names and types of the fields that a file with the event describes."""
    fields = []
    for field in event.fields:
        if field.type not in DESCRIBED or (field.count or "1") != "1" or field.length:
            break
        name = field.name + ("_" if field.name == "class" else "")
        fields.append((name, SAME_TYPES.get(field.type, field.type)))
    return fields


class FromBinary(GenTest):
    maxDiff = None

    def build(self, manifest, *options):
        """Build a program with all events of a manifest. Return the events."""
        stem = self.generate(manifest)
        events = manifest_oracle.read(manifest)
        self.write("out/fire_all.c", manifest_oracle.program(stem + ".h", events).encode())
        self.link(self.compile(stem, *options), self.compile("fire_all", *options),
                  *(["-no-pie"] if "-fno-pie" in options else []))
        return events

    def from_binary(self, path="fire", output="written.man"):
        self.run_tool("gen", "--from-binary", path, "-o", output, "--force")
        return self.path(output)

    def check(self, manifest, *options):
        events = self.build(manifest, *options)
        written = manifest_oracle.read(self.from_binary())
        key = lambda event: (event.provider, event.id, event.version)  # noqa: E731
        self.assertEqual(
            [(*key(event), event.prefix, event.symbol, event.level, event.opcode, event.keywords,
              described(event)) for event in sorted(events, key=key)],
            [(*key(event), event.prefix, event.symbol, event.level, event.opcode, event.keywords,
              [(field.name, field.type) for field in event.fields]) for event in written])

    def test_the_events_are_those_of_the_manifest_that_the_code_was_generated_from(self):
        self.check(ALL_TYPES)

    def test_a_program_at_fixed_addresses_has_the_same_events(self):
        self.check(ALL_TYPES, "-fno-pie")

    @unittest.skipUnless(os.path.exists(CLR), "RINGPIPE_TEST_DATA has no manifest")
    def test_all_events_of_the_clr_are_found(self):
        self.check(CLR)

    def test_a_stripped_program_and_a_shared_library_have_the_same_manifest(self):
        self.build(ALL_TYPES)
        first = self.read(self.from_binary())
        subprocess.run(["strip", self.path("fire")], check=True)
        self.assertEqual(self.read(self.from_binary()), first)
        subprocess.run([*os.environ["CC"].split(), *EXTRA, "-shared", "-fPIC", "-o",
                        self.path("fire"), "-I" + os.environ["HEADERS"], "-I" + self.path("out"),
                        self.path("out/fire_all.c"), self.path("out/all_types.c")], check=True)
        self.assertEqual(self.read(self.from_binary()), first)

    def test_code_from_the_written_manifest_has_the_same_events_again(self):
        self.build(ALL_TYPES)
        once = self.from_binary(output="one.man")
        self.build(once)
        again = self.from_binary(output="two.man")
        events = [[(event.provider, event.id, event.version, event.symbol, event.level,
                    event.opcode, event.keywords, described(event))
                   for event in manifest_oracle.read(path)] for path in (once, again)]
        self.assertEqual(len(events[0]), 8)
        self.assertEqual(events[1], events[0])

    def test_a_payload_written_by_the_new_code_has_the_same_bytes(self):
        payloads = []
        os.mkdir(self.path("out"))
        self.write("out/hand.c", (DECLARED + VALUES + BY_HAND).encode())
        self.link(self.compile("hand", "-Wno-missing-field-initializers"))
        for turn in range(2):
            self.run_program()
            trace = PayloadTrace(self.read("fired.nettrace"))
            payloads.append([(event["id"], event["version"], event["level"], event["opcode"],
                              event["keywords"], event["payload"]) for event in trace.events
                             if event["provider"].startswith("Hand-Made")])
            if turn == 0:
                written = self.from_binary()
                stem = self.generate(written)
                self.write("out/again.c", (f'#include "{stem}.h"\n' + VALUES +
                                           GENERATED).encode())
                self.link(self.compile(stem), self.compile("again"))
        self.assertEqual(len(payloads[0]), 2)
        self.assertEqual(payloads[0], payloads[1])
        root = ElementTree.parse(self.path("written.man")).getroot()
        strings = {each.get("id"): each.get("value")
                   for each in root.iter(manifest_oracle.EVENTS + "string")}
        self.assertIn('%1 is%t100%% %2!s!0%n"<&>" {x}', strings.values())
        values = {int(each.get("value"), 0): strings[each.get("message")[9:-1]]
                  for each in root.iter(manifest_oracle.EVENTS + "map")}
        self.assertEqual(values, {0xffffffff: "PHASE_BEFORE", 7: "PHASE_AFTER"})

    def test_a_provider_without_probes_is_named_after_its_name(self):
        self.build(ALL_TYPES)
        subprocess.run(["objcopy", "--remove-section=.note.stapsdt", self.path("fire")],
                       check=True)
        self.assertIn(b'symbol="TEST_GEN_PROVIDER"', self.read(self.from_binary()))
        self.write("hand.c", b"""#include <ringpipe/ringpipe.h>
RP_PROVIDER(Shop, "First-Name");
RP_PROVIDER(shop, "Second-Name");
RP_PROVIDER(alone, "Third-Name");
RP_EVENT(Shop, e, 1, 1, 0);
RP_EVENT(shop, e, 1, 1, 0);
RP_EVENT(alone, e, 1, 1, 0);
int main(void) { return Shop_e() || shop_e() || alone_e(); }
""")
        self.link("-I" + os.environ["HEADERS"], self.path("hand.c"))
        symbols = [b'symbol="%s_PROVIDER"' % each for each in
                   (b"FIRST_NAME", b"SECOND_NAME", b"ALONE", b"THIRD_NAME")]
        text = self.read(self.from_binary())
        # Symbols that differ only in their case would be the same in generated code.
        self.assertEqual([symbol in text for symbol in symbols], [True, True, True, False])
        subprocess.run(["objcopy", "--remove-section=.note.stapsdt", self.path("fire")],
                       check=True)
        text = self.read(self.from_binary())
        self.assertEqual([symbol in text for symbol in symbols], [True, True, False, True])

    def test_other_files_are_refused_with_the_reason(self):
        self.build(ALL_TYPES)
        self.write("text", b"no program")
        self.write("short", self.read("fire")[:40])
        self.write("wide", b"\x7fELF\x01" + self.read("fire")[5:])
        os.mkdir(self.path("folder"))
        for path, reason in (("text", "it is not an ELF file"), ("short", "it is not an ELF file"),
                             ("wide", "it is for another kind of machine"),
                             ("folder", "it is not a regular file"), ("none", "No such file"),
                             ("all_types-c.o", "it is neither an executable nor a shared library"),
                             (sys.executable, "declares no event")):
            with self.subTest(path=path):
                _, err = self.run_tool("gen", "--from-binary", path, "-o", "x.man", status=1)
                self.assertIn(reason, err)
                self.assertFalse(os.path.exists(self.path("x.man")))
        for words, reason in ((("--from-binary", "fire"), "requires -o FILE"),
                              (("--from-binary", "fire", "a.man", "-o", "x.man"), "give either"),
                              (("-o", "x.man"), "give either"),
                              (("--from-binary", "fire", "-o", "x.man", "--to", "c"),
                               "--to does not apply")):
            self.assertIn(reason, self.run_tool("gen", *words, status=2)[1])

    def test_a_file_that_was_not_generated_is_kept(self):
        self.build(ALL_TYPES)
        self.write("mine.man", b"mine")
        _, err = self.run_tool("gen", "--from-binary", "fire", "-o", "mine.man", status=1)
        self.assertIn("was not generated", err)
        self.run_tool("gen", "--from-binary", "fire", "-o", "new.man")
        self.run_tool("gen", "--from-binary", "fire", "-o", "new.man")
        out, _ = self.run_tool("gen", "--from-binary", "fire", "-o", "-")
        self.assertEqual(out.encode(), self.read("new.man"))

    def test_a_damaged_file_ends_with_a_manifest_or_a_message(self):
        self.build(ALL_TYPES)
        subprocess.run(["strip", self.path("fire")], check=True)
        source, choose = self.read("fire"), random.Random(19)
        for number in range(MUTATIONS):
            damaged = bytearray(source)
            for _ in range(choose.randrange(1, 30)):
                at = choose.randrange(len(damaged)) if choose.random() < 0.7 else \
                    choose.randrange(1024)
                damaged[at] = choose.randrange(256)
            if choose.random() < 0.2:
                del damaged[choose.randrange(len(damaged)):]
            self.write("damaged", bytes(damaged))
            process = self.start("gen", "--from-binary", "damaged", "-o", "-")
            _, err = process.communicate(timeout=60)
            self.assertIn(process.returncode, (0, 1), (number, err))
            self.assertEqual(process.returncode == 1, b"damaged" in err, (number, err))


if __name__ == "__main__":
    if not shutil.which("strip"):
        print("no strip (binutils)")
        sys.exit(77)
    assert LIBRARY
    unittest.main()
