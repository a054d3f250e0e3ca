#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How the commands decode JSON events, against Python's json, on traces that Python writes."""
import csv
import io
import json
import math
import os
import random
import struct
import unittest

import nettrace
from tool import ToolTest

FIELDS = (("source", nettrace.STRING), ("json", nettrace.STRING))
ORDER = {"order": 5, "user": {"name": "Zoë", "address": {"city": "Ulm"}}, "total": 1.5,
         "paid": True, "note": None, "tags": ["a", "b"], "scores": [1, 2, 3],
         "items": [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}], "empty": [], "none": {},
         "matrix": [[1, 2], [3]], "big": 2**64 - 1, "small": -2**63}
# Texts that RFC 8259 does not allow. json-c accepts many of them.
INVALID = ("", " ", "{", "{\"a\":1", "{'a':1}", "{a:1}", "{\"a\":NaN}", "{\"a\":Infinity}",
           "{\"a\":-Infinity}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":01}", "{\"a\":+1}",
           "{\"a\":1e}", "{\"a\":1,}", "[1,]", "{\"a\":TRUE}", "{\"a\":\"x\ny\"}", "{\"a\":1} x",
           "{\"a\":/*c*/1}", "{\"a\":1}{\"b\":2}", "\"", "\"\\x\"", "{\"a\" 1}", "nul", "\\",
           "\ufeff1",
           "{\"a\":\"\\u12\"}", "[1 2]", "-", "{\"a\":--1}", "truefalse", "{\"a\":-01}",
           "[00.5]", "[01e2]")


def event(text, source="checkout"):
    return nettrace.utf16z(source) + nettrace.utf16z(text)


def random_value(choice, depth=0):
    kind = choice.randrange(9 if depth < 5 else 6)
    if kind < 6:
        return (None, choice.random() < 0.5, choice.randrange(-2**63, 2**64),
                choice.uniform(-1e300, 1e300), choice.randrange(100),
                "".join(choice.choices("aä\"\\/\n\t\x7f€😀<", k=choice.randrange(6))))[kind]
    if kind < 8:
        return {choice.choice(("a", "b", "source", "ä.x", "", "json")):
                random_value(choice, depth + 1) for _ in range(choice.randrange(5))}
    return [random_value(choice, depth + 1) for _ in range(choice.randrange(4))]


def as_shown(value):
    """Return the value as a document that ringpipe may have decoded: arrays whose elements have no
    common type are texts, so parse texts that are arrays and objects."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        return {key or "…empty": as_shown(member) for key, member in value.items()}
    if isinstance(value, list):
        return [as_shown(element) for element in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return value


class JsonEventsTest(ToolTest):
    def trace(self, *payloads):
        trace = nettrace.Trace()
        trace.define(1, "Shop-Orders", "json_informational", 1, FIELDS)
        trace.define(2, "Shop-Orders", "placed", 2, (("order", nettrace.U64),))
        trace.events(1, payloads)
        trace.events(2, [struct.pack("<Q", 5)], ns=9_000_000)
        return self.write("t.nettrace", trace.end())

    def fields(self, *texts, arguments=()):
        path = self.trace(*map(event, texts))
        out = self.run_tool("report", path, "events", "--format", "json", *arguments)[0]
        rows = [json.loads(line) for line in out.splitlines()]
        return [row["fields"] for row in rows if row["event"] != "placed"]

    def test_members_become_fields_with_the_values_of_the_text(self):
        decoded, = self.fields(json.dumps(ORDER))
        self.assertEqual(decoded, {"source": "checkout", **ORDER})

    def test_random_documents_are_decoded_without_a_loss(self):
        choice = random.Random(19)
        documents = [random_value(choice) for _ in range(400)]
        decoded = self.fields(*(json.dumps(document, ensure_ascii=choice.random() < 0.5)
                                for document in documents))
        self.assertEqual(len(decoded), len(documents))
        for fields, document in zip(decoded, documents):
            if isinstance(document, dict):
                name = "…source" if "source" in document else "source"
                expected = {name: "checkout", **document}
            else:
                expected = {"source": "checkout", "value": document}
            self.assertEqual(as_shown(fields), as_shown(expected))

    def test_texts_of_any_length_keep_their_characters(self):
        texts = ["a" * before + character + "b" * after for before in range(9)
                 for after in range(9) for character in ("", "\x7f", "ä", "€", "😀")]
        self.assertEqual([fields["t"] for fields in self.fields(
            *(json.dumps({"t": text}, ensure_ascii=False) for text in texts))], texts)

    def test_an_array_without_a_common_type_stays_a_json_text(self):
        mixed = {"m": [1, "a", {"b": [2]}], "o": [{"a": 1}, {"b": 1}], "e": [{}, {}]}
        decoded, = self.fields(json.dumps(mixed))
        self.assertEqual({key: json.loads(value) for key, value in decoded.items()
                          if key != "source"}, mixed)

    def test_an_array_whose_integers_a_double_has_not_stays_a_json_text(self):
        text = '{"a":[null,9007199254740993],"b":[1,18446744073709551615],"c":[1,2.5]}'
        decoded, = self.fields(text)
        self.assertEqual(json.loads(decoded["a"]), [None, 9007199254740993])
        self.assertEqual(json.loads(decoded["b"]), [1, 18446744073709551615])
        self.assertEqual(decoded["c"], [1, 2.5])

    def test_an_invalid_text_stays_a_text_with_a_mark_that_states_the_reason(self):
        for text, fields in zip(INVALID, self.fields(*INVALID)):
            with self.subTest(text=text):
                with self.assertRaises(ValueError):
                    json.loads(text, parse_constant=lambda name: self.fail_on(name))
                self.assertEqual((fields["source"], fields["json"]), ("checkout", text))
                self.assertTrue(fields["…invalid"])
                self.assertEqual(set(fields), {"source", "json", "…invalid"})
        self.assertEqual(self.fields("[1, ?]")[0]["…invalid"], "unexpected character at byte 4")

    @staticmethod
    def fail_on(name):
        raise ValueError(name)

    def test_numbers_beyond_64_bits_become_doubles(self):
        large = 123456789012345678901234567890
        decoded, = self.fields(f'{{"a":{large},"b":-{large},"c":{2**64},"d":1e999,"e":1E-400}}')
        self.assertEqual((decoded["a"], decoded["b"], decoded["c"]),
                         (float(large), -float(large), 2.0**64))
        self.assertEqual((decoded["d"], decoded["e"]), ("1e999", 0))
        self.assertTrue(math.isfinite(decoded["a"]))

    def test_the_last_of_several_members_of_a_name_counts(self):
        self.assertEqual(self.fields('{"a":1,"a":{"b":2},"a":3}')[0],
                         {"source": "checkout", "a": 3})

    def test_deep_nesting_is_a_text_or_invalid_and_ends_nothing(self):
        def nested(depth):
            return '{"a":' * depth + "1" + "}" * depth

        shallow, deep, bomb, arrays = self.fields(nested(5), nested(40), nested(20000),
                                                  "[" * 30000)
        self.assertEqual(shallow, {"source": "checkout", **json.loads(nested(5))})
        self.assertEqual(as_shown(deep), as_shown({"source": "checkout",
                                                   **json.loads(nested(40))}))
        for fields in (bomb, arrays):
            self.assertIn("nesting too deep", fields["…invalid"])

    def test_nuls_and_lone_surrogates_do_no_harm(self):
        decoded, = self.fields('{"a":"x\\u0000y","b":"\\ud800","c":"\\ud83d\\ude00"}')
        self.assertEqual(decoded, {"source": "checkout", "a": "x\ufffdy", "b": "\ufffd",
                                   "c": "😀"})
        decoded, = self.fields('{"a\\u0000b":1,"a":2,"\\\\u0000":3}')
        self.assertEqual(decoded, {"source": "checkout", "a\ufffdb": 1, "a": 2, "\\u0000": 3})
        lone = nettrace.utf16z("s") + '{"a":"'.encode("utf-16-le") + b"\0\xd8" + \
            nettrace.utf16z('"}')
        out = self.run_tool("report", self.trace(lone), "events", "--format", "json")[0]
        self.assertEqual(json.loads(out.splitlines()[0])["fields"], {"source": "s", "a": "\ufffd"})

    def test_a_cut_payload_is_shown_as_far_as_it_is(self):
        out = self.run_tool("report", self.trace(nettrace.utf16z("s") + b"{\0"), "events",
                            "--format", "json")[0]
        self.assertEqual(json.loads(out.splitlines()[0])["fields"],
                         {"source": "s", "…truncated": True})
        self.run_tool("report", self.trace(b"s\0"), "events", "--where", "a == 1")

    def test_expressions_reach_members_and_select_both_forms(self):
        texts = (json.dumps(ORDER), '{"order":6,"user":{"name":"x"}}', "{", "[1]",
                 '{"order":"5"}', '{"source":"own"}')
        path = self.trace(*map(event, texts))
        for expression, expected in (('user.name == "x"', [1]), ("order == 5", [0, 6]),
                                     ("order >= 5", [0, 1, 6]), ('order == "5"', [4]),
                                     ("user.address.city ~ '^U'", [0]), ("paid == true", [0]),
                                     ('has field."…invalid"', [2]), ("has value", [3]),
                                     ('source == "checkout"', [0, 1, 2, 3, 4]),
                                     ('source == "own"', [5]), ("big == 18446744073709551615", [0]),
                                     ("not has order", [2, 3, 5]),
                                     ("event == 'placed' or user.name == 'x'", [1, 6])):
            with self.subTest(expression=expression):
                out = self.run_tool("report", path, "events", "--format", "json", "--where",
                                    expression)[0]
                times = [json.loads(line)["time_ns"] for line in out.splitlines()]
                self.assertEqual([6 if ns == 9_000_000 else (ns - 1_000_000) // 1000
                                  for ns in times], expected)
                self.run_tool("convert", path, "-o", self.path("c"), "--force", "--where",
                              expression)
                # The copy has the texts unchanged.
                again = self.run_tool("report", self.path("c"), "events", "--format", "json")[0]
                self.assertEqual([json.loads(line)["fields"] for line in again.splitlines()],
                                 [json.loads(line)["fields"] for line in out.splitlines()])
                summary = json.loads(self.run_tool("report", path, "--format", "json", "--where",
                                                   expression)[0])
                self.assertEqual(summary["events"], len(expected))

    def test_text_csv_and_all_formats_with_fields_have_the_members(self):
        path = self.trace(event(json.dumps(ORDER)))
        self.assertIn('"name":"Zoë"', self.run_tool("report", path, "events")[0])
        rows = list(csv.DictReader(io.StringIO(
            self.run_tool("report", path, "events", "--format", "csv")[0])))
        self.assertEqual(json.loads(rows[0]["fields"]), {"source": "checkout", **ORDER})
        for name in ("jsonl", "csv", "chrome", "perfetto", "firefox"):
            with self.subTest(format=name):
                self.run_tool("convert", path, "--to", name, "-o", self.path("out"), "--force")
                self.assertIn("Zoë".encode(), self.read("out"))
                self.assertNotIn(b'{\\"order\\"', self.read("out"))
        self.run_tool("convert", path, "--to", "ctf", "-o", self.path("ctf"))
        written = b"".join(self.read(os.path.join("ctf", name))
                           for name in os.listdir(self.path("ctf")))
        self.assertIn("Zoë".encode(), written)
        self.assertNotIn(b'{"order"', written)

    def test_otlp_has_the_members_as_attributes_of_a_spans_event(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop", "json_error", 1, FIELDS)
        trace.define(2, "Shop", "jobStart", 2, ())
        trace.define(3, "Shop", "jobStop", 3, ())
        trace.activity = bytes(range(16))
        trace.threads([(2, b"", 7, 1000, 0), (1, event(json.dumps(ORDER)), 7, 2000, 0),
                       (3, b"", 7, 3000, 0)])
        self.run_tool("convert", self.write("s.nettrace", trace.end()), "--to", "otlp", "-o",
                      self.path("otlp"))
        written = json.loads(self.read("otlp").splitlines()[0])
        span, = written["resourceSpans"][0]["scopeSpans"][0]["spans"]
        names = {attribute["key"]: attribute["value"]
                 for attribute in span["events"][0]["attributes"]}
        self.assertEqual(names["order"], {"intValue": "5"})
        self.assertIn("Zoë", json.dumps(names["user"], ensure_ascii=False))

    def test_thousands_of_different_texts_are_decoded_by_expressions_and_end_nothing(self):
        texts = [json.dumps({f"key{i}": i}) for i in range(4200)]
        decoded = self.fields(*texts)
        self.assertEqual(decoded[4095], {"source": "checkout", "key4095": 4095})
        self.assertIn("too many", decoded[4199]["…invalid"])
        out = self.run_tool("report", self.path("t.nettrace"), "events", "--format", "json",
                            "--where", "key4199 == 4199")[0]
        self.assertEqual(len(out.splitlines()), 1)

    def test_other_events_with_similar_names_are_not_decoded(self):
        trace = nettrace.Trace()
        trace.define(1, "Shop-Orders", "json_informational", 1, FIELDS[:1])
        trace.define(2, "Shop-Orders", "note", 2, FIELDS)
        trace.events(1, [nettrace.utf16z('{"a":1}')])
        trace.events(2, [event('{"a":1}')], ns=2_000_000)
        out = self.run_tool("report", self.write("o.nettrace", trace.end()), "events", "--format",
                            "json")[0]
        self.assertEqual([json.loads(line)["fields"] for line in out.splitlines()],
                         [{"source": '{"a":1}'}, {"source": "checkout", "json": '{"a":1}'}])

    def test_a_text_that_looks_like_an_event_is_decoded_once(self):
        self.assertEqual(self.fields('{"json":"{\\"a\\":1}"}')[0],
                         {"source": "checkout", "json": '{"a":1}'})


if __name__ == "__main__":
    unittest.main()
