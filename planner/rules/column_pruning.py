"""Column pruning over a whole statement set: unread columns are not computed, and shared ones are computed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import msgspec

from planner.relational.nodes import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rank,
    RelationalNode,
    RowNumber,
    Sink,
    Sort,
    TableScan,
    Union,
    Values,
    Watermark,
    WindowTvf,
)
from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    LiteralValue,
    SortKey,
    conjuncts,
    inputs_of,
    remap,
    walk,
)
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot, is_numeric, is_rowtime

Columns = frozenset[int]
Trimmed = tuple[RelationalNode, dict[int, int]]
"""A node with at least the wanted columns, and the map from old to new column numbers."""


def prune_columns(sinks: tuple[Sink, ...], is_reuse_enabled: bool = True) -> tuple[Sink, ...]:
    """Narrow every operator and scan to the columns that reach a sink or decide about rows.

    With reuse, equal sources (a scan and the watermark on it) are narrowed to the union of the columns that their
    consumers read, so that they stay equal and the table is read once. A watermark that no operator uses is dropped.
    """
    pruning = _Pruning()
    if is_reuse_enabled:
        pruning.is_collecting = True
        for sink in sinks:
            pruning.trim_sink(sink)
        pruning.is_collecting = False
    return tuple(pruning.trim_sink(sink) for sink in sinks)


@dataclasses.dataclass
class _Demand:
    columns: Columns = frozenset()
    needs_watermark: bool = False


class _Pruning:
    """One walk per pass. The first pass collects in `demands` the columns that are read of each source; the last narrows
    each source to their union."""

    def __init__(self) -> None:
        self.demands: dict[RelationalNode, _Demand] = {}
        self.is_collecting = False
        self._trimmed: dict[tuple[RelationalNode, Columns, bool, bool], Trimmed] = {}

    def trim_sink(self, sink: Sink) -> Sink:
        wanted = frozenset(range(len(sink.input.schema)))
        return dataclasses.replace(sink, input=self.exactly(sink.input, wanted, False))

    def exactly(self, node: RelationalNode, wanted: Columns, time: bool) -> RelationalNode:
        """`node` with exactly the wanted columns in ascending order, as before an exchange."""
        wanted = wanted or _one_column(node.schema)
        trimmed, places = self.trim(node, wanted, time)
        order = [places[c] for c in sorted(wanted)]
        if order == list(range(len(trimmed.schema))):
            return trimmed
        fields = trimmed.schema.fields
        return Project(
            schema=trimmed.schema.select(tuple(order)),
            span=node.span,
            input=trimmed,
            expressions=tuple(InputRef(i, fields[i].type) for i in order),
        )

    def trim(self, node: RelationalNode, wanted: Columns, time: bool) -> Trimmed:
        """`node` with at least the wanted columns; equal requests get the same node. `time`: an operator above needs the
        watermark of this input."""
        key = (node, wanted, time, self.is_collecting)
        if key not in self._trimmed:
            self._trimmed[key] = self._trim(node, wanted, time)
        return self._trimmed[key]

    def _trim(self, node: RelationalNode, wanted: Columns, time: bool) -> Trimmed:
        if isinstance(node, Project) and not wanted:
            # COUNT(*) reads no column, so nothing needs to be computed.
            return self.trim(node.input, wanted, time)
        wanted = wanted or _one_column(node.schema)
        if is_source(node):
            demand = self._demand(node, wanted, time)
            wanted, time = demand.columns, demand.needs_watermark
        match node:
            case TableScan():
                return _trim_scan(node, wanted)
            case Values():
                return _trim_values(node, wanted)
            case Watermark():
                return self._trim_watermark(node, wanted, time)
            case Filter():
                time = time or _reads_watermark(node.condition)
                source, places = self.trim(node.input, wanted | inputs_of(node.condition), time)
                return _over(node, source, condition=remap(node.condition, places)), places
            case Project():
                return self._trim_project(node, wanted, time)
            case WindowTvf():
                return self._trim_window_tvf(node, wanted, time)
            case Aggregate():
                return self._trim_aggregate(node, wanted, time)
            case RowNumber() | Rank():
                return self._trim_rank(node, wanted, time)
            case Sort():
                return self._trim_sort(node, wanted, time)
            case Join():
                return self._trim_join(node, wanted, time)
            case Union():
                branches = tuple(self.exactly(b, wanted, time) for b in node.branches)
                kept = tuple(sorted(wanted))
                union = dataclasses.replace(node, branches=branches, schema=node.schema.select(kept))
                return union, _places(kept)
        raise AssertionError(f"no pruning for {type(node).__name__}")

    def _demand(self, node: RelationalNode, wanted: Columns, time: bool) -> _Demand:
        demand = self.demands.setdefault(node, _Demand())
        if self.is_collecting:
            demand.columns |= wanted
            demand.needs_watermark |= time
        return _Demand(demand.columns | wanted, demand.needs_watermark or time)

    def _trim_watermark(self, node: Watermark, wanted: Columns, time: bool) -> Trimmed:
        inner = wanted | ({node.column} | inputs_of(node.expression) if time else frozenset())
        source, places = self._below_watermark(node.input, inner)
        if not time:
            # The column stays a time attribute in type: deduplication by row time needs its order, not its
            # watermark.
            column = places.get(node.column, -1)
            return _marked_source(source, column, node.schema.types[node.column]), places
        expression = remap(node.expression, places)
        column = places[node.column]
        schema = _marked(source.schema, column, node.schema.types[node.column])
        return dataclasses.replace(
            node, input=source, column=column, expression=expression, schema=schema
        ), places

    def _below_watermark(self, node: RelationalNode, wanted: Columns) -> Trimmed:
        # The scan below belongs to this source: its columns were decided with those of the watermark.
        if isinstance(node, TableScan):
            return _trim_scan(node, wanted)
        return self.trim(node, wanted, False)

    def _trim_project(self, node: Project, wanted: Columns, time: bool) -> Trimmed:
        kept = tuple(sorted(wanted))
        expressions = tuple(node.expressions[i] for i in kept)
        time = time or any(_reads_watermark(e) for e in expressions)
        source, places = self.trim(node.input, inputs_of(*expressions), time)
        expressions = tuple(remap(e, places) for e in expressions)
        return _over(node, source, expressions=expressions, schema=node.schema.select(kept)), _places(kept)

    def _trim_window_tvf(self, node: WindowTvf, wanted: Columns, time: bool) -> Trimmed:
        own = len(node.input.schema)
        below = frozenset(c for c in wanted if c < own) | {node.time_column} | set(node.partition_keys)
        source, places = self.trim(node.input, below, time or node.window.is_event_time)
        count = len(source.schema)
        places = {c: places[c] for c in below} | {own + i: count + i for i in range(3)}
        schema = Schema(source.schema.fields + node.schema.fields[own:])
        keys = tuple(places[k] for k in node.partition_keys)
        tvf = _over(node, source, schema=schema, time_column=places[node.time_column], partition_keys=keys)
        return tvf, places

    def _trim_aggregate(self, node: Aggregate, wanted: Columns, time: bool) -> Trimmed:
        key_count = len(node.keys)
        kept = tuple(i for i in range(len(node.calls)) if key_count + i in wanted)
        if not node.keys and not kept:
            kept = (0,)
        calls = tuple(node.calls[i] for i in kept)
        below = set(node.keys)
        for call in calls:
            below |= {*call.args, *([call.filter] if call.filter >= 0 else [])}
        source, places = self.trim(node.input, frozenset(below), time)
        calls = tuple(
            msgspec.structs.replace(
                c, args=tuple(places[a] for a in c.args), filter=places[c.filter] if c.filter >= 0 else -1
            )
            for c in calls
        )
        columns = tuple(range(key_count)) + tuple(key_count + i for i in kept)
        keys = tuple(places[k] for k in node.keys)
        aggregate = _over(node, source, keys=keys, calls=calls, schema=node.schema.select(columns))
        return aggregate, _places(columns)

    def _trim_rank(self, node: RowNumber | Rank, wanted: Columns, time: bool) -> Trimmed:
        own = len(node.input.schema)
        below = (
            frozenset(c for c in wanted if c < own)
            | set(node.partition_keys)
            | {k.column for k in node.order}
        )
        source = self.exactly(node.input, below, time)
        kept = tuple(sorted(below)) or tuple(sorted(_one_column(node.input.schema)))
        places = _places(kept)
        changes = {
            "partition_keys": tuple(places[k] for k in node.partition_keys),
            "order": _moved_order(node.order, places),
        }
        has_number = isinstance(node, RowNumber) or (node.outputs_rank and own in wanted)
        if isinstance(node, Rank):
            changes["outputs_rank"] = has_number  # type: ignore[assignment]
        number = node.schema.fields[own:] if has_number else ()
        schema = Schema(source.schema.fields + number)
        return _over(node, source, schema=schema, **changes), places | {own: len(kept)}

    def _trim_sort(self, node: Sort, wanted: Columns, time: bool) -> Trimmed:
        below = wanted | {k.column for k in node.order}
        source = self.exactly(node.input, below, time)
        places = _places(tuple(sorted(below)))
        return _over(node, source, schema=source.schema, order=_moved_order(node.order, places)), places

    def _trim_join(self, node: Join, wanted: Columns, time: bool) -> Trimmed:
        split = len(node.left.schema)
        own_time = any(_reads_time(p) for p in conjuncts(node.condition))
        columns = wanted | (inputs_of(node.condition) if node.condition is not None else frozenset())
        left_columns = frozenset(c for c in columns if c < split) or _one_column(node.left.schema)
        right_columns = frozenset(c - split for c in columns if c >= split) or _one_column(node.right.schema)
        left = self.exactly(node.left, left_columns, time or own_time)
        right = self.exactly(node.right, right_columns, time or own_time)
        kept = tuple(sorted(left_columns)) + tuple(split + c for c in sorted(right_columns))
        places = _places(kept)
        condition = None if node.condition is None else remap(node.condition, places)
        has_right = len(node.schema) > split
        schema = node.schema.select(kept if has_right else tuple(sorted(left_columns)))
        return dataclasses.replace(node, left=left, right=right, condition=condition, schema=schema), places


def is_source(node: RelationalNode) -> bool:
    """Whether `node` is a source: a scan, or a watermark over a scan, with or without computed columns in between."""
    if isinstance(node, Watermark):
        node = node.input.input if isinstance(node.input, Project) else node.input
    return isinstance(node, TableScan)


def _over(node: RelationalNode, source: RelationalNode, **changes: object) -> RelationalNode:
    changes.setdefault("schema", source.schema)
    return dataclasses.replace(node, input=source, **changes)  # type: ignore[call-arg,arg-type]


def _places(kept: tuple[int, ...]) -> dict[int, int]:
    return {old: new for new, old in enumerate(kept)}


def _moved_order(order: tuple[SortKey, ...], places: dict[int, int]) -> tuple[SortKey, ...]:
    return tuple(msgspec.structs.replace(k, column=places[k.column]) for k in order)


def _marked_source(node: RelationalNode, column: int, time: LogicalType) -> RelationalNode:
    """A scan, or computed columns over one, whose column has the type of a time attribute."""
    if column < 0:
        return node
    schema = _marked(node.schema, column, time)
    if isinstance(node, Project):
        expression = node.expressions[column]
        if isinstance(expression, InputRef):
            # Mark the column down to the scan: a projection that changes nothing else is removed.
            marked = InputRef(expression.index, time)
            expressions = (*node.expressions[:column], marked, *node.expressions[column + 1 :])
            source = _marked_source(node.input, expression.index, time)
            return dataclasses.replace(node, input=source, expressions=expressions, schema=schema)
    return dataclasses.replace(node, schema=schema)


def _marked(schema: Schema, column: int, time: LogicalType) -> Schema:
    field = msgspec.structs.replace(schema.fields[column], type=time)
    return Schema((*schema.fields[:column], field, *schema.fields[column + 1 :]))


def _one_column(schema: Schema) -> Columns:
    # A batch without columns has no number of rows.
    def cost(item: tuple[int, LogicalType]) -> int:
        return 0 if is_numeric(item[1]) and item[1].root is not TypeRoot.DECIMAL else 1

    return frozenset({min(enumerate(schema.types), key=cost)[0]})


def _reads_watermark(expression: Expression) -> bool:
    return any(isinstance(n, Call) and n.function == "CURRENT_WATERMARK" for n in walk(expression))


def _reads_time(expression: Expression) -> bool:
    return any(isinstance(n, InputRef) and is_rowtime(n.type) for n in walk(expression))


def _trim_scan(node: TableScan, wanted: Columns) -> Trimmed:
    wanted = wanted | inputs_of(*node.filters) if node.filters else wanted
    kept = tuple(sorted(wanted)) or tuple(sorted(_one_column(node.schema)))
    places = _places(kept)
    count = len(node.columns)
    scan = dataclasses.replace(
        node,
        columns=tuple(node.columns[i] for i in kept if i < count),
        metadata=tuple(node.metadata[i - count] for i in kept if i >= count),
        schema=node.schema.select(kept),
        filters=tuple(remap(f, places) for f in node.filters),
    )
    return scan, places


def _trim_values(node: Values, wanted: Columns) -> Trimmed:
    kept = tuple(sorted(wanted))
    if len(kept) == len(node.schema):
        return node, _places(kept)
    return dataclasses.replace(
        node, rows=tuple(_chosen(node.rows, kept)), schema=node.schema.select(kept)
    ), _places(kept)


def _chosen(
    rows: tuple[tuple[LiteralValue, ...], ...], kept: tuple[int, ...]
) -> Iterator[tuple[LiteralValue, ...]]:
    for row in rows:
        check_not_given_up()
        yield tuple(row[i] for i in kept)
