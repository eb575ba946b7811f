"""The changelog between the Top-N lists before and after a batch."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.rank import missing_in_row, rank_changes_into
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.id_lists import NO_ROW
from sqlstream.specs.rank import RankSpec

_WIDTH_MAX = 1_024
"""Of longer lists, those that were replaced as a whole are found more quickly by sorting."""


class Rows(Protocol):
    """Looks rows up by id."""

    def gather(self, row_ids: Array) -> pa.RecordBatch: ...


class RankChanges:
    """Compares lists of row ids, int64[keys, at most rank_end], best first, NO_ROW where a list ends."""

    def __init__(self, spec: RankSpec, context: OperatorContext) -> None:
        self._spec = spec
        self._mode = context.output_mode
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)

    def emit(self, before: Array, after: Array, rows: Rows, output: Output) -> None:
        """Emit the changes of the ranks from rank_start to rank_end. `rows` must still hold the rows of `before`."""
        ids, ranks, kinds = (
            self._by_rank(before, after) if self._spec.outputs_rank else self._by_row(before, after)
        )
        if len(ids) == 0:
            return
        columns = list(rows.gather(ids).columns)
        if self._spec.outputs_rank:
            columns.append(to_array(pa.int64(), ranks))
        if self._mode is not ChangelogMode.INSERT_ONLY:
            columns.append(to_array(pa.int8(), kinds))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _by_rank(self, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Per rank: -U then +U where its row is replaced, +I where the rank is new, -D where it no longer exists."""
        first = self._spec.rank_start - 1
        most = 2 * before.shape[0] * max(0, before.shape[1] - first)
        ids, ranks = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        kinds = np.empty(most, dtype=np.int8)
        keeps_updates_before = self._mode is not ChangelogMode.UPSERT
        count = rank_changes_into(before, after, first, keeps_updates_before, ids, ranks, kinds)
        return ids[:count], ranks[:count], kinds[:count]

    def _by_row(self, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Per row: -D where it leaves the list, +I where it enters it; a row that only changes its rank is not emitted."""
        shown = slice(self._spec.rank_start - 1, self._spec.rank_end)
        before, after = np.ascontiguousarray(before[:, shown]), np.ascontiguousarray(after[:, shown])
        leaving, entering = before[_missing(before, after)], after[_missing(after, before)]
        ids = np.concatenate([leaving, entering])
        kinds = np.full(len(ids), RowKind.INSERT, dtype=np.int8)
        kinds[: len(leaving)] = RowKind.DELETE
        return ids, ids, kinds


def _missing(items: Array, others: Array) -> Array:
    """bool, shaped as `items`: whether there is an id that is not in the same row of `others`."""
    if items.shape[1] > _WIDTH_MAX:
        # An id belongs to one key.
        return (items != NO_ROW) & ~np.isin(items, others)
    is_missing = np.empty(items.shape, dtype=bool)
    missing_in_row(items, others, NO_ROW, is_missing)
    return is_missing
