"""The operators of a plan in SQL, for those who are told of their state."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from sqlstream.planner.physical.description import (
    describe_calls,
    describe_columns,
    describe_expression,
    describe_order,
    watermark_columns,
)
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.over import call_in_words
from sqlstream.planner.physical.row_meanings import reading_spec
from sqlstream.schema import Schema
from sqlstream.specs import (
    CalcSpec,
    DeduplicateSpec,
    GroupAggregateSpec,
    IntervalJoinSpec,
    JoinKind,
    JoinSpec,
    Keep,
    LimitSpec,
    OverSpec,
    RankSpec,
    SinkSpec,
    SortSpec,
    SourceSpec,
    TemporalJoinSpec,
    TemporalSortSpec,
    WatermarkAssignerSpec,
    WindowAggregateSpec,
    WindowJoinSpec,
    WindowRankSpec,
)
from sqlstream.specs.rank import Ties

TITLE_MAX = 200


def state_title(node: PhysicalNode) -> str:
    """What keeps the state, such as `GROUP BY bidder (COUNT(*), SUM(price))`; at most TITLE_MAX characters."""
    title = _title(node)
    return title if len(title) <= TITLE_MAX else f"{title[: TITLE_MAX - 1]}…"


def _title(node: PhysicalNode) -> str:
    match node.spec:
        case SourceSpec() as spec:
            return f"the position in table {spec.table}"
        case SinkSpec() as spec:
            return f"the rows of table {spec.table}"
        case WatermarkAssignerSpec() as spec:
            return f"WATERMARK FOR {', '.join(watermark_columns(spec, node.schema))} of table {_table(node)}"
        case GroupAggregateSpec() | WindowAggregateSpec():
            return _aggregate(node)
        case JoinSpec() | IntervalJoinSpec() | WindowJoinSpec() | TemporalJoinSpec() as spec:
            return _join(node, spec)
        case RankSpec(ties=Ties.LONGEST | Ties.LAST) as spec:
            keys = _bare(describe_columns(spec.partition_keys, node.inputs[0].node.schema))
            return f"the rows of each primary key ({keys})"
        case RankSpec() | DeduplicateSpec() | WindowRankSpec() as spec:
            return _rank(_written(node.inputs[0].node), spec)
        case SortSpec() | TemporalSortSpec() as spec:
            return f"ORDER BY {_bare(describe_order(spec.order, node.schema))}"
        case OverSpec() as spec:
            return _over(_written(node.inputs[0].node), spec)
        case LimitSpec() as spec:
            return f"LIMIT {spec.fetch}"
        case _:
            return node.name


def _bare(bracketed: str) -> str:
    return bracketed[1:-1]


def _read(node: PhysicalNode) -> tuple[Any, Schema]:
    """The spec of an aggregation, and the columns that it names."""
    spec, source = reading_spec(node), node.inputs[0].node
    return spec, _written(source if spec is node.spec else source.inputs[0].node)


def _written(node: PhysicalNode) -> Schema:
    """The columns of a node, in which those that have no name of the user's are what they compute."""
    if isinstance(node.spec, CalcSpec):
        below = _written(node.inputs[0].node)
        texts = [describe_expression(p, below) for p in node.spec.projections]
    elif isinstance(node.spec, GroupAggregateSpec | WindowAggregateSpec):
        spec, below = _read(node)
        calls = [_bare(describe_calls((c,), below)) for c in spec.aggregates]
        texts = [*(below.names[k] for k in spec.keys), *calls]
    else:
        return node.schema
    fields = (
        replace(f, name=texts[i]) if i < len(texts) and f.name.startswith(("$", "EXPR$")) else f
        for i, f in enumerate(node.schema.fields)
    )
    return Schema(tuple(fields))


def _table(node: PhysicalNode) -> str:
    """The table that the rows of a watermark come from."""
    while node.inputs:
        node = node.inputs[0].node
    return node.spec.table if isinstance(node.spec, SourceSpec) else node.name


def _aggregate(node: PhysicalNode) -> str:
    spec, schema = _read(node)
    keys = _bare(describe_columns(spec.keys, schema))
    calls = _bare(describe_calls(spec.aggregates, schema))
    if isinstance(spec, WindowAggregateSpec):
        keys = f"{keys}, {spec.window}" if keys else str(spec.window)
    elif not calls:
        return f"SELECT DISTINCT {keys}"
    if not keys:
        return f"SELECT {calls}"
    return f"GROUP BY {keys} ({calls})" if calls else f"GROUP BY {keys}"


Joining = JoinSpec | IntervalJoinSpec | WindowJoinSpec | TemporalJoinSpec


def _join(node: PhysicalNode, spec: Joining) -> str:
    left, right = (_written(i.node) for i in node.inputs)
    pairs = zip(spec.left_keys, spec.right_keys, strict=True)
    parts = [f"{left.names[a]} = {right.names[b]}" for a, b in pairs]
    if isinstance(spec, IntervalJoinSpec):
        times = f"{left.names[spec.left_time_column]} - {right.names[spec.right_time_column]}"
        parts.append(f"{times} BETWEEN {spec.lower_ms} ms AND {spec.upper_ms} ms")
    elif isinstance(spec, TemporalJoinSpec):
        parts.append(f"{right.names[spec.right_time_column]} AS OF {left.names[spec.left_time_column]}")
    elif isinstance(spec, WindowJoinSpec):
        ends = left.names[spec.left_window_end_column], right.names[spec.right_window_end_column]
        parts.append(f"{ends[0]} = {ends[1]}")
    if spec.condition is not None:
        parts.append(describe_expression(spec.condition, left.concat(right)))
    kind = "JOIN" if spec.kind is JoinKind.INNER else f"{spec.kind.value} JOIN"
    return f"{kind} ON {' AND '.join(parts) or 'TRUE'}"


def _rank(schema: Schema, spec: RankSpec | DeduplicateSpec | WindowRankSpec) -> str:
    if isinstance(spec, DeduplicateSpec):
        keys, last = spec.keys, 1
        time = schema.names[spec.time_column] if spec.time_column >= 0 else "the time of arrival"
        order = f"{time} {'DESC' if spec.keep is Keep.LAST else 'ASC'}"
    else:
        keys, last = spec.partition_keys, spec.rank_end
        order = _bare(describe_order(spec.order, schema))
    if isinstance(spec, WindowRankSpec):
        keys = (spec.window_start_column, spec.window_end_column, *keys)
    partition = f"PARTITION BY {_bare(describe_columns(keys, schema))} " if keys else ""
    return f"ROW_NUMBER() OVER ({partition}ORDER BY {order}) <= {last}"


def _over(schema: Schema, spec: OverSpec) -> str:
    parts = (
        [f"PARTITION BY {_bare(describe_columns(spec.partition_keys, schema))}"]
        if spec.partition_keys
        else []
    )
    if spec.order:
        parts.append(f"ORDER BY {_bare(describe_order(spec.order, schema))}")
    return f"{', '.join(call_in_words(c, schema) for c in spec.calls)} OVER ({' '.join(parts)})"
