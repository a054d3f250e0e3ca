#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""JSON events and typed events of one program: the commands show the same fields for both."""
import json
import os
import subprocess
import unittest

from tool import PATIENCE, ToolTest

HOST = os.environ["JSON_HOST"]
ORDERS = 20


class JsonFormsTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.trace = self.path("t.nettrace")
        done = subprocess.run([HOST, self.trace], stdout=subprocess.PIPE, check=True,
                              timeout=PATIENCE)
        self.stats = json.loads(done.stdout)

    def events(self, *arguments):
        out = self.run_tool("report", self.trace, "events", "--format", "json", *arguments)[0]
        return [json.loads(line) for line in out.splitlines()]

    def of(self, source):
        return [event["fields"] for event in self.events("--where", f'source == "{source}"')]

    def test_both_forms_are_in_the_trace_with_equal_fields(self):
        texts = [event["fields"] for event in self.events("--where",
                                                          "event == 'json_informational'")]
        typed = [event["fields"] for event in self.events("--where", "event == 'checkout'")]
        self.assertEqual(len(texts), ORDERS)
        self.assertEqual([(fields["order"], fields["total"]) for fields in texts],
                         [(fields["order"], fields["total"]) for fields in typed])
        self.assertEqual(texts[4], {"source": "checkout", "order": 4, "customer": "c1",
                                    "total": 4.5})

    def test_one_expression_selects_the_events_of_both_forms(self):
        self.assertEqual([event["event"] for event in self.events("--where", "order == 7")],
                         ["json_informational", "checkout"])
        self.assertEqual(len(self.events("--where", "total > 17 and customer == 'c0'")), 2)

    def test_texts_at_the_limits_are_shown_or_marked(self):
        self.assertEqual(self.of("bytes"), [{"source": "bytes", "a": "\ufffd\ufffd("}])
        self.assertEqual([(fields["json"], "…invalid" in fields)
                          for fields in self.of("nul") + self.of("empty")],
                         [('{"a":', True), ("", True)])
        whole, cut = self.of("large")
        self.assertEqual(whole, {"source": "large", "value": ["x" * 29996]})
        # The trace stores texts in UTF-16, where the larger text has more than 64 KB.
        self.assertEqual(cut["json"][:2], '["')
        self.assertEqual(cut["…invalid"], "unexpected end of data")
        self.assertEqual((self.stats["lost"], self.stats["too_big"]), (1, 1))
        cuts, = self.events("--where", "event == 'PayloadsCut'")
        self.assertEqual(cuts["fields"], {"count": 1})

    def test_the_report_lists_the_fields_of_each_source(self):
        out = self.run_tool("report", self.trace, "json", "--format", "json")[0]
        rows = [(row["source"], row["field"], row["type"], row["events"])
                for row in json.loads(out)]
        self.assertEqual(rows, [
            ("bytes", "a", "string", 1), ("checkout", "customer", "string", ORDERS),
            ("checkout", "order", "i64", ORDERS), ("checkout", "total", "f64", ORDERS),
            ("empty", "…invalid", None, 1), ("large", "value", "string[]", 1),
            ("large", "…invalid", None, 1), ("nul", "…invalid", None, 1)])
        out = self.run_tool("report", self.trace, "json", "--where", "total > 17", "--format",
                            "json")[0]
        self.assertEqual([(row["field"], row["events"]) for row in json.loads(out)],
                         [("customer", 3), ("order", 3), ("total", 3)])
        text = self.run_tool("report", self.trace, "json")[0]
        self.assertIn("RP_EVENT(provider, checkout, RP_EVENT_ID_AUTO, RP_LEVEL_INFORMATIONAL, 0,\n"
                      "\t RP_STRING(customer), RP_I64(order), RP_F64(total));\n", text)


if __name__ == "__main__":
    unittest.main()
