"""Enforces a sink's NOT NULL columns: a NULL in one fails the job or drops the row."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import config
from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.sink.nested_values import NestedConstraints
from sqlstream.runtime.update_pairs import filtered_kinds
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT
from sqlstream.types import LogicalType

ENFORCER = "table.exec.sink.not-null-enforcer"


class NotNullEnforcer:
    """Applies option `table.exec.sink.not-null-enforcer` to the rows of a sink (Flink: ConstraintEnforcer), and to what is in
    their rows, arrays and maps as far as `table.exec.sink.nested-constraint-enforcer` says.

    ERROR fails with the column's name; DROP drops such rows and counts them as `numNullRecordsDropped`, and an update to one
    deletes the row before. Retractions (-U, -D) pass unchecked: a deletion by key needs only the key. The rows of a SELECT have
    no constraints: a value that overflowed to NULL is shown as NULL. No state.
    """

    def __init__(self, spec: SinkSpec, context: OperatorContext) -> None:
        self._table = spec.table
        is_table = spec.connector != COLLECT
        self._columns = [
            (i, f.name) for i, f in enumerate(spec.schema.fields) if is_table and not f.type.nullable
        ]
        nested = NestedConstraints(context.config)
        self._nested = nested
        self._outer = [
            (i, f) for i, f in enumerate(spec.schema.fields) if is_table and nested.has(f.type, _is_not_null)
        ]
        self._drops = config.get(context.config, ENFORCER) == "DROP"
        self._count = context.count
        self._key = spec.primary_key

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that may be written. UserError SS5016."""
        doubtful = [(name, batch.column(i)) for i, name in self._columns if batch.column(i).null_count]
        found = [(name, column.is_null()) for name, column in doubtful] + self._nested_nulls(batch)
        if not found:
            return batch
        adds = pa.array(is_accumulate(row_kinds(batch))) if is_changelog(batch) else None
        found = [(name, mask if adds is None else pc.and_(mask, adds)) for name, mask in found]
        if not self._drops:
            self._fail_on_first(found)
        violates = reduce(pc.or_, (mask for _, mask in found))
        self._count("numNullRecordsDropped", violates.true_count)
        return _without(batch, violates.to_numpy(zero_copy_only=False), self._key)

    def _nested_nulls(self, batch: pa.RecordBatch) -> list[tuple[str, pa.Array]]:
        """The places with NULLs that are none, and which rows have such."""
        found = []
        for number, field in self._outer:
            for name, t, values, rows in self._nested.walk(field.name, field.type, batch.column(number)):
                if not t.nullable and values.null_count:
                    mask = np.zeros(batch.num_rows, dtype=bool)
                    mask[rows[values.is_null().to_numpy(zero_copy_only=False)]] = True
                    found.append((name, pa.array(mask)))
        return found

    def _fail_on_first(self, found: list[tuple[str, pa.Array]]) -> None:
        for name, mask in found:
            if mask.true_count:
                raise UserError(
                    "SS5016",
                    f'column "{name}" of table "{self._table}" is NOT NULL, but a NULL was written into it',
                    hint=f"guard it with COALESCE, or SET '{ENFORCER}' = 'DROP' to leave such rows out",
                )


def _is_not_null(t: LogicalType) -> bool:
    return not t.nullable


def _without(
    batch: pa.RecordBatch, is_dropped: np.ndarray[Any, np.dtype[np.bool_]], key: tuple[int, ...]
) -> pa.RecordBatch:
    """The batch without these rows, which are none of -U and -D. An update without its -U row deletes the row with its key."""
    if not is_changelog(batch):
        return batch.filter(pa.array(~is_dropped))
    kinds = row_kinds(batch)
    is_update = is_dropped & (kinds == RowKind.UPDATE_AFTER)
    is_update[1:] &= kinds[:-1] != RowKind.UPDATE_BEFORE
    for column in key:
        is_update &= ~batch.column(column).is_null().to_numpy(zero_copy_only=False)
    is_kept = ~is_dropped
    kinds = filtered_kinds(kinds, is_kept)
    if is_update.any():
        kinds = np.where(is_update, np.int8(RowKind.DELETE), kinds)
    return with_row_kinds(batch, kinds).filter(pa.array(is_kept | is_update))
