"""Lookup joins: a stream with a table that its connector reads by key.

The rows stay where they are: every subtask looks up for its own rows, unless the hint LOOKUP with 'shuffle' = 'true' brings
the rows of a key together, so that each subtask caches keys of its own.
"""

from __future__ import annotations

import dataclasses

from sqlstream.errors import UserError
from sqlstream.expressions import InputRef, conjunction
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.kept_values import refuse_changing_condition
from sqlstream.planner.physical.looked_up_table import Dimension, LookupKeys, looked_up_table
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.physical.refusals import producer
from sqlstream.planner.physical.source import scan_spec
from sqlstream.planner.physical.traits import Columns, Traits
from sqlstream.planner.relational.nodes import LookupJoin, RelationalJoinKind
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, LookupJoinSpec
from sqlstream.spi.lookup import CacheKind, LookupOptions

_KINDS = {RelationalJoinKind.INNER: JoinKind.INNER, RelationalJoinKind.LEFT: JoinKind.LEFT}


def plan_lookup_join(planning: Planning, left: PhysicalNode, node: LookupJoin) -> PhysicalNode:
    """The lookup join. UserError as of `looked_up_table`, and SS3032 for rows that are retracted."""
    table = looked_up_table(node, planning.connectors)
    dimension, keys, lookup = table.dimension, table.keys, table.options
    scan = dimension.scan
    if not left.traits.is_insert_only:
        _check_updates(left, node, scan.table.path.name, lookup)
    condition = conjunction(keys.rest)
    refuse_changing_condition(planning, condition, (left,), node.span)
    exchange = Exchange(ExchangeKind.HASH, keys.left) if node.is_shuffled else FORWARD
    spec = LookupJoinSpec(
        kind=_KINDS[node.kind],
        left_keys=keys.left,
        source_keys=keys.source,
        right_keys=keys.right,
        source=scan_spec(scan, table.descriptor),
        projections=dimension.projections,
        right_schema=node.right.schema,
        source_condition=dimension.condition,
        condition=condition,
        retry=node.retry,
    )
    return planning.node(
        "LookupJoin",
        spec,
        (PhysicalInput(left, exchange),),
        node.schema,
        _traits(left.traits, len(left.schema), dimension, keys),
        _describe(spec, lookup, left.schema, scan.schema, node.right.schema),
        node.span,
    )


def _check_updates(left: PhysicalNode, node: LookupJoin, name: str, lookup: LookupOptions) -> None:
    cause = producer(left)
    if node.is_shuffled:
        raise UserError(
            "SS3032",
            f'{cause.name} retracts rows, whose order a shuffle by the keys of table "{name}" would lose',
            span=node.span or cause.span,
            hint="leave 'shuffle' out of the hint LOOKUP",
        )
    if lookup.is_constant:
        return
    raise UserError(
        "SS3032",
        f'{cause.name} retracts rows, and table "{name}" may have changed between a row and its retraction',
        span=node.span or cause.span,
        hint="load the table once, with 'lookup.cache' = 'FULL' and no reload, or join before the aggregation",
    )


def _traits(left: Traits, left_count: int, dimension: Dimension, keys: LookupKeys) -> Traits:
    """The left side's windows and times hold; its keys hold too where a row has at most one match."""
    primary = frozenset(dimension.scan.table.primary_key)
    looked_up = {dimension.scan.schema.names[c] for c in keys.source}
    own: frozenset[Columns] = frozenset()
    if primary and primary <= looked_up:
        own = left.keys
    elif primary:
        places = {
            dimension.scan.schema.names[p.index]: left_count + i
            for i, p in enumerate(dimension.projections)
            if isinstance(p, InputRef)
        }
        if all(column in places for column in primary):
            unique = frozenset(places[column] for column in primary)
            own = frozenset(key | unique for key in left.keys)
    return dataclasses.replace(
        left, keys=own, moving_keys=frozenset(), is_single_row_per_window=False, row_watermark_column=-1
    )


def _describe(
    spec: LookupJoinSpec, lookup: LookupOptions, left: Schema, source: Schema, right: Schema
) -> str:
    joined = left.concat(right)
    pairs = zip(spec.source_keys, spec.left_keys, strict=True)
    where = "" if spec.source_condition is None else describe_expression(spec.source_condition, source)
    retry = spec.retry
    return describe(
        "LookupJoin",
        table=f"[{spec.source.table}]",
        connector=spec.source.connector,
        joinType=f"[{spec.kind.value}]",
        lookup=f"[{', '.join(f'{source.names[s]}={left.names[k]}' for s, k in pairs)}]",
        where=f"[{where}]",
        condition="" if spec.condition is None else f"[{describe_expression(spec.condition, joined)}]",
        cache="" if lookup.cache is CacheKind.NONE else lookup.cache.value,
        retry="" if retry is None else f"[{retry.attempts_max} times, {retry.delay_ms} ms apart]",
        select=describe_columns(tuple(range(len(joined))), joined),
    )
