# SPDX-License-Identifier: MIT
"""Reads nettrace V4 and V6 into plain values, with no code shared with the library.

Events of both versions are equal if they say the same: a UTF-8 string equals a UTF-16 string, and a
varint equals an integer of fixed size.
"""
import struct

from nettrace6 import (ARRAY, BOOL8, BOOL32, CHAR8, CHAR16, DATA_LOC, FIXED, F32, F64, GUID,
                       REL_LOC, STRING16, STRUCT, TIME, VARINT, VARUINT)

DECIMAL = 15
FIXED_BYTES = {5: "b", 6: "B", 7: "h", 8: "H", 9: "i", 10: "I", 11: "q", 12: "Q", F32: "f",
               F64: "d", TIME: "q"}


class Short(Exception):
    """There are no more bytes."""


class Bytes:
    def __init__(self, data, at=0):
        self.data, self.at, self.start = data, at, at

    def take(self, size):
        if self.at + size > len(self.data):
            raise Short()
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def varuint(self):
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value & (2**64 - 1)

    def varint(self):
        value = self.varuint()
        return value >> 1 ^ -(value & 1)

    def text(self):
        return self.take(self.varuint()).decode(errors="replace")

    def utf16z(self):
        text = b""
        while (unit := self.take(2)) != b"\0\0":
            text += unit
        return text.decode("utf-16-le", errors="replace")

    def end(self):
        return self.at >= len(self.data)


def fields_v1(c):
    out = []
    for _ in range(c.number("I")):
        code = c.number("I")
        kind = (STRUCT, fields_v1(c)) if code == STRUCT else code
        out.append((c.utf16z(), kind))
    return out


def type_v2(c):
    code = c.number("I")
    if code == ARRAY:
        return (ARRAY, type_v2(c))
    return (STRUCT, fields_v2(c)) if code == STRUCT else code


def fields_v2(c):
    out = []
    for _ in range(c.number("I")):
        end = c.at + c.number("I")
        out.append((c.utf16z(), type_v2(c)))
        c.at = end
    return out


def type_v6(c):
    code = c.number("B")
    if code == STRUCT:
        return (STRUCT, fields_v6(c))
    if code in (ARRAY, FIXED, REL_LOC, DATA_LOC):
        element = type_v6(c)
        return (code, element, c.number("H")) if code == FIXED else (code, element)
    return code


def fields_v6(c):
    out = []
    for _ in range(c.number("H")):
        end = c.number("H") + c.at
        out.append((c.text(), type_v6(c)))
        c.at = end
    return out


def simple(c, code):
    if code in FIXED_BYTES:
        return c.number(FIXED_BYTES[code])
    if code == BOOL32:
        return c.number("I") != 0
    if code == BOOL8:
        return c.number("B") != 0
    if code == CHAR16:
        return c.take(2).decode("utf-16-le", errors="replace")
    if code == CHAR8:
        return c.take(1).decode("ascii", errors="replace")
    if code in (GUID, DECIMAL):
        return c.take(16).hex()
    if code == VARINT:
        return c.varint()
    if code == VARUINT:
        return c.varuint()
    assert code == STRING16, code
    return c.utf16z()


def elements(c, element, count):
    """An array of code units is a text, and a struct of one array without a name is that array."""
    if element in (CHAR8, CHAR16):
        unit = 1 if element == CHAR8 else 2
        return c.take(count * unit).decode("utf-8" if unit == 1 else "utf-16-le", errors="replace")
    return [value_of(c, element) for _ in range(count)]


def located(c, code, element):
    offset, size = c.number("H"), c.number("H")
    start = offset + (c.at if code == REL_LOC else c.start)
    inner = Bytes(c.data[:start + size], start)
    if element in (CHAR8, CHAR16):
        return elements(inner, element, size // (1 if element == CHAR8 else 2)).split("\0")[0]
    out = []
    while not inner.end():
        out.append(value_of(inner, element))
    return out


def value_of(c, kind):
    if isinstance(kind, int):
        return simple(c, kind)
    if kind[0] == STRUCT:
        members = {name: value_of(c, inner) for name, inner in kind[1]}
        return members[""] if list(members) == [""] else members
    if kind[0] in (REL_LOC, DATA_LOC):
        return located(c, *kind)
    count = kind[2] if kind[0] == FIXED else c.number("H")
    value = elements(c, kind[1], count)
    return value.split("\0")[0] if kind[0] == FIXED and isinstance(value, str) else value


def fields_of(payload, fields):
    if not fields:
        return bytes(payload)
    c, out = Bytes(payload), {}
    for name, kind in fields:
        try:
            out[name] = value_of(c, kind)
        except Short:
            return out, "short"
    return out


class Trace:
    """events: dicts; kinds of numbers that are lost: lost; sequence points: points."""

    def __init__(self, data):
        self.events, self.lost, self.points, self.ended = [], 0, 0, False
        self.types, self.stacks, self.labels, self.rows, self.last = {}, {}, {}, {}, {}
        self.pairs = []
        c = Bytes(data)
        assert c.take(8) == b"Nettrace"
        self.is_v6 = c.number("I") == 0
        try:
            if self.is_v6:
                self._read_v6(c)
            else:
                c.take(20)
                self._read_v4(c)
        except Short:
            pass

    def _header(self, c):
        self.utc = struct.unpack("<8H", c.take(16))
        self.sync, self.rate, self.pointer = c.number("q"), c.number("q"), c.number("I")

    def _read_v4(self, c):
        while (tag := c.number("B")) == 5:
            c.take(10)
            name = c.take(c.number("I"))
            c.take(1)
            if name == b"Trace":
                self._header(c)
                self.process, self.processors, self.sampling = (c.number("I") for _ in range(3))
            else:
                size = c.number("I")
                c.take(-c.at % 4)
                self._block_v4(name, Bytes(c.take(size)))
            assert c.number("B") == 6
        self.ended = tag == 1

    def _block_v4(self, name, c):
        if name == b"SPBlock":
            self._point(c, c.number("q") and 0, "q", "I")
        elif name == b"StackBlock":
            self._stacks(c)
        elif name == b"MetadataBlock":
            for head, payload in self._blobs(c):
                self._define_v4(Bytes(payload))
                assert head["id"] == 0
        else:
            for head, payload in self._blobs(c):
                self._event(head, payload)

    def _define_v4(self, c):
        kind = {"metadata": c.number("I"), "provider": c.utf16z(), "id": c.number("I"),
                "name": c.utf16z(), "keywords": c.number("Q"), "version": c.number("I"),
                "level": c.number("I"), "opcode": 0, "fields": fields_v1(c)}
        while not c.end():
            size, tag = c.number("I"), c.number("B")
            inner = Bytes(c.take(size))
            if tag == 1:
                kind["opcode"] = inner.number("B")
            elif tag == 2:
                kind["fields"] = fields_v2(inner)
        assert kind["metadata"] not in self.types
        self.types[kind.pop("metadata")] = kind

    def _read_v6(self, c):
        assert c.number("I") == 6
        c.number("I")
        while True:
            word = c.number("I")
            kind, block = word >> 24, Bytes(c.take(word & 0xffffff))
            if kind == 0:
                self.ended = True
                return
            self._block_v6(kind, block)

    def _block_v6(self, kind, c):
        if kind == 1:
            self._header(c)
            self.pairs = [(c.text(), c.text()) for _ in range(c.number("I"))]
            pairs = dict(self.pairs)
            self.process, self.processors = (int(pairs.get(key, 0)) for key in
                                             ("ProcessId", "HardwareThreadCount"))
            self.sampling = int(pairs.get("ExpectedCPUSamplingRate", 0))
        elif kind == 2:
            for head, payload in self._blobs(c):
                self._event(head, payload)
        elif kind == 3:
            c.take(c.number("H"))
            while not c.end():
                self._define_v6(Bytes(c.take(c.number("H"))))
        elif kind == 4:
            c.number("Q")
            self._point(c, c.number("I"), None, None)
        elif kind == 5:
            self._stacks(c)
        elif kind == 6:
            while not c.end():
                self._row(Bytes(c.take(c.number("H"))))
        elif kind == 7:
            while not c.end():
                index, number = c.varuint(), c.varuint()
                self._count(index, number)
                del self.rows[index], self.last[index]
        elif kind == 8:
            first = c.number("I")
            for at in range(c.number("I")):
                self.labels[first + at] = self._list(c)

    @staticmethod
    def _list(c):
        out = {"pairs": []}
        while True:
            kind = c.number("B")
            what = kind & 0x7f
            if what in (1, 2, 3):
                out[("activity", "related", "trace")[what - 1]] = c.take(16)
            elif what in (4, 8):
                out["span" if what == 4 else "keywords"] = c.number("Q")
            elif what in (5, 6):
                out["pairs"].append((c.text(), c.text() if what == 5 else str(c.varint())))
            else:
                out[{7: "opcode", 9: "level", 10: "version"}[what]] = c.number("B")
            if kind & 0x80:
                return out

    def _define_v6(self, c):
        metadata = c.varuint()
        kind = {"provider": c.text(), "id": c.varuint(), "name": c.text(), "fields": fields_v6(c),
                "keywords": 0, "version": 0, "level": 0, "opcode": 0}
        c = Bytes(c.take(c.number("H")))
        while not c.end():
            tag = c.number("B")
            if tag in (1, 8, 9):
                kind[{1: "opcode", 8: "level", 9: "version"}[tag]] = c.number("B")
            elif tag == 3:
                kind["keywords"] = c.number("Q")
            elif tag == 7:
                kind["guid"] = c.take(16)
            elif tag == 6:
                c.text(), c.text()
            else:
                kind[{4: "message", 5: "description"}[tag]] = c.text()
        assert metadata not in self.types
        self.types[metadata] = kind

    def _row(self, c):
        index, row = c.varuint(), {"process": self.process, "thread": 0, "name": "", "pairs": []}
        while not c.end():
            kind = c.number("B")
            if kind == 1:
                row["name"] = c.text()
            elif kind == 4:
                row["pairs"].append((c.text(), c.text()))
            else:
                row["process" if kind == 2 else "thread"] = c.varuint()
        assert index not in self.rows
        self.rows[index], self.last[index] = row, 0

    def _stacks(self, c):
        first = c.number("I")
        for at in range(c.number("I")):
            self.stacks[first + at] = c.take(c.number("I"))

    def _count(self, index, number):
        if self.is_v6 or (self.last.get(index) and number):
            step = (number - self.last[index]) % 2**32
            self.lost += step if step < 2**31 else 2**31 - 1
        self.last[index] = number

    def _point(self, c, flags, thread, number):
        self.points += 1
        for _ in range(c.number("I")):
            key = c.number(thread) if thread else c.varuint()
            self._count(key, c.number(number) if number else c.varuint())
        if flags & 1:
            self.rows, self.last = {}, {}
        if flags & 2:
            self.types = {}
        self.stacks, self.labels = {}, {}

    def _blobs(self, c):
        header, flags = c.number("H"), c.number("H")
        c.take(header - 4)
        now = {"id": 0, "number": 0, "capture": 0, "cpu": 0, "thread": 0, "stack": 0, "time": 0,
               "activity": bytes(16), "related": bytes(16), "labels": 0, "size": 0, "sorted": True}
        first = True
        while not c.end():
            last, now = now, dict(now)
            if flags & 1:
                self._compressed(c, now)
            else:
                self._plain(c, now)
            # TraceEvent counts the numbers of unsorted events for the capture thread before.
            assert first or now["sorted"] or now["capture"] == last["capture"]
            first = False
            yield now, c.take(now["size"])
            if not flags & 1 and not self.is_v6:
                c.at = min(c.at + -c.at % 4, len(c.data))

    def _plain(self, c, now):
        c.number("I")
        if self.is_v6:
            keys = ("id", "number", "thread", "capture", "cpu", "stack", "time", "labels", "size")
            now.update(zip(keys, struct.unpack("<IIQQIIqII", c.take(48))))
            return
        now.update(zip(("id", "number", "thread", "capture", "cpu", "stack", "time"),
                       struct.unpack("<IIqqIIq", c.take(40))))
        now["activity"], now["related"], now["size"] = c.take(16), c.take(16), c.number("I")
        now["sorted"] = not now["id"] >> 31
        now["id"] &= 2**31 - 1

    def _compressed(self, c, now):
        flags = c.number("B")
        now["sorted"] = bool(flags & 64)
        if flags & 1:
            now["id"] = c.varuint()
        if flags & 2:
            now["number"] += c.varuint() + 1
            now["capture"], now["cpu"] = c.varuint(), c.varuint()
        elif now["id"]:
            now["number"] += 1
        now["number"] %= 2**32
        if flags & 4:
            now["thread"] = c.varuint()
        if flags & 8:
            now["stack"] = c.varuint()
        now["time"] = (now["time"] + c.varuint()) % 2**64
        if flags & 16 and self.is_v6:
            now["labels"] = c.varuint()
        elif flags & 16:
            now["activity"] = c.take(16)
        if flags & 32:
            now["related"] = c.take(16)
        if flags & 128:
            now["size"] = c.varuint()

    def _event(self, now, payload):
        kind = self.types[now["id"]]
        capture = now["capture"]
        if self.is_v6 or (capture in self.last and now["number"] != 1):
            self._count(capture, now["number"] - 1)
        self.last[capture] = now["number"]
        row = self.rows[now["thread"]] if self.is_v6 else \
            {"process": self.process, "thread": now["thread"] % 2**64, "name": "", "pairs": []}
        event = {"time": now["time"], "thread": row["thread"], "process": row["process"],
                 "thread_name": row["name"], "thread_pairs": row["pairs"], "cpu": now["cpu"],
                 "sorted": now["sorted"],
                 "stack": self.stacks[now["stack"]] if now["stack"] else b"",
                 "activity": now["activity"], "related": now["related"], "pairs": []}
        event.update({key: kind[key] for key in ("provider", "name", "id", "version", "level",
                                                 "opcode", "keywords")})
        event["fields"] = fields_of(payload, kind["fields"])
        if now["labels"]:
            event.update(self.labels[now["labels"]])
        self.events.append(event)
