#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TraceEvent reads every type of field with its name and value. types_host.c writes them.

Environment: INTEROP_BUILD, RINGPIPE, TYPES_HOST.
"""

import hashlib
import json
import os
import struct
import subprocess
import unittest

import clients

GUID = "00112233-4455-6677-8899-aabbccddeeff"
NO_GUID = "00000000-0000-0000-0000-000000000000"
LONG = 16000
LARGEST_WIRE_BLOB = 65400 - 2
F32_MAX, F32_TINY = 3.4028234663852886e38, 1.401298464324817e-45
U64_MAX = 2**64 - 1


def guid_bytes(text):
    """Encode a GUID for nettrace: the first three groups are little-endian."""
    raw = bytes.fromhex(text.replace("-", ""))
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


class Types(clients.Scratch):
    conversions = ()  # versions that `ringpipe convert` writes, in this order

    @classmethod
    def setUpClass(cls):
        scratch = clients.tempfile.mkdtemp(prefix="ringpipe-types-")
        cls.addClassCleanup(clients.shutil.rmtree, scratch)
        cls.trace = os.path.join(scratch, "types.nettrace")
        done = subprocess.run([os.environ["TYPES_HOST"], cls.trace], stdout=subprocess.PIPE,
                              check=True, timeout=60)
        cls.books = json.loads(done.stdout)
        for version in cls.conversions:
            converted = os.path.join(scratch, f"as{version}.nettrace")
            subprocess.run([os.environ["RINGPIPE"], "convert", "-q", "-f", "-o", converted,
                            "--format", version, cls.trace], check=True, timeout=60)
            cls.trace = converted
        cls.rows, cls.summary = clients.TraceRead().events(cls.trace)

    def kind(self, number):
        found = [kind for kind in self.summary["kinds"]
                 if kind["provider"] == "Types-Host" and kind["id"] == number]
        self.assertEqual(len(found), 1, f"kinds of event {number}")
        return found[0]

    def events(self, number):
        return [row for row in self.rows
                if row["provider"] == "Types-Host" and row["id"] == number]

    def fields(self, number):
        return [list(row["fields"].values()) for row in self.events(number)]

    def payloads(self, number):
        return [bytes.fromhex(row["payload"]) for row in self.events(number)]

    def test_every_event_but_the_refused_one_arrives(self):
        written = {1: 3, 2: 4, 3: 3, 4: 6, 5: 2, 6: 2, 7: 2, 8: 4, 9: 1, 10: 1, 11: 1, 12: 1, 13: 1,
                   14: 6, 15: 1}
        arrived = {number: len(self.events(number)) for number in written}
        self.assertEqual(arrived, written)
        books = {name: self.books[name] for name in ("delivered", "lost", "too_big")}
        self.assertEqual(books, {"delivered": sum(written.values()), "lost": 1, "too_big": 1})
        self.assertEqual(self.summary["events_lost"], 1)

    def test_integers_arrive_at_their_extremes(self):
        self.assertEqual(self.kind(1)["fields"],
                         ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
        self.assertEqual(self.fields(1), [
            [-2**7, 0, -2**15, 0, -2**31, 0, -2**63, 0],
            [2**7 - 1, 2**8 - 1, 2**15 - 1, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, U64_MAX],
            [-1, 1, -2, 2, -3, 3, -4, 4]])

    def test_bool_char_and_floats_arrive(self):
        self.assertEqual(self.kind(2)["fields"], ["truth", "letter", "f32", "f64", "mark"])
        values = self.fields(2)
        for row in values[1:3]:
            # TraceEvent returns it as a float: equal once both are rounded to one.
            row[2] = struct.unpack("f", struct.pack("f", row[2]))[0]
        self.assertEqual(values, [
            [True, "A", 1.5, -2.25, 200],
            [False, "é", F32_MAX, 2.2250738585072014e-308, 201],
            [True, "\0", -F32_TINY, 1.7976931348623157e308, 202],
            [True, "z", "NaN", "-Infinity", 203]])

    def test_pointers_guids_and_times_arrive(self):
        self.assertEqual(self.kind(3)["fields"], ["pointer", "guid", "time", "mark"])
        self.assertEqual(self.fields(3), [
            [0x7ffffffff123, GUID, "2023-11-14T22:13:20.1234567Z", 200],
            [0, NO_GUID, "1970-01-01T00:00:00.0000000Z", 201],
            [U64_MAX, GUID, "1969-12-31T23:59:59.0000000Z", 202]])

    def test_strings_arrive_empty_long_astral_and_repaired(self):
        self.assertEqual(self.kind(4)["fields"], ["utf8", "utf16", "mark"])
        self.assertEqual(self.fields(4), [
            ["plain", "plain", 1],
            ["", "", 2],
            ["", "", 3],
            ["Grüße 🛒𝄞", "Grüße 🛒𝄞", 4],
            ["x" * LONG, "一" * LONG, 5],
            ["a\ufffdb\ufffd", "b", 6]])

    # Including the bytes, which are all that a client without array support sees.
    def test_arrays_arrive(self):
        self.assertEqual(self.kind(5)["fields"], ["blob", "numbers", "reals", "mark"])
        self.assertEqual(self.fields(5), [
            [[0, 1, 0x7f, 0x80, 0xff], [0, 1, 2**32 - 1], [0.5, -1e300], 200], [[], [], [], 201]])
        self.assertEqual(self.payloads(5), [
            struct.pack("<H5B", 5, 0, 1, 0x7f, 0x80, 0xff) + struct.pack("<H3I", 3, 0, 1, 2**32 - 1)
            + struct.pack("<H2d", 2, 0.5, -1e300) + bytes([200]),
            struct.pack("<HHHB", 0, 0, 0, 201)])

    def test_structs_arrive(self):
        self.assertEqual(self.kind(6)["fields"], ["box", "mark"])
        self.assertEqual(self.fields(6), [
            [{"corner": {"x": -5, "y": 6}, "width": 65535, "filled": True, "owner": GUID}, 200],
            [{"corner": {"x": 0, "y": 0}, "width": 0, "filled": False, "owner": NO_GUID}, 201]])
        self.assertEqual(self.payloads(6), [
            struct.pack("<iiHI", -5, 6, 65535, 1) + guid_bytes(GUID) + bytes([200]),
            bytes(30) + bytes([201])])

    def test_arrays_of_structs_arrive(self):
        self.assertEqual(self.fields(7), [
            [[{"x": 1, "y": -1}, {"x": 2**31 - 1, "y": -2**31}], 200], [[], 201]])
        self.assertEqual(self.payloads(7), [
            struct.pack("<H4iB", 2, 1, -1, 2**31 - 1, -2**31, 200), struct.pack("<HB", 0, 201)])

    def test_activities_arrive_with_their_events(self):
        known = "01020304-0506-0708-0000-000000000000"
        ids = [(row["activity"], row["related_activity"]) for row in self.events(8)]
        self.assertEqual(ids, [(None, None), (GUID, known), (GUID, known), (None, None)])
        start, = self.events(12)
        stop, = self.events(13)
        self.assertEqual(start["related_activity"], GUID)
        self.assertNotIn(start["activity"], (None, GUID, known))
        self.assertEqual((stop["activity"], stop["related_activity"]),
                         (start["activity"], GUID))

    def test_activities_go_on_in_other_threads_and_services(self):
        trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
        _, sent_trace, own, flags = self.books["sent"].split("-")
        self.assertEqual((sent_trace, flags), (trace, "01"))
        rows = {row["fields"]["mark"]: row for row in self.events(14)}
        ids = {mark: tuple(text and text.replace("-", "") for text in
                           (row["activity"], row["related_activity"]))
               for mark, row in rows.items()}
        # Both threads have the ids of the header; and so has the next service.
        self.assertEqual(ids[1], (trace, caller + own))
        self.assertEqual(ids[4], ids[1])
        self.assertNotEqual(rows[4]["thread"], rows[1]["thread"])
        self.assertEqual(ids[6][0], trace)
        self.assertEqual(ids[6][1][:16], own)
        self.assertNotIn(ids[6][1][16:], ("0" * 16, own, caller))
        # Without ids before and after.
        for mark in (2, 3, 5):
            self.assertEqual(ids[mark], (None, None))

    def test_opcode_version_level_and_keywords_arrive(self):
        kind = self.kind(9)
        self.assertEqual([kind["version"], kind["level"], kind["opcode"], kind["keywords"]],
                         [7, 1, 42, 0x8000000000000001])
        self.assertTrue(kind["event"].startswith("decorated"), kind["event"])
        self.assertEqual(self.fields(9), [[-7]])
        self.assertEqual([self.kind(12)["opcode"], self.kind(13)["opcode"]], [1, 2])
        self.assertEqual([self.kind(id)["event"] for id in (12, 13)], ["trip/Start", "trip/Stop"])
        # Without an opcode, TraceEvent derives it from the name.
        self.assertEqual([self.kind(15)["event"], self.kind(15)["opcode"]], ["walk/Start", 1])

    def test_an_event_without_fields_arrives(self):
        kind = self.kind(10)
        self.assertEqual([kind["event"], kind["level"], kind["fields"]], ["bare", 5, []])
        self.assertEqual(self.payloads(10), [b""])

    # TraceEvent reads a payload's size as 16 bits, so the stream's limit is a little below
    # ringpipe's.
    def test_the_largest_payload_arrives_as_far_as_the_wire_goes(self):
        expected = bytes(i * 7 & 0xff for i in range(LARGEST_WIRE_BLOB))
        self.assertEqual(self.payloads(11),
                         [struct.pack("<H", LARGEST_WIRE_BLOB) + expected])

    def test_the_provider_has_its_eventsource_guid(self):
        guids = {row["provider_guid"] for row in self.summary["kinds"]
                 if row["provider"] == "Types-Host"}
        self.assertEqual(len(guids), 1)
        self.assertEqual(guids, {eventsource_guid("Types-Host")})

    def test_times_rise_and_threads_are_reported(self):
        times = [row["time_ms"] for row in self.rows]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len({row["thread"] for row in self.rows
                              if row["provider"] == "Types-Host"}), 2)

    def test_ringpipe_reads_the_same(self):
        done = subprocess.run([os.environ["RINGPIPE"], "report", self.trace, "events", "--all",
                               "--format=json"],
                              stdout=subprocess.PIPE, check=True, timeout=60)
        rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual(len(rows), len(self.rows))
        for ours, theirs in zip(rows, self.rows):
            for key in ("provider", "id", "processor"):
                self.assertEqual(ours[key], theirs[key])
            self.assertEqual(ours["thread_id"], theirs["thread"])
            for key in ("activity", "related_activity"):
                self.assertEqual(ours.get(key), theirs[key])
            self.assertEqual(ours["fields"].keys(), theirs["fields"].keys())
            for name, value in theirs["fields"].items():
                self.assertTrue(same(ours["fields"][name], value), f"{name}: {value}")

    def test_tracelog_reads_it_too(self):
        rows, summary = clients.TraceRead().events(self.trace, "--stacks")
        self.assertEqual(clients.counts(summary, ["Types-Host"]),
                         clients.counts(self.summary, ["Types-Host"]))
        self.assertEqual([row["payload"] for row in rows if row["provider"] == "Types-Host"],
                         [row["payload"] for row in self.rows if row["provider"] == "Types-Host"])


class ConvertedTo6(Types):
    conversions = ("6",)


class ConvertedTo4(Types):
    conversions = ("6", "4")


def same(ours, theirs):
    """The two tools print blobs, floats and NaN differently."""
    if theirs in ("NaN", "Infinity", "-Infinity"):
        return ours is None
    if isinstance(theirs, list) and isinstance(ours, str):
        return ours == bytes(theirs).hex()
    if isinstance(theirs, float) and abs(theirs) < F32_TINY * 2:
        return struct.pack("f", ours) == struct.pack("f", theirs)
    if isinstance(theirs, float):
        return abs(ours - theirs) <= abs(theirs) * 1e-7
    return ours == theirs


def eventsource_guid(name):
    """Compute the SHA-1 over a namespace and the upper-case name in UTF-16BE, as EventSource
    does."""
    space = bytes.fromhex("482c2db2c39047c887f81a15bfc130fb")
    raw = bytearray(hashlib.sha1(space + name.upper().encode("utf-16-be")).digest()[:16])
    raw[7] = raw[7] & 0x0f | 0x50
    text = (raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


if __name__ == "__main__":
    clients.main(clients.trace_read_command)
