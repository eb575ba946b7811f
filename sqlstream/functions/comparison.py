"""Comparisons, pattern predicates, and the operators of three-valued logic."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.functions.arguments import (
    ANY,
    BOOL,
    MANY,
    TEXT,
    TEXT_OR_BYTES,
    always,
    convert_each,
    returns,
    scalar,
    to_common_type,
)
from sqlstream.functions.checks import literals
from sqlstream.functions.signature import Coercion, Rejects, ResultType, ScalarFunction
from sqlstream.text.like_pattern import like_parts, similar_regex
from sqlstream.text.regular_expressions import checked_re2, java_regex
from sqlstream.types import BOOLEAN, LogicalType, TypeRoot

_FROM_TEXT = frozenset((TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS))
NESTED = frozenset(
    (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.VARIANT, TypeRoot.BITMAP)
)


def comparable(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    """Convert the arguments to one type. Text beside a point in time is read as one (NULL when it is none, as in Flink);
    text and numbers have no common type."""
    if any(t.root in NESTED for t in types):
        return None
    temporal = next((t for t in types if t.root in _FROM_TEXT), None)
    if temporal is not None and any(sql.is_string(t) for t in types):
        plain = temporal.without_time_attribute()
        types = tuple(plain.with_nullable(t.nullable) if sql.is_string(t) else t for t in types)
    return to_common_type(types)


def _equatable(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    """Also arrays, maps and rows have an equality, in which NULL is equal to NULL within them, but no order."""
    if not any(t.root in NESTED for t in types):
        return comparable(types)
    roots = {t.root for t in types if t.root is not TypeRoot.NULL}
    return to_common_type(types) if len(roots) == 1 and all(map(has_parts_alone, types)) else None


def _listed(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    return None if any(t.root in (TypeRoot.MAP, TypeRoot.MULTISET) for t in types) else _equatable(types)


def has_parts_alone(t: LogicalType) -> bool:
    """Whether a type holds neither a VARIANT nor a BITMAP, whose equal values may be stored in several ways."""
    if t.root in (TypeRoot.VARIANT, TypeRoot.BITMAP):
        return False
    parts = (*(p for p in (t.element, t.key) if p is not None), *(f.type for f in t.fields))
    return all(map(has_parts_alone, parts))


def _same_kind(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    """Two texts or two BYTES."""
    converted = convert_each(TEXT_OR_BYTES, TEXT_OR_BYTES)(
        tuple(types[1 - i] if t.root is TypeRoot.NULL else t for i, t in enumerate(types))
    )
    return converted if converted is not None and len({sql.is_string(t) for t in converted}) == 1 else None


_NULL_IF_ANY = returns(BOOLEAN)
_NEVER_NULL = always(BOOLEAN.not_null())


def _compare(
    symbol: str, implementation: str, coerce: Coercion = comparable, result: ResultType = _NULL_IF_ANY
) -> ScalarFunction:
    usage = f"value1 {symbol} value2"
    return scalar(usage, implementation, coerce, result, name=symbol, args=(2, 2), tries_text=True)


def _check_like(call: Call) -> None:
    pattern, escape = _pattern_and_escape(call)
    if pattern is not None:
        like_parts(pattern, escape)


def _check_similar(call: Call) -> None:
    pattern, escape = _pattern_and_escape(call)
    if pattern is not None:
        checked_re2(similar_regex(pattern, escape))


def _pattern_and_escape(call: Call) -> tuple[str | None, str | None]:
    """As far as they are known, which is together."""
    pattern, escape = (*(literals(call, 1, 2) or (None,)), None)[:2]
    return None if pattern is None else str(pattern), None if escape is None else str(escape)


def _check_regexp(call: Call) -> None:
    found = literals(call, 1)
    # The empty expression matches nothing.
    if found is not None and found[0]:
        java_regex(str(found[0]))


FUNCTIONS: tuple[ScalarFunction, ...] = (
    _compare("=", "comparison:EQUAL", _equatable),
    _compare("<>", "comparison:NOT_EQUAL", _equatable),
    _compare("<", "comparison:LESS"),
    _compare("<=", "comparison:LESS_OR_EQUAL"),
    _compare(">", "comparison:GREATER"),
    _compare(">=", "comparison:GREATER_OR_EQUAL"),
    _compare("IS DISTINCT FROM", "comparison:is_distinct", _equatable, _NEVER_NULL),
    _compare("IS NOT DISTINCT FROM", "comparison:IS_NOT_DISTINCT_FROM", _equatable, _NEVER_NULL),
    scalar("value IS NULL", "comparison:IS_NULL", (ANY,), _NEVER_NULL, name="IS NULL"),
    scalar("value IS NOT NULL", "comparison:IS_NOT_NULL", (ANY,), _NEVER_NULL, name="IS NOT NULL"),
    scalar(
        "value IN (value1 [, value2]*)",
        "comparison:IN",
        _listed,
        returns(BOOLEAN),
        name="IN",
        args=(2, 1_000_000),
        tries_text=True,
    ),
    scalar(
        "string LIKE pattern [ESCAPE char]",
        "text.pattern:like",
        (TEXT, TEXT, TEXT),
        BOOLEAN,
        name="LIKE",
        args=(2, 3),
        check=_check_like,
        rejects=Rejects.PARAMETERS,
    ),
    scalar(
        "string SIMILAR TO pattern [ESCAPE char]",
        "text.pattern:similar_to",
        (TEXT, TEXT, TEXT),
        BOOLEAN,
        name="SIMILAR TO",
        args=(2, 3),
        check=_check_similar,
        rejects=Rejects.PARAMETERS,
    ),
    scalar("STARTSWITH(string, prefix)", "text.string:STARTSWITH", _same_kind, returns(BOOLEAN)).described(
        "Whether a text begins with another.", "STARTSWITH('stream', 'str')", "TRUE"
    ),
    scalar("ENDSWITH(string, suffix)", "text.string:ENDSWITH", _same_kind, returns(BOOLEAN)).described(
        "Whether a text ends with another.", "ENDSWITH('stream', 'am')", "TRUE"
    ),
    scalar(
        "REGEXP(string, regex)", "text.pattern:REGEXP", (TEXT, TEXT), BOOLEAN, check=_check_regexp
    ).described("Whether a part of a text matches a regular expression.", "REGEXP('q12', '[0-9]+')", "TRUE"),
)


# AND, OR, NOT and the truth tests of three-valued logic.


def _truth_test(test: str, implementation: str) -> ScalarFunction:
    usage, pointer = f"boolean IS {test}", f"comparison:{implementation}"
    return scalar(usage, pointer, (BOOL,), _NEVER_NULL, name=f"IS {test}")


LOGIC: tuple[ScalarFunction, ...] = (
    scalar("boolean1 AND boolean2", "comparison:and_", (BOOL, BOOL), BOOLEAN, name="AND", args=(2, MANY)),
    scalar("boolean1 OR boolean2", "comparison:or_", (BOOL, BOOL), BOOLEAN, name="OR", args=(2, MANY)),
    scalar("NOT boolean", "comparison:NOT", (BOOL,), BOOLEAN, name="NOT"),
    _truth_test("TRUE", "IS_TRUE"),
    _truth_test("NOT TRUE", "IS_NOT_TRUE"),
    _truth_test("FALSE", "IS_FALSE"),
    _truth_test("NOT FALSE", "IS_NOT_FALSE"),
    _truth_test("UNKNOWN", "IS_NULL"),
    _truth_test("NOT UNKNOWN", "IS_NOT_NULL"),
)
