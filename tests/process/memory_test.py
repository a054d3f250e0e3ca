#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One allocation of a program fails, each in a run of its own: memory_test.py LIBRARY
[unittest arguments]

Environment: GEN, INBOX and RINGPIPE; with Lua, also LUA and LUA_CPATH.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import nettrace  # noqa: E402

LIBRARY = os.path.abspath(sys.argv[1])
PATIENCE = 60
RUNS_MAX = 3000
MANIFEST = """<instrumentationManifest><instrumentation><events>
<provider name="Test-Memory" guid="{11111111-2222-3333-4444-555555555555}" symbol="MEMORY">
<templates><template tid="One"><data name="text" inType="win:UnicodeString"/></template></templates>
<events><event value="1" symbol="Fired" template="One" level="win:Error"/></events>
</provider></events></instrumentation></instrumentationManifest>
"""
SCRIPT = """
local done, rp = pcall(require, "ringpipe")
if done then
	pcall(function()
		local source = rp.source("Test-Memory")
		local event = source:event { name = "Fired", fields = { { "text", "string" } } }
		local span = source:span { name = "Work" }
		local listener = rp.listen({ "Test-Memory" }, function() end)
		event("text")
		span():finish()
		source:counter { name = "sum" }:add(1)
		listener:poll()
		listener:stop()
	end)
end
"""


class Memory(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ringpipe-memory-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def run_with(self, number, command, preload, settings):
        """Return the status, the output, and whether the allocation failed."""
        shutil.rmtree(self.path("out"), ignore_errors=True)
        mark = self.path("mark")
        environment = dict(os.environ, FAIL_MEMORY=str(number), FAIL_MARK=mark, **settings)
        # The constructors of the last library run first.
        environment["LD_PRELOAD"] = ":".join([*preload, LIBRARY])
        done = subprocess.run(command, env=environment, cwd=self.directory, check=False,
                              timeout=PATIENCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        has_failed = os.path.exists(mark)
        if has_failed:
            os.unlink(mark)
        self.assertGreaterEqual(done.returncode, 0, (number, command, done.stdout))
        return done.returncode, done.stdout.decode(), has_failed

    def fail_each(self, *command, preload=(), **settings):
        """Return the status and the output of each run in which an allocation failed."""
        results = []
        for number in range(1, RUNS_MAX):
            status, out, has_failed = self.run_with(number, command, preload, settings)
            if not has_failed:
                self.assertEqual(status, 0, out)
                name = os.path.basename(command[0])
                self.assertGreater(len(results), 20, "the failures reach the program")
                print(f"# figure: {len(results)} allocations of {name} failed, one in each run")
                return results
            results.append((status, out))
        return self.fail("the program allocates without an end")

    def test_the_generator_reports_each_failure(self):
        with open(self.path("one.man"), "w", encoding="utf-8") as file:
            file.write(MANIFEST)
        results = self.fail_each(os.environ["GEN"], "one.man", "-o", "out", FAIL_REALLOC="1")
        failed = [out for status, out in results if status != 0]
        self.assertGreater(len(failed), 10)
        for out in failed:
            self.assertRegex(out, "^ringpipe: ")

    def test_a_report_has_the_reasons_of_losses_or_fails(self):
        trace = nettrace.Trace()
        trace.define(1, "ringpipe", "EventsLost", 1,
                     [("ring", nettrace.U32), ("reason", nettrace.STRING), ("count", nettrace.U64)])
        trace.events(1, [nettrace.lost(0, "full", 9), nettrace.lost(1, "busy", 2)])
        with open(self.path("t.nettrace"), "wb") as file:
            file.write(trace.end())
        results = self.fail_each(os.environ["RINGPIPE"], "report", "t.nettrace")
        failed = [out for status, out in results if status != 0]
        self.assertGreater(len(failed), 10)
        for status, out in results:
            if status == 0:
                self.assertRegex(out, "(?m)^ +9 in ring 0: full\n +2 in ring 1: busy$")

    @unittest.skipUnless("LUA" in os.environ, "Lua is missing")
    def test_the_module_of_lua_ends_no_program(self):
        with open(self.path("one.lua"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        results = self.fail_each(os.environ["LUA"], "one.lua", RINGPIPE_DIAGNOSTICS="0")
        for status, out in results:
            # The interpreter needs memory to open the script.
            self.assertTrue(status == 0 or "cannot open" in out, out)

    def test_the_in_box_providers_end_no_program(self):
        self.fail_each("/bin/ls", "/", preload=[os.environ["INBOX"]], RINGPIPE_DIAGNOSTICS="0",
                       RINGPIPE_CONFIG="ringpipe-heap,ringpipe-locks,ringpipe-threads",
                       RINGPIPE_OUTPUT=self.path("inbox.nettrace"), RINGPIPE_STACKS="1")


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
