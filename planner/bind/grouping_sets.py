"""GROUP BY with GROUPING SETS, CUBE and ROLLUP, as the sets of its keys."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from sqlglot import exp

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, Literal
from sqlstream.planner.bind.calls import bind_call
from sqlstream.planner.bind.namespace import Namespace
from sqlstream.planner.dialect import nodes
from sqlstream.types import BIGINT, INT, LogicalType

SETS_MAX = 1024
ARGUMENTS_MAX = 62
"""Bits of a BIGINT that is never negative."""

GROUPING_FUNCTIONS = frozenset({"GROUPING", "GROUPING_ID", "GROUP_ID"})
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)

Set = tuple[exp.Expr, ...]


def key_sets(items: Sequence[exp.Expr], namespace: Namespace) -> list[Set]:
    """The sets of keys, as written: one for a plain GROUP BY; those of several items are combined, each with each. UserError
    SS3441 for too many."""
    return _combined([_sets_of(item, namespace) for item in items], items, namespace)


def is_grouping_call(node: exp.Expr) -> bool:
    return isinstance(node, nodes.FunctionCall) and str(node.this) in GROUPING_FUNCTIONS


def grouping_value(
    function: str, places: Sequence[int], sets: Sequence[frozenset[int]], number: InputRef | None
) -> Expression:
    """The value of a function over the keys at `places`, where column `number` holds the set of a row. GROUPING, GROUPING_ID: a
    bit for each key, the last one lowest, 1 where the set leaves it out. GROUP_ID: how often the same set came before."""
    if function == "GROUP_ID":
        values = [list(sets[:i]).count(kept) for i, kept in enumerate(sets)]
    else:
        values = [sum((p not in s) << i for i, p in enumerate(reversed(places))) for s in sets]
    type_ = BIGINT.not_null()
    if number is None or len(set(values)) == 1:
        return Literal(values[0], type_)
    args: list[Expression] = []
    for value in sorted(set(values))[1:]:
        tests = [
            bind_call("=", (number, Literal(i, INT.not_null())), None)
            for i, found in enumerate(values)
            if found == value
        ]
        args += [tests[0] if len(tests) == 1 else bind_call("OR", tuple(tests), None), Literal(value, type_)]
    return bind_call("CASE", (*args, Literal(min(values), type_)), None)


def check_grouping_call(node: nodes.FunctionCall, namespace: Namespace) -> None:
    """UserError SS2006 for a wrong number of arguments."""
    name, count = str(node.this), len(node.expressions)
    if name == "GROUP_ID":
        if count:
            raise UserError("SS2006", "GROUP_ID takes no arguments", span=namespace.span(node))
    elif not 1 <= count <= ARGUMENTS_MAX:
        raise UserError(
            "SS2006",
            f"{name} takes 1 to {ARGUMENTS_MAX} keys of GROUP BY, not {count}",
            span=namespace.span(node),
            hint=f"write {name}(key, …)",
        )


def nullable_key(type_: LogicalType, is_left_out: bool) -> LogicalType:
    """The type of a key column, which is NULL in the rows of sets that leave it out."""
    return type_.with_nullable(True) if is_left_out else type_


def _sets_of(item: exp.Expr, namespace: Namespace) -> list[Set]:
    check_not_given_up()
    if isinstance(item, exp.GroupingSets):
        return [s for part in item.expressions for s in _sets_of(part, namespace)]
    if isinstance(item, exp.Rollup | exp.Cube):
        elements = [_set_of(part, namespace) for part in item.expressions]
        if isinstance(item, exp.Rollup):
            return [_joined(elements[:count]) for count in range(len(elements), -1, -1)]
        _check_count(2 ** len(elements), item, namespace)
        counts = range(len(elements), -1, -1)
        return [_joined(chosen) for n in counts for chosen in itertools.combinations(elements, n)]
    if _is_list(item):
        return _combined(
            [_sets_of(part, namespace) for part in item.expressions], item.expressions, namespace
        )
    return [(item,)]


def _set_of(item: exp.Expr, namespace: Namespace) -> Set:
    """An element of ROLLUP or CUBE: a key or several in parentheses."""
    for part in item.walk():
        if isinstance(part, _SETS):
            hint = "write GROUPING SETS (…) around both"
            raise UserError("SS3441", "ROLLUP and CUBE take keys", span=namespace.span(part), hint=hint)
    return tuple(_flat([item]))


def _flat(items: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """GROUP BY (a, b), c is GROUP BY a, b, c, and () adds nothing."""
    for item in items:
        if _is_list(item):
            yield from _flat(item.expressions)
        else:
            yield item


def _is_list(item: exp.Expr) -> bool:
    is_row = isinstance(item, nodes.FunctionCall) and str(item.this) == "ROW"
    return is_row or isinstance(item, exp.Tuple)


def _joined(parts: Sequence[Set]) -> Set:
    return tuple(key for part in parts for key in part)


def _combined(factors: list[list[Set]], items: Sequence[exp.Expr], namespace: Namespace) -> list[Set]:
    """One of each factor, in all ways."""
    _check_count(math.prod(len(f) for f in factors), items[0] if items else None, namespace)
    return [_joined(chosen) for chosen in itertools.product(*factors)]


def _check_count(count: int, item: exp.Expr | None, namespace: Namespace) -> None:
    if count > SETS_MAX:
        raise UserError(
            "SS3441",
            f"GROUP BY has {count} grouping sets, and {SETS_MAX} are possible",
            span=namespace.span(item),
            hint="list the sets that are needed with GROUPING SETS (…)",
        )
