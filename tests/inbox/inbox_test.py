#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The events of the in-box providers agree with a program's own record of what it did."""
import collections
import errno
import json
import math
import time
import unittest

from inbox import InboxTest, named
from tool import PATIENCE


class Threads(InboxTest):
    def test_each_thread_has_its_creation_start_name_and_end(self):
        self.check("threads", 30)

    def test_threads_of_c11_have_the_same_events_and_their_results(self):
        self.check("c11-threads", 10)

    def check(self, part, count):
        lines, events = self.run_part(part, "ringpipe-threads")
        creator = int(lines.pop()[1])
        self.assertEqual(len(lines), count)
        threads = {int(thread): (int(routine, 16), name) for _, thread, routine, name in lines}
        routine = next(iter(threads.values()))[0]
        created = named(events, "ringpipe-threads", "created")
        self.assertEqual([(event["thread"], event["fields"]["routine"]) for event in created],
                         [(creator, routine)] * count)
        for name, field, value in (("started", "creator", creator), ("ended", "routine", routine)):
            found = named(events, "ringpipe-threads", name)
            self.assertEqual(collections.Counter(event["thread"] for event in found),
                             collections.Counter(list(threads)), name)
            self.assertEqual({event["fields"][field] for event in found}, {value})
        names = {event["thread"]: event["fields"]["name"]
                 for event in named(events, "ringpipe-threads", "named")}
        self.assertEqual(names, {thread: name for thread, (_, name) in threads.items()})


class Locks(InboxTest):
    EVENTS = {"mutex": "mutex_contended", "condition": "condition_waited"}

    def test_each_wait_has_its_lock_duration_and_the_thread_that_ended_it(self):
        lines, events = self.run_part("locks", "ringpipe-locks")
        self.assertEqual(len(lines), 70)
        found = {event["thread"]: event for event in events
                 if event["provider"] == "ringpipe-locks" and event["fields"]["result"] == 0}
        for waiter, wait in zip(lines[::2], lines[1::2]):
            thread, longest = int(waiter[1]), int(waiter[2])
            _, kind, address, holder, shortest = wait
            event = found.pop(thread)
            fields = event["fields"]
            self.assertEqual(event["name"], self.EVENTS.get(kind, "rwlock_contended"))
            self.assertEqual(fields["address"], int(address, 16))
            self.assertLessEqual(int(shortest), fields["duration_ns"], kind)
            self.assertLessEqual(fields["duration_ns"], longest, kind)
            if kind in ("mutex", "write-by-writer", "read-by-writer"):
                self.assertEqual(fields["owner"], int(holder), kind)
            if kind != "mutex":
                self.assertEqual(fields["waker"], int(holder), kind)
            if kind == "write-by-reader":
                self.assertEqual(fields["owner"], 0)
            if event["name"].startswith("rwlock"):
                self.assertEqual(fields["is_write"], int(kind.startswith("write")))
        self.assertEqual(found, {})
        others = sorted((event["name"], event["fields"]["result"]) for event in events
                        if event["fields"].get("result"))
        self.assertEqual(others, [*[("condition_waited", errno.ETIMEDOUT)] * 2,
                                  *[("mutex_contended", errno.ETIMEDOUT)] * 2,
                                  ("rwlock_contended", errno.EDEADLK)])

    def test_keywords_select_the_kinds_of_locks(self):
        for keyword, name in ((1, "mutex"), (2, "rwlock"), (4, "condition")):
            _, events = self.run_part("locks", f"ringpipe-locks:{keyword}")
            names = {event["name"] for event in events if event["provider"] == "ringpipe-locks"}
            self.assertEqual([found[:len(name)] for found in names], [name])


class Heap(InboxTest):
    def test_each_function_has_its_blocks_and_each_block_its_end(self):
        lines, events = self.run_part("heap-functions", "ringpipe-heap::4:SampleBytes=1")
        live, ended = {}, []
        # The order of one thread's events is that of its calls.
        blocks = {int(line[3]): (line[1], int(line[2], 16)) for line in lines
                  if line[0] == "allocated"}
        seen = {}
        for event in events:
            fields = event["fields"]
            if event["name"] == "allocated":
                self.assertNotEqual(fields["id"], 0)
                live[fields["id"]] = fields["address"]
                if fields["size"] in blocks:
                    seen.setdefault(fields["size"], fields["address"])
                self.assertEqual(fields["interval"], 1)
            elif event["name"] == "freed" and fields["id"] in live:
                self.assertEqual(live.pop(fields["id"]), fields["address"])
                ended.append(fields["address"])
        for size, (function, address) in blocks.items():
            self.assertEqual(seen.get(size), address, function)
        for address in (int(line[1], 16) for line in lines if line[0] == "freed"):
            self.assertIn(address, ended)
        remaining = {int(line[2], 16) for line in lines if line[0] == "allocated"}
        remaining -= {int(line[1], 16) for line in lines if line[0] == "freed"}
        # aligned_alloc() and the block that the failed realloc() left.
        self.assertGreaterEqual(len(remaining), 1)
        self.assertLessEqual(remaining, set(live.values()))

    def test_the_samples_estimate_the_blocks_and_bytes_of_each_size(self):
        interval = 4096
        lines, events = self.run_part("heap-samples",
                                      f"ringpipe-heap::4:SampleBytes={interval}")
        samples = collections.Counter(event["fields"]["size"] for event in events
                                      if event["name"] == "allocated")
        for _, size, count in lines:
            size, count = int(size), int(count)
            chance = 1 - math.exp(-size / interval)
            # Six standard deviations of a binomial distribution.
            self.assertAlmostEqual(samples[size] / chance, count,
                                   delta=6 * math.sqrt(count * (1 - chance) / chance) + 2)
        # Almost all blocks were freed, and so were the samples.
        freed = sum(event["name"] == "freed" for event in events)
        self.assertGreater(freed, 0.99 * sum(samples.values()))

    def test_a_session_without_arguments_samples_each_512_kib(self):
        _, events = self.run_part("heap-samples", "ringpipe-heap")
        self.assertEqual({event["fields"]["interval"] for event in events
                          if event["name"] == "allocated"}, {512 * 1024})


class Stacks(InboxTest):
    def run_with_stacks(self, part, providers, report):
        self.run_part(part, providers, RINGPIPE_STACKS="1")
        out, _ = self.run_tool("report", self.path("inbox.nettrace"), report, "--format=json",
                               "--top", 1000)
        return json.loads(out)

    def test_the_heap_report_names_the_functions_that_allocated(self):
        # The first stacks are cut, because their unwind rules are not cached yet.
        deadline = time.monotonic() + PATIENCE
        named_rows = []
        while not named_rows:
            self.assertLess(time.monotonic(), deadline, "no stack has names")
            rows = self.run_with_stacks("heap-samples", "ringpipe-heap::4:SampleBytes=1024",
                                        "heap")
            named_rows = [row for row in rows if row["stack"][:2] == ["heap_samples", "main"]]
            inner = {row["stack"][0] for row in rows}
            self.assertEqual([name for name in inner if "inbox" in name or name == "malloc"], [])
            # 400,000 blocks of 96 bytes, 200,000 of 1,000 and 20,000 of 20,000 bytes.
            self.assertAlmostEqual(sum(row["allocated_bytes"] for row in rows) / 638.4e6, 1,
                                   delta=0.05)
            self.assertLess(sum(row["live_bytes"] for row in rows), 1e6)

    def test_the_locks_report_sums_the_waits(self):
        rows = self.run_with_stacks("locks", "ringpipe-locks", "locks")
        self.assertEqual({row["kind"] for row in rows},
                         {"mutex", "read lock", "write lock", "condition"})
        self.assertEqual(sum(row["count"] for row in rows), 40)


class Limits(InboxTest):
    ALL = "ringpipe-heap::4:SampleBytes=1,ringpipe-locks,ringpipe-threads,ringpipe-signals"

    def test_calls_before_all_constructors_work(self):
        for providers in "", self.ALL:
            self.run_part("early-calls", providers)

    def test_a_program_without_memory_gets_the_same_errors(self):
        for providers in "", self.ALL.replace("=1,", "=65536,"):
            # The session may end early, too.
            (_, failed), = self.run_part("no-memory", providers, RINGPIPE_BUFFER_MB="1",
                                         allowed="Cannot allocate memory")[0]
            self.assertLessEqual(int(failed), 100)


class Off(InboxTest):
    def test_without_a_session_the_program_has_no_events_and_ends_as_before(self):
        lines, events = self.run_part("threads", "")
        self.assertEqual((len(lines), events), (31, []))

    def test_threads_of_ringpipe_are_no_threads_of_the_program(self):
        _, events = self.run_inbox(["true"], "ringpipe-threads", RINGPIPE_DIAGNOSTICS="1")
        self.assertEqual([event for event in events if event["provider"] != "ringpipe" and
                          "DotNETCore" not in event["provider"]], [])


if __name__ == "__main__":
    unittest.main()
