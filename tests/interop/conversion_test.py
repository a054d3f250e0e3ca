#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent reads the same kinds, counts, losses and times in a trace and in its conversions.

Environment: INTEROP_BUILD, RINGPIPE; RINGPIPE_TEST_DATA names a folder with recordings of .NET,
if there is one.
"""

import os
import subprocess
import sys
import unittest
import zipfile

import clients

sys.path.insert(0, os.path.join(clients.ROOT, "tests", "cli"))
import convert_test  # noqa: E402
import oracle  # noqa: E402


class Conversion(clients.Scratch):
    def convert(self, data):
        """Return the paths of the trace, of its conversion, and of the conversion of that."""
        names = [self.path(name) for name in ("trace", "there", "back")]
        with open(names[0], "wb") as trace:
            trace.write(data)
        versions = ("4", "6") if data[8:12] == bytes(4) else ("6", "4")
        for before, after, version in zip(names, names[1:], versions):
            subprocess.run([os.environ["RINGPIPE"], "convert", "-q", "-f", "--format", version,
                            "-o", after, before], check=True, timeout=60)
        return names

    def test_losses_are_those_of_the_oracle(self):
        for data in (convert_test.busy(4), convert_test.busy(6), convert_test.partly_sorted()):
            trace = oracle.Trace(data)
            for name in self.convert(data)[1:]:
                summary = clients.TraceRead().summary(name)
                self.assertEqual((summary["events"], summary["events_lost"]),
                                 (len(trace.events), trace.lost))

    def test_the_compact_form_has_the_same_events_and_ascii_text(self):
        for version in 4, 6:
            data = convert_test.busy(version).replace("ë".encode("utf-16-le"), b"e\0").replace(
                "€".encode("utf-16-le"), b"E\0").replace("Zoë €".encode(), b"Zoe ASCII"[:8])
            plain, compact = self.path("plain"), self.path("compact")
            with open(self.path("trace"), "wb") as trace:
                trace.write(data)
            for name, option in (plain, []), (compact, ["--compact"]):
                subprocess.run([os.environ["RINGPIPE"], "convert", "-q", "-f", "--format", "6",
                                *option, "-o", name, self.path("trace")], check=True, timeout=60)
            one, other = map(clients.TraceRead().summary, (plain, compact))
            self.assertEqual(one, other)
            self.assertEqual(one["events"], 120)

    @unittest.skipUnless(convert_test.RECORDINGS, "RINGPIPE_TEST_DATA has no recordings")
    def test_recordings_of_dotnet(self):
        for path in convert_test.RECORDINGS:
            with self.subTest(path=path), zipfile.ZipFile(path) as archive:
                names = self.convert(archive.read(archive.namelist()[0]))
                one, *others = map(clients.TraceRead().summary, names)
                self.assertGreater(one["events"], 2)
                self.assertEqual(others, [one, one])


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
