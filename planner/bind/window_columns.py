"""Whether a column is the window_time that a window table-valued function appended."""

from __future__ import annotations

from planner.relational.nodes import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rank,
    RelationalNode,
    RowNumber,
    Sort,
    WindowTvf,
)
from sqlstream.expressions import InputRef


def is_window_time(node: RelationalNode, column: int) -> bool:
    """Whether `column` of `node` is a window_time that all nodes in between pass on unchanged."""
    match node:
        case WindowTvf():
            if column >= len(node.input.schema):
                return column == len(node.schema) - 1
            return is_window_time(node.input, column)
        case Project():
            expression = node.expressions[column]
            return isinstance(expression, InputRef) and is_window_time(node.input, expression.index)
        case Aggregate():
            return column < len(node.keys) and is_window_time(node.input, node.keys[column])
        case Join():
            width = len(node.left.schema)
            if column < width:
                return is_window_time(node.left, column)
            return is_window_time(node.right, column - width)
        case Filter() | Sort() | RowNumber() | Rank():
            return column < len(node.input.schema) and is_window_time(node.input, column)
    return False
