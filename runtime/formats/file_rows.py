"""The common part of the readers of all formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.spi.format import ReadRequest, Rejected
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    import pyarrow as pa


class FileRows(ABC):
    """A file's rows behind the first `skip_rows`, with the requested columns. State: the stream, and the rows that are still
    to be passed over."""

    def __init__(self, request: ReadRequest) -> None:
        self._stream = request.stream
        self._path = request.path
        schema = request.schema
        self._types: dict[str, LogicalType] = {c: schema.types[schema.index_of(c)] for c in request.columns}
        self._skip_rows = request.skip_rows

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
