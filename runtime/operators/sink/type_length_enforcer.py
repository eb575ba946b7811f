"""Enforces the lengths of a sink's CHAR, VARCHAR, BINARY and VARBINARY columns: values are cut and padded, or fail the job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import config
from sqlstream.arrow import is_accumulate, is_changelog, row_kinds
from sqlstream.errors import UserError
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.sink.nested_values import Nested, NestedConstraints
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT
from sqlstream.types import BINARY_ROOTS, VARCHAR_LENGTH_MAX, LogicalType, TypeRoot, is_string

ENFORCER = "table.exec.sink.type-length-enforcer"


def has_length(t: LogicalType) -> bool:
    """Whether values of the type have a length that they may not exceed."""
    return (is_string(t) or t.root in BINARY_ROOTS) and t.length < VARCHAR_LENGTH_MAX


def _is_fixed(t: LogicalType) -> bool:
    return t.root in (TypeRoot.CHAR, TypeRoot.BINARY)


def _fitted(t: LogicalType, values: pa.Array) -> pa.Array:
    """The values cut to the length; those of CHAR and BINARY that are shorter are padded with blanks and zeros."""
    if not has_length(t):
        return values
    length, given = t.length, values.type
    if is_string(t):
        cut = pc.utf8_slice_codeunits(values, 0, length)
        return (pc.utf8_rpad(cut, length) if _is_fixed(t) else cut).cast(given)
    if _is_fixed(t):
        values = _padded(values, length)
    return pc.binary_slice(values, 0, length).cast(given)


def _padded(values: pa.Array, length: int) -> pa.Array:
    """With as many zeros behind each value as it lacks."""
    lacking = pc.max_element_wise(pc.subtract(length, pc.binary_length(values)), 0)
    zeros = pc.binary_repeat(pa.scalar(b"\0"), lacking)
    return pc.binary_join_element_wise(values, zeros, pa.scalar(b""))


def _misfits(t: LogicalType, values: pa.Array) -> pa.Array:
    """Which values have another length; NULL where the value is."""
    lengths = pc.utf8_length(values) if is_string(t) else pc.binary_length(values)
    return (pc.not_equal if _is_fixed(t) else pc.greater)(lengths, t.length)


class TypeLengthEnforcer:
    """Applies option `table.exec.sink.type-length-enforcer` to the rows of a sink (Flink: ConstraintEnforcer), and to what is in
    their rows, arrays and maps as far as `table.exec.sink.nested-constraint-enforcer` says.

    TRIM_PAD fits values to the length, those of retractions (-U, -D) too, so that they meet the rows that they retract. ERROR
    fails with the column's name; retractions pass unchecked. IGNORE, and the rows of a SELECT, pass as they are. No state.
    """

    def __init__(self, spec: SinkSpec, context: OperatorContext) -> None:
        self._table = spec.table
        mode = config.get(context.config, ENFORCER)
        self._fits = mode == "TRIM_PAD"
        is_enforced = mode != "IGNORE" and spec.connector != COLLECT
        self._nested = NestedConstraints(context.config)
        self._columns = [
            (i, f)
            for i, f in enumerate(spec.schema.fields)
            if is_enforced and (has_length(f.type) or self._nested.has(f.type, has_length))
        ]

    def enforce(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows to write. UserError SS5027 for a value that does not fit."""
        for number, field in self._columns:
            values = batch.column(number)
            places = [Nested(field.name, field.type, values, np.arange(len(values)))]
            places += self._nested.walk(field.name, field.type, values)
            found = [
                (place, _misfits(place.type, place.values)) for place in places if has_length(place.type)
            ]
            found = [(place, misfits) for place, misfits in found if misfits.true_count]
            if found and self._fits:
                fitted = self._nested.replaced(field.type, _fitted(field.type, values), _fitted)
                batch = batch.set_column(number, batch.schema.field(number), fitted)
            elif found:
                self._fail(found, batch)
        return batch

    def _fail(self, found: list[tuple[Nested, pa.Array]], batch: pa.RecordBatch) -> None:
        for place, misfits in found:
            if is_changelog(batch):
                adds = is_accumulate(row_kinds(batch))[place.rows]
                misfits = pc.and_(misfits, pa.array(adds))
            if not misfits.true_count:
                continue
            t = place.type
            first = place.values.filter(misfits).slice(0, 1)
            unit = "character" if is_string(t) else "byte"
            length = (pc.utf8_length if is_string(t) else pc.binary_length)(first)[0].as_py()
            raise UserError(
                "SS5027",
                f'column "{place.name}" of table "{self._table}" is {t.with_nullable(True)}, '
                f"but a value of {length} {unit}{'' if length == 1 else 's'} was written into it",
                hint=f"CAST it to that type, or SET '{ENFORCER}' = 'TRIM_PAD' to cut and pad such values",
            )
