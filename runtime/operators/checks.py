"""Operators that pass rows on and fail the job for some: a second row of a subquery, a second change of a key."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import config
from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema, with_row_kinds
from sqlstream.errors import InternalError, UserError
from sqlstream.options.checkpointing_options import is_at_least_once
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.formats.file_rows import quoted
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.runtime.state.tables.row_multiset import Arrival
from sqlstream.runtime.update_pairs import filtered_kinds
from sqlstream.specs.calc import SingleRowCheckSpec
from sqlstream.specs.sink import ConflictCheckSpec

LOOK_MS = 1_000
LOOKS = 10
"""A row that an endless input leaves held back for so many intervals stays. They are counted, not measured: a machine that has
slept, or a task that took no input, has brought no retraction either."""


class SingleRowCheck(Operator[SingleRowCheckSpec]):
    """Holds rows back while the subquery has several rows for them; half an update that passes is a -D or a +I.

    State: the rows that are held back, and retractions that wait for theirs, dropped `state_ttl_ms` after the last change of
    their key; since which look they are held back is not saved.
    """

    def __init__(self, spec: SingleRowCheckSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        self._has_several = Program((spec.has_several,), evaluation)
        self._checks = Program(spec.checks, evaluation)
        self._held = context.state.add(
            KeyedMultiset(
                "rows",
                to_arrow_schema(context.input_schemas[0]),
                spec.distribution,
                context.state.scope,
                list_length=0,
                ttl_ms=spec.state_ttl_ms,
                arrival=Arrival.SINCE,
            )
        )
        # Rows that came before a number have been there at that look.
        self._looks: deque[int] = deque()
        self._next_look_ms: int | None = None

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        (several,) = self._has_several.run(batch.columns, batch.num_rows)
        is_kept = ~pc.fill_null(several, False).to_numpy(zero_copy_only=False)
        if is_kept.all():
            output.emit(batch)
            return
        keys, rows = self._held.apply(batch.filter(pa.array(~is_kept)))
        self._held.writing(np.unique(keys))
        self._held.sweep(rows)
        kinds = filtered_kinds(row_kinds(batch), is_kept)
        output.emit(with_row_kinds(batch, kinds).filter(pa.array(is_kept)))

    def next_processing_time_ms(self) -> int | None:
        if self.spec.is_bounded or not self._held.rows.row_count:
            self._looks.clear()
            self._next_look_ms = None
        elif self._next_look_ms is None:
            self._next_look_ms = self.context.now_ms() + LOOK_MS
        return self._next_look_ms

    def on_held_back(self, now_ms: int) -> None:
        if self._next_look_ms is not None:
            self._next_look_ms = now_ms + LOOK_MS

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        due_ms = self.next_processing_time_ms()
        if due_ms is None or now_ms < due_ms:
            return
        self._next_look_ms = now_ms + LOOK_MS
        self._looks.append(self._held.rows.next_sequence)
        if len(self._looks) > LOOKS:
            self._fail_for_rows_before(self._looks.popleft())

    def on_finish(self, output: Output) -> None:
        self._fail_for_rows_before(self._held.rows.next_sequence)

    def _fail_for_rows_before(self, sequence: int) -> None:
        slots = self._held.rows.slots()
        slots = slots[(self._held.rows.counts[slots] > 0) & (self._held.rows.sequence[slots] < sequence)]
        if len(slots):
            self._checks.run(self._held.rows.take(slots).columns, len(slots))
            raise InternalError("no check fails for rows that are held back")


class ConflictCheck(Operator[ConflictCheckSpec]):
    """Counts the rows of each key.

    State: the number of rows of each key that has any, dropped `state_ttl_ms` after its last change; from that follows which keys
    have several.
    """

    def __init__(self, spec: ConflictCheckSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = to_arrow_schema(context.input_schemas[0])
        keys = pa.schema([schema.field(key) for key in spec.keys])
        self._rows = NumberColumn("row_count", pa.int64())
        self._counts = context.state.add(
            KeyedTable("keys", keys, [self._rows], context.state.scope, ttl_ms=spec.state_ttl_ms)
        )
        self._several: set[int] = set()
        # A barrier that passes rows, or waits for none, may come before the deletion of the other row.
        is_unaligned = config.get(context.config, "execution.checkpointing.unaligned.enabled")
        self._waits = not is_unaligned and not is_at_least_once(context.config)

    def on_restored(self) -> None:
        slots = self._counts.slots()
        self._several = set(slots[self._rows.values[slots] > 1].tolist())

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        keys = [batch.column(key) for key in self.spec.keys]
        groups, first_rows = batch_groups(keys, batch.num_rows)
        signs = signs_of(row_kinds(batch))
        changes = np.bincount(groups, weights=signs, minlength=len(first_rows)).astype(np.int64)
        chosen = to_array(pa.int64(), first_rows)
        slots, _ = self._counts.get_or_create([key.take(chosen) for key in keys])
        self._counts.writing(slots)
        counts = self._rows.values[slots] + changes
        self._rows.values[slots] = counts
        self._note(slots, counts)
        output.emit(batch)

    def _note(self, slots: Array, counts: Array) -> None:
        if self._several:
            self._several.difference_update(slots[counts <= 1].tolist())
        self._several.update(slots[counts > 1].tolist())
        # A deletion that came first has a negative count, and waits for its row.
        self._counts.forget(slots[counts == 0])

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._check()
        return watermark_ms

    def prepare_snapshot(self, output: Output) -> None:
        if self._waits:
            self._check()

    def on_finish(self, output: Output) -> None:
        self._check()

    def _check(self) -> None:
        if not self._several:
            return
        slots = np.array(sorted(self._several), dtype=np.int64)
        # What has expired meanwhile is no row any more.
        live = self._counts.slots()
        slots = slots[np.isin(slots, live)]
        slots = slots[self._rows.values[slots] > 1]
        self._several = set(slots.tolist())
        if len(slots):
            names = [self.context.input_schemas[0].names[key] for key in self.spec.keys]
            values = [quoted(column[0].as_py()) for column in self._counts.keys(slots[:1])]
            said = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
            raise UserError(
                "SS5081",
                f'{int(self._rows.values[slots[0]])} rows have the primary key {said} of table "{self.spec.table}"',
            )
