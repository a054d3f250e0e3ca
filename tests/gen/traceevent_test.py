#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent decodes the values of generated events: by their definitions in the trace, and those
of the CLR by its parsers for them.

Environment: as gen_test.py, and INTEROP_BUILD.
"""
import datetime
import os
import struct
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../interop"), os.path.join(HERE, "../cli")]
import clients  # pylint: disable=wrong-import-position
import gen_test  # pylint: disable=wrong-import-position
from manifest_oracle import NUMBERS  # pylint: disable=wrong-import-position

# What TraceEvent 4.0.0 itself shows differently from the payload: the field, and the events.
DIFFERENT = {
    # It separates the tier and the extent from the flags.
    "MethodFlags": ("Method",),
    # It reads the ANSI text as UTF-16, and what follows it from there.
    "FailReason": ("MethodJitTailCallFailed",),
    # It reads the field in later versions only, or at the end of another template.
    "ClrInstanceID": ("BGC", "GCPerHeapHistory_V1", "MethodJitTailCallFailed"),
}
# Ids without a template in these parsers: the dynamic parser reads them.
WITHOUT_TEMPLATE = 19


def is_equal(field, value, shown):
    if field.type in NUMBERS or field.type in ("win:Boolean", "win:Pointer"):
        size = {"win:Boolean": 4, "win:Pointer": 8}.get(field.type) or \
            struct.calcsize(NUMBERS[field.type][0])
        return isinstance(shown, int) and (int(value) - int(shown)) % (1 << 8 * size) == 0
    if field.type in ("win:Float", "win:Double"):
        return value == shown
    return str(value) == shown


def time_shown(nanoseconds):
    """Return a FILETIME as TraceEvent shows it, which keeps units of 100 ns."""
    seconds, rest = divmod(nanoseconds // 100, 10 ** 7)
    day = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{day.isoformat()}.{rest:07d}Z"


class DefinedEvents(gen_test.GenTest):
    """A trace defines the fields of an event up to the first whose type it cannot describe."""

    def test_traceevent_has_each_event_with_its_payload_and_its_defined_fields(self):
        events, _ = self.fire_all(gen_test.ALL_TYPES)
        rows = [row for row in clients.TraceRead().events(self.path("fired.nettrace"))[0]
                if row["provider"] == "Test-Gen"]
        self.assertEqual([(event.id, event.version, event.payload().hex()) for event in events],
                         [(row["id"], row["version"], row["payload"]) for row in rows])
        counts = {}
        for event, row in zip(events, rows):
            # TraceEvent 4.0.0 uses one definition for all versions of an event.
            if event.symbol.startswith("Versioned"):
                continue
            shown = list(row["fields"].values())
            counts[event.symbol] = len(shown)
            for field, value in zip(event.fields, shown):
                expected = event.values[field.name]
                if field.type == "win:FILETIME":
                    expected = time_shown(expected)
                self.assertTrue(is_equal(field, expected, value), (field.name, expected, value))
        self.assertEqual(counts, {"Nothing": 0, "Plain": 19, "Texts": 0, "Arrays": 1, "Structs": 1})


@unittest.skipUnless(os.path.exists(gen_test.CLR), "RINGPIPE_TEST_DATA has no manifest")
class ClrParsers(gen_test.GenTest):
    def test_every_field_of_the_clr_has_its_value_in_traceevent(self):
        events, _ = self.fire_all(gen_test.CLR)
        providers = {event.provider for event in events}
        rows = [row for row in clients.TraceRead().events(self.path("fired.nettrace"), "--clr")[0]
                if row["provider"] in providers]
        compared, dynamic = 0, 0
        self.assertEqual([(event.provider, event.id, event.version) for event in events],
                         [(row["provider"], row["id"], row["version"]) for row in rows])
        for event, row in zip(events, rows):
            self.assertEqual(bytes.fromhex(row["payload"]), event.payload())
            dynamic += row["parser"] == "DynamicTraceEventData"
            shown = {name.lower(): value for name, value in row["fields"].items()}
            for field in event.fields:
                value = event.values[field.name]
                if isinstance(value, list) or field.name.lower() not in shown or \
                   event.symbol.startswith(DIFFERENT.get(field.name, ("-",))):
                    continue
                compared += 1
                self.assertTrue(is_equal(field, value, shown[field.name.lower()]),
                                (event.symbol, field.name, value, shown[field.name.lower()]))
        print(f"# figure: TraceEvent decodes {compared} fields of {len(events)} events of the CLR; "
              f"{dynamic} events have no template")
        self.assertGreater(compared, 1200)
        self.assertEqual(dynamic, WITHOUT_TEMPLATE)


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
