# SPDX-License-Identifier: MIT
"""Writes nettrace V4 and V5 byte by byte, with no code shared with the library, as an independent
check."""
import struct

U32, U64, STRING = 10, 12, 18


def utf16z(text):
    return text.encode("utf-16-le") + b"\0\0"


class Trace:
    """Bytes of a trace; blocks are added in order, end() completes it."""

    def __init__(self, pid=4242, ticks_per_second=1_000_000_000, start_ticks=1_000_000,
                 pointer_bytes=8, version=4):
        # A bytearray grows without a copy of what it has.
        self.bytes = bytearray(b"Nettrace" + self._text("!FastSerialization.1"))
        self.start_ticks = start_ticks
        self.pointer_bytes = pointer_bytes
        self.sequence = {}
        self.activity = bytes(16)	# of the following events
        self.related = bytes(16)
        time = struct.pack("<8H", 2026, 11, 6, 21, 1, 2, 3, 4)
        payload = time + struct.pack("<qqIIII", start_ticks, ticks_per_second, pointer_bytes, pid,
                                     2, 0)
        self._object("Trace", version, payload, block=False)

    @staticmethod
    def _text(text):
        return struct.pack("<I", len(text)) + text.encode()

    def _object(self, name, version, payload, block=True):
        self.bytes += b"\5\5\1" + struct.pack("<ii", version, version) + self._text(name) + b"\6"
        if block:
            self.bytes += struct.pack("<I", len(payload))
            self.bytes += b"\0" * (-len(self.bytes) % 4)
        self.bytes += payload + b"\6"

    def _blob(self, metadata_id, sequence, thread, processor, ticks, payload, stack=0):
        body = struct.pack("<IIqqIIq", metadata_id, sequence, thread, thread, processor, stack,
                           ticks)
        body += self.activity + self.related + struct.pack("<I", len(payload)) + payload
        body += b"\0" * (-len(body) % 4)
        return struct.pack("<I", len(body)) + body

    def _block(self, name, blobs, first=0, last=0, flags=0):
        header = struct.pack("<HHqq", 20, flags, first, last)
        self._object(name, 2, header + b"".join(blobs))

    def define(self, metadata_id, provider, name, event_id, fields, level=4, keywords=1,
               version=0, tags=b""):
        """Define an event; `fields` are (name, type code) pairs, and version 5 adds `tags`."""
        blob = struct.pack("<I", metadata_id) + utf16z(provider) + struct.pack("<I", event_id)
        blob += utf16z(name) + struct.pack("<qIII", keywords, version, level, len(fields))
        for field, code in fields:
            blob += struct.pack("<I", code) + utf16z(field)
        return self.metadata(blob + tags)

    def metadata(self, blob):
        """Add a definition as bytes."""
        self._block("MetadataBlock", [self._blob(0, 0, 0, 0, self.start_ticks, blob)])
        return self

    def stacks(self, first, stacks):
        """Add stacks, lists of addresses, with the ids from `first` on."""
        payload = struct.pack("<II", first, len(stacks))
        for frames in stacks:
            code = "Q" if self.pointer_bytes == 8 else "I"
            payload += struct.pack(f"<I{len(frames)}{code}", self.pointer_bytes * len(frames),
                                   *frames)
        self._object("StackBlock", 2, payload)
        return self

    def events(self, metadata_id, payloads, thread=7, ns=1_000_000, stack=0, processor=1):
        """Add one block with an event per payload, the first at `ns`, each of the others 1 us
        later."""
        blobs = []
        for i, payload in enumerate(payloads):
            self.sequence[thread] = self.sequence.get(thread, 0) + 1
            blobs.append(self._blob(metadata_id, self.sequence[thread], thread, processor,
                                    self.start_ticks + ns + i * 1000, payload, stack))
        self._block("EventBlock", blobs, self.start_ticks + ns,
                    self.start_ticks + ns + len(payloads) * 1000)
        return self

    def threads(self, rows):
        """Add one block with an event for each (metadata id, payload, thread, ns, stack)."""
        self._block("EventBlock", [
            self._blob(kind, 1, thread, 1, self.start_ticks + ns, payload, stack)
            for kind, payload, thread, ns, stack in rows])
        return self

    def point(self, numbers, ns=0):
        """Add a sequence point: {thread: last number}."""
        payload = struct.pack("<qI", self.start_ticks + ns, len(numbers))
        for thread, number in numbers.items():
            payload += struct.pack("<QI", thread, number)
        self._object("SPBlock", 2, payload)
        return self

    def end(self):
        self.bytes += b"\1"
        return bytes(self.bytes)


def opcode_tag(opcode):
    return struct.pack("<IBB", 1, 1, opcode)


def fields_tag(fields):
    """Describe fields by a tag of version 5; `fields` are (name, bytes of the type) pairs."""
    data = struct.pack("<I", len(fields))
    for name, code in fields:
        row = utf16z(name) + code
        data += struct.pack("<I", 4 + len(row)) + row
    return struct.pack("<IB", len(data), 2) + data


def uleb(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def counted(text):
    """A string of Universal.System: its bytes after their count."""
    utf8 = text.encode() if isinstance(text, str) else text
    return struct.pack("<H", len(utf8)) + utf8


# The payloads of Universal.System; the ids of these events are 0 to 5, and they have no fields.
EXISTING_PROCESS, PROCESS_CREATE, PROCESS_EXIT, MAPPING, FUNCTION, METADATA = range(6)


def process_name(name, pid=1):
    return uleb(pid) + counted(name) + counted("")


def mapping(number, start, end, file, offset=0, metadata=0):
    """Return a ProcessMapping; `end` is exclusive."""
    return b"".join(map(uleb, (number, start, end, offset))) + counted(file) + uleb(metadata)


def function(number, mapping_number, start, last, name):
    """Return a ProcessSymbol; `last` is inclusive."""
    return b"".join(map(uleb, (number, mapping_number, start, last))) + counted(name)


def order(number, customer):
    return struct.pack("<Q", number) + utf16z(customer)


def lost(ring, reason, count):
    return struct.pack("<I", ring) + utf16z(reason) + struct.pack("<Q", count)


def sample(orders=3, losses=False):
    """Make a small complete trace: provider Shop, some orders, and on request 12 lost events."""
    trace = Trace()
    ring = 1 << 63
    if losses:
        trace.point({ring: 1})
    trace.define(1, "Shop", "OrderPlaced", 5, [("order_id", U64), ("customer", STRING)])
    trace.events(1, [order(i, "Zoë") for i in range(orders)])
    if losses:
        trace.define(2, "ringpipe", "EventsLost", 1,
                     [("ring", U32), ("reason", STRING), ("count", U64)])
        trace.events(2, [lost(0, "full", 9), lost(3, "busy", 2), lost(0, "full", 1)], thread=8,
                     ns=1_000_000 + orders * 1000)
        trace.point({ring: 13}, ns=2_000_000 + orders * 1000)
    return trace.end()
