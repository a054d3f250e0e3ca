#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dotnet-trace records a Lua program, and its report shows functions of Lua and of C.

Environment: INTEROP_BUILD, LUA, LUA_CPATH, LUA_SCRIPT.
"""
import math
import os
import re
import shutil
import subprocess
import unittest

import clients

PATIENCE_S = 300
# The loops of the script's functions: three() has three times as many instructions as one().
SHARES = {"one": 1 / 7, "three": 3 / 7, "recursive": 2 / 7, "function": 1 / 7}
DEVIATIONS = 5


class LuaProfile(clients.Scratch):
    def run_trace(self, *arguments):
        done = subprocess.run([clients.dotnet_trace_command(), *arguments], capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE_S,
                              cwd=self.directory, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_top_functions_of_lua_have_their_shares_and_c_is_between_them(self):
        trace = self.path("lua.nettrace")
        # The report cuts long names, so the name of the script has no path.
        shutil.copy(os.environ["LUA_SCRIPT"], self.path("shares.lua"))
        self.run_trace("collect", "-o", trace, "--profile", "dotnet-sampled-thread-time", "--",
                       os.environ["LUA"], "shares.lua", "samples", "2500")
        top = self.run_trace("report", trace, "topN", "-n", "200")
        rows = re.findall(r"^\d+\.\s+(.*?)\s+([\d.]+)%\s+([\d.]+)%", top, re.M)
        found = dict.fromkeys(SHARES, 0.0)
        # The rest of the time belongs to no function: it grows while other programs run.
        script = max((float(inclusive) for name, inclusive, _ in rows if "lua_pcall" in name),
                     default=0)
        self.assertGreater(script, 0, top)
        for name, _, exclusive in rows:
            if "shares.lua" in name:
                function = re.search(r"!?(\w+)[ (]?", name.split("!")[-1])[1]
                if function in found:
                    found[function] += float(exclusive)
        total = sum(found.values())
        self.assertGreater(total, script / 2, top)
        samples = 200   # at least, in the time that the script needs
        for function, share in SHARES.items():
            deviation = math.sqrt(share * (1 - share) / samples)
            self.assertLess(abs(found[function] / total - share), DEVIATIONS * deviation,
                            (function, top))
        inclusive = self.run_trace("report", trace, "topN", "-n", "200", "--inclusive")
        self.assertIn("lua_pcallk", inclusive)
        self.assertIn("main chunk", inclusive)


if __name__ == "__main__":
    clients.main(clients.dotnet_trace_command)
