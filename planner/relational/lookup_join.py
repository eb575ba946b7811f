"""Lookup joins: a stream with a table that its connector reads by key.

The rows stay where they are: every subtask looks up for its own rows. The hint LOOKUP with 'shuffle' = 'true' brings the rows
of a key together, so that each subtask caches keys of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    conjunction,
    conjuncts,
    inputs_of,
    references,
    substitute,
)
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.join import equal_columns
from sqlstream.planner.physical.node import Columns, PhysicalInput, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.physical.refusals import producer, refuse_changing_condition
from sqlstream.planner.relational.calc import Filter, Project
from sqlstream.planner.relational.join import Join
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.scan import TableScan, find_connector, scan_spec
from sqlstream.planner.relational.watermark import Watermark
from sqlstream.schema import Schema
from sqlstream.specs import LookupJoinSpec
from sqlstream.specs.join import RetryOnMiss
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.spi.lookup import CacheKind, LookupOptions
from sqlstream.types import APPROXIMATE_ROOTS, NESTED_ROOTS, LogicalType


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LookupJoin(Join):
    """A join with the rows that `right` has when a left row arrives (FOR SYSTEM_TIME AS OF processing time): `right` is read by
    key, and its later changes do not change the result. Over a table that does not change it is the plain join.

    INNER or LEFT; `right` is a table with filters and projections. `is_shuffled`: the rows of a key meet in one subtask.
    """

    retry: RetryOnMiss | None = None
    is_shuffled: bool = False

    def describe(self) -> str:
        return f"{super().describe()}, as_of=[PROCTIME]"


def plan_lookup_join(planning: Planning, inputs: Inputs, node: LookupJoin) -> PhysicalNode:
    """The lookup join. UserError as of `looked_up_table`, and SS3032 for rows that are retracted."""
    left = inputs[0]
    table = looked_up_table(node, planning.connectors)
    dimension, keys, lookup = table.dimension, table.keys, table.options
    scan = dimension.scan
    if not left.traits.is_insert_only:
        _check_updates(left, node, scan.table.path.name, lookup)
    condition = conjunction(keys.rest)
    refuse_changing_condition(planning, condition, (left,), node.span)
    exchange = Exchange(ExchangeKind.HASH, keys.left) if node.is_shuffled else FORWARD
    spec = LookupJoinSpec(
        kind=node.kind,
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


# How a lookup join reads its table: as which scan, by which columns, with which options; and which tables it cannot
# read.


@dataclasses.dataclass(frozen=True)
class Dimension:
    """The right side of a lookup join as one scan, and what is computed over it."""

    scan: TableScan
    projections: tuple[Expression, ...]
    condition: Expression | None


@dataclasses.dataclass(frozen=True)
class LookupKeys:
    """`left[i]` equals the scan's column `source[i]`, which projection `right[i]` passes on; `rest` is all else of the join's
    condition."""

    left: tuple[int, ...]
    source: tuple[int, ...]
    right: tuple[int, ...]
    rest: tuple[Expression, ...]


@dataclasses.dataclass(frozen=True)
class LookedUpTable:
    """All that a lookup join needs to know of its right side."""

    descriptor: ConnectorDescriptor
    dimension: Dimension
    keys: LookupKeys
    options: LookupOptions


def looked_up_table(node: LookupJoin, connectors: Mapping[str, ConnectorDescriptor]) -> LookedUpTable:
    """The right side of a lookup join, in a stream and in batch.

    UserError SS3030 without a column to look up by, and SS3031 for a right side that cannot be looked up. SS4002, SS4003 and
    SS4005 are for options that do not fit each other or the hint."""
    dimension = dimension_of(node.right, node.span)
    scan = dimension.scan
    options = dict(scan.options)
    name = scan.table.path.name
    descriptor = find_connector(connectors, scan.table, options, scan.span)
    if not descriptor.reading.lookups:
        able = sorted(i for i, d in connectors.items() if d.reading.lookups)
        raise UserError(
            "SS3031",
            f'table "{name}" cannot be looked up: connector "{descriptor.identifier}" does not read by key',
            span=scan.span or node.span,
            hint=f"FOR SYSTEM_TIME AS OF takes tables of the connector {' or '.join(able)}",
        )
    keys = _find_keys(node, dimension, len(node.left.schema))
    lookup = _lookup_options(options, scan.span or node.span)
    if lookup.cache is CacheKind.FULL and node.retry is not None:
        raise UserError(
            "SS4003",
            f"a retry on a miss has no use for table \"{name}\" with 'lookup.cache' = 'FULL'",
            span=node.span,
            hint="leave the retry out, or choose another cache",
        )
    return LookedUpTable(descriptor, dimension, keys, lookup)


def dimension_of(
    right: RelationalNode, span: Span | None, clause: str = "FOR SYSTEM_TIME AS OF"
) -> Dimension:
    """A table with filters and projections as one scan. UserError SS3031 for anything else, which calls what asks for it by
    `clause`."""
    projections: tuple[Expression, ...] = references(right.schema.types)
    parts: list[Expression] = []
    while not isinstance(right, TableScan):
        match right:
            case Project():
                projections = tuple(substitute(p, right.expressions) for p in projections)
                parts = [substitute(p, right.expressions) for p in parts]
                right = right.input
            case Filter():
                parts = [*conjuncts(right.condition), *parts]
                right = right.input
            case Watermark():
                right = right.input
            case _:
                raise UserError(
                    "SS3031",
                    f"the right side of {clause} is one table, and this one needs its {type(right).__name__}",
                    span=right.span or span,
                    hint="join a table, or a view that only filters and projects one",
                )
    return Dimension(right, projections, conjunction(parts))


def _find_keys(node: LookupJoin, dimension: Dimension, left_count: int) -> LookupKeys:
    left: list[int] = []
    source: list[int] = []
    right: list[int] = []
    rest: list[Expression] = []
    for part in conjuncts(node.condition):
        pair = equal_columns(part, left_count)
        column = dimension.projections[pair[1]] if pair is not None else None
        if (
            pair is None
            or not isinstance(column, InputRef)
            or column.index in source
            or not _can_be_key(column.type)
        ):
            rest.append(part)
            continue
        left.append(pair[0])
        source.append(column.index)
        right.append(pair[1])
    if not left:
        raise _no_key(node, dimension, left_count)
    return LookupKeys(tuple(left), tuple(source), tuple(right), tuple(rest))


def _can_be_key(t: LogicalType) -> bool:
    return t.root not in APPROXIMATE_ROOTS and t.root not in NESTED_ROOTS


def _no_key(node: LookupJoin, dimension: Dimension, left_count: int) -> UserError:
    """The error for a condition without a usable equality; it names the column that was almost one."""
    name = dimension.scan.table.path.name
    for part in conjuncts(node.condition):
        if not isinstance(part, Call) or part.function != "=":
            continue
        for side in inputs_of(part):
            key = dimension.projections[side - left_count] if side >= left_count else None
            if isinstance(key, InputRef) and not _can_be_key(key.type):
                return _refused_key(node, name, dimension.scan.schema, key.index, "")
            if isinstance(key, Call) and key.function == "CAST" and isinstance(key.args[0], InputRef):
                return _refused_key(
                    node, name, dimension.scan.schema, key.args[0].index, str(_plain(key.type))
                )
    return UserError(
        "SS3030",
        f'the lookup join needs an equality with a column of table "{name}"',
        span=node.span,
        hint="compare columns of the looked-up table itself with expressions over the left one: ON d.k = o.k",
    )


def _refused_key(node: LookupJoin, name: str, schema: Schema, column: int, compared: str) -> UserError:
    field = schema.fields[column]
    own = str(_plain(field.type))
    if not compared:
        message = f'column "{field.name}" of table "{name}" cannot be looked up by: its type is {own}'
        return UserError("SS3030", message, span=node.span, hint="look up by a column of an exact type")
    return UserError(
        "SS3030",
        f'column "{field.name}" of table "{name}" has type {own}, and cannot be looked up by a value of type {compared}',
        span=node.span,
        hint=f"cast the other side: {field.name} = CAST(… AS {own})",
    )


def _plain(t: LogicalType) -> LogicalType:
    return t.without_time_attribute().with_nullable(True)


def _lookup_options(options: dict[str, str], span: Span | None) -> LookupOptions:
    with ErrorsAt(span):
        return LookupOptions.of(options)
