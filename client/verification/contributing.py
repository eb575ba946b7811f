"""Reads the rows of the tables that a differing row was made of."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream import config as options
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.client.statements.batch import compile_in_batch
from sqlstream.client.verification.outcome import ContributingTable, shown_rows
from sqlstream.client.verification.run import run_to_end
from sqlstream.errors import FailureReason, JobError, SqlStreamError
from sqlstream.expressions import AggregateCall, Call, InputRef, Literal, conjunction
from sqlstream.planner.bind.sink import collecting_sink
from sqlstream.planner.relational.node import EQUAL, Condition
from sqlstream.planner.relational.nodes import Aggregate, Filter, RelationalNode, Sink, Sort, TableScan
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, BOOLEAN, LogicalType, TypeRoot

if TYPE_CHECKING:
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.planner.bind.context import BindContext


ENGINE = "execution.batch.engine"
TABLES_MAX = 16
"""How many tables are read for one row; a plan that reads one table often may have many more scans."""

BYTES_MAX = 4 * 1024 * 1024
"""Rows of one table that are held for one key, and at least one of them."""

NO_KEY = "no column of the table follows from the row"
_NOT_COMPARED = frozenset(
    {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.NULL}
)  # fmt: skip
_NS_OF_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclasses.dataclass(frozen=True)
class ReadRows:
    """`is_whole`: the query has no other rows, which BYTES_MAX would have cut off."""

    rows: pa.RecordBatch
    is_whole: bool


class Tracer:
    """Finds the rows of the tables that contributed to a row of a result. No state."""

    def __init__(self, session: PlanningSession, context: BindContext, rows_max: int) -> None:
        """`rows_max` bounds the rows of each table; 0 finds none."""
        self._session = session
        # A reader of few rows: DuckDB is there at once.
        self._context = dataclasses.replace(context, config={**context.config, ENGINE: "duckdb"})
        self._rows_max = rows_max

    def inputs(
        self, sink: Sink, key: tuple[int, ...] | None, rows: pa.RecordBatch
    ) -> tuple[ContributingTable, ...]:
        """What the rows of one key were made of; `rows` has at least one, in the schema of `sink`."""
        if not self._rows_max:
            return ()
        columns = range(len(sink.schema)) if key is None else key
        values = {
            i: literal(rows.column(i)[0], sink.schema.types[i])
            for i in columns
            if sink.schema.types[i].root not in _NOT_COMPARED
        }
        conditions = key_conditions(sink.input.schema.types, values)
        return tuple(self._table(c) for c in contributing_rows(sink.input, conditions, TABLES_MAX))

    def _table(self, found: ContributingRows) -> ContributingTable:
        name = found.scan.table.path.name
        if not found.is_traced:
            return ContributingTable(name, not_traced=NO_KEY)
        try:
            return self._read(found.scan, found.conditions)
        except SqlStreamError as error:
            if isinstance(error, JobError) and error.reason is FailureReason.CANCELLED:
                raise
            return ContributingTable(name, not_traced=error.message)

    def _read(self, scan: Any, conditions: tuple[Condition, ...]) -> ContributingTable:
        """The rows of a scan where the conditions hold; those of the statement are left out where DuckDB lacks them."""
        of_key = tuple(c for c in conditions if c.is_of_key)
        try:
            return self._contributing(scan, conditions)
        except SqlStreamError as error:
            if error.code != "SS3301" or len(of_key) == len(conditions):
                raise
            return self._contributing(scan, of_key)

    def _contributing(self, scan: TableScan, conditions: tuple[Condition, ...]) -> ContributingTable:
        condition = conjunction([c.expression for c in conditions])
        assert condition is not None
        node = Filter(input=scan, condition=condition, schema=scan.schema)
        return self.contributing(node, scan.table.path.name)

    def read(self, node: RelationalNode) -> ReadRows:
        """The rows of a small query in batch."""
        sink = collecting_sink(node, self._context)
        plan = compile_in_batch((sink,), self._context, secrets.token_hex(16), self._session.files())
        graph = self._session.with_python_files(plan.job_graph, self._context)
        plan = dataclasses.replace(plan, job_graph=graph)
        kept: list[pa.RecordBatch] = []
        given = 0

        def keep(batch: pa.RecordBatch) -> None:
            nonlocal given
            given += batch.num_rows
            if (room := BYTES_MAX - sum(each.nbytes for each in kept)) > 0:
                kept.append(_fitting(batch, room))

        run_to_end(self._session.submit(plan), keep)
        rows = pa.Table.from_batches(kept, to_arrow_schema(sink.schema)).combine_chunks()
        whole = rows.to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)
        return ReadRows(whole, rows.num_rows == given)

    def contributing(self, node: RelationalNode, name: str) -> ContributingTable:
        """The first rows of a query over the table of this name, as texts."""
        read = self.read(Sort(input=node, order=(), fetch=self._rows_max + 1, schema=node.schema))
        schema = collecting_sink(node, self._context).schema
        time_zone = str(options.get(self._context.config, "table.local-time-zone"))
        shown = shown_rows(read.rows.slice(0, self._rows_max), schema, time_zone)
        return ContributingTable(name, shown, read.is_whole and read.rows.num_rows <= self._rows_max)

    def count(self, node: RelationalNode) -> int:
        """How many rows a query has."""
        counted = Aggregate(
            input=node,
            keys=(),
            calls=(AggregateCall("COUNT", (), sql.BIGINT.not_null()),),
            schema=Schema.of(("rows", sql.BIGINT.not_null())),
        )
        return int(self.read(counted).rows.column(0)[0].as_py())


def _fitting(batch: pa.RecordBatch, bytes_max: int) -> pa.RecordBatch:
    """The first rows of a batch, of about so many bytes, and at least one."""
    rows_max = max(1, bytes_max * batch.num_rows // max(1, batch.nbytes))
    return batch.slice(0, rows_max)


def literal(value: pa.Scalar, type: LogicalType) -> Literal:
    """A value of a result as a constant of the plan (see Literal for the encoding)."""
    plain = type.without_time_attribute()
    if not value.is_valid:
        return Literal(None, plain.with_nullable(True))
    return Literal(_encoded(value, plain), plain.not_null())


def _encoded(value: pa.Scalar, type: LogicalType) -> Any:
    match type.root:
        case TypeRoot.DECIMAL:
            return str(value.as_py())
        case TypeRoot.DATE | TypeRoot.TIME | TypeRoot.INTERVAL_DAY_TIME:
            return int(value.value)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanoseconds = int(value.value) * _NS_OF_UNIT[value.type.unit]
            return nanoseconds if abs(nanoseconds) < 2**63 else str(nanoseconds)
        case root if root in BINARY_ROOTS:
            return value.as_py().hex()
    return value.as_py()


# Which rows of the tables a row of a result was made of, as queries over these tables.
#
# A row of a result is known by the values of some of its columns. Each node hands conditions on its output down to
# its inputs as far as it can: those on grouping keys pass an aggregate, those on partition keys a Top-N, those on
# columns of one side a join (and its other side too, through an equality), and a window's bounds become bounds of
# time. What arrives at a scan selects the rows that contributed.


@dataclasses.dataclass(frozen=True)
class ContributingRows:
    """The rows of one scan that contribute, where `conditions` hold. Without any of the key they could not be told apart."""

    scan: TableScan
    conditions: tuple[Condition, ...]

    @property
    def is_traced(self) -> bool:
        return any(condition.is_of_key for condition in self.conditions)


def key_conditions(schema_types: tuple[sql.LogicalType, ...], values: dict[int, Literal]) -> list[Condition]:
    """Conditions on a result: its columns have these values."""
    return [
        Condition(Call(EQUAL, (InputRef(column, schema_types[column]), value), BOOLEAN.not_null()), True)
        for column, value in values.items()
    ]


def contributing_rows(
    node: RelationalNode, conditions: Iterable[Condition], seen_max: int
) -> tuple[ContributingRows, ...]:
    """What each scan below `node` contributes to the rows of its output where `conditions` hold. A table that is read several
    times occurs once for each different set of conditions, and at most `seen_max` in all, since a plan may be large as a tree."""
    found: dict[ContributingRows, None] = {}
    for each in _traced(node, tuple(dict.fromkeys(conditions))):
        found.setdefault(each)
        if len(found) >= seen_max:
            break
    return tuple(found)


def _traced(node: RelationalNode, conditions: tuple[Condition, ...]) -> Iterator[ContributingRows]:
    if isinstance(node, TableScan):
        yield ContributingRows(node, conditions)
        return
    for input, passed in zip(node.inputs, node.passed(conditions), strict=True):
        yield from _traced(input, tuple(dict.fromkeys(passed)))
