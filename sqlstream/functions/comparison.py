"""Comparisons and pattern predicates."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.functions.arguments import (
    ANY,
    TEXT,
    TEXT_OR_BYTES,
    always,
    returns,
    scalar,
    to_common_type,
)
from sqlstream.functions.signature import ResultType, ScalarFunction
from sqlstream.types import BOOLEAN, LogicalType, TypeRoot

_FROM_TEXT = frozenset((TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS))
NESTED = frozenset((TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW))


def comparable(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    """Arguments as one type. Text beside a point in time is read as one; text and numbers do not mix."""
    if any(t.root in NESTED for t in types):
        return None
    temporal = next((t for t in types if t.root in _FROM_TEXT), None)
    if temporal is not None and any(sql.is_string(t) for t in types):
        plain = temporal.without_time_attribute()
        types = tuple(plain.with_nullable(t.nullable) if sql.is_string(t) else t for t in types)
    return to_common_type(types)


_NULL_IF_ANY = returns(BOOLEAN)
_NEVER_NULL = always(BOOLEAN.not_null())


def _compare(symbol: str, result: ResultType = _NULL_IF_ANY) -> ScalarFunction:
    return ScalarFunction(symbol, f"value1 {symbol} value2", 2, 2, result, comparable)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    _compare("="),
    _compare("<>"),
    _compare("<"),
    _compare("<="),
    _compare(">"),
    _compare(">="),
    _compare("IS DISTINCT FROM", _NEVER_NULL),
    _compare("IS NOT DISTINCT FROM", _NEVER_NULL),
    scalar("IS NULL", "value IS NULL", (ANY,), _NEVER_NULL),
    scalar("IS NOT NULL", "value IS NOT NULL", (ANY,), _NEVER_NULL),
    ScalarFunction("IN", "value IN (value1 [, value2]*)", 2, 100_000, returns(BOOLEAN), comparable),
    scalar("LIKE", "string LIKE pattern [ESCAPE char]", (TEXT, TEXT, TEXT), BOOLEAN, args_min=2),
    scalar("SIMILAR TO", "string SIMILAR TO regex", (TEXT, TEXT), BOOLEAN),
    scalar("STARTSWITH", "STARTSWITH(string, prefix)", (TEXT_OR_BYTES, TEXT_OR_BYTES), BOOLEAN),
    scalar("ENDSWITH", "ENDSWITH(string, suffix)", (TEXT_OR_BYTES, TEXT_OR_BYTES), BOOLEAN),
    scalar("REGEXP", "REGEXP(string, regex)", (TEXT, TEXT), BOOLEAN),
)
