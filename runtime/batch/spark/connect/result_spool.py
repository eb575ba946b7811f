"""Rows of a result between the thread that takes them from Spark and the one that gives them to the client."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pyarrow as pa

from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.host.files import file_error

IN_MEMORY_BYTES_MAX = 16 * 1024 * 1024
"""What waits beyond that goes to a file."""

IN_FILE_BYTES_MAX = 64 * 1024 * 1024 * 1024
"""The size of the file at which the thread that fills it waits."""

_TICK_S = 0.1

_Kept: TypeAlias = bytes | tuple[int, int]
"""A message, or where it is in the file and how long."""


class ResultSpool:
    """Takes batches as fast as they come and gives them in their order, so that a client that reads slowly holds up no server.

    State: batches that were not given yet, in memory and in a file without a name, until `close`. Thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        # Closed by `close`: it outlives this call.
        self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        self._changed = threading.Condition()
        self._kept: deque[_Kept] = deque()
        self._schema: pa.Schema | None = None
        self._memory_bytes = 0
        self._file_end = 0
        self._in_file = 0
        self._is_closed = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch; all have one schema. ExternalError SS5001 for a full disk, BatchCancelled once it is closed."""
        message = memoryview(batch.serialize())
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._file_end < IN_FILE_BYTES_MAX)
            if self._is_closed:
                raise BatchCancelled
            self._schema = batch.schema
            if self._memory_bytes < IN_MEMORY_BYTES_MAX:
                self._kept.append(bytes(message))
                self._memory_bytes += len(message)
            else:
                self._kept.append(self._written(message))
            self._changed.notify_all()

    def batches(self, has_ended: Callable[[], bool]) -> Iterator[pa.RecordBatch | None]:
        """The batches as they come, and None at least every 100 ms while there is none. Ends when all are given that were added
        before `has_ended` returned True; it raises what has kept the rest from coming."""
        while True:
            is_last = has_ended()
            batch = self._taken()
            if batch is not None:
                yield batch
            elif is_last:
                return
            else:
                with self._changed:
                    if not self._kept:
                        self._changed.wait(_TICK_S)
                yield None

    def close(self) -> None:
        """Drop what is held; who adds more is told so. Harmless when repeated."""
        with self._changed:
            self._is_closed = True
            self._kept.clear()
            self._changed.notify_all()
            self._file.close()

    def _written(self, message: memoryview) -> tuple[int, int]:
        place = self._file_end
        written = 0
        try:
            while written < len(message):
                written += os.pwrite(self._file.fileno(), message[written:], place + written)
        except OSError as error:
            raise file_error("keep rows of the result in", self._directory, error) from error
        self._file_end += len(message)
        self._in_file += 1
        return place, len(message)

    def _taken(self) -> pa.RecordBatch | None:
        with self._changed:
            if not self._kept:
                return None
            kept = self._kept.popleft()
            if isinstance(kept, bytes):
                self._memory_bytes -= len(kept)
                message = kept
            else:
                place, length = kept
                message = os.pread(self._file.fileno(), length, place)
                self._in_file -= 1
                if not self._in_file:
                    self._file_end = 0
                    self._file.truncate(0)
            self._changed.notify_all()
        return pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)
