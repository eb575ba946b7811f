"""ORDER BY and LIMIT."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import UserError
from sqlstream.expressions import SortKey
from sqlstream.planner.physical.description import describe, describe_order
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import SINGLETON, Planning, over
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.rank import Rank, rank_rows
from sqlstream.specs import SortSpec, TemporalSortSpec
from sqlstream.specs.calc import LimitSpec
from sqlstream.types import TimeAttribute, is_rowtime


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sort(base.SameColumnsNode):
    """ORDER BY with OFFSET and FETCH (< 0: all). Without `order` it is a plain LIMIT."""

    order: tuple[SortKey, ...]
    offset: int = 0
    fetch: int = -1

    def describe(self) -> str:
        return base.join_parts(
            f"order=[{base.order_text(self.order)}]" if self.order else "",
            f"offset=[{self.offset}]" if self.offset else "",
            f"fetch=[{self.fetch}]" if self.fetch >= 0 else "",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        below = wanted | {k.column for k in self.order}
        time = time or self._is_by_row_time()
        source = pruning.exactly(self.input, below, time)
        places = base.places_of(tuple(sorted(below)))
        order = base.moved_order(self.order, places)
        return base.over_input(self, source, schema=source.schema, order=order), places

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


# ORDER BY, with or without LIMIT.


def plan_sort(planning: Planning, inputs: Inputs, node: Sort) -> PhysicalNode:
    """Bounded input: a Sort that emits at the end of input. Unbounded: ORDER BY … LIMIT is an updating Top-N.

    Without LIMIT it is a sort by time: UserError SS3014 for any other order, by which no row could ever be emitted.
    """
    source = inputs[0]
    if not node.order and source.traits.is_insert_only:
        return _limit(planning, source, node)
    if source.traits.is_bounded:
        return _sort(planning, source, node)
    if node.fetch < 0:
        return _temporal_sort(planning, source, node)
    return _top_n(planning, source, node)


def plan_final_rows(planning: Planning, source: PhysicalNode) -> PhysicalNode:
    """The rows that are left at the end of bounded input, insert-only."""
    return planning.node(
        "FinalRows",
        SortSpec(order=(), offset=0, fetch=-1),
        over(source, SINGLETON),
        source.schema,
        Traits(is_bounded=True, keys=source.traits.unique_keys),
        describe("FinalRows"),
        source.span,
        parallelism=1,
    )


def _sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    spec = SortSpec(order=node.order, offset=node.offset, fetch=node.fetch)
    traits = Traits(is_bounded=True, keys=source.traits.unique_keys)
    return planning.node(
        "Sort",
        spec,
        over(source, SINGLETON),
        node.schema,
        traits,
        describe(
            "Sort",
            orderBy=describe_order(node.order, source.schema),
            offset=str(node.offset) if node.offset else "",
            fetch=str(node.fetch) if node.fetch >= 0 else "",
        ),
        node.span,
        parallelism=1,
    )


def _temporal_sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    first = node.order[0] if node.order else None
    time = source.schema.types[first.column] if first is not None else None
    is_time = time is not None and time.time_attribute is not TimeAttribute.NONE
    if first is None or time is None or not is_time or first.is_descending or node.offset:
        raise UserError("SS3014", "ORDER BY on an unbounded table never comes to an end", span=node.span)
    require_insert_only(source, "ORDER BY time", node.span)
    is_event_time = is_rowtime(time)
    if is_event_time:
        require_time(source, first.column, "ORDER BY time", node.span)
    spec = TemporalSortSpec(
        order=node.order if is_event_time else node.order[1:],
        time_column=first.column if is_event_time else -1,
    )
    # Other times of the rows may be behind the watermark by now.
    traits = Traits(
        is_bounded=False,
        keys=source.traits.keys,
        times=source.traits.times & {first.column},
    )
    return planning.node(
        "TemporalSort",
        spec,
        over(source, SINGLETON),
        node.schema,
        traits,
        describe("TemporalSort", orderBy=describe_order(node.order, source.schema)),
        node.span,
        parallelism=1,
    )


def _top_n(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    rank = Rank(
        schema=node.schema,
        span=node.span,
        input=node.input,
        partition_keys=(),
        order=node.order,
        rank_start=node.offset + 1,
        rank_end=node.offset + node.fetch,
        outputs_rank=False,
    )
    return rank_rows(planning, source, rank)


def _limit(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    """One subtask counts the rows of an insert-only input; the traits of the input stay true."""
    offset = str(node.offset) if node.offset else ""
    fetch = str(node.fetch) if node.fetch >= 0 else ""
    return planning.node(
        "Limit",
        LimitSpec(fetch=node.fetch, offset=node.offset),
        over(source, SINGLETON),
        node.schema,
        dataclasses.replace(source.traits, row_watermark_column=-1),
        describe("Limit", offset=offset, fetch=fetch),
        node.span,
        parallelism=1,
    )
