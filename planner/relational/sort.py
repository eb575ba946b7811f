"""ORDER BY and LIMIT."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.expressions import SortKey
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.lowering import ordered
from sqlstream.planner.relational.node import SameColumnsNode
from sqlstream.planner.relational.trimming import Columns, Pruning, moved_order, over_input, places_of
from sqlstream.planner.relational.wording import join_parts, order_text
from sqlstream.types import is_rowtime

if TYPE_CHECKING:
    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sort(SameColumnsNode):
    """ORDER BY with OFFSET and FETCH (< 0: all). Without `order` it is a plain LIMIT."""

    order: tuple[SortKey, ...]
    offset: int = 0
    fetch: int = -1

    def describe(self) -> str:
        return join_parts(
            f"order=[{order_text(self.order)}]" if self.order else "",
            f"offset=[{self.offset}]" if self.offset else "",
            f"fetch=[{self.fetch}]" if self.fetch >= 0 else "",
        )

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        below = wanted | {k.column for k in self.order}
        time = time or self._is_by_row_time()
        source = pruning.exactly(self.input, below, time)
        places = places_of(tuple(sorted(below)))
        order = moved_order(self.order, places)
        return over_input(self, source, schema=source.schema, order=order), places

    def _is_by_row_time(self) -> bool:
        """Whether rows that never end are sorted up to each watermark."""
        if not self.order or self.fetch >= 0 or not is_rowtime(self.input.schema.types[self.order[0].column]):
            return False
        pending, seen = [self.input], set[int]()
        while pending:
            node = pending.pop()
            if id(node) not in seen:
                seen.add(id(node))
                if not getattr(node, "is_bounded", True):
                    return True
                pending += node.inputs
        return False

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        made = tree.select_all(inputs[0])
        if self.order:
            made.set("order", exp.Order(expressions=ordered(self.order, "i")))
        if self.fetch >= 0:
            made.set("limit", exp.Limit(expression=tree.number(self.fetch)))
        if self.offset:
            made.set("offset", exp.Offset(expression=tree.number(self.offset)))
        return made
