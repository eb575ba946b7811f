"""LIKE, SIMILAR TO and regular expressions in DuckDB, which like the stream matches by RE2."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call, Literal
from sqlstream.like_pattern import similar_regex
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler, constant_number, constant_text
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.types import INTEGER, TEXT, type_
from sqlstream.regular_expressions import JavaRegex, checked_re2, java_regex


def _like(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, pattern, *escape = args
    if escape and not all(isinstance(a, Literal) for a in call.args[1:]):
        raise refuse("LIKE … ESCAPE with a pattern that is no constant")
    like = exp.Like(this=value, expression=pattern)
    return exp.Paren(this=exp.Escape(this=like, expression=escape[0]) if escape else like)


def _similar_to(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """SQL's regular expressions: % and _ as in LIKE, the rest as usual, over the whole string."""
    escape = constant_text(call, 2) if len(call.args) == 3 else None
    regex = similar_regex(constant_text(call, 1), escape)
    return tree.call("regexp_full_match", args[0], tree.text(f"(?s)(?:{checked_re2(regex)})"))


def _regexp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Whether the expression matches a part of the text; the empty expression never matches."""
    if not constant_text(call, 1):
        return tree.case([(tree.is_not_null(args[0]), tree.boolean(False))])
    return tree.call("regexp_matches", args[0], tree.text(_linear(call)[0]))


def _linear(call: Call) -> tuple[str, JavaRegex]:
    """The constant expression for RE2; refused where it needs an engine that backtracks."""
    java = java_regex(constant_text(call, 1))
    if java.linear is None:
        raise refuse(f'the regular expression "{java.java}" of {call.function}')
    return java.linear, java


def _regexp_extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """The text of a group of the first match; NULL without a match, and for a group that does not exist."""
    regex, java = _linear(call)
    group, missing = constant_number(call, 2) if len(args) == 3 else 0, java.missing
    if not 0 <= group <= java.groups:
        return tree.cast(tree.null(), TEXT)

    def extract(value: exp.Expr) -> exp.Expr:
        found = tree.call("regexp_extract", value, tree.text(regex), tree.number(group))
        if group in missing:
            found = tree.call("nullif", found, tree.text(""))
        return tree.case([(tree.call("regexp_matches", value, tree.text(regex)), found)])

    return bound(args[0], extract)


def _regexp_count(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    found = tree.call("regexp_extract_all", args[0], tree.text(_linear(call)[0]))
    return tree.cast(tree.call("len", found), INTEGER)


def _regexp_replace(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Every match is replaced by the text as it is written."""
    regex, java = _linear(call)
    written = constant_text(call, 2).replace("\\", "\\\\")
    if java.can_be_empty and written:
        raise refuse(f'REGEXP_REPLACE with "{java.java}", which matches the empty text')
    return tree.call("regexp_replace", args[0], tree.text(regex), tree.text(written), tree.text("g"))


def _regexp_extract_all(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    regex, java = _linear(call)
    group = constant_number(call, 2) if len(args) == 3 else 1
    if not 0 <= group <= java.groups:
        return tree.cast(tree.null(), type_(call.type))
    if group in java.missing:
        raise refuse(f'group {group} of "{java.java}"')
    return tree.call("regexp_extract_all", args[0], tree.text(regex), tree.number(group))


def _regexp_instr(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """The shortest text before a match, and 1; 0 without a match."""
    with_before = tree.text(rf"\A((?s:.*?))(?:{_linear(call)[0]})")

    def place(value: exp.Expr) -> exp.Expr:
        before = tree.call("length", tree.call("regexp_extract", value, with_before, tree.number(1)))
        found = tree.cast(tree.operate(exp.Add, before, tree.number(1)), INTEGER)
        is_found = tree.call("regexp_matches", value, with_before)
        return tree.case([(is_found, found), (tree.is_not_null(value), tree.number(0))])

    return bound(args[0], place)


HANDLERS: dict[str, Handler] = {
    "LIKE": _like,
    "SIMILAR TO": _similar_to,
    "REGEXP": _regexp,
    "REGEXP_EXTRACT": _regexp_extract,
    "REGEXP_REPLACE": _regexp_replace,
    "REGEXP_COUNT": _regexp_count,
    "REGEXP_EXTRACT_ALL": _regexp_extract_all,
    "REGEXP_INSTR": _regexp_instr,
    "REGEXP_SUBSTR": _regexp_extract,
}
