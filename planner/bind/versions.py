"""What a table or view was at each moment: the rows whose times say when they became valid."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, Literal, conjuncts, substitute
from sqlstream.planner.relational.nodes import Filter, Project, RelationalNode, TableScan, Watermark, Window
from sqlstream.planner.rules.row_number_to_rank import rank_bounds
from sqlstream.types import BIGINT, is_rowtime


@dataclasses.dataclass(frozen=True)
class Versions:
    """Each row of `node` is a version of the row with its `keys`, valid from `time` on.

    A table or view has the columns `expressions` of the versions that fulfil `conditions`: a version that does not leaves its
    key without a row until the next one. `is_numbered`: the columns of `node` are followed by a row number, which is not yet
    known to be 1. `is_table`: they are rows of a table, each as it came, and not of a query.
    """

    node: RelationalNode
    keys: tuple[int, ...]
    time: int
    expressions: tuple[Expression, ...]
    conditions: tuple[Expression, ...] = ()
    is_numbered: bool = False
    is_table: bool = False


def versions_of(node: RelationalNode) -> Versions | None:
    """The versions of a table with a primary key and a watermark, or of a query that keeps the last row of each key by row time
    (ROW_NUMBER() … ORDER BY rowtime DESC = 1), with projections and filters above; None for any other query."""
    found = _versions(node)
    return None if found is None or found.is_numbered else found


def _versions(node: RelationalNode) -> Versions | None:
    match node:
        case Project():
            below = _versions(node.input)
            if below is None:
                return None
            expressions = tuple(substitute(e, below.expressions) for e in node.expressions)
            return dataclasses.replace(below, expressions=expressions)
        case Filter():
            below = _versions(node.input)
            if below is None:
                return None
            own = tuple(substitute(p, below.expressions) for p in conjuncts(node.condition))
            return _filtered(below, own)
        case Window(order=(key,), calls=(call,)) if (
            call.function == "ROW_NUMBER"
            and key.is_descending
            and is_rowtime(node.input.schema.types[key.column])
        ):
            return Versions(node.input, node.partition_keys, key.column, _columns(node), is_numbered=True)
        case Watermark():
            return _of_table(node)
    return None


def _of_table(node: Watermark) -> Versions | None:
    scan = node.input.input if isinstance(node.input, Project) else node.input
    if not isinstance(scan, TableScan) or not scan.table.primary_key:
        return None
    names = node.schema.names
    keys = tuple(names.index(name) for name in scan.table.primary_key)
    return Versions(node, keys, node.column, _columns(node), is_table=True)


def _columns(node: RelationalNode) -> tuple[Expression, ...]:
    return tuple(InputRef(i, t) for i, t in enumerate(node.schema.types))


def _filtered(below: Versions, parts: tuple[Expression, ...]) -> Versions:
    """With conditions. One that asks for row number 1 is true of every version, and each version has that number."""
    number = len(below.node.schema)
    rest = tuple(p for p in parts if not below.is_numbered or not _asks_for_first(p, number))
    if len(rest) == len(parts):
        return dataclasses.replace(below, conditions=below.conditions + parts)
    columns = (*_columns(below.node), Literal(1, BIGINT.not_null()))
    return dataclasses.replace(
        below,
        expressions=tuple(substitute(e, columns) for e in below.expressions),
        conditions=tuple(substitute(e, columns) for e in (*below.conditions, *rest)),
        is_numbered=False,
    )


def _asks_for_first(part: Expression, number: int) -> bool:
    bounds = rank_bounds(part, number)
    return bounds is not None and bounds[0] <= 1 and bounds[1] == 1
