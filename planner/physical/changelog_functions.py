"""FROM_CHANGELOG and TO_CHANGELOG."""

from __future__ import annotations

import dataclasses

from sqlstream.changelog import RowKind
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.changelog_normalize import normalized
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.exchanges import hash_or_singleton
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.physical.traits import Traits
from sqlstream.planner.relational.nodes import FromChangelog, RelationalNode, ToChangelog
from sqlstream.specs.changelog_functions import FromChangelogSpec, ToChangelogSpec


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
