"""The first rows of a stream."""

from __future__ import annotations

import pyarrow as pa

from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.state.snapshot import OperatorSnapshot
from sqlstream.specs.calc import LimitSpec


class Limit(Operator[LimitSpec]):
    """Emits `fetch` rows after `offset`, in order of arrival, and drops the others. State: the number of rows so far."""

    def __init__(self, spec: LimitSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._seen = 0

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        start = max(self.spec.offset - self._seen, 0)
        stop = batch.num_rows
        if self.spec.fetch >= 0:
            stop = min(stop, self.spec.offset + self.spec.fetch - self._seen)
        self._seen += batch.num_rows
        if stop > start:
            output.emit(batch.slice(start, stop - start))

    def snapshot(self) -> OperatorSnapshot:
        return OperatorSnapshot(shared={"seen": pa.table({"rows": pa.array([self._seen], pa.int64())})})

    def restore(self, snapshot: OperatorSnapshot) -> None:
        self._seen = sum(snapshot.shared["seen"].column("rows").to_pylist())
