#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""speedscope imports what `ringpipe convert` writes: the same samples, functions and spans."""
import collections
import json
import os
import shutil
import subprocess
import sys
import unittest

import nettrace
import stack_formats_test
from formats_test import HOSTILE, Source
from profile_test import Machine
from tool import ToolTest

FOLDER = os.path.dirname(os.path.abspath(__file__))
CHROMIUM = shutil.which("chromium")
PATIENCE = 300
STACK_FORMATS = "speedscope", "folded", "pprof"
TITLE = "shop (7)"  # the outermost frame of a folded stack


def spans_of(profile):
    """Return a list of (stack of names, start, end), in the order of the ends."""
    names, spans, stack = profile["names"], [], []
    for event in profile["events"]:
        if event["type"] == "O":
            stack.append((names[event["frame"]], event["at"]))
            continue
        spans.append((tuple(name for name, _ in stack), stack[-1][1], event["at"]))
        assert stack.pop()[0] == names[event["frame"]]
    assert not stack
    return spans


def weights(profiles):
    """Return the exclusive and the inclusive weight of each function."""
    exclusive, inclusive = collections.Counter(), collections.Counter()
    for profile in profiles:
        for stack, start, end in spans_of(profile):
            exclusive[stack[-1]] += end - start
            if len(stack) > 1:
                exclusive[stack[-2]] -= end - start
            if stack[-1] not in stack[:-1]:
                inclusive[stack[-1]] += end - start
    return exclusive, inclusive


class Speedscope(ToolTest):
    def convert(self, data, form, status=0):
        trace = self.write("t.nettrace", data)
        self.run_tool("convert", trace, "--to", form, "-f", "-o", self.path(form), status=status)
        return self.path(form)

    def open(self, *paths):
        """Return what speedscope imported from each file, by the file's name: profiles, or None,
        and the errors that it reported."""
        done = subprocess.run(["node", os.path.join(FOLDER, "speedscope.mjs"), CHROMIUM, *paths],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        found = {}
        for name, seen in json.loads(done.stdout).items():
            if seen["profile"]:
                names = [frame["name"] for frame in seen["profile"]["shared"]["frames"]]
                for profile in seen["profile"]["profiles"]:
                    profile["names"] = names
            found[name] = (seen["profile"] and seen["profile"]["profiles"], seen["errors"])
        return found

    def profiles(self, data, *forms, status=0):
        found = self.open(*[self.convert(data, form, status) for form in forms])
        for form, (profiles, errors) in found.items():
            self.assertEqual(errors, [], form)
            self.assertIsNotNone(profiles, form)
        return {form: profiles for form, (profiles, _) in found.items()}

    def test_the_weights_of_all_functions_are_those_of_report(self):
        trace, samples = stack_formats_test.StackFormats.random_samples(self)
        found = self.profiles(trace, *STACK_FORMATS)
        rows = json.loads(self.run_tool("report", "t.nettrace", "cpu", "--top", "100", "--format",
                                        "json")[0])
        own = {row["function"]: row["exclusive_samples"] for row in rows}
        total = {row["function"]: row["inclusive_samples"] for row in rows}
        for form, profiles in found.items():
            exclusive, inclusive = weights(profiles)
            for others in (exclusive, inclusive):
                others.pop(TITLE, None)
                others.pop("[no stack]", None)
            self.assertEqual(+exclusive, own, form)
            self.assertEqual(inclusive, total, form)
            self.assertEqual(sum(profile["endValue"] for profile in profiles), len(samples))
        self.assertEqual({profile["name"]: profile["endValue"] for profile in found["speedscope"]},
                         {f"shop (7), thread {thread}": count for thread, count in
                          collections.Counter(thread for thread, _ in samples).items()})
        for form, other in (("folded", TITLE), ("pprof", "[no stack]")):
            self.assertEqual(sorted(found[form][0]["names"]), sorted([other, *"abcdef"]))

    def test_samples_stay_in_the_order_of_time(self):
        trace, samples = stack_formats_test.StackFormats.random_samples(self)
        expected = collections.defaultdict(list)
        for thread, stack in samples:
            expected[f"shop (7), thread {thread}"].append(stack)
        for profile in self.profiles(trace, "speedscope")["speedscope"]:
            found = [()] * int(profile["endValue"])
            for stack, start, end in spans_of(profile):
                for at in range(int(start), int(end)):
                    found[at] = max(found[at], stack, key=len)
            self.assertEqual(found, expected[profile["name"]])

    def test_spans_of_chromes_format_have_their_times_and_nesting(self):
        trace = Source().start(1000, "/a").start(1200, "/b").stop(1500, 201).stop(2000, 202)
        trace.start(2500, thread=8, activity=2, related=1).stop(2750, thread=8, activity=2)
        trace.note(2800, "x").count(2900, "queue", 2.5)
        one, two = self.profiles(trace.end(), "chrome")["chrome"]
        self.assertEqual([one["name"], two["name"]], ["pid 4242, tid 7", "pid 4242, tid 8"])
        (inner, *inner_times), (outer, *outer_times) = spans_of(one)
        self.assertEqual((len(inner), len(outer)), (2, 1))
        self.assertTrue(inner[1].startswith('request {"fields":{"path":"/b"}'), inner)
        self.assertTrue(outer[0].startswith('request {"fields":{"path":"/a"}'), outer)
        self.assertEqual([round(1000 * at) for at in inner_times + outer_times],
                         [200, 500, 0, 1000])
        self.assertEqual(round(1000 * two["endValue"]), 250)

    def test_a_span_that_never_stops_ends_with_the_trace(self):
        trace = Source().start(1000, "/a").note(3000, "x")
        profile, = self.profiles(trace.end(), "chrome")["chrome"]
        (stack, start, end), = spans_of(profile)
        self.assertIn("never_stopped", stack[0])
        self.assertEqual((start, end), (0, 2))

    def test_hostile_names_stay_names(self):
        machine = Machine().name(7, HOSTILE)
        machine.map(7, 700, 0x1000, 0x9000, "/lib/one;two.so")
        machine.function(7, 700, 0x2000, 0x2fff, HOSTILE)
        machine.sample(7, 7, [0x2010, 0x1010, 0x99999000])
        found = self.profiles(machine.end(), *STACK_FORMATS)
        for form, profiles in found.items():
            (stack, *_), *_ = spans_of(profiles[0])
            if form == "folded":
                # A line break or a semicolon would end the line or the name.
                self.assertEqual(len(stack), 4)
                self.assertEqual(stack[2], "[one:two.so]")
                self.assertEqual(stack[3], HOSTILE.replace("\n", " ").replace("\x01", " "))
                continue
            self.assertEqual(stack, ("[unknown]", "[one;two.so]", HOSTILE), form)
        self.assertEqual(found["speedscope"][0]["name"], f"{HOSTILE} (7), thread 7")

    def test_a_hostile_text_of_a_span_stays_a_text(self):
        trace = Source().start(1000, HOSTILE).stop(2000)
        profile, = self.profiles(trace.end(), "chrome")["chrome"]
        (stack, *_), = spans_of(profile)
        name, _, arguments = stack[0].partition(" ")
        self.assertEqual((name, json.loads(arguments)["fields"]["path"]), ("request", HOSTILE))

    def test_one_sample_is_a_profile(self):
        machine = Machine().name(7, "shop").sample(7, 7, [0x1000])
        for form, profiles in self.profiles(machine.end(), *STACK_FORMATS).items():
            self.assertEqual([profile["endValue"] for profile in profiles], [1], form)

    def test_a_trace_without_samples_is_an_empty_profile(self):
        data = nettrace.sample()
        for form, profiles in self.profiles(data, "speedscope", "pprof").items():
            self.assertEqual([profile["endValue"] for profile in profiles], [0], form)
        # Without spans, Chrome's format has nothing that speedscope shows, and speedscope reports
        # this. A file of folded stacks has no line, so it has no form that could be recognised.
        found = self.open(self.convert(data, "chrome"), self.convert(data, "folded"))
        self.assertEqual(found["chrome"],
                         (None, ["Successfully imported profile, but it's empty!"]))
        self.assertIsNone(found["folded"][0])

    def test_a_damaged_trace_is_imported_up_to_the_damage(self):
        trace, samples = stack_formats_test.StackFormats.random_samples(self)
        for form, profiles in self.profiles(trace[:-1] + b"\5\5", *STACK_FORMATS,
                                            status=1).items():
            self.assertEqual(sum(profile["endValue"] for profile in profiles), len(samples), form)


if __name__ == "__main__":
    if not CHROMIUM or not shutil.which("node"):
        print("chromium or node is missing; scripts/setup long installs them")
        sys.exit(77)
    if not os.path.isdir(os.path.join(FOLDER, "node_modules")):
        print("tests/consumers/node_modules is missing; scripts/setup long fetches it")
        sys.exit(77)
    unittest.main()
