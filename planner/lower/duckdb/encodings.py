"""Texts and bytes, tests of texts, addresses and TYPEOF in DuckDB."""

from __future__ import annotations

import re

from sqlglot import exp

from sqlstream import duckdb_texts
from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler, constant_number
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.types import TEXT, type_
from sqlstream.planner.lower.template import filled
from sqlstream.text_tests import TEXT_TESTS
from sqlstream.type_names import serializable_name


def _of_text(expression: str) -> Handler:
    """A text of `duckdb_texts` over the only argument."""
    template = re.sub(r"\ba0\b", "{0}", expression.replace("{", "{{").replace("}", "}}"))

    def handler(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        return bound(args[0], lambda a: tree.cast(filled(template, [a], "duckdb"), type_(call.type)))

    return handler


def _tested(regex: str) -> Handler:
    def handler(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        found = tree.call("regexp_full_match", args[0], tree.text(regex))
        return tree.call("coalesce", found, tree.boolean(False))

    return handler


def _chosen(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    def at(place: exp.Expr) -> exp.Expr:
        is_place = tree.operate(exp.GT, place, tree.number(0))
        values = tree.call("list_value", *(tree.cast(a, type_(call.type)) for a in args[1:]))
        return tree.case([(is_place, tree.call("list_extract", values, place))])

    return bound(args[0], at)


def type_of(call: Call) -> str | None:
    """The name that TYPEOF gives."""
    flag = call.args[1] if len(call.args) == 2 else None
    is_full = isinstance(flag, Literal) and flag.value is True
    return serializable_name(call.args[0].type) if is_full else str(call.args[0].type)


def _type_of(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    name = type_of(call)
    return tree.cast(tree.null() if name is None else tree.text(name), TEXT)


def _sha2(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    bits = constant_number(call, 1)
    if bits != 256:
        raise refuse(f"SHA2 with {bits} bits")
    return tree.call("sha256", args[0])


HANDLERS: dict[str, Handler] = {
    "UNHEX": _of_text(duckdb_texts.UNHEX),
    "URL_ENCODE": _of_text(duckdb_texts.URL_ENCODE),
    "URL_DECODE": _of_text(duckdb_texts.URL_DECODE),
    "INET_ATON": _of_text(duckdb_texts.INET_ATON),
    "INET_NTOA": _of_text(duckdb_texts.INET_NTOA),
    "IS_VALID_UTF8": _of_text("CASE WHEN a0 IS NOT NULL THEN try(decode(a0)) IS NOT NULL END"),
    **{name: _tested(regex) for name, regex in TEXT_TESTS.items()},
    "ELT": _chosen,
    "TYPEOF": _type_of,
    "SHA2": _sha2,
}
