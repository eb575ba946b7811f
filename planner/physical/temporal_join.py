"""Joins with the versions of rows that were valid at a row time.

Rows of a key meet in one subtask, left rows with the versions of their key. Both sides need a watermark: it says when no version
is missing any more.
"""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.relational.nodes import RelationalNode, TemporalJoin
from sqlstream.specs import JoinKind, TemporalJoinSpec

_VERSIONED = (
    "join a table, of rows or of changes: with a primary key and a watermark each of its rows is a version"
)


def plan_temporal_join(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """The temporal join. UserError SS3011 for rows that are retracted, SS3412 for a row time without its watermark."""
    if not isinstance(node, TemporalJoin):
        return None
    left, right = inputs
    require_insert_only(left, "a join as of a row time", node.span)
    require_insert_only(right, "a join as of a row time", node.span, _VERSIONED)
    for side, time in ((left, node.left_time), (right, node.right_time)):
        require_time(side, time, "a join as of a row time", node.span)
    spec = TemporalJoinSpec(
        kind=JoinKind(node.kind.value),
        left_keys=node.left_keys,
        right_keys=node.right_keys,
        left_time_column=node.left_time,
        right_time_column=node.right_time,
        condition=node.condition,
        right_ttl_ms=planning.state_ttl_ms,
        right_valid_column=node.right_valid,
    )
    keys = [hash_or_singleton(keys) for keys in (node.left_keys, node.right_keys)]
    return planning.node(
        "TemporalJoin",
        spec,
        (PhysicalInput(left, keys[0]), PhysicalInput(right, keys[1])),
        node.schema,
        _traits(left.traits, right.traits, node.left_time),
        _describe(spec, left, right),
        node.span,
        parallelism=0 if node.left_keys else 1,
    )


def _traits(left: Traits, right: Traits, time: int) -> Traits:
    """A left row waits until the watermark passes `time`; its other times may be behind the watermark then."""
    windows: tuple[WindowTrait, ...] = tuple(w for w in left.windows if w.is_open_at(time))
    return dataclasses.replace(
        left,
        is_bounded=left.is_bounded and right.is_bounded,
        windows=windows,
        times=frozenset({time}),
        is_single_row_per_window=False,
        row_watermark_column=-1,
    )


def _describe(spec: TemporalJoinSpec, left: PhysicalNode, right: PhysicalNode) -> str:
    names, versions = left.schema.names, right.schema.names
    joined = left.schema.concat(right.schema)
    pairs = zip(spec.left_keys, spec.right_keys, strict=True)
    return describe(
        "TemporalJoin",
        joinType=f"[{spec.kind.value}]",
        where=f"[{', '.join(f'{names[a]} = {versions[b]}' for a, b in pairs)}]",
        asOf=f"[{versions[spec.right_time_column]} <= {names[spec.left_time_column]}]",
        condition="" if spec.condition is None else f"[{describe_expression(spec.condition, joined)}]",
        select=describe_columns(tuple(range(len(joined))), joined),
    )
