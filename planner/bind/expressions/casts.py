"""Conversions that the binder inserts: a CAST, or a literal of the target type where that is exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

import msgspec

from sqlstream import config as settings
from sqlstream import types as sql
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.functions.checks import is_constant
from sqlstream.functions.comparison import NESTED
from sqlstream.planner.bind.expressions.literals import is_in_range
from sqlstream.planner.rules.constant_folding import fold
from sqlstream.times import DAY_S, PER_SECOND, is_time_text, timestamp_bounds_ns
from sqlstream.types import BOOLEAN, INT, LogicalType, TypeRoot

_HINTS: dict[tuple[TypeRoot, TypeRoot], str] = {
    (
        TypeRoot.BIGINT,
        TypeRoot.TIMESTAMP_LTZ,
    ): "use TO_TIMESTAMP_LTZ(number, 3) for milliseconds since the epoch",
    (TypeRoot.BIGINT, TypeRoot.TIMESTAMP): "use TO_TIMESTAMP_LTZ(number, 3) for milliseconds since the epoch",
    **dict.fromkeys(((TypeRoot.BITMAP, r) for r in sql.BINARY_ROOTS), "use BITMAP_TO_BYTES(bitmap)"),
    **dict.fromkeys(((r, TypeRoot.BITMAP) for r in sql.BINARY_ROOTS), "use BITMAP_FROM_BYTES(bytes)"),
    (TypeRoot.ARRAY, TypeRoot.BITMAP): "use BITMAP_BUILD(array)",
    (TypeRoot.BITMAP, TypeRoot.ARRAY): "use BITMAP_TO_ARRAY(bitmap)",
    (
        TypeRoot.TIMESTAMP,
        TypeRoot.BIGINT,
    ): "use UNIX_TIMESTAMP(CAST(value AS STRING)) for seconds since the epoch",
    (
        TypeRoot.TIMESTAMP_LTZ,
        TypeRoot.BIGINT,
    ): "use UNIX_TIMESTAMP(CAST(value AS STRING)) for seconds since the epoch",
}


def cast_to(expression: Expression, target: LogicalType, span: Span | None) -> Expression:
    """`expression` cast to `target` with its own nullability; unchanged when only nullability or time attribute
    differ. Errors of a value that does not convert point at `span`, unless `expression` has its own."""
    source = expression.type
    wanted = target.without_time_attribute().with_nullable(source.nullable)
    if source.same_as(wanted):
        return expression
    if isinstance(expression, Literal):
        _check_range(expression, wanted, span)
        converted = _retype(expression, wanted)
        if converted is not None:
            return converted
    own = expression.span if isinstance(expression, Call) else None
    return checked(Call("CAST", (expression,), wanted, own or span))


def reads_text(source: LogicalType, target: LogicalType) -> bool:
    """Whether a conversion reads text as a value of another kind."""
    return sql.is_string(source) and not sql.is_string(target)


def try_cast_text_to(expression: Expression, target: LogicalType, span: Span | None) -> Expression:
    """As `cast_to`, but text that is no value of `target` is NULL. UserError SS2008 for a literal that is none."""
    if not reads_text(expression.type, target):
        return _beyond(expression, target) or cast_to(expression, target, span)
    if isinstance(expression, Literal) and expression.value is not None:
        _check_time_text(str(expression.value), target, span)
    return Call("TRY_CAST", (expression,), target.without_time_attribute().with_nullable(True), span)


def explicit_cast(
    function: str, expression: Expression, target: LogicalType, span: Span | None
) -> Expression:
    """The user's CAST or TRY_CAST. UserError SS2008 for types that do not convert."""
    if TypeRoot.VARIANT in (expression.type.root, target.root) and expression.type.root is not target.root:
        expression = _variant_cast(expression, target, span)
        if expression.type.root is TypeRoot.VARIANT is target.root:
            return expression
    if not can_cast(expression.type, target):
        raise UserError(
            "SS2008",
            f"cannot cast {plain(expression.type)} to {plain(target)}",
            span=span,
            hint=_HINTS.get((expression.type.root, target.root), "") or _detour(expression.type, target),
        )
    nullable = expression.type.nullable or function == "TRY_CAST"
    if isinstance(expression, Literal) and expression.value is None:
        return Literal(None, target.with_nullable(True))
    if isinstance(expression, Literal) and function == "CAST":
        _check_range(expression, target, span)
    return checked(Call(function, (expression,), target.with_nullable(nullable), span))


def _detour(source: LogicalType, target: LogicalType) -> str:
    """What to write for a cast that there is not."""
    if source.root is TypeRoot.DATE and sql.is_numeric(target):
        return "use TIMESTAMPDIFF(DAY, DATE '1970-01-01', date) for days, or EXTRACT(unit FROM date)"
    if sql.is_numeric(source) and target.root is TypeRoot.DATE:
        return "use TIMESTAMPADD(DAY, days, DATE '1970-01-01') for days since the epoch"
    if sql.is_numeric(source) and target.root is TypeRoot.BOOLEAN:
        return "write value <> 0"
    if can_cast(source, sql.STRING) and can_cast(sql.STRING, target):
        return f"go by text if the text is one: CAST(CAST(value AS STRING) AS {plain(target)})"
    return "there is no way from one of these types to the other"


def _variant_cast(expression: Expression, target: LogicalType, span: Span | None) -> Expression:
    """A value as a VARIANT; of a VARIANT the text, from which CAST goes on to a type that is no VARIANT."""
    source = expression.type
    if target.root is TypeRoot.VARIANT:
        if sql.is_interval(source) or source.root in (TypeRoot.MULTISET, TypeRoot.BITMAP):
            return expression
        return checked(Call("JSON_STRING", (expression,), sql.VARIANT.with_nullable(source.nullable), span))
    if target.root in (*sql.NESTED_ROOTS, *sql.BINARY_ROOTS) or sql.is_interval(target):
        return expression
    return Call("VARIANT_TEXT", (expression,), sql.STRING, span)


def _check_range(literal: Literal, target: LogicalType, span: Span | None) -> None:
    """UserError SS2008 for a moment that a TIMESTAMP of the target's precision cannot hold."""
    if literal.value is None or not (sql.is_timestamp(literal.type) and sql.is_timestamp(target)):
        return
    if target.precision > 6 and not is_in_range(int(literal.value), target.precision):
        raise UserError(
            "SS2008",
            f"a {plain(target)} holds the years 1678 to 2261 only",
            span=span,
            hint=f"use {_coarser(target)}, which holds 0001 to 9999",
        )


def _coarser(target: LogicalType) -> str:
    return "TIMESTAMP(6)" if target.root is TypeRoot.TIMESTAMP else "TIMESTAMP_LTZ(6)"


def _beyond(expression: Expression, target: LogicalType) -> Literal | None:
    """For a comparison with a TIMESTAMP(7..9): the first moment beyond its range in place of a literal that is farther,
    such as DATE '9999-12-31'. None for all others."""
    if not isinstance(expression, Literal) or expression.value is None or not sql.is_timestamp(target):
        return None
    if target.precision <= 6 or expression.type.root not in (TypeRoot.DATE, target.root):
        return None
    nanoseconds = int(expression.value)
    if expression.type.root is TypeRoot.DATE:
        nanoseconds *= DAY_S * PER_SECOND["ns"]
    low, high = timestamp_bounds_ns(target.precision)
    if low <= nanoseconds <= high:
        return None
    return Literal(low - 1 if nanoseconds < low else high + 1, target.without_time_attribute().not_null())


def _check_time_text(text: str, target: LogicalType, span: Span | None) -> None:
    """UserError SS2008 for a literal text that a comparison would read as a time, and cannot."""
    if target.root not in (TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS) or is_time_text(text, target):
        return
    example = {TypeRoot.DATE: "2024-02-29", TypeRoot.TIME: "23:59:01"}.get(target.root, "2024-02-29 23:59:01")
    hint = f"write it as '{example}'; to compare as texts, CAST the other side to STRING"
    if sql.is_timestamp(target) and is_time_text(text, sql.timestamp(6)):
        hint = f"it holds the years 1678 to 2261: CAST the other side to {_coarser(target)}"
    raise UserError("SS2008", f"'{text}' is no {plain(target)}", span=span, hint=hint)


def to_boolean(expression: Expression, place: str, span: Span | None) -> Expression:
    """`expression` as the condition of `place` (WHERE, ON, …). UserError SS2008 when it is no BOOLEAN."""
    if expression.type.root is TypeRoot.NULL:
        return Literal(None, sql.BOOLEAN)
    if expression.type.root is not TypeRoot.BOOLEAN:
        raise UserError(
            "SS2008",
            f"{place} takes a BOOLEAN condition, not {plain(expression.type)}",
            span=span,
            hint="compare the value with something",
        )
    return expression


def plain(t: LogicalType) -> str:
    """A type as errors show it: without nullability and time attribute."""
    return str(t.without_time_attribute().with_nullable(True))


def _retype(literal: Literal, wanted: LogicalType) -> Literal | None:
    value = literal.value
    if value is None:
        return Literal(None, wanted)
    if sql.is_string(literal.type):
        fits = wanted.root is TypeRoot.VARCHAR and wanted.length >= len(str(value))
        return Literal(value, wanted) if fits else None
    if isinstance(value, int) and sql.is_integer(literal.type):
        return _retype_integer(value, wanted)
    if literal.type.root is wanted.root and literal.type.root in _CLOCK_ROOTS:
        # The value's unit does not depend on the precision.
        return Literal(value, wanted) if wanted.precision >= literal.type.precision else None
    if literal.type.root is TypeRoot.DECIMAL:
        return _retype_decimal(Decimal(str(value)), wanted)
    return None


_CLOCK_ROOTS = (*sql.TIMESTAMP_ROOTS, TypeRoot.TIME)
_RANGES = {
    TypeRoot.TINYINT: 2**7,
    TypeRoot.SMALLINT: 2**15,
    TypeRoot.INTEGER: 2**31,
    TypeRoot.BIGINT: 2**63,
    TypeRoot.FLOAT: 2**24,
    TypeRoot.DOUBLE: 2**53,
}


def _retype_integer(value: int, wanted: LogicalType) -> Literal | None:
    if wanted.root is TypeRoot.DECIMAL:
        return _retype_decimal(Decimal(value), wanted)
    limit = _RANGES.get(wanted.root)
    if limit is None or not -limit <= value < limit:
        return None
    return Literal(float(value) if wanted.root in sql.APPROXIMATE_ROOTS else value, wanted)


def _retype_decimal(value: Decimal, wanted: LogicalType) -> Literal | None:
    if wanted.root is TypeRoot.DOUBLE:
        return Literal(float(value), wanted)
    if wanted.root is not TypeRoot.DECIMAL:
        return None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole = max(0, len(digits) + exponent)
    if -exponent > wanted.scale or whole > wanted.precision - wanted.scale:
        return None
    return Literal(f"{value:.{wanted.scale}f}", wanted)


# Which types convert to which: implicit casts of an INSERT and explicit casts (Flink: LogicalTypeCasts).


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


# Refuses calls that no row could make work, by their signatures.


def checked(call: Call, span: Span | None = None) -> Call:
    """The call of a built-in function. UserError at `span`, or else at the place of the call, when its signature refuses it."""
    check = SCALAR_FUNCTIONS[call.function].check
    if check is not None:
        with ErrorsAt(span or call.span):
            check(call.with_args(tuple(_computed(a) for a in call.args)))
    return call


def _computed(argument: Expression) -> Expression:
    is_open = not isinstance(argument, Literal) and is_constant(argument)
    return fold(argument) if is_open else argument


# Which types can be compared for equality (keys) and for order (ORDER BY).


def require_key(expression: Expression, place: str, span: Span | None) -> Expression:
    """`expression`, which `place` (GROUP BY, …) compares for equality; UserError SS3090 for an ARRAY, MAP, MULTISET, ROW,
    VARIANT or BITMAP."""
    if expression.type.root in NESTED:
        raise UserError(
            "SS3090",
            f"{place} takes no value of type {plain(expression.type)}",
            span=span,
            hint="name the fields or elements that identify a row",
        )
    return expression


def require_group_key(expression: Expression, place: str, span: Span | None) -> Expression:
    """As `require_key`, for a place that also takes arrays and rows of such types."""
    is_nested = expression.type.root in (TypeRoot.ARRAY, TypeRoot.ROW) and _has_keys_alone(expression.type)
    return expression if is_nested else require_key(expression, place, span)


def _has_keys_alone(t: LogicalType) -> bool:
    if t.root in (TypeRoot.ARRAY, TypeRoot.ROW):
        return all(map(_has_keys_alone, t.parts))
    return t.root not in NESTED


def require_order(expression: Expression, span: Span | None) -> Expression:
    """`expression`, which ORDER BY sorts by; UserError SS2008 for a collection, a VARIANT or a BITMAP, which have
    no order, and for a ROW with one."""
    if not _has_order(expression.type):
        raise UserError(
            "SS2008",
            f"ORDER BY takes no value of type {plain(expression.type)}",
            span=span,
            hint="sort by a field of it"
            if expression.type.root is TypeRoot.ROW
            else "sort by an element of it",
        )
    return expression


def _has_order(t: LogicalType) -> bool:
    if t.root is TypeRoot.ROW:
        return all(map(_has_order, t.parts))
    return t.root not in NESTED


Ordering = tuple[Expression, bool, bool]
"""A value to sort by, whether it is descending, and whether NULLs come first."""


def field_orders(by: Ordering) -> list[Ordering]:
    """What to sort by instead of a ROW: whether it is NULL, then its fields, of which NULL is the lowest value."""
    row, is_descending, is_nulls_first = by
    if row.type.root is not TypeRoot.ROW:
        return [by]
    found: list[Ordering] = []
    if row.type.nullable:
        test = "IS NOT NULL" if is_nulls_first else "IS NULL"
        found.append((Call(test, (row,), BOOLEAN.not_null()), False, False))
    for place, field in enumerate(row.type.fields):
        t = field.type.with_nullable(field.type.nullable or row.type.nullable)
        value = Call("FIELD", (row, Literal(place, INT.not_null())), t)
        found += field_orders((value, is_descending, not is_descending))
    return found


# A value in the type of the column that it is written into.


_NESTED = "table.exec.sink.nested-constraint-enforcer"
_TYPE_LENGTHS = "table.exec.sink.type-length-enforcer"


def stored_value(
    value: Expression, column: LogicalType, span: Span | None, config: Mapping[str, str]
) -> Expression:
    """The implicit cast. Where the sink refuses values that are too long, one that may be stays as long as it is: the cast would
    cut it off before the sink sees it."""
    is_text = sql.is_string(column) and sql.is_string(value.type)
    is_bytes = column.root in sql.BINARY_ROOTS and value.type.root in sql.BINARY_ROOTS
    is_longer = (is_text or is_bytes) and value.type.length > column.length
    if settings.get(config, _TYPE_LENGTHS) == "ERROR":
        if is_longer:
            column = _unbounded(column)
        elif (depth := settings.get(config, _NESTED)) != "IGNORE":
            column = _with_unbounded_parts(column, collections=depth == "ROWS_AND_COLLECTIONS")
    return cast_to(value, column, span)


def _unbounded(t: LogicalType) -> LogicalType:
    if sql.is_string(t):
        return sql.STRING.with_nullable(t.nullable)
    return sql.BYTES.with_nullable(t.nullable) if t.root in sql.BINARY_ROOTS else t


def _with_unbounded_parts(t: LogicalType, *, collections: bool) -> LogicalType:
    """The type whose parts that the sink looks into are as long as they like."""

    def changed(part: LogicalType) -> LogicalType:
        return _with_unbounded_parts(_unbounded(part), collections=collections)

    if t.root is TypeRoot.ROW:
        fields = tuple(msgspec.structs.replace(f, type=changed(f.type)) for f in t.fields)
        return msgspec.structs.replace(t, fields=fields)
    if not collections or t.root not in (TypeRoot.ARRAY, TypeRoot.MAP):
        return t
    key = None if t.key is None else changed(t.key)
    return msgspec.structs.replace(t, key=key, element=None if t.element is None else changed(t.element))
