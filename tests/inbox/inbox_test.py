#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The events of the in-box providers agree with a program's own record of what it did."""
import collections
import unittest

from inbox import InboxTest, named


class Threads(InboxTest):
    def test_each_thread_has_its_creation_start_name_and_end(self):
        lines, events = self.run_part("threads", "ringpipe-threads")
        creator = int(lines.pop()[1])
        self.assertEqual(len(lines), 30)
        threads = {int(thread): (int(routine, 16), name) for _, thread, routine, name in lines}
        routine = next(iter(threads.values()))[0]
        created = named(events, "ringpipe-threads", "created")
        self.assertEqual([(event["thread"], event["fields"]["routine"]) for event in created],
                         [(creator, routine)] * 30)
        for name, field, value in (("started", "creator", creator), ("ended", "routine", routine)):
            found = named(events, "ringpipe-threads", name)
            self.assertEqual(collections.Counter(event["thread"] for event in found),
                             collections.Counter(list(threads)), name)
            self.assertEqual({event["fields"][field] for event in found}, {value})
        names = {event["thread"]: event["fields"]["name"]
                 for event in named(events, "ringpipe-threads", "named")}
        self.assertEqual(names, {thread: name for thread, (_, name) in threads.items()})


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
