# SPDX-License-Identifier: MIT
"""
The messages of the OpenTelemetry protocol that convert writes, and a check of their JSON form.

Source: opentelemetry/proto of github.com/open-telemetry/opentelemetry-proto, version 1.11.0, and
"JSON Protobuf Encoding" of the OTLP specification: trace and span ids are hexadecimal, enumerations
are integers, 64-bit integers are decimal strings, and names are in lowerCamelCase.
"""
import base64
import re


def string(value):
    assert isinstance(value, str), value
    value.encode("utf-8", "strict")


def whole(value):
    assert isinstance(value, int) and 0 <= value < 2**32, value


def boolean(value):
    assert isinstance(value, bool), value


def fixed64(value):
    assert isinstance(value, str) and re.fullmatch(r"\d+", value) and int(value) < 2**64, value


def int64(value):
    assert isinstance(value, str) and re.fullmatch(r"-?\d+", value), value
    assert -2**63 <= int(value) < 2**63, value


def double(value):
    assert isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity"), value


def octets(value):
    base64.b64decode(value, validate=True)


def identifier(digits):
    def check(value):
        assert re.fullmatch(f"[0-9a-f]{{{digits}}}", value) and value.strip("0"), value
    return check


def one_of(*allowed):
    def check(value):
        assert value in allowed, value
    return check


ANY_VALUE = {"stringValue": string, "boolValue": boolean, "intValue": int64,
             "doubleValue": double, "bytesValue": octets}
KEY_VALUE = {"key": string, "value": ANY_VALUE}
ANY_VALUE["arrayValue"] = {"values": [ANY_VALUE]}
ANY_VALUE["kvlistValue"] = {"values": [KEY_VALUE]}
EVENT = {"timeUnixNano": fixed64, "name": string, "attributes": [KEY_VALUE],
         "droppedAttributesCount": whole}
LINK = {"traceId": identifier(32), "spanId": identifier(16), "traceState": string,
        "attributes": [KEY_VALUE], "droppedAttributesCount": whole, "flags": whole}
STATUS = {"message": string, "code": one_of(0, 1, 2)}
SPAN = {"traceId": identifier(32), "spanId": identifier(16), "traceState": string,
        "parentSpanId": identifier(16), "flags": whole, "name": string,
        "kind": one_of(0, 1, 2, 3, 4, 5), "startTimeUnixNano": fixed64,
        "endTimeUnixNano": fixed64, "attributes": [KEY_VALUE], "droppedAttributesCount": whole,
        "events": [EVENT], "droppedEventsCount": whole, "links": [LINK],
        "droppedLinksCount": whole, "status": STATUS}
SCOPE = {"name": string, "version": string, "attributes": [KEY_VALUE],
         "droppedAttributesCount": whole}
RESOURCE = {"attributes": [KEY_VALUE], "droppedAttributesCount": whole}
TRACES_DATA = {"resourceSpans": [{
    "resource": RESOURCE, "schemaUrl": string,
    "scopeSpans": [{"scope": SCOPE, "spans": [SPAN], "schemaUrl": string}]}]}


def check(message, schema):
    """Check a message of JSON. An AnyValue has one member at most."""
    if callable(schema):
        schema(message)
    elif isinstance(schema, list):
        assert isinstance(message, list), message
        for one in message:
            check(one, schema[0])
    else:
        assert isinstance(message, dict), message
        assert schema is not ANY_VALUE or len(message) == 1, message
        for key, value in message.items():
            assert key in schema, key
            check(value, schema[key])


def plain(value):
    """Return an AnyValue as Python's value."""
    (kind, inner), = value.items()
    if kind == "arrayValue":
        return [plain(one) for one in inner["values"]]
    if kind == "kvlistValue":
        return attributes(inner["values"])
    if kind == "intValue":
        return int(inner)
    return base64.b64decode(inner).hex() if kind == "bytesValue" else inner


def attributes(pairs):
    found = {pair["key"]: plain(pair["value"]) for pair in pairs}
    assert len(found) == len(pairs), pairs
    return found


class Span:
    """A span with its resource and scope, of a message that was checked."""

    def __init__(self, resource, scope, span):
        self.resource, self.scope = attributes(resource["attributes"]), scope["name"]
        self.trace, self.id = span["traceId"], span["spanId"]
        self.parent, self.name, self.kind = span.get("parentSpanId"), span["name"], span["kind"]
        self.start, self.end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        self.attributes = attributes(span["attributes"])
        self.is_error = span["status"].get("code") == 2
        self.links = [(link["traceId"], link["spanId"]) for link in span.get("links", [])]
        self.events = [(one["name"], int(one["timeUnixNano"]), attributes(one["attributes"]))
                       for one in span.get("events", [])]
        self.dropped_events = span.get("droppedEventsCount", 0)


def spans_of(lines):
    """Check the messages, and return their spans."""
    found = []
    for message in lines:
        check(message, TRACES_DATA)
        for resource in message["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                found += [Span(resource["resource"], scope["scope"], span)
                          for span in scope["spans"]]
    return found
