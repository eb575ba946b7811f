"""Move filters on window columns above the aggregation of the window, so that it can assign the windows itself."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, conjuncts, inputs_of, remap
from sqlstream.planner.relational.nodes import Aggregate, Filter, Project, RelationalNode, WindowTvf
from sqlstream.planner.rules.filter_push_down import make_filter, window_columns


def pull_window_filter_up(node: RelationalNode) -> RelationalNode:
    """Aggregate(Filter(WindowTvf)) becomes Filter(Aggregate(WindowTvf)) for conjuncts on window columns
    that are keys.

    A Project between Aggregate and Filter first swaps places with the Filter: it is then right above the window
    function, below which its expressions can move.
    """
    if isinstance(node, Project) and isinstance(node.input, Filter):
        return _above_project(node, node.input)
    if not isinstance(node, Aggregate) or not isinstance(node.input, Filter):
        return node
    below = node.input
    movable = window_columns(below.input) & frozenset(node.keys)
    parts = conjuncts(below.condition)
    moved = tuple(p for p in parts if inputs_of(p) and inputs_of(p) <= movable)
    if not moved:
        return node
    rest = tuple(p for p in parts if p not in moved)
    aggregate = dataclasses.replace(node, input=make_filter(below.input, rest, below))
    places = {k: i for i, k in enumerate(node.keys)}
    return make_filter(aggregate, tuple(remap(p, places) for p in moved), below)


def _above_project(node: Project, below: Filter) -> RelationalNode:
    """Project(Filter on window columns(WindowTvf)) with computed columns becomes
    Filter(Project(WindowTvf))."""
    if not isinstance(below.input, WindowTvf) or all(isinstance(e, InputRef) for e in node.expressions):
        return node
    columns = window_columns(below.input)
    places: dict[int, int] = {}
    for new, expression in enumerate(node.expressions):
        if isinstance(expression, InputRef) and expression.index in columns:
            places.setdefault(expression.index, new)
    parts: tuple[Expression, ...] = conjuncts(below.condition)
    if not all(inputs_of(p) and inputs_of(p) <= frozenset(places) for p in parts):
        return node
    project = dataclasses.replace(node, input=below.input)
    return make_filter(project, tuple(remap(p, places) for p in parts), below)
