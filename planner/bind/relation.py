"""What stands in FROM, bound: a relational node and the names by which its columns are reached."""

from __future__ import annotations

import dataclasses

from planner.bind.scope import Scope
from planner.relational.nodes import RelationalNode


@dataclasses.dataclass(frozen=True)
class Relation:
    """The scope's columns are the node's, by position."""

    node: RelationalNode
    scope: Scope

    @property
    def qualifier(self) -> tuple[str, ...]:
        """The one name that all columns share; empty for a join."""
        qualifiers = self.scope.qualifiers
        return qualifiers[0] if len(qualifiers) == 1 else ()
