"""Functions of arrays and maps in DuckDB, whose lists start at 1 too; NULL is equal to NULL where elements are looked for."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler
from sqlstream.planner.lower.duckdb.types import INTEGER, failure, type_
from sqlstream.planner.lower.template import filled

_IS_FIRST = "len(list_filter(list_slice({0}, 1, n - 1), lambda y: y IS NOT DISTINCT FROM x)) = 0"
_DISTINCT = f"list_filter({{0}}, lambda x, n: {_IS_FIRST})"
_IS_IN_OTHER = "len(list_filter({1}, lambda y: y IS NOT DISTINCT FROM x)) > 0"


def _each_bound(args: list[exp.Expr], body: Callable[[list[exp.Expr]], exp.Expr]) -> exp.Expr:
    """`body` of the arguments, each of which it may repeat."""
    if not args:
        return body([])
    first, *rest = args
    return bound(first, lambda value: _each_bound(rest, lambda others: body([value, *others])))


def _written(template: str, *null_if: int) -> Handler:
    """The template as the call's type; NULL where one of the arguments `null_if` is."""

    def handler(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        def body(given: list[exp.Expr]) -> exp.Expr:
            value = filled(template, given, "duckdb")
            if null_if:
                is_null = tree.any_of([tree.is_null(given[i]) for i in null_if])
                value = tree.case([(is_null, tree.null())], value)
            return tree.cast(value, type_(call.type))

        return _each_bound(args, body)

    return handler


def _all_concatenated(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def body(given: list[exp.Expr]) -> exp.Expr:
        is_null = tree.any_of([tree.is_null(arg) for arg in given])
        return tree.cast(
            tree.case([(is_null, tree.null())], tree.call("list_concat", *given)), type_(call.type)
        )

    return _each_bound(args, body)


_FIRST = "CASE WHEN {1} < 0 THEN greatest({1} + len({0}) + 1, 1) ELSE greatest({1}, 1) END"
_LAST = "CASE WHEN {2} < 0 THEN {2} + len({0}) + 1 WHEN {2} = 0 THEN 1 ELSE least({2}, len({0})) END"


def _slice(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    last = _LAST if len(args) == 3 else "len({0})"
    template = f"CASE WHEN ({_FIRST}) > ({last}) THEN [] ELSE list_slice({{0}}, {_FIRST}, {last}) END"
    return _written(template, *range(len(args)))(call, args, time_zone)


def _sort(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def sorted_by(direction: str) -> str:
        first, last = (f"list_sort({{0}}, '{direction}', 'NULLS {place}')" for place in ("FIRST", "LAST"))
        if len(args) < 3:
            return first if direction == "ASC" else last
        return f"CASE WHEN {{2}} THEN {first} ELSE {last} END"

    template = sorted_by("ASC")
    if len(args) > 1:
        template = f"CASE WHEN {{1}} THEN {template} ELSE {sorted_by('DESC')} END"
    return _written(template, *range(len(args)))(call, args, time_zone)


_REDUCED = (
    "CASE WHEN len({0}) = 0 THEN '' ELSE "
    "list_reduce(list_slice({0}, 2, len({0})), lambda x, y: x || {1} || y, coalesce({0}[1], '')) END"
)


def _join(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    present = "list_filter({0}, lambda x: x IS NOT NULL)"
    if len(args) == 3:
        present = "list_transform({0}, lambda x: coalesce(x, {2}))"
    if isinstance(call.args[1], Literal):
        return _written(f"array_to_string({present}, {{1}})", *range(len(args)))(call, args, time_zone)

    # array_to_string takes no delimiter of a column.
    def joined(given: list[exp.Expr]) -> exp.Expr:
        is_null = tree.any_of([tree.is_null(arg) for arg in given])
        texts = bound(filled(present, given, "duckdb"), lambda t: filled(_REDUCED, [t, given[1]], "duckdb"))
        return tree.case([(is_null, tree.null())], texts)

    return _each_bound(args, joined)


def _element(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def body(array: exp.Expr) -> exp.Expr:
        is_many = tree.operate(exp.GT, tree.call("len", array), tree.number(1))
        many = failure("ELEMENT got an array of several elements", type_(call.type))
        return tree.case([(is_many, many)], tree.call("list_extract", array, tree.number(1)))

    return bound(args[0], body)


_KEPT = (
    "map(list_transform(list_filter(range(1, len({0}) + 1), lambda p: NOT list_contains(list_slice({0}, p + 1, len({0})),"
    " {0}[p])), lambda p: {0}[p]), list_transform(list_filter(range(1, len({0}) + 1), lambda p:"
    " NOT list_contains(list_slice({0}, p + 1, len({0})), {0}[p])), lambda p: {1}[p]))"
)
"""The map of keys and values; of equal keys the last is kept."""


def _map_from_arrays(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    made = type_(call.type)

    def body(given: list[exp.Expr]) -> exp.Expr:
        keys, values = given
        is_null = tree.any_of([tree.is_null(keys), tree.is_null(values)])
        is_unlike = tree.operate(exp.NEQ, tree.call("len", keys), tree.call("len", values))
        has_null = filled("len(list_filter({0}, lambda x: x IS NULL)) > 0", given, "duckdb")
        return tree.case(
            [
                (is_null, tree.null()),
                (is_unlike, failure("MAP_FROM_ARRAYS got arrays of two lengths", made)),
                (has_null, failure("a key of a MAP is NULL", made)),
            ],
            tree.cast(filled(_KEPT, given, "duckdb"), made),
        )

    return _each_bound(args, body)


def _map_union(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def body(given: list[exp.Expr]) -> exp.Expr:
        is_null = tree.any_of([tree.is_null(arg) for arg in given])
        parts = [
            tree.call("list_concat", *(tree.call(function, arg) for arg in given))
            for function in ("map_keys", "map_values")
        ]
        merged = _each_bound(parts, lambda both: filled(_KEPT, both, "duckdb"))
        return tree.cast(tree.case([(is_null, tree.null())], merged), type_(call.type))

    return _each_bound(args, body)


def _position(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def body(given: list[exp.Expr]) -> exp.Expr:
        is_null = tree.any_of([tree.is_null(arg) for arg in given])
        found = tree.call("coalesce", tree.call("list_position", *given), tree.number(0))
        return tree.cast(tree.case([(is_null, tree.null())], found), INTEGER)

    return _each_bound(args, body)


HANDLERS: dict[str, Handler] = {
    "ARRAY_APPEND": _written("list_append({0}, {1})", 0),
    "ARRAY_PREPEND": _written("list_prepend({1}, {0})", 0),
    "ARRAY_CONCAT": _all_concatenated,
    "ARRAY_CONTAINS": _written("len(list_filter({0}, lambda x: x IS NOT DISTINCT FROM {1})) > 0"),
    "ARRAY_POSITION": _position,
    "ARRAY_REMOVE": _written("list_filter({0}, lambda x: x IS DISTINCT FROM {1})"),
    "ARRAY_DISTINCT": _written(_DISTINCT),
    "ARRAY_UNION": lambda call, args, zone: bound(
        _all_concatenated(call, args, zone), lambda both: _written(_DISTINCT)(call, [both], zone)
    ),
    "ARRAY_EXCEPT": _written(f"list_filter({{0}}, lambda x, n: {_IS_FIRST} AND NOT {_IS_IN_OTHER})", 0, 1),
    "ARRAY_INTERSECT": _written(f"list_filter({{0}}, lambda x, n: {_IS_FIRST} AND {_IS_IN_OTHER})", 0, 1),
    "ARRAY_REVERSE": _written("list_reverse({0})"),
    "ARRAY_SLICE": _slice,
    "ARRAY_SORT": _sort,
    "ARRAY_MAX": _written("list_max({0})"),
    "ARRAY_MIN": _written("list_min({0})"),
    "ARRAY_JOIN": _join,
    "ELEMENT": _element,
    "SPLIT": _written("CASE WHEN {0} = '' AND {1} = '' THEN [] ELSE string_split({0}, {1}) END", 1),
    "MAP_KEYS": _written("map_keys({0})"),
    "MAP_VALUES": _written("map_values({0})"),
    "MAP_ENTRIES": _written("map_entries({0})"),
    "MAP_FROM_ARRAYS": _map_from_arrays,
    "MAP_UNION": _map_union,
}
