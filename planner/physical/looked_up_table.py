"""How a lookup join reads its table: as which scan, by which columns, with which options; and which tables it cannot read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, conjunction, conjuncts, inputs_of, substitute
from sqlstream.planner.physical.calc import identity
from sqlstream.planner.physical.connectors import find_connector
from sqlstream.planner.physical.join import equal_columns
from sqlstream.planner.relational.nodes import (
    Filter,
    LookupJoin,
    Project,
    RelationalNode,
    TableScan,
    Watermark,
)
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.spi.lookup import CacheKind, LookupOptions
from sqlstream.types import APPROXIMATE_ROOTS, NESTED_ROOTS, LogicalType


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

    UserError SS3030 without a column to look up by, SS3031 for a right side that cannot be looked up, SS4002, SS4003 and SS4005
    for options that do not fit each other or the hint."""
    dimension = _dimension(node)
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


def _dimension(node: LookupJoin) -> Dimension:
    right: RelationalNode = node.right
    projections, parts = identity(right.schema), list[Expression]()
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
                    f"the right side of FOR SYSTEM_TIME AS OF is one table, and this one needs its {type(right).__name__}",
                    span=right.span or node.span,
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
    try:
        return LookupOptions.of(options)
    except UserError as error:
        raise error.at(span) from None
