"""Enforces a sink's NOT NULL columns: a NULL in one fails the job or drops the row."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from runtime.operators.operator import OperatorContext
from sqlstream import config
from sqlstream.arrow import is_accumulate, is_changelog, row_kinds
from sqlstream.errors import UserError
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT

ENFORCER = "table.exec.sink.not-null-enforcer"


class NotNullEnforcer:
    """Applies option `table.exec.sink.not-null-enforcer` to the rows of a sink (Flink: ConstraintEnforcer).

    ERROR fails with the column's name; DROP drops such rows and counts them as `numNullRecordsDropped`. Retractions (-U, -D)
    pass unchecked: a deletion by key needs only the key. The rows of a SELECT have no constraints: a value that overflowed
    to NULL is shown as NULL. No state.
    """

    def __init__(self, spec: SinkSpec, context: OperatorContext) -> None:
        self._table = spec.table
        is_table = spec.connector != COLLECT
        self._columns = [
            (i, f.name) for i, f in enumerate(spec.schema.fields) if is_table and not f.type.nullable
        ]
        self._drops = config.get(context.config, ENFORCER) == "DROP"
        self._count = context.count

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that may be written. UserError SS5016."""
        doubtful = [(i, name) for i, name in self._columns if batch.column(i).null_count]
        if not doubtful:
            return batch
        adds = pa.array(is_accumulate(row_kinds(batch))) if is_changelog(batch) else None
        masks = [self._violations(batch.column(i), adds) for i, _ in doubtful]
        if not self._drops:
            self._fail_on_first(doubtful, masks)
        kept = batch.filter(pc.invert(reduce(pc.or_, masks)))
        self._count("numNullRecordsDropped", batch.num_rows - kept.num_rows)
        return kept

    @staticmethod
    def _violations(column: pa.Array, adds: pa.Array | None) -> pa.Array:
        return column.is_null() if adds is None else pc.and_(column.is_null(), adds)

    def _fail_on_first(self, columns: list[tuple[int, str]], masks: list[pa.Array]) -> None:
        for (_, name), mask in zip(columns, masks, strict=True):
            if mask.true_count:
                raise UserError(
                    "SS5016",
                    f'column "{name}" of table "{self._table}" is NOT NULL, but a NULL was written into it',
                    hint=f"guard it with COALESCE, or SET '{ENFORCER}' = 'DROP' to leave such rows out",
                )
