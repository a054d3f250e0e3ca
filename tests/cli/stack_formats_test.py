#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe convert --to folded, speedscope and pprof, on samples that are known."""
import collections
import json
import os
import random
import shutil
import struct
import subprocess
import unittest

import nettrace
import nettrace6
from formats_test import message
from profile_test import SYSTEM, Machine, program, stack_of
from tool import ToolTest

HERE = os.path.dirname(os.path.abspath(__file__))


def files_trace(*files):
    """A trace of a process for each (file, build id or None), with a sample in each file."""
    machine = Machine()
    for process, (file, build_id) in enumerate(files, 10):
        machine.name(process, "shop")
        if build_id:
            text = json.dumps({"type": "ELF", "build_id": build_id})
            machine.event(SYSTEM + nettrace.METADATA, process, process, nettrace.uleb(process) +
                          nettrace.counted(text) + nettrace.counted(""))
        machine.event(SYSTEM + nettrace.MAPPING, process, process,
                      nettrace.mapping(process, 0x1000, 0x9000, file, 0,
                                       process if build_id else 0))
        machine.sample(process, process, [0x1010])
    return machine.end()


class StackFormats(ToolTest):
    def convert(self, form, trace, *options, status=0):
        path = self.write("t.nettrace", trace)
        out = self.path("out")
        said = self.run_tool("convert", "--to", form, path, "-f", "-o", out, *options,
                             status=status)
        with open(out, "rb") as file:
            return file.read(), said[1]

    def random_samples(self):
        """Return a trace, and the stacks of its samples, outermost first, in order of time."""
        chance, machine, samples = random.Random(5), program(), []
        for _ in range(500):
            names = "".join(chance.choice("abcdef") for _ in range(chance.randrange(6)))
            thread = chance.randint(7, 9)
            machine.sample(7, thread, stack_of(names))
            samples.append((thread, tuple(reversed(names))))
        return machine.end(), samples

    def test_folded_stacks_have_the_sum_of_the_samples_of_each_stack(self):
        trace, samples = self.random_samples()
        expected = collections.Counter(stack for _, stack in samples)
        found = collections.Counter()
        for line in self.convert("folded", trace)[0].decode().splitlines():
            stack, _, count = line.rpartition(" ")
            process, *functions = stack.split(";")
            self.assertEqual(process, "shop (7)")
            found[tuple(functions)] += int(count)
        self.assertEqual(found, expected)

    def test_speedscope_has_a_profile_for_each_thread_with_its_samples_in_order_of_time(self):
        trace, samples = self.random_samples()
        profile = json.loads(self.convert("speedscope", trace)[0])
        self.assertEqual(profile["$schema"],
                         "https://www.speedscope.app/file-format-schema.json")
        frames = profile["shared"]["frames"]
        found = {}
        for thread in profile["profiles"]:
            self.assertEqual((thread["type"], thread["unit"]), ("sampled", "none"))
            self.assertEqual(thread["weights"], [1] * len(thread["samples"]))
            self.assertEqual((thread["startValue"], thread["endValue"]),
                             (0, len(thread["samples"])))
            found[thread["name"]] = [tuple(frames[index]["name"] for index in stack)
                                     for stack in thread["samples"]]
        self.assertEqual(found, {f"shop (7), thread {thread}":
                                 [stack for each, stack in samples if each == thread]
                                 for thread in (7, 8, 9)})
        self.assertIn({"name": "a", "file": "/bin/shop"}, frames)

    def pprof(self, trace):
        if not shutil.which("protoc"):
            self.skipTest("protoc is missing")
        done = subprocess.run(["protoc", "-I", HERE, "--decode=perftools.profiles.Profile",
                               os.path.join(HERE, "pprof.proto")],
                              input=self.convert("pprof", trace)[0], check=True,
                              stdout=subprocess.PIPE)
        return message(iter(done.stdout.decode().splitlines()))

    def test_pprof_has_a_mapping_for_each_file_with_its_build_id(self):
        profile = self.pprof(files_trace(("/bin/a", "4f1a" * 10), ("/lib/b.so", "77" * 20),
                                         ("/bin/a", "4f1a" * 10), ("/lib/b.so", "78" * 20)))
        texts = profile["string_table"]
        found = {texts[row["filename"][0]]: texts[row["build_id"][0]]
                 for row in profile["mapping"]}
        self.assertEqual(found, {"/bin/a": "4f1a" * 10, "/lib/b.so": ""})
        self.assertEqual([row["has_functions"] for row in profile["mapping"]], [[True], [True]])

    def test_pprof_has_the_stacks_with_process_and_thread(self):
        trace, samples = self.random_samples()
        profile = self.pprof(trace)
        texts = profile["string_table"]
        self.assertEqual(texts[0], "")
        names = {row["id"][0]: texts[row["name"][0]] for row in profile["function"]}
        places = {row["id"][0]: names[row["line"][0]["function_id"][0]]
                  for row in profile["location"]}
        found = collections.Counter()
        for sample in profile["sample"]:
            labels = {texts[label["key"][0]]: label["num"][0] for label in sample["label"]}
            self.assertEqual(labels["process"], 7)
            stack = tuple(reversed([places[each] for each in sample["location_id"]]))
            found[labels["thread"], stack] += sample["value"][0]
        self.assertEqual(found, collections.Counter((thread, stack or ("[no stack]",))
                                                    for thread, stack in samples))
        kind, = profile["sample_type"]
        self.assertEqual((texts[kind["type"][0]], texts[kind["unit"][0]]), ("samples", "count"))
        self.assertEqual(profile["duration_nanos"], [1000 * (len(samples) - 1)])

    def test_pprof_has_a_line_for_each_inlined_function(self):
        """The names are those that `ringpipe symbolize --inlines` makes."""
        names = {"leaf (inlined by middle, main)": ["leaf", "middle", "main"],
                 "f<int, long> (inlined by g(int, char), operator<<, cooperator<int, int>, main)":
                 ["f<int, long>", "g(int, char)", "operator<<", "cooperator<int, int>", "main"],
                 "plain": ["plain"], "open (inlined by main": ["open (inlined by main"],
                 " (inlined by main)": [" (inlined by main)"],
                 "none (inlined by )": ["none (inlined by )"],
                 "deep (inlined by " + ", ".join(40 * "x") + ")":
                 ["deep (inlined by " + ", ".join(40 * "x") + ")"]}
        machine = Machine()
        machine.name(7, "shop").map(7, 1, 0x1000, 0x9000, "/bin/shop")
        for number, name in enumerate(names):
            machine.function(7, 1, 0x1000 + 16 * number, 0x100f + 16 * number, name)
            machine.sample(7, 7, [0x1004 + 16 * number])
        profile = self.pprof(machine.end())
        texts = profile["string_table"]
        functions = {row["id"][0]: (texts[row["name"][0]], texts[row.get("filename", [0])[0]])
                     for row in profile["function"]}
        self.assertEqual(len(functions), len(profile["function"]))
        lines = {row["id"][0]: [functions[line["function_id"][0]] for line in row["line"]]
                 for row in profile["location"]}
        found = [lines[sample["location_id"][0]] for sample in profile["sample"]]
        self.assertCountEqual(found, [[(part, "/bin/shop") for part in parts]
                                      for parts in names.values()])

    def profiles_data(self, trace):
        """Return a ProfilesData message of OTLP."""
        if not shutil.which("protoc"):
            self.skipTest("protoc is missing")
        name = "opentelemetry.proto.profiles.v1development.ProfilesData"
        done = subprocess.run(["protoc", "-I", HERE, f"--decode={name}",
                               os.path.join(HERE, "otlp_profiles.proto")],
                              input=self.convert("otlp-profiles", trace)[0], check=True,
                              stdout=subprocess.PIPE)
        # A field that the definitions lack has its number as its name.
        self.assertNotRegex(done.stdout, rb"(?m)^ *\d+(:| \{)")
        return message(iter(done.stdout.decode().splitlines()))

    def test_profiles_of_otlp_have_the_stacks_with_process_and_thread(self):
        trace, samples = self.random_samples()
        data = self.profiles_data(trace)
        tables, = data["dictionary"]
        for name, rows in tables.items():
            zero = {"trace_id": ["\0" * 16], "span_id": ["\0" * 8]} if name == "link_table" else {}
            self.assertIn(rows[0], ("", zero), f"{name}[0] is the zero value")
        texts = tables["string_table"]
        names = [texts[row.get("name_strindex", [0])[0]] for row in tables["function_table"]]
        places = [[names[line["function_index"][0]] for line in row.get("lines", [])]
                  for row in tables["location_table"]]
        attributes = [(texts[row["key_strindex"][0]], row["value"][0]["int_value"][0])
                      for row in tables["attribute_table"][1:]]
        resource, = data["resource_profiles"]
        self.assertEqual([(pair["key"][0], list(pair["value"][0].values()))
                          for pair in resource["resource"][0]["attributes"]],
                         [("service.name", [["shop"]]), ("process.pid", [[7]])])
        profile, = resource["scope_profiles"][0]["profiles"]
        found = collections.Counter()
        for sample in profile["samples"]:
            stack = tables["stack_table"][sample.get("stack_index", [0])[0]]
            key, thread = attributes[sample["attribute_indices"][0] - 1]
            self.assertEqual(key, "thread.id")
            functions = [places[each][0] for each in stack.get("location_indices", [])]
            found[thread, tuple(reversed(functions))] += sample["values"][0]
        self.assertEqual(found, collections.Counter(samples))
        kind, = profile["sample_type"]
        self.assertEqual((texts[kind["type_strindex"][0]], texts[kind["unit_strindex"][0]]),
                         ("samples", "count"))
        self.assertEqual(profile["duration_nano"], [1000 * (len(samples) - 1)])
        self.assertEqual(len(set(map(str, tables["attribute_table"]))), 4)

    def test_samples_of_otlp_have_links_to_their_spans(self):
        chance, machine, expected = random.Random(6), program(), collections.Counter()
        # Two spans of one trace, the same span id in another trace, and ids without one half.
        spans = [(b"t" * 16, 0x4142434445464748), (b"t" * 16, 0x4a42434445464748),
                 (b"u" * 16, 0x4142434445464748), (b"v" * 16, 0), (bytes(16), 0x41), None]
        for _ in range(400):
            names, thread = chance.choice(("", "a", "ab", "abc")), chance.randint(7, 9)
            span = chance.choice(spans)
            machine.sample(7, thread, stack_of(names), span)
            linked = span if span and span[1] and any(span[0]) else (bytes(16), 0)
            expected[thread, names[::-1], linked[0].decode(),
                     struct.pack(">Q", linked[1]).decode()] += 1
        data = self.profiles_data(machine.end())
        tables, = data["dictionary"]
        texts = tables["string_table"]
        names = [texts[row.get("name_strindex", [0])[0]] for row in tables["function_table"]]
        threads = [row["value"][0]["int_value"][0] for row in tables["attribute_table"][1:]]
        profile, = data["resource_profiles"][0]["scope_profiles"][0]["profiles"]
        found = collections.Counter()
        for sample in profile["samples"]:
            stack = tables["stack_table"][sample.get("stack_index", [0])[0]] or {}
            link = tables["link_table"][sample.get("link_index", [0])[0]]
            functions = "".join(names[each] for each in stack.get("location_indices", []))
            found[threads[sample["attribute_indices"][0] - 1], functions[::-1],
                  link["trace_id"][0], link["span_id"][0]] += sample["values"][0]
        self.assertEqual(found, expected)
        # Each link is in the table once.
        self.assertEqual(len(tables["link_table"]), 4)

    def test_a_resource_of_otlp_keeps_the_types_of_what_the_process_published(self):
        machine = program()
        machine.trace.define(20, "Ringpipe-Machine", "ProcessAttribute", 13, [
            ("published_ns", nettrace6.U64),
            *((name, nettrace6.STRING16) for name in ("key", "value", "type"))])
        for row in (("n", "-5", "int"), ("yes", "true", "bool"), ("half", "0.5", "double"),
                    ("word", "seven", "int"), ("text", "7", "string")):
            machine.event(20, 7, 7, bytes([1] + [0] * 7) + b"".join(map(nettrace6.utf16z, row)))
        data = self.profiles_data(machine.sample(7, 7, stack_of("ab")).end())
        resource, = data["resource_profiles"]
        found = {pair["key"][0]: pair["value"][0]
                 for pair in resource["resource"][0]["attributes"]}
        self.assertEqual({key: found[key] for key in ("n", "half", "word", "text")}, {
            "n": {"int_value": [-5]}, "half": {"double_value": [0.5]},
            "word": {"string_value": ["seven"]}, "text": {"string_value": ["7"]}})
        self.assertEqual(list(found["yes"]), ["bool_value"])

    def test_each_process_has_a_profile_of_otlp(self):
        machine = program()
        for at in range(30):
            machine.sample(7 + at % 3, 70 + at % 9, stack_of("ab"))
        data = self.profiles_data(machine.end())
        found = {}
        for resource in data["resource_profiles"]:
            pid = resource["resource"][0]["attributes"][1]["value"][0]["int_value"][0]
            profile, = resource["scope_profiles"][0]["profiles"]
            found[pid] = sum(sample["values"][0] for sample in profile["samples"])
        self.assertEqual(found, {7: 10, 8: 10, 9: 10})

    def test_only_the_wanted_samples_are_converted(self):
        trace, samples = self.random_samples()
        lines = self.convert("folded", trace, "--where", "thread == 8")[0].decode().splitlines()
        self.assertEqual(sum(int(line.rpartition(" ")[2]) for line in lines),
                         sum(thread == 8 for thread, _ in samples))

    def test_hostile_names_end_no_field_and_unknown_functions_have_their_file(self):
        machine = Machine().name(7, "a;b\nc")
        machine.map(7, 700, 0x1000, 0x9000, "/lib/one;two.so")
        machine.function(7, 700, 0x2000, 0x2fff, 'x;"\n</script>')
        machine.sample(7, 7, [0x2010, 0x1010, 0x99999000])
        trace = machine.end()
        line, = self.convert("folded", trace)[0].decode().splitlines()
        self.assertEqual(line, 'a:b c (7);[unknown];[one:two.so];x:" </script> 1')
        profile = json.loads(self.convert("speedscope", trace)[0])
        self.assertEqual([profile["shared"]["frames"][index]["name"]
                          for index in profile["profiles"][0]["samples"][0]],
                         ["[unknown]", "[one;two.so]", 'x;"\n</script>'])

    def test_a_trace_without_samples_and_a_damaged_one_give_whole_files(self):
        for form in "folded", "speedscope", "pprof", "otlp-profiles":
            out, _ = self.convert(form, nettrace.sample())
            if form == "speedscope":
                profile, = json.loads(out)["profiles"]
                self.assertEqual((profile["samples"], profile["weights"], profile["endValue"]),
                                 ([], [], 0))
            trace, _ = self.random_samples()
            out, said = self.convert(form, trace[:-1] + b"\5\5", status=1)
            self.assertIn("has the other events", said)
            if form == "speedscope":
                self.assertEqual(len(json.loads(out)["profiles"]), 3)

    def test_samples_from_standard_input_have_addresses_without_names(self):
        trace, samples = self.random_samples()
        path = self.write("t.nettrace", trace)
        with open(path, "rb") as file:
            done = subprocess.run([os.environ["RINGPIPE"], "convert", "--to", "folded", "-", "-o",
                                   "-"], stdin=file, stdout=subprocess.PIPE, check=True,
                                  stderr=subprocess.DEVNULL)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(sum(int(line.rpartition(" ")[2]) for line in lines), len(samples))


if __name__ == "__main__":
    unittest.main()
