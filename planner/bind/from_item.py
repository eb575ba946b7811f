"""An item of FROM, bound: a relational node and the names by which its columns are reached."""

from __future__ import annotations

import dataclasses

from planner.bind.scope import Scope
from planner.relational.nodes import RelationalNode
from sqlstream.errors import UserError

COLUMNS_MAX = 10_000
"""More would come from a chain of joins under SELECT *, which doubles them with every link."""


@dataclasses.dataclass(frozen=True)
class FromItem:
    """A table, subquery or join. The scope's columns are the node's, by position."""

    node: RelationalNode
    scope: Scope

    def __post_init__(self) -> None:
        columns = len(self.node.schema)
        if columns > COLUMNS_MAX:
            raise UserError(
                "SS3019",
                f"a item of this statement has {columns} columns, and {COLUMNS_MAX} are possible",
                span=self.node.span,
                hint="select the columns that are needed instead of *",
            )

    @property
    def qualifier(self) -> tuple[str, ...]:
        """The one name that all columns share; empty for a join."""
        qualifiers = self.scope.qualifiers
        return qualifiers[0] if len(qualifiers) == 1 else ()
