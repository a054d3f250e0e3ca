#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python module `ringpipe` on the traces of traces.py, which also has their values."""
import ast
import datetime
import os
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import ringpipe

import traces
from traces import v4, v6


def read(source):
    """Return (events, the exception at their end or None)."""
    events = []
    try:
        for event in ringpipe.open(source):
            events.append(event)
    except ringpipe.Error as error:
        return events, error
    return events, None


class Events(unittest.TestCase):
    def test_every_type_of_version_4_has_its_value(self):
        event = next(ringpipe.open(traces.all_types_v4()))
        self.assertEqual(event.fields, traces.VALUES_V4)
        self.assertEqual(list(event.fields), list(traces.VALUES_V4))
        for name, value in traces.VALUES_V4.items():
            self.assertEqual((event[name], type(event[name])), (value, type(value)), name)

    def test_fields_after_the_end_of_the_payload_are_none(self):
        _, *cut = ringpipe.open(traces.all_types_v4())
        self.assertEqual(len(cut), len(traces.PAYLOAD_V4))
        for size, event in enumerate(cut):
            values = traces.values_of_cut(size)
            self.assertEqual(event.fields, values)
            self.assertEqual({name: event[name] for name in values}, values)

    def test_every_type_of_version_6_has_its_value(self):
        data, values = traces.all_types_v6()
        event = next(ringpipe.open(data))
        self.assertEqual(event.fields, values)
        for name, value in values.items():
            self.assertEqual((event[name], type(event[name])), (value, type(value)), name)

    def test_a_cut_struct_and_a_cut_list_have_what_the_payload_has(self):
        pairs = (("pair", (v6.STRUCT, (("a", v6.U8), ("b", v6.U16)))),
                 ("list", (v6.ARRAY, v6.U16)), ("last", v6.U8))
        payload = b"\1\2\0" + struct.pack("<HHH", 2, 3, 4) + b"\5"
        trace = v6.Trace().threads({"index": 1}).define(1, "P", "E", 1, pairs)
        trace.events(*({"id": 1, "thread": 1, "capture": 1, "payload": payload[:size]}
                       for size in (len(payload), 7, 1)))
        self.assertEqual([event.fields for event in ringpipe.open(trace.end())], [
            {"pair": {"a": 1, "b": 2}, "list": [3, 4], "last": 5},
            {"pair": {"a": 1, "b": 2}, "list": [3], "last": None},
            {"pair": {"a": 1, "b": None}, "list": None, "last": None}])

    def test_members_of_a_json_event_are_fields(self):
        fields = [("source", v4.STRING), ("json", v4.STRING)]
        texts = ['{"user": {"name": "Zoë"}, "ids": [1, 2], "total": 1.5, "paid": true}', "5",
                 '{"a": ', '{"user": {"name": "b"}, "ids": [3], "total": 2.5, "paid": false}']
        trace = v4.Trace().define(1, "Shop", "json_informational", 1, fields)
        trace.define(2, "Shop", "Plain", 2, fields[:1])
        data = trace.events(1, [v4.utf16z("script") + v4.utf16z(text) for text in texts])
        data = data.events(2, [v4.utf16z("script")]).end()
        raw = [event.fields for event in ringpipe.open(data, json=False)]
        self.assertEqual(raw[:4], [{"source": "script", "json": text} for text in texts])
        opened = list(ringpipe.open(data))
        self.assertEqual([event["source"] for event in opened], ["script"] * 5)
        self.assertEqual(opened[0].fields, {"source": "script", "user": {"name": "Zoë"},
                                            "ids": [1, 2], "total": 1.5, "paid": True})
        self.assertEqual(opened[1].fields, {"source": "script", "value": 5})
        self.assertEqual(opened[2]["json"], '{"a": ')
        self.assertIn("…invalid", opened[2].fields)
        self.assertEqual((opened[3]["user"], opened[3].get("json")), ({"name": "b"}, None))
        with self.assertRaises(TypeError):
            ringpipe.open(data, jsn=True)

    def test_the_first_of_two_fields_with_one_name_counts(self):
        trace = v4.Trace().define(1, "P", "E", 1, [("x", v4.U32), ("x", v4.U32), ("y", v4.U32)])
        event = next(ringpipe.open(trace.events(1, [struct.pack("<3I", 1, 2, 3)]).end()))
        self.assertEqual((event["x"], event["y"], event.fields), (1, 3, {"x": 1, "y": 3}))

    def test_a_name_that_no_field_has_is_a_key_error(self):
        event = next(ringpipe.open(traces.orders()))
        for name in ("nothing", "order_id\0", 1, None, "\ud800"):
            with self.assertRaises(KeyError):
                event[name]
        self.assertEqual((event.get("nothing"), event.get("nothing", 5), event.get("order_id", 5)),
                         (None, 5, 0))
        # A name that is equal, but another object than the key.
        self.assertEqual(event["".join(["order", "_id"])], 0)

    def test_ids_and_stacks_of_version_4(self):
        first, second = ringpipe.open(traces.with_ids_v4())
        self.assertEqual((first.provider, first.name, first.id, first.level, first.keywords),
                         ("Shop", "Order", 5, 2, 0x8001))
        self.assertEqual((first.time, first.utc), (5, traces.ns(traces.START) + 5))
        self.assertEqual((first.process, first.thread, first.thread_name, first.processor),
                         (4242, 2**40, "", 1))
        self.assertEqual((first.activity, first.related_activity, first.stack),
                         (traces.ACTIVITY, None, [0x401000, 2**64 - 1]))
        self.assertEqual((first.trace_id, first.span_id, first.labels), (None, None, {}))
        self.assertEqual((second.activity, second.stack, second.thread, second["n"]),
                         (None, [], 8, 2))

    def test_labels_threads_and_stacks_of_version_6(self):
        first, second, third = ringpipe.open(traces.with_ids_v6())
        self.assertEqual((first.activity, first.related_activity),
                         (traces.ACTIVITY, traces.RELATED))
        self.assertEqual((first.trace_id, first.span_id),
                         (bytes(range(16)).hex(), "0123456789abcdef"))
        self.assertEqual((first.labels, first.stack), ({"zone": "eu", "n": -5},
                                                       [0x401000, 0x402000]))
        self.assertEqual([(event.process, event.thread, event.thread_name, event.processor)
                          for event in (first, second)],
                         [(77, 501, "wörker", 3), (78, 601, "main", 1)])
        self.assertEqual([(event.level, event.keywords, event.opcode, event.version)
                          for event in (first, second, third)],
                         [(3, 1 << 40, 0, 2), (5, 1, 2, 7), (3, 1 << 40, 0, 2)])
        self.assertEqual((third.activity, third.trace_id, third.labels, third.stack,
                          third.thread_name), (None, None, {}, [], ""))

    def test_texts_that_are_not_utf8_have_the_replacement_character(self):
        trace = v6.Trace(pairs=((b"k\xff", b"v\xff"),))
        trace.threads({"index": 1, "name": b"t\xff"})
        trace.define(1, b"p\xff", b"e\xff", 1, [(b"f\xff", (v6.ARRAY, v6.CHAR8))])
        trace.labels(1, [[(5, v6.text(b"l\xff") + v6.text(b"x\xff"))]])
        trace.events(*({"id": 1, "thread": 1, "capture": 1, "labels": 1, "ns": i,
                        "payload": b"\2\0y\xff"} for i in range(2)))
        with ringpipe.open(trace.end()) as trace:
            self.assertEqual(trace.info.key_values, {"k\ufffd": "v\ufffd"})
            for event in trace:
                self.assertEqual((event.provider, event.name, event.thread_name),
                                 ("p\ufffd", "e\ufffd", "t\ufffd"))
                self.assertEqual((event.labels, event.fields),
                                 ({"l\ufffd": "x\ufffd"}, {"f\ufffd": "y\ufffd"}))

    def test_events_stay_valid_when_the_trace_is_closed_and_dropped(self):
        with ringpipe.open(traces.with_ids_v6()) as trace:
            events = list(trace)
        del trace
        self.assertEqual([event["n"] for event in events], [0, 1, 2])
        self.assertEqual(events[0].thread_name, "wörker")
        self.assertIn("ringpipe.Event Shop/Order time=10 {'n': 0}", repr(events.pop(0)))
        self.assertEqual((events[0].labels, events[0].provider), ({}, "Shop"))

    def test_dicts_of_an_event_are_the_callers(self):
        event = next(ringpipe.open(traces.with_ids_v6()))
        event.labels["zone"], event.fields["n"] = "us", 7
        self.assertEqual((event.labels["zone"], event.fields["n"]), ("eu", 0))


class Traces(unittest.TestCase):
    def test_info_is_the_header(self):
        info = ringpipe.open(traces.with_ids_v6()).info
        self.assertEqual((info.process_id, info.processors, info.pointer_bytes, info.version),
                         (4242, 4, 8, 6))
        self.assertEqual((info.start_utc, info.ticks_per_second), (traces.ns(traces.START), 10**9))
        self.assertEqual(info.key_values["Machine"], "büro")
        self.assertEqual(ringpipe.open(traces.orders()).info.version, 4)

    def test_stats_count_what_was_read(self):
        data = traces.with_losses()
        with ringpipe.open(data) as trace:
            self.assertEqual((trace.stats.events, trace.stats.ended), (0, False))
            count = sum(1 for _ in trace)
            stats = trace.stats
        self.assertEqual((stats.events, stats.lost, stats.ended, stats.bytes),
                         (count, 12, True, len(data)))
        self.assertEqual(trace.stats, stats)

    def test_a_closed_trace_gives_no_events(self):
        trace = ringpipe.open(traces.orders())
        event = next(trace)
        with trace as same:
            self.assertIs(same, trace)
        trace.close()
        self.assertTrue(trace.closed)
        self.assertRaises(ValueError, next, trace)
        self.assertEqual((event["order_id"], trace.stats.events, trace.info.version), (0, 1, 4))
        self.assertEqual(trace.stats.events, 1)

    def test_objects_come_from_open_alone(self):
        for kind in (ringpipe.Trace, ringpipe.Event):
            self.assertRaises(TypeError, kind)
            self.assertRaises(TypeError, kind.__new__, kind)

    def test_a_trace_is_read_by_one_call_at_a_time(self):
        data, at, trace = traces.orders(), 0, None
        entered, leave = threading.Event(), threading.Event()

        class Slow:
            def read(self, size):
                nonlocal at
                if trace:
                    entered.set()
                    leave.wait()
                part = data[at:at + min(size, 150)]
                at += len(part)
                return part

        trace, got = ringpipe.open(Slow()), []
        reader = threading.Thread(target=lambda: got.extend(trace))
        reader.start()
        entered.wait()
        self.assertRaises(RuntimeError, next, trace)
        self.assertRaises(RuntimeError, trace.close)
        leave.set()
        reader.join()
        self.assertEqual(len(got), 3)

    def test_the_stubs_declare_what_the_module_has(self):
        stubs = os.path.join(os.path.dirname(ringpipe.__file__), "__init__.pyi")
        with open(stubs, encoding="utf-8") as file:
            declared = {node.name: node for node in ast.parse(file.read()).body
                        if hasattr(node, "name") and not node.name.startswith("_")}
        self.assertEqual(sorted(declared), sorted(ringpipe.__all__))
        for name in ("Event", "Trace"):
            kind = getattr(ringpipe, name)
            self.assertEqual({node.name for node in declared[name].body},
                             set(vars(kind)) - {"__doc__", "__module__", "__repr__"})
            for key, value in vars(kind).items():
                self.assertTrue(key.startswith("__") or value.__doc__, key)
        for name in ("Info", "Stats"):
            self.assertEqual(tuple(node.target.id for node in declared[name].body),
                             getattr(ringpipe, name).__match_args__)

    def test_the_process_is_no_target_of_clients(self):
        """The module contains the reader; the library would start threads and a socket."""
        program = ("import os, ringpipe; print(os.listdir(os.environ['TMPDIR']), "
                   "os.listdir('/proc/self/task') == [str(os.getpid())], "
                   "'libringpipe.so' in open('/proc/self/maps').read())")
        with tempfile.TemporaryDirectory() as folder:
            out = subprocess.run([sys.executable, "-c", program], check=True, text=True,
                                 stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder})
        self.assertEqual(out.stdout.strip(), "[] True False")


class Ranges(unittest.TestCase):
    """A trace has an event at each microsecond from 1 ms after its start on."""
    COUNT = 1000

    def setUp(self):
        trace = v4.Trace().define(1, "Shop", "OrderPlaced", 5, [("order_id", v4.U64)])
        for block in range(0, self.COUNT, 50):
            trace.events(1, [struct.pack("<Q", i) for i in range(block, block + 50)],
                         ns=1_000_000 + 1000 * block)
        self.data = trace.end()

    def orders(self, **options):
        with ringpipe.open(self.data, **options) as trace:
            return [event["order_id"] for event in trace]

    def test_a_range_has_the_events_from_its_start_on_and_before_its_stop(self):
        self.assertEqual(self.orders(start=1_010_000, stop=1_020_000), list(range(10, 20)))
        self.assertEqual(self.orders(start=1_010_001, stop=1_020_001), list(range(11, 21)))
        self.assertEqual(self.orders(stop=1_003_000), [0, 1, 2])
        self.assertEqual(self.orders(start=1_997_500), [998, 999])
        self.assertEqual(self.orders(start=10**18), [])
        self.assertEqual(self.orders(start=None, stop=None), list(range(self.COUNT)))

    def test_times_may_be_timedeltas_and_dates(self):
        first = datetime.timedelta(microseconds=1010)
        self.assertEqual(self.orders(start=first, stop=first + first / 101), list(range(10, 20)))
        start_us = ringpipe.open(self.data).info.start_utc // 1000
        utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + \
            datetime.timedelta(microseconds=start_us)
        east = datetime.timezone(datetime.timedelta(hours=5))
        self.assertEqual(self.orders(start=(utc + first).astimezone(east), stop=1_013_000),
                         [10, 11, 12])
        self.assertEqual(self.orders(stop=datetime.datetime(1800, 1, 1, tzinfo=east)), [])

    def test_times_that_are_none_are_refused(self):
        for times in ({"start": 5, "stop": 5}, {"start": 2, "stop": 1}):
            with self.subTest(times), self.assertRaises(ValueError):
                self.orders(**times)
        for time in "1.5s", 1.5, b"1", datetime.datetime(2026, 1, 1), [1]:
            with self.subTest(time), self.assertRaises(TypeError):
                self.orders(start=time)
        with self.assertRaises(OverflowError):
            self.orders(stop=2**63)

    def test_a_file_is_read_by_the_index_of_the_command_if_there_is_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.nettrace")
            self.COUNT = 20_000
            self.setUp()
            with open(path, "wb") as file:
                file.write(self.data)
            wanted = self.orders(start=3_000_000, stop=3_100_000)
            self.assertEqual(len(wanted), 100)
            self.assertEqual(self.of_file(path), wanted)
            subprocess.run([os.environ["RINGPIPE"], "report", path, "spans", "--from", "1s"],
                           check=True, stdout=subprocess.DEVNULL)
            self.assertTrue(os.path.exists(path + ".rpidx"))
            status = os.stat(path)
            with open(path, "r+b") as file:	# events of other times
                file.seek(len(self.data) // 2)
                file.write(bytes(100_000))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.assertEqual(self.of_file(path), wanted)

    @staticmethod
    def of_file(path):
        return [event["order_id"] for event in ringpipe.open(path, start=3_000_000,
                                                             stop=3_100_000)]


class Damage(unittest.TestCase):
    def test_a_cut_file_gives_its_complete_events_and_then_incomplete(self):
        data, _ = traces.in_two_blocks()
        begin = data.index(b"EventBlock")
        for size in range(begin, len(data)):
            events, error = read(data[:size])
            # An event's last bytes are its payload.
            whole = sum(data.index(struct.pack("<Q", i)) + 8 <= size for i in traces.NUMBERS)
            self.assertEqual([event["order_id"] for event in events], traces.NUMBERS[:whole], size)
            self.assertIsInstance(error, ringpipe.Incomplete)
            self.assertTrue(0 <= error.offset <= size)
            self.assertIn(f"at offset {error.offset}", str(error))

    def test_damage_is_an_error_with_its_place_after_the_events_before_it(self):
        data, offset = traces.in_two_blocks()
        events, error = read(data[:offset] + b"\xee" * 40 + data[offset + 40:])
        self.assertEqual([event["order_id"] for event in events], traces.NUMBERS[:2])
        self.assertIs(type(error), ringpipe.Error)
        self.assertEqual(error.offset, offset)

    def test_a_trace_that_resumes_gives_the_events_after_the_damage_and_its_place(self):
        data, offset = traces.in_two_blocks()
        data = data[:-1] + data[offset:]
        trace = ringpipe.open(data[:offset] + b"\xee" * 40 + data[offset + 40:], resume=True)
        numbers = [event["order_id"] for event in trace]
        self.assertEqual(numbers, traces.NUMBERS)
        (begin, size, reason), = trace.damage
        self.assertEqual((begin, reason), (offset, "no block"))
        self.assertGreaterEqual(size, 40)
        self.assertEqual(trace.stats.damaged_bytes, size)
        with self.assertRaises(TypeError):
            ringpipe.open(data, True)

    def test_each_call_after_damage_raises_the_error_again(self):
        data, offset = traces.in_two_blocks()
        trace = ringpipe.open(data[:offset] + b"\xee" * 40)
        said = set()
        for _ in range(6):
            try:
                next(trace)
            except ringpipe.Error as error:
                said.add(str(error))
        self.assertEqual(len(said), 1)
        self.assertEqual(trace.stats.events, 2)

    def test_a_file_that_is_no_trace_is_an_error_with_its_name(self):
        with tempfile.NamedTemporaryFile(suffix="größe.txt") as file:
            file.write(b"no trace at all")
            file.flush()
            with self.assertRaisesRegex(ringpipe.Error, "größe.txt: not a nettrace file") as caught:
                ringpipe.open(file.name)
            self.assertIsNone(caught.exception.offset)
        for data in (b"", b"Nettrace", traces.orders()[:60]):
            self.assertRaises(ringpipe.Error, ringpipe.open, data)

    def test_a_later_version_is_named(self):
        data = bytearray(traces.with_ids_v6())
        data[12] = 7
        with self.assertRaisesRegex(ringpipe.Error, "version 7"):
            ringpipe.open(data)

    def test_values_are_limited_by_the_bytes_of_the_event(self):
        event = next(ringpipe.open(traces.wide()))
        self.assertEqual(event["f127"], [0] * 30000)
        with self.assertRaisesRegex(ringpipe.Error, "more values than bytes"):
            event.fields

    def test_no_changed_byte_ends_the_process_or_raises_another_exception(self):
        for data in (traces.with_ids_v4(), traces.with_ids_v6(), traces.all_types_v6()[0]):
            for place in range(len(data)):
                for value in (0, 0x7f, 0xff, data[place] ^ 1):
                    changed = bytearray(data)
                    changed[place] = value
                    try:
                        events, _ = read(changed)
                    except ringpipe.Error:
                        continue
                    for event in events:
                        repr((event, event.stack, event.labels, event.utc, event.trace_id))


if __name__ == "__main__":
    unittest.main()
