#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ringpipe convert --to firefox, on traces whose spans, counters and samples are known."""
import json
import random
import unittest

from formats_test import Source, guid_text
from profile_test import program, stack_of
from tool import ToolTest


class Firefox(ToolTest):
    def profile(self, data, status=0):
        path = self.write("t.nettrace", data)
        self.run_tool("convert", path, "--to", "firefox", "-f", "-o", "out", status=status)
        profile = json.loads(self.read("out").decode("utf-8", "strict"))
        self.check_columns(profile)
        return profile

    def check_columns(self, node):
        """Each table has columns of its length."""
        if isinstance(node, dict):
            for column in node.values():
                if "length" in node and isinstance(column, list):
                    self.assertEqual(len(column), node["length"])
                self.check_columns(column)
        elif isinstance(node, list):
            for each in node:
                self.check_columns(each)

    @staticmethod
    def markers(profile, thread):
        table = profile["threads"][thread]["markers"]
        texts = profile["shared"]["stringArray"]
        return [(texts[table["name"][i]], table["startTime"][i], table["endTime"][i],
                 table["data"][i]) for i in range(table["length"])]

    def test_spans_are_intervals_and_share_flow_ids_across_threads(self):
        trace = Source().start(1000, "/a", activity=1)
        trace.start(1100, "/b", thread=8, activity=2, related=1)
        trace.stop(1200, 201, thread=8, activity=2).stop(2000, 202, activity=1)
        trace.note(3000, "x").count(4000, "queue", 2.5).count(5000, "queue", 1.5)
        profile = self.profile(trace.end())
        self.assertEqual(profile["meta"]["preprocessedProfileVersion"], 70)
        outer, note = self.markers(profile, 0)
        inner, = self.markers(profile, 1)
        texts = profile["shared"]["stringArray"]
        self.assertEqual(outer[:3], ("request", 0.001, 0.002))
        self.assertEqual(inner[:3], ("request", 0.0011, 0.0012))
        self.assertEqual((outer[3]["field.path"], outer[3]["stop.status"]), ("/a", 202))
        self.assertEqual((inner[3]["field.path"], inner[3]["stop.status"]), ("/b", 201))
        self.assertEqual(texts[outer[3]["activity"]], guid_text(1))
        self.assertEqual(inner[3]["parent"], outer[3]["activity"])
        self.assertEqual((note[:3], note[3]["field.text"]), (("note", 0.003, None), "x"))
        names = {schema["name"] for schema in profile["meta"]["markerSchema"]}
        self.assertTrue({marker[3]["type"] for marker in (outer, inner, note)} <= names)
        counter, = profile["counters"]
        self.assertEqual((counter["name"], counter["pid"]), ("queue", "4242"))
        self.assertEqual(counter["samples"]["count"], [2.5, -1.0])

    def test_samples_have_their_stacks(self):
        chance, machine, expected = random.Random(5), program(), {7: [], 8: []}
        for _ in range(100):
            names = "".join(chance.choice("abcdef") for _ in range(chance.randrange(6)))
            thread = chance.randint(7, 8)
            machine.sample(7, thread, stack_of(names))
            expected[thread].append(names[::-1])
        profile = self.profile(machine.end())
        shared, found = profile["shared"], {7: [], 8: []}
        for thread in profile["threads"]:
            for stack in thread["samples"]["stack"]:
                names = ""
                while stack is not None:
                    func = shared["frameTable"]["func"][shared["stackTable"]["frame"][stack]]
                    names = shared["stringArray"][shared["funcTable"]["name"][func]] + names
                    offset = shared["stackTable"]["prefixOffset"][stack]
                    stack = stack - offset if offset else None
                found[thread["tid"]].append(names)
        self.assertEqual(found, expected)

    def test_a_damaged_trace_gives_a_whole_profile(self):
        trace = Source().start(1000, "/a")
        for at in range(50):
            trace.note(2000 + at, str(at))
        data = trace.end()
        markers = self.markers(self.profile(data[:len(data) // 2], status=1), 0)
        self.assertGreater(len(markers), 10)
        self.assertEqual(markers[0][3]["never_stopped"], "true")


if __name__ == "__main__":
    unittest.main()
