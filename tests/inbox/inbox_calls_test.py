#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""In-box events of a program in C++: exceptions, operator new, signals, libraries, processes, logs.

Environment: CALLS and EDGES, the programs inbox_calls and inbox_edges; the others as in inbox.py.
"""
import errno
import os
import signal
import unittest

from inbox import INBOX, InboxTest, named

CALLS = os.environ["CALLS"]
EDGES = os.environ["EDGES"]
ENGINE = os.path.join(os.path.dirname(INBOX), "libringpipe.so.1")  # a library to load


class Calls(InboxTest):
    def run_calls(self, part, provider, *more):
        lines, events = self.run_inbox([CALLS, part, *more], provider)
        return [line.split() for line in lines], \
            [event for event in events if event["provider"] == provider.split(":")[0]]

    def test_each_thrown_exception_has_its_type(self):
        _, events = self.run_calls("throw", "ringpipe-exceptions")
        self.assertEqual([event["fields"]["type"] for event in events],
                         ["St13runtime_error", "N5calls7refusalE"] * 5)

    def test_operator_new_allocates_and_delete_frees(self):
        lines, events = self.run_calls("new", "ringpipe-heap::4:SampleBytes=1")
        (_, size, one, many), = lines
        allocated = {event["fields"]["size"]: event["fields"]
                     for event in named(events, "ringpipe-heap", "allocated")}
        freed = {event["fields"]["id"] for event in named(events, "ringpipe-heap", "freed")}
        for count, address in ((1, one), (3, many)):
            fields = allocated[count * int(size)]
            self.assertEqual(fields["address"], int(address, 16))
            self.assertIn(fields["id"], freed)
        self.assertIn(allocated[2 * int(size)]["id"], freed)

    def test_each_signal_has_its_sender_and_the_program_sees_its_own_handlers(self):
        lines, events = self.run_calls("signals", "ringpipe-signals")
        (_, with_info, plain, pid), = lines
        self.assertEqual([event["fields"] for event in events], [
            {"signal": signal.SIGUSR1, "code": 0, "sender": int(pid),
             "handler": int(with_info, 16)},
            {"signal": signal.SIGUSR2, "code": 0, "sender": 0, "handler": int(plain, 16)},
            {"signal": signal.SIGUSR1, "code": 0, "sender": 0, "handler": int(plain, 16)}])
        self.run_calls("signals", "")

    def test_lines_of_syslog_have_their_priority_and_text(self):
        _, events = self.run_calls("log", "ringpipe-syslog")
        self.assertEqual([(event["fields"]["priority"], event["fields"]["text"])
                          for event in events],
                         [(8 | 7, "order 7 of Ada: " + os.strerror(errno.ENOENT)),
                          (7, "0" * 1023)])

    def test_each_library_has_its_handle_and_each_request_its_name(self):
        lines, events = self.run_calls("load", "ringpipe-loader", ENGINE)
        (_, path, handle), = lines
        names = [(event["name"], event["fields"].get("file"), event["fields"].get("handle"))
                 for event in events]
        self.assertEqual(names[:3], [("loaded", path, int(handle, 16)),
                                     ("unloaded", None, int(handle, 16)),
                                     ("loaded", "/nonexistent/library.so", 0)])
        self.assertEqual(names[3:], [("requested", "libm.so.6", None)])

    def test_forks_and_programs_are_reported_before_they_end_the_trace(self):
        lines, events = self.run_calls("processes", "ringpipe-process")
        children = {line[0]: int(line[1]) for line in lines}
        self.assertEqual([(event["name"], event["fields"].get("file"),
                           event["fields"].get("child"), event["fields"].get("result"))
                          for event in events],
                         [("forked", None, children["forked"], None),
                          ("spawned", "true", children["spawned"], 0),
                          ("spawned", "/nonexistent", 0, errno.ENOENT),
                          *(("executing", file, None, None) for file in (
                              "/nonexistent", "/nonexistent/l", "nonexistent-lp",
                              "/nonexistent/le", "/proc/self/fd/99", "/nonexistent/at", "true"))])


class Edges(InboxTest):
    def test_a_thread_may_free_the_memory_of_its_id(self):
        lines, events = self.run_inbox([EDGES, "detached"], "ringpipe-threads")
        self.assertEqual(lines, ["ok"])
        self.assertEqual(len(named(events, "ringpipe-threads", "created")), 2000)

    def test_handlers_of_both_kinds_replace_each_other_while_signals_arrive(self):
        lines, _ = self.run_inbox([EDGES, "kinds"], "ringpipe-signals:0:1")
        self.assertEqual(lines, ["ok"])

    def test_a_child_of_vfork_changes_nothing_and_writes_nothing(self):
        lines, events = self.run_inbox([EDGES, "vfork"], "ringpipe-signals,ringpipe-threads")
        self.assertEqual(lines, ["ok"])
        self.assertEqual(len(named(events, "ringpipe-signals", "delivered")), 1)
        self.assertEqual(named(events, "ringpipe-threads", "named"), [])


if __name__ == "__main__":
    unittest.main()
