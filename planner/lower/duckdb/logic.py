"""Comparisons, three-valued logic, choices, and nested values in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from planner.lower import tree
from planner.lower.duckdb.bound import bound
from planner.lower.duckdb.handler import Handler, constant_number, named, of_arguments
from planner.lower.duckdb.types import INTEGER
from sqlstream.expressions import Call
from sqlstream.types import TypeRoot

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "IS DISTINCT FROM": exp.NullSafeNEQ,
    "IS NOT DISTINCT FROM": exp.NullSafeEQ,
    "AND": exp.And,
    "OR": exp.Or,
}


def _operator(operator: type[exp.Binary]) -> Handler:
    return of_arguments(lambda *args: tree.operate(operator, *args))


def _or_else(value: exp.Expr, default: bool) -> exp.Expr:
    return tree.call("coalesce", value, tree.boolean(default))


def _case(*args: exp.Expr) -> exp.Expr:
    return tree.case(list(zip(args[0:-1:2], args[1:-1:2], strict=True)), args[-1])


def _field(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    name = call.args[0].type.fields[constant_number(call, 1)].name
    return tree.call("struct_extract", args[0], tree.text(name))


def _item(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    collection, place = args
    if call.args[0].type.root is not TypeRoot.ARRAY:
        return tree.call("map_extract_value", collection, place)

    # DuckDB counts negative positions from the end.
    def element(place: exp.Expr) -> exp.Expr:
        is_place = tree.operate(exp.GT, place, tree.number(0))
        return tree.case([(is_place, tree.call("list_extract", collection, place))])

    return bound(place, element)


HANDLERS: dict[str, Handler] = {
    **{symbol: _operator(operator) for symbol, operator in _COMPARISONS.items()},
    **dict.fromkeys(("IS NULL", "IS UNKNOWN"), of_arguments(tree.is_null)),
    **dict.fromkeys(("IS NOT NULL", "IS NOT UNKNOWN"), of_arguments(tree.is_not_null)),
    "NOT": of_arguments(tree.negated),
    "IS TRUE": of_arguments(lambda value: _or_else(value, False)),
    "IS NOT TRUE": of_arguments(lambda value: tree.negated(_or_else(value, False))),
    "IS FALSE": of_arguments(lambda value: tree.negated(_or_else(value, True))),
    "IS NOT FALSE": of_arguments(lambda value: _or_else(value, True)),
    "IN": of_arguments(lambda value, *choices: tree.is_in(value, choices)),
    "CASE": of_arguments(_case),
    "IF": of_arguments(_case),
    "COALESCE": named("coalesce"),
    "IFNULL": named("coalesce"),
    "NULLIF": named("nullif"),
    "FIELD": _field,
    "ARRAY": named("list_value"),
    "ITEM": _item,
    "CARDINALITY": of_arguments(lambda value: tree.cast(tree.call("len", value), INTEGER)),
}
