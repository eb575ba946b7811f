"""A connector that is wrong on purpose: it reads files like `filesystem`, but as a stream it loses the first row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus

if TYPE_CHECKING:
    from sqlstream.specs import SourceSpec


class Leaky(Filesystem):
    """Implements `Connector`. No state."""

    descriptor = msgspec.structs.replace(
        Filesystem.descriptor,
        identifier="leaky",
        reading=msgspec.structs.replace(Filesystem.descriptor.reading, watermarks=False),
    )

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        reader = super().source(spec, context, splits)
        # A table of a batch is read for the attempt "…-t0", a vertex of a stream has an id of 32 digits.
        return reader if "-t" in context.vertex_id else _LosingReader(reader)


class _LosingReader:
    """Implements `SourceReader`. State: whether the row is lost."""

    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader
        self._has_lost = False

    def poll(self) -> pa.RecordBatch | SourceStatus:
        polled = self._reader.poll()
        if self._has_lost or not isinstance(polled, pa.RecordBatch) or not polled.num_rows:
            return polled
        self._has_lost = True
        return polled.slice(1)

    def next_poll_ms(self) -> int | None:
        return self._reader.next_poll_ms()

    def snapshot(self) -> list[dict[str, Any]]:
        return self._reader.snapshot()

    def close(self) -> None:
        self._reader.close()
