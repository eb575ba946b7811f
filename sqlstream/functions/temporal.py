"""Functions of dates, times, timestamps and the clock."""

from __future__ import annotations

import re

import msgspec

from sqlstream import types as sql
from sqlstream.expressions import Expression, Literal
from sqlstream.functions.arguments import (
    AS_BIGINT,
    AS_INT,
    DATE_LIKE,
    SYMBOL,
    TEMPORAL,
    TEXT,
    TIME_LIKE,
    TIMESTAMP,
    Argument,
    always,
    is_any_nullable,
    returns,
    scalar,
)
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import BIGINT, DATE, INT, STRING, LogicalType, TypeRoot, timestamp, timestamp_ltz

Types = tuple[LogicalType, ...]

_TIMESTAMP_OR_TEXT = Argument(
    lambda t: sql.is_timestamp(t) or sql.is_string(t) or t.root is TypeRoot.DATE, timestamp(3)
)
_NUMBER_OR_TEXT = Argument(lambda t: sql.is_numeric(t) or sql.is_string(t), BIGINT)
_INTEGER_OR_TEXT = Argument(lambda t: sql.is_integer(t) or sql.is_string(t), INT)


def _formatted(types: Types) -> LogicalType:
    """NULL for text that is no timestamp."""
    return STRING.with_nullable(is_any_nullable(types) or sql.is_string(types[0]))


_DAYS_OR_LONGER = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})


def _added(types: Types) -> LogicalType:
    """The type of the point in time; `_added_by_unit` decides for a DATE."""
    return types[2].without_time_attribute().with_nullable(is_any_nullable(types))


def _added_by_unit(result: LogicalType, args: tuple[Expression, ...]) -> LogicalType:
    """A DATE moved by less than a day is a TIMESTAMP(6); a timestamp has the digits of the unit at least."""
    unit = _unit_of(args)
    if result.root is TypeRoot.DATE:
        if unit in _DAYS_OR_LONGER:
            return result
        result = timestamp(6).with_nullable(result.nullable)
    digits = max(result.precision, _UNIT_DIGITS.get(unit, 0))
    return msgspec.structs.replace(result, precision=digits)


def _difference_by_unit(result: LogicalType, args: tuple[Expression, ...]) -> LogicalType:
    """A count of units finer than a millisecond is a BIGINT."""
    return BIGINT.with_nullable(result.nullable) if _unit_of(args) in _UNIT_DIGITS else result


def _unit_of(args: tuple[Expression, ...]) -> str:
    return str(args[0].value).upper() if isinstance(args[0], Literal) else ""


_UNIT_DIGITS = {"MICROSECOND": 6, "NANOSECOND": 9}


def _timestamp_ltz(types: Types) -> LogicalType | None:
    """TO_TIMESTAMP_LTZ(epoch[, precision]) or (text[, pattern[, time zone]])."""
    is_text = sql.is_string(types[0])
    if any(sql.is_string(t) != is_text for t in types) or (len(types) == 3 and not is_text):
        return None
    return timestamp_ltz(3)


def _as_fine_as_literal(result: LogicalType, args: tuple[Expression, ...]) -> LogicalType:
    """TIMESTAMP_LTZ with as many digits as a literal precision or the literal pattern has, at least 3."""
    value = args[1].value if len(args) > 1 and isinstance(args[1], Literal) else None
    if isinstance(value, str):
        unquoted = re.sub(r"'[^']*'", "", value)
        value = max((len(run) for run in re.findall("S+", unquoted)), default=3)
    return timestamp_ltz(min(max(value, 3), 9)) if isinstance(value, int) else result


def _watermark(types: Types) -> LogicalType | None:
    """As the row time, in milliseconds."""
    return timestamp_ltz(3) if types[0].root is TypeRoot.TIMESTAMP_LTZ else timestamp(3)


_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK")
_NOW = (
    ("CURRENT_TIMESTAMP", timestamp_ltz(3)),
    ("CURRENT_ROW_TIMESTAMP", timestamp_ltz(3)),
    ("NOW", timestamp_ltz(3)),
    ("LOCALTIMESTAMP", timestamp(3)),
    ("CURRENT_DATE", DATE),
    ("CURRENT_TIME", sql.time(0)),
    ("LOCALTIME", sql.time(0)),
)

FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("EXTRACT", "EXTRACT(unit FROM temporal)", (SYMBOL, TEMPORAL), BIGINT),
    *(scalar(name, f"{name}(date)", (DATE_LIKE,), BIGINT) for name in _PARTS),
    *(scalar(name, f"{name}(timestamp)", (TIME_LIKE,), BIGINT) for name in ("HOUR", "MINUTE", "SECOND")),
    scalar("DATE_FORMAT", "DATE_FORMAT(timestamp, pattern)", (_TIMESTAMP_OR_TEXT, TEXT), _formatted),
    scalar("TO_TIMESTAMP", "TO_TIMESTAMP(string[, pattern])", (TEXT, TEXT), always(timestamp(3)), args_min=1),
    scalar("TO_DATE", "TO_DATE(string[, pattern])", (TEXT, TEXT), always(DATE), args_min=1),
    scalar(
        "TO_TIMESTAMP_LTZ",
        "TO_TIMESTAMP_LTZ(epoch[, precision]) or TO_TIMESTAMP_LTZ(string[, pattern[, time zone]])",
        (_NUMBER_OR_TEXT, _INTEGER_OR_TEXT, TEXT),
        _timestamp_ltz,
        args_min=1,
        refine=_as_fine_as_literal,
    ),
    scalar(
        "FROM_UNIXTIME", "FROM_UNIXTIME(seconds[, pattern])", (AS_BIGINT, TEXT), always(STRING), args_min=1
    ),
    scalar("CONVERT_TZ", "CONVERT_TZ(string, from_zone, to_zone)", (TEXT, TEXT, TEXT), always(STRING)),
    scalar("CURRENT_DATABASE", "CURRENT_DATABASE()", (), always(STRING.not_null())),
    scalar(
        "UNIX_TIMESTAMP",
        "UNIX_TIMESTAMP(string[, pattern])",
        (TEXT, TEXT),
        returns(BIGINT),
        args_min=0,
        is_deterministic=False,
    ),
    scalar(
        "TIMESTAMPADD",
        "TIMESTAMPADD(unit, count, timepoint)",
        (SYMBOL, AS_INT, DATE_LIKE),
        _added,
        refine=_added_by_unit,
    ),
    scalar(
        "TIMESTAMPDIFF",
        "TIMESTAMPDIFF(unit, timepoint1, timepoint2)",
        (SYMBOL, DATE_LIKE, DATE_LIKE),
        INT,
        refine=_difference_by_unit,
    ),
    *(scalar(name, name, (), always(t.not_null()), is_deterministic=False) for name, t in _NOW),
    scalar(
        "CURRENT_WATERMARK",
        "CURRENT_WATERMARK(rowtime)",
        (TIMESTAMP,),
        _watermark,
        is_deterministic=False,
    ),
    scalar("PROCTIME", "PROCTIME()", (), always(sql.PROCTIME), is_deterministic=False),
)
