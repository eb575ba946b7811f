"""A bound item of FROM: a relational node and the scope that names its columns."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import UserError
from sqlstream.planner.bind.scope import Scope
from sqlstream.planner.relational.nodes import RelationalNode

COLUMNS_MAX = 10_000
"""Bound on the columns of one item: a chain of joins under SELECT * doubles them with every join."""


@dataclasses.dataclass(frozen=True)
class FromItem:
    """A table, subquery or join. Column i of the scope is column i of the node."""

    node: RelationalNode
    scope: Scope

    def __post_init__(self) -> None:
        columns = len(self.node.schema)
        if columns > COLUMNS_MAX:
            raise UserError(
                "SS3019",
                f"an item of FROM has {columns} columns, and {COLUMNS_MAX} are possible",
                span=self.node.span,
                hint="select the columns that are needed instead of *",
            )

    @property
    def qualifier(self) -> tuple[str, ...]:
        """The one name that all columns share; empty for a join."""
        qualifiers = self.scope.qualifiers
        return qualifiers[0] if len(qualifiers) == 1 else ()
