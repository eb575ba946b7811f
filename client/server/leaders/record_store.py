"""A store of small records with compare-and-set, which several servers share, and what one of them asks of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from sqlstream.errors import ExternalError
from sqlstream.runtime.host.clock import steady_s

PAUSE_FIRST_S, PAUSE_MAX_S = 0.05, 1.0
READERS_MAX = 8
"""Fewer than the connections that clients of stores keep: ten for S3."""


class Conflict(Exception):
    """The record is not the one that was expected."""


@dataclasses.dataclass(frozen=True)
class Record:
    """Another content has another version; versions have no order."""

    data: bytes
    version: str


class RecordStore(Protocol):
    """Records by keys of letters, digits and `-`. A record is written whole, and only over the version that the writer expects.
    Thread-safe.

    What a client has written, and all that was written before it, is what the client reads; what others write later it may read
    late. A call that fails with ExternalError SS6080 may have had its effect, or have it later."""

    bytes_max: int
    """The largest record."""

    def read(self, key: str) -> Record | None: ...

    def write(self, key: str, data: bytes, expected: str | None) -> str:
        """The new version. None expects no such record. Conflict when it is another one, or none."""

    def remove(self, key: str) -> None:
        """Whatever it is: only for keys that nobody writes again. Nothing there is fine."""

    def keys(self) -> list[str]:
        """All keys."""

    def close(self) -> None:
        """Harmless when repeated."""


# What programs ask for. A program is a generator of calls, which knows neither store nor clock: servers run it against theirs,
# and simulations interleave many.


@dataclasses.dataclass(frozen=True)
class Read:
    key: str
    is_large: bool = False


@dataclasses.dataclass(frozen=True)
class ReadAll:
    """Several at once; the answer has as many."""

    keys: tuple[str, ...]
    is_large: bool = False


@dataclasses.dataclass(frozen=True)
class Write:
    key: str
    data: bytes
    expected: str | None
    is_large: bool = False


@dataclasses.dataclass(frozen=True)
class Remove:
    key: str
    is_large: bool = False


@dataclasses.dataclass(frozen=True)
class ListKeys:
    is_large: bool = False


@dataclasses.dataclass(frozen=True)
class Pause:
    """The last call failed so, and is about to be repeated."""

    error: ExternalError


Call = Read | ReadAll | Write | Remove | ListKeys | Pause
Result = TypeVar("Result")
Program = Generator[Call, Any, Result]


class TimedOut(Exception):
    """The store has not answered for too long; whether the last call had its effect is not known."""

    def __init__(self, error: ExternalError) -> None:
        super().__init__(error.message)
        self.error = error


def run(
    program: Program[Result],
    records: RecordStore,
    large: RecordStore,
    timeout_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> Result:
    """What the program returns, or raises. TimedOut when calls fail for `timeout_s`."""
    pause_s, since_s = PAUSE_FIRST_S, steady_s()
    answer: Any = None
    failure: Exception | None = None
    while True:
        try:
            call = program.throw(failure) if failure is not None else program.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        answer = failure = None
        if isinstance(call, Pause):
            if steady_s() - since_s > timeout_s:
                failure = TimedOut(call.error)
            else:
                pause(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
            continue
        try:
            answer = _answer(call, large if call.is_large else records)
            pause_s, since_s = PAUSE_FIRST_S, steady_s()
        except (Conflict, ExternalError) as error:
            failure = error


def _answer(call: Read | ReadAll | Write | Remove | ListKeys, store: RecordStore) -> Any:
    match call:
        case Read(key):
            return store.read(key)
        case ReadAll(keys):
            with ThreadPoolExecutor(READERS_MAX) as pool:
                return list(pool.map(store.read, keys))
        case Write(key, data, expected):
            return store.write(key, data, expected)
        case Remove(key):
            return store.remove(key)
        case ListKeys():
            return store.keys()
