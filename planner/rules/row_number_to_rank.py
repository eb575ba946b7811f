"""ROW_NUMBER() with a filter on its number is a Top-N."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Call, Expression, InputRef, Literal, conjuncts
from sqlstream.planner.relational.nodes import Filter, Rank, RelationalNode, Window
from sqlstream.planner.rules.filter_push_down import make_filter
from sqlstream.types import INTEGER_ROOTS, TypeRoot, is_integer

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def turn_row_number_into_rank(node: RelationalNode) -> RelationalNode:
    """Filter(rn <= N) over a Window of ROW_NUMBER becomes Rank 1 … N; also `= n`, `< n`, and ranges with a lower bound.

    Conjuncts on other columns stay above the Rank: they must not change which rows are numbered.
    """
    if not isinstance(node, Filter) or not isinstance(node.input, Window):
        return node
    numbering = node.input
    if [call.function for call in numbering.calls] != ["ROW_NUMBER"]:
        return node
    column = len(numbering.input.schema)
    start, end = 1, -1
    rest: list[Expression] = []
    for part in conjuncts(node.condition):
        bounds = rank_bounds(part, column)
        if bounds is None:
            rest.append(part)
            continue
        low, high = bounds
        start = max(start, low)
        end = high if end < 0 else end if high < 0 else min(end, high)
    if end < 0:
        return node
    if end < start:
        return dataclasses.replace(node, condition=Literal(False, node.condition.type))
    rank = Rank(
        schema=numbering.schema,
        span=numbering.span or node.span,
        input=numbering.input,
        partition_keys=numbering.partition_keys,
        order=numbering.order,
        rank_start=start,
        rank_end=end,
        outputs_rank=True,
        ttl_ms=numbering.ttl_ms,
    )
    return make_filter(rank, tuple(rest), node)


def rank_bounds(part: Expression, column: int) -> tuple[int, int] | None:
    """(lowest, highest) number that a conjunct allows, highest -1 for no bound; None for a conjunct on anything else."""
    if not isinstance(part, Call) or part.function not in _MIRRORED or len(part.args) != 2:
        return None
    left, right = (_without_cast(a) for a in part.args)
    function = part.function
    if isinstance(left, Literal):
        left, right, function = right, left, _MIRRORED[function]
    if not (isinstance(left, InputRef) and left.index == column and isinstance(right, Literal)):
        return None
    value = right.value
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return {
        "=": (value, max(value, 0)),
        "<": (1, max(value - 1, 0)),
        "<=": (1, max(value, 0)),
        ">": (value + 1, -1),
        ">=": (value, -1),
    }[function]


def _without_cast(expression: Expression) -> Expression:
    """The column or literal below a cast that keeps its value; no partition has more rows than an INT can count."""
    if isinstance(expression, Call) and expression.function == "CAST":
        inner = expression.args[0]
        if is_integer(expression.type) and is_integer(inner.type):
            width, inner_width = (INTEGER_ROOTS.index(t.root) for t in (expression.type, inner.type))
            is_count = isinstance(inner, InputRef) and expression.type.root is TypeRoot.INTEGER
            if width >= inner_width or is_count:
                return inner
    return expression


def merge_windows(node: RelationalNode) -> RelationalNode:
    """Two sets of calls over the same partitions and order are one."""
    if not isinstance(node, Window) or not isinstance(node.input, Window):
        return node
    below = node.input
    width = len(below.input.schema)
    reads = {*node.partition_keys, *(k.column for k in node.order)}.union(*(c.columns() for c in node.calls))
    if (node.partition_keys, node.order) != (below.partition_keys, below.order) or max(
        reads, default=0
    ) >= width:
        return node
    return dataclasses.replace(node, input=below.input, calls=below.calls + node.calls)
