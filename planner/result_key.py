"""The columns by which the rows of a result are told apart."""

from __future__ import annotations

from planner.relational import nodes as plan
from sqlstream.expressions import InputRef


def result_key(node: plan.RelationalNode) -> tuple[int, ...] | None:
    """Columns whose values occur in one row of a finished result at most; None when no such columns are known, and () when
    the result has one row at most.

    Grouping keys, the partition and rank of a Top-N, and the keys of both sides of a join."""
    match node:
        case plan.Aggregate():
            return tuple(range(len(node.keys)))
        case plan.Rank():
            if node.rank_start == node.rank_end:
                return node.partition_keys
            if node.outputs_rank:
                return (*node.partition_keys, len(node.schema) - 1)
            return result_key(node.input)
        case plan.RowNumber():
            return (*node.partition_keys, len(node.schema) - 1)
        case plan.Project():
            return _projected(result_key(node.input), node)
        case plan.Filter() | plan.Sort() | plan.Watermark() | plan.Sink():
            return result_key(node.input)
        case plan.Join():
            left, right = result_key(node.left), result_key(node.right)
            if node.kind in (plan.RelationalJoinKind.SEMI, plan.RelationalJoinKind.ANTI):
                return left
            if left is None or right is None:
                return None
            width = len(node.left.schema)
            return (*left, *(width + column for column in right))
    return None


def _projected(key: tuple[int, ...] | None, node: plan.Project) -> tuple[int, ...] | None:
    """Where a projection puts the columns of a key; None when it leaves one out."""
    if key is None:
        return None
    places = {e.index: i for i, e in reversed([*enumerate(node.expressions)]) if isinstance(e, InputRef)}
    return tuple(places[column] for column in key) if places.keys() >= {*key} else None
