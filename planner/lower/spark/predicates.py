"""Comparisons, logic, conditions and collections as Spark SQL; those with NaN differ from Flink's (docs/batch.md)."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.ansi import OPERATORS, operated
from sqlstream.planner.lower.constants import constant_number
from sqlstream.planner.lower.spark.scope import ENGINE, Builder, fail, let_all, refuse
from sqlstream.planner.lower.spark.types import INT, spark_type
from sqlstream.row_errors import raised_rows
from sqlstream.types import TypeRoot


def _operator(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return operated(call, args, ENGINE)


def _in(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.is_in(args[0], args[1:])


def _case(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.case(list(zip(args[0:-1:2], args[1:-1:2], strict=True)), args[-1])


def _null_if(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, other = args
    none = tree.cast(tree.null(), spark_type(call.type))
    return let_all([value], lambda v: tree.case([(tree.operate(exp.EQ, v, other), none)], v))


def _extreme(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """GREATEST or LEAST, NULL if an argument is."""
    if len(args) == 1:
        return args[0]
    none = tree.cast(tree.null(), spark_type(call.type))

    def chosen(*values: exp.Expr) -> exp.Expr:
        is_any_null = tree.any_of([tree.is_null(v) for v in values])
        return tree.case([(is_any_null, none)], tree.call(call.function.lower(), *values))

    return let_all(args, chosen)


def _coalesce(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call("coalesce", *args)


def _truth(default: bool, is_negated: bool) -> Builder:
    def build(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        test = tree.call("coalesce", args[0], tree.boolean(default))
        return tree.negated(test) if is_negated else test

    return build


def _field(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    name = call.args[0].type.fields[constant_number(call, 1, ENGINE)].name
    return exp.Dot(this=args[0].copy(), expression=exp.Identifier(this=name, quoted=True))


def _row(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.cast(tree.call("struct", *args), spark_type(call.type))


def _array(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.cast(tree.call("array", *args), spark_type(call.type))


def _map(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Of equal keys the last is kept (spark.sql.mapKeyDedupPolicy); a NULL key is an error."""
    return tree.cast(tree.call("map", *args), spark_type(call.type))


def _item(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    collection, place = args
    if call.args[0].type.root is TypeRoot.ARRAY:
        return tree.call("get", collection, tree.operate(exp.Sub, place, tree.cast(tree.number(1), INT)))
    return tree.call("element_at", collection, place)


def _cardinality(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.args[0].type.root is TypeRoot.NULL:
        return tree.cast(tree.null(), INT)
    if call.args[0].type.root is TypeRoot.MULTISET:
        raise refuse("CARDINALITY of a MULTISET")
    return tree.call("size", args[0])


def _single_row(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    is_many = tree.operate(exp.GT, args[1], tree.number(1))
    many = fail(raised_rows("several"), spark_type(call.type))
    return tree.case([(is_many, many)], args[0])


PREDICATES: dict[str, Builder] = {
    **dict.fromkeys(OPERATORS, _operator),
    "NOT": lambda call, args, _: tree.negated(args[0]),
    "IS NULL": lambda call, args, _: tree.is_null(args[0]),
    "IS NOT NULL": lambda call, args, _: tree.is_not_null(args[0]),
    "IS UNKNOWN": lambda call, args, _: tree.is_null(args[0]),
    "IS NOT UNKNOWN": lambda call, args, _: tree.is_not_null(args[0]),
    "IS TRUE": _truth(False, is_negated=False),
    "IS NOT TRUE": _truth(False, is_negated=True),
    "IS FALSE": _truth(True, is_negated=True),
    "IS NOT FALSE": _truth(True, is_negated=False),
    "IN": _in,
    "CASE": _case,
    "SINGLE_ROW": _single_row,
    "IF": _case,
    "COALESCE": _coalesce,
    "IFNULL": _coalesce,
    "NULLIF": _null_if,
    "GREATEST": _extreme,
    "LEAST": _extreme,
    "FIELD": _field,
    "ROW": _row,
    "ARRAY": _array,
    "MAP": _map,
    "ITEM": _item,
    "CARDINALITY": _cardinality,
}
"""By name of the function."""
