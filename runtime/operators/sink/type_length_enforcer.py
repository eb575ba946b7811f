"""Enforces the lengths of a sink's CHAR, VARCHAR, BINARY and VARBINARY columns: values are cut and padded, or fail the job."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from runtime.operators.operator import OperatorContext
from sqlstream import config
from sqlstream.arrow import is_accumulate, is_changelog, row_kinds
from sqlstream.errors import UserError
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT
from sqlstream.types import BINARY_ROOTS, VARCHAR_LENGTH_MAX, LogicalType, TypeRoot, is_string

ENFORCER = "table.exec.sink.type-length-enforcer"


class _Column(NamedTuple):
    place: int
    name: str
    type: LogicalType

    @property
    def is_fixed(self) -> bool:
        return self.type.root in (TypeRoot.CHAR, TypeRoot.BINARY)

    def fitted(self, values: pa.Array) -> pa.Array:
        """The values cut to the length; those of CHAR and BINARY that are shorter are padded with blanks and zeros."""
        length = self.type.length
        if is_string(self.type):
            cut = pc.utf8_slice_codeunits(values, 0, length)
            return pc.utf8_rpad(cut, length) if self.is_fixed else cut
        if self.is_fixed:
            values = pc.binary_join_element_wise(values, pa.scalar(b"\0" * length), pa.scalar(b""))
        return pc.binary_slice(values, 0, length)

    def misfits(self, values: pa.Array) -> pa.Array:
        """Which values have another length; NULL where the value is."""
        lengths = pc.utf8_length(values) if is_string(self.type) else pc.binary_length(values)
        return (pc.not_equal if self.is_fixed else pc.greater)(lengths, self.type.length)


class TypeLengthEnforcer:
    """Applies option `table.exec.sink.type-length-enforcer` to the rows of a sink (Flink: ConstraintEnforcer).

    TRIM_PAD fits values to the length, those of retractions (-U, -D) too, so that they meet the rows that they retract. ERROR
    fails with the column's name; retractions pass unchecked. IGNORE, and the rows of a SELECT, pass as they are. No state.
    """

    def __init__(self, spec: SinkSpec, context: OperatorContext) -> None:
        self._table = spec.table
        mode = config.get(context.config, ENFORCER)
        self._fits = mode == "TRIM_PAD"
        is_enforced = mode != "IGNORE" and spec.connector != COLLECT
        self._columns = [
            _Column(i, f.name, f.type)
            for i, f in enumerate(spec.schema.fields)
            if is_enforced
            and (is_string(f.type) or f.type.root in BINARY_ROOTS)
            and f.type.length < VARCHAR_LENGTH_MAX
        ]

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows to write. UserError SS5027 for a value that does not fit."""
        for column in self._columns:
            values = batch.column(column.place)
            misfits = column.misfits(values)
            if not misfits.true_count:
                continue
            if self._fits:
                field = batch.schema.field(column.place)
                batch = batch.set_column(column.place, field, column.fitted(values).cast(field.type))
            else:
                self._fail(column, misfits, batch)
        return batch

    def _fail(self, column: _Column, misfits: pa.Array, batch: pa.RecordBatch) -> None:
        if is_changelog(batch):
            misfits = pc.and_(misfits, pa.array(is_accumulate(row_kinds(batch))))
        if not misfits.true_count:
            return
        first = batch.column(column.place).filter(misfits).slice(0, 1)
        unit = "character" if is_string(column.type) else "byte"
        length = (pc.utf8_length if is_string(column.type) else pc.binary_length)(first)[0].as_py()
        raise UserError(
            "SS5027",
            f'column "{column.name}" of table "{self._table}" is {column.type.with_nullable(True)}, '
            f"but a value of {length} {unit}{'' if length == 1 else 's'} was written into it",
            hint=f"CAST it to that type, or SET '{ENFORCER}' = 'TRIM_PAD' to cut and pad such values",
        )
