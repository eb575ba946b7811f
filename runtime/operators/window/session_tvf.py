"""SESSION as a table function: rows with the bounds of their session."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.aggregates.partials import Partials, WholeRows
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.window.session_aggregate import SessionAggregate
from sqlstream.runtime.operators.window.windowing import window_batch
from sqlstream.schema import Schema
from sqlstream.specs.aggregate import WindowAggregateSpec
from sqlstream.specs.window import WindowTvfSpec


class SessionTvf(SessionAggregate):
    """Emits the rows of a session with its bounds when no later row can extend it, session by session as they end.

    State: the rows of open sessions. Late rows are dropped and counted.
    """

    def __init__(self, spec: WindowTvfSpec, context: OperatorContext) -> None:
        # An aggregation without calls, whose partials are the rows themselves.
        super().__init__(WindowAggregateSpec(spec.keys, (), spec.window, spec.time_column), context)

    def _made_form(self, schema: Schema) -> Partials:
        return WholeRows(schema)

    def _emit(self, columns: list[pa.Array], output: Output) -> None:
        found = self._sessions(columns)
        starts, ends = found.starts[found.sessions], found.ends[found.sessions]
        order = np.argsort(ends, kind="stable")
        chosen = to_array(pa.int64(), order)
        rows = [column.take(chosen) for column in columns[self._keys : -3]]
        output.emit(window_batch(self._schema, rows, starts[order], ends[order], self.clock))
