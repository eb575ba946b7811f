"""Conversions that the binder inserts: a CAST, or a literal of the target type where that is exact."""

from __future__ import annotations

from decimal import Decimal

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.planner.bind.checked import checked
from sqlstream.planner.bind.literals import is_in_range
from sqlstream.planner.bind.types import can_cast
from sqlstream.time_range import timestamp_bounds_ns
from sqlstream.time_texts import is_time_text
from sqlstream.time_units import DAY_S, PER_SECOND
from sqlstream.types import LogicalType, TypeRoot

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
