"""UNION ALL."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import references
from sqlstream.planner.physical.description import describe, describe_select
from sqlstream.planner.physical.node import Columns, PhysicalInput, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational.node import Condition, Pruning, RelationalNode, Trimmed, places_of
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs import CalcSpec


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Union(RelationalNode):
    """UNION ALL; all inputs have the schema's types."""

    branches: tuple[RelationalNode, ...]

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, branches=inputs)

    def describe(self) -> str:
        return "all=[true]"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        branches = tuple(pruning.exactly(b, wanted, time) for b in self.branches)
        kept = tuple(sorted(wanted))
        return dataclasses.replace(self, branches=branches, schema=self.schema.select(kept)), places_of(kept)

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        return [[*conditions] for _ in self.branches]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Backfill(Union):
    """The rows of a history and then those of the table `table`: a UNION ALL whose first branch a batch engine reads to its end
    before anything of the second is read. `group` names what waits. `is_by_time`: all rows of the second branch are at or after
    a moment of event time that no row of the first reaches. `turn`: among the histories that are rows of joins, which are read
    one behind the other."""

    table: str
    group: str
    is_by_time: bool
    turn: int = 0

    def describe(self) -> str:
        return f"table=[{self.table}], byTime=[{str(self.is_by_time).lower()}]"


# UNION ALL: no operator, but several edges into one input.


def plan_union(planning: Planning, inputs: Inputs, node: Union) -> PhysicalNode:
    """All edges have one changelog mode: where one branch retracts rows, insert-only ones get a Calc that adds the row
    kind column."""
    branches = tuple(inputs)
    is_insert_only = all(b.traits.is_insert_only for b in branches)
    if not is_insert_only:
        branches = tuple(_with_row_kinds(planning, b) if b.traits.is_insert_only else b for b in branches)
    times = frozenset.intersection(*(b.traits.times for b in branches))
    traits = Traits(
        is_insert_only=is_insert_only,
        is_bounded=all(b.traits.is_bounded for b in branches),
        windows=_common_windows([b.traits.windows for b in branches]),
        times=times,
    )
    return planning.node(
        "Union",
        None,
        tuple(PhysicalInput(b) for b in branches),
        node.schema,
        traits,
        describe("Union", all="[true]", union=f"[{', '.join(node.schema.names)}]"),
        node.span,
    )


def _common_windows(branches: list[tuple[WindowTrait, ...]]) -> tuple[WindowTrait, ...]:
    """Those with the same bounds in all branches, with the row times that all have."""
    found = []
    for window in branches[0]:
        same = [[w for w in windows if w.has_bounds_of(window)] for windows in branches]
        if all(same):
            row_times = frozenset.intersection(*(windows[0].row_times for windows in same))
            found.append(dataclasses.replace(window, row_times=row_times))
    return tuple(found)


def _with_row_kinds(planning: Planning, branch: PhysicalNode) -> PhysicalNode:
    spec = CalcSpec(projections=references(branch.schema.types))
    return planning.node(
        "Calc",
        spec,
        over(branch),
        branch.schema,
        dataclasses.replace(branch.traits, is_insert_only=False),
        describe(
            "Calc",
            select=describe_select(spec.projections, branch.schema.names, branch.schema),
            rowKinds="+I",
        ),
        branch.span,
        is_reusable=False,
    )
