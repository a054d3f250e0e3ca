#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe symbolize`: functions of a real program, which nm knows, in traces of a second writer.
"""
import http.server
import os
import re
import shutil
import signal
import subprocess
import threading
import unittest

import nettrace
import nettrace6 as v6
from merge_test import Reader, system
from oracle import Bytes
from tool import PATIENCE, ToolTest

PROGRAM = os.environ["FORKS"]
BASE = 0x7f0000000000


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def functions_of(path):
    """Return {name: (address, size)} of a program's own functions."""
    found = {}
    for line in output_of("nm", "-S", "--defined-only", path).splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT":
            found[words[3]] = int(words[0], 16), int(words[1], 16)
    return found


def code_of(path):
    """Return file offset, address and size of the executable segment."""
    for line in output_of("readelf", "-lW", path).splitlines():
        words = line.split()
        if words[:1] == ["LOAD"] and "E" in line.split("0x1000")[0].split()[-1]:
            return int(words[1], 16), int(words[2], 16), int(words[5], 16)
    raise AssertionError("no executable segment")


def build_id_of(path):
    return re.search(r"Build ID: (\w+)", output_of("readelf", "-n", path)).group(1)


class Symbolize(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment.pop("DEBUGINFOD_URLS", None)
        self.environment["DEBUGINFOD_CACHE_PATH"] = self.path("cache")
        self.functions = functions_of(PROGRAM)
        self.build_id = build_id_of(PROGRAM)
        self.missing = self.path("gone/program")

    def trace(self, names, path=None, build_id=None, named=(), processes=(100,), damaged=None):
        """A trace whose stacks have the middle of each function. The mapping of the process
        `damaged` cannot be read."""
        offset, vaddr, size = code_of(PROGRAM)
        trace = v6.Trace(pairs=(("HardwareThreadCount", "2"), ("ProcessId", "99")))
        trace.threads(*({"index": i + 1, "process": process, "thread": process}
                        for i, process in enumerate(processes)), {"index": 0})
        trace.define(1, "Universal.System", "ProcessMapping", 3)
        trace.define(2, "Universal.System", "ProcessSymbol", 4)
        trace.define(3, "Universal.System", "ProcessMappingMetadata", 5)
        trace.define(4, "Universal.Events", "cpu", 1)
        frames = [BASE + address - vaddr + length // 2
                  for address, length in (self.functions[name] for name in names)]
        stacks = [frames + [0xffffffff81000000, 12345]]
        trace.stacks(1, stacks)
        number = 0
        for i, process in enumerate(processes):
            begin = len(trace.bytes)
            rows = [(1, system(7, BASE, BASE + size, offset, path or self.missing, 8)),
                    (3, system(8, '{"type":"ELF","build_id":"%s","p_vaddr":"0x%x",'
                               '"p_offset":"0x%x"}' % (build_id or self.build_id, vaddr, offset),
                               ""))]
            for name in named:
                address, length = self.functions[name]
                rows.append((2, system(9, 7, BASE + address - vaddr,
                                       BASE + address - vaddr + length - 1, name)))
            rows.append((4, v6.varuint(1)))
            for kind, payload in rows:
                number += 1
                trace.events({"id": kind, "thread": i + 1, "capture": 0, "number": number,
                              "payload": payload, "stack": int(kind == 4), "ns": number})
                if process == damaged and kind == 1:
                    trace.bytes[begin + 4:] = b"\xff" * (len(trace.bytes) - begin - 4)
                    # Stacks are readable again after a sequence point.
                    trace.point([(i + 1, number)], ns=number).stacks(1, stacks)
        return self.write("t.nettrace", trace.end())

    def symbolize(self, path, *options, status=0):
        self.messages = self.run_tool("symbolize", path, "-f", "-o", "named.nettrace", *options,
                                      status=status)[1]
        self.named = Reader(self.read("named.nettrace"))
        self.assertTrue(self.named.ended)
        vaddr = code_of(PROGRAM)[1]
        found = {}
        for event in self.named.events:
            if event["name"] != "ProcessSymbol":
                continue
            c = Bytes(event["payload"])
            _, mapping, start, last = (c.varuint() for _ in range(4))
            self.assertEqual(mapping, 7)
            name = c.take(c.number("H")).decode()
            found.setdefault(event["process"], {})[name] = (start - BASE + vaddr, last - start + 1)
        return found

    def expected(self, names, processes=(100,)):
        return {process: {name: self.functions[name] for name in names} for process in processes}

    def place(self, *path, strip=None):
        target = os.path.join(self.path("symbols"), *path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(PROGRAM, target)
        if strip:
            subprocess.run(["strip", strip, target], check=True)
        return self.path("symbols")

    def test_functions_are_found_by_build_id_as_in_an_archive(self):
        folder = self.place(".build-id", self.build_id[:2], self.build_id[2:])
        found = self.symbolize(self.trace(["main"]), "--symbols", folder)
        self.assertEqual(found, self.expected(["main"]))
        self.assertRegex(self.messages, "added 1 function, for 1 address; 1 address without "
                                        "a name")
        self.assertNotIn("no such file", self.messages)

    def test_functions_are_found_in_debug_files_as_gdb_does(self):
        folder = self.place(".build-id", self.build_id[:2], self.build_id[2:] + ".debug",
                            strip="--only-keep-debug")
        found = self.symbolize(self.trace(["main"]), "--symbols", "/nonexistent:" + folder)
        self.assertEqual(found, self.expected(["main"]))

    def test_functions_are_found_in_a_file_of_the_same_name(self):
        self.missing = self.path("gone/forks")
        found = self.symbolize(self.trace(["main"]), "--symbols", self.place("forks"))
        self.assertEqual(found, self.expected(["main"]))

    def test_functions_are_found_at_the_path_of_the_file(self):
        found = self.symbolize(self.trace(["main"], path=PROGRAM))
        self.assertEqual(found, self.expected(["main"]))

    def test_a_file_with_another_build_id_gives_no_names(self):
        other = self.build_id[:-1] + ("0" if self.build_id[-1] != "0" else "1")
        trace = self.trace(["main"], path=PROGRAM, build_id=other)
        folder = self.place(".build-id", other[:2], other[2:])
        self.assertEqual(self.symbolize(trace, "--symbols", folder), {})
        self.assertIn(f"{PROGRAM}: 1 address without a name; no such file here (build id "
                      f"{other})", self.messages)

    def test_each_function_is_added_once_for_each_process(self):
        names = [name for name, (_, size) in self.functions.items() if size > 8][:4]
        processes = (100, 200, 300)
        trace = self.trace(names + names, path=PROGRAM, processes=processes)
        self.assertEqual(self.symbolize(trace), self.expected(names, processes))
        added = [event for event in self.named.events if event["name"] == "ProcessSymbol"]
        self.assertEqual(len(added), len(names) * 3)

    def test_functions_that_the_trace_names_stay_as_they_are(self):
        names = [name for name, (_, size) in self.functions.items() if size > 8][:2]
        trace = self.trace(names, path=PROGRAM, named=names[:1])
        before = Reader(self.read("t.nettrace")).events
        self.assertEqual(self.symbolize(trace), self.expected(names))
        self.assertEqual(self.named.events[:len(before)], before)
        self.assertEqual(len(self.named.events), len(before) + 1)

    def test_a_damaged_file_gives_no_names(self):
        folder = self.place(".build-id", self.build_id[:2], self.build_id[2:])
        with open(os.path.join(folder, ".build-id", self.build_id[:2], self.build_id[2:]),
                  "r+b") as file:
            file.truncate(5000)
        self.assertEqual(self.symbolize(self.trace(["main"]), "--symbols", folder), {})

    def test_a_damaged_trace_gets_the_names_on_both_sides_of_the_damage(self):
        trace = self.trace(["main"], path=PROGRAM, processes=(100, 200, 300), damaged=200)
        found = self.symbolize(trace, status=1)
        self.assertEqual(found, self.expected(["main"], (100, 300)))
        self.assertRegex(self.messages, r"t\.nettrace: the trace is damaged at offset \d+: .*; "
                                        r"the new trace has the other events")
        samples = [event["process"] for event in self.named.events if event["name"] == "cpu"]
        self.assertEqual(samples, [100, 200, 300])

    def test_files_come_from_a_server_of_debuginfod(self):
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                if not self.path.endswith("/executable"):
                    self.send_error(404)
                    return
                with open(PROGRAM, "rb") as file:
                    content = file.read()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.environment["DEBUGINFOD_URLS"] = f"http://127.0.0.1:{server.server_port}"
        found = self.symbolize(self.trace(["main"]))
        if not asked:
            self.skipTest("libdebuginfod is not installed")
        self.assertEqual(asked, [f"/buildid/{self.build_id}/debuginfo",
                                 f"/buildid/{self.build_id}/executable"])
        self.assertEqual(found, self.expected(["main"]))

    def test_a_cut_trace_gets_names_up_to_there(self):
        path = self.trace(["main"], path=PROGRAM)
        self.write("t.nettrace", self.read("t.nettrace")[:-3])
        self.assertEqual(self.symbolize(path, status=1), self.expected(["main"]))
        self.assertIn("the trace stops before its end", self.messages)

    def test_ctrl_c_stops(self):
        os.mkfifo(self.path("slow"))
        process = self.start("symbolize", "slow", "-o", "named.nettrace")
        with open(self.path("slow"), "wb"), open(self.path("slow"), "wb"):
            process.send_signal(signal.SIGINT)
            self.finish(process, 130)
        self.assertFalse(os.path.exists(self.path("named.nettrace")))

    def test_ctrl_c_ends_a_command_whose_output_nothing_reads(self):
        trace = self.trace(["main"], processes=range(1, 200))
        process = self.start_unread("symbolize", trace, "-o", "-")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), 130)
        self.assertIn(b"stopped; standard output", process.stderr.read())

    def test_wrong_usage(self):
        trace = self.trace(["main"])
        self.assertIn("requires -o FILE", self.run_tool("symbolize", trace, status=2)[1])
        self.assertIn("needs a file", self.run_tool("symbolize", "-", "-o", "x", status=2)[1])
        self.assertIn("is a trace to read",
                      self.run_tool("symbolize", trace, "-f", "-o", trace, status=1)[1])
        self.write("old", nettrace.sample())
        self.assertIn("only traces of version 6",
                      self.run_tool("symbolize", "old", "-o", "x", status=1)[1])
        self.assertFalse(os.path.exists(self.path("x")))


if __name__ == "__main__":
    unittest.main()
