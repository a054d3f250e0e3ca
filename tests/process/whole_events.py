# SPDX-License-Identifier: MIT
"""Counts the complete events of a provider in a nettrace stream, wherever the stream was cut.

The code follows the description of the format (NetTraceFormat_v5.md of microsoft/perfview), V4 with
compressed event headers. It shares no code with the library.
"""
import struct

METADATA, CAPTURE, THREAD, STACK, ACTIVITY, RELATED, SIZE = 1, 2, 4, 8, 16, 32, 128


class Cut(Exception):
    """The stream ends here."""


class Bytes:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, size):
        if self.at + size > len(self.data):
            raise Cut()
        piece = self.data[self.at:self.at + size]
        self.at += size
        return piece

    def u8(self):
        return self.take(1)[0]

    def u16(self):
        return struct.unpack("<H", self.take(2))[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.u8()
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def utf16z(self):
        text = b""
        while (unit := self.take(2)) != b"\0\0":
            text += unit
        return text.decode("utf-16-le")


def events_of(block):
    """Yields (metadata id, payload) of each whole event of a block, which may be cut."""
    header = block.u16()
    assert block.u16() & 1, "not compressed"
    block.take(header - 4)
    metadata_id = size = 0
    while block.at < len(block.data):
        flags = block.u8()
        if flags & METADATA:
            metadata_id = block.varint()
        if flags & CAPTURE:
            block.varint(), block.varint(), block.varint()
        if flags & THREAD:
            block.varint()
        if flags & STACK:
            block.varint()
        block.varint()  # the time difference
        if flags & ACTIVITY:
            block.take(16)
        if flags & RELATED:
            block.take(16)
        if flags & SIZE:
            size = block.varint()
        yield metadata_id, block.take(size)


def objects_of(stream):
    """Yields (type name, Bytes of the content) of each object; the last one may be cut."""
    assert stream.take(8) == b"Nettrace", "no nettrace"
    stream.take(stream.u32())
    while (tag := stream.u8()) != 1:
        assert tag == 5 and stream.take(2) == b"\5\1", "no object at %d" % stream.at
        stream.take(8)
        name = stream.take(stream.u32()).decode()
        assert stream.u8() == 6
        size = 48
        if name != "Trace":
            size = stream.u32()
            stream.take(-stream.at % 4)
        content = stream.data[stream.at:stream.at + size]
        yield name, Bytes(content)
        stream.take(size)
        assert stream.u8() == 6, "%s does not end at %d" % (name, stream.at)


def whole_events(data, provider):
    """Returns the payloads of the provider's whole events, and whether the stream ended."""
    providers, payloads = {}, []
    try:
        for name, content in objects_of(Bytes(data)):
            if name == "MetadataBlock":
                for _, blob in events_of(content):
                    definition = Bytes(blob)
                    number = definition.u32()
                    providers[number] = definition.utf16z()
            elif name == "EventBlock":
                for number, payload in events_of(content):
                    if providers[number] == provider:
                        payloads.append(payload)
    except Cut:
        return payloads, False
    return payloads, True
