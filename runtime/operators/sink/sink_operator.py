"""The sink as an operator of a chain: rows go to the connector's writer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.sink.not_null_enforcer import NotNullEnforcer
from sqlstream.runtime.operators.sink.type_length_enforcer import TypeLengthEnforcer
from sqlstream.specs import ChangingSinkSpec, SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import SinkWriter, TakesWatermarks

ROWS_CHANGED = "numRowsChanged"


class SinkOperator(Operator[SinkSpec]):
    """Writes the rows that pass the checks of NOT NULL and of lengths, counts those that an UPDATE or DELETE changes, and at each
    checkpoint, the end of input being the last, asks the writer for its committables.

    Emits nothing. A task that ends before its input does aborts the writer, which removes what it wrote.
    State: the committables of no completed checkpoint. Each acknowledgement has all of them, since those of a checkpoint that is
    given up belong to the next one."""

    def __init__(self, spec: SinkSpec, context: OperatorContext, writer: SinkWriter) -> None:
        super().__init__(spec, context)
        self._writer = writer
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
        self._writer.write(self._lengths.enforce(self._nulls.enforce(batch)))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if isinstance(self._writer, TakesWatermarks):
            self._writer.on_watermark(watermark_ms)
        return watermark_ms

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
