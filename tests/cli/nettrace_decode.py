# SPDX-License-Identifier: MIT
"""Decodes nettrace V4 and V6 strictly, with no code shared with the library.

decode() returns the events of a trace as lines, in the form of resume_reader.c, or raises Damage if
the trace contradicts itself: a block, a definition, an id, or the times that a block states.
"""
import struct

EVENT, METADATA, POINT, STACK, THREAD, REMOVE, LABELS = range(2, 9)
NAMES = {b"EventBlock": EVENT, b"MetadataBlock": METADATA, b"SPBlock": POINT, b"StackBlock": STACK}
# The code of a type on the wire: its number in enum rp_type.
TYPES = {1: 19, 3: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 6, 9: 7, 10: 8, 11: 9, 12: 10, 13: 11, 14: 12,
         15: 0, 16: 15, 17: 14, 18: 17, 20: 9, 21: 10, 23: 2, 26: 1}
ARRAYS = {19, 22, 24, 25}
NO_ID = "0" * 32


class Damage(Exception):
    """The trace contradicts itself."""


class Bytes:
    """A part of the trace, read from its beginning."""

    def __init__(self, data, base=0):
        self.data = data
        self.at = 0
        self.base = base	# offset in the trace

    def left(self):
        return len(self.data) - self.at

    def take(self, size):
        if size > self.left():
            raise Damage("too few bytes")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]

    def varint(self, bits=64):
        value = 0
        for i in range(10 if bits == 64 else 5):
            byte = self.number("B")
            value |= (byte & 0x7f) << 7 * i
            if byte < 0x80:
                return value & (2**bits - 1)
        raise Damage("a long number")

    def text(self):
        return self.take(self.varint(32)).decode(errors="replace").replace("\0", "\ufffd")

    def utf16z(self):
        units = b""
        while True:
            unit = self.take(2)
            if unit == b"\0\0":
                return units.decode("utf-16-le", errors="replace")
            units += unit

    def sub(self, size):
        base = self.base + self.at
        return Bytes(self.take(size), base)

    def end(self):
        if self.left():
            raise Damage("bytes are left")


def guid(data):
    return (data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]).hex()


class Decoder:
    """The state of a stream."""

    def __init__(self, data):
        self.bytes = Bytes(data)
        self.lines = []
        self.payloads = []	# offsets of each event's payload
        self.points = []	# of each event: where the last sequence point is; V6: that flushed
        self.blocks = []	# (kind, begin, end)
        self.point = 0
        self.types, self.threads, self.stacks, self.labels = {}, {}, {}, {}
        self.last_ids = {STACK: 0, LABELS: 0}
        self.process = 0
        if self.bytes.take(8) != b"Nettrace":
            raise Damage("no trace")
        self.is_v6 = self.bytes.number("I") == 0
        (self._header_v6 if self.is_v6 else self._header_v4)()

    def _clock(self, content):
        content.take(16)
        self.start, rate, self.pointer = (content.number(code) for code in "qqI")
        if rate != 10**9 or self.pointer != 8:
            raise Damage("a clock of another kind")

    def _header_v4(self):
        if self.bytes.take(20) != b"!FastSerialization.1" or self.bytes.take(3) != b"\5\5\1" or \
                self.bytes.take(18) != struct.pack("<III", 4, 4, 5) + b"Trace\6":
            raise Damage("no trace")
        content = self.bytes.sub(48)
        self._clock(content)
        self.process = content.number("I")
        if self.bytes.take(1) != b"\6":
            raise Damage("no end of the header")

    def _header_v6(self):
        major, _, word = (self.bytes.number("I") for _ in range(3))
        if major != 6 or word >> 24 != 1:
            raise Damage("another version")
        content = self.bytes.sub(word & 0xffffff)
        self._clock(content)
        for _ in range(content.number("I")):
            key, value = content.text(), content.text()
            if key == "ProcessId":
                self.process = int(value)
        content.end()

    def decode(self):
        while self._block():
            pass
        self.bytes.end()
        return self.lines

    def _block(self):
        begin = self.bytes.at
        kind, content = self._block_v6() if self.is_v6 else self._block_v4()
        take = {EVENT: self._events, METADATA: self._metadata, POINT: self._point,
                STACK: self._stacks, THREAD: self._threads, REMOVE: self._remove,
                LABELS: self._label_lists}
        if not kind:
            return False
        if kind not in take:
            raise Damage("a block of unknown kind")
        self.blocks.append((kind, begin, self.bytes.at))
        take[kind](content)
        return True

    def _block_v6(self):
        word = self.bytes.number("I")
        if not word >> 24 and word:
            raise Damage("a large end")
        return word >> 24, self.bytes.sub(word & 0xffffff)

    def _block_v4(self):
        tag = self.bytes.take(1)
        if tag == b"\1":
            return 0, None
        if tag + self.bytes.take(2) != b"\5\5\1" or self.bytes.number("I") > 2 or \
                self.bytes.number("I") > 2:
            raise Damage("no object")
        kind = NAMES.get(self.bytes.take(self.bytes.number("I")))
        if not kind or self.bytes.take(1) != b"\6":
            raise Damage("another object")
        size = self.bytes.number("I")
        if any(self.bytes.take(-self.bytes.at % 4)):
            raise Damage("padding")
        content = self.bytes.sub(size)
        if self.bytes.take(1) != b"\6":
            raise Damage("no end of the block")
        return kind, content

    def _take_headers(self, content, ends=True):
        """The events of a block: their headers as dicts, with the payload."""
        size, flags, first, last = (content.number(code) for code in "HHqq")
        if size < 20 or flags > 1:
            raise Damage("a header of another kind")
        content.take(size - 20)
        now = dict(id=0, number=0, thread=0, capture=0, cpu=0, stack=0, labels=0, ticks=0, size=0,
                   activity=bytes(16), related=bytes(16))
        times = []
        while content.left():
            now = (self._compressed if flags else self._plain)(content, dict(now))
            times.append(now["ticks"])
            yield now
        if ends and times and (first or last) and \
                (first not in (times[0], min(times)) or last not in (times[-1], max(times))):
            raise Damage("other times")

    def _compressed(self, content, now):
        flags = content.number("B")
        if flags & 1:
            now["id"] = content.varint(32)
        if flags & 2:
            now["number"] = (now["number"] + content.varint(32)) % 2**32
            now["capture"], now["cpu"] = content.varint(), content.varint(32)
        if flags & 4:
            now["thread"] = content.varint()
        if flags & 8:
            now["stack"] = content.varint(32)
        now["ticks"] = (now["ticks"] + content.varint() + 2**63) % 2**64 - 2**63
        if self.is_v6:
            if flags & 16:
                now["labels"] = content.varint(32)
        else:
            if flags & 16:
                now["activity"] = content.take(16)
            if flags & 32:
                now["related"] = content.take(16)
        if flags & 128:
            now["size"] = content.varint(32)
        if now["id"]:
            now["number"] = (now["number"] + 1) % 2**32
        now["payload"] = content.sub(now["size"])
        return now

    def _plain(self, content, now):
        start = content.at
        body = content.sub(content.number("I"))
        for key, code in (("id", "I"), ("number", "I"), ("thread", "Q"), ("capture", "Q"),
                          ("cpu", "I"), ("stack", "I"), ("ticks", "q")):
            now[key] = body.number(code)
        now["id"] &= 0x7fffffff
        if self.is_v6:
            now["labels"] = body.number("I")
        else:
            now["activity"], now["related"] = body.take(16), body.take(16)
        now["payload"] = body.sub(body.number("I"))
        if not self.is_v6:
            content.take(min((start - content.at) % 4, content.left()))
        return now

    def _events(self, content):
        found = [(self._line(now), now["payload"]) for now in self._take_headers(content)]
        for line, payload in found:
            self.lines.append(line)
            self.payloads.append((payload.base, payload.base + len(payload.data)))
            self.points.append(self.point)

    def _line(self, now):
        if now["id"] not in self.types:
            raise Damage("an unknown type")
        thread, process, name = now["thread"], self.process, ""
        if self.is_v6:
            if now["thread"] not in self.threads or now["capture"] not in self.threads:
                raise Damage("an unknown thread")
            row = self.threads[now["thread"]]
            thread, name = row["thread"], row["name"]
            process = self.process if row["process"] is None else row["process"]
            if now["labels"] and now["labels"] not in self.labels:
                raise Damage("unknown labels")
        if now["stack"] and now["stack"] not in self.stacks:
            raise Damage("an unknown stack")
        labels = self.labels.get(now["labels"], {})
        kind = dict(self.types[now["id"]])
        kind.update(labels.get("replaced", {}))
        activity, related = guid(now["activity"]), guid(now["related"])
        return (f"{now['ticks'] - self.start} {thread} {process} {now['capture']} {now['number']} "
                f"{now['cpu']} {kind['provider']}|{kind['id']}|{kind['name']}|{kind['version']}|"
                f"{kind['level']}|{kind['opcode']}|{kind['keywords']:x} "
                f"{labels.get('activity', activity)} {labels.get('related', related)} "
                f"{labels.get('trace', NO_ID)} {labels.get('span', 0):016x} {name} "
                f"{labels.get('others', '')} {kind['fields']} {now['payload'].data.hex()}\t"
                f"{self.stacks.get(now['stack'], b'').hex()}")

    def _metadata(self, content):
        if not self.is_v6:
            for now in self._take_headers(content, ends=False):
                self._define(*self._blob(now["payload"]))
            return
        content.take(content.number("H"))
        while content.left():
            self._define(*self._row(content.sub(content.number("H"))))

    def _define(self, number, kind):
        if number in self.types:
            raise Damage("a type defined twice")
        self.types[number] = kind

    def _blob(self, blob):
        number = blob.number("I")
        kind = {"provider": blob.utf16z(), "id": blob.number("I"), "name": blob.utf16z(),
                "keywords": blob.number("Q"), "version": blob.number("I"),
                "level": blob.number("I"), "opcode": 0, "fields": ""}
        if blob.left():
            kind["fields"] = self._fields_v4(blob)
        while blob.left():
            size, tag = blob.number("I"), blob.number("B")
            data = blob.sub(size)
            if tag == 1 and data.left():
                kind["opcode"] = data.number("B")
            elif tag == 2:
                kind["fields"] = self._fields_v4(data, True)
        return number, kind

    def _fields_v4(self, data, is_v2=False):
        out = ""
        for _ in range(data.number("I")):
            if is_v2:
                size = data.number("I")
                if size < 4:
                    raise Damage("a field without a size")
                row = data.sub(size - 4)
                name = row.utf16z()
                out += f"{name}:{self._type_v4(row, True)}"
            else:
                shown = self._type_v4(data, False)
                out += f"{data.utf16z()}:{shown}"
        return out

    def _type_v4(self, data, is_v2):
        code = data.number("I")
        if code == 19 and is_v2:
            element = data.number("I")
            if element not in TYPES or element > 19:
                raise Damage("an unknown type")
            return "18," + (self._fields_v4(data, True) if element == 1 else "")
        if code not in TYPES or code > 19:
            raise Damage("an unknown type")
        return f"{TYPES[code]}," + (self._fields_v4(data, is_v2) if code == 1 else "")

    def _row(self, row):
        number = row.varint(32)
        kind = {"provider": row.text(), "id": row.varint(32), "name": row.text(), "version": 0,
                "level": 0, "opcode": 0, "keywords": 0, "fields": self._fields_v6(row)}
        attributes = row.sub(row.number("H"))
        row.end()
        while attributes.left():
            tag = attributes.number("B")
            if tag in (1, 8, 9):
                kind[{1: "opcode", 8: "level", 9: "version"}[tag]] = attributes.number("B")
            elif tag == 3:
                kind["keywords"] = attributes.number("Q")
            elif tag in (4, 5):
                attributes.text()
            elif tag == 6:
                attributes.text()
                attributes.text()
            elif tag == 7:
                attributes.take(16)
            else:
                raise Damage("an unknown attribute")
        return number, kind

    def _fields_v6(self, data):
        out = ""
        for _ in range(data.number("H")):
            row = data.sub(data.number("H"))
            name = row.text()
            out += f"{name}:{self._type_v6(row)}"
            row.end()
        return out

    def _type_v6(self, row):
        code = row.number("B")
        if code in ARRAYS:
            element = row.number("B")
            if element not in TYPES or element == 1:
                raise Damage("an array that no trace here has")
            if code == 22:
                row.number("H")
            if element in (4, 23):
                return "16," if element == 23 else "17,"
            return "18,"
        if code not in TYPES:
            raise Damage("an unknown type")
        return f"{TYPES[code]}," + (self._fields_v6(row) if code == 1 else "")

    def _point(self, content):
        content.number("q")
        if not self.is_v6:
            content.take(12 * content.number("I"))
            content.end()
        else:
            flags = content.number("I")
            if flags > 3:
                raise Damage("an unknown flag")
            for _ in range(content.number("I")):
                self._known(content)
            content.end()
            if flags & 1:
                self.threads.clear()
            if flags & 2:
                self.types.clear()
        self.stacks.clear()
        self.labels.clear()
        if not self.is_v6 or flags & 1:
            self.point = self.blocks[-1][1]

    def _known(self, content):
        index, _ = content.varint(), content.varint(32)
        if index not in self.threads:
            raise Damage("a number of an unknown thread")
        return index

    def _first(self, kind, content, known):
        """Ids ascend by 1, from 1 or from the last one before the sequence point."""
        first, count = content.number("I"), content.number("I")
        allowed = [max(known) + 1] if known else [1, self.last_ids[kind] + 1]
        if count and first not in allowed:
            raise Damage("ids of another order")
        if count:
            self.last_ids[kind] = first + count - 1
        return range(first, first + count)

    def _stacks(self, content):
        for number in self._first(STACK, content, self.stacks):
            size = content.number("I")
            if size % 8:
                raise Damage("a part of an address")
            self.stacks[number] = content.take(size)
        content.end()

    def _threads(self, content):
        while content.left():
            row = content.sub(content.number("H"))
            index = row.varint()
            thread = {"thread": 0, "process": None, "name": ""}
            while row.left():
                tag = row.number("B")
                if tag == 1:
                    thread["name"] = row.text()
                elif tag == 2:
                    thread["process"] = row.varint()
                elif tag == 3:
                    thread["thread"] = row.varint()
                elif tag == 4:
                    row.text()
                    row.text()
                else:
                    raise Damage("an unknown attribute")
            if index in self.threads:
                raise Damage("a thread declared twice")
            self.threads[index] = thread

    def _remove(self, content):
        while content.left():
            del self.threads[self._known(content)]

    def _label_lists(self, content):
        for number in self._first(LABELS, content, self.labels):
            self.labels[number] = self._labels(content)
        content.end()

    @staticmethod
    def _labels(content):
        found = {"others": "", "replaced": {}}
        has_trace = False
        while True:
            tag = content.number("B")
            kind = tag & 0x7f
            if kind in (1, 2):
                found["activity" if kind == 1 else "related"] = guid(content.take(16))
            elif kind == 3:
                found["trace"], has_trace = content.take(16).hex(), True
            elif kind == 4:
                found["span"] = content.number("Q")
            elif kind == 5:
                key = content.text()
                found["others"] += f"{key}={content.text()};"
            elif kind == 6:
                key, value = content.text(), content.varint()
                found["others"] += f"{key}={value >> 1 ^ -(value & 1)};"
            elif kind == 8:
                found["replaced"]["keywords"] = content.number("Q")
            elif kind in (7, 9, 10):
                found["replaced"][{7: "opcode", 9: "level", 10: "version"}[kind]] = \
                    content.number("B")
            else:
                raise Damage("an unknown label")
            if tag & 0x80:
                break
        span = f"{found.get('span', 0):016x}"
        if not has_trace and found.get("span") and found.get("related", NO_ID)[16:] == span:
            found["trace"] = found.get("activity", NO_ID)
        return found


def decode(data):
    return Decoder(data).decode()
