"""The physical plan: operators with their specs, exchanges, and traits of their output."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.graph.stream_graph import FORWARD, Exchange
from sqlstream.planner.physical.traits import Traits
from sqlstream.schema import Schema
from sqlstream.specs import Spec


@dataclasses.dataclass(frozen=True, eq=False)
class PhysicalInput:
    """The distribution that an operator requires of an input. FORWARD: any."""

    node: PhysicalNode
    exchange: Exchange = FORWARD


@dataclasses.dataclass(frozen=True, eq=False)
class PhysicalNode:
    """One operator. Nodes are interned: the same operator over the same inputs is one object, and runs once.

    `spec` None is UNION ALL, which becomes several edges. `parallelism` > 0 is fixed; 0 means the default behind a
    HASH exchange, else that of the FORWARD input. `uid` digests spec, inputs and types, not names. `changelog_mode` is
    that of the output (a sink's: of the rows it receives); None until changelog inference, which needs the whole plan.
    `state` finds the operator's state again; None for an operator that keeps none.
    """

    name: str
    spec: Spec | None
    inputs: tuple[PhysicalInput, ...]
    schema: Schema
    traits: Traits
    description: str
    uid: str
    parallelism: int = 0
    span: Span | None = None
    changelog_mode: ChangelogMode | None = None
    state: StateIdentity | None = None

    @property
    def settled_mode(self) -> ChangelogMode:
        """The changelog mode of a node of an inferred plan."""
        assert self.changelog_mode is not None, f"the changelog mode of {self.name} is not inferred"
        return self.changelog_mode


def walk_plan(roots: tuple[PhysicalNode, ...]) -> Iterator[PhysicalNode]:
    """Every node once, inputs before their consumers, in the order of the statements."""
    seen: set[int] = set()

    def visit(node: PhysicalNode) -> Iterator[PhysicalNode]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for physical_input in node.inputs:
            yield from visit(physical_input.node)
        yield node

    for root in roots:
        yield from visit(root)
