"""A recursive query, and what its step reads."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.node import Columns
from sqlstream.planner.relational import node as base
from sqlstream.schema import Field, Schema
from sqlstream.types import INT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RecursiveScan(base.RelationalNode):
    """The rows of the last round of the recursive query `name`. `level` tells it from those of the queries around it."""

    name: str
    level: int

    def describe(self) -> str:
        return f"name=[{self.name}]"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Iterate(base.RelationalNode):
    """A recursive query: the rows of `first`, those that `step` makes of them, and so on (specs.IterateSpec). `step` reads the
    RecursiveScan of this `level`. Both have the schema's names and types."""

    name: str
    level: int
    first: base.RelationalNode
    step: base.RelationalNode
    is_distinct: bool

    @property
    def inputs(self) -> tuple[base.RelationalNode, ...]:
        return (self.first, self.step)

    def with_inputs(self, inputs: tuple[base.RelationalNode, ...]) -> Iterate:
        first, step = inputs
        return dataclasses.replace(self, first=first, step=step)

    def describe(self) -> str:
        return f"name=[{self.name}], union=[{'DISTINCT' if self.is_distinct else 'ALL'}]"

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        """Every column decides which rows the next round has. The rows of the result have no time."""
        every = frozenset(range(len(self.schema)))
        first, step = (pruning.exactly(each, every, False) for each in self.inputs)
        return self.with_inputs((first, step)), base.places_of(tuple(range(len(self.schema))))

    def result_keys(self) -> tuple[base.Key, ...]:
        return (tuple(range(len(self.schema))),) if self.is_distinct else ()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MutualIterate(base.RelationalNode):
    """The queries `names` of a WITH MUTUALLY RECURSIVE (specs.MutualIterateSpec). Query i reads the RecursiveScan of level
    `level` + j for the rows of query j; `columns` are those of each. The result is the rows of the queries `read`: of one alone
    its columns, of several BINDING and then the columns of all of them, where those of other queries are NULL."""

    names: tuple[str, ...]
    level: int
    bodies: tuple[base.RelationalNode, ...]
    columns: tuple[Schema, ...]
    read: tuple[int, ...]
    rounds_max: int
    is_error: bool

    @property
    def inputs(self) -> tuple[base.RelationalNode, ...]:
        return self.bodies

    @property
    def levels(self) -> range:
        return range(self.level, self.level + len(self.bodies))

    def with_inputs(self, inputs: tuple[base.RelationalNode, ...]) -> MutualIterate:
        return dataclasses.replace(self, bodies=inputs)

    def describe(self) -> str:
        action = "error" if self.is_error else "return"
        limit = f"{action}At=[{self.rounds_max}]" if self.rounds_max else ""
        return base.join_parts(f"names=[{', '.join(self.names)}]", limit)

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        """Every column decides which rows the next round has. The rows of the result have no time."""
        bodies = (pruning.exactly(b, frozenset(range(len(b.schema))), False) for b in self.bodies)
        return self.with_inputs(tuple(bodies)), base.places_of(tuple(range(len(self.schema))))

    def result_keys(self) -> tuple[base.Key, ...]:
        """At the end the rows of a query are those that its text makes of them."""
        return self.bodies[self.read[0]].result_keys() if len(self.read) == 1 else ()


BINDING = Field("$binding", INT.not_null())
"""The column of a result of several queries that says which one has the row."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unroll(base.SingleInputNode):
    """The rows of each group of `keys` between the rounds in which one comes or goes (specs.UnrollSpec)."""

    keys: tuple[int, ...]
    is_distinct: bool = False
    is_greatest: tuple[bool, ...] = ()

    def describe(self) -> str:
        return base.join_parts(
            f"keys=[{base.columns_text(self.keys)}]", "distinct=[true]" if self.is_distinct else ""
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IterateInput(base.RelationalNode):
    """Input `ordinal` of an Iterate, as its step reads it."""

    ordinal: int
    is_insert_only: bool

    def describe(self) -> str:
        return f"ordinal=[{self.ordinal}]"


def free_levels(node: base.RelationalNode) -> frozenset[int]:
    """The levels of the recursive queries around `node` whose last round it reads."""
    found: dict[int, frozenset[int]] = {}

    def visit(node: base.RelationalNode) -> frozenset[int]:
        if id(node) not in found:
            below = [visit(each) for each in node.inputs]
            if isinstance(node, RecursiveScan):
                below = [frozenset({node.level})]
            elif isinstance(node, Iterate):
                below = [below[0], below[1] - {node.level}]
            elif isinstance(node, MutualIterate):
                below = [each - {*node.levels} for each in below]
            found[id(node)] = frozenset().union(*below)
        return found[id(node)]

    return visit(node)
