"""What stands before a sink: rows that its table cannot take are refused or changed, and the rest is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import config
from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.messages.ledger import DONE, FILTERED
from sqlstream.runtime.evaluate.kernel import null_mask
from sqlstream.runtime.evaluate.lists import Lists, list_column, map_column
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.update_pairs import filtered_kinds
from sqlstream.specs import ChangingSinkSpec, SinkSpec
from sqlstream.specs.sink import COLLECT
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import SinkWriter, TakesWatermarks, WritesLater
from sqlstream.types import BINARY_ROOTS, VARCHAR_LENGTH_MAX, LogicalType, TypeRoot, is_string

NESTED_ENFORCER = "table.exec.sink.nested-constraint-enforcer"


class Nested(NamedTuple):
    """All values of one place in a column: its name (`r.f`, `a[element]`, `m[key]`, `m[value]`), their type, and the row of each.
    Those whose row, array or map is NULL are not there."""

    name: str
    type: LogicalType
    values: pa.Array
    rows: Array


class NestedConstraints:
    """What `table.exec.sink.nested-constraint-enforcer` has checked: nothing, fields of rows, or elements of collections too."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        mode = config.get(settings, NESTED_ENFORCER)
        self._roots = {
            "IGNORE": frozenset[TypeRoot](),
            "ROWS": frozenset({TypeRoot.ROW}),
            "ROWS_AND_COLLECTIONS": frozenset({TypeRoot.ROW, TypeRoot.ARRAY, TypeRoot.MAP}),
        }[mode]

    def has(self, t: LogicalType, is_checked: Callable[[LogicalType], bool]) -> bool:
        """Whether some type in this one is to be checked."""
        return t.root in self._roots and any(is_checked(p) or self.has(p, is_checked) for p in t.parts)

    def walk(self, name: str, t: LogicalType, values: pa.Array) -> Iterator[Nested]:
        """All places in a column."""
        return self._walk(Nested(name, t, values, np.arange(len(values))))

    def _walk(self, outer: Nested) -> Iterator[Nested]:
        name, t, values, rows = outer
        if t.root not in self._roots:
            return
        if values.null_count:
            present = values.is_valid()
            values, rows = values.filter(present), rows[present.to_numpy(zero_copy_only=False)]
        for inner in self._parts(Nested(name, t, values, rows)):
            yield inner
            yield from self._walk(inner)

    def _parts(self, outer: Nested) -> Iterator[Nested]:
        name, t, values, rows = outer
        if t.root is TypeRoot.ROW:
            for number, field in enumerate(t.fields):
                yield Nested(f"{name}.{field.name}", field.type, values.field(number), rows)
            return
        lists = Lists.of(values)
        elements, owners = lists.elements(), rows[lists.owners()]
        assert t.element is not None
        if t.root is TypeRoot.ARRAY:
            yield Nested(f"{name}[element]", t.element, elements, owners)
            return
        assert t.key is not None
        yield Nested(f"{name}[key]", t.key, elements.field(0), owners)
        yield Nested(f"{name}[value]", t.element, elements.field(1), owners)

    def replaced(
        self, t: LogicalType, values: pa.Array, change: Callable[[LogicalType, pa.Array], pa.Array]
    ) -> pa.Array:
        """The column with each value in it, but not the column's own, changed to one of the same type."""
        if t.root not in self._roots:
            return values

        def inner(part: LogicalType, array: pa.Array) -> pa.Array:
            return self.replaced(part, change(part, array), change)

        if t.root is TypeRoot.ROW:
            fields = [inner(f.type, values.field(n)) for n, f in enumerate(t.fields)]
            mask = values.is_null() if values.null_count else None
            return pa.StructArray.from_arrays(fields, fields=list(values.type), mask=mask)
        lists = Lists.of(values)
        elements = lists.elements()
        assert t.element is not None
        if t.root is TypeRoot.ARRAY:
            return list_column(values.type, lists.lengths, inner(t.element, elements), null_mask(values))
        assert t.key is not None
        keys, items = inner(t.key, elements.field(0)), inner(t.element, elements.field(1))
        return map_column(values.type, lists.lengths, keys, items, null_mask(values))


NOT_NULL_ENFORCER = "table.exec.sink.not-null-enforcer"


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
        self._columns = [(i, f.name) for i, f in enumerate(spec.fields) if is_table and not f.type.nullable]
        nested = NestedConstraints(context.config)
        self._nested = nested
        self._outer = [
            (i, f) for i, f in enumerate(spec.fields) if is_table and nested.has(f.type, _is_not_null)
        ]
        self._drops = config.get(context.config, NOT_NULL_ENFORCER) == "DROP"
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
                    hint=f"guard it with COALESCE, or SET '{NOT_NULL_ENFORCER}' = 'DROP' to leave such rows out",
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


TYPE_LENGTH_ENFORCER = "table.exec.sink.type-length-enforcer"


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
        mode = config.get(context.config, TYPE_LENGTH_ENFORCER)
        self._fits = mode == "TRIM_PAD"
        is_enforced = mode != "IGNORE" and spec.connector != COLLECT
        self._nested = NestedConstraints(context.config)
        self._columns = [
            (i, f)
            for i, f in enumerate(spec.fields)
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
                hint=f"CAST it to that type, or SET '{TYPE_LENGTH_ENFORCER}' = 'TRIM_PAD' to cut and pad such values",
            )


ROWS_CHANGED = "numRowsChanged"


class SinkOperator(Operator[SinkSpec]):
    """Writes the rows that pass the checks of NOT NULL and of lengths, and counts those that an UPDATE or DELETE changes.

    At each checkpoint, and at the end of input, the writer is asked for its committables. Nothing is emitted. A task that ends
    before its input does aborts the writer, which removes what it wrote.
    State: the committables of no completed checkpoint. Each acknowledgement has all of them, since those of a checkpoint that is
    given up belong to the next one."""

    def __init__(self, spec: SinkSpec, context: OperatorContext, writer: SinkWriter) -> None:
        super().__init__(spec, context)
        self._writer = writer
        # Asked once: isinstance looks for each member of a protocol.
        self._takes_watermarks = writer if isinstance(writer, TakesWatermarks) else None
        self._writes_later = writer if isinstance(writer, WritesLater) else None
        self._nulls = NotNullEnforcer(spec, context)
        self._lengths = TypeLengthEnforcer(spec, context)
        self._counts_changes = isinstance(spec, ChangingSinkSpec) and spec.action.changes_rows
        self._count = context.count
        if self._counts_changes:
            # None is an answer too.
            self._count(ROWS_CHANGED, 0)
        self._is_finished = False
        self.committables: tuple[Committable, ...] = ()

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._counts_changes:
            self._count(ROWS_CHANGED, int(np.count_nonzero(row_kinds(batch) != RowKind.INSERT)))
        kept = self._nulls.enforce(batch)
        if kept.num_rows < batch.num_rows:
            self._count(FILTERED, batch.num_rows - kept.num_rows)
        written = self._lengths.enforce(kept)
        self._count(DONE, written.num_rows)
        self._writer.write(written)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self._takes_watermarks is not None:
            self._takes_watermarks.on_watermark(watermark_ms)
        return watermark_ms

    def next_processing_time_ms(self) -> int | None:
        return None if self._writes_later is None else self._writes_later.next_flush_ms()

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        due_ms = self.next_processing_time_ms()
        if self._writes_later is not None and due_ms is not None and due_ms <= now_ms:
            self._writes_later.flush()

    def prepare_commit(self, checkpoint_id: int) -> tuple[Committable, ...]:
        """Make durable what was written, and return all that no completed checkpoint has."""
        if not self._is_finished:
            self.committables += tuple(self._writer.prepare_commit(checkpoint_id))
        return self.committables

    def on_checkpoint_completed(self, checkpoint_id: int) -> None:
        self.committables = tuple(c for c in self.committables if c.checkpoint_id > checkpoint_id)

    def on_finish(self, output: Output) -> None:
        self.prepare_commit(LAST_CHECKPOINT_ID)
        self._is_finished = True

    def close(self) -> None:
        if not self._is_finished:
            self._writer.abort()
