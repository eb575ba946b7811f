"""Files of any format with a column that says what each row does: rows of a changelog, and back."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_accumulate, kind_texts, row_kinds, with_row_kinds, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.formats.file_rows import FileRows, empty_columns, quoted
from sqlstream.schema import Schema
from sqlstream.spi.format import FileReader, FileWriter, ReadRequest, Rejected

_NAMES = {
    RowKind.INSERT: ("+I", "I", "INSERT", "C", "CREATE", "R", "READ"),
    RowKind.UPDATE_BEFORE: ("-U", "UB", "UPDATE_BEFORE"),
    RowKind.UPDATE_AFTER: ("+U", "U", "UA", "UPDATE_AFTER", "UPDATE"),
    RowKind.DELETE: ("-D", "D", "DELETE"),
}
"""What the column may hold, in capitals; the first of each is written."""

_CODES = [(name, kind) for kind, names in _NAMES.items() for name in names]
_KINDS = np.array([int(kind) for _, kind in _CODES], dtype=np.int8)


class OpColumnReader(FileRows):
    """The rows of `rows`, which has the operations in its first column, as batches with row kinds.

    A row whose operation is none is rejected if `skips_errors`, and otherwise fails with SS5011. State: how many rows there were.
    """

    def __init__(
        self, rows: FileReader, stream: BinaryIO, path: str, skip_rows: int, skips_errors: bool
    ) -> None:
        super().__init__(ReadRequest(stream, path, Schema(()), (), skip_rows=skip_rows))
        self._rows = rows
        self._skips_errors = skips_errors
        self._count = 0

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for batch, rejected in self._rows.batches():
            texts = pc.utf8_upper(pc.utf8_trim_whitespace(batch.column(0)))
            places = pc.index_in(texts, pa.array([name for name, _ in _CODES]))
            data = batch.select(range(1, batch.num_columns))
            if places.null_count:
                rejected = [*rejected, *self._reject(batch.column(0), places)]
                is_known = places.is_valid()
                data, places = _filtered(data, is_known), places.filter(is_known)
            self._count += batch.num_rows
            yield (
                with_row_kinds(data, _KINDS[places.to_numpy(zero_copy_only=False).astype(np.int64)]),
                rejected,
            )

    def close(self) -> None:
        self._rows.close()

    def _reject(self, texts: pa.Array, places: pa.Array) -> Iterator[Rejected]:
        for row in np.flatnonzero(places.is_null().to_numpy(zero_copy_only=False)):
            text, number = texts[int(row)].as_py(), self._count + int(row) + 1
            said = "no operation" if text is None else f"the operation {quoted(text)}, which there is not"
            if not self._skips_errors:
                raise UserError(
                    "SS5011",
                    f'could not read row {number} of "{self._path}": it has {said}',
                    hint="an operation is one of +I, -U, +U, -D, or their names; other codes are translated by FROM_CHANGELOG",
                )
            yield Rejected(number, f"row {number} has {said}", text or "")


def _filtered(batch: pa.RecordBatch, is_kept: pa.Array) -> pa.RecordBatch:
    if batch.num_columns:
        return batch.filter(is_kept)
    return empty_columns(pc.sum(is_kept).as_py() or 0)


class OpColumnWriter:
    """Writes the rows of a changelog with their operations in the first column. Nothing is buffered here."""

    def __init__(self, writer: FileWriter, op_column: str) -> None:
        self._writer = writer
        self._name = op_column

    def write(self, batch: pa.RecordBatch) -> None:
        symbols = kind_texts(batch, lambda kind: _NAMES[kind][0])
        data = without_row_kinds(batch)
        self._writer.write(
            pa.RecordBatch.from_arrays([symbols, *data.columns], names=[self._name, *data.schema.names])
        )

    def close(self) -> None:
        self._writer.close()


class TombstoneWriter:
    """Writes the rows that a changelog by key adds, and for one that it deletes its key alone: all other columns are NULL.
    UserError SS5082 for an added row that would be read as a deletion."""

    def __init__(self, writer: FileWriter, keys: frozenset[int]) -> None:
        """`keys`: the places of the columns of the key."""
        self._writer = writer
        self._keys = keys

    def write(self, batch: pa.RecordBatch) -> None:
        is_there = pa.array(is_accumulate(row_kinds(batch)))
        data = without_row_kinds(batch)
        others = [c for place, c in enumerate(data.columns) if place not in self._keys]
        if others and all(c.null_count for c in others):
            is_lost = functools.reduce(pc.and_, (pc.is_null(c) for c in others), is_there)
            if pc.any(is_lost).as_py():
                raise UserError(
                    "SS5082",
                    "a row has nothing but its key, which deletes in a table of changes without 'changelog.op-column'",
                )
        columns: list[Any] = [
            column if place in self._keys else pc.if_else(is_there, column, pa.scalar(None, column.type))
            for place, column in enumerate(data.columns)
        ]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=data.schema))

    def close(self) -> None:
        self._writer.close()
