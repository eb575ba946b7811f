"""Hashes, tests of texts, UTF-8, ELT and TYPEOF as Spark SQL."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.constants import constant_number
from sqlstream.planner.lower.spark.scope import ENGINE, Builder
from sqlstream.planner.lower.spark.types import INT, STRING, spark_type, text, whole
from sqlstream.text_tests import TEXT_TESTS
from sqlstream.type_names import serializable_name


def _sha2(bits: int) -> Builder:
    return lambda call, args, _: tree.call("sha2", args[0], whole(bits, INT))


def _sha2_of(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return _sha2(constant_number(call, 1, ENGINE))(call, args, time_zone)


def _tested(regex: str) -> Builder:
    def builder(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
        found = tree.call("regexp_like", args[0], text(rf"\A(?:{regex})\z"))
        return tree.call("coalesce", found, tree.boolean(False))

    return builder


def _chosen(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    values = tree.call("array", *(tree.cast(a, spark_type(call.type)) for a in args[1:]))
    last = tree.call("least", args[0], tree.number(len(args)))
    place = tree.cast(tree.call("greatest", last, tree.number(0)), INT)
    chosen = tree.call("get", values, tree.operate(exp.Sub, place, whole(1, INT)))
    # least() and greatest() pass over NULL.
    return tree.case([(tree.is_not_null(args[0]), chosen)])


def _type_of(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    flag = call.args[1] if len(call.args) == 2 else None
    is_full = isinstance(flag, Literal) and flag.value is True
    name = serializable_name(call.args[0].type) if is_full else str(call.args[0].type)
    return tree.cast(tree.null() if name is None else text(name), STRING)


ENCODINGS: dict[str, Builder] = {
    **{f"SHA{bits}": _sha2(bits) for bits in (224, 384, 512)},
    "SHA2": _sha2_of,
    **{name: _tested(regex) for name, regex in TEXT_TESTS.items()},
    "IS_VALID_UTF8": lambda call, args, _: tree.call("is_valid_utf8", args[0]),
    "URL_ENCODE": lambda call, args, _: tree.call("url_encode", args[0]),
    "ELT": _chosen,
    "TYPEOF": _type_of,
}
"""By name of the function."""
