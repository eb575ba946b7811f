"""The rows of a result, held in memory or in a file until their job has finished."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import IO

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError
from sqlstream.schema import Schema

HELD_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of rows that are held in memory; a larger result is moved to a temporary file as a whole."""


class HeldRows:
    """Batches that can be read as often as needed, in the order in which they were added.

    State: up to HELD_BYTES_MAX of batches; beyond that a temporary file without a name, which the system deletes when this
    process ends. Batches that are read from it are views of the file and take no memory of their own.
    """

    def __init__(self, schema: pa.Schema, bytes_max: int = HELD_BYTES_MAX) -> None:
        self._schema = schema
        self._bytes_max = bytes_max
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> HeldRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batches.clear()
        if self._file is not None:
            self._file.close()

    @property
    def is_in_file(self) -> bool:
        return self._file is not None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch. ExternalError SS5001 when there is no room for the temporary file."""
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._bytes_max:
            try:
                self._spill()
            except OSError as error:
                raise ExternalError(
                    "SS5001",
                    f'cannot hold the rows of the result in "{tempfile.gettempdir()}": {(error.strerror or str(error)).lower()}',
                    hint="set TMPDIR to a directory with more room, or write the rows into a table with INSERT INTO",
                ) from error

    def _spill(self) -> None:
        if self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="sqlstream-result-")  # noqa: SIM115
            self._writer = pa.ipc.new_stream(self._file, self._schema)
        for batch in self._batches:
            self._writer.write_batch(batch)
        assert self._file is not None
        self._file.flush()
        self._batches.clear()
        self._bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._file is not None:
            view = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            # The stream has no end mark, and needs none: it ends with the file.
            yield from pa.ipc.open_stream(pa.py_buffer(view))
        yield from self._batches


@contextlib.contextmanager
def held_final_rows(schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[HeldRows]:
    """The table that a changelog describes, once all of its batches were read."""
    from sqlstream.client.rendering.render import final_rows

    with HeldRows(to_arrow_schema(schema)) as held:
        for batch in final_rows(schema, batches):
            held.add(batch)
        yield held
