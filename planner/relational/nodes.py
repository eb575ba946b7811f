"""The relational plan: what a statement means, resolved and typed, before it is planned how to run it.

Nodes are frozen and compare by meaning: equality ignores `span`, so equal sub-plans are found by `==` and hash.
A plan is a graph: a CTE that is read twice is one node with two readers. As a tree it may be exponentially larger than the
statement, so every walk visits each node once (`rewrite`, hashes, comparisons).
Column references are indexes into the input's schema (for a join: left columns, then right columns).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from sqlstream.cancellation import check_not_given_up
from sqlstream.catalog import CatalogTable
from sqlstream.errors import Span
from sqlstream.expressions import AggregateCall, Expression, LiteralValue, SortKey
from sqlstream.schema import Field, Schema
from sqlstream.specs.lookup_join import RetryOnMiss
from sqlstream.specs.source import SourceWatermark
from sqlstream.specs.watermark import EmitStrategy
from sqlstream.specs.window import WindowSpec


class RelationalJoinKind(enum.Enum):
    """All kinds of SQL; the physical planner refuses those that have no operator."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"


_COMPARED: dict[str, tuple[str, ...]] = {}
"""Class of a node → the fields that equality compares."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RelationalNode:
    """`schema` is the output's. `span` is the SQL that the node was bound from.

    Hash and equality are those of a dataclass. A node caches its hash and one representative of the nodes that were found
    equal to it, so that both take time linear in the number of nodes."""

    schema: Schema
    span: Span | None = dataclasses.field(default=None, compare=False)

    def __hash__(self) -> int:
        kept: int | None = self.__dict__.get("_hash")
        if kept is None:
            kept = hash((type(self), _compared_values(self)))
            self.__dict__["_hash"] = kept
        return kept

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, RelationalNode) or type(self) is not type(other):
            return False
        a, b = _representative(self), _representative(other)
        if a is b:
            return True
        if hash(a) != hash(b) or _compared_values(a) != _compared_values(b):
            return False
        b.__dict__["_equal"] = a
        return True

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return ()

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        """The same node over other inputs (same schemas)."""
        assert not inputs
        return self


def _compared(kind: type[RelationalNode]) -> tuple[str, ...]:
    found = _COMPARED.get(kind.__name__)
    if found is None:
        found = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
        _COMPARED[kind.__name__] = found
    return found


def _compared_values(node: RelationalNode) -> tuple[object, ...]:
    kind: Any = type(node)
    return tuple(getattr(node, name) for name in _compared(kind))


def _representative(node: RelationalNode) -> RelationalNode:
    """The common representative of all nodes that were found equal to `node`."""
    while "_equal" in node.__dict__:
        node = node.__dict__["_equal"]
    return node


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SingleInputNode(RelationalNode):
    input: RelationalNode

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, input=inputs[0])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TableScan(RelationalNode):
    """Physical `columns` then `metadata` columns of a table; the schema has exactly these, and the row time if `watermark`
    adds it. The binder puts computed columns and the watermark of the table into nodes above it. `options` are the table's
    options with hints applied.

    `filters`, `limit` and `watermark` are filled by push-down rules (see SourceSpec).
    """

    table: CatalogTable
    options: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    metadata: tuple[Field, ...] = ()
    filters: tuple[Expression, ...] = ()
    limit: int = -1
    is_bounded: bool = True
    watermark: SourceWatermark | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Values(RelationalNode):
    """Literal rows (encoding of `Literal.value`)."""

    rows: tuple[tuple[LiteralValue, ...], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Filter(SingleInputNode):
    condition: Expression


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Project(SingleInputNode):
    expressions: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Watermark(SingleInputNode):
    """WATERMARK FOR `column` AS `expression`; the schema marks the column as ROWTIME."""

    column: int
    expression: Expression
    emit_strategy: EmitStrategy = EmitStrategy.ON_PERIODIC
    idle_timeout_ms: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowTvf(SingleInputNode):
    """Appends window_start, window_end TIMESTAMP(3) NOT NULL and window_time (a time attribute like `time_column`).

    `partition_keys` belong to SESSION.
    """

    window: WindowSpec
    time_column: int
    partition_keys: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Aggregate(SingleInputNode):
    """GROUP BY columns `keys`; schema: key columns, then one column per call. DISTINCT is an Aggregate without calls."""

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RowNumber(SingleInputNode):
    """Appends ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) BIGINT NOT NULL. It runs only with a filter on it (Rank)."""

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rank(SingleInputNode):
    """RowNumber restricted to rank_start … rank_end (1-based inclusive); `outputs_rank`: with a rank column."""

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    rank_start: int
    rank_end: int
    outputs_rank: bool


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sort(SingleInputNode):
    """ORDER BY with OFFSET and FETCH (< 0: all). Without `order` it is a plain LIMIT."""

    order: tuple[SortKey, ...]
    offset: int = 0
    fetch: int = -1


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Join(RelationalNode):
    """`condition` ranges over left then right columns; None is TRUE."""

    left: RelationalNode
    right: RelationalNode
    kind: RelationalJoinKind
    condition: Expression | None

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, left=inputs[0], right=inputs[1])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LookupJoin(Join):
    """A join with the rows that `right` has when a left row arrives (FOR SYSTEM_TIME AS OF processing time): `right` is read by
    key, and its later changes do not change the result. Over a table that does not change it is the plain join.

    INNER or LEFT; `right` is a table with filters and projections. `is_shuffled`: the rows of a key meet in one subtask.
    """

    retry: RetryOnMiss | None = None
    is_shuffled: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Union(RelationalNode):
    """UNION ALL; all inputs have the schema's types."""

    branches: tuple[RelationalNode, ...]

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, branches=inputs)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sink(SingleInputNode):
    """Write to a table; the input's columns are the table's writable columns in order, cast to their types.

    The table of a SELECT is that of `collect_table` (connector "collect").
    """

    table: CatalogTable
    options: tuple[tuple[str, str], ...]


def rewrite(node: RelationalNode, rule: Callable[[RelationalNode], RelationalNode]) -> RelationalNode:
    """Apply `rule` bottom-up, to each node once, after its inputs."""
    done: dict[int, RelationalNode] = {}

    def visit(node: RelationalNode) -> RelationalNode:
        if id(node) not in done:
            check_not_given_up()
            inputs = tuple(visit(i) for i in node.inputs)
            is_same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
            done[id(node)] = rule(node if is_same else node.with_inputs(inputs))
        return done[id(node)]

    return visit(node)
