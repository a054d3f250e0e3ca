#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`ringpipe gen` refuses a manifest that breaks a rule, with the line, the column and the rule, and
survives damaged manifests.

Environment: RINGPIPE.
"""
import os
import random
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../cli")]
from tool import ToolTest  # pylint: disable=wrong-import-position

with open(os.path.join(HERE, "all_types.man"), encoding="utf-8") as file:
    VALID = file.read()
MUTATIONS = int(os.environ.get("MUTATIONS", "200"))

# Each row: a text of the valid manifest, its replacement, and the rule that the message states.
MISTAKES = [
    ("template=\"Arrays\"", "template=\"Arays\"", "the template of an event is defined; \"Arays\""),
    ("inType=\"win:SID\"", "inType=\"win:Sid\"", "is a type of ETW; \"win:Sid\" is none"),
    ("keywords=\"Work High\"", "keywords=\"Work Low\"", "of an event are defined; \"Low\""),
    ("level=\"Careful\"", "level=\"Careless\"", "the level of an event is defined; \"Careless\""),
    ("task=\"Trip\"", "task=\"Tripp\"", "the task of an event is defined; \"Tripp\""),
    ("opcode=\"win:Start\"", "opcode=\"win:Begin\"", "the opcode of an event is defined"),
    ("$(string.plain)", "$(string.plan)", "names a string of the table; \"plan\" is none"),
    ("map=\"Color\"", "map=\"Colour\"", "the map of \"u32\" is defined; \"Colour\" is not"),
    ("mask=\"0x8000000000000000\"", "mask=\"0x1\"", "the mask of the keyword \"High\" is unique"),
    ("mask=\"0x1\"", "mask=\"0\"", "the mask of a keyword has a bit"),
    ("mask=\"0x1\"", "mask=\"-1\"", "mask=\"-1\" is a number from 0 to 18446744073709551615"),
    ("name=\"Trip\"", "name=\"Job\"", "the name of the task \"Job\" is unique"),
    ("value=\"2\" message", "value=\"0\" message", "the value 0 of the map \"Color\" is unique"),
    ("message=\"$(string.red)\"", "message=\"no_color_2\"",
     "the messages of a map are unique as identifiers"),
    ("tid=\"Next\"", "tid=\"Plain\"", "the tid \"Plain\" is unique"),
    ("version=\"255\"", "version=\"1\"", "the value and version of an event are unique"),
    ("version=\"255\"", "version=\"256\"", "version=\"256\" is a number from 0 to 255"),
    ("event value=\"5\"", "event value=\"65535\"", "is a number from 0 to 65534"),
    ("symbol=\"Structs\"", "symbol=\"Arrays\"", "the symbol of an event is unique; line"),
    ("value=\"3\"/>", "value=\"6\"/>", "the level of an event is at most 5"),
    ("count=\"m\"", "count=\"parts\"", "names a field that precedes it; \"parts\" does not"),
    ("length=\"size\"", "length=\"end\"", "names a field that precedes it; \"end\" does not"),
    ("length=\"size\"", "length=\"text\"", "names one unsigned integer; \"text\" is none"),
    (" length=\"size\"", "", "a field of win:Binary has a length; \"bytes\" has none"),
    ("length=\"5\"", "length=\"5\" count=\"2\"", "has a count or a length, not both"),
    ("inType=\"win:SID\"", "inType=\"win:SID\" count=\"2\"", "elements of an array have a fixed"),
    ("inType=\"win:SID\"", "inType=\"win:SID\" length=\"2\"", "only text and win:Binary have a"),
    ("<data name=\"m\" inType=\"win:UInt8\"/>", "<struct name=\"m\"/>",
     "a struct contains no struct"),
    ("guid=\"{1", "guid=\"{x", "the guid of a provider has 32 hexadecimal digits"),
    ("name=\"Test-Gen\"", "", "a provider has the attribute name"),
    ("id=\"first\"", "id=\"red\"", "the id of the string \"red\" is unique"),
    ("culture=\"de-DE\"", "culture=\"EN-us\"", "the culture \"en-US\" of resources is unique"),
    ("<instrumentationManifest", "<manifest", "mismatched tag"),
    ("</events>\n   </provider>", "</provider>", "mismatched tag"),
]


class RefusedManifests(ToolTest):
    def refuse(self, text):
        self.write("bad.man", text.encode())
        out, err = self.run_tool("gen", "bad.man", "-o", "out", status=1)
        self.assertEqual(out, "")
        self.assertFalse(os.path.exists(self.path("out")))
        return err

    def test_each_mistake_is_reported_with_its_line_its_column_and_its_rule(self):
        for valid, wrong, rule in MISTAKES:
            with self.subTest(wrong=wrong):
                self.assertIn(valid, VALID)
                changed = VALID.replace(valid, wrong, 1)
                err = self.refuse(changed)
                self.assertRegex(err, r"^ringpipe: bad\.man:\d+:\d+: ")
                self.assertIn(rule, err)
                self.assertEqual(err.count("\n"), 1)

    def test_the_place_is_that_of_the_element(self):
        err = self.refuse(VALID.replace("template=\"Next\"", "template=\"Last\"", 1))
        line = next(number for number, text in enumerate(VALID.splitlines(), 1)
                    if "template=\"Next\"" in text)
        column = VALID.splitlines()[line - 1].index("<event") + 1
        self.assertIn(f"bad.man:{line}:{column}: ", err)

    def test_other_files_are_refused(self):
        self.assertIn("no element found", self.refuse(""))
        self.assertIn("syntax error", self.refuse("shop"))
        self.assertIn("is instrumentationManifest", self.refuse("<html/>"))
        self.assertIn("a manifest has a provider", self.refuse("<instrumentationManifest/>"))
        self.assertIn("nested deeper than 64", self.refuse("<a>" * 100 + "</a>" * 100))
        self.assertIn("cannot open", self.run_tool("gen", "none.man", "-o", "out", status=1)[1])
        self.assertIn("requires -o DIR", self.run_tool("gen", "none.man", status=2)[1])

    def test_an_output_that_is_no_folder_is_reported_as_such(self):
        self.write("t.man", VALID.encode())
        self.write("out", b"mine")
        _, err = self.run_tool("gen", self.path("t.man"), "-o", self.path("out"), status=1)
        self.assertIn("Not a directory", err)
        self.assertEqual(self.read("out"), b"mine")

    def test_a_culture_without_resources_is_refused_with_those_that_exist(self):
        self.write("good.man", VALID.encode())
        _, err = self.run_tool("gen", "good.man", "-o", "out", "--culture", "fr-FR", status=1)
        self.assertEqual(err, 'ringpipe: good.man:2:1: the manifest has no resources of the '
                         'culture "fr-FR"; it has "de-DE", "en-US"\n')
        self.assertFalse(os.path.exists(self.path("out")))
        self.assertIn("names a string of the table; \"first\" is none", self.run_tool(
            "gen", "good.man", "-o", "out", "--culture", "de-DE", status=1)[1])
        self.write("good.man", VALID[:VALID.index(" <localization>")].replace(
            "$(string.", "$(text.").encode() + b"</instrumentationManifest>")
        self.assertIn("it has none", self.run_tool(
            "gen", "good.man", "-o", "out", "--culture", "fr-FR", status=1)[1])

    def test_cycles_are_refused(self):
        entities = '<!DOCTYPE a [<!ENTITY a "&b;"><!ENTITY b "&a;">]>'
        self.assertIn("recursive entity reference",
                      self.refuse(entities + '<instrumentationManifest a="&a;"/>'))
        # A field whose count is itself, and two whose counts are each other.
        for valid, wrong in (('"flags" inType="win:Boolean" count="n"',
                              '"flags" inType="win:UInt8" count="flags"'),
                             ('"n" inType="win:UInt16"/>\n      <data name="flags"',
                              '"n" inType="win:UInt16" count="flags"/>\n      <data name="flags"')):
            self.assertIn(valid, VALID)
            self.assertIn("names a field that precedes it; \"flags\" does not",
                          self.refuse(VALID.replace(valid, wrong, 1)))

    def test_entities_that_grow_without_limit_are_refused(self):
        lines = ["<!DOCTYPE a [<!ENTITY e0 \"" + "x" * 1000 + "\">"]
        lines += [f"<!ENTITY e{i + 1} \"{f'&e{i};' * 10}\">" for i in range(9)]
        text = "\n".join(lines) + "]><instrumentationManifest a=\"&e9;\"/>"
        self.assertIn("limit on input amplification", self.refuse(text))

    def test_ten_thousand_events_are_generated(self):
        event = '     <event value="{0}" version="{1}" symbol="E{0}_{1}" level="win:Error"/>\n'
        many = "".join(event.format(100 + i % 5000, i // 5000) for i in range(10000))
        self.write("many.man", VALID.replace("    </events>", many + "    </events>", 1).encode())
        self.run_tool("gen", "many.man", "-o", "out", "-q")
        self.assertEqual(self.read("out/many.h").count(b"RP_EVENT_EX(test_gen, E"), 10000)

    def test_a_damaged_manifest_is_generated_or_refused(self):
        source = VALID.encode()
        choose = random.Random(19)
        for number in range(MUTATIONS):
            damaged = bytearray(source)
            for _ in range(choose.randrange(1, 4)):
                at, size = choose.randrange(len(damaged)), choose.randrange(8)
                damaged[at:at + size] = choose.choice([b"", choose.randbytes(size), b"\"", b"<",
                                                       damaged[at:at + 4 * size] * 2])
            self.write("damaged.man", bytes(damaged))
            process = self.start("gen", "damaged.man", "-o", "damaged", "-q")
            _, err = process.communicate(timeout=60)
            self.assertIn(process.returncode, (0, 1), (number, err))
            self.assertEqual(process.returncode == 1, b"damaged.man:" in err, (number, err))


if __name__ == "__main__":
    unittest.main()
