"""Reads rows of the looked-up table: tries again where that can help, then filters and projects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError, Retry
from sqlstream.runtime.evaluate import EvaluationContext, compile_condition
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import LookupJoinSpec
from sqlstream.spi.connector import LookupSource

logger = logging.getLogger(__name__)
T = TypeVar("T")

PAUSE_MS = 200
"""Before the first retry of a failed lookup; every further pause is twice as long, up to PAUSE_MAX_MS."""
PAUSE_MAX_MS = 5_000


class Fetcher:
    """The rows of `source` as the join sees them. A lookup that fails is tried again `max_retries` times; keys without rows are
    looked up again as the hint LOOKUP says. The task waits meanwhile. No state.

    Counts `loadCount` and `numLoadFailures`."""

    def __init__(
        self, spec: LookupJoinSpec, context: OperatorContext, source: LookupSource, max_retries: int
    ) -> None:
        self._spec = spec
        self._context = context
        self._source = source
        self._max_retries = max_retries
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        read = Schema(_fields(spec))
        self._read = to_arrow_schema(read)
        self._condition = (
            None
            if spec.source_condition is None
            else compile_condition(spec.source_condition, read, evaluation)
        )
        self._projections = Program(spec.projections, evaluation)
        self.schema = to_arrow_schema(spec.right_schema)

    def look_up(self, keys: Sequence[pa.Array]) -> pa.RecordBatch:
        """The rows of these distinct keys, which have no NULL."""
        fetched = self._look_up(keys)
        if self._spec.retry is not None:
            fetched = self._with_late_rows(fetched, keys)
        return self._projected(fetched)

    def load(self, rows_max: int) -> pa.RecordBatch:
        """All rows of the table."""
        return self._projected(self._tried(lambda: self._source.load(rows_max)))

    def close(self) -> None:
        self._source.close()

    def _look_up(self, keys: Sequence[pa.Array]) -> pa.RecordBatch:
        columns = [self._read.field(c) for c in self._spec.source_keys]
        asked = pa.RecordBatch.from_arrays(
            [k if k.type == f.type else k.cast(f.type) for k, f in zip(keys, columns, strict=True)],
            names=[f.name for f in columns],
        )
        return self._tried(lambda: self._source.lookup(asked))

    def _with_late_rows(self, fetched: pa.RecordBatch, keys: Sequence[pa.Array]) -> pa.RecordBatch:
        retry = self._spec.retry
        assert retry is not None
        parts = [fetched]
        for _ in range(retry.attempts_max):
            missing = self._missing(parts[-1], keys)
            if len(missing) == 0:
                break
            chosen = to_array(pa.int64(), missing)
            keys = [k.take(chosen) for k in keys]
            self._context.pause_ms(retry.delay_ms)
            parts.append(self._look_up(keys))
        return pa.concat_batches(parts) if len(parts) > 1 else fetched

    def _missing(self, fetched: pa.RecordBatch, keys: Sequence[pa.Array]) -> np.ndarray:
        """The positions of the keys that have no row."""
        columns = [fetched.column(c) for c in self._spec.source_keys]
        index = KeyIndex([column.type for column in columns])
        index.get_or_insert(columns)
        return np.flatnonzero(index.get(keys) < 0)

    def _tried(self, read: Callable[[], T]) -> T:
        pause_ms = PAUSE_MS
        for attempt in range(self._max_retries + 1):
            try:
                self._context.count("loadCount", 1)
                return read()
            except ExternalError as error:
                self._context.count("numLoadFailures", 1)
                if error.retry is Retry.NEVER or attempt == self._max_retries:
                    raise
                logger.warning("a lookup failed and is tried again in %d ms: %s", pause_ms, error.message)
            self._context.pause_ms(pause_ms)
            pause_ms = min(2 * pause_ms, PAUSE_MAX_MS)
        raise AssertionError("unreachable")

    def _projected(self, fetched: pa.RecordBatch) -> pa.RecordBatch:
        columns, rows = fetched.columns, fetched.num_rows
        if self._condition is not None and rows:
            mask = self._condition(fetched)
            if mask.true_count < rows:
                rows = mask.true_count
                columns = [column.filter(mask) for column in columns]
        return pa.RecordBatch.from_arrays(self._projections.run(columns, rows), schema=self.schema)


def _fields(spec: LookupJoinSpec) -> tuple[Field, ...]:
    """The columns that the source reads, with their types."""
    types = dict(zip(spec.source.schema.names, spec.source.schema.fields, strict=True))
    return tuple(types[name] for name in spec.source.columns) + spec.source.metadata
