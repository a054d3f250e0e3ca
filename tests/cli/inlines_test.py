#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe symbolize --inlines`, compared with addr2line of binutils at each instruction of a
program."""
import json
import os
import re
import shutil
import subprocess
import unittest

import nettrace6 as v6
from merge_test import Reader, system
from oracle import Bytes
from symbolize_test import BASE, PROGRAM, build_id_of, code_of, functions_of, output_of
from tool import PATIENCE, TOOL, ToolTest


def chains(path, addresses):
    """Return the functions at each address, innermost first, as addr2line finds them."""
    found, chain = [], None
    for line in output_of("addr2line", "-a", "-i", "-f", "-e", path,
                          *map(hex, addresses)).splitlines():
        if line.startswith("0x"):
            chain = []
            found.append(chain)
        elif not re.search(r":(\d+|\?)( \(discriminator \d+\))?$", line):
            chain.append(line)
    return found


def label(chain):
    return chain[0] + (f" (inlined by {', '.join(chain[1:])})" if chain[1:] else "")


def instructions_of(path, names):
    """Return the addresses of the instructions of the functions, and those after calls."""
    every, returns, after_call = [], [], False
    inside, end, functions = False, 0, functions_of(path)
    for line in output_of("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        head = re.match(r"[0-9a-f]+ <(.*)>:", line)
        row = re.match(r"\s+([0-9a-f]+):\s+(\S+)", line)
        if head:
            inside, after_call = head.group(1) in names, False
            end = sum(functions[head.group(1)]) if inside else 0
        # The bytes between two functions belong to none.
        elif row and inside and int(row.group(1), 16) < end:
            every.append(int(row.group(1), 16))
            if after_call:
                returns.append(every[-1])
            after_call = row.group(2).startswith(("call", "bl"))
    return every, returns


class Inlines(ToolTest):
    def setUp(self):
        super().setUp()
        self.environment.pop("DEBUGINFOD_URLS", None)

    def trace(self, stacks, named=(), path=PROGRAM):
        """Write a trace with these stacks, whose addresses are those of the program."""
        offset, vaddr, size = code_of(PROGRAM)
        self.bias = BASE - vaddr
        trace = v6.Trace(pairs=(("HardwareThreadCount", "2"), ("ProcessId", "99")))
        trace.threads({"index": 1, "process": 100, "thread": 100}, {"index": 0})
        for number, (name, kind) in enumerate((("ProcessMapping", 3), ("ProcessSymbol", 4),
                                               ("ProcessMappingMetadata", 5)), 1):
            trace.define(number, "Universal.System", name, kind)
        trace.define(4, "Universal.Events", "cpu", 1)
        trace.stacks(1, [[address + self.bias for address in stack] for stack in stacks])
        rows = [(1, system(7, BASE, BASE + size, offset, path, 8)),
                (3, system(8, '{"type":"ELF","build_id":"%s","p_vaddr":"0x%x","p_offset":"0x%x"}'
                           % (build_id_of(PROGRAM), vaddr, offset), ""))]
        functions = functions_of(PROGRAM)
        for name in named:
            start, length = functions[name]
            rows.append((2, system(9, 7, start + self.bias, start + self.bias + length - 1,
                                   name)))
        rows += [(4, v6.varuint(1))] * len(stacks)
        stack = 0
        for number, (kind, payload) in enumerate(rows, 1):
            stack += kind == 4
            trace.events({"id": kind, "thread": 1, "capture": 0, "number": number,
                          "payload": payload, "stack": stack if kind == 4 else 0, "ns": number})
        return self.write("t.nettrace", trace.end())

    def names(self, *options):
        """Add names to the trace. Return its functions as (start, last, name), sorted."""
        self.run_tool("symbolize", "t.nettrace", "-f", "-o", "named.nettrace", *options)
        found = []
        for event in Reader(self.read("named.nettrace")).events:
            if event["name"] == "ProcessSymbol":
                c = Bytes(event["payload"])
                _, _, start, last = (c.varuint() for _ in range(4))
                found.append((start - self.bias, last - self.bias,
                              c.take(c.number("H")).decode()))
        return sorted(found)

    def check(self, found, addresses, expected):
        for (_, last, _), (start, _, _) in zip(found, found[1:]):
            self.assertLess(last, start)
        at = {address: [name for start, last, name in found if start <= address <= last]
              for address in addresses}
        self.assertEqual(at, {address: [name] for address, name in zip(addresses, expected)})

    def instructions(self):
        every, returns = instructions_of(PROGRAM, {"outer", "plain", "main"})
        self.assertGreater(max(map(len, chains(PROGRAM, every))), 2)
        return every, returns

    def test_each_instruction_has_the_functions_that_addr2line_finds(self):
        every, _ = self.instructions()
        self.trace([[address] for address in every])
        self.check(self.names("--inlines"), every, map(label, chains(PROGRAM, every)))

    def test_a_return_address_has_the_functions_of_its_call(self):
        every, returns = self.instructions()
        self.assertTrue(returns)
        self.trace([[every[0], address] for address in returns if address != every[0]])
        expected = chains(PROGRAM, [address - 1 for address in returns])
        self.assertIn(["called", "outer"], expected)
        self.check(self.names("--inlines"), returns, map(label, expected))

    def test_functions_that_the_trace_names_get_their_inlined_functions(self):
        every, _ = self.instructions()
        self.trace([[address] for address in every], named=("outer", "plain", "main"))
        self.check(self.names("--inlines"), every, map(label, chains(PROGRAM, every)))

    def test_without_the_option_functions_keep_their_names(self):
        every, _ = self.instructions()
        self.trace([[address] for address in every], named=("outer",))
        self.assertEqual({name for _, _, name in self.names()}, {"outer", "plain", "main"})

    def test_a_stripped_program_has_its_debug_file(self):
        every, _ = self.instructions()
        build_id = build_id_of(PROGRAM)
        target = self.path(f"symbols/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
        os.makedirs(os.path.dirname(target))
        subprocess.run(["objcopy", "--only-keep-debug", PROGRAM, target], check=True)
        self.trace([[address] for address in every], path=self.path("gone/program"))
        self.check(self.names("--inlines", "--symbols", self.path("symbols")), every,
                   map(label, chains(PROGRAM, every)))

    def test_a_debug_link_leads_to_the_dwarf(self):
        every, _ = self.instructions()
        os.makedirs(self.path("symbols/.debug"))
        target, debug = self.path("symbols/program"), self.path("symbols/.debug/other.debug")
        subprocess.run(["objcopy", "--only-keep-debug", PROGRAM, debug], check=True)
        subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", PROGRAM,
                        target], check=True)
        self.trace([[address] for address in every], path=target)
        self.check(self.names("--inlines"), every, map(label, chains(PROGRAM, every)))

    def test_a_program_without_dwarf_keeps_the_names_of_its_functions(self):
        every, _ = self.instructions()
        os.makedirs(self.path("symbols"))
        target = self.path("symbols/program")
        subprocess.run(["strip", "--strip-debug", "-o", target, PROGRAM], check=True)
        self.trace([[address] for address in every], path=self.path("gone/program"))
        found = self.names("--inlines", "--symbols", self.path("symbols"))
        self.assertEqual({name for _, _, name in found}, {"outer", "plain", "main"})

    def test_damaged_dwarf_costs_no_more_than_names(self):
        every, _ = self.instructions()
        os.makedirs(self.path("symbols"))
        target = self.path("symbols/program")
        begins = [int(row.group(1), 16) for row in re.finditer(
            r"\.debug_(?:info|abbrev|str|rnglists)\s+PROGBITS\s+\S+\s+(\S+)",
            output_of("readelf", "-SW", PROGRAM))]
        self.assertGreaterEqual(len(begins), 3)
        # libdw does not free what it allocated before it found the damage.
        self.environment["ASAN_OPTIONS"] = (self.environment.get("ASAN_OPTIONS", "") +
                                            ":detect_leaks=0")
        self.trace([[address] for address in every], path=self.path("gone/program"))
        for begin in begins:
            for offset in range(0, 400, 57):
                shutil.copy(PROGRAM, target)
                with open(target, "r+b") as file:
                    file.seek(begin + offset)
                    file.write(b"\xff\x7f")
                found = self.names("--inlines", "--symbols", self.path("symbols"))
                self.assertTrue(all(name for _, _, name in found))
                self.assertTrue({"outer", "plain", "main"} <= {
                    re.sub(r".*(?:, |by )(\w+)\)$", r"\1", name) for _, _, name in found})

    def test_report_shows_the_inlined_functions(self):
        every, _ = self.instructions()
        self.trace([[address] for address in every])
        self.names("--inlines")
        rows = json.loads(subprocess.run([TOOL, "report", "--format", "json", "named.nettrace"],
                                         stdout=subprocess.PIPE, check=True, timeout=PATIENCE,
                                         cwd=self.directory).stdout)["hot_functions"]
        expected = {}
        for chain in chains(PROGRAM, every):
            expected[label(chain)] = expected.get(label(chain), 0) + 1
        counts = {row["function"]: row["samples"] for row in rows}
        self.assertTrue(counts)
        self.assertEqual(counts, {name: expected[name] for name in counts})


if __name__ == "__main__":
    unittest.main()
