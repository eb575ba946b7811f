"""Sources of changes by key: their rows become a changelog that every operator can read."""

from __future__ import annotations

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError
from sqlstream.expressions import conjunction
from sqlstream.planner.physical.calc import identity, plan_calc
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.exchanges import hash_or_singleton
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.nodes import TableScan
from sqlstream.schema import Schema
from sqlstream.specs.changelog_normalize import ChangelogNormalizeSpec

EVENTS_DUPLICATE = "table.exec.source.cdc-events-duplicate"


def normalizes(planning: Planning, node: TableScan) -> bool:
    """Whether the rows of a scan must be made a changelog. UserError SS3495 for events that may come twice, of a table without a
    key."""
    if node.mode is ChangelogMode.UPSERT:
        return True
    return bool(planning.setting(EVENTS_DUPLICATE)) and changes_are_doubled(node)


def changes_are_doubled(node: TableScan) -> bool:
    """Whether the last change of a key counts, where events may come twice. UserError SS3495 for a table without a key."""
    if node.mode is not ChangelogMode.RETRACT:
        return False
    if not node.table.primary_key:
        raise UserError(
            "SS3495",
            f'"{EVENTS_DUPLICATE}" is set, and table "{node.table.path.name}" has no primary key to know an event again by',
            span=node.span,
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table",
        )
    return True


def filtered_by_key(planning: Planning, source: PhysicalNode, node: TableScan) -> PhysicalNode:
    """The changes of the rows that the filters of the scan let through."""
    condition = conjunction(node.filters)
    if condition is None:
        return source
    return plan_calc(planning, source, identity(source.schema), condition, source.schema, node.span)


def plan_changelog_normalize(planning: Planning, source: PhysicalNode, node: TableScan) -> PhysicalNode:
    """The last row of each primary key. Filters by the key come before it: they drop all changes of a row, or none."""
    source = filtered_by_key(planning, source, node)
    names = node.schema.names
    keys = tuple(names.index(name) for name in node.table.primary_key)
    values: tuple[int, ...] = ()
    if source.traits.is_insert_only:
        values = tuple(i for i, name in enumerate(node.columns) if name not in node.table.primary_key)
    marks = len(node.schema) if node.marks_unknown else -1
    return normalized(planning, source, keys, values, node.span, marks, keeps_changes=node.keeps_changes)


def normalized(
    planning: Planning,
    source: PhysicalNode,
    keys: tuple[int, ...],
    values: tuple[int, ...],
    span: Span | None,
    marks: int = -1,
    *,
    keeps_changes: bool = False,
) -> PhysicalNode:
    """Changes by key as a changelog of whole rows; of rows without operations, those with nothing in `values` delete. `marks`:
    the last column, which names the values that a row lacks."""
    spec = ChangelogNormalizeSpec(keys, values, planning.state_ttl_ms, marks, keeps_changes)
    schema = source.schema if marks < 0 else Schema(source.schema.fields[:marks])
    return planning.node(
        "ChangelogNormalize",
        spec,
        over(source, hash_or_singleton(keys)),
        schema,
        Traits(
            is_insert_only=False,
            is_bounded=source.traits.is_bounded,
            keys=frozenset({frozenset(keys)}),
            times=source.traits.times,
        ),
        describe(
            "ChangelogNormalize",
            key=describe_columns(keys, source.schema),
            fills="[values that an event lacks]" if marks >= 0 else "",
            changes="all" if keeps_changes else "",
        ),
        span,
    )
