# SPDX-License-Identifier: MIT
"""Read the events of nettrace files, which ringpipe, the .NET runtime and other recorders write.

    import ringpipe

    with ringpipe.open("live.nettrace") as trace:
        for event in trace:
            if event.name == "order_placed":
                print(event.time, event.thread, event["order_id"])
        print(trace.stats.lost)

A trace is read once, from its start to its end, in bounded memory. Fields have the types bool,
int, float, str, bytes, list, dict, uuid.UUID and datetime.datetime. A field of type bytes is an
array of bytes or opaque data. Times are in UTC, without the last digit of the trace, which is
that of 100 ns. In years that datetime lacks, a time is an int, the nanoseconds since 1970. Text
that is not valid in its encoding contains U+FFFD. A field that the payload does not reach is
None.
"""
from ringpipe._ringpipe import Error, Event, Incomplete, Info, Stats, Trace, open

__all__ = ["Error", "Event", "Incomplete", "Info", "Stats", "Trace", "open"]
