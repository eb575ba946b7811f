"""The join with what a table of changes holds when a row comes: LATERAL SNAPSHOT."""

from __future__ import annotations

import dataclasses

from sqlstream.errors import UserError
from sqlstream.expressions import Expression, conjunction, conjuncts
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.join import equal_columns
from sqlstream.planner.physical.node import Columns, PhysicalInput, PhysicalNode
from sqlstream.planner.physical.planning import Planning, hash_or_singleton
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.join import Join
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs.join import SnapshotJoinSpec


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SnapshotJoin(Join):
    """Each row of `left` with the rows that `right` holds when it comes (LATERAL SNAPSHOT). Later changes of `right` do not
    change the result: over tables that have ended it is the plain join. INNER or LEFT.

    `on_time`: the row time of `right`, by which its changes take effect; -1: none. `load_completed_time` reads no column.
    """

    on_time: int
    load_completed_time: Expression | None = None
    idle_timeout_ms: int | None = None
    ttl_ms: int | None = None

    def describe(self) -> str:
        time = "" if self.on_time < 0 else f", on_time=[${self.on_time + len(self.left.schema)}]"
        return f"{super().describe()}, snapshot=[TRUE]{time}"

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        if self.on_time < 0:
            return super().trim(pruning, wanted, time)
        column = self.on_time + len(self.left.schema)
        node, places = super().trim(pruning, wanted | {column}, True)
        assert isinstance(node, SnapshotJoin)
        return dataclasses.replace(node, on_time=places[column] - len(node.left.schema)), places


def plan_snapshot_join(planning: Planning, inputs: Inputs, node: SnapshotJoin) -> PhysicalNode:
    """The snapshot join. UserError SS3011 for left rows that are retracted, SS3499 without a row time or an equality."""
    left, right = inputs
    require_insert_only(left, "the left side of a join with LATERAL SNAPSHOT", node.span)
    if node.on_time < 0:
        raise UserError(
            "SS3499",
            "a join of a stream with LATERAL SNAPSHOT needs the row time of its table",
            span=node.span,
            hint="name the column with the watermark: on_time => DESCRIPTOR(ts)",
        )
    width, parts = len(left.schema), conjuncts(node.condition)
    pairs = {part: pair for part in parts if (pair := equal_columns(part, width)) is not None}
    if not pairs:
        raise UserError(
            "SS3499",
            "a join with LATERAL SNAPSHOT needs an equality of columns of both sides",
            span=node.span,
            hint="add one to ON: o.currency = r.currency",
        )
    keys = tuple(dict.fromkeys(pairs.values()))
    spec = SnapshotJoinSpec(
        kind=node.kind,
        left_keys=tuple(a for a, _ in keys),
        right_keys=tuple(b for _, b in keys),
        right_time_column=node.on_time,
        load_completed_time=node.load_completed_time,
        condition=conjunction(tuple(part for part in parts if part not in pairs)),
        idle_timeout_ms=node.idle_timeout_ms or 0,
        right_ttl_ms=planning.ttl_ms(node.ttl_ms),
    )
    exchanges = [hash_or_singleton(columns) for columns in (spec.left_keys, spec.right_keys)]
    return planning.node(
        "LateralSnapshotJoin",
        spec,
        (PhysicalInput(left, exchanges[0]), PhysicalInput(right, exchanges[1])),
        node.schema,
        # Rows that wait go out before the watermark that they came with, so that windows and times hold.
        dataclasses.replace(
            left.traits,
            keys=frozenset(),
            moving_keys=frozenset(),
            is_bounded=left.traits.is_bounded and right.traits.is_bounded,
            is_single_row_per_window=False,
            row_watermark_column=-1,
        ),
        _describe(spec, left, right),
        node.span,
    )


def _describe(spec: SnapshotJoinSpec, left: PhysicalNode, right: PhysicalNode) -> str:
    names, held = left.schema.names, right.schema.names
    joined = left.schema.concat(right.schema)
    pairs = zip(spec.left_keys, spec.right_keys, strict=True)
    time = spec.load_completed_time
    return describe(
        "LateralSnapshotJoin",
        joinType=f"[{spec.kind.value}]",
        where=f"[{', '.join(f'{names[a]} = {held[b]}' for a, b in pairs)}]",
        onTime=f"[{held[spec.right_time_column]}]",
        loadCompletedTime="" if time is None else f"[{describe_expression(time, joined)}]",
        loadCompletedIdleTimeout=f"[{spec.idle_timeout_ms} ms]" if spec.idle_timeout_ms else "",
        condition="" if spec.condition is None else f"[{describe_expression(spec.condition, joined)}]",
        select=describe_columns(tuple(range(len(joined))), joined),
    )
