#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent reads JSON events: each has the name of its source and the text.

Environment: INTEROP_BUILD, JSON_HOST.
"""
import json
import os
import subprocess
import tempfile
import unittest

import clients

ORDERS = 20
PATIENCE_S = 60


class JsonEvents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "json.nettrace")
            subprocess.run([os.environ["JSON_HOST"], trace], stdout=subprocess.DEVNULL, check=True,
                           timeout=PATIENCE_S)
            cls.events, _ = clients.TraceRead().events(trace)

    def named(self, event):
        return [row["fields"] for row in self.events
                if row["provider"] == "Shop-Json" and row["event"].startswith(event)]

    def test_texts_are_those_that_the_program_wrote(self):
        found = self.named("json_informational")
        self.assertEqual([fields["source"] for fields in found], ["checkout"] * ORDERS)
        self.assertEqual([json.loads(fields["json"]) for fields in found],
                         [{"order": order, "customer": f"c{order % 3}", "total": order + 0.5}
                          for order in range(ORDERS)])

    def test_both_forms_of_an_event_are_in_one_trace(self):
        texts = [json.loads(fields["json"]) for fields in self.named("json_informational")]
        typed = self.named("checkout")
        for key in ("order", "total"):
            self.assertEqual([float(fields[key]) for fields in typed],
                             [float(fields[key]) for fields in texts])

    def test_a_text_of_30000_bytes_is_whole(self):
        self.assertEqual([len(fields["json"]) for fields in self.named("json_warning")][:1],
                         [30000])


if __name__ == "__main__":
    unittest.main()
