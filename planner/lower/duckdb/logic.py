"""Comparisons, three-valued logic and choices in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.ansi import OPERATORS, operated
from sqlstream.planner.lower.duckdb.handler import Handler, named, of_arguments
from sqlstream.planner.lower.duckdb.types import TEXT, failure, type_
from sqlstream.row_errors import raised_rows


def _operator(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return operated(call, args, "DuckDB")


def _or_else(value: exp.Expr, default: bool) -> exp.Expr:
    return tree.call("coalesce", value, tree.boolean(default))


def _case(*args: exp.Expr) -> exp.Expr:
    return tree.case(list(zip(args[0:-1:2], args[1:-1:2], strict=True)), args[-1])


def _single_row(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    is_many = tree.operate(exp.GT, args[1], tree.number(1))
    before, behind = (tree.text(part) for part in raised_rows("#").split("#"))
    many = failure(tree.operate(exp.DPipe, before, tree.cast(args[1], TEXT), behind), type_(call.type))
    return tree.case([(is_many, many)], args[0])


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(OPERATORS, _operator),
    **dict.fromkeys(("IS NULL", "IS UNKNOWN"), of_arguments(tree.is_null)),
    **dict.fromkeys(("IS NOT NULL", "IS NOT UNKNOWN"), of_arguments(tree.is_not_null)),
    "NOT": of_arguments(tree.negated),
    "IS TRUE": of_arguments(lambda value: _or_else(value, False)),
    "IS NOT TRUE": of_arguments(lambda value: tree.negated(_or_else(value, False))),
    "IS FALSE": of_arguments(lambda value: tree.negated(_or_else(value, True))),
    "IS NOT FALSE": of_arguments(lambda value: _or_else(value, True)),
    "IN": of_arguments(lambda value, *choices: tree.is_in(value, choices)),
    "CASE": of_arguments(_case),
    "SINGLE_ROW": _single_row,
    "IF": of_arguments(_case),
    "COALESCE": named("coalesce"),
    "IFNULL": named("coalesce"),
    "NULLIF": named("nullif"),
}
