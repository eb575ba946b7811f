"""Functions of character strings in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from planner.lower import tree
from planner.lower.duckdb.bound import bound
from planner.lower.duckdb.handler import (
    Handler,
    constant_number,
    constant_text,
    named,
    of_arguments,
    unit_word,
)
from planner.lower.duckdb.refusals import refuse
from planner.lower.duckdb.types import BIGINT, INTEGER
from sqlstream import types as sql
from sqlstream.expressions import Call, Literal
from sqlstream.types import TypeRoot


def _counted(function: str) -> Handler:
    """A function whose BIGINT is an INT in Flink."""
    return of_arguments(lambda *args: tree.cast(tree.call(function, *args), INTEGER))


def _is_less(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return tree.operate(exp.LT, left, right)


def _at_least_zero(value: exp.Expr) -> exp.Expr:
    """greatest() ignores NULL: a NULL becomes 0."""
    return tree.call("greatest", value, tree.number(0))


def _left(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    def cut(length: exp.Expr) -> exp.Expr:
        part = tree.call("substr", value, tree.number(1), _at_least_zero(length))
        return tree.case([(tree.is_null(length), tree.null())], part)

    return bound(length, cut)


def _right(value: exp.Expr, length: exp.Expr) -> exp.Expr:
    def cut(length: exp.Expr) -> exp.Expr:
        part = tree.call("right", value, _at_least_zero(length))
        return tree.case([(tree.is_null(length), tree.null())], part)

    return bound(length, cut)


def _replace(value: exp.Expr, search: exp.Expr, replacement: exp.Expr) -> exp.Expr:
    def build(value: exp.Expr, search: exp.Expr, replacement: exp.Expr) -> exp.Expr:
        # Java finds the empty text between all characters.
        escaped = tree.call("replace", replacement, tree.text("\\"), tree.text("\\\\"))
        everywhere = tree.call("regexp_replace", value, tree.text(""), escaped, tree.text("g"))
        is_empty = tree.operate(exp.EQ, search, tree.text(""))
        return tree.case([(is_empty, everywhere)], tree.call("replace", value, search, replacement))

    return bound(value, lambda v: bound(search, lambda s: bound(replacement, lambda r: build(v, s, r))))


def _padded(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.args[1].type.root is TypeRoot.BIGINT:
        raise refuse(f"{call.function} with a BIGINT length", hint="cast it to INT")

    def pad(length: exp.Expr, padding: exp.Expr) -> exp.Expr:
        is_null = tree.any_of(
            [_is_less(length, tree.number(0)), tree.operate(exp.EQ, padding, tree.text(""))]
        )
        padded = tree.call(call.function.lower(), args[0], length, padding)
        return tree.case([(is_null, tree.null())], padded)

    return bound(args[1], lambda length: bound(args[2], lambda padding: pad(length, padding)))


def _substring(value: exp.Expr, start: exp.Expr, length: exp.Expr | None = None) -> exp.Expr:
    def build(value: exp.Expr, start: exp.Expr, length: exp.Expr) -> exp.Expr:
        # A negative start counts from the end.
        place = tree.operate(exp.Add, tree.call("length", value), start)
        from_end = tree.operate(exp.Add, tree.call("length", value), start, tree.number(1))
        return tree.case(
            [
                (_is_less(length, tree.number(0)), tree.null()),
                (_is_less(tree.number(0), start), tree.call("substr", value, start, length)),
                (
                    tree.operate(exp.EQ, start, tree.number(0)),
                    tree.call("substr", value, tree.number(1), length),
                ),
                (_is_less(place, tree.number(0)), tree.text("")),
            ],
            tree.call("substr", value, from_end, length),
        )

    def with_length(value: exp.Expr, start: exp.Expr) -> exp.Expr:
        if length is None:
            return build(value, start, tree.call("length", value))
        return bound(length, lambda length: build(value, start, length))

    return bound(value, lambda v: bound(start, lambda s: with_length(v, s)))


def _trim_standard(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[unit_word(call, 0)]
    return tree.call(function, args[2], args[1])


def _trim(function: str) -> Handler:
    return of_arguments(lambda value, chars=None: tree.call(function, value, chars or tree.text(" ")))


def _split_index(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, delimiter, index = args
    if sql.is_integer(call.args[1].type):
        code = delimiter
        is_character = tree.is_between(code, tree.number(1), tree.number(255))
        delimiter = tree.case([(is_character, tree.call("chr", tree.cast(code, INTEGER)))])
    elif not isinstance(call.args[1], Literal) or call.args[1].value == "":
        raise refuse("SPLIT_INDEX with a delimiter that is empty or no constant")

    def part(value: exp.Expr, delimiter: exp.Expr, index: exp.Expr) -> exp.Expr:
        is_none = tree.any_of(
            [
                tree.is_null(delimiter),
                _is_less(index, tree.number(0)),
                tree.operate(exp.EQ, value, tree.text("")),
            ]
        )
        place = tree.operate(exp.Add, tree.cast(index, BIGINT), tree.number(1))
        found = tree.call("list_extract", tree.call("string_split", value, delimiter), place)
        return tree.case([(is_none, tree.null())], found)

    return bound(value, lambda v: bound(delimiter, lambda d: bound(index, lambda i: part(v, d, i))))


def _like(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    value, pattern, *escape = args
    if escape and not all(isinstance(a, Literal) for a in call.args[1:]):
        raise refuse("LIKE … ESCAPE with a pattern that is no constant")
    like = tree.operate(exp.Like, value, pattern)
    if not escape:
        return like
    return exp.Paren(this=exp.Escape(this=like.this, expression=escape[0]))


def _regexp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    regex = constant_text(call, 1)
    if not regex:
        return tree.case([(tree.is_not_null(args[0]), tree.boolean(False))])
    return tree.call("regexp_matches", args[0], tree.text(regex))


def _regexp_extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    regex = tree.text(constant_text(call, 1))
    group = tree.number(constant_number(call, 2) if len(args) == 3 else 0)

    def extract(value: exp.Expr) -> exp.Expr:
        found = tree.call("regexp_extract", value, regex, group)
        return tree.case([(tree.call("regexp_matches", value, regex), found)])

    return bound(args[0], extract)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("||", "CONCAT"), of_arguments(lambda *args: tree.operate(exp.DPipe, *args))),
    "CONCAT_WS": named("concat_ws"),
    "STARTSWITH": named("starts_with"),
    "ENDSWITH": named("ends_with"),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH"), _counted("length")),
    "UPPER": named("upper"),
    "LOWER": named("lower"),
    "REVERSE": named("reverse"),
    "LEFT": of_arguments(_left),
    "RIGHT": of_arguments(_right),
    "REPLACE": of_arguments(_replace),
    "REPEAT": of_arguments(lambda value, times: tree.call("repeat", value, _at_least_zero(times))),
    **dict.fromkeys(("LPAD", "RPAD"), _padded),
    "POSITION": of_arguments(lambda search, value: tree.cast(tree.call("instr", value, search), INTEGER)),
    "INSTR": _counted("instr"),
    **dict.fromkeys(("SUBSTRING", "SUBSTR"), of_arguments(_substring)),
    "TRIM": _trim_standard,
    "LTRIM": _trim("ltrim"),
    "RTRIM": _trim("rtrim"),
    "BTRIM": _trim("trim"),
    "SPLIT_INDEX": _split_index,
    "LIKE": _like,
    "REGEXP": _regexp,
    "REGEXP_EXTRACT": _regexp_extract,
}
