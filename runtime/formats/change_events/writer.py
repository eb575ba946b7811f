"""A changelog as lines of change events: a row that goes is a deletion, one that comes an insertion, as Flink writes them."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, without_row_kinds
from sqlstream.runtime.formats.change_events.events import ChangeEventFormat
from sqlstream.runtime.formats.json_writer import JsonWriter
from sqlstream.runtime.formats.text_values import joined_lines
from sqlstream.schema import Schema


class ChangeEventWriter(JsonWriter):
    """Writes one event for each row. No state but the stream."""

    def __init__(
        self, stream: BinaryIO, schema: Schema, options: dict[str, str], format_: ChangeEventFormat
    ) -> None:
        super().__init__(stream, schema, options)
        self._format = format_

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        is_insert = np.ones(batch.num_rows, dtype=bool)
        if is_changelog(batch):
            is_insert = np.asarray(is_accumulate(row_kinds(batch)), dtype=bool)
            batch = without_row_kinds(batch)
        texts = self.object_texts(batch.columns, self._schema.names, self._schema.types)
        self._stream.write(joined_lines(self._format.event_texts(texts, is_insert), b"\n"))
