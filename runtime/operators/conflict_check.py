"""Fails for rows that have one primary key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream import config
from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.checkpointing_options import is_at_least_once
from sqlstream.errors import UserError
from sqlstream.runtime.formats.rejection import quoted
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.batch_groups import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.conflict_check import ConflictCheckSpec


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
        signs = np.where(is_accumulate(row_kinds(batch)), 1, -1)
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
                hint="write ON CONFLICT DO DEDUPLICATE or DO NOTHING to keep one of them, or a query with one row per key",
            )
