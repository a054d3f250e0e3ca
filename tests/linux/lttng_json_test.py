#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LTTng records JSON events. Environment: as lttng_test.py."""
import sys
import unittest

from lttng_host import LttngTest, ours
from lttng_test import skip_reason
from lttng_trace import read


class Json(LttngTest):
    def test_a_json_event_has_its_source_and_its_text(self):
        host = self.host()
        path = self.session()
        self.enable('Lttng-Json:json_*')
        self.start()
        host.expect('await', 1, 0, 'json')
        host.expect('json')
        self.stop()
        self.end(host)
        found = [(event.name, event.fields['source'], event.fields['json'])
                 for event in ours(read(path))]
        self.assertEqual(found, [
            ('Lttng-Json:json_informational', 'script', '{"n": 5, "wide": "\u00f6"}'),
            ('Lttng-Json:json_error', 'script', 'no JSON')])


if __name__ == '__main__':
    REASON = skip_reason()
    if REASON:
        print(REASON)
        sys.exit(77)
    unittest.main()
