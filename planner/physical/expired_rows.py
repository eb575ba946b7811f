"""Rows and columns of which tables the state of each operator holds, so that `t$expired` shows what it lets go."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from sqlstream import specs
from sqlstream.changelog import ChangelogMode
from sqlstream.expired_rows import METADATA_PREFIX, table_identity
from sqlstream.expressions import Expression, InputRef
from sqlstream.graph.state_identity import ExpiredColumn, ExpiredState
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.planner.physical.row_meanings import Joining, reads_history
from sqlstream.spi.connector import ConnectorDescriptor

Origin = tuple[str, str, str]
"""The identity of a table, its name, and a column of it."""

Columns = tuple[Origin | None, ...]

_PASSING = (
    *(specs.KeptValuesSpec, specs.ConflictCheckSpec, specs.SingleRowCheckSpec, specs.WatermarkAssignerSpec),
    *(specs.ChangelogNormalizeSpec, specs.DropUpdateBeforeSpec, specs.RankSpec, specs.DeduplicateSpec),
    *(specs.WindowRankSpec, specs.TemporalSortSpec, specs.SortSpec, specs.LimitSpec, specs.OverSpec),
    specs.WindowTvfSpec,
)
"""Operators whose rows are those of their input, with columns of their own behind."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Of which tables the rows of a node are, alone or joined, by identity; and which column of them each of its columns is, None
    for one that is computed."""

    tables: frozenset[str] = frozenset()
    columns: Columns = ()

    def keys(self, places: Sequence[int]) -> Rows:
        """The rows of a grouping by these columns: they belong to the tables that have the columns."""
        columns = tuple(self.columns[place] for place in places)
        return Rows(frozenset(origin[0] for origin in columns if origin is not None), columns)

    def cut(self, places: Sequence[int]) -> Rows:
        """The same rows, with these columns."""
        return dataclasses.replace(self, columns=self.keys(places).columns)

    def behind(self, keys: Sequence[int], others: int = 0) -> Rows:
        """The rows with these columns before all, and `others` between that are of no table."""
        columns = (*(self.columns[key] for key in keys), *(None,) * others, *self.columns)
        return dataclasses.replace(self, columns=columns)

    def joined(self, other: Rows) -> Rows:
        return Rows(self.tables | other.tables, (*self.columns, *other.columns))


def expired_states(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> dict[int, tuple[ExpiredState, ...]]:
    """The tables of state whose expired rows are kept, by the id() of each node that has any."""
    rows: dict[int, Rows] = {}
    found = {}
    for node in walk_plan(sinks):
        below = [rows[id(i.node)] for i in node.inputs]
        made, width = _rows(node, below, connectors), len(node.schema)
        columns = (*made.columns[:width], *(None,) * (width - len(made.columns)))
        rows[id(node)] = dataclasses.replace(made, columns=columns)
        if kept := tuple(_kept(state, held) for state, held in _states(node, below) if held.tables):
            found[id(node)] = kept
    return found


def _rows(node: PhysicalNode, below: Sequence[Rows], connectors: Mapping[str, ConnectorDescriptor]) -> Rows:
    match node.spec:
        case None if any(reads_history(i.node) for i in node.inputs):
            # The history of a table is rows of it.
            return below[0]
        case None:
            return _union(below)
        case specs.SourceSpec() as spec:
            return _of_table(spec, connectors)
        case specs.CalcSpec() as spec:
            return _chosen(spec.projections, below[0])
        case specs.LookupJoinSpec() as spec:
            return below[0].joined(_chosen(spec.projections, _of_table(spec.source, connectors)))
        case specs.GroupAggregateSpec() as spec:
            return below[0].keys(spec.keys)
        case spec if isinstance(spec, Joining):
            return below[0] if spec.kind.is_left_only else below[0].joined(below[1])
        case spec if isinstance(spec, _PASSING):
            return below[0]
    return Rows()


def _union(branches: Sequence[Rows]) -> Rows:
    """A row is of one branch, and nothing says of which: it belongs to the tables that all branches have rows of."""
    tables = functools.reduce(frozenset.intersection, (branch.tables for branch in branches))
    columns = zip(*(branch.columns for branch in branches), strict=True)
    return Rows(tables, tuple(each[0] if len(set(each)) == 1 else None for each in columns))


def _of_table(spec: specs.SourceSpec, connectors: Mapping[str, ConnectorDescriptor]) -> Rows:
    identity = table_identity(spec.table, spec.options, connectors[spec.connector])
    metadata = (f"{METADATA_PREFIX}{field.name}" for field in spec.metadata)
    columns = tuple((identity, spec.table, column) for column in (*spec.columns, *metadata))
    return Rows(frozenset({identity}), columns)


def _chosen(expressions: Sequence[Expression], rows: Rows) -> Rows:
    columns = (rows.columns[e.index] if isinstance(e, InputRef) else None for e in expressions)
    return dataclasses.replace(rows, columns=tuple(columns))


def _states(node: PhysicalNode, below: Sequence[Rows]) -> Iterator[tuple[str, Rows]]:
    """The tables of state with a time to live, by their names, and what their columns hold."""
    match node.spec:
        case specs.JoinSpec() as spec:
            if spec.left_ttl_ms:
                yield "left", below[0]
            if spec.right_ttl_ms:
                yield "right", below[1]
        case specs.TemporalJoinSpec() | specs.SnapshotJoinSpec() as spec if spec.right_ttl_ms:
            yield "right", below[1]
        case specs.ProcessTableSpec() as spec if len(spec.inputs) == 1 and spec.ref.process is not None:
            keys = below[0].keys(spec.inputs[0].partition_keys)
            yield from ((state.name, keys) for state in spec.ref.process.states if spec.ttl_of(state.ttl_ms))
        case spec if getattr(spec, "state_ttl_ms", 0):
            yield from _by_key(node, below[0])


def _by_key(node: PhysicalNode, rows: Rows) -> Iterator[tuple[str, Rows]]:
    match node.spec:
        case specs.DeduplicateSpec() as spec:
            is_whole = node.settled_mode is ChangelogMode.RETRACT
            yield "rows", rows.behind(spec.keys, 1) if is_whole else rows.cut(spec.keys)
        case specs.ChangelogNormalizeSpec() as spec:
            yield "rows", rows.behind(spec.keys)
        case specs.RankSpec() | specs.SingleRowCheckSpec():
            yield "rows", rows
        case specs.OverSpec() as spec:
            yield "rows", rows
            yield "accumulators", rows.keys(spec.partition_keys)
        case specs.GroupAggregateSpec() as spec:
            yield "groups", rows.keys(spec.keys)
        case specs.KeptValuesSpec() as spec:
            yield "values", rows.cut(spec.keys)
        case specs.ConflictCheckSpec() as spec:
            yield "keys", rows.keys(spec.keys)


def _kept(state: str, rows: Rows) -> ExpiredState:
    """Of several columns that are the same column of a table, the first is kept."""
    kept: dict[Origin, ExpiredColumn] = {}
    names: set[str] = set()
    for place, origin in enumerate(rows.columns):
        if origin is None or origin in kept:
            continue
        table, table_name, column = origin
        name = f"{table_name}.{column}"
        # Tables of several databases may have one name.
        name = f"{name} {table[:8]}" if name in names else name
        names.add(name)
        kept[origin] = ExpiredColumn(place, table, column, name)
    return ExpiredState(state, tuple(sorted(rows.tables)), tuple(kept.values()))
