#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The decoder of OpenTelemetry's JavaScript packages reads what `convert --to otlp` writes."""
import json
import os
import shutil
import subprocess
import unittest

import otlp_test
from odd_traces_test import TRACES
from tool import ToolTest

HERE = os.path.dirname(os.path.abspath(__file__))


class Decoder(ToolTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("node"):
            self.skipTest("Node.js is missing")
        if not os.path.isdir(os.path.join(HERE, "node_modules")):
            self.skipTest("scripts/setup long fetches the packages of tests/consumers")

    def check(self, data):
        """Return the number of lines, each of which the decoder understands as a whole."""
        path = self.write("t.nettrace", data)
        self.run_tool("convert", path, "--to", "otlp", "-q", "-f", "-o", "out")
        done = subprocess.run(["node", os.path.join(HERE, "otlp_decoder.mjs")],
                              input=self.read("out"), stdout=subprocess.PIPE, check=True,
                              timeout=120)
        lines = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        for line in lines:
            self.assertEqual(line["found"], line["given"])
        return len(lines)

    def test_odd_traces(self):
        lines = {name: self.check(make()) for name, make in TRACES.items()}
        self.assertGreater(lines["names"], 10)
        self.assertEqual((lines["empty"], lines["endless"]), (0, 1))

    def test_all_types_of_fields_events_links_and_ids(self):
        for name in dir(otlp_test.Otlp):
            if name.startswith("test_"):
                test = otlp_test.Otlp(name)
                kept = []
                test.convert = self.keeper(test, kept)
                test.debug()
                for data in kept:
                    self.check(data)
                self.assertTrue(kept)

    @staticmethod
    def keeper(test, kept):
        """Keep the complete traces that a test converts."""
        convert = test.convert

        def keep(data, status=0):
            if not status:
                kept.append(data)
            return convert(data, status)
        return keep


if __name__ == "__main__":
    unittest.main()
