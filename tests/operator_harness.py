"""Run one operator on literal rows and read back literal rows: the test bench of every operator.

    context = operator_context([input_schema], output_schema)
    output = run_operator(spec, context, [batch(input_schema, rows), Watermark(5_000), …])
    assert output.rows == [...]        # every row, in order; a changelog's rows start with "+I", "-U", …
    assert output.table() == {...}     # the final table, as a multiset (collections.Counter)

Inputs are batches, lists of rows, `Watermark`, `WatermarkStatus`, `EndOfInput`; for two inputs wrap each in
`(input_index, item)`. Values are plain Python; timestamps are ints in the column's own unit, DATE days,
DECIMAL `decimal.Decimal`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.elements import WATERMARK_MAX, EndOfInput, Watermark, WatermarkStatus
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.deferred_rows import DeferredRows, RowsOfBatch
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.runtime.taskmanager.mailbox import next_due_ms
from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec

Row = tuple[Any, ...]
_KINDS = {kind.symbol: int(kind) for kind in RowKind}


class Collected:
    """An `Output` that keeps all it gets: `elements` are batches, `Watermark` and `WatermarkStatus`."""

    def __init__(self) -> None:
        self.elements: list[pa.RecordBatch | Watermark | WatermarkStatus] = []

    def emit(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            batch.validate(full=True)
            self.elements.append(batch)

    splits_rows = False

    def emit_rows(self, batch: pa.RecordBatch, rows: Any) -> None:
        self.emit(batch.take(pa.array(rows)))

    def emit_deferred(self, rows: DeferredRows) -> None:
        self.emit(rows.batch())

    def emit_watermark(self, timestamp_ms: int) -> None:
        self.elements.append(Watermark(timestamp_ms))

    def emit_idle(self, is_idle: bool) -> None:
        self.elements.append(WatermarkStatus(is_idle))

    @property
    def batches(self) -> list[pa.RecordBatch]:
        return [e for e in self.elements if isinstance(e, pa.RecordBatch)]

    @property
    def watermarks(self) -> list[int]:
        return [e.timestamp_ms for e in self.elements if isinstance(e, Watermark)]

    @property
    def rows(self) -> list[Row]:
        return [row for b in self.batches for row in rows_of(b)]

    def table(self, key: Sequence[int] | None = None, *, has_pairs: bool = True) -> Counter[Row]:
        """The table that the changelog describes, as `final_table` folds it."""
        return final_table(self.batches, key, has_pairs=has_pairs)

    def upserted(self, key: Sequence[int]) -> dict[Row, Row]:
        """The table that an upsert changelog describes, by key columns. A +I of a key that is there, a +U or -D of one that is
        not, and any -U are errors."""
        table: dict[Row, Row] = {}
        for kind, row in kinds_and_rows(self.batches):
            place = tuple(row[k] for k in key)
            assert kind is not RowKind.UPDATE_BEFORE, f"-U in an upsert changelog: {row}"
            assert (place in table) is not (kind is RowKind.INSERT), f"{kind.symbol} of {row} after {table}"
            if kind is RowKind.DELETE:
                del table[place]
            else:
                table[place] = row
        return table


def column_of(values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    """An Arrow column of plain values; temporal types take ints."""
    values = list(values)
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return pa.array(values, pa.int64()).cast(type_)
    if pa.types.is_date32(type_) or pa.types.is_time32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    return pa.array(values, type_)


def values_of(column: pa.Array) -> list[Any]:
    """The inverse of `column_of`."""
    t = column.type
    if pa.types.is_timestamp(t) or pa.types.is_duration(t):
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Rows as tuples; of a changelog batch, with the kind's symbol first."""
    columns = [values_of(c) for c in without_row_kinds(batch).columns]
    if is_changelog(batch):
        columns.insert(0, [RowKind(k).symbol for k in row_kinds(batch)])
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def batch(
    schema: Schema, rows: Sequence[Row], mode: ChangelogMode = ChangelogMode.INSERT_ONLY
) -> pa.RecordBatch:
    """A batch of literal rows. Unless `mode` is INSERT_ONLY each row starts with its kind's symbol."""
    arrow = to_arrow_schema(schema, mode)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(arrow)
    if not mode.is_insert_only:
        kinds = [_KINDS[k] for k in columns[0]]
        columns = [*columns[1:], tuple(kinds)]
    arrays = [column_of(values, field.type) for values, field in zip(columns, arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def kinds_and_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[RowKind, Row]]:
    """Every row of a changelog with its kind."""
    for b in batches:
        kinds = [RowKind(kind) for kind in row_kinds(b)]
        yield from zip(kinds, rows_of(without_row_kinds(b)), strict=True)


def final_table(
    batches: Iterable[pa.RecordBatch], key: Sequence[int] | None = None, *, has_pairs: bool = True
) -> Counter[Row]:
    """Fold a changelog into the multiset of its rows. A -U or -D of a row that is not there is an error.

    Checks also that a -U stands directly before its +U in the same batch. `has_pairs=False` turns this off, for operators that
    may emit one side of an update alone, or rows between the two. With `key`, which is unique, it checks that an update does not
    change the key, and that no +I follows a -D of its key in the same batch: that is an update, to be emitted as -U and +U.
    """
    table: Counter[Row] = Counter()
    for b in batches:
        before: tuple[RowKind, Row] | None = None
        gone: set[Row] = set()
        for kind, row in kinds_and_rows([b]):
            is_update = before is not None and before[0] is RowKind.UPDATE_BEFORE
            if has_pairs:
                assert is_update is (kind is RowKind.UPDATE_AFTER), f"{kind.symbol}{row} after {before}"
            if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                table[row] += 1
            else:
                assert table[row] > 0, f"{kind.symbol} of a row that is not there: {row}"
                table[row] -= 1
            if key is not None:
                place = tuple(row[k] for k in key)
                if is_update and before is not None:
                    assert place == tuple(before[1][k] for k in key), f"+U{row} after {before}"
                assert kind is not RowKind.INSERT or place not in gone, f"+I{row} after its -D"
                if kind is RowKind.DELETE:
                    gone.add(place)
            before = kind, row
        if has_pairs:
            assert before is None or before[0] is not RowKind.UPDATE_BEFORE, f"{before} ends its batch"
    return +table


class ManualClock:
    """A clock that tests set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def operator_context(
    input_schemas: Sequence[Schema],
    output_schema: Schema,
    *,
    input_modes: Sequence[ChangelogMode] | None = None,
    output_mode: ChangelogMode = ChangelogMode.INSERT_ONLY,
    **others: Any,
) -> OperatorContext:
    """A context; modes default to INSERT_ONLY, `others` are further fields of OperatorContext."""
    modes = (
        tuple(input_modes) if input_modes is not None else (ChangelogMode.INSERT_ONLY,) * len(input_schemas)
    )
    return OperatorContext(tuple(input_schemas), modes, output_schema, output_mode, **others)


@dataclasses.dataclass(frozen=True)
class Clock:
    """An item of the input: the clock moves here, and processing-time work that is due is done."""

    now_ms: int


def feed(operator: Operator[Any], items: Iterable[Any], output: Collected) -> None:
    """Hand items to an operator as a task would. What `on_watermark` returns comes after what it emitted."""
    for item in items:
        index, element = (
            item if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], int) else (0, item)
        )
        _feed_one(operator, index, element, output)


def _feed_one(operator: Operator[Any], index: int, element: Any, output: Collected) -> None:
    context = operator.context
    if isinstance(element, list):
        element = batch(context.input_schemas[index], element, context.input_modes[index])
    if isinstance(element, pa.RecordBatch):
        context.state.expire()
        # What comes from a join, of which an operator reads what it needs.
        if len(context.input_schemas) == 1 and not is_changelog(element) and element.num_rows % 2 == 0:
            operator.on_deferred(deferred(element), output)
        else:
            operator.on_batch(element, index, output)
    elif isinstance(element, Watermark) and index == operator.side_input:
        operator.on_side_watermark(element.timestamp_ms, output)
    elif isinstance(element, Watermark):
        handed_on = operator.on_watermark(element.timestamp_ms, output)
        if handed_on is not None:
            output.emit_watermark(handed_on)
    elif isinstance(element, WatermarkStatus):
        status = operator.on_idle(element.is_idle, output)
        if status is not None:
            output.emit_idle(status)
    elif isinstance(element, Clock):
        _advance_clock(operator, element.now_ms, output)
    elif isinstance(element, EndOfInput):
        operator.on_end_of_input(index, output)
    else:
        raise TypeError(f"not an element: {element!r}")


def deferred(batch: pa.RecordBatch) -> DeferredRows:
    """The rows of a batch, one part for each column, as rows that an operator hands over without building them."""
    parts = [(RowsOfBatch(batch.select([n]), np.arange(batch.num_rows)), 1) for n in range(batch.num_columns)]
    return DeferredRows(batch.schema, batch.num_rows, parts)


def _advance_clock(operator: Operator[Any], now_ms: int, output: Collected) -> None:
    """Move the context's ManualClock and call the timers that are due, earliest first."""
    clock = operator.context.now_ms
    assert isinstance(clock, ManualClock), "give the context now_ms=ManualClock()"
    while (due := next_due_ms(operator)) is not None and due <= now_ms:
        clock.now_ms = max(clock.now_ms, due)
        operator.context.state.expire()
        operator.on_processing_time(clock.now_ms, output)
    clock.now_ms = now_ms


def finish(operator: Operator[Any], output: Collected) -> None:
    """End every input as a task does at the end of bounded input."""
    for index in range(len(operator.context.input_schemas)):
        if index == operator.side_input:
            operator.on_side_watermark(WATERMARK_MAX, output)
        operator.on_end_of_input(index, output)
    _feed_one(operator, 0, Watermark(WATERMARK_MAX), output)
    operator.context.state.expire()
    operator.on_processing_time(operator.context.now_ms(), output)
    operator.on_finish(output)
    operator.close()


def run_operator(
    spec: OperatorSpec, context: OperatorContext, items: Iterable[Any], *, ends: bool = True
) -> Collected:
    """A fresh operator over the whole input; `ends=False` leaves the input open."""
    operator, output = make_operator(spec, context), Collected()
    feed(operator, items, output)
    if ends:
        finish(operator, output)
    return output


def restore(operator: Operator[Any], snapshot: OperatorSnapshot) -> None:
    """Give a fresh operator its state, as a chain does."""
    operator.context.state.restore(snapshot)
    operator.on_restored()


def restored(
    spec: OperatorSpec,
    context: OperatorContext,
    snapshots: Sequence[OperatorSnapshot],
    subtask: int,
    parallelism: int,
) -> Operator[Any]:
    """A fresh operator for one of `parallelism` subtasks, with its key groups out of all old snapshots."""
    context = dataclasses.replace(context, subtask=subtask, parallelism=parallelism)
    operator = make_operator(spec, context)
    restore(operator, share_of(snapshots, subtask, parallelism, context.max_parallelism))
    return operator


def share_of(
    snapshots: Sequence[OperatorSnapshot], subtask: int, parallelism: int, max_parallelism: int
) -> OperatorSnapshot:
    """What one of `parallelism` subtasks restores of the snapshots of all old subtasks."""
    low = -(-subtask * max_parallelism // parallelism)
    high = -(-(subtask + 1) * max_parallelism // parallelism)
    keyed = {
        name: _key_groups(t, low, high) for name, t in _concatenated([s.keyed for s in snapshots]).items()
    }
    return OperatorSnapshot(keyed, _concatenated([s.shared for s in snapshots]))


def _concatenated(parts: Sequence[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    names = dict.fromkeys(name for p in parts for name in p)
    return {name: pa.concat_tables([p[name] for p in parts if name in p]) for name in names}


def _key_groups(table: pa.Table, low: int, high: int) -> pa.Table:
    groups = table.column(KEY_GROUP_COLUMN).to_numpy()
    return table.filter(pa.array((groups >= low) & (groups < high)))


__all__ = [
    "Clock",
    "Collected",
    "ManualClock",
    "batch",
    "column_of",
    "deferred",
    "feed",
    "final_table",
    "finish",
    "kinds_and_rows",
    "operator_context",
    "restore",
    "restored",
    "rows_of",
    "run_operator",
    "share_of",
    "values_of",
]
