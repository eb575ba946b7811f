"""What the SQL of an engine raises for text that cannot be cast."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.row_errors import RAISED_CHARACTERS, raised_cast
from sqlstream.types import LogicalType


def failed_cast(value: exp.Expr, target: LogicalType) -> exp.Expr:
    """The text of the error; `value` is the text as the statement gives it, before any is trimmed."""
    before, behind = raised_cast(str(target.with_nullable(True)))
    raised = tree.call("substr", value, tree.number(1), tree.number(RAISED_CHARACTERS))
    return tree.call("concat", tree.text(before), raised, tree.text(behind))
