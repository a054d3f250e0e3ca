#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceLog shows correct stacks with names: stacks_host.c writes from a known depth.

Environment: INTEROP_BUILD, STACKS_HOST, STACKS_KNOWN, STACKS_PLAIN, RINGPIPE_SYMBOLS ("" where
the build has no such module).
"""

import json
import os
import subprocess
import unittest

import clients

CUT = 0xc07	# the last frame of a stack without cached unwind rules
NEAR = 4096	# a function of the host is shorter


class Stacks(clients.Scratch):
    @classmethod
    def setUpClass(cls):
        cls.scratch = clients.Scratch()
        cls.scratch.setUp()
        cls.addClassCleanup(cls.scratch.doCleanups)
        trace = cls.scratch.path("stacks.nettrace")
        done = subprocess.run([os.environ["STACKS_HOST"], trace, os.environ["STACKS_KNOWN"],
                               os.environ["STACKS_PLAIN"]],
                              stdout=subprocess.PIPE, check=True, timeout=60)
        cls.functions = json.loads(done.stdout)
        cls.rows, cls.summary = clients.TraceRead().events(trace, "--stacks")
        cls.stacks = {row["fields"]["depth"]: cls.from_caller(row["stack"]) for row in cls.rows
                      if row["provider"] == "Stacks-Host"}

    @classmethod
    def from_caller(cls, stack):
        """Return the stack without the generated function, which an optimized build leaves by a
        jump."""
        made = function_at(stack[0]["address"], cls.functions) == "write"
        return stack[1:] if made else stack

    def methods(self, depth):
        return [(frame["module"], frame["method"]) for frame in self.stacks[depth]]

    def test_frames_are_the_calls_innermost_first(self):
        named = {depth: [function_at(frame["address"], self.functions) for frame in stack]
                 for depth, stack in self.stacks.items()}
        self.assertEqual(sorted(named), [0, 1, 2, 3, 4])
        known = {depth: [name for name in names if name] for depth, names in named.items()}
        self.assertEqual(known[3][:5], ["inner", "middle", "outer", "trace", "main"])

    @unittest.skipUnless(os.environ.get("RINGPIPE_SYMBOLS"), "built without elfutils")
    def test_functions_of_the_program_are_named(self):
        self.assertEqual(self.methods(3)[:5], [("stacks_host", name) for name in
                                               ("inner", "middle", "outer", "trace", "main")])

    @unittest.skipUnless(os.environ.get("RINGPIPE_SYMBOLS"), "built without elfutils")
    def test_cpp_functions_of_a_library_are_named_as_people_write_them(self):
        at = self.assert_through(1, "linked", "linked_entry")
        self.assertEqual(self.stacks[1][at]["module"], "libstacks_linked.so")

    @unittest.skipUnless(os.environ.get("RINGPIPE_SYMBOLS"), "built without elfutils")
    def test_functions_of_libraries_taken_back_before_the_stop_are_named(self):
        self.assert_through(2, "known", "plugin_entry")
        self.assert_through(4, "plain", "plugin_entry")

    def assert_through(self, depth, namespace, entry):
        check_out = f"{namespace}::Basket<unsigned int>::check_out(int (*)(unsigned int), " \
            "unsigned int)"
        methods = [method for _, method in self.methods(depth)]
        at = methods.index(check_out) if check_out in methods else 0
        self.assertEqual(methods[at:at + 2], [check_out, entry], methods)
        return at

    def test_a_stack_that_was_cut_says_so_where_it_ends(self):
        """A process's first stack is cut, since it requests the rules. The mark comes last."""
        for depth, stack in self.stacks.items():
            marked = [at for at, frame in enumerate(stack) if frame["address"] == CUT]
            self.assertIn(marked, ([], [len(stack) - 1]), depth)
        first = next(row["stack"] for row in self.rows if row["provider"] == "Stacks-Host")
        # The caller is certain without a rule. Frame pointers would lead to its own callers.
        self.assertEqual(len(first), 2)
        self.assertIn(function_at(first[0]["address"], self.functions), ("write", "trace"))
        self.assertEqual((first[1]["address"], first[1]["method"]),
                         (CUT, "[cut: unwind rules not cached yet]"))

    def test_the_process_is_named(self):
        self.assertEqual({row["process_name"] for row in self.rows
                          if row["provider"] == "Stacks-Host"}, {"stacks_host"})

    def test_the_command_line_is_reported(self):
        reported = [row["fields"] for row in self.rows
                if row["provider"] == "Microsoft-DotNETCore-EventPipe"]
        self.assertEqual(len(reported), 1)
        self.assertIn(os.environ["STACKS_PLAIN"], reported[0]["CommandLine"])


def function_at(address, functions):
    """Return the last function that begins at or before the address, or None."""
    before = {start: name for name, start in functions.items() if 0 <= address - start < NEAR}
    return before[max(before)] if before else None


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
