"""Reads what a batch engine makes of the history of a table, from the row on that a checkpoint has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import BatchOutput, BatchPlan, BatchTable, table_names
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.runtime.batch.engine import batch_engine
from sqlstream.runtime.batch.query_reader import BatchQueryReader
from sqlstream.runtime.taskmanager.metrics import OperatorCounters
from sqlstream.schema import Field, Schema
from sqlstream.specs import BackfillSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.types import timestamp

ENGINE = "duckdb"


class HistoryCounters(OperatorCounters):
    """The figures of the tables of a history, of which those that have a name of their own are the operator's."""

    def __init__(self, count: Callable[[str, int], None]) -> None:
        super().__init__()
        self._count = count

    def count(self, name: str, n: int) -> None:
        self._count(name, n)


class BackfillReader:
    """Implements `SourceReader` with the rows of a BackfillSpec; `positions` are snapshots of the readers before.

    State: the number of the rows that were polled. The engine gives them in one order, so a reader that goes on reads the history
    again, and leaves out as many."""

    def __init__(
        self, operator: ChainedOperator, context: ConnectorContext, positions: Iterable[dict[str, Any]]
    ) -> None:
        spec = operator.spec
        assert isinstance(spec, BackfillSpec)
        self._schema = to_arrow_schema(operator.output_schema)
        self._times = frozenset(spec.times)
        self._polled = sum(position["rows"] for position in positions)
        self._left_out = self._polled
        plan = _plan(spec, operator.output_schema, context)
        counters = HistoryCounters(context.count)
        self._query = BatchQueryReader(
            plan,
            batch_engine(ENGINE),
            plan.job_id,
            context.files,
            context.print_lines,
            {**{table.name: counters for table in plan.tables}, "query": OperatorCounters()},
        )

    def poll(self) -> pa.RecordBatch | SourceStatus:
        polled = self._query.poll()
        if isinstance(polled, SourceStatus):
            return polled
        known = min(self._left_out, polled.num_rows)
        self._left_out -= known
        if known == polled.num_rows:
            return SourceStatus.NOTHING_YET
        self._polled += polled.num_rows - known
        columns = [
            column.cast(pa.int64()) if i in self._times else column
            for i, column in enumerate(polled.slice(known).columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"rows": self._polled}]

    def close(self) -> None:
        self._query.close()


def _plan(spec: BackfillSpec, schema: Schema, context: ConnectorContext) -> BatchPlan:
    """A run of its own for each attempt: another one of the job may be cancelled meanwhile."""
    name = "".join(c if c.isalnum() else "-" for c in context.writer_name)
    time = timestamp(3).not_null()
    fields = (Field(f.name, time) if i in spec.times else f for i, f in enumerate(schema.fields))
    names = table_names(len(spec.sources))
    tables = tuple(
        BatchTable(name, source, name in spec.shared, name in spec.changes)
        for name, source in zip(names, spec.sources, strict=True)
    )
    output = BatchOutput(spec.sql, Schema(tuple(fields)))
    return BatchPlan(
        name, f"history of {spec.table}", ENGINE, tables, (output,), dict(context.config), spec.functions
    )
