"""Functions of dates, times, timestamps and the clock."""

from __future__ import annotations

import re

import msgspec

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.arguments import (
    AS_BIGINT,
    AS_INT,
    DATE_LIKE,
    SYMBOL,
    TEMPORAL,
    TEXT,
    TIMESTAMP,
    Argument,
    always,
    is_any_nullable,
    returns,
    scalar,
)
from sqlstream.functions.checks import one_of, parameters, unsupported
from sqlstream.functions.signature import ScalarFunction
from sqlstream.text.date_pattern import format_tokens, parse_tokens
from sqlstream.times import UNIT_MONTHS, UNIT_MS, UNIT_NS, time_zone_of
from sqlstream.types import BIGINT, DATE, INT, STRING, LogicalType, TypeRoot, timestamp, timestamp_ltz

Types = tuple[LogicalType, ...]

_TIMESTAMP_OR_TEXT = Argument(
    lambda t: sql.is_timestamp(t) or sql.is_string(t) or t.root is TypeRoot.DATE, timestamp(3)
)
_TEMPORAL_OR_INTERVAL = Argument(lambda t: TEMPORAL.accepts(t) or sql.is_interval(t), timestamp(3))
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


EXTRACTED_UNITS = (
    *(
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DOY",
        "DAY",
        "DOW",
        "ISODOW",
        "ISOYEAR",
        "HOUR",
        "MINUTE",
        "SECOND",
    ),
    *("MILLISECOND", "MICROSECOND", "NANOSECOND", "DECADE", "CENTURY", "MILLENNIUM", "EPOCH"),
)
MOVED_UNITS = (*UNIT_MONTHS, *UNIT_MS, *UNIT_NS)
"""Units of TIMESTAMPADD and TIMESTAMPDIFF."""
EPOCH_DIGITS_MAX = 9


def _check_moved(call: Call) -> None:
    """A time of day is moved within its day, by units that it has digits for: the binder adds an interval then."""
    one_of(0, MOVED_UNITS, "with unit")(call)
    if call.type.root is TypeRoot.TIME and (unit := _unit_of(call.args)) not in UNIT_MS:
        hint = "use a unit from MILLISECOND to WEEK, or CAST the TIME to a TIMESTAMP"
        raise unsupported(call, f"with unit {unit} of a TIME", hint)


def writes_zone(call: Call) -> bool:
    """Whether the times that DATE_FORMAT or FROM_UNIXTIME writes are those of the session's time zone."""
    return call.function == "FROM_UNIXTIME" or call.args[0].type.root is TypeRoot.TIMESTAMP_LTZ


def _check_format(call: Call) -> None:
    for pattern in parameters(call) or ():
        if pattern is not None:
            format_tokens(str(pattern), has_zone=writes_zone(call))


def _check_parse(call: Call) -> None:
    for pattern in parameters(call) or ():
        if pattern is not None:
            parse_tokens(str(pattern))


def _check_simple_parse(call: Call) -> None:
    """Of UNIX_TIMESTAMP, which reads text by a SimpleDateFormat."""
    for pattern in parameters(call) or ():
        if pattern is not None:
            parse_tokens(str(pattern), is_simple=True)


def _check_to_instant(call: Call) -> None:
    """TO_TIMESTAMP_LTZ: the digits of an epoch, or the pattern and the time zone of a text."""
    first, zone = (*(parameters(call) or ()), None, None)[:2]
    if isinstance(first, int):
        check_epoch_digits(call, first)
    elif first is not None:
        parse_tokens(str(first))
        if zone is not None:
            time_zone_of(str(zone))


def check_epoch_digits(call: Call, digits: int) -> None:
    """UserError SS3102 for a count of fractions of a second that are finer than nanoseconds, or coarser than seconds."""
    if not 0 <= digits <= EPOCH_DIGITS_MAX:
        hint = f"use a precision from 0 to {EPOCH_DIGITS_MAX}"
        raise unsupported(call, f"with precision {digits}", hint)


def _check_zones(call: Call) -> None:
    zones = parameters(call) or ()
    if None not in zones:
        for zone in zones:
            time_zone_of(str(zone))


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

EXTRACTED_OF_MONTHS = ("YEAR", "QUARTER", "MONTH", "DECADE", "CENTURY", "MILLENNIUM")
EXTRACTED_OF_DAYS = ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH")
"""Units of an INTERVAL YEAR TO MONTH and of an INTERVAL DAY TO SECOND."""


def _check_extracted(call: Call) -> None:
    units: tuple[str, ...] = EXTRACTED_UNITS
    if sql.is_interval(t := call.args[1].type):
        units = EXTRACTED_OF_MONTHS if t.root is TypeRoot.INTERVAL_YEAR_MONTH else EXTRACTED_OF_DAYS
    one_of(0, units, "of")(call)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "EXTRACT",
        "EXTRACT(unit FROM temporal)",
        (SYMBOL, _TEMPORAL_OR_INTERVAL),
        BIGINT,
        check=_check_extracted,
    ),
    *(scalar(name, f"{name}(date)", (DATE_LIKE,), BIGINT) for name in _PARTS),
    *(scalar(name, f"{name}(timestamp)", (TEMPORAL,), BIGINT) for name in ("HOUR", "MINUTE", "SECOND")),
    scalar(
        "DATE_FORMAT",
        "DATE_FORMAT(timestamp, pattern)",
        (_TIMESTAMP_OR_TEXT, TEXT),
        _formatted,
        check=_check_format,
    ),
    scalar(
        "TO_TIMESTAMP",
        "TO_TIMESTAMP(string[, pattern])",
        (TEXT, TEXT),
        always(timestamp(3)),
        args_min=1,
        check=_check_parse,
    ),
    scalar(
        "TO_DATE", "TO_DATE(string[, pattern])", (TEXT, TEXT), always(DATE), args_min=1, check=_check_parse
    ),
    scalar(
        "TO_TIMESTAMP_LTZ",
        "TO_TIMESTAMP_LTZ(epoch[, precision]) or TO_TIMESTAMP_LTZ(string[, pattern[, time zone]])",
        (_NUMBER_OR_TEXT, _INTEGER_OR_TEXT, TEXT),
        _timestamp_ltz,
        args_min=1,
        refine=_as_fine_as_literal,
        check=_check_to_instant,
    ),
    scalar(
        "FROM_UNIXTIME",
        "FROM_UNIXTIME(seconds[, pattern])",
        (AS_BIGINT, TEXT),
        always(STRING),
        args_min=1,
        check=_check_format,
    ),
    scalar(
        "CONVERT_TZ",
        "CONVERT_TZ(string, from_zone, to_zone)",
        (TEXT, TEXT, TEXT),
        always(STRING),
        check=_check_zones,
    ),
    scalar("CURRENT_DATABASE", "CURRENT_DATABASE()", (), always(STRING.not_null())),
    scalar(
        "UNIX_TIMESTAMP",
        "UNIX_TIMESTAMP(string[, pattern])",
        (TEXT, TEXT),
        returns(BIGINT),
        args_min=0,
        is_deterministic=False,
        check=_check_simple_parse,
    ),
    scalar(
        "TIMESTAMPADD",
        "TIMESTAMPADD(unit, count, timepoint)",
        (SYMBOL, AS_INT, TEMPORAL),
        _added,
        refine=_added_by_unit,
        check=_check_moved,
    ),
    scalar(
        "TIMESTAMPDIFF",
        "TIMESTAMPDIFF(unit, timepoint1, timepoint2)",
        (SYMBOL, DATE_LIKE, DATE_LIKE),
        INT,
        refine=_difference_by_unit,
        check=one_of(0, MOVED_UNITS, "with unit"),
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
