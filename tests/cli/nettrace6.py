# SPDX-License-Identifier: MIT
"""Nettrace V6 built byte by byte, with no code shared with the library: a second writer."""
import struct
import uuid

END, TRACE, EVENT, METADATA, POINT, STACK, THREAD, REMOVE, LABELS = range(9)
# Type codes, as NetTraceFormat.md has them.
STRUCT, BOOL32, CHAR16, I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 = \
    1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
TIME, GUID, STRING16, ARRAY, VARINT, VARUINT, FIXED, CHAR8, REL_LOC, DATA_LOC, BOOL8 = \
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26
FLUSH_THREADS, FLUSH_METADATA = 1, 2
LAST = 0x80


def varuint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def varint(value):
    return varuint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value):
    utf8 = value.encode() if isinstance(value, str) else value
    return varuint(len(utf8)) + utf8


def row(content):
    return struct.pack("<H", len(content)) + content


def field_type(code):
    """A code; or (array code, element [, count]); or (STRUCT, fields)."""
    if isinstance(code, int):
        return bytes([code])
    if code[0] == STRUCT:
        return bytes([STRUCT]) + fields(code[1])
    out = bytes([code[0]]) + field_type(code[1])
    return out + struct.pack("<H", code[2]) if code[0] == FIXED else out


def fields(pairs):
    return struct.pack("<H", len(pairs)) + b"".join(row(text(name) + field_type(code))
                                                    for name, code in pairs)


def utf16z(value):
    return value.encode("utf-16-le") + b"\0\0"


class Trace:
    """Bytes of a trace; blocks are added in order, end() completes it."""

    def __init__(self, pairs=(("HardwareThreadCount", "4"), ("ProcessId", "4242")),
                 ticks_per_second=1_000_000_000, start_ticks=1_000_000, minor=0):
        self.start_ticks = start_ticks
        # A bytearray grows without a copy of what it has.
        self.bytes = bytearray(b"Nettrace" + struct.pack("<3I", 0, 6, minor))
        payload = struct.pack("<8H", 2026, 11, 6, 21, 1, 2, 3, 4)
        payload += struct.pack("<qqII", start_ticks, ticks_per_second, 8, len(pairs))
        payload += b"".join(text(key) + text(value) for key, value in pairs)
        self.block(TRACE, payload)

    def block(self, kind, payload):
        self.bytes += struct.pack("<I", len(payload) | kind << 24) + payload
        return self

    def threads(self, *rows):
        """Rows: {index=, name=, process=, thread=, pair=(key, value)}."""
        content = b""
        for given in rows:
            one = varuint(given["index"])
            if "name" in given:
                one += b"\1" + text(given["name"])
            if "process" in given:
                one += b"\2" + varuint(given["process"])
            if "thread" in given:
                one += b"\3" + varuint(given["thread"])
            if "pair" in given:
                one += b"\4" + b"".join(map(text, given["pair"]))
            content += row(one + given.get("rest", b""))
        return self.block(THREAD, content)

    def remove(self, *pairs):
        return self.block(REMOVE, b"".join(varuint(i) + varuint(n) for i, n in pairs))

    def define(self, metadata_id, provider, name, event_id, pairs=(), attributes=b"", skip=b""):
        one = varuint(metadata_id) + text(provider) + varuint(event_id) + text(name)
        one += fields(pairs) + struct.pack("<H", len(attributes)) + attributes
        return self.block(METADATA, struct.pack("<H", len(skip)) + skip + row(one))

    def stacks(self, first, stacks):
        payload = struct.pack("<II", first, len(stacks))
        for frames in stacks:
            payload += struct.pack(f"<I{len(frames)}Q", 8 * len(frames), *frames)
        return self.block(STACK, payload)

    def labels(self, first, lists):
        """Lists of (kind, data)."""
        # Each `+=` of bytes would copy all that was written before.
        payload = bytearray(struct.pack("<II", first, len(lists)))
        for one in lists:
            for i, (kind, data) in enumerate(one):
                payload += bytes([kind | (LAST if i == len(one) - 1 else 0)]) + data
        return self.block(LABELS, payload)

    def events(self, *rows, compressed=True):
        """Rows: dict(id, number, thread, capture, cpu, stack, labels, ns, payload)."""
        times = [self.start_ticks + given.get("ns", 0) for given in rows]
        out = bytearray(struct.pack("<HHqq", 20, 1 if compressed else 0, min(times), max(times)))
        last = dict(id=0, number=0, thread=0, capture=0, cpu=0, stack=0, labels=0, ticks=0, size=0)
        for given in rows:
            now = dict(last, number=last["number"] + 1)
            now.update({key: given[key] for key in given if key not in ("ns", "payload")})
            now["ticks"] = self.start_ticks + given.get("ns", 0)
            payload = given.get("payload", b"")
            now["size"] = len(payload)
            out += (self._compressed(last, now) if compressed else self._plain(now)) + payload
            last = now
        return self.block(EVENT, out)

    @staticmethod
    def _plain(now):
        body = struct.pack("<IIQQIIqII", now["id"], now["number"], now["thread"], now["capture"],
                           now["cpu"], now["stack"], now["ticks"], now["labels"], now["size"])
        return struct.pack("<I", len(body) + now["size"]) + body

    @staticmethod
    def _compressed(last, now):
        flags, out = 64, b""
        if now["id"] != last["id"]:
            flags |= 1
            out += varuint(now["id"])
        if (now["number"], now["capture"], now["cpu"]) != \
                (last["number"] + 1, last["capture"], last["cpu"]):
            flags |= 2
            out += varuint((now["number"] - last["number"] - 1) % 2**32)
            out += varuint(now["capture"]) + varuint(now["cpu"])
        if now["thread"] != last["thread"]:
            flags |= 4
            out += varuint(now["thread"])
        if now["stack"] != last["stack"]:
            flags |= 8
            out += varuint(now["stack"])
        out += varuint((now["ticks"] - last["ticks"]) % 2**64)
        if now["labels"] != last["labels"]:
            flags |= 16
            out += varuint(now["labels"])
        if now["size"] != last["size"]:
            flags |= 128
            out += varuint(now["size"])
        return bytes([flags]) + out

    def point(self, numbers=(), ns=0, flags=0):
        payload = struct.pack("<QII", self.start_ticks + ns, flags, len(numbers))
        payload += b"".join(varuint(index) + varuint(number) for index, number in numbers)
        return self.block(POINT, payload)

    def end(self):
        self.block(END, b"")
        return bytes(self.bytes)


def two_processes(threads=(501, 502)):
    """A trace in which threads of the processes 71 and 72 have a span each."""
    trace = Trace().threads({"index": 0}, *[
        {"index": at, "process": 70 + at, "thread": threads[at - 1]} for at in (1, 2)])
    trace.define(1, "Shop", "requestStart", 1).define(2, "Shop", "requestStop", 2)
    trace.events(*[{"id": kind, "thread": at, "number": kind, "ns": 1000 * at + 100 * kind * at}
                   for at in (1, 2) for kind in (1, 2)])
    return trace.end()


def described_payload(is_cut=False):
    """The fields of a raw event of a component, with a payload that describes itself, and its
    fields."""
    fields = [(8, "bytes", struct.pack("<I", 7)), (16, "why", "Zoë".encode() + b"\0"),
              (1, "is_full", b"\1"), (9, "change", struct.pack("<q", -5)),
              (12, "share", struct.pack("<d", 0.25)), (10, "total", struct.pack("<Q", 2**53 + 1))]
    body = b"".join(bytes([kind]) + name.encode() + b"\0" + value for kind, name, value in fields)
    body += bytes([18, 4]) + b"blob\0" + struct.pack("<H", 2) + b"\1\xff"
    payload = b"\x89RP\1" + struct.pack("<HH", len(fields) + 1, is_cut) + body
    return raw_payload(payload), {
        "bytes": 7, "why": "Zoë", "is_full": True, "change": -5, "share": 0.25,
        "total": 2**53 + 1, "blob": "01ff"}


def raw_payload(payload):
    return utf16z("Grown") + struct.pack("<H", len(payload)) + payload


RAW_FIELDS = (("name", STRING16), ("payload", (ARRAY, U8)))


def described_trace():
    """A trace with raw events of a component: one whose payload describes itself, the same one cut,
    and one with other bytes; and the fields of the first."""
    whole, fields = described_payload()
    trace = Trace().threads({"index": 0}, {"index": 1, "thread": 5})
    trace.define(1, "Shop", "DynamicWarning", 5, RAW_FIELDS)
    for ns, payload in enumerate((whole, described_payload(True)[0], raw_payload(b"\1\2"))):
        trace.events({"id": 1, "thread": 1, "ns": ns, "payload": payload})
    return trace.end(), fields


ALL_FIELDS = (
    ("b32", BOOL32), ("b8", BOOL8), ("c16", CHAR16), ("c8", CHAR8), ("i8", I8), ("u8", U8),
    ("i16", I16), ("u16", U16), ("i32", I32), ("u32", U32), ("i64", I64), ("u64", U64),
    ("f32", F32), ("f64", F64), ("guid", GUID), ("text", STRING16), ("vi", VARINT),
    ("vu", VARUINT), ("ints", (ARRAY, U32)), ("vis", (ARRAY, VARINT)), ("utf8", (ARRAY, CHAR8)),
    ("utf16", (ARRAY, CHAR16)), ("three", (FIXED, U16, 3)), ("name8", (FIXED, CHAR8, 8)),
    ("pair", (STRUCT, (("a", U8), ("v", VARUINT)))),
    ("pairs", (ARRAY, (STRUCT, (("a", U8), ("s", STRING16))))),
    ("nested", (ARRAY, (ARRAY, U8))), ("rel", (REL_LOC, U16)), ("data", (DATA_LOC, CHAR8)),
)


def all_fields_payload():
    """A payload of ALL_FIELDS, and what it means."""
    guid = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    out = struct.pack("<I?", 1, True) + "ß".encode("utf-16-le") + b"A"
    out += struct.pack("<bBhHiIqQfd", -1, 255, -2, 65535, -3, 2**32 - 1, -2**63, 2**64 - 1, 0.5,
                       -2.25)
    out += guid.bytes_le + utf16z("Zoë") + varint(-300) + varuint(2**64 - 1)
    out += struct.pack("<HII", 2, 7, 8) + struct.pack("<H", 2) + varint(-1) + varint(64)
    out += struct.pack("<H", 5) + "größ".encode()[:5]
    out += struct.pack("<H", 2) + "öß".encode("utf-16-le")
    out += struct.pack("<3H", 1, 2, 3) + b"worker\0x" + b"\5" + varuint(1000)
    out += struct.pack("<H", 2) + b"\1" + utf16z("x") + b"\2" + utf16z("")
    out += struct.pack("<H", 2) + struct.pack("<HBB", 2, 1, 2) + struct.pack("<H", 0)
    place = len(out)
    # REL_LOC counts from after itself, DATA_LOC from the payload's beginning.
    out += struct.pack("<HHHHHH", 4, 4, place + 8 + 4, 3, 9, 10)
    out += b"end"
    return out, {
        "b32": True, "b8": True, "c16": "ß", "c8": "A", "i8": -1, "u8": 255, "i16": -2,
        "u16": 65535, "i32": -3, "u32": 2**32 - 1, "i64": -2**63, "u64": 2**64 - 1, "f32": 0.5,
        "f64": -2.25, "guid": str(guid), "text": "Zoë", "vi": -300, "vu": 2**64 - 1,
        "ints": [7, 8], "vis": [-1, 64], "utf8": "größ".encode()[:5].decode(errors="replace"),
        "utf16": "öß", "three": [1, 2, 3], "name8": "worker", "pair": {"a": 5, "v": 1000},
        "pairs": [{"a": 1, "s": "x"}, {"a": 2, "s": ""}], "nested": ["0102", ""],
        "rel": [9, 10], "data": "end",
    }
