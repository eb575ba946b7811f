"""The columns by which the rows of a result are told apart."""

from __future__ import annotations

from sqlstream.planner.relational.node import Key, RelationalNode


def result_key(node: RelationalNode) -> Key | None:
    """Columns whose values occur in one row of a finished result at most; None when no such columns are known, and () when
    the result has one row at most.

    Grouping keys, of which one bound of a window is enough, the partition and rank of a Top-N, and the keys of both sides of
    a join."""
    return next(iter(node.result_keys()), None)
