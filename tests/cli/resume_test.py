#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A reader that resumes after damage gives only events of the undamaged trace.

Random bits of traces of both versions are flipped, and random ranges overwritten or cut. A second
decoder says which events the undamaged trace has. Damage that this decoder does not find either,
because the format states a value once and has no checksum, may change that value.
"""
import os
import random
import struct
import subprocess
import tempfile
import unittest

import nettrace
import nettrace6
import nettrace_decode
from nettrace6 import METADATA, POINT, varuint

READER = os.environ["RESUME_READER"]
LONG = os.environ.get("LONG") == "1"
MEGABYTES = "0" if os.environ.get("SANITIZERS", "none") != "none" else "400"
FLIPS, RANGES = (5000, 1000) if LONG else (500, 100)
SEED = int(os.environ.get("SEED", "1"))


def compressed_v4(trace, rows):
    """Add a block of events, dicts with id, number, thread, capture, cpu, stack, ns, payload."""
    out, times = b"", []
    last = dict(id=0, number=0, thread=0, capture=0, cpu=0, stack=0, ticks=0, size=0,
                activity=bytes(16), related=bytes(16))
    for given in rows:
        now = dict(last, **{key: given[key] for key in given if key not in ("ns", "payload")})
        now["ticks"], now["size"] = trace.start_ticks + given["ns"], len(given["payload"])
        flags, body = 64, b""
        if now["id"] != last["id"]:
            flags, body = flags | 1, body + varuint(now["id"])
        if (now["number"], now["capture"], now["cpu"]) != \
                (last["number"] + 1, last["capture"], last["cpu"]):
            flags |= 2
            body += varuint((now["number"] - last["number"] - 1) % 2**32)
            body += varuint(now["capture"]) + varuint(now["cpu"])
        for key, bit in (("thread", 4), ("stack", 8)):
            if now[key] != last[key]:
                flags, body = flags | bit, body + varuint(now[key])
        body += varuint(now["ticks"] - last["ticks"])
        for key, bit in (("activity", 16), ("related", 32)):
            if now[key] != last[key]:
                flags, body = flags | bit, body + now[key]
        if now["size"] != last["size"]:
            flags, body = flags | 128, body + varuint(now["size"])
        out += bytes([flags]) + body + given["payload"]
        times.append(now["ticks"])
        last = now
    trace._block("EventBlock", [out], times[0], times[-1], 1)	# pylint: disable=W0212


def trace_v4(rng, sections=8):
    trace = nettrace.Trace()
    threads, numbers, ns = [101, 102, 70003], {}, 1000
    trace.define(1, "Shop", "OrderPlaced", 5, [("order", nettrace.U64), ("name", nettrace.STRING)])
    trace.define(2, "Shop", "OrderPaid", 6, [("order", nettrace.U64)], level=3)
    for section in range(sections):
        if section == sections // 2:
            trace.define(3, "Depot", "Sent", 1, [("box", nettrace.U32)], keywords=16)
        trace.stacks(1, [[rng.getrandbits(47) for _ in range(3)] for _ in range(4)])
        for _ in range(3):
            rows = []
            for _ in range(12):
                thread = rng.choice(threads)
                ns += rng.randrange(1, 5000)
                numbers[thread] = numbers.get(thread, 0) + 1
                kind = rng.choice([1, 2] + [3] * (section >= sections // 2))
                payload = {1: nettrace.order(rng.getrandbits(40), "Zoë" * rng.randrange(4)),
                           2: struct.pack("<Q", rng.getrandbits(30)),
                           3: struct.pack("<I", rng.getrandbits(30))}[kind]
                rows.append(dict(id=kind, number=numbers[thread], thread=thread, capture=thread,
                                 cpu=rng.randrange(2), stack=rng.randrange(5), ns=ns,
                                 payload=payload, activity=rng.choice([bytes(16), b"a" * 16])))
            compressed_v4(trace, rows)
        trace.point(numbers, ns)
    return trace.end()


def trace_v6(rng, sections=8):
    """Each sequence point removes all threads; their indexes are then used for others."""
    trace = nettrace6.Trace()
    ns, number = 1000, 0
    fields = [("order", nettrace6.U64), ("name", nettrace6.STRING16)]
    trace.define(1, "Shop", "OrderPlaced", 5, fields, b"\x08\4\3" + struct.pack("<Q", 7))
    trace.define(2, "Shop", "OrderPaid", 6, fields[:1], b"\1\2")
    for section in range(sections):
        if section == sections // 2:
            trace.define(3, "Depot", "Sent", 1, [("box", nettrace6.VARUINT)])
        count = rng.randrange(3, 6)
        trace.threads({"index": 0}, *({"index": i, "process": 40 + section, "name": f"t{section}",
                                       "thread": 1000 * section + i} for i in range(1, count)))
        trace.stacks(1, [[rng.getrandbits(47) for _ in range(3)] for _ in range(4)])
        trace.labels(1, [[(1, rng.randbytes(16)), (4, rng.randbytes(8))],
                         [(5, nettrace6.text("user") + nettrace6.text(f"u{section}")),
                          (9, bytes([1 + section % 4]))]])
        for _ in range(3):
            rows = []
            for _ in range(12):
                ns += rng.randrange(1, 5000)
                number += 1
                kind = rng.choice([1, 2] + [3] * (section >= sections // 2))
                payload = {1: nettrace.order(rng.getrandbits(40), "Zoë" * rng.randrange(4)),
                           2: struct.pack("<Q", rng.getrandbits(30)),
                           3: varuint(rng.getrandbits(30))}[kind]
                rows.append(dict(id=kind, number=number, thread=rng.randrange(1, count), capture=0,
                                 cpu=rng.randrange(2), stack=rng.randrange(5),
                                 labels=rng.randrange(3), ns=ns, payload=payload))
            trace.events(*rows)
        trace.point([(0, number)], ns, nettrace6.FLUSH_THREADS)
        number = 0
    return trace.end()


def read(traces, pipe=False):
    """Read traces with the library. Return, for each: lines, result and damaged ranges."""
    with tempfile.NamedTemporaryFile() as file:
        for data in traces:
            file.write(struct.pack("<I", len(data)) + data)
        file.flush()
        out = subprocess.run([READER, file.name, MEGABYTES] + ["pipe"] * pipe,
                             stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace")
    found = []
    for part in out.split("\n\n")[:-1]:
        lines = part.split("\n")
        events = [line for line in lines if line[:2] not in ("= ", "! ")]
        result = [line for line in lines if line.startswith("= ")][0].split()[1:]
        ranges = [tuple(map(int, line.split()[1:3])) for line in lines if line.startswith("! ")]
        found.append((events, list(map(int, result)), ranges))
    return found


def decodes_to(data):
    """Return the lines of a trace which contradicts nothing, or None."""
    try:
        return nettrace_decode.decode(data)
    except (nettrace_decode.Damage, struct.error, ValueError):
        return None


class Original:
    """An undamaged trace and its events."""

    def __init__(self, data, is_cut):
        self.data = data
        self.is_cut = is_cut	# the bytes after the damage are others
        decoder = nettrace_decode.Decoder(data)
        self.lines = decoder.decode()
        self.known = set(self.lines)
        self.without_stacks = {line.split("\t")[0] for line in self.lines}
        self.payloads, self.points, self.blocks = \
            decoder.payloads, decoder.points, decoder.blocks
        self.is_v6 = decoder.is_v6
        # A type of a field that is unknown leaves the event without fields.
        self.without_fields = {self.no_fields(line) for line in self.lines}
        self.by_rest = {}
        for line, span in zip(self.lines, self.payloads):
            self.by_rest.setdefault(self.rest(line), []).append((line, span))
            self.by_rest.setdefault(self.rest(line.split("\t")[0] + "\t"), []).append((line, span))

    @staticmethod
    def no_fields(line):
        begin, _, payload = line.rsplit(" ", 2)
        return begin + payload

    @staticmethod
    def rest(line):
        head, frames = line.split("\t")
        begin, payload = head.rsplit(" ", 1)
        return begin, len(payload), frames

    def is_known(self, line, begin, end):
        """Whether the trace has the event; bytes of a payload in the damage may differ, and an
        unknown stack is empty."""
        head, frames = line.split("\t")
        if self.overlaps({METADATA}, begin, end) and self.no_fields(line) in self.without_fields:
            return True
        if line in self.known or (not frames and head in self.without_stacks):
            return True
        payload = head.rsplit(" ", 1)[1]
        for other, (first, _) in self.by_rest.get(self.rest(line), ()):
            was = other.split("\t")[0].rsplit(" ", 1)[1]
            different = [i // 2 for i in range(len(was)) if was[i] != payload[i]]
            if different and begin <= first + different[0] and \
                    (self.is_cut or first + different[-1] < end):
                return True
        return False

    def overlaps(self, kinds, begin, end):
        return any(kind in kinds and first < end and begin < last
                   for kind, first, last in self.blocks)

    def required(self, begin, end):
        """The events after the next sequence point, unless definitions were damaged. A damaged
        sequence point of version 6 may seem to remove definitions."""
        if self.overlaps({METADATA, POINT} if self.is_v6 else {METADATA}, begin, end):
            return []
        return [line for line, point in zip(self.lines, self.points)
                if point >= end and point > 0]


def flips(rng, data, count, protected):
    for _ in range(count):
        at = rng.randrange(protected, len(data))
        bad = bytearray(data)
        bad[at] ^= 1 << rng.randrange(8)
        yield bytes(bad), at, at + 1


def overwritten(rng, data, count, protected):
    for i in range(count):
        at = rng.randrange(protected, len(data) - 1)
        size = min(rng.choice([2, 8, 40, 200, 1000, 3000]), len(data) - at)
        fill = [rng.randbytes(size), bytes(size), b"\xff" * size,
                (b"\5\5\1\2\0\0\0\2" * size)[:size]][i % 4]
        yield data[:at] + fill + data[at + size:], at, at + size


def cut(rng, data, count, protected):
    for _ in range(count):
        at = rng.randrange(protected, len(data) - 1)
        size = min(rng.choice([1, 2, 3, 4, 40, 200, 1000, 3000]), len(data) - at)
        yield data[:at] + data[at + size:], at, at + size


class ResumeTest(unittest.TestCase):
    """Each class of damage to each version."""

    def judge(self, original, cases, results, counts):
        for (bad, begin, end), (events, _, ranges) in zip(cases, results):
            wrong = [line for line in events if not original.is_known(line, begin, end)]
            if wrong:
                expected = decodes_to(bad)
                if expected is None:
                    self.fail(f"damage in [{begin}, {end}) of {len(bad)} bytes; wrong: "
                              f"{wrong[0]!r}, {len(wrong)} in all; ranges {ranges}")
                self.assertEqual(events, expected, (begin, end))
                counts["unseen"] += 1
            elif ranges:
                counts["reported"] += 1
                counts["lost"] += len(original.lines) - len(events)
            found = set(events)
            if not wrong:
                missing = [line for line in original.required(begin, end) if line not in found]
                self.assertFalse(missing, f"damage in [{begin}, {end}), {len(missing)} missing, "
                                          f"{len(events)} given, ranges {ranges}")
            counts["cases"] += 1

    def check(self, make, damage, count):
        rng = random.Random(f"{SEED} {make.__name__} {damage.__name__}")
        counts = dict(cases=0, reported=0, unseen=0, lost=0)
        for _ in range(0, count, 250):
            original = Original(make(rng), damage is cut)
            self.assertEqual(read([original.data]), [(original.lines, [0, 0, 0, 0], [])])
            # The reader assumes that damage does not hide the first use of an index again.
            points = [end for kind, _, end in original.blocks if kind == POINT]
            protected = points[0] if make is trace_v6 else original.blocks[0][1]
            cases = list(damage(rng, original.data, min(count, 250), protected))
            results = read([bad for bad, _, _ in cases])
            self.judge(original, cases, results, counts)
            self.assertEqual(read([bad for bad, _, _ in cases[:30]], pipe=True), results[:30])
        print(f"# {make.__name__}, {damage.__name__}: {counts}")

    def test_flipped_bits_give_only_events_of_the_trace_v4(self):
        self.check(trace_v4, flips, FLIPS)

    def test_flipped_bits_give_only_events_of_the_trace_v6(self):
        self.check(trace_v6, flips, FLIPS)

    def test_overwritten_ranges_give_only_events_of_the_trace_v4(self):
        self.check(trace_v4, overwritten, RANGES)

    def test_overwritten_ranges_give_only_events_of_the_trace_v6(self):
        self.check(trace_v6, overwritten, RANGES)

    def test_cut_ranges_give_only_events_of_the_trace_v4(self):
        self.check(trace_v4, cut, RANGES)

    def test_cut_ranges_give_only_events_of_the_trace_v6(self):
        self.check(trace_v6, cut, RANGES)


if __name__ == "__main__":
    unittest.main()
