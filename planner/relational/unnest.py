"""The elements of a collection as rows, beside the row that holds it (Flink: a Correlate over an Uncollect)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.expressions import Call, Expression, InputRef, Literal, substitute
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.lower.lowering import numbered
from sqlstream.planner.relational.node import RelationalNode, SingleInputNode
from sqlstream.planner.relational.tracing import Condition, of_columns
from sqlstream.planner.relational.trimming import Columns, Pruning, over_input
from sqlstream.planner.relational.wording import columns_text, join_parts
from sqlstream.schema import Field, Schema
from sqlstream.types import INT, LogicalType, TypeRoot

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed

ORDINALITY = "ORDINALITY"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unnest(SingleInputNode):
    """A row per element of the ARRAY or MULTISET in column `collection`: the `columns` of the input, then the element, whose
    fields are columns of their own if it is a ROW, then its number from 1 if `has_ordinality`. `is_outer`: a row without elements
    occurs once, with NULLs."""

    collection: int
    columns: tuple[int, ...]
    is_outer: bool
    has_ordinality: bool

    @staticmethod
    def over(
        input: RelationalNode,
        collection: int,
        columns: tuple[int, ...],
        names: tuple[str, ...],
        is_outer: bool,
        has_ordinality: bool,
    ) -> Unnest:
        """`names` are those of the elements' columns."""
        types = element_types(input.schema.types[collection])
        if has_ordinality:
            types = (*types, INT.not_null())
        if is_outer:
            types = tuple(t.with_nullable(True) for t in types)
        made = tuple(Field(n, t) for n, t in zip(names, types, strict=True))
        return Unnest(
            input=input,
            collection=collection,
            columns=columns,
            is_outer=is_outer,
            has_ordinality=has_ordinality,
            schema=Schema(input.schema.select(columns).fields + made),
            span=input.span,
        )

    def describe(self) -> str:
        return join_parts(
            f"unnest=[${self.collection}]",
            f"kind=[{'LEFT' if self.is_outer else 'INNER'}]",
            f"columns=[{columns_text(self.columns)}]",
            "ordinality=[true]" if self.has_ordinality else "",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        count = len(self.columns)
        kept = tuple(p for p in range(count) if p in wanted)
        below = frozenset(self.columns[p] for p in kept) | {self.collection}
        source, places = pruning.trim(self.input, below, time)
        output = (*kept, *range(count, len(self.schema)))
        unnest = over_input(
            self,
            source,
            schema=self.schema.select(output),
            collection=places[self.collection],
            columns=tuple(places[self.columns[p]] for p in kept),
        )
        return unnest, {old: new for new, old in enumerate(output)}

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """First a row per element with its number, then the element by its number."""
        engine, t = lowering.engine, self.input.schema.types[self.collection]
        if t.root is not TypeRoot.ARRAY:
            raise refuse(engine.title, f"UNNEST of {t.with_nullable(True)}", span=self.span)
        width = len(self.input.schema)
        number = engine.element_numbers(tree.input_column(self.collection), self.is_outer)
        columns = [tree.input_column(i) for i in range(width)]
        numbers = tree.select(numbered([*columns, number]), tree.subquery(inputs[0], "i"))
        lowered = [lowering.expression(e) for e in self._output()]
        return tree.select(numbered(lowered), tree.subquery(numbers, "i"))

    def _output(self) -> list[Expression]:
        """Expressions over the input's columns and the number of the element behind them."""
        types = self.input.schema.types
        collection, number = InputRef(self.collection, types[self.collection]), InputRef(len(types), INT)
        assert collection.type.element is not None
        element = Call("ITEM", (collection, number), collection.type.element.with_nullable(True))
        output: list[Expression] = [InputRef(c, types[c]) for c in self.columns]
        if element.type.root is TypeRoot.ROW:
            fields = enumerate(element.type.fields)
            places = [(Literal(i, INT.not_null()), f.type.with_nullable(True)) for i, f in fields]
            output += [Call("FIELD", (element, place), t) for place, t in places]
        else:
            output.append(element)
        return [*output, number] if self.has_ordinality else output

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        below = tuple(InputRef(c, self.input.schema.types[c]) for c in self.columns)
        found = of_columns(conditions, range(len(below)))
        return [[Condition(substitute(c.expression, below), c.is_of_key) for c in found]]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return (self.input, self.columns[column]) if column < len(self.columns) else None


def element_types(collection: LogicalType) -> tuple[LogicalType, ...]:
    """The types of the columns that an element makes: those of its fields if it is a ROW."""
    element = collection.element
    assert element is not None
    if element.root is not TypeRoot.ROW:
        return (element,)
    return tuple(f.type.with_nullable(f.type.nullable or element.nullable) for f in element.fields)
