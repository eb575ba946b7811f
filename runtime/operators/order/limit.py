"""The first rows of a stream."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.specs.limit import LimitSpec


class Limit(Operator[LimitSpec]):
    """Emits `fetch` rows after `offset`, in order of arrival, and drops the others. State: the number of rows so far."""

    def __init__(self, spec: LimitSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        # One subtask counts the rows, whatever the parallelism of the job.
        self._seen = context.state.add(Broadcast("seen_rows", 0, max))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        start = max(self.spec.offset - self._seen.value, 0)
        stop = batch.num_rows
        if self.spec.fetch >= 0:
            stop = min(stop, self.spec.offset + self.spec.fetch - self._seen.value)
        self._seen.value += batch.num_rows
        if stop > start:
            output.emit(batch.slice(start, stop - start))
