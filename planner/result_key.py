"""The columns by which the rows of a result are told apart."""

from __future__ import annotations

from collections.abc import Iterable

from planner.relational import nodes as plan
from sqlstream.expressions import InputRef
from sqlstream.specs.window import WindowKind

Key = tuple[int, ...]


def result_key(node: plan.RelationalNode) -> Key | None:
    """Columns whose values occur in one row of a finished result at most; None when no such columns are known, and () when
    the result has one row at most.

    Grouping keys, of which one bound of a window is enough, the partition and rank of a Top-N, and the keys of both sides of
    a join."""
    return next(iter(_keys(node)), None)


def _keys(node: plan.RelationalNode) -> tuple[Key, ...]:
    """The keys that are known, of which a projection may leave some out."""
    match node:
        case plan.Aggregate():
            return _of_aggregate(node)
        case plan.Rank() | plan.RowNumber():
            return _of_rank(node)
        case plan.Project():
            return tuple(key for found in _keys(node.input) if (key := _projected(found, node)) is not None)
        case plan.Filter() | plan.Sort() | plan.Watermark() | plan.Sink():
            return _keys(node.input)
        case plan.Join():
            if node.kind in (plan.RelationalJoinKind.SEMI, plan.RelationalJoinKind.ANTI):
                return _keys(node.left)
            width = len(node.left.schema)
            right = [tuple(width + column for column in key) for key in _keys(node.right)]
            return tuple((*a, *b) for a in _keys(node.left) for b in right)
    return ()


def _of_aggregate(node: plan.Aggregate) -> tuple[Key, ...]:
    every = tuple(range(len(node.keys)))
    bounds = {}
    for column in every:
        window, place = _window_column(node.input, node.keys[column])
        if window is not None and window.window.kind in (WindowKind.TUMBLE, WindowKind.HOP):
            bounds[place] = column
    if not bounds.keys() >= {0, 1}:
        return (every,)
    # The two bounds of a window that always has the same size follow from each other.
    return (every, _without(every, bounds[1]), _without(every, bounds[0]))


def _of_rank(node: plan.Rank | plan.RowNumber) -> tuple[Key, ...]:
    last = len(node.schema) - 1
    if isinstance(node, plan.RowNumber):
        return ((*node.partition_keys, last), *_keys(node.input))
    if node.rank_start == node.rank_end:
        return (node.partition_keys,)
    return ((*node.partition_keys, last),) if node.outputs_rank else _keys(node.input)


def _window_column(node: plan.RelationalNode, column: int) -> tuple[plan.WindowTvf | None, int]:
    """The window that makes a column, and whether it is its start (0), end (1) or time (2)."""
    while True:
        match node:
            case plan.Project():
                expression = node.expressions[column]
                if not isinstance(expression, InputRef):
                    return None, 0
                node, column = node.input, expression.index
            case plan.Filter() | plan.Watermark():
                node = node.input
            case plan.WindowTvf() if column >= len(node.input.schema):
                return node, column - len(node.input.schema)
            case plan.WindowTvf():
                node = node.input
            case _:
                return None, 0


def _without(key: Iterable[int], column: int) -> Key:
    return tuple(each for each in key if each != column)


def _projected(key: Key, node: plan.Project) -> Key | None:
    """Where a projection puts the columns of a key; None when it leaves one out."""
    places = {e.index: i for i, e in reversed([*enumerate(node.expressions)]) if isinstance(e, InputRef)}
    return tuple(places[column] for column in key) if places.keys() >= {*key} else None
