"""Rows once per grouping set (Flink: LogicalExpand)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.relational.node import RelationalNode, SingleInputNode
from sqlstream.planner.relational.tracing import Condition, of_columns
from sqlstream.planner.relational.trimming import Columns, Pruning, one_column, over_input, places_of
from sqlstream.planner.relational.wording import columns_text
from sqlstream.schema import Field, Schema
from sqlstream.types import INT

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed

EXPAND_ID = Field("$e", INT.not_null())


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Expand(SingleInputNode):
    """Each input row once per set, with NULL in those of the columns `grouped` that are not in the set. The last column is the
    number of the set, from 0."""

    grouped: tuple[int, ...]
    sets: tuple[frozenset[int], ...]

    @staticmethod
    def over(input: RelationalNode, grouped: tuple[int, ...], sets: tuple[frozenset[int], ...]) -> Expand:
        fields = tuple(
            Field(f.name, f.type.with_nullable(True)) if i in grouped else f
            for i, f in enumerate(input.schema.fields)
        )
        schema = Schema((*fields, EXPAND_ID))
        return Expand(input=input, grouped=grouped, sets=sets, schema=schema, span=input.span)

    def describe(self) -> str:
        sets = ", ".join("{" + columns_text(sorted(s)) + "}" for s in self.sets)
        return f"grouped=[{columns_text(self.grouped)}], sets=[{sets}]"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        own = len(self.input.schema)
        below = frozenset(c for c in wanted if c < own) or one_column(self.input.schema)
        source = pruning.exactly(self.input, below, time)
        places = places_of(tuple(sorted(below)))
        grouped = tuple(places[c] for c in self.grouped if c in places)
        sets = tuple(frozenset(places[c] for c in s if c in places) for s in self.sets)
        schema = self.schema.select((*sorted(below), own))
        return over_input(self, source, schema=schema, grouped=grouped, sets=sets), places | {own: len(below)}

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """A cross join with the numbers of the sets."""
        id_ = tree.column("e", "n")
        columns = [self._lowered(i, id_) for i in range(len(self.input.schema))]
        columns.append(tree.cast(id_, lowering.engine.type_(EXPAND_ID.type)))
        numbers = exp.Values(
            expressions=[exp.Tuple(expressions=[tree.number(i)]) for i in range(len(self.sets))],
            alias=exp.TableAlias(this=exp.to_identifier("n"), columns=[exp.to_identifier("e")]),
        )
        join = exp.Join(this=numbers, kind="CROSS")
        named = [tree.alias(column, f"c{i}") for i, column in enumerate(columns)]
        return tree.select(named, tree.subquery(inputs[0], "i"), joins=[join])

    def _lowered(self, column: int, id_: exp.Expr) -> exp.Expr:
        value = tree.input_column(column)
        if column not in self.grouped:
            return value
        within = [tree.operate(exp.EQ, id_, tree.number(i)) for i, s in enumerate(self.sets) if column in s]
        return tree.case([(tree.any_of(within), value)], tree.null())

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        """Conditions on the columns that all sets have."""
        return [of_columns(conditions, set(range(len(self.input.schema))) - {*self.grouped})]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return None if column in self.grouped else self.copied(column)
