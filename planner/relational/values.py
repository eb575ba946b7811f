"""Literal rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import Literal, LiteralValue
from sqlstream.planner.lower import tree
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.planner.relational.trimming import Columns, Pruning, places_of

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed

Row = tuple[LiteralValue, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Values(RelationalNode):
    """Literal rows (encoding of `Literal.value`)."""

    rows: tuple[Row, ...]

    def describe(self) -> str:
        rows = (
            "(" + ", ".join(str(Literal(v, t)) for v, t in zip(row, self.schema.types, strict=True)) + ")"
            for row in self.rows
        )
        return f"rows=[{', '.join(rows)}]"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        kept = tuple(sorted(wanted))
        if len(kept) == len(self.schema):
            return self, places_of(kept)
        rows = tuple(_chosen(self.rows, kept))
        return dataclasses.replace(self, rows=rows, schema=self.schema.select(kept)), places_of(kept)

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        types, width = self.schema.types, range(len(self.schema))
        rows = [
            exp.Tuple(
                expressions=[lowering.engine.literal(Literal(v, t)) for v, t in zip(row, types, strict=True)]
            )
            for row in self.rows or [(None,) * len(types)]
        ]
        names = exp.TableAlias(
            this=exp.to_identifier("v"), columns=[exp.to_identifier(f"c{i}") for i in width]
        )
        made = tree.select([tree.star()], exp.Values(expressions=rows, alias=names))
        return made if self.rows else tree.select_all(made, where=tree.boolean(False))


def _chosen(rows: tuple[Row, ...], kept: tuple[int, ...]) -> Iterator[Row]:
    for row in rows:
        check_not_given_up()
        yield tuple(row[i] for i in kept)
