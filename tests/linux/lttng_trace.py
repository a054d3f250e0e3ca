# SPDX-License-Identifier: MIT
"""Reads an LTTng trace with babeltrace2."""
try:
    import bt2
    from bt2 import native_bt
except ImportError:
    bt2 = None


def plain(value):
    """Convert a babeltrace2 value to a Python value."""
    if isinstance(value, bt2._ArrayFieldConst):
        return [plain(element) for element in value]
    if isinstance(value, bt2._RealFieldConst):
        return float(value)
    if isinstance(value, bt2._StringFieldConst):
        # babeltrace2 2.0 shows an earlier event's text after an empty one.
        length = native_bt.field_string_get_length(value._ptr)
        return str(value).encode()[:length].decode()
    return int(value)


def labels(value):
    """Return the labels of each enumeration in a value."""
    return {name: sorted(field.labels) for name, field in (value or {}).items()
            if isinstance(field, bt2._EnumerationFieldConst)}


class Event:
    def __init__(self, event):
        self.name = event.name
        self.fields = {name: plain(value) for name, value in (event.payload_field or {}).items()}
        self.labels = labels(event.payload_field)
        context = event.common_context_field
        self.context = {} if context is None else {name: plain(value)
                                                   for name, value in context.items()}
        self.uri = event.cls.emf_uri

    def __repr__(self):
        return f'{self.name} {self.fields}'


def read(path):
    """Return all events of the traces below a directory, in order of time."""
    return [Event(message.event) for message in bt2.TraceCollectionMessageIterator(path)
            if isinstance(message, bt2._EventMessageConst)]
