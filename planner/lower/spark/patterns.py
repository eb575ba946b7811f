"""LIKE, SIMILAR TO and the functions of regular expressions as Spark SQL."""

from __future__ import annotations

import re

from sqlglot import exp

from sqlstream import regular_expressions
from sqlstream.expressions import Call, Literal
from sqlstream.like_pattern import like_parts, similar_regex
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.constants import constant_number, constant_text
from sqlstream.planner.lower.spark.regex import JavaRegex, java_regex
from sqlstream.planner.lower.spark.scope import ENGINE, Builder, let, refuse
from sqlstream.planner.lower.spark.types import BOOLEAN, INT, STRING, text, whole


def _like(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Without ESCAPE no character escapes; in Spark it is the backslash then."""
    value, pattern, *_ = args
    if all(isinstance(a, Literal) for a in call.args[1:]):
        if any(isinstance(a, Literal) and a.value is None for a in call.args[1:]):
            return tree.cast(tree.null(), BOOLEAN)
        escape = constant_text(call, 2, ENGINE) if len(args) == 3 else None
        pattern = text(_spark_like(like_parts(constant_text(call, 1, ENGINE), escape)))
    elif len(args) == 3:
        raise refuse("LIKE … ESCAPE with a pattern that is no constant")
    else:
        pattern = tree.call("replace", pattern, text("\\"), text("\\\\"))
    return tree.operate(exp.Like, value, pattern)


def _spark_like(parts: list[str]) -> str:
    r"""The pattern of these parts (`like_parts`) whose escape is the backslash.

    >>> print(_spark_like(["=a%b\\", "_"]))
    a\%b\\_
    """
    return "".join(p if p[0] != "=" else re.sub(r"[\\%_]", r"\\\g<0>", p[1:]) for p in parts)


def _constant_regex(call: Call) -> JavaRegex:
    java = regular_expressions.java_regex(constant_text(call, 1, ENGINE))
    if java.linear is not None:
        return java_regex(java.linear)
    if _READ_OTHERWISE.search(java.java):
        raise refuse(f'the regular expression "{java.java}"')
    return JavaRegex(f"(?d){java.java}", java.groups, java.can_be_empty)


_READ_OTHERWISE = re.compile(r"\$|\\[bBZGXQ]|\(\?[a-zU]*[-imsuxU]")
"""What the engine that backtracks reads otherwise than Java: ends of lines and words, and flags."""


def _matches(value: exp.Expr, regex: JavaRegex) -> exp.Expr:
    return tree.call("regexp_like", value, text(regex.text))


def _similar_to(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    escape = constant_text(call, 2, ENGINE) if len(call.args) == 3 else None
    pattern = similar_regex(constant_text(call, 1, ENGINE), escape)
    return _matches(args[0], java_regex(rf"(?s)\A(?:{pattern})\z"))


def _regexp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """The empty expression never matches."""
    if not constant_text(call, 1, ENGINE):
        return tree.case([(tree.is_not_null(args[0]), tree.boolean(False))], tree.cast(tree.null(), BOOLEAN))
    return _matches(args[0], _constant_regex(call))


def _regexp_extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """NULL without a match, where Spark gives ''."""
    regex = _constant_regex(call)
    group = constant_number(call, 2, ENGINE) if len(call.args) == 3 else 0
    none = tree.cast(tree.null(), STRING)
    if not 0 <= group <= regex.groups:
        return none
    is_missing = group in regular_expressions.java_regex(constant_text(call, 1, ENGINE)).missing
    return let(
        args[0],
        lambda v: tree.case([(_matches(v, regex), _group(v, regex, group, is_missing=is_missing))], none),
    )


def _group(value: exp.Expr, regex: JavaRegex, group: int, *, is_missing: bool) -> exp.Expr:
    """Spark gives '' for a group that takes no part in the match."""
    found = tree.call("regexp_extract", value, text(regex.text), whole(group, INT))
    return tree.call("nullif", found, text("")) if is_missing else found


def _regexp_replace(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Every match is replaced by the text as it is written."""
    regex = _constant_regex(call)
    if regex.can_be_empty:
        raise refuse(f'REGEXP_REPLACE with "{call.args[1]}", which matches the empty text')
    written = re.sub(r"[\\$]", r"\\\g<0>", constant_text(call, 2, ENGINE))
    return tree.call("regexp_replace", args[0], text(regex.text), text(written))


def _regexp_count(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    regex = _constant_regex(call)
    if regex.can_be_empty:
        raise refuse(f'REGEXP_COUNT with "{call.args[1]}", which matches the empty text')
    return tree.call("regexp_count", args[0], text(regex.text))


def _regexp_instr(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call("regexp_instr", args[0], text(_constant_regex(call).text))


PATTERNS: dict[str, Builder] = {
    "LIKE": _like,
    "SIMILAR TO": _similar_to,
    "REGEXP": _regexp,
    "REGEXP_EXTRACT": _regexp_extract,
    "REGEXP_REPLACE": _regexp_replace,
    "REGEXP_COUNT": _regexp_count,
    "REGEXP_INSTR": _regexp_instr,
    "REGEXP_SUBSTR": _regexp_extract,
}
"""By name of the function."""
