"""The join with the versions of rows that were valid at a time."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, inputs_of, remap
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.node import Columns, PhysicalInput, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.relational.node import Key, Pruning, RelationalNode, Trimmed, TwoInputNode, places_of
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs import TemporalJoinSpec
from sqlstream.specs.join import JoinKind


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TemporalJoin(TwoInputNode):
    """Each row of `left` with the row of `right` that was valid at its time (FOR SYSTEM_TIME AS OF a row time). The rows of
    `right` are versions: each is valid from `right_time` until the next one with the same `right_keys`.

    `condition` ranges over left then right columns and is asked of the valid version; None is TRUE. INNER or LEFT.
    A version matches only where the column `right_valid` is TRUE, as `condition` says too; -1: each one may.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int
    right_time: int
    condition: Expression | None
    right_valid: int = -1

    def describe(self) -> str:
        keys = ", ".join(
            f"${a} = ${b + len(self.left.schema)}"
            for a, b in zip(self.left_keys, self.right_keys, strict=True)
        )
        times = f"as_of=[${self.left_time}], valid_from=[${self.right_time + len(self.left.schema)}]"
        condition = "" if self.condition is None else f", condition=[{self.condition}]"
        return f"kind=[{self.kind.value}], keys=[{keys}], {times}{condition}"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        split = len(self.left.schema)
        columns = wanted | (inputs_of(self.condition) if self.condition is not None else frozenset())
        left_columns = {c for c in columns if c < split} | {*self.left_keys, self.left_time}
        own = {*self.right_keys, self.right_time} | ({self.right_valid} if self.right_valid >= 0 else set())
        right_columns = {c - split for c in columns if c >= split} | own
        kept = tuple(sorted(left_columns)) + tuple(split + c for c in sorted(right_columns))
        places = places_of(kept)
        right_places = places_of(tuple(sorted(right_columns)))
        node = dataclasses.replace(
            self,
            left=pruning.exactly(self.left, frozenset(left_columns), True),
            right=pruning.exactly(self.right, frozenset(right_columns), True),
            left_keys=tuple(places[k] for k in self.left_keys),
            right_keys=tuple(right_places[k] for k in self.right_keys),
            left_time=places[self.left_time],
            right_time=right_places[self.right_time],
            right_valid=right_places.get(self.right_valid, -1),
            condition=None if self.condition is None else remap(self.condition, places),
            schema=self.schema.select(kept),
        )
        return node, places

    def result_keys(self) -> tuple[Key, ...]:
        # A row has one match at most.
        return self.left.result_keys()

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        width = len(self.left.schema)
        return (self.left, column) if column < width else (self.right, column - width)

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)


# Joins with the versions of rows that were valid at a row time.
#
# Rows of a key meet in one subtask, left rows with the versions of their key. Both sides need a watermark: it says
# when no version is missing any more.


_VERSIONED = (
    "join a table, of rows or of changes: with a primary key and a watermark each of its rows is a version"
)


def plan_temporal_join(planning: Planning, inputs: Inputs, node: TemporalJoin) -> PhysicalNode:
    """The temporal join. UserError SS3011 for rows that are retracted, SS3412 for a row time without its watermark."""
    left, right = inputs
    require_insert_only(left, "a join as of a row time", node.span)
    require_insert_only(right, "a join as of a row time", node.span, _VERSIONED)
    for side, time in ((left, node.left_time), (right, node.right_time)):
        require_time(side, time, "a join as of a row time", node.span)
    spec = TemporalJoinSpec(
        kind=node.kind,
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
