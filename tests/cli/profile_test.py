#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ringpipe report FILE cpu`, `offcpu` and `waits`, on handmade traces."""
import collections
import csv
import io
import json
import random
import struct
import unittest

import nettrace
import nettrace6
from nettrace import EXISTING_PROCESS, FUNCTION, MAPPING, PROCESS_EXIT
from tool import ToolTest

KERNEL = 0xffffffff81000000
# Metadata ids; SYSTEM: the first of six
SYSTEM, SAMPLE, SWITCH, WAIT, FUTEX, THREAD_SAMPLE = 1, 11, 12, 13, 14, 15
WAIT_FIELDS = [("duration_ns", nettrace6.U64), ("runnable_ns", nettrace6.U64),
               ("state", nettrace6.U32), ("waker_process", nettrace6.U32),
               ("waker_thread", nettrace6.U64)]
FUTEX_FIELDS = [("address", nettrace6.U64), ("result", nettrace6.I64),
                ("duration_ns", nettrace6.U64), ("waker_process", nettrace6.U32),
                ("waker_thread", nettrace6.U64)]


class Machine:
    """A trace as `ringpipe record` writes it. Events get increasing times."""

    def __init__(self):
        self.trace = nettrace6.Trace()
        for event in range(6):
            self.trace.define(SYSTEM + event, "Universal.System", "", event)
        self.trace.define(SAMPLE, "Universal.Events", "cpu", 1)
        self.trace.define(SWITCH, "Universal.Events", "cswitch", 2)
        self.trace.define(WAIT, "Ringpipe-Machine", "Wait", 1, WAIT_FIELDS)
        self.trace.define(FUTEX, "Ringpipe-Machine", "FutexWait", 4, FUTEX_FIELDS)
        self.trace.define(THREAD_SAMPLE, "Microsoft-DotNETCore-SampleProfiler", "", 0)
        self.threads, self.stacks, self.rows = {}, {}, []
        self.new_threads, self.new_stacks = [], []
        self.spans = {}
        self.number = 0

    def event(self, metadata_id, process, thread, payload, stack=(), span=None):
        """`span`: the bytes of a trace id, and a span id."""
        if (process, thread) not in self.threads:
            self.threads[process, thread] = len(self.threads) + 1
            self.new_threads.append((process, thread))
        if stack and tuple(stack) not in self.stacks:
            self.stacks[tuple(stack)] = len(self.stacks) + 1
            self.new_stacks.append(stack)
        if span:
            self.spans.setdefault(span, len(self.spans) + 1)
        self.number += 1
        self.rows.append({"id": metadata_id, "thread": self.threads[process, thread],
                          "number": self.number, "capture": 1, "ns": self.number * 1000,
                          "stack": self.stacks[tuple(stack)] if stack else 0,
                          "labels": self.spans[span] if span else 0, "payload": payload})
        return self

    def name(self, process, name):
        return self.event(SYSTEM + EXISTING_PROCESS, process, process,
                          nettrace.process_name(name))

    def exit(self, process):
        return self.event(SYSTEM + PROCESS_EXIT, process, process, b"")

    def map(self, process, number, start, end, file):
        return self.event(SYSTEM + MAPPING, process, process,
                          nettrace.mapping(number, start, end, file))

    def function(self, process, mapping, start, last, name):
        return self.event(SYSTEM + FUNCTION, process, process,
                          nettrace.function(self.number, mapping, start, last, name))

    def sample(self, process, thread, stack, span=None):
        return self.event(SAMPLE, process, thread, nettrace.uleb(1000000), stack, span)

    def thread_sample(self, process, thread, stack, is_running=True):
        return self.event(THREAD_SAMPLE, process, thread,
                          struct.pack("<i", 2 if is_running else 1), stack)

    def wait(self, process, thread, ns, stack, waker=(0, 0), state=1, runnable=0):
        self.event(SWITCH, process, thread, nettrace.uleb(ns), stack)
        return self.event(WAIT, process, thread,
                          struct.pack("<QQIIQ", ns, runnable, state, *waker))

    def futex(self, process, thread, ns, address, stack, waker):
        return self.event(FUTEX, process, thread,
                          struct.pack("<QqQIQ", address, 0, ns, *waker), stack)

    def end(self):
        for at in range(0, len(self.new_threads), 1000):
            self.trace.threads(*({"index": self.threads[each], "process": each[0],
                                  "thread": each[1]} for each in self.new_threads[at:at + 1000]))
        if self.new_stacks:
            self.trace.stacks(1, self.new_stacks)
        if self.spans:
            self.trace.labels(1, [[(3, trace), (4, struct.pack("<Q", span))]
                                  for trace, span in self.spans])
        for at in range(0, len(self.rows), 1000):
            self.trace.events(*self.rows[at:at + 1000])
        return self.trace.end()


def program(process=7, names="abcdef", file="/bin/shop"):
    """A machine with one process whose function `n` is at 0x1000 * n, from 1 on."""
    machine = Machine().name(process, "shop")
    machine.map(process, process * 100, 0x1000, 0x100000, file)
    for i, name in enumerate(names):
        machine.function(process, process * 100, 0x1000 * (i + 1), 0x1000 * (i + 2) - 1, name)
    return machine


def stack_of(names, all_names="abcdef"):
    """Innermost first, each in the middle of its function."""
    return [0x1000 * (all_names.index(name) + 1) + 0x10 for name in names]


def runtime(name="[lua]"):
    """A machine with `program`, whose function `a` interprets `script` at 0x200010."""
    machine = program()
    machine.map(7, 900, 0x200000, 0x210000, name)
    return machine.function(7, 900, 0x200000, 0x200fff, "script")


SCRIPT = 0x200010


class Profile(ToolTest):
    def report(self, trace, *arguments, status=0):
        path = self.write("t.nettrace", trace)
        out, err = self.run_tool("report", path, *arguments, "--format=json", status=status)
        return json.loads(out), err

    def functions(self, trace, what="cpu", *arguments):
        return {row["function"]: row for row in self.report(trace, what, *arguments)[0]}


class Samples(Profile):
    def test_weights_callers_and_callees_equal_the_sums_over_all_samples(self):
        random.seed(1)
        machine, samples = program(), []
        for _ in range(3000):
            samples.append([random.choice("abcdef") for _ in range(random.randint(1, 9))])
            machine.sample(7, 7, stack_of(samples[-1]))
        rows = self.functions(machine.end(), "cpu", "--top", "100")
        self.assertEqual(set(rows), set("abcdef"))
        for name, row in rows.items():
            own = [each for each in samples if name in each]
            self.assertEqual(row["exclusive_samples"], sum(each[0] == name for each in samples))
            self.assertEqual(row["inclusive_samples"], len(own))
            self.assertAlmostEqual(row["inclusive_share"], len(own) / 3000)
            self.assertEqual(row["file"], "/bin/shop")
            for key, step in (("callers", 1), ("callees", -1)):
                others = collections.Counter()
                for each in own:
                    others.update({each[i + step] for i, one in enumerate(each)
                                   if one == name and 0 <= i + step < len(each)})
                self.assertEqual({each["function"]: round(each["share"] * len(own))
                                  for each in row[key]}, dict(others.most_common(5)
                                  if len(others) <= 5 else
                                  {each["function"]: others[each["function"]]
                                   for each in row[key]}))
        shares = [row["exclusive_samples"] for row in
                  self.report(machine.trace.bytes, "cpu")[0]]
        self.assertEqual(shares, sorted(shares, reverse=True))

    def test_an_expression_selects_samples_and_waits(self):
        machine = program()
        for thread, stack in ((7, "a"), (8, "b"), (8, "bc"), (9, "c")):
            machine.sample(7, thread, stack_of(stack))
            machine.wait(7, thread, 1000 * thread, stack_of(stack), runnable=thread)
        rows = self.functions(machine.end(), "cpu", "--where", "thread == 8")
        self.assertEqual({name: row["exclusive_samples"] for name, row in rows.items()},
                         {"b": 2, "c": 0})
        rows = self.functions(machine.trace.bytes, "offcpu", "--where", "thread == 8")
        self.assertEqual({name: (row["exclusive_ns"], row["runnable_ns"])
                          for name, row in rows.items()}, {"b": (16000, 16), "c": (0, 0)})
        path = self.write("t.nettrace", machine.trace.bytes)
        for what in "cpu", "offcpu":
            err = self.run_tool("report", path, what, "--where", "thread == 1", status=1)[1]
            self.assertIn("no such event", err)
        rows, _ = self.report(machine.trace.bytes, "waits", "--where",
                              "thread == 8 and duration_ns > 1")
        self.assertEqual([(row["thread_id"], row["count"], row["total_ns"]) for row in rows],
                         [(8, 2, 16000)])

    def test_a_recursive_function_counts_once_in_each_stack(self):
        machine = program()
        machine.sample(7, 7, stack_of("b" * 300 + "a"))
        machine.sample(7, 7, stack_of("bab" + "a"))
        rows = self.functions(machine.end())
        self.assertEqual((rows["b"]["exclusive_samples"], rows["b"]["inclusive_samples"]), (2, 2))
        self.assertEqual(rows["a"]["inclusive_samples"], 2)
        self.assertEqual({each["function"]: each["share"] for each in rows["b"]["callers"]},
                         {"a": 1, "b": 0.5})

    def test_a_return_address_after_the_last_instruction_belongs_to_the_caller(self):
        machine = program().sample(7, 7, [0x1010, 0x3000])  # `b` ends before 0x3000
        rows = self.functions(machine.end())
        self.assertEqual(set(rows), {"a", "b"})

    def test_one_function_has_its_callers_and_callees(self):
        machine = program()
        for stack in ("ba", "ba", "bc", "dba", "a"):
            machine.sample(7, 7, stack_of(stack))
        rows, _ = self.report(machine.end(), "cpu", "--function", "b")
        self.assertEqual([(row["relation"], row["function"], row["samples"]) for row in rows],
                         [("self", "b", 3), ("total", "b", 4), ("caller", "a", 3),
                          ("caller", "c", 1), ("callee", "d", 1)])
        _, err = self.run_tool("report", self.path("t.nettrace"), "cpu", "--function", "nosuch",
                               status=1)
        self.assertIn("no stack has a function 'nosuch'", err)

    def test_unknown_addresses_count_by_file(self):
        machine = program(names="a")
        machine.sample(7, 7, [0x50000]).sample(7, 7, [0x60000])      # in /bin/shop
        machine.sample(7, 7, [0xdead0000]).sample(7, 7, [])
        machine.sample(7, 7, [KERNEL])
        rows, _ = self.report(machine.end(), "cpu")
        self.assertEqual({(row["function"], row["file"]): row["exclusive_samples"]
                          for row in rows},
                         {(None, "/bin/shop"): 2, (None, None): 1, (None, "vmlinux"): 1})
        out, _ = self.run_tool("report", self.path("t.nettrace"), "cpu")
        for text in ("[shop]", "[unknown]", "[vmlinux]"):
            self.assertIn(text, out)

    def test_two_processes_with_the_same_addresses_have_their_own_functions(self):
        machine = program(7, "ab", "/bin/one").name(8, "other")
        machine.map(8, 800, 0x1000, 0x100000, "/bin/two")
        machine.function(8, 800, 0x1000, 0x1fff, "z")
        machine.sample(7, 7, [0x1010]).sample(8, 8, [0x1010]).sample(8, 9, [0x1010])
        trace = machine.end()
        self.assertEqual({name: row["exclusive_samples"]
                          for name, row in self.functions(trace).items()}, {"a": 1, "z": 2})
        rows, _ = self.report(trace, "cpu", "--by", "process")
        self.assertEqual([(row["process_id"], row["process"], row["samples"], row["function"],
                           row["thread_id"]) for row in rows],
                         [(8, "other", 2, "z", None), (7, "shop", 1, "a", None)])
        rows, _ = self.report(trace, "cpu", "--by=thread")
        self.assertEqual([(row["process_id"], row["thread_id"], row["samples"]) for row in rows],
                         [(7, 7, 1), (8, 8, 1), (8, 9, 1)])

    def test_events_have_the_functions_of_their_process_and_time(self):
        machine = program(7, "a").name(8, "other").map(8, 800, 0x1000, 0x9000, "/bin/two")
        machine.function(8, 800, 0x1000, 0x1fff, "z")
        machine.sample(7, 7, [0x1010]).sample(8, 8, [0x1010]).exit(7).name(7, "third")
        machine.sample(7, 7, [0x1010])
        path = self.write("t", machine.end())
        lines = self.run_tool("report", path, "events", "--format=json")[0].splitlines()
        self.assertEqual([row["functions"] for row in map(json.loads, lines) if "stack" in row],
                         [["a"], ["z"], [None]])

    def test_addresses_used_again_belong_to_the_file_of_their_time(self):
        machine = program(7, "a").sample(7, 7, [0x1010])
        machine.map(7, 701, 0x1000, 0x2000, "/bin/next").function(7, 701, 0x1000, 0x1fff, "n")
        machine.sample(7, 7, [0x1010]).sample(7, 7, [0x1010]).exit(7)
        machine.name(7, "third").sample(7, 7, [0x1010])
        self.assertEqual({name: row["exclusive_samples"]
                          for name, row in self.functions(machine.end()).items()},
                         {"a": 1, "n": 2, None: 1})

    def test_two_processes_that_had_the_same_id_are_two_rows(self):
        machine = program(7, "a").sample(7, 7, [0x1010]).sample(7, 7, [0x1010]).exit(7)
        # It still ran in the kernel for a moment.
        machine.sample(7, 7, [0x1010]).name(7, "second").map(7, 701, 0x1000, 0x2000, "/bin/b")
        machine.function(7, 701, 0x1000, 0x1fff, "b")
        machine.sample(7, 7 + (1 << 22), [0x1010]).name(7, "renamed")
        machine.sample(7, 7 + (1 << 22), [0x1010])
        trace = machine.end()
        expected = [("shop", 7, "a", 3), ("renamed", 7, "b", 2)]
        rows = self.report(trace, "cpu", "--by", "process")[0]
        self.assertEqual([(row["process"], row["process_id"], row["function"], row["samples"])
                          for row in rows], expected)
        rows = self.report(trace)[0]["hot_functions"]
        self.assertEqual([(row["process"], row["process_id"], row["function"], row["samples"])
                          for row in rows], expected)
        path = self.write("t.nettrace", trace)
        self.run_tool("convert", "--to", "folded", path, "-o", self.path("t.folded"))
        with open(self.path("t.folded"), encoding="utf-8") as folded:
            self.assertEqual([line.split(";")[0] for line in folded], ["shop (7)", "renamed (7)"])

    def test_each_of_100000_threads_counts(self):
        machine = program()
        for thread in range(100000):
            machine.sample(7, 1000 + thread, stack_of("ba"))
        machine.sample(7, 1500, stack_of("c"))
        trace = machine.end()
        rows, _ = self.report(trace, "cpu", "--by", "thread", "--top", "2")
        self.assertEqual([(row["thread_id"], row["samples"], row["function"]) for row in rows],
                         [(1500, 2, "b"), (1500, 2, "c"), (1000, 1, "b")])
        rows, _ = self.report(trace, "cpu", "--by", "thread", "--top", "1000000")
        self.assertEqual(len({row["thread_id"] for row in rows}), 100000)

    def test_a_trace_of_one_sample_has_one_function(self):
        rows, err = self.report(program().sample(7, 7, stack_of("a")).end(), "cpu")
        self.assertEqual([(row["function"], row["exclusive_share"], row["callers"])
                          for row in rows], [("a", 1, [])])
        self.assertEqual(err, "")

    def test_deep_stacks_are_cut_and_counted(self):
        machine = program().sample(7, 7, stack_of("b" * 5000 + "a"))
        rows, err = self.report(machine.end(), "cpu")
        self.assertEqual([(row["function"], row["inclusive_samples"]) for row in rows],
                         [("b", 1), ("…", 1)])
        self.assertIn("cut 1 stack,", err)

    def test_huge_and_hostile_names_neither_control_the_terminal_nor_break_the_formats(self):
        names = ["n" * 65000, "ü" * 30000, 'a"b,\n<script>', "\x1b[31mred\x07", "", "\u202e"]
        machine = program(names=names + [b"\xff\xfe\x80", b"nul\0nul"], file="/x\x1b]0;t\x07")
        machine.name(7, "\x1b[2J" + "p" * 60000)
        for i in range(len(names) + 2):
            machine.sample(7, 7, [0x1000 * (i + 1) + 1])
        path = self.write("t", machine.end())
        for arguments in ((), ("--by", "process", "--top", "9")):
            text = self.run_tool("report", path, "cpu", *arguments)[0]
            self.assertFalse([each for each in text if ord(each) < 32 and each != "\n"])
        self.assertLess(max(map(len, self.run_tool("report", path, "cpu")[0].splitlines())), 500)
        rows = json.loads(self.run_tool("report", path, "cpu", "--format=json")[0])
        self.assertLessEqual(set(names), {row["function"] for row in rows})
        table = self.run_tool("report", path, "cpu", "--format=csv")[0]
        self.assertEqual(len(list(csv.reader(io.StringIO(table)))), len(rows) + 1)

    def test_all_formats_have_the_same_rows(self):
        machine = program()
        for stack in ("ba", "ba", "c", "dca", "e"):
            machine.sample(7, 7, stack_of(stack))
        path = self.write("t", machine.end())
        for arguments in ((), ("--by=process",), ("--by=thread",), ("--function=a",),
                          ("--top=2",)):
            rows = json.loads(self.run_tool("report", path, "cpu", *arguments,
                                            "--format=json")[0])
            table = list(csv.DictReader(io.StringIO(
                self.run_tool("report", path, "cpu", *arguments, "--format=csv")[0])))
            text = self.run_tool("report", path, "cpu", *arguments)[0].splitlines()
            self.assertEqual([row["function"] for row in rows],
                             [row["function"] for row in table])
            self.assertEqual(list(rows[0]), list(table[0]))
            self.assertEqual(len(text), len(rows) + 1)

    def test_samples_of_running_threads_in_a_process_count(self):
        trace = nettrace.Trace()
        trace.define(1, "Microsoft-DotNETCore-SampleProfiler", "ThreadSample", 0,
                     [("Type", nettrace.U32)])
        for event in (EXISTING_PROCESS, MAPPING, FUNCTION):
            trace.define(10 + event, "Universal.System", "", event, [])
        trace.stacks(1, [[0x1010, 0x2010]])
        for kind in (2, 1, 2, 2):
            trace.events(1, [struct.pack("<I", kind)], stack=1)
        trace.events(10 + MAPPING, [nettrace.mapping(1, 0x1000, 0x9000, "/bin/shop")])
        trace.events(10 + FUNCTION, [nettrace.function(1, 1, 0x1000, 0x1fff, "inner"),
                                     nettrace.function(2, 1, 0x2000, 0x2fff, "outer")])
        rows = self.functions(trace.end())
        self.assertEqual((rows["inner"]["exclusive_samples"],
                          rows["outer"]["inclusive_samples"]), (3, 3))

    def test_a_trace_without_samples_or_waits_names_the_recording_that_has_them(self):
        path = self.write("t", nettrace.sample())
        for what, text in (("cpu", "no samples; `ringpipe record`"),
                           ("offcpu", "`ringpipe record --kernel sched`"),
                           ("waits", "`ringpipe record --kernel sched`")):
            out, err = self.run_tool("report", path, what, status=1)
            self.assertEqual(out, "")
            self.assertIn(text, err)

    def test_standard_input_has_the_same_profile_as_a_file(self):
        machine = program()
        for i in range(2000):
            machine.sample(7, 7, stack_of(("ba", "ca", "a")[i % 3]))
        trace = machine.end()
        expected = self.run_tool("report", self.write("t", trace), "cpu")[0]
        self.assertEqual(self.run_tool("report", "-", "cpu", data=trace)[0], expected)
        for bad in b"", b"no trace", trace[:30]:
            _, err = self.run_tool("report", "-", "cpu", data=bad, status=1)
            self.assertIn("standard input: not a nettrace file", err)

    def test_options_of_other_reports_are_refused(self):
        path = self.write("t", nettrace.sample())
        for arguments in (("events", "--by=process"), ("waits", "--function=a"),
                          ("cpu", "--all"), ("cpu", "--by=cpu"),
                          ("cpu", "--by=process", "--function=a")):
            self.run_tool("report", path, *arguments, status=2)

    def test_a_cut_trace_has_the_profile_of_its_readable_part(self):
        machine = program()
        for i in range(3000):
            machine.sample(7, 7, stack_of("ab"[i % 2]))
        trace = machine.end()
        rows, err = self.report(trace[:len(trace) * 2 // 3], "cpu", status=1)
        self.assertIn("the report has the events before that", err)
        self.assertTrue(0 < sum(row["exclusive_samples"] for row in rows) < 3000)

    def test_flipped_bits_never_crash_a_report(self):
        random.seed(2)
        machine = program()
        for i in range(20):
            machine.sample(7, 7, stack_of("ba"))
            machine.wait(7, 8, 1000 * i, stack_of("ba"), (7, 7))
        trace = machine.end()
        for i in range(150):
            damaged = bytearray(trace)
            for _ in range(3):
                damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
            path = self.write("t", damaged)
            what = ("cpu", "offcpu", "waits")[i % 3]
            process = self.start("report", path, what)
            _, err = process.communicate()
            self.assertIn(process.returncode, (0, 1))
            self.assertNotRegex(err, b"Sanitizer|runtime error")


class RuntimeStacks(Profile):
    """Samples of the machine get the stacks that the process took of a runtime's functions."""

    def exclusive(self, machine):
        rows = self.report(machine.end(), "cpu")[0]
        return {row["function"]: row["exclusive_samples"] for row in rows
                if row["exclusive_samples"]}

    def test_a_sample_has_the_latest_stack_of_its_thread(self):
        machine = runtime().thread_sample(7, 7, [SCRIPT] + stack_of("b"))
        machine.sample(7, 7, stack_of("ab")).sample(7, 7, stack_of("cb"))
        machine.sample(7, 8, stack_of("ab"))
        machine.thread_sample(7, 7, [SCRIPT] + stack_of("f")).sample(7, 7, stack_of("ab"))
        rows = self.functions(machine.end())
        self.assertEqual({name: (row["exclusive_samples"], row["inclusive_samples"])
                          for name, row in rows.items()},
                         {"script": (3, 3), "a": (1, 1), "b": (0, 3), "f": (0, 1)})

    def test_native_stacks_of_the_process_change_nothing(self):
        for name in ("/bin/other", "[code]", "[vdso]", "[anon:heap]"):
            machine = runtime(name).thread_sample(7, 7, [SCRIPT] + stack_of("b"))
            self.assertEqual(self.exclusive(machine.sample(7, 7, stack_of("ab"))), {"a": 1})

    def test_a_native_stack_of_the_process_ends_the_use_of_the_earlier_one(self):
        machine = runtime().thread_sample(7, 7, [SCRIPT]).thread_sample(7, 7, stack_of("c"))
        self.assertEqual(self.exclusive(machine.sample(7, 7, stack_of("ab"))), {"a": 1})

    def test_samples_of_sleeping_threads_change_nothing(self):
        machine = runtime().thread_sample(7, 7, [SCRIPT], is_running=False)
        self.assertEqual(self.exclusive(machine.sample(7, 7, stack_of("ab"))), {"a": 1})

    def test_a_stack_is_used_for_a_tenth_of_a_second(self):
        machine = runtime().thread_sample(7, 7, [SCRIPT])
        machine.number += 99_999
        machine.sample(7, 7, stack_of("ab"))
        self.assertEqual(self.exclusive(machine.sample(7, 7, stack_of("ab"))),
                         {"a": 1, "script": 1})

    def test_functions_of_the_kernel_stay_above_the_call_that_entered_it(self):
        machine = runtime().thread_sample(7, 7, stack_of("c") + [SCRIPT])
        machine.sample(7, 7, [KERNEL, KERNEL] + stack_of("cab"))
        machine.sample(7, 7, [KERNEL] + stack_of("ab")).sample(7, 7, [KERNEL])
        machine.sample(7, 7, [])
        rows = self.report(machine.end(), "cpu")[0]
        kernel = next(row for row in rows if row["file"] == "vmlinux")
        self.assertEqual(kernel["exclusive_samples"], 3)
        self.assertEqual({row["function"]: row["inclusive_samples"] for row in rows
                          if row["file"] != "vmlinux"},
                         {"c": 2, "script": 2, "a": 1, "b": 1})
        self.assertEqual({each["function"] for each in kernel["callers"]}, {None, "c", "a"})

    def test_converted_samples_have_these_stacks(self):
        machine = runtime().thread_sample(7, 7, [SCRIPT] + stack_of("b"))
        path = self.write("t.nettrace", machine.sample(7, 7, stack_of("ab")).end())
        out, _ = self.run_tool("convert", "--to", "folded", "-o", "-", path)
        self.assertIn("b;script 1", out)


class Waits(Profile):
    def test_waits_count_their_time_in_the_function_that_entered_the_kernel(self):
        machine = program()
        machine.wait(7, 7, 5000, [KERNEL, KERNEL + 9] + stack_of("ba"), runnable=2000)
        machine.wait(7, 7, 1000, [KERNEL] + stack_of("ba"), state=0, runnable=1000)
        machine.wait(7, 8, 3000, stack_of("ca"))
        rows = self.functions(machine.end(), "offcpu")
        self.assertEqual({name: (row["exclusive_ns"], row["waits"], row["runnable_ns"],
                                 row["inclusive_ns"]) for name, row in rows.items()},
                         {"a": (0, 0, 0, 9000), "b": (6000, 2, 3000, 6000),
                          "c": (3000, 1, 0, 3000)})
        rows, _ = self.report(machine.trace.bytes, "offcpu", "--by", "thread")
        self.assertEqual([(row["thread_id"], row["time_ns"], row["waits"]) for row in rows],
                         [(7, 6000, 2), (8, 3000, 1)])

    def test_each_pair_of_threads_has_its_sums_and_the_longest_stack(self):
        random.seed(3)
        machine, pairs = program().name(9, "waker"), collections.defaultdict(list)
        for _ in range(2000):
            thread, waker = random.randint(20, 23), random.randint(30, 32)
            function, ns = random.choice("abc"), random.randint(1, 10**9)
            machine.wait(7, thread, ns, stack_of(function + "f"), (9, waker))
            pairs[thread, waker].append((function, ns))
        rows, err = self.report(machine.end(), "waits", "--top=100")
        self.assertIn("ringpipe record --kernel sched,futex", err)
        self.assertEqual(len(rows), len(pairs))
        for row in rows:
            waits = pairs[row["thread_id"], row["waker_thread_id"]]
            sums = collections.Counter()
            for function, ns in waits:
                sums[function] += ns
            self.assertEqual(row["kind"], "wait")
            self.assertEqual((row["process"], row["waker_process"]), ("shop", "waker"))
            self.assertEqual((row["count"], row["total_ns"], row["max_ns"]),
                             (len(waits), sum(sums.values()), max(ns for _, ns in waits)))
            self.assertEqual(row["stack"], [sums.most_common(1)[0][0], "f"])
        totals = [row["total_ns"] for row in rows]
        self.assertEqual(totals, sorted(totals, reverse=True))

    def test_waits_for_a_lock_are_separate_by_address(self):
        machine = program()
        for address, ns in ((0x5000, 10), (0x5000, 20), (0x6000, 5)):
            machine.futex(7, 8, ns, address, stack_of("ba"), (7, 9))
        rows, err = self.report(machine.end(), "waits")
        self.assertEqual(err, "")
        self.assertEqual([(row["kind"], row["address"], row["count"], row["total_ns"],
                           row["max_ns"], row["waker_thread_id"], row["stack"]) for row in rows],
                         [("futex", "0x5000", 2, 30, 20, 9, ["b", "a"]),
                          ("futex", "0x6000", 1, 5, 5, 9, ["b", "a"])])

    def test_preempted_threads_wait_for_no_thread(self):
        machine = program().wait(7, 8, 100, stack_of("a"), state=0)
        machine.wait(7, 8, 50, stack_of("a"))
        rows, _ = self.report(machine.end(), "waits")
        self.assertEqual([(row["total_ns"], row["waker_thread_id"], row["waker_process_id"])
                          for row in rows], [(50, None, None)])

    def test_sums_stop_at_the_largest_number(self):
        machine = program()
        for _ in range(3):
            machine.wait(7, 8, 2**64 - 2, stack_of("a"), (7, 7), runnable=2**64 - 1)
        trace = machine.end()
        self.assertEqual(self.report(trace, "waits")[0][0]["total_ns"], 2**64 - 1)
        self.assertEqual(self.functions(trace, "offcpu")["a"]["exclusive_ns"], 2**64 - 1)


if __name__ == "__main__":
    unittest.main()
