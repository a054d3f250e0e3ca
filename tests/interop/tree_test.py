#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent reads a trace of several processes: each event once, with its fields, and no loss.

Environment: INTEROP_BUILD, FORKS (a server that forks), RINGPIPE.
"""

import collections
import json
import os
import subprocess
import unittest

import clients

WORKERS, EVENTS = 4, 500


class Tree(clients.Scratch):
    def test_traceevent_reads_all_processes(self):
        trace = self.path("tree.nettrace")
        subprocess.run([os.environ["RINGPIPE"], "collect", "--tree", "-o", trace, "--stacks", "--",
                        os.environ["FORKS"], "exit", str(WORKERS), str(EVENTS)], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300)
        rows, summary = clients.TraceRead().events(trace)
        serials, reported, process_of = collections.defaultdict(list), {}, {}
        for row in rows:
            fields = row["fields"]
            if row["provider"] == "Test-Forks" and "serial" in fields:
                serials[fields["process"]].append(fields["serial"])
                self.assertEqual(process_of[row["thread"]], fields["process"])
            elif row["provider"] == "ringpipe" and "command_line" in fields:
                reported[fields["process_id"]] = fields
            elif row["provider"] == "ringpipe" and "thread" in fields:
                process_of[fields["thread"]] = fields["process_id"]
        self.assertEqual(set(reported), set(serials))
        self.assertEqual(list(serials.values()), [list(range(EVENTS))] * (1 + 2 * WORKERS))
        self.assertEqual(summary["events_lost"], 0)

    def test_traceevent_names_the_process_of_each_event_in_version_6(self):
        trace = self.path("tree.nettrace")
        subprocess.run([os.environ["RINGPIPE"], "collect", "--tree", "--format", "6", "-o", trace,
                        "--stacks", "--", os.environ["FORKS"], "exit", str(WORKERS), str(EVENTS)],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300)
        done = subprocess.run([*clients.trace_read_command(), "--stacks", trace], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=300)
        *rows, summary = map(json.loads, done.stdout.splitlines())
        serials, threads = collections.defaultdict(list), collections.defaultdict(set)
        for row in rows:
            if row["provider"] == "Test-Forks" and "serial" in row["fields"]:
                serials[row["process"]].append(row["fields"]["serial"])
                self.assertEqual(row["process"], row["fields"]["process"])
                self.assertEqual(row["process_name"], os.path.basename(os.environ["FORKS"]))
                threads[row["process"]].add(row["thread"])
        self.assertEqual(list(serials.values()), [list(range(EVENTS))] * (1 + 2 * WORKERS))
        self.assertEqual([len(ids) for ids in threads.values()], [1] * (1 + 2 * WORKERS))
        self.assertEqual(summary["events_lost"], 0)
        self.compare_with_report(trace, rows, summary["processes"])

    def test_traceevent_lists_each_life_of_a_process_id(self):
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = "test -w /proc/sys/kernel/ns_last_pid"
        if subprocess.run([*alone, "sh", "-c", script], stderr=subprocess.DEVNULL,
                          check=False).returncode:
            self.skipTest("no pid namespaces here")
        trace = self.path("again.nettrace")
        subprocess.run([*alone, os.environ["RINGPIPE"], "collect", "--tree", "--format", "6", "-o",
                        trace, "--stacks", "--", os.environ["FORKS"], "again", "3", str(EVENTS)],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300)
        done = subprocess.run([*clients.trace_read_command(), "--stacks", trace], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=300)
        *rows, summary = map(json.loads, done.stdout.splitlines())
        serials = collections.defaultdict(list)
        for row in rows:
            if row["provider"] == "Test-Forks" and "serial" in row["fields"]:
                self.assertEqual(row["process"], row["fields"]["process"])
                # The functions are those of this process, not of the one before.
                self.assertIn("forks_mark", row["stack"][0]["method"])
                serials[row["process"], row["thread"]].append(row["fields"]["serial"])
        self.assertEqual(list(serials.values()), [list(range(EVENTS))] * 4)
        self.assertEqual(sum(process == 1000 for process, _ in serials), 3)
        listed = [row["process"] for row in summary["processes"]]
        self.assertEqual((listed.count(1000), len(listed)), (3, 4))

    def compare_with_report(self, trace, rows, processes):
        """TraceEvent and the command list the same processes, with as many events of each."""
        done = subprocess.run([os.environ["RINGPIPE"], "report", "--format=json", trace],
                              check=True, stdout=subprocess.PIPE, timeout=300)
        reported = {row["process_id"]: row for row in json.loads(done.stdout)["processes"]}
        listed = {row["process"]: row for row in processes}
        self.assertEqual(len(reported), 1 + 2 * WORKERS)
        self.assertEqual(set(listed), set(reported))
        counts = collections.Counter(
            row["process"] for row in rows
            if row["provider"] != "ringpipe" or not {"parent_id", "complete"} & set(row["fields"]))
        for pid, row in reported.items():
            self.assertEqual(listed[pid]["name"], os.path.basename(os.environ["FORKS"]))
            self.assertEqual(listed[pid]["command_line"],
                             f"{os.environ['FORKS']} exit {WORKERS} {EVENTS}")
            self.assertEqual(counts[pid], row["events"])


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
