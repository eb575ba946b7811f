"""The common part of the readers of all formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from sqlstream.schema import Schema
from sqlstream.spi.format import Rejected
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    import pyarrow as pa


class FileRows(ABC):
    """A file's rows behind the first `skip_rows`, with the requested columns. State: the stream, and the rows that are still
    to be passed over."""

    def __init__(
        self, stream: BinaryIO, path: str, schema: Schema, columns: tuple[str, ...], skip_rows: int
    ) -> None:
        self._stream = stream
        self._path = path
        self._types: dict[str, LogicalType] = {c: schema.types[schema.index_of(c)] for c in columns}
        self._skip_rows = skip_rows

    @abstractmethod
    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        """All rows of the file. A format that can pass over rows without decoding them takes these from `_skip_rows`."""

    def batches(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for batch, rejected in self.decoded():
            skipped = min(self._skip_rows, batch.num_rows)
            self._skip_rows -= skipped
            yield batch.slice(skipped), rejected

    def close(self) -> None:
        self._stream.close()
