#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE gc`, on handmade traces of a .NET runtime.

Environment: RINGPIPE_TEST_DATA, a folder with recordings of .NET runtimes; optional.
"""
import collections
import json
import math
import os
import random
import struct
import unittest
import zipfile

import convert_test
import nettrace
import oracle
from tool import ToolTest

RUNTIME = "Microsoft-Windows-DotNETRuntime"
START, END, RESTART, HEAPS, SUSPEND = 1, 2, 3, 4, 9
FOR_OTHER, FOR_GC = 0, 1
SMALL, INDUCED = 0, 1
BLOCKING, BACKGROUND = 0, 1


def heaps(*sizes):
    pairs = [struct.pack("<QQ", size, 1) for size in sizes]
    return b"".join(pairs[:4]) + bytes(30) + b"".join(pairs[4:])


class Gc(ToolTest):
    def trace(self):
        trace = nettrace.Trace()
        for number in (START, END, RESTART, HEAPS, SUSPEND):
            trace.define(number, RUNTIME, "", number, [])
        return trace

    def suspend(self, trace, ns, thread=7, reason=FOR_GC):
        trace.events(SUSPEND, [struct.pack("<IIH", reason, 0, 3)], thread=thread, ns=ns)

    def restart(self, trace, ns, thread=7):
        trace.events(RESTART, [b"\3\0"], thread=thread, ns=ns)

    def begin(self, trace, ns, number, generation, reason=SMALL, kind=BLOCKING, thread=7):
        trace.events(START, [struct.pack("<IIIIHQ", number, generation, reason, kind, 3, 0)],
                     thread=thread, ns=ns)

    def report(self, trace, *arguments, status=0):
        path = self.write("t", trace)
        out = self.run_tool("report", path, "gc", "--format=json", *arguments, status=status)[0]
        return json.loads(out)

    def test_pauses_are_those_of_each_generation(self):
        chance, trace, pauses = random.Random(1), self.trace(), {0: [], 1: [], 2: []}
        ns = 0
        for number in range(300):
            generation, length = chance.randrange(3), chance.randrange(1000, 10**7)
            self.suspend(trace, ns + 1)
            self.begin(trace, ns + 2, number, generation, INDUCED if number % 3 == 0 else SMALL)
            self.restart(trace, ns + 1 + length)
            pauses[generation].append(length)
            ns += 2 * 10**7
        rows = {row["generation"]: row for row in self.report(trace.end())}
        self.assertEqual(list(rows), ["all", "0", "1", "2", "large", "pinned"])
        pauses = {"all": sum(pauses.values(), []), **{str(k): v for k, v in pauses.items()}}
        for name, lengths in pauses.items():
            row = rows[name]
            self.assertEqual((row["count"], row["pauses"], row["max_ns"], row["total_ns"]),
                             (len(lengths), len(lengths), max(lengths), sum(lengths)))
            for key, share in (("p50_ns", 0.5), ("p99_ns", 0.99)):
                wanted = sorted(lengths)[math.ceil(share * len(lengths)) - 1]
                self.assertAlmostEqual(row[key] / wanted, 1, delta=0.004)
        self.assertEqual(rows["all"]["induced"], 100)
        self.assertEqual(rows["all"]["reasons"], {"AllocSmall": 200, "Induced": 100})
        slowest = self.report(self.read("t"), "--slowest", 7)
        self.assertEqual([row["duration_ns"] for row in slowest],
                         sorted(pauses["all"], reverse=True)[:7])

    def test_suspensions_for_other_reasons_are_no_pauses(self):
        trace = self.trace()
        self.suspend(trace, 1000, reason=FOR_OTHER)
        self.restart(trace, 2000)
        self.restart(trace, 3000)
        self.assertEqual(self.report(trace.end()), [])

    def test_pauses_of_threads_overlap_without_harm(self):
        trace = self.trace()
        self.suspend(trace, 1000, thread=7)
        self.suspend(trace, 1500, thread=8, reason=FOR_OTHER)
        self.restart(trace, 1600, thread=8)
        self.begin(trace, 1700, 5, 1)
        self.restart(trace, 4000, thread=7)
        pause, = self.report(trace.end(), "--slowest", 3)
        self.assertEqual(pause, {"duration_ns": 3000, "start_ns": 1000, "process_id": 4242,
                                 "thread_id": 7, "collection": 5, "generation": 1,
                                 "type": "blocking", "reason": "AllocSmall"})

    def test_pauses_of_a_background_collection_belong_to_it_until_it_ends(self):
        trace = self.trace()
        self.begin(trace, 500, 9, 2, INDUCED, BACKGROUND)
        self.suspend(trace, 1000, thread=8)
        self.restart(trace, 3000, thread=8)
        trace.events(END, [struct.pack("<IIH", 9, 2, 3)], thread=8, ns=3500)
        self.suspend(trace, 4000, thread=8)
        self.restart(trace, 5000, thread=8)
        first, second = self.report(trace.end(), "--slowest", 3)
        self.assertEqual((first["collection"], first["type"], first["reason"]),
                         (9, "background", "Induced"))
        self.assertIsNone(second["collection"])

    def test_an_expression_selects_collections_with_their_pauses_and_sizes(self):
        trace = nettrace.Trace()
        trace.define(START, RUNTIME, "GCStart", START, [
            ("Count", nettrace.U32), ("Depth", nettrace.U32), ("Reason", nettrace.U32),
            ("Type", nettrace.U32)])
        for number in (RESTART, HEAPS, SUSPEND):
            trace.define(number, RUNTIME, "", number, [])
        for number, generation in enumerate((0, 2, 0, 2)):
            self.suspend(trace, 1000 * number)
            self.begin(trace, 1000 * number + 10, number, generation)
            self.restart(trace, 1000 * number + 100 * (number + 1))
            trace.events(HEAPS, [heaps(number, 0, 0, 0, 0)], ns=1000 * number + 900)
        self.suspend(trace, 8000)  # of a collection that the trace does not have
        self.restart(trace, 9000)
        data = trace.end()
        for where, lengths in (("Depth == 2", [200, 400]), ("not (Depth == 2)", [100, 300]),
                               ("Depth == 2 and time < 2us", [200]), ("process == 1", []),
                               ("process == 4242 and thread == 7", [100, 200, 300, 400])):
            rows = self.report(data, "--slowest", 9, "--where", where)
            self.assertEqual(sorted(row["duration_ns"] for row in rows), lengths, where)
            rows = self.report(data, "--where", where)
            self.assertEqual([(row["count"], row["pauses"]) for row in rows[:1]],
                             [(len(lengths), len(lengths))] if lengths else [], where)
        row = self.report(data, "--where", f"id == {HEAPS} and time < 2us")[0]
        self.assertEqual((row["count"], row["size_last_bytes"]), (0, 1))

    def test_sizes_are_those_after_the_collections(self):
        trace = self.trace()
        trace.events(HEAPS, [heaps(10, 20, 30, 40, 5), heaps(1, 2, 300, 4, 6)])
        rows = {row["generation"]: (row["size_last_bytes"], row["size_max_bytes"])
                for row in self.report(trace.end())}
        self.assertEqual(rows, {"all": (313, 313), "0": (1, 10), "1": (2, 20), "2": (300, 300),
                                "large": (4, 40), "pinned": (6, 6)})
        trace = self.trace().events(HEAPS, [heaps(10, 20, 30, 40)])  # as .NET Core 3 wrote it
        self.assertEqual(self.report(trace.end())[0]["size_last_bytes"], 100)

    def test_pauses_belong_to_the_background_collection_of_their_time_whatever_the_order(self):
        """The runtime writes the events of its threads in blocks."""
        trace = self.trace()
        for block in 0, 1:
            # In the first block, the thread of background collections comes first.
            for thread in (9, 7) if block == 0 else (7, 9):
                for number in range(8 * block, 8 * block + 8):
                    ns = 10_000 * number
                    if thread == 7:
                        self.suspend(trace, ns + 1000)
                        self.begin(trace, ns + 1001, number, 2, INDUCED, BACKGROUND)
                        self.restart(trace, ns + 1200)
                    else:
                        self.suspend(trace, ns + 3000, thread=9)
                        self.restart(trace, ns + 3000 + number, thread=9)
                        trace.events(END, [struct.pack("<IIH", number, 2, 3)], thread=9,
                                     ns=ns + 4000)
                        trace.events(HEAPS, [heaps(number, 0, 0, 0)], thread=9 + block,
                                     ns=ns + 4001)
        # Earlier than those that were read.
        trace.events(HEAPS, [heaps(777, 0, 0, 0)], thread=7, ns=4002)
        end = trace.end()
        rows = self.report(end, "--slowest", "1000")
        ours = sorted((row["collection"], row["duration_ns"], row["thread_id"]) for row in rows)
        self.assertEqual(ours, sorted(
            [(number, 200, 7) for number in range(16)] +
            [(number, number, 9) for number in range(16)]))
        row = self.report(end)[0]
        self.assertEqual((row["size_last_bytes"], row["size_max_bytes"]), (15, 777))

    def test_short_payloads_and_unknown_numbers_are_ignored(self):
        trace = self.trace()
        for kind in (START, END, RESTART, HEAPS, SUSPEND):
            for size in range(40):
                trace.events(kind, [b"\1" * size])
        self.begin(trace, 5000, 1, 9)
        self.begin(trace, 5001, 2, 0, reason=99)
        rows = self.report(trace.end())
        self.assertEqual(rows[0]["reasons"], {"other": 1})

    @unittest.skipUnless(convert_test.RECORDINGS, "RINGPIPE_TEST_DATA has no recordings")
    def test_recordings_of_dotnet_have_the_collections_that_an_independent_reader_finds(self):
        for path in convert_test.RECORDINGS:
            counts, lengths, sizes = collections.Counter(), [], []
            begun = {}
            with zipfile.ZipFile(path) as archive:
                data = archive.read(archive.namelist()[0])
            trace = oracle.Trace(data)
            for event in trace.events:
                # The runtime does not describe its fields, so these are bytes.
                payload = event["fields"]
                if event["provider"] != RUNTIME:
                    continue
                if event["id"] == START:
                    counts[str(struct.unpack_from("<I", payload, 4)[0])] += 1
                elif event["id"] == SUSPEND and payload[:4] == struct.pack("<I", FOR_GC):
                    begun[event["thread"]] = event["time"]
                elif event["id"] == RESTART and event["thread"] in begun:
                    lengths.append(event["time"] - begun.pop(event["thread"]))
                elif event["id"] == HEAPS:
                    now = sum(struct.unpack_from("<8Q", payload)[::2])
                    now += struct.unpack_from("<Q", payload, 94)[0] if len(payload) > 94 else 0
                    sizes.append((event["time"], now))
            rows = {row["generation"]: row for row in self.report(data)}
            if not counts:
                self.assertEqual(rows, {})
                continue
            self.assertEqual({key: rows[key]["count"] for key in "012"},
                             {key: counts[key] for key in "012"})
            row = rows["all"]
            self.assertEqual((row["pauses"], row["size_last_bytes"], row["size_max_bytes"]),
                             (len(lengths), max(sizes, default=(0, 0))[1],
                              max((size for _, size in sizes), default=0)))
            for key, value in (("max_ns", max(lengths)), ("total_ns", sum(lengths))):
                self.assertAlmostEqual(row[key] * trace.rate / 1e9 / value, 1, delta=1e-4)

    def test_a_range_reads_only_its_blocks_and_what_names_and_ends_its_pauses(self):
        trace, needless = self.trace(), []

        def add(is_needed, write, *arguments):
            begin = len(trace.bytes)
            write(trace, *arguments)
            if not is_needed:
                needless.append((begin, len(trace.bytes)))

        # An index is stored for 1 MB and more. It is no longer valid if the first or last 64 KB of
        # its trace have changed.
        trace.define(99, "Shop", "note", 1, [])
        trace.events(99, [bytes(1000)] * 600, ns=1)
        add(True, self.begin, 500, 100, 2, INDUCED, BACKGROUND, 9)
        for number in range(40):
            ns = 1_000_000 * (number + 1)
            in_range, stops_later = 10 <= number < 20, number == 19
            add(in_range, self.suspend, ns)
            # The collections before the range may be background ones that last.
            if number % 2:
                add(number < 20, self.begin, ns + 1, number, 0)
            add(in_range, lambda trace, at: trace.events(HEAPS, [heaps(at, 0, 0, 0)], ns=at),
                ns + 2)
            add(in_range, self.restart, ns + (3_000_000 if stops_later else 1000 + number))
        trace.events(99, [bytes(1000)] * 600, ns=10**9)
        path = self.write("t", trace.end())
        status = os.stat(path)
        options = "gc", "--format=json", "--from", "11ms", "--to", "21ms"
        wanted = [self.run_tool("report", path, *options, *more)[0]
                  for more in ((), ("--slowest", "99"))]
        rows = json.loads(wanted[1])
        self.assertEqual([(row["collection"], row["duration_ns"]) for row in rows],
                         [(19, 3_000_000)] + [(100 if number % 2 == 0 else number, 1000 + number)
                                              for number in range(18, 9, -1)])
        data = bytearray(self.read("t"))
        for begin, end in needless:
            data[begin:end] = b"\xff" * (end - begin)
        self.write("t", data)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assertEqual([self.run_tool("report", path, *options, *more)[0]
                          for more in ((), ("--slowest", "99"))], wanted)

    def test_text_has_both_tables(self):
        trace = self.trace()
        self.suspend(trace, 1000)
        self.begin(trace, 1001, 1, 0)
        self.restart(trace, 31000)
        path = self.write("t", trace.end())
        lines = self.run_tool("report", path, "gc")[0].splitlines()
        self.assertRegex(lines[1], r"^ +4242 +all +1 +0 +0 +1 +30\.\d us .* AllocSmall 1$")
        self.assertRegex(lines[-1], r"30\.0 us +0\.000001 s +4242 +7 +1 +0 +blocking +AllocSmall$")
        self.assertIn("no garbage collections", self.run_tool(
            "report", self.write("t", nettrace.sample()), "gc")[0])


if __name__ == "__main__":
    unittest.main()
