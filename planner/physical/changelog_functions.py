"""FROM_CHANGELOG and TO_CHANGELOG."""

from __future__ import annotations

import dataclasses

from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import Span, UserError
from sqlstream.expressions import conjunction
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.calc import identity, plan_calc
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.relational.nodes import FromChangelog, RelationalNode, TableScan, ToChangelog
from sqlstream.schema import Schema
from sqlstream.specs.changelog_functions import ChangelogNormalizeSpec, FromChangelogSpec, ToChangelogSpec


def plan_from_changelog(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """With keys the changes are by key, and become a changelog of whole rows. UserError SS3011 for rows that change already."""
    if not isinstance(node, FromChangelog):
        return None
    source = inputs[0]
    require_insert_only(source, "FROM_CHANGELOG", node.span)
    kinds = tuple(kind for _, kind in node.codes)
    places = {column: frozenset({place}) for place, column in enumerate(node.columns)}
    is_insert_only = all(kind is RowKind.INSERT for kind in kinds) and not node.keys
    traits = source.traits.projected(places)
    if not is_insert_only:
        # Row times may lie behind those of the rows that they replace, and are behind the watermark then.
        traits = Traits(False, source.traits.is_bounded, times=traits.times, is_by_key=bool(node.keys))
    made = planning.node(
        "FromChangelog",
        FromChangelogSpec(
            node.op,
            tuple(code for code, _ in node.codes),
            tuple(int(kind) for kind in kinds),
            node.skips_invalid,
            node.keys,
        ),
        over(source),
        node.schema,
        dataclasses.replace(traits, row_watermark_column=-1),
        describe(
            "FromChangelog",
            op=source.schema.names[node.op],
            mapping=f"[{', '.join(f'{code}={kind.symbol}' for code, kind in node.codes)}]",
        ),
        node.span,
    )
    if not node.keys:
        return made
    return normalized(planning, made, tuple(range(len(node.keys))), (), node.span, keeps_changes=True)


def plan_to_changelog(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """Every change of the input is a row."""
    if not isinstance(node, ToChangelog):
        return None
    source = inputs[0]
    mapping = zip(RowKind, node.codes, strict=True)
    return planning.node(
        "ToChangelog",
        ToChangelogSpec(node.codes, node.keys),
        over(source, hash_or_singleton(node.keys) if node.keys else FORWARD),
        node.schema,
        Traits(is_bounded=source.traits.is_bounded),
        describe(
            "ToChangelog",
            mapping=f"[{', '.join(f'{k.symbol}={code}' for k, code in mapping if code is not None)}]",
            keys=describe_columns(node.keys, source.schema) if node.keys else "",
        ),
        node.span,
    )


# Sources of changes by key: their rows become a changelog that every operator can read.


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
