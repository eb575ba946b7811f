"""Move filters towards the sources, so that rows are dropped as early as possible."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, conjunction, conjuncts, inputs_of, remap, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import (
    Aggregate,
    Expand,
    Filter,
    Join,
    Project,
    Rank,
    RelationalJoinKind,
    RelationalNode,
    Sort,
    TemporalJoin,
    Union,
    Unnest,
    Window,
    WindowTvf,
)
from sqlstream.specs.window import WindowKind

Parts = tuple[Expression, ...]


def push_filters_down(node: RelationalNode) -> RelationalNode:
    """Move the conjuncts of a Filter below its input where the result stays the same.

    They stay above a Watermark (dropped rows still advance event time), a LIMIT (it counts rows), and the window
    function whose columns they read.
    """
    if not isinstance(node, Filter) or not is_deterministic(node.condition):
        return node
    parts = conjuncts(node.condition)
    match node.input:
        case Project() as project:
            above = window_columns(project)
            lowered = tuple(p for p in parts if not inputs_of(p) & above)
            return _through_project(node, project, parts, lowered)
        case Union() as union:
            branches = tuple(make_filter(b, parts, node) for b in union.branches)
            return dataclasses.replace(union, branches=branches)
        case WindowTvf() as tvf:
            own_columns = len(tvf.input.schema)
            below = _session_keys_only(
                tvf, tuple(p for p in parts if max(inputs_of(p), default=0) < own_columns)
            )
            return _split(node, tvf, parts, below, {i: i for i in range(own_columns)})
        case Aggregate() as aggregate if aggregate.keys:
            window = window_columns(aggregate.input)
            mapping = {i: k for i, k in enumerate(aggregate.keys) if k not in window}
            return _split(node, aggregate, parts, _over(parts, frozenset(mapping)), mapping)
        case Unnest(columns=columns) as unnest:
            mapping = dict(enumerate(columns))
            return _split(node, unnest, parts, _over(parts, frozenset(mapping)), mapping)
        case Expand(grouped=grouped) as expand:
            mapping = {i: i for i in range(len(expand.input.schema)) if i not in grouped}
            return _split(node, expand, parts, _over(parts, frozenset(mapping)), mapping)
        case Window(partition_keys=keys) | Rank(partition_keys=keys) as ranked:
            return _split(node, ranked, parts, _over(parts, frozenset(keys)), {k: k for k in keys})
        case Sort(offset=0, fetch=-1) as sort:
            return dataclasses.replace(sort, input=make_filter(sort.input, parts, node))
        case Join() as join:
            return _through_join(node, join, parts)
        case TemporalJoin() as temporal:
            # The right rows are versions: without one of them another would be valid.
            left_parts, right_parts, both = split_by_side(parts, len(temporal.left.schema))
            if left_parts:
                filtered = make_filter(temporal.left, left_parts, node)
                return make_filter(dataclasses.replace(temporal, left=filtered), right_parts + both, node)
    return node


def make_filter(node: RelationalNode, parts: Parts, origin: RelationalNode) -> RelationalNode:
    """A Filter of the conjuncts over `node`, with the position of `origin`; `node` itself without conjuncts."""
    condition = conjunction(parts)
    if condition is None:
        return node
    return Filter(schema=node.schema, span=origin.span, input=node, condition=condition)


def _over(parts: Parts, columns: frozenset[int]) -> Parts:
    return tuple(p for p in parts if inputs_of(p) and inputs_of(p) <= columns)


def _session_keys_only(tvf: WindowTvf, parts: Parts) -> Parts:
    # A row dropped below a session window could have merged two sessions: only conditions on its keys move below it.
    return parts if tvf.window.kind is not WindowKind.SESSION else _over(parts, frozenset(tvf.partition_keys))


def _split(
    node: Filter, below: RelationalNode, parts: Parts, moved: Parts, mapping: dict[int, int]
) -> RelationalNode:
    if not moved:
        return node
    source = below.inputs[0]
    filtered = make_filter(source, tuple(remap(p, mapping) for p in moved), node)
    rest = tuple(p for p in parts if p not in moved)
    return make_filter(below.with_inputs((filtered,)), rest, node)


def window_columns(node: RelationalNode) -> frozenset[int]:
    """The columns of `node` that a window function below appended, and that filters and projections pass on."""
    match node:
        case WindowTvf():
            own = len(node.input.schema)
            return frozenset(range(own, own + 3))
        case Filter():
            return window_columns(node.input)
        case Project():
            below = window_columns(node.input)
            return frozenset(
                i for i, e in enumerate(node.expressions) if isinstance(e, InputRef) and e.index in below
            )
    return frozenset()


def _through_project(node: Filter, project: Project, parts: Parts, candidates: Parts) -> RelationalNode:
    def is_movable(part: Expression) -> bool:
        return is_deterministic(*(project.expressions[i] for i in inputs_of(part)))

    moved = tuple(p for p in candidates if is_movable(p))
    if not moved:
        return node
    lowered = tuple(substitute(p, project.expressions) for p in moved)
    filtered = make_filter(project.input, lowered, node)
    return make_filter(project.with_inputs((filtered,)), tuple(p for p in parts if p not in moved), node)


def _through_join(node: Filter, join: Join, parts: Parts) -> RelationalNode:
    left_count = len(join.left.schema)
    left_parts, right_parts, both = split_by_side(parts, left_count)
    if join.kind is RelationalJoinKind.INNER:
        # The rule for join conditions moves conjuncts further down to one side.
        condition = conjunction(conjuncts(join.condition) + parts)
        return dataclasses.replace(join, condition=condition)
    if join.kind in (RelationalJoinKind.SEMI, RelationalJoinKind.ANTI):
        return dataclasses.replace(join, left=make_filter(join.left, parts, node))
    if join.kind is RelationalJoinKind.LEFT and left_parts:
        pushed = dataclasses.replace(join, left=make_filter(join.left, left_parts, node))
        return make_filter(pushed, right_parts + both, node)
    return node


def split_by_side(parts: Parts, left_count: int) -> tuple[Parts, Parts, Parts]:
    """Conjuncts over left columns alone, right columns alone, and the others (those over no column
    included)."""
    left, right, both = [], [], []
    for part in parts:
        columns = inputs_of(part)
        if columns and max(columns) < left_count:
            left.append(part)
        elif columns and min(columns) >= left_count:
            right.append(part)
        else:
            both.append(part)
    return tuple(left), tuple(right), tuple(both)
