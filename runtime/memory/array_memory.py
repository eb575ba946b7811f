"""Where the arrays of state take their memory from, and which memory is in force where they are made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.runtime.host.mapped_file import PART_BYTES

Array = np.ndarray[Any, Any]


class GrownFile(Protocol):
    """A file that one growing array lies in."""

    def map(self, nbytes: int, *, is_read_mostly: bool = False) -> Array:
        """uint8[nbytes]: its bytes. Arrays over what was mapped before show the same bytes."""


class ArrayMemory:
    """The memory of one operator's state; this one is the process's own.

    A structure takes the memory that is in force where it is made (`memory_in_force`), and makes all its arrays from it, later
    ones too. `check` is called before much of the process's memory is taken at once. No state."""

    def __init__(self, check: Callable[[int], None] = lambda nbytes: None) -> None:
        self._check = check

    def require(self, nbytes: int) -> None:
        """An array of this size comes next. It raises what the job fails with when that is too much."""
        self._check(nbytes)

    @property
    def file_bytes(self) -> int:
        """Bytes of the files that hold state."""
        return 0

    @property
    def is_scarce(self) -> bool:
        """Whether less may be mapped than is in files: then it is worth some time to go through large arrays in their order."""
        return False

    def is_mapped(self, nbytes: int) -> bool:
        """Whether an array of this size lies in a file."""
        return False

    def new_file(self) -> GrownFile:
        """For an array that `is_mapped`."""
        raise AssertionError("arrays are not mapped")

    def empty(self, count: int, dtype: Any) -> Array:
        """An array whose items are anything."""
        return np.empty(count, dtype=dtype)

    def zeros(self, count: int, dtype: Any, *, is_read_mostly: bool = False) -> Array:
        """`is_read_mostly`: its items are seldom written."""
        return np.zeros(count, dtype=dtype)

    def settled(self, columns: list[pa.Array]) -> list[pa.Array]:
        """The same columns, of one length, where they stay for long."""
        return columns


def order_of_parts(places: Array, item_bytes: int) -> Array:
    """int64[n]: these places of an array, those of each part of it together, in the order of the parts."""
    parts = places // (PART_BYTES // item_bytes)
    # Of 16 bits, as these are sorted in linear time: it is no harm when parts that are far apart count as one.
    return np.argsort(parts.astype(np.uint16), kind="stable")


_PROCESS_MEMORY = ArrayMemory()
_in_force: ContextVar[ArrayMemory] = ContextVar("array_memory", default=_PROCESS_MEMORY)


def memory_in_force() -> ArrayMemory:
    """That of the operator that is being made or restored in this thread; else the process's, without a limit."""
    return _in_force.get()


@contextlib.contextmanager
def in_force(memory: ArrayMemory) -> Iterator[None]:
    """Structures that are made within, by this thread, take this memory."""
    token = _in_force.set(memory)
    try:
        yield
    finally:
        _in_force.reset(token)
