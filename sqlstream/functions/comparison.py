"""Comparisons and pattern predicates."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.functions.arguments import (
    ANY,
    TEXT,
    TEXT_OR_BYTES,
    always,
    convert_each,
    returns,
    scalar,
    to_common_type,
)
from sqlstream.functions.checks import literals
from sqlstream.functions.signature import Coercion, ResultType, ScalarFunction
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


def _affix(name: str, part: str) -> ScalarFunction:
    return ScalarFunction(name, f"{name}(string, {part})", 2, 2, returns(BOOLEAN), _same_kind)


_NULL_IF_ANY = returns(BOOLEAN)
_NEVER_NULL = always(BOOLEAN.not_null())


def _compare(symbol: str, coerce: Coercion = comparable, result: ResultType = _NULL_IF_ANY) -> ScalarFunction:
    return ScalarFunction(symbol, f"value1 {symbol} value2", 2, 2, result, coerce, tries_text=True)


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
    _compare("=", _equatable),
    _compare("<>", _equatable),
    _compare("<"),
    _compare("<="),
    _compare(">"),
    _compare(">="),
    _compare("IS DISTINCT FROM", _equatable, _NEVER_NULL),
    _compare("IS NOT DISTINCT FROM", _equatable, _NEVER_NULL),
    scalar("IS NULL", "value IS NULL", (ANY,), _NEVER_NULL),
    scalar("IS NOT NULL", "value IS NOT NULL", (ANY,), _NEVER_NULL),
    ScalarFunction(
        "IN", "value IN (value1 [, value2]*)", 2, 1_000_000, returns(BOOLEAN), _listed, tries_text=True
    ),
    scalar(
        "LIKE",
        "string LIKE pattern [ESCAPE char]",
        (TEXT, TEXT, TEXT),
        BOOLEAN,
        args_min=2,
        check=_check_like,
    ),
    scalar(
        "SIMILAR TO",
        "string SIMILAR TO pattern [ESCAPE char]",
        (TEXT, TEXT, TEXT),
        BOOLEAN,
        args_min=2,
        check=_check_similar,
    ),
    _affix("STARTSWITH", "prefix"),
    _affix("ENDSWITH", "suffix"),
    scalar("REGEXP", "REGEXP(string, regex)", (TEXT, TEXT), BOOLEAN, check=_check_regexp),
)
