"""A table in memory that can be looked up: it counts its queries, changes, and fails when a test says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from operator_harness import Row, batch, rows_of

from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.expressions import Expression, InputRef
from sqlstream.runtime.operators.join.lookup_join import LookupJoin
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, LookupJoinSpec, SourceSpec


class ListTable:
    """Implements `LookupSource` over a list of rows, one at a time. State: the rows, and the keys that were asked for."""

    def __init__(self, schema: Schema, keys: Sequence[int], rows: Sequence[Row]) -> None:
        self.schema = schema
        self.keys = tuple(keys)
        self.rows = list(rows)
        self.asked: list[list[Row]] = []
        self.loads = 0
        self.failures: list[Exception] = []
        self.is_closed = False

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        asked = rows_of(keys)
        assert len(set(asked)) == len(asked)
        assert all(None not in key for key in asked)
        self.asked.append(asked)
        if self.failures:
            raise self.failures.pop(0)
        return batch(self.schema, [r for r in self.rows if tuple(r[k] for k in self.keys) in set(asked)])

    def load(self, rows_max: int) -> pa.RecordBatch:
        self.loads += 1
        if self.failures:
            raise self.failures.pop(0)
        if len(self.rows) > rows_max:
            raise UserError("SS5064", "too many rows")
        return batch(self.schema, self.rows)

    def close(self) -> None:
        self.is_closed = True


def locked() -> ExternalError:
    return ExternalError("SS5061", "the database is locked", retry=Retry.BACKOFF)


def lookup_spec(
    table: Schema,
    left_keys: Sequence[int],
    keys: Sequence[int],
    kind: JoinKind = JoinKind.INNER,
    options: dict[str, str] | None = None,
    condition: Expression | None = None,
    **others: Any,
) -> LookupJoinSpec:
    """A lookup join with all columns of the table."""
    return LookupJoinSpec(
        kind=kind,
        left_keys=tuple(left_keys),
        source_keys=tuple(keys),
        right_keys=tuple(keys),
        source=SourceSpec("dim", "duckdb", options or {}, table, table.names),
        projections=tuple(InputRef(i, t) for i, t in enumerate(table.types)),
        right_schema=table,
        condition=condition,
        **others,
    )


def make_lookup_join(spec: LookupJoinSpec, context: OperatorContext, table: ListTable) -> LookupJoin:
    return LookupJoin(spec, context, table)
