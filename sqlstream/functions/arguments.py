"""Building blocks of signatures: accepted argument types, their conversions, and result types."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TypedDict, Unpack

from sqlstream import types as sql
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import (
    IS_DETERMINISTIC,
    Accumulated,
    AggregateFunction,
    Check,
    Coercion,
    Refinement,
    Rejects,
    ResultType,
    ScalarFunction,
)
from sqlstream.types import LogicalType, TypeRoot


@dataclasses.dataclass(frozen=True)
class Argument:
    """Types for which `accepts` is true are allowed. Those other than `keeps` are cast to `target`, if given; an untyped
    NULL is cast to `null_type`."""

    accepts: Callable[[LogicalType], bool]
    null_type: LogicalType
    target: LogicalType | None = None
    keeps: TypeRoot | None = None

    def convert(self, t: LogicalType) -> LogicalType | None:
        if t.root is TypeRoot.NULL:
            return self.target or self.null_type
        if not self.accepts(t):
            return None
        return t if self.target is None or t.root is self.keeps else self.target.with_nullable(t.nullable)


ANY = Argument(lambda t: True, sql.NULL)
TEXT = Argument(sql.is_string, sql.STRING)
TEXT_OR_BYTES = Argument(lambda t: sql.is_string(t) or t.root in sql.BINARY_ROOTS, sql.STRING)
BOOL = Argument(lambda t: t.root is TypeRoot.BOOLEAN, sql.BOOLEAN)
NUMBER = Argument(sql.is_numeric, sql.INT)
INTEGER = Argument(sql.is_integer, sql.INT)
AS_INT = Argument(sql.is_integer, sql.INT, target=sql.INT, keeps=TypeRoot.BIGINT)
"""A length, position or count. A BIGINT stays one: the low bits of a large one would be another number."""
_AT_MOST_INT = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER)
AS_NARROW_INT = Argument(lambda t: t.root in _AT_MOST_INT, sql.INT, target=sql.INT)
AS_BIGINT = Argument(sql.is_integer, sql.BIGINT, target=sql.BIGINT)
AS_DOUBLE = Argument(sql.is_numeric, sql.DOUBLE, target=sql.DOUBLE)
SYMBOL = Argument(lambda t: t.root is TypeRoot.SYMBOL or sql.is_string(t), sql.SYMBOL)
BYTES = Argument(lambda t: t.root in sql.BINARY_ROOTS, sql.BYTES)
TIMESTAMP = Argument(sql.is_timestamp, sql.timestamp(3))
DATE_LIKE = Argument(lambda t: sql.is_timestamp(t) or t.root is TypeRoot.DATE, sql.timestamp(3))
TEMPORAL = Argument(
    lambda t: sql.is_timestamp(t) or t.root in (TypeRoot.DATE, TypeRoot.TIME), sql.timestamp(3)
)
ARRAY = Argument(lambda t: t.root is TypeRoot.ARRAY, sql.array(sql.STRING))
COLLECTION = Argument(lambda t: t.root in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET), sql.NULL)


def as_given(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...]:
    return types


def is_any_nullable(types: tuple[LogicalType, ...]) -> bool:
    return any(t.nullable for t in types)


def returns(result: LogicalType) -> ResultType:
    """`result`, NULL when an argument is."""
    return lambda types: result.with_nullable(is_any_nullable(types))


def always(result: LogicalType) -> ResultType:
    """`result`, unchanged, for all arguments."""
    return lambda types: result


def same_as(position: int) -> ResultType:
    """The type of one argument, NULL when any argument is."""
    return lambda types: types[position].without_time_attribute().with_nullable(is_any_nullable(types))


def convert_each(*arguments: Argument) -> Coercion:
    """Convert each argument by its rule; the last rule applies to all further arguments."""

    def coerce(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
        rules = arguments + (arguments[-1:] * (len(types) - len(arguments)) if arguments else ())
        converted = tuple(rule.convert(t) for rule, t in zip(rules, types, strict=False))
        return None if None in converted else converted  # type: ignore[return-value]

    return coerce


def to_common_type(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    """Convert all arguments to their common type; strings remain as they are, whatever their lengths."""
    return types if all(sql.is_string(t) for t in types) else to_shared(types)


def to_shared(types: tuple[LogicalType, ...]) -> tuple[LogicalType, ...] | None:
    """Convert all arguments to their common type, and keep which of them may be NULL."""
    shared = common_type(types)
    return None if shared is None else tuple(shared.with_nullable(t.nullable) for t in types)


class Details(TypedDict, total=False):
    """What few functions have; see `ScalarFunction`."""

    is_deterministic: bool
    refine: Refinement
    tries_text: bool
    check: Check
    rejects: Rejects


def scalar(
    usage: str,
    implementation: str,
    arguments: tuple[Argument, ...] | Coercion,
    result: LogicalType | ResultType,
    *,
    name: str = "",
    args: tuple[int, int] | None = None,
    **details: Unpack[Details],
) -> ScalarFunction:
    """A function; its name is that before the parenthesis of `usage`, unless given.

    `arguments` are converted one by one, the last rule holding for all further ones, or all together. `args` is the least and
    the most of them, by default as `usage` shows, if that is a plain call, or as many as there are rules.
    """
    fewest, most, coerce = _taken(usage, arguments, args)
    name = name or usage.partition("(")[0]
    IS_DETERMINISTIC[name] = details.get("is_deterministic", True)
    return ScalarFunction(
        name,
        usage,
        fewest,
        most,
        returns(result) if isinstance(result, LogicalType) else result,
        coerce,
        implementation=implementation,
        **details,
    )


def aggregate(
    usage: str,
    implementation: str,
    arguments: tuple[Argument, ...] | Coercion,
    result: ResultType,
    accumulator: Accumulated | None = None,
    *,
    args: tuple[int, int] | None = None,
    retracting: str = "",
    ignores_distinct: bool = False,
) -> AggregateFunction:
    """An aggregate function, as `scalar` makes a scalar one."""
    fewest, most, coerce = _taken(usage, arguments, args)
    name = usage.partition("(")[0]
    return AggregateFunction(
        name,
        usage,
        fewest,
        most,
        result,
        accumulator,
        coerce,
        implementation,
        retracting,
        ignores_distinct,
    )


MANY = 100_000
"""The most arguments of a function that takes any number of them."""

_PLAIN_CALL = re.compile(r"\w+\((\w+(?:, \w+)*)?((?: ?\[, \w+(?:, \w+)*)*)(\]*\*?)\)")


def _taken(
    usage: str, arguments: tuple[Argument, ...] | Coercion, args: tuple[int, int] | None
) -> tuple[int, int, Coercion]:
    """The least and the most arguments, and how they are converted.

    >>> _taken("F(a, b[, c])", (ANY,), None)[:2]
    (2, 3)
    >>> _taken("F(a [, b]*)", (ANY,), None)[:2]
    (1, 100000)
    """
    if args is None and (call := _PLAIN_CALL.fullmatch(usage)) is not None:
        needed, more, end = call.groups()
        least = needed.count(", ") + 1 if needed else 0
        args = least, MANY if end.endswith("*") else least + more.count(", ")
    if isinstance(arguments, tuple):
        return *(args or (len(arguments), len(arguments))), convert_each(*arguments)
    assert args is not None
    return *args, arguments
