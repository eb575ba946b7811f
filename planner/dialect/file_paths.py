"""Which statements read files by their path."""

from __future__ import annotations

from sqlglot import exp

from planner.dialect.nodes import FilePath
from planner.dialect.statements import Statement


def reads_paths(statement: Statement) -> bool:
    """Whether a query within the statement reads files by their path."""
    for value in vars(statement).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Statement) and reads_paths(part):
                return True
            if isinstance(part, exp.Expr) and part.find(FilePath) is not None:
                return True
    return False
