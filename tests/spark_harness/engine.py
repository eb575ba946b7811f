"""The SparkEngine of this process, and runs of hand-written plans on it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_harness.processes import FAST_JVM
from sqlstream import types as sql
from sqlstream.batch_plan import BatchOutput, BatchPlan, BatchTable
from sqlstream.runtime.batch import engine
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.engine import SparkEngine
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.random import random_id
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.spi.committable import Committable

SMALL = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": FAST_JVM,
    "spark.sql.shuffle.partitions": "4",
}


def spark_engine() -> SparkEngine:
    """That of the product, so that a process has one Spark at most: started at the first use, ended with the process."""
    found = engine.batch_engine("spark")
    assert isinstance(found, SparkEngine)
    return found


def end_spark() -> None:
    """End the Spark of this process, for a test that starts one by itself."""
    found = engine._made.pop("spark", None)
    if found is not None:
        found.close()


class RecordedRun:
    """A `BatchRun` that keeps what the engine reports; `emit` calls `on_batch` first."""

    def __init__(
        self, on_batch: Callable[[pa.RecordBatch], None] = lambda batch: None, keeps_rows: bool = True
    ) -> None:
        self.row_count = 0
        self.batches: list[pa.RecordBatch] = []
        self.committables: list[Committable] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.states: list[str] = []
        self.reports: list[tuple[int, int]] = []
        self.lines: list[str] = []
        self.cancelled = threading.Event()
        self.files: Any = LocalFiles()
        self.attempt = random_id()[:8]
        self._on_batch = on_batch
        self._keeps_rows = keeps_rows

    def emit(self, output: int, batch: pa.RecordBatch) -> None:
        if self.cancelled.is_set():
            raise BatchCancelled
        self._on_batch(batch)
        self.row_count += batch.num_rows
        if self._keeps_rows:
            self.batches.append(batch)

    def written(self, output: int, committables: list[Committable]) -> None:
        self.committables += committables

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()

    def report(self, done: int, total: int) -> None:
        self.reports.append((done, total))

    def state(self, words: str) -> None:
        self.states.append(words)

    def count(self, table: str, metric: str, n: int) -> None:
        self.counts[table, metric] += n

    def blame(self, table: str) -> None:
        self.blamed = table

    def print_lines(self, lines: list[str], is_error: bool) -> None:
        self.lines += lines

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for b in self.batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def file_table(name: str, path: str, schema: Schema, file_format: str = "csv", **options: str) -> BatchTable:
    source = SourceSpec(
        table="t",
        connector="filesystem",
        options={"path": path, "format": file_format, "source.rejected-rows.path": "", **options},
        schema=schema,
        columns=schema.names,
    )
    return BatchTable(name, source)


def datagen_table(name: str, rows: int, schema: Schema, **options: str) -> BatchTable:
    source = SourceSpec(
        table="t",
        connector="datagen",
        options={"number-of-rows": str(rows), "rows-per-second": "1000000000", **options},
        schema=schema,
        columns=schema.names,
    )
    return BatchTable(name, source)


def file_sink(path: str, schema: Schema, file_format: str = "csv") -> SinkSpec:
    return SinkSpec("out", "filesystem", {"path": path, "format": file_format}, schema)


def plan_of(
    query: str,
    *tables: BatchTable,
    schema: Schema | None = None,
    sink: SinkSpec | None = None,
    config: dict[str, str] | None = None,
    functions: tuple[HostedFunction, ...] = (),
) -> BatchPlan:
    output = BatchOutput(query, schema or Schema.of(("n", sql.BIGINT)), sink)
    return BatchPlan(random_id(), "test", "spark", tables, (output,), config or SMALL, functions)
