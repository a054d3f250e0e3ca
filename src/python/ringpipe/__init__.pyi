# SPDX-License-Identifier: MIT
import datetime
import os
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar, final

_Default = TypeVar("_Default")


class _Readable(Protocol):
    def read(self, size: int, /) -> Any: ...

class _Descriptor(Protocol):
    def fileno(self) -> int: ...

class Error(Exception):
    offset: int | None

class Incomplete(Error): ...

class Info(NamedTuple):
    process_id: int
    start_utc: int | None
    ticks_per_second: int
    processors: int
    pointer_bytes: int
    version: int
    key_values: dict[str, str]

class Stats(NamedTuple):
    events: int
    lost: int
    threads: int
    sequence_points: int
    bytes: int
    unordered: int
    ended: bool
    damaged_bytes: int
    lost_to_damage: int

@final
class Event:
    @property
    def provider(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def opcode(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def keywords(self) -> int: ...
    @property
    def time(self) -> int: ...
    @property
    def utc(self) -> int | None: ...
    @property
    def process(self) -> int: ...
    @property
    def thread(self) -> int: ...
    @property
    def thread_name(self) -> str: ...
    @property
    def processor(self) -> int: ...
    @property
    def activity(self) -> uuid.UUID | None: ...
    @property
    def related_activity(self) -> uuid.UUID | None: ...
    @property
    def trace_id(self) -> str | None: ...
    @property
    def span_id(self) -> str | None: ...
    @property
    def stack(self) -> list[int]: ...
    @property
    def labels(self) -> dict[str, str | int]: ...
    @property
    def fields(self) -> dict[str, Any]: ...
    def get(self, name: str, default: _Default | None = None, /) -> Any | _Default | None: ...
    def __getitem__(self, name: str, /) -> Any: ...

@final
class Trace(Iterator[Event]):
    @property
    def info(self) -> Info: ...
    @property
    def stats(self) -> Stats: ...
    @property
    def damage(self) -> list[tuple[int, int, str]]: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __next__(self) -> Event: ...
    def __iter__(self) -> Trace: ...
    def __enter__(self) -> Trace: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

def open(
    source: str | bytes | bytearray | memoryview | os.PathLike[str] | os.PathLike[bytes] | int
    | _Readable | _Descriptor,
    /,
    *,
    resume: bool = False,
    start: int | datetime.timedelta | datetime.datetime | None = None,
    stop: int | datetime.timedelta | datetime.datetime | None = None,
    json: bool = True,
) -> Trace: ...
