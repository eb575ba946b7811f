"""The relational plan as text: one line per node, inputs below and indented."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from planner.relational.nodes import (
    Aggregate,
    Filter,
    Join,
    LookupJoin,
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
from sqlstream.expressions import Literal, SortKey
from sqlstream.specs.watermark import EmitStrategy

LINES_MAX = 10_000


def explain_relation(node: RelationalNode) -> str:
    """The plan as a tree; columns of a node's input are written $0, $1, … as in Flink. A node is printed below each of its
    readers, so the tree can be exponentially larger than the plan: it ends after LINES_MAX lines."""
    lines = list(itertools.islice(_lines(node, "", ""), LINES_MAX + 1))
    if len(lines) > LINES_MAX:
        lines[LINES_MAX:] = [f"… and more than these {LINES_MAX} lines"]
    return "\n".join(lines)


def _lines(node: RelationalNode, first: str, rest: str) -> Iterator[str]:
    """The lines of a node: `first` is the prefix of its own line, `rest` that of its inputs' lines."""
    yield f"{first}{type(node).__name__}({describe(node)})"
    for position, child in enumerate(node.inputs):
        is_last = position == len(node.inputs) - 1
        yield from _lines(child, rest + ("+- " if is_last else ":- "), rest + ("   " if is_last else ":  "))


def describe(node: RelationalNode) -> str:
    """The parameters of one node, without its name and inputs."""
    match node:
        case TableScan():
            return _describe_scan(node)
        case Values():
            return _describe_values(node)
        case Filter():
            return f"condition=[{node.condition}]"
        case Project():
            items = zip(node.schema.names, node.expressions, strict=True)
            return ", ".join(f"{name}=[{expression}]" for name, expression in items)
        case Watermark():
            return _describe_watermark(node)
        case WindowTvf():
            return _join_parts(
                f"window=[{node.window}]",
                f"time=[${node.time_column}]",
                f"partition=[{_columns(node.partition_keys)}]" if node.partition_keys else "",
            )
        case Aggregate():
            calls = zip(node.schema.names[len(node.keys) :], node.calls, strict=True)
            return _join_parts(
                f"group=[{_columns(node.keys)}]", *(f"{name}=[{call}]" for name, call in calls)
            )
    return _describe_rest(node)


def _describe_rest(node: RelationalNode) -> str:
    match node:
        case RowNumber():
            return f"partition=[{_columns(node.partition_keys)}], order=[{_order(node.order)}]"
        case Rank():
            return (
                f"partition=[{_columns(node.partition_keys)}], order=[{_order(node.order)}],"
                f" rank=[{node.rank_start}..{node.rank_end}], outputs_rank=[{str(node.outputs_rank).lower()}]"
            )
        case Sort():
            return _join_parts(
                f"order=[{_order(node.order)}]" if node.order else "",
                f"offset=[{node.offset}]" if node.offset else "",
                f"fetch=[{node.fetch}]" if node.fetch >= 0 else "",
            )
        case LookupJoin():
            condition = "TRUE" if node.condition is None else str(node.condition)
            return f"kind=[{node.kind.value}], condition=[{condition}], as_of=[PROCTIME]"
        case Join():
            condition = "TRUE" if node.condition is None else str(node.condition)
            return f"kind=[{node.kind.value}], condition=[{condition}]"
        case Union():
            return "all=[true]"
        case Sink():
            return f"table=[{node.table.path}], columns=[{', '.join(node.schema.names)}]"
    return ""


def _describe_scan(node: TableScan) -> str:
    return _join_parts(
        f"table=[{node.table.path}]",
        f"columns=[{', '.join(node.columns)}]",
        f"metadata=[{', '.join(f.name for f in node.metadata)}]" if node.metadata else "",
        f"filters=[{', '.join(map(str, node.filters))}]" if node.filters else "",
        f"limit=[{node.limit}]" if node.limit >= 0 else "",
        f"watermark=[{node.watermark.expression}]" if node.watermark is not None else "",
    )


def _describe_values(node: Values) -> str:
    rows = (
        "(" + ", ".join(str(Literal(v, t)) for v, t in zip(row, node.schema.types, strict=True)) + ")"
        for row in node.rows
    )
    return f"rows=[{', '.join(rows)}]"


def _describe_watermark(node: Watermark) -> str:
    return _join_parts(
        f"rowtime=[{node.schema.names[node.column]}]",
        f"watermark=[{node.expression}]",
        f"emit=[{node.emit_strategy.value}]" if node.emit_strategy is not EmitStrategy.ON_PERIODIC else "",
        f"idle_timeout=[{node.idle_timeout_ms} ms]" if node.idle_timeout_ms else "",
    )


def _columns(indexes: Iterable[int]) -> str:
    return ", ".join(f"${i}" for i in indexes)


def _order(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(f"{k} NULLS {'FIRST' if k.is_nulls_first else 'LAST'}" for k in keys)


def _join_parts(*parts: str) -> str:
    return ", ".join(p for p in parts if p)
