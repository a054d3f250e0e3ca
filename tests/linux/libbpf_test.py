#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Events read by BPF programs with libbpf: libbpf_test.py HOST ATTACH OBJECT"""
import random
import sys
import unittest

import probes
from probes import FEW, NUMBERS, REALS, Host, References, Tracer, eventually, random_words, skip

HOST = ATTACH = OBJECT = None
EVENTS = 10


def signed(word):
    """Return a word as the program prints it."""
    return word - (1 << 64) if word >= 1 << 63 else word


class Libbpf(unittest.TestCase):
    def setUp(self):
        self.host = Host(HOST)
        self.addCleanup(self.host.close)

    def attach(self, event):
        tracer = Tracer([ATTACH, OBJECT, str(self.host.pid), HOST, event])
        self.addCleanup(tracer.stop)
        tracer.reported("ready", 1)
        self.assertEqual(self.host.enabled(), {event})
        return tracer

    def seen(self, tracer, count):
        return [[int(word) for word in line.rstrip(" .").split()]
                for line in tracer.reported("= ", count)]

    def compare(self, event, sizes, truths=()):
        tracer = self.attach(event)
        fired = [random_words(sizes, truths) for _ in range(EVENTS)]
        for words in fired:
            self.host.fire(event, *words)
        self.assertEqual(self.seen(tracer, EVENTS), [list(map(signed, words)) for words in fired])
        tracer.stop()
        eventually(lambda: not self.host.enabled(), "the event off")

    def test_six_arguments_have_their_signs_and_sizes(self):
        self.compare("few", FEW)

    def test_twelve_arguments_have_their_signs_and_sizes(self):
        self.compare("reals", REALS, truths={2})

    def test_event_without_arguments_is_counted(self):
        self.compare("bare", [])

    def test_of_more_arguments_eleven_come_and_where_all_are(self):
        tracer = self.attach("numbers")
        words = random_words(NUMBERS, truths={0})
        self.host.fire("numbers", *words)
        seen, = self.seen(tracer, 1)
        self.assertEqual(seen[:11], list(map(signed, words[:11])))
        self.assertEqual(len(seen), 12)
        self.assertNotEqual(seen[11], 0)

    def test_counts_follow_their_pointers(self):
        tracer = self.attach("references")
        some = References()
        self.host.say("references", *some.words())
        seen, = self.seen(tracer, 1)
        self.assertEqual(len(seen), 10)
        self.assertEqual([seen[4], seen[6], seen[9]],
                         [len(some.blob), len(some.list), len(some.points)])
        self.assertNotIn(0, [seen[place] for place in (0, 1, 2, 3, 5, 7, 8)])

    def test_thirty_fields_can_be_attached_to(self):
        tracer = self.attach("wide")
        first = random.getrandbits(62)
        self.host.fire("wide", first)
        seen, = self.seen(tracer, 1)
        self.assertEqual(seen[:11], [first + place for place in range(11)])


def main():
    global HOST, ATTACH, OBJECT
    HOST, ATTACH, OBJECT = sys.argv[1:4]
    del sys.argv[1:4]
    probes.need()
    with open(OBJECT, "rb"):    # if it is missing, the build is wrong
        pass
    host = Host(HOST)
    tracer = Tracer([ATTACH, OBJECT, str(host.pid), HOST, "bare"])
    try:
        tracer.reported("ready", 1)
    except AssertionError as error:
        skip(f"no BPF program can be attached here: {error}")
    finally:
        tracer.stop()
        host.close()
    unittest.main()


if __name__ == "__main__":
    main()
