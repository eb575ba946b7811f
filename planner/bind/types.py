"""Which types convert to which: implicit casts of an INSERT and explicit casts (Flink: LogicalTypeCasts)."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot

_NUMERIC = frozenset((*sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS, TypeRoot.DECIMAL))
_STRINGS = frozenset(sql.STRING_ROOTS)
_BINARIES = frozenset(sql.BINARY_ROOTS)
_INTERVALS = frozenset((TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH))
_TIMESTAMPS = frozenset(sql.TIMESTAMP_ROOTS)

_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    TypeRoot.CHAR: frozenset((TypeRoot.CHAR,)),
    TypeRoot.VARCHAR: _STRINGS,
    TypeRoot.BINARY: frozenset((TypeRoot.BINARY,)),
    TypeRoot.VARBINARY: _BINARIES,
    TypeRoot.DECIMAL: _NUMERIC,
    TypeRoot.TINYINT: frozenset(sql.INTEGER_ROOTS[:1]),
    TypeRoot.SMALLINT: frozenset(sql.INTEGER_ROOTS[:2]),
    TypeRoot.INTEGER: frozenset(sql.INTEGER_ROOTS[:3]),
    TypeRoot.BIGINT: frozenset(sql.INTEGER_ROOTS),
    TypeRoot.FLOAT: _NUMERIC - {TypeRoot.DOUBLE},
    TypeRoot.DOUBLE: _NUMERIC,
    TypeRoot.DATE: frozenset((TypeRoot.DATE, TypeRoot.TIMESTAMP)),
    TypeRoot.TIME: frozenset((TypeRoot.TIME, TypeRoot.TIMESTAMP)),
    TypeRoot.TIMESTAMP: _TIMESTAMPS,
    TypeRoot.TIMESTAMP_LTZ: _TIMESTAMPS,
}
"""Target root → source roots that an INSERT casts implicitly."""

_FROM_STRING = (
    _NUMERIC | _BINARIES | _TIMESTAMPS | frozenset((TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME))
)
_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    **dict.fromkeys(_NUMERIC, _NUMERIC),
    **dict.fromkeys(sql.INTEGER_ROOTS, _NUMERIC | {TypeRoot.BOOLEAN}),
    **dict.fromkeys(_BINARIES, _BINARIES),
    **dict.fromkeys(_INTERVALS, frozenset(sql.INTEGER_ROOTS)),
    TypeRoot.BOOLEAN: _NUMERIC,
    TypeRoot.DATE: _TIMESTAMPS,
    TypeRoot.TIME: _TIMESTAMPS,
    TypeRoot.TIMESTAMP: _TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME},
    TypeRoot.TIMESTAMP_LTZ: _TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME},
}
"""Source root → target roots of CAST, besides the same root and strings."""


Agree = Callable[[LogicalType, LogicalType], bool]


def can_cast(source: LogicalType, target: LogicalType) -> bool:
    """Whether CAST(source AS target) is defined; it may still fail for a value."""
    if source.root is TypeRoot.NULL or target.root in _STRINGS:
        return True
    if source.root in _STRINGS:
        return target.root in _FROM_STRING
    if source.root is target.root:
        return _nested_agree(source, target, can_cast)
    if source.root in _NUMERIC and target.root in _INTERVALS:
        return source.root in sql.INTEGER_ROOTS
    return target.root in _EXPLICIT.get(source.root, frozenset())


def can_cast_implicitly(source: LogicalType, target: LogicalType) -> bool:
    """Whether a query's column may go to a sink's column without a CAST in the query."""
    if source.root is TypeRoot.NULL:
        return True
    if source.root is target.root:
        return _nested_agree(source, target, can_cast_implicitly)
    return source.root in _IMPLICIT.get(target.root, frozenset())


def _nested_agree(source: LogicalType, target: LogicalType, agree: Agree) -> bool:
    pairs = [(source.element, target.element), (source.key, target.key)]
    if any(a is not None and b is not None and not agree(a, b) for a, b in pairs):
        return False
    return len(source.fields) == len(target.fields) and all(
        agree(a.type, b.type) for a, b in zip(source.fields, target.fields, strict=True)
    )
