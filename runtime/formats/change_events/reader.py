"""Lines of change events as batches of a changelog."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from runtime.evaluate.duckdb_function import evaluate_in_duckdb
from runtime.formats.blocks import Block
from runtime.formats.change_events.events import (
    NOTHING,
    UNKNOWN,
    ChangeEventFormat,
    Changes,
    Operations,
    row_type,
)
from runtime.formats.json_reader import DUCKDB_BLOCK_BYTES, JsonReader, lines_of
from runtime.formats.json_strict import keep_last_members
from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.schema import Schema
from sqlstream.spi.format import Rejected


class ChangeEventReader(JsonReader):
    """Decodes the envelopes as JSON, and turns each event into the rows that it changes.

    An event of an operation that the format does not have, or without a row that it needs, is undecodable as a whole.
    """

    def __init__(
        self,
        stream: BinaryIO,
        path: str,
        schema: Schema,
        columns: tuple[str, ...],
        options: dict[str, str],
        skip_rows: int,
        format_: ChangeEventFormat,
        block_bytes: int | None = None,
    ) -> None:
        # Whether a row is there is known by its object, which is read for the sake of one column at least.
        read = columns or schema.names[:1]
        envelope = format_.envelope(row_type(schema.select(tuple(schema.index_of(c) for c in read))))
        super().__init__(
            stream,
            path,
            envelope,
            envelope.names,
            options,
            skip_rows,
            uses_kernel=False,
            block_bytes=block_bytes or DUCKDB_BLOCK_BYTES,
            identifier=format_.identifier,
        )
        self._format = format_
        self._columns = columns

    def _decode(self, block: Block) -> tuple[pa.RecordBatch, list[Rejected]]:
        lines = lines_of(block)
        numbers = np.arange(len(lines)) + block.first_line
        decoded = self._decode_lines(lines, numbers)
        events, at = decoded.batch, decoded.lines
        operations = self._format.operations(events)
        is_known = operations != UNKNOWN
        reasons = {int(at[e]): "it is a change of no kind that there is" for e in np.flatnonzero(~is_known)}
        chosen = np.flatnonzero(is_known & (operations != NOTHING))
        changes = self._changes(events, lines, at, operations, chosen)
        is_whole = np.ones(len(lines), dtype=bool)
        for missing, rows in changes.missing().items():
            for line in np.unique(at[chosen[changes.owners[rows]]]):
                is_whole[line] = False
                reasons.setdefault(int(line), f"the {missing} is missing")
        kept = changes.kept(is_whole[at[chosen[changes.owners]]])
        rejected = [self._reject(lines[row], int(numbers[row]), reasons[row]) for row in sorted(reasons)]
        return self._changelog(kept), sorted(decoded.rejected + rejected, key=lambda r: r.line)

    def _changes(
        self, events: pa.RecordBatch, lines: pa.Array, at: Any, operations: Operations, chosen: Any
    ) -> Changes:
        def keys_at(path: str) -> pa.ListArray:
            if not len(chosen):
                return pa.nulls(0, pa.list_(pa.list_(pa.string()) if "*" in path else pa.string()))
            texts, _ = keep_last_members(lines.take(pa.array(at[chosen])).cast(pa.string()))
            return evaluate_in_duckdb(f"json_keys(a0, '{path}')", texts)

        return self._format.changes(events.take(pa.array(chosen)), operations[chosen], keys_at)

    def _changelog(self, changes: Changes) -> pa.RecordBatch:
        rows, kinds = changes.rows()
        columns = rows.flatten() if self._columns else []
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(kinds)], names=[*self._columns, ROW_KIND_COLUMN]
        )
