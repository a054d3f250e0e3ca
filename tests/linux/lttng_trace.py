# SPDX-License-Identifier: MIT
"""What is in a trace of LTTng's, read by babeltrace2."""
try:
    import bt2
    from bt2 import native_bt
except ImportError:
    bt2 = None


def plain(value):
    """A value of babeltrace2 as Python's own."""
    if isinstance(value, bt2._ArrayFieldConst):
        return [plain(element) for element in value]
    if isinstance(value, bt2._RealFieldConst):
        return float(value)
    if isinstance(value, bt2._StringFieldConst):
        # babeltrace2 2.0 leaves the text of an earlier event behind an empty one.
        length = native_bt.field_string_get_length(value._ptr)
        return str(value).encode()[:length].decode()
    return int(value)


def labels(value):
    """Of each enumeration in a value: the names of what it has."""
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
    """All events of the traces below a directory, in the order of time."""
    return [Event(message.event) for message in bt2.TraceCollectionMessageIterator(path)
            if isinstance(message, bt2._EventMessageConst)]
