"""Whether a column is the window_time that a window table-valued function appended."""

from __future__ import annotations

from sqlstream.planner.relational.nodes import RelationalNode, WindowTvf


def is_window_time(node: RelationalNode, column: int) -> bool:
    """Whether `column` of `node` is a window_time that all nodes in between pass on unchanged."""
    while not (isinstance(node, WindowTvf) and column >= len(node.input.schema)):
        found = node.origin(column)
        if found is None:
            return False
        node, column = found
    return column == len(node.schema) - 1
