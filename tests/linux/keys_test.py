#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Static keys with kernel tracers, of which the library gets no notice.

usage: keys_test.py HOST [unittest arguments]
"""
import platform
import sys
import unittest

import probes
from probes import FEW, Host, Tracer, eventually, random_words, skip

HOST = None


class Attached(unittest.TestCase):
    def start_host(self):
        host = Host(HOST)
        self.addCleanup(host.close)
        return host

    def trace(self, *options):
        tracer = Tracer(["bpftrace", "-B", "line", *options, "-e",
                         'BEGIN { printf("ready\\n"); } '
                         f'usdt:{HOST}:probes:few {{ printf("= %lld\\n", arg4); }}'])
        self.addCleanup(tracer.stop)
        tracer.reported("ready", 1)
        return tracer

    def expect(self, host, tracer):
        words = random_words(FEW)
        host.fire("few", *words)
        self.assertEqual(tracer.reported("= ", 1), [str(words[4])])

    @staticmethod
    def all_pass(host):
        eventually(lambda: host.say("jumps") == "0", "no site is a jump")

    @unittest.skipUnless(probes.numbers_are_the_kernels(),
                         "bpftrace knows no numbers of a pid namespace")
    def test_tracer_is_noticed_when_it_comes_and_when_it_goes(self):
        host = self.start_host()
        self.all_pass(host)
        tracer = self.trace("-p", str(host.pid))
        eventually(lambda: host.enabled() == {"few"}, "the sites of one event are jumps")
        self.expect(host, tracer)
        tracer.stop()
        self.all_pass(host)
        self.assertEqual(host.enabled(), set())

    def test_program_that_is_traced_from_its_start_is_seen_from_its_first_event_on(self):
        tracer = self.trace()
        host = self.start_host()
        self.expect(host, tracer)


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        skip("static keys are x86-64's")
    probes.need("bpftrace")
    HOST = sys.argv.pop(1)
    unittest.main()
