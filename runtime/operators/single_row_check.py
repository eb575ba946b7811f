"""Fails for rows of which a subquery, used as a value, keeps several rows."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import row_kinds, to_arrow_schema, with_row_kinds
from sqlstream.errors import InternalError
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.state.tables.row_multiset import Arrival
from sqlstream.runtime.update_pairs import filtered_kinds
from sqlstream.specs.single_row_check import SingleRowCheckSpec

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
