"""What tests of batch engines share: plans over small tables, and a run that keeps what an engine gives."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import BatchOutput, BatchPlan, BatchTable
from sqlstream.runtime.batch.casting import cast_batch
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable
from sqlstream.types import BIGINT

NUMBERS = Schema.of(("n", BIGINT))


def numbers(last: int, name: str = "t0", rows_per_second: int = 1_000_000_000) -> BatchTable:
    """A table with the numbers from 1 to `last`."""
    options = {
        "connector": "datagen",
        "number-of-rows": str(last),
        "rows-per-second": str(rows_per_second),
        "fields.n.kind": "sequence",
        "fields.n.start": "1",
        "fields.n.end": str(last),
    }
    return BatchTable(name, SourceSpec("numbers", "datagen", options, NUMBERS, ("n",)))


def plan(
    sql: str,
    schema: Schema,
    *tables: BatchTable,
    engine: str = "duckdb",
    config: dict[str, str] | None = None,
    sink: SinkSpec | None = None,
    job_id: str = "job",
) -> BatchPlan:
    return BatchPlan(job_id, "query", engine, tables, (BatchOutput(sql, schema, sink),), config or {})


class KeptRun:
    """Implements `BatchRun`: keeps rows and figures. State: what was given, and whether the run is cancelled."""

    def __init__(self, plan: BatchPlan, on_emit: Callable[[], None] = lambda: None) -> None:
        self._schemas = [to_arrow_schema(output.schema) for output in plan.outputs]
        self._on_emit = on_emit
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self.batches: list[list[pa.RecordBatch]] = [[] for _ in plan.outputs]
        self.committables: list[list[Committable]] = [[] for _ in plan.outputs]
        self.counts: Counter[tuple[str, str]] = Counter()
        self.progress: list[tuple[int, int]] = []
        self.states: list[str] = []
        self.lines: list[str] = []
        self.files = LocalFiles()
        self.attempt = "attempt-0"

    def rows(self, output: int = 0) -> list[tuple[Any, ...]]:
        table = pa.Table.from_batches(self.batches[output], self._schemas[output])
        return list(zip(*(c.to_pylist() for c in table.columns), strict=True))

    def cancel(self) -> None:
        self._cancelled.set()

    def emit(self, output: int, batch: pa.RecordBatch) -> None:
        if self._cancelled.is_set():
            raise BatchCancelled
        with self._lock:
            self.batches[output].append(cast_batch(batch, self._schemas[output]))
        self._on_emit()

    def written(self, output: int, committables: list[Committable]) -> None:
        with self._lock:
            self.committables[output] += committables

    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def report(self, done: int, total: int) -> None:
        self.progress.append((done, total))

    def state(self, words: str) -> None:
        self.states.append(words)

    def count(self, table: str, metric: str, n: int) -> None:
        with self._lock:
            self.counts[table, metric] += n

    def blame(self, table: str) -> None:
        self.blamed = table

    def print_lines(self, lines: list[str], is_error: bool) -> None:
        self.lines += lines
