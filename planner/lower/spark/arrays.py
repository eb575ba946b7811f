"""Functions of arrays and maps in Spark."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.spark.scope import Builder, fail, let, let_all, refuse
from sqlstream.planner.lower.spark.types import spark_type
from sqlstream.planner.lower.template import filled


def _written(template: str, *null_if: int) -> Builder:
    """The template as the call's type; NULL where one of the arguments `null_if` is."""

    def builder(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        def body(*given: exp.Expr) -> exp.Expr:
            value = filled(template, list(given), "spark")
            if null_if:
                is_null = tree.any_of([tree.is_null(given[i]) for i in null_if])
                value = tree.case([(is_null, tree.null())], value)
            return tree.cast(value, spark_type(call.type))

        return let_all(args, body)

    return builder


_FIRST = "CASE WHEN {1} < 0 THEN greatest({1} + size({0}) + 1, 1) ELSE greatest({1}, 1) END"
_LAST = "CASE WHEN {2} < 0 THEN {2} + size({0}) + 1 WHEN {2} = 0 THEN 1 ELSE least({2}, size({0})) END"


def _slice(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    last = _LAST if len(args) == 3 else "size({0})"
    length = f"greatest(CAST(({last}) - ({_FIRST}) + 1 AS INT), 0)"
    # A place beyond INT is beyond the array.
    template = f"slice({{0}}, CAST(least({_FIRST}, 2147483647) AS INT), {length})"
    return _written(template, *range(len(args)))(call, args, time_zone)


def _sort(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    template = "sort_array({0}, TRUE)"
    if len(args) > 1:
        template = "CASE WHEN {1} THEN sort_array({0}, TRUE) ELSE sort_array({0}, FALSE) END"
    if len(args) == 3:
        nulls, rest = (f"filter({template}, x -> x IS {test})" for test in ("NULL", "NOT NULL"))
        template = f"CASE WHEN {{2}} THEN concat({nulls}, {rest}) ELSE concat({rest}, {nulls}) END"
    return _written(template, *range(len(args)))(call, args, time_zone)


def _join(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call("array_join", *args)


def _element(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def body(array: exp.Expr) -> exp.Expr:
        is_many = tree.operate(exp.GT, tree.call("size", array), tree.number(1))
        many = fail("ELEMENT got an array of several elements", spark_type(call.type))
        return tree.case([(is_many, many)], tree.call("get", array, tree.number(0)))

    return let(args[0], body)


def _split(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    delimiter = call.args[1]
    if not isinstance(delimiter, Literal) or not delimiter.value or "\\E" in str(delimiter.value):
        raise refuse("SPLIT by a delimiter that is empty or no constant")
    return _written("split({0}, concat('\\\\Q', {1}, '\\\\E'), -1)")(call, args, time_zone)


ARRAYS: dict[str, Builder] = {
    "ARRAY_APPEND": _written("array_append({0}, {1})"),
    "ARRAY_PREPEND": _written("array_prepend({0}, {1})"),
    "ARRAY_CONCAT": lambda call, args, _: tree.cast(tree.call("concat", *args), spark_type(call.type)),
    "ARRAY_CONTAINS": _written("exists({0}, x -> x <=> {1})"),
    "ARRAY_POSITION": _written("CAST(array_position({0}, {1}) AS INT)"),
    "ARRAY_REMOVE": _written("filter({0}, x -> NOT (x <=> {1}))"),
    "ARRAY_DISTINCT": _written("array_distinct({0})"),
    "ARRAY_UNION": _written("array_union({0}, {1})"),
    "ARRAY_EXCEPT": _written("array_except({0}, {1})"),
    "ARRAY_INTERSECT": _written("array_intersect({0}, {1})"),
    "ARRAY_REVERSE": _written("reverse({0})"),
    "ARRAY_SLICE": _slice,
    "ARRAY_SORT": _sort,
    "ARRAY_MAX": _written("array_max({0})"),
    "ARRAY_MIN": _written("array_min({0})"),
    "ARRAY_JOIN": _join,
    "ELEMENT": _element,
    "SPLIT": _split,
    "MAP_KEYS": _written("map_keys({0})"),
    "MAP_VALUES": _written("map_values({0})"),
    "MAP_ENTRIES": _written("map_entries({0})"),
    "MAP_FROM_ARRAYS": _written("map_from_arrays({0}, {1})"),
    "MAP_UNION": lambda call, args, _: tree.cast(tree.call("map_concat", *args), spark_type(call.type)),
}
"""By name of the function."""
