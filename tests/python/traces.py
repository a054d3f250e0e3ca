# SPDX-License-Identifier: MIT
"""Traces for the tests of the Python module and of reader.hpp, and the values that they hold."""
import datetime
import os
import struct
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import nettrace as v4  # noqa: E402
import nettrace6 as v6  # noqa: E402

UTC = datetime.timezone.utc
# The date in the header that both writers write.
START = datetime.datetime(2026, 11, 21, 1, 2, 3, 4000, UTC)
ACTIVITY, RELATED = uuid.UUID(int=0x1234), uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def ns(date):
    """Nanoseconds from 1970 to a date."""
    since = date - datetime.datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000


def ticks(date):
    """The form of a date in a payload: units of 100 ns since 1601."""
    since = date - datetime.datetime(1601, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 10**7 + since.microseconds * 10


def orders(count=3):
    return v4.sample(count)


# Each type of version 4: name, code, bytes, value.
FIELDS_V4 = (
    ("bool", 3, struct.pack("<I", 7), True), ("no", 3, bytes(4), False),
    ("char", 4, "ß".encode("utf-16-le"), "ß"), ("lone", 4, b"\0\xd8", "\ufffd"),
    ("i8", 5, b"\x80", -128), ("u8", 6, b"\xff", 255), ("i16", 7, b"\0\x80", -2**15),
    ("u16", 8, b"\xff\xff", 2**16 - 1), ("i32", 9, struct.pack("<i", -2**31), -2**31),
    ("u32", 10, b"\xff" * 4, 2**32 - 1), ("i64", 11, struct.pack("<q", -2**63), -2**63),
    ("u64", 12, b"\xff" * 8, 2**64 - 1), ("f32", 13, struct.pack("<f", 0.1),
                                          struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    ("f64", 14, struct.pack("<d", -0.1), -0.1),
    ("decimal", 15, bytes(range(16)), bytes(range(16))),
    ("time", 16, struct.pack("<q", ticks(START) + 9), START),
    ("before 1601", 16, struct.pack("<q", -1),
     datetime.datetime(1600, 12, 31, 23, 59, 59, 999999, UTC)),
    ("far", 16, struct.pack("<q", 2**63 - 1), (2**63 - 1 - 116444736000000000) * 100),
    ("guid", 17, RELATED.bytes_le, RELATED), ("no guid", 17, bytes(16), uuid.UUID(int=0)),
    ("text", 18, v4.utf16z("Zoë 🙂"), "Zoë 🙂"),
    ("broken", 18, b"a\0\0\xdcb\0\0\0", "a\ufffdb"), ("empty", 18, b"\0\0", ""),
)
PAYLOAD_V4 = b"".join(row[2] for row in FIELDS_V4)
VALUES_V4 = {row[0]: row[3] for row in FIELDS_V4}


def all_types_v4():
    """An event with all fields, and one for each place at which the payload may end."""
    trace = v4.Trace()
    trace.define(1, "Types", "All", 9, [(name, code) for name, code, _, _ in FIELDS_V4])
    return trace.events(1, [PAYLOAD_V4] + [PAYLOAD_V4[:i] for i in range(len(PAYLOAD_V4))]).end()


def values_of_cut(size):
    """The fields of FIELDS_V4 in the first `size` bytes of the payload."""
    values, end = {}, 0
    for name, _, encoded, value in FIELDS_V4:
        end += len(encoded)
        values[name] = value if end <= size else None
    return values


def all_types_v6():
    payload, values = v6.all_fields_payload()
    # The values of nettrace6.py are those of JSON.
    values.update(guid=RELATED, nested=[bytes([1, 2]), b""])
    trace = v6.Trace().threads({"index": 1}).define(1, "Types", "All", 9, v6.ALL_FIELDS)
    return trace.events({"id": 1, "thread": 1, "capture": 1, "payload": payload}).end(), values


def with_ids_v4():
    """Activities and stacks: the second event has none."""
    trace = v4.Trace().define(1, "Shop", "Order", 5, [("n", v4.U32)], level=2, keywords=0x8001)
    trace.stacks(1, [[0x401000, 2**64 - 1]])
    trace.activity = ACTIVITY.bytes_le
    trace.events(1, [struct.pack("<I", 1)], thread=2**40, ns=5, stack=1)
    trace.activity = bytes(16)
    return trace.events(1, [struct.pack("<I", 2)], thread=8, ns=7).end()


def with_ids_v6():
    """Every label, threads of two processes with names, stacks; the last event has none."""
    pairs = (("HardwareThreadCount", "4"), ("ProcessId", "4242"), ("Machine", "büro"))
    trace = v6.Trace(pairs=pairs).threads(
        {"index": 1, "process": 77, "thread": 501, "name": "wörker"},
        {"index": 2, "process": 78, "thread": 601, "name": "main"}, {"index": 3})
    trace.define(1, "Shop", "Order", 5, [("n", v6.U32)],
                 b"\3" + struct.pack("<Q", 1 << 40) + b"\x08\3" + b"\x09\2")
    trace.stacks(1, [[0x401000, 0x402000]])
    trace.labels(1, [[(1, ACTIVITY.bytes_le), (2, RELATED.bytes_le), (3, bytes(range(16))),
                      (4, struct.pack("<Q", 0x0123456789abcdef)),
                      (5, v6.text("zone") + v6.text("eu")), (6, v6.text("n") + v6.varint(-5))],
                     [(7, b"\2"), (8, struct.pack("<Q", 1)), (9, b"\5"), (10, b"\7")]])
    rows = [dict(id=1, number=1, thread=1, capture=1, cpu=3, stack=1, labels=1, ns=10),
            dict(id=1, number=1, thread=2, capture=2, cpu=1, stack=0, labels=2, ns=20),
            dict(id=1, number=1, thread=3, capture=3, cpu=0, stack=0, labels=0, ns=30)]
    for i, one in enumerate(rows):
        one["payload"] = struct.pack("<I", i)
    return trace.events(*rows).end()


def with_losses():
    return v4.sample(orders=2, losses=True)


# Numbers whose bytes are nowhere else in the trace.
NUMBERS = [0x1122334455667700 + i for i in range(4)]


def in_two_blocks():
    """A trace of NUMBERS, 2 and 2, and the offset of the second block."""
    trace = v4.Trace().define(1, "Shop", "OrderPlaced", 5, [("order_id", v4.U64)])
    trace.events(1, [struct.pack("<Q", i) for i in NUMBERS[:2]])
    offset = len(trace.bytes)
    trace.events(1, [struct.pack("<Q", i) for i in NUMBERS[2:]], ns=2_000_000)
    return trace.end(), offset


def wide():
    """An event whose 128 fields all refer to the same numbers: more values than it has bytes."""
    data = bytes(60000)
    pairs = tuple((f"f{i}", (v6.DATA_LOC, v6.U16)) for i in range(128))
    place = struct.pack("<HH", 512, len(data))
    trace = v6.Trace().threads({"index": 1}).define(1, "Hostile", "Wide", 1, pairs)
    return trace.events({"id": 1, "thread": 1, "capture": 1, "payload": place * 128 + data}).end()


def long_trace(blocks, numbers):
    """Yield the parts of a trace: blocks of orders with these numbers, and the end."""
    trace = v4.Trace()
    trace.define(1, "Shop", "OrderPlaced", 5, [("order_id", v4.U64), ("customer", v4.STRING)])
    yield bytes(trace.bytes)
    offset = len(trace.bytes)
    payloads = [v4.order(number, "Ada") for number in numbers]
    for _ in range(blocks):
        # Padding depends on the place in the file.
        trace.bytes = bytearray(offset % 4)
        trace.events(1, payloads)
        part = bytes(trace.bytes[offset % 4:])
        offset += len(part)
        yield part
    yield b"\1"
