#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The expressions of an offline page: they select the events that an evaluation in Python selects,
and their errors are those of the command."""
import json
import math
import os
import random
import subprocess
import unittest

import nettrace6 as v6
import view_test
import where_test
from tool import ToolTest

SOURCE = os.path.join(os.environ.get("SOURCE", ""), "src", "tools", "view", "page", "src")
SCRIPT = """
import { readFileSync } from 'node:fs';
const { compileExpression } = await import(`file://${process.argv[1]}/expression.js`);
const { events, texts } = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map((text) => {
  try {
    const matches = compileExpression(text);
    return events.filter((event) => matches(event)).map((event) => event.time_ns);
  } catch (error) {
    return { error: error.message, position: error.position };
  }
})));
"""
WRONG = ["total >", 'customer == "Zoë" und total > 1', "ëëë ==", "é = 1", "total",
         "and", "(a == 1", "a == 1)", "has", "has 5", "not", "a == b", "level == x",
         "level == 'a'", "time > 5",
         "time > 5x", "time > 1.5ns", "time > 3000000h", "process ~ 'a'", "process == 'a'",
         "provider == 5", "activity == 'x'", "activity < '00112233-4455-6677-8899-aabbccddeeff'",
         "trace_id == 'ab'", "span_id == 'zz'", "a == 0x", "a == 0xfg", "a == 18446744073709551616",
         "a == -9223372036854775809", "a == 1e999", "a == 5e3s", "a == 1.0000000000000000001s",
         "a < true", "a ~ b", "a ~ 'x**'", "a ~ 'x{'", "a ~ '(a)\\1'", "a ~ '" + "x" * 513 + "'",
         "a && b", "a || b", "! a", "a =~ 'b'", "a == $", "a == 'x", 'a == "\\q"', 'a == "\\x0"',
         'a == "\\u12"', 'a == "\\ud800"', "field. == 1", "field.'' == 1", "x. == 1",
         "(" * 65 + "a == 1" + ")" * 65, " or ".join(["a == 1"] * 257), "a == 1" + " " * 4096]


class PageExpression(ToolTest):
    open = view_test.ViewTest.open
    serve = view_test.ViewTest.serve
    get = view_test.ViewTest.get
    ask = view_test.ViewTest.ask

    def evaluate(self, events, texts):
        done = subprocess.run(["node", "--input-type=module", "-e", SCRIPT, SOURCE],
                              input=json.dumps({"events": events, "texts": texts}),
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_random_expressions_select_the_events_that_python_selects(self):
        choice = random.Random(20261128)
        # JSON has no infinity.
        events = [event for event in (where_test.Event(number, choice) for number in range(400))
                  if not any(isinstance(value, float) and math.isinf(value)
                             for _, value in event.fields.values())]
        for number, event in enumerate(events):
            event.number = number + 1
        self.open(where_test.write(events))
        shown = self.ask("events", limit=10000)["events"]
        self.assertEqual([event["time_ns"] for event in shown], [event.ns for event in events])
        # JSON has arrays of bytes as texts.
        rows = [row for row in (where_test.expression(choice, 3) for _ in range(1500))
                if "list" not in row[0]]
        found = self.evaluate(shown, [text for text, _ in rows])
        for (text, function), times in zip(rows, found):
            self.assertEqual(times, [event.ns for event in events if function(event)], text)

    def test_an_error_has_the_message_and_the_position_of_the_command(self):
        self.open(v6.two_processes())
        for text, error in zip(WRONG, self.evaluate([], WRONG)):
            self.assertEqual(error, self.ask("events", 400, where=text), text)


if __name__ == "__main__":
    view_test.skip_without_page()
    unittest.main()
