"""LIKE, SIMILAR TO and regular expressions in DuckDB, which like the stream matches by RE2."""

from __future__ import annotations

import re

from sqlglot import exp

from planner.lower import tree
from planner.lower.duckdb.bound import bound
from planner.lower.duckdb.handler import Handler, constant_number, constant_text
from planner.lower.duckdb.refusals import refuse
from planner.lower.duckdb.types import INTEGER, TEXT, type_
from sqlstream.expressions import Call, Literal
from sqlstream.like_pattern import similar_regex
from sqlstream.regular_expressions import re2_replacement, replacement_parts

_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((\?P?<\w+>|(?!\?))?", re.DOTALL)


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
    return tree.call("regexp_full_match", args[0], tree.text(f"(?s)(?:{_checked(call, regex)})"))


def _regexp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Whether the expression matches a part of the text; the empty expression never matches."""
    regex = constant_text(call, 1)
    if not regex:
        return tree.case([(tree.is_not_null(args[0]), tree.boolean(False))])
    return tree.call("regexp_matches", args[0], tree.text(_checked(call, regex)))


def _regexp_extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """The text of a group of the first match; NULL without a match, and for a group that does not exist."""
    regex = _checked(call, constant_text(call, 1))
    group = constant_number(call, 2) if len(args) == 3 else 0
    if not 0 <= group <= _groups(regex):
        return tree.cast(tree.null(), TEXT)

    def extract(value: exp.Expr) -> exp.Expr:
        found = tree.call("regexp_extract", value, tree.text(regex), tree.number(group))
        return tree.case([(tree.call("regexp_matches", value, tree.text(regex)), found)])

    return bound(args[0], extract)


def _regexp_count(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    regex = _checked(call, constant_text(call, 1))
    found = tree.call("regexp_extract_all", args[0], tree.text(regex))
    return tree.cast(tree.call("len", found), INTEGER)


def _regexp_replace(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Every match; NULL where there is one and the replacement says nothing, as for a group that does not exist."""
    regex = _checked(call, constant_text(call, 1))
    parts = replacement_parts(constant_text(call, 2), regex)
    if parts is None:
        return bound(
            args[0],
            lambda v: tree.case(
                [(tree.call("regexp_matches", v, tree.text(regex)), tree.cast(tree.null(), TEXT))], v
            ),
        )
    rewritten = tree.text(re2_replacement(parts))
    return tree.call("regexp_replace", args[0], tree.text(regex), rewritten, tree.text("g"))


def _groups(regex: str) -> int:
    """The number of capturing groups."""
    return sum(1 for m in _GROUP.finditer(regex) if m[0].startswith("(") and m[1] is not None)


def _checked(call: Call, regex: str) -> str:
    """The expression, unless it needs Java's backtracking engine, or reads data that DuckDB's `.` and `$` treat
    otherwise."""
    stripped = re.sub(r"\\\\|\\[^1-9]", "", regex)
    is_java = any(token in stripped for token in ("(?=", "(?!", "(?<=", "(?<!", "(?>"))
    is_java = is_java or bool(re.search(r"\\[1-9]|[*+?}]\+", stripped))
    if is_java or re.search(r"(?<!\\)(?:\\\\)*\\[GZRXhHeckN]|&&", regex):
        raise refuse(f'the regular expression "{regex}" of {call.function}')
    # DuckDB's RE2 does not know Java's (?<name>…).
    return _GROUP.sub(lambda m: f"(?P{m[0][2:]}" if m[0].startswith("(?<") else m[0], regex)


def _regexp_extract_all(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    regex = _checked(call, constant_text(call, 1))
    group = constant_number(call, 2) if len(args) == 3 else 1
    if not 0 <= group <= _groups(regex):
        return tree.cast(tree.null(), type_(call.type))
    return tree.call("regexp_extract_all", args[0], tree.text(regex), tree.number(group))


def _regexp_instr(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """The shortest text before a match, and 1; 0 without a match."""
    regex = _checked(call, constant_text(call, 1))
    with_before = tree.text(rf"\A((?s:.*?))(?:{regex})")

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
