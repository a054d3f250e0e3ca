#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Events read by bpftrace.

usage: bpftrace_test.py HOST LIBRARY LIBRINGPIPE TOOL [unittest arguments]
"""
import json
import platform
import random
import re
import struct
import subprocess
import sys
import unittest

import probes
from probes import (FEW, NUMBERS, Host, References, Tracer, eventually, random_words, skip,
                    unsigned)

HOST = LIBRARY = RINGPIPE = TOOL = None
EVENTS = 10
NUMBERED = unittest.skipUnless(probes.numbers_are_the_kernels(),
                               "bpftrace knows no numbers of a pid namespace")


def word(place):
    """Return any word of an event: bpftrace has names for six arguments only."""
    return f'*(uint64*)(reg("r9") + {8 * place})'


class WithHost(unittest.TestCase):
    def setUp(self):
        self.host = self.start_host()

    def start_host(self):
        host = Host(HOST)
        self.addCleanup(host.close)
        return host

    def trace(self, program, *options):
        """The kernel counts a tracer before it forwards events, so wait for the tracer's own
        output."""
        tracer = Tracer(["bpftrace", "-B", "line", *options, "-e",
                         'BEGIN { printf("ready\\n"); } ' + program])
        self.addCleanup(tracer.stop)
        tracer.reported("ready", 1)
        return tracer

    def attach(self, event, action):
        tracer = self.trace(f"usdt:{HOST}:probes:{event} {{ {action} }}", "-p",
                            str(self.host.pid))
        self.assertIn(event, self.host.enabled())
        return tracer

    def off(self, *events):
        eventually(lambda: not self.host.enabled() & set(events), f"{events} off")


@unittest.skipIf(platform.machine() != "x86_64", "bpftrace names registers by machine")
class Values(WithHost):
    def compare(self, tracer, expected):
        """Lines may be reordered when the host moves to another processor."""
        self.assertEqual(sorted(tracer.reported("= ", len(expected))), sorted(expected))

    def test_arguments_have_their_signs_and_sizes(self):
        tracer = self.attach("few", 'printf("= %lld %lld %lld %lld %lld %lld\\n", '
                             'arg0, arg1, arg2, arg3, arg4, arg5)')
        fired = [random_words(FEW) for _ in range(EVENTS)]
        for words in fired:
            self.host.fire("few", *words)
        self.compare(tracer, [" ".join(map(str, words)) for words in fired])

    def test_words_of_every_number_are_what_was_written(self):
        places = range(len(NUMBERS))
        tracer = self.attach("numbers", 'printf("= ' + "%llx " * len(NUMBERS) + '.\\n", ' +
                             ", ".join(word(place) for place in places) + ")")
        fired = [random_words(NUMBERS, truths={0}) for _ in range(EVENTS)]
        for words in fired:
            self.host.fire("numbers", *words)
        self.compare(tracer, ["".join(f"{unsigned(one):x} " for one in words) + "."
                              for words in fired])

    REFERENCES = ('printf("= %s|%llx %llx %llx %llx|%llx %llx|%llx %lld|%lld", str(arg0), '
                  '*(uint16*)arg1, *(uint16*)(arg1 + 2), *(uint16*)(arg1 + 4), '
                  '*(uint16*)(arg1 + 6), *(uint64*)arg2, *(uint64*)(arg2 + 8), *(uint64*)arg3, '
                  f'arg4, {word(6)}); printf("|%lld", *(uint32*)arg5); $p = {word(7)}; '
                  f'printf("|%lld %lld", *(int32*)$p, *(uint16*)($p + 4)); $q = {word(8)}; '
                  f'printf("|%lld %lld %lld\\n", {word(9)}, *(int32*)$q, *(uint16*)($q + 4));')

    def test_pointers_lead_to_strings_arrays_and_structs(self):
        tracer = self.attach("references", self.REFERENCES)
        expected = []
        for count in range(1, EVENTS + 1):
            some = References()
            self.assertEqual(self.host.say("references", *some.words()), "0")
            units = struct.unpack("<3H", some.text16.encode("utf-16-le"))
            low, high = struct.unpack("<QQ", some.guid)
            blob = int.from_bytes(some.blob, "little")
            expected.append(
                f"{some.text}|{units[0]:x} {units[1]:x} {units[2]:x} 0|{low:x} {high:x}|"
                f"{blob:x} {len(some.blob)}|{len(some.list)}|{some.list[0]}|"
                f"{some.point[0]} {some.point[1]}|"
                f"{len(some.points)} {some.points[0][0]} {some.points[0][1]}")
            # The host reuses its buffers for the next event.
            tracer.reported("= ", count)
        self.compare(tracer, expected)

    def test_null_strings_are_empty_and_other_nulls_are_null(self):
        tracer = self.attach("references", 'printf("= %d%s|%llx %llx|%llx %llx %llx %llx", '
                             'arg0 != 0, str(arg0), arg1 != 0, *(uint16*)arg1, arg2, arg3, arg4, '
                             'arg5); printf(" %llx %llx %llx %llx\\n", ' +
                             ", ".join(word(place) for place in (6, 7, 8, 9)) + ")")
        self.assertEqual(self.host.say("references", *"-------"), "0")
        self.compare(tracer, ["1|1 0|" + " ".join("0" * 8)])

    def test_event_of_thirty_fields_is_seen_whole(self):
        tracer = self.attach("wide", "".join(
            f'printf("{"" if part else "= "}{"%llx " * 10}{chr(92) + "n" if part == 2 else ""}", ' +
            ", ".join(word(10 * part + place) for place in range(10)) + "); " for part in range(3)))
        fired = [random.getrandbits(63) for _ in range(EVENTS)]
        for first in fired:
            self.host.fire("wide", first)
        self.compare(tracer, ["".join(f"{first + place:x} " for place in range(30))
                              for first in fired])


class Stacks(WithHost):
    @NUMBERED
    def test_stack_begins_at_the_probe_and_leads_to_the_event_s_caller(self):
        tracer = self.attach("bare", 'printf("%s\\n= told\\n", ustack)')
        self.host.fire("bare")
        tracer.reported("= told", 1)
        frames = re.findall(r"^ +(\w\S*)\+\d+$", "".join(tracer.lines), re.M)
        # Without optimization, the stack includes the generated function.
        frames = [name for name in frames if name != "probes_bare"]
        self.assertEqual(frames[:2], ["probes_bare_probe_", "fire_bare"], tracer.lines)
        # gcc 14 calls a variant of the function with different arguments.
        self.assertIn("serve", [name.partition(".")[0] for name in frames])


class Semaphores(WithHost):
    def test_event_is_on_while_a_tracer_is_attached(self):
        self.assertEqual(self.host.enabled(), set())
        first = self.attach("bare", 'printf("first\\n")')
        self.assertEqual(self.host.enabled(), {"bare"})
        second = self.attach("bare", 'printf("second\\n")')
        self.host.fire("bare")
        first.reported("first", 1)
        second.reported("second", 1)
        first.stop()
        self.assertEqual(self.host.enabled(), {"bare"})
        self.host.fire("bare")
        second.reported("second", 2)
        second.stop()
        self.off("bare")

    def test_library_and_executable_have_a_word_each(self):
        # With -p, bpftrace 0.17 uses the locations found in one file for the other file too.
        library = self.trace(f'usdt:{LIBRARY}:probes:shared {{ printf("library %d\\n", arg0) }}')
        self.assertEqual(self.host.enabled(), {"library"})
        own = self.trace(f'usdt:{HOST}:probes:shared {{ printf("own %d\\n", arg0) }}')
        for number in range(EVENTS):
            self.host.fire("shared", number)
            self.host.fire("library", 100 + number)
        self.assertEqual(sorted(own.reported("own ", EVENTS)), [str(n) for n in range(EVENTS)])
        self.assertEqual(sorted(library.reported("library ", EVENTS)),
                         [str(100 + n) for n in range(EVENTS)])
        library.stop()
        self.off("library")
        self.assertEqual(self.host.enabled(), {"shared"})
        own.stop()
        self.off("shared")

    @NUMBERED
    def test_children_and_later_processes_are_traced_too(self):
        tracer = self.trace(f'usdt:{HOST}:probes:few {{ printf("= %d %d\\n", pid, arg4) }}')
        child = int(self.host.say("fork"))
        self.assertEqual(self.host.enabled("child"), {"few"})
        later = self.start_host()
        self.assertEqual(later.enabled(), {"few"})
        self.host.say("few", 0, 0, 0, 0, 1)
        self.host.say("child", "few", 0, 0, 0, 0, 2)
        later.say("few", 0, 0, 0, 0, 3)
        self.assertEqual(sorted(tracer.reported("= ", 3)), sorted(
            [f"{self.host.pid} 1", f"{child} 2", f"{later.pid} 3"]))
        tracer.stop()
        self.off("few")
        eventually(lambda: not self.host.enabled("child"), "the child's off")
        again = self.trace(f'usdt:{HOST}:probes:few {{ printf("= %d %d\\n", pid, arg4) }}')
        eventually(lambda: self.host.enabled("child") == {"few"}, "the child's on")
        self.host.say("child", "few", 0, 0, 0, 0, 4)
        self.assertEqual(again.reported("= ", 1), [f"{child} 4"])
        self.assertEqual(self.host.say("wait"), "0")

    def test_session_and_tracer_both_get_all(self):
        tracer = self.attach("few", 'printf("few %d\\n", arg4)')
        self.assertEqual(self.host.say("session", "/dev/null"), "0")
        self.assertLessEqual({"few", "bare"}, self.host.enabled())
        for number in range(EVENTS):
            self.host.fire("few", 0, 0, 0, 0, number)
            self.host.fire("bare")
        self.assertEqual(self.host.say("stop"), f"0 {2 * EVENTS} 0")
        self.assertEqual(self.host.enabled(), {"few"})
        self.host.fire("few", 0, 0, 0, 0, EVENTS)
        self.assertEqual(sorted(tracer.reported("few ", EVENTS + 1), key=int),
                         [str(number) for number in range(EVENTS + 1)])
        self.assertEqual(self.host.say("session", "/dev/null"), "0")
        tracer.stop()
        self.host.fire("few", 0, 0, 0, 0, 0)
        self.assertEqual(self.host.say("stop"), "0 1 0")
        self.off("few")


class RunTime(WithHost):
    """Dynamic events, and the thread that watches semaphores."""

    PROBE = ('{ printf("= %s %s %llx %lld %lld %llx\\n", str(arg0), str(arg1), *(uint32*)arg2, '
             'arg3, arg4, *(uint64*)(arg2 + 4)) }')

    def setUp(self):
        super().setUp()
        self.assertEqual(self.host.say("create"), "0")

    def attach_made(self):
        return self.trace(f"usdt:{RINGPIPE}:ringpipe:event /pid == {self.host.pid}/ {self.PROBE}")

    @NUMBERED
    def test_dynamic_event_is_seen_at_the_one_probe(self):
        tracer = self.attach_made()
        text = "in one or two"
        payload = struct.pack("<I", 0xabcd) + text.encode() + b"\0"
        expected = [f"Made-Up made abcd {len(payload)} {len(payload)} "
                    f"{int.from_bytes(text.encode()[:8], 'little'):x}"] * 3
        self.assertEqual(self.host.say("made", payload.hex()), "0")
        self.assertEqual(self.host.say("made", payload[:4].hex(), payload[4:].hex()), "0")
        self.assertEqual(self.host.say("session", "/dev/null"), "0")
        self.assertEqual(self.host.say("made", payload[:9].hex(), payload[9:].hex()), "0")
        self.assertEqual(self.host.say("stop"), "0 0 0")
        self.assertEqual(tracer.reported("= ", 3), expected)
        tracer.stop()
        self.assertEqual(self.host.say("made", payload.hex()), "0")

    @NUMBERED
    def test_payload_in_parts_is_cut_and_says_so(self):
        tracer = self.attach_made()
        self.assertEqual(self.host.say("long", "8"), "0")
        self.assertEqual(self.host.say("long", "f"), "0")
        # Lines of two processors may be reordered.
        self.assertEqual(sorted(tracer.reported("= ", 2)), ["Made-Up made 0 4096 4096 0",
                                                        "Made-Up made 0 4096 7680 0"])

    def test_watcher_enables_dynamic_events(self):
        self.assertEqual(self.host.say("watch", "0"), "-22")
        self.assertEqual(self.host.say("watch", "5"), "0")
        self.assertEqual(self.host.say("watch", "7"), "0")
        tracer = self.attach_made()
        eventually(lambda: self.host.say("wanted") == "1", "the event on")
        self.host.say("fork")
        eventually(lambda: self.host.say("child", "wanted") == "1", "the child's event on")
        tracer.stop()
        eventually(lambda: self.host.say("wanted") == "0", "the event off")
        eventually(lambda: self.host.say("child", "wanted") == "0", "the child's event off")
        self.assertEqual(self.host.say("wait"), "0")

    def test_callbacks_and_listing_report_of_tracers(self):
        self.assertEqual(self.host.say("hear"), "0")
        first = self.attach("references", 'printf("first\\n")')
        self.assertEqual(self.host.say("list"), "Probes-Host:references=1 ")
        self.assertEqual(self.host.say("news"), "none")
        self.assertEqual(self.host.say("watch", "5"), "0")
        eventually(lambda: self.host.say("news") == "1 1 3 2", "news of the first")
        second = self.attach("few", 'printf("second\\n")')
        eventually(lambda: self.host.say("news") == "1 1 4 3", "news of the second")
        self.assertEqual(set(self.host.say("list").split()),
                         {"tracers=2", "Probes-Host:few=1", "Probes-Host:references=1"})
        first.stop()
        eventually(lambda: self.host.say("news") == "1 1 4 1", "the first off")
        second.stop()
        eventually(lambda: self.host.say("news") == "0 0 0 0", "the second off")
        self.assertEqual(self.host.say("list"), "")

    def test_control_of_a_component_is_called_for_tracers(self):
        self.assertEqual(self.host.say("attach"), "0")
        self.assertEqual(self.host.say("watch", "5"), "0")
        first = self.attach("references", 'printf("first\\n")')
        eventually(lambda: self.host.say("component") == "2 f", "the first")
        second = self.attach("few", 'printf("second\\n")')
        eventually(lambda: self.host.say("component") == "3 1f", "the second")
        first.stop()
        eventually(lambda: self.host.say("component") == "1 1f", "the first off")
        second.stop()
        eventually(lambda: self.host.say("component") == "0 0", "the second off")

    def test_environment_asks_for_the_watcher(self):
        host = Host(HOST, RINGPIPE_TRACERS_MS="5")
        self.addCleanup(host.close)
        host.say("hear")
        tracer = self.trace(f"usdt:{HOST}:probes:bare {{ }}")
        eventually(lambda: host.say("news") == "1 1 4 4", "news")
        tracer.stop()
        eventually(lambda: host.say("news") == "0 0 0 0", "more news")

    def test_environment_that_makes_no_sense_is_reported(self):
        for value in ("0", "often", "10ms", "-1", "99999999999"):
            done = subprocess.run([HOST], input="enabled\n", capture_output=True, text=True,
                                  env={**probes.ENVIRONMENT, "RINGPIPE_TRACERS_MS": value},
                                  check=True)
            self.assertEqual(done.stdout, ".\n")
            self.assertIn(f'"{value}": Invalid argument', done.stderr)


class Command(WithHost):
    def test_list_shows_tracers(self):
        host = Host(HOST, RINGPIPE_DIAGNOSTICS="1")
        self.addCleanup(host.close)
        tracer = self.trace(f"usdt:{HOST}:probes:few {{ }}")
        self.assertEqual(host.enabled(), {"few"})
        shown = subprocess.run([TOOL, "list", str(host.pid)], check=True, capture_output=True,
                               text=True).stdout
        self.assertRegex(shown, r"(?m)^PROVIDER +EVENT +TRACERS$")
        self.assertRegex(shown, r"(?m)^Probes-Host +few +1$")
        command = [TOOL, "list", "--format=json", str(host.pid)]
        listed = json.loads(subprocess.run(command, check=True, capture_output=True,
                                           text=True).stdout)
        rows = [(row["kind"], row["event"], row["tracers"]) for row in listed
                if row["provider"] == "Probes-Host"]
        # A row for each object that declares the provider, and one for each traced event.
        self.assertEqual(rows[-1], ("tracers", "few", 1))
        self.assertEqual(set(rows[:-1]), {("provider", None, None)})
        tracer.stop()


def main():
    global HOST, LIBRARY, RINGPIPE, TOOL
    probes.need("bpftrace")
    HOST, LIBRARY, RINGPIPE = probes.copies(*sys.argv[1:4])
    TOOL = sys.argv[4]
    del sys.argv[1:5]
    done = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip("bpftrace does not run here: " + done.stderr.strip())
    unittest.main()


if __name__ == "__main__":
    main()
