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
from sqlstream.functions.signature import Rejects, ScalarFunction
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


EXTRACTED_OF_MONTHS = ("YEAR", "QUARTER", "MONTH", "DECADE", "CENTURY", "MILLENNIUM")
EXTRACTED_OF_DAYS = ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH")
"""Units of an INTERVAL YEAR TO MONTH and of an INTERVAL DAY TO SECOND."""


def _check_extracted(call: Call) -> None:
    units: tuple[str, ...] = EXTRACTED_UNITS
    if sql.is_interval(t := call.args[1].type):
        units = EXTRACTED_OF_MONTHS if t.root is TypeRoot.INTERVAL_YEAR_MONTH else EXTRACTED_OF_DAYS
    one_of(0, units, "of")(call)


def _clock(name: str, result: LogicalType) -> ScalarFunction:
    return scalar(name, "time.temporal:now", (), always(result.not_null()), is_deterministic=False)


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "EXTRACT(unit FROM temporal)",
        "time.temporal:extract",
        (SYMBOL, _TEMPORAL_OR_INTERVAL),
        BIGINT,
        check=_check_extracted,
    ).described("A part of a time or an interval.", "EXTRACT(HOUR FROM TIME '10:20:30')", "10"),
    scalar("YEAR(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The year of a date.", "YEAR(DATE '2020-03-04')", "2020"
    ),
    scalar("QUARTER(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The quarter of a date, 1 to 4.", "QUARTER(DATE '2020-03-04')", "1"
    ),
    scalar("MONTH(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The month of a date, 1 to 12.", "MONTH(DATE '2020-03-04')", "3"
    ),
    scalar("WEEK(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The ISO week of a date, 1 to 53.", "WEEK(DATE '2020-03-04')", "10"
    ),
    scalar("DAYOFYEAR(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The day of a date in its year, from 1.", "DAYOFYEAR(DATE '2020-03-04')", "64"
    ),
    scalar("DAYOFMONTH(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The day of a date in its month, from 1.", "DAYOFMONTH(DATE '2020-03-04')", "4"
    ),
    scalar("DAYOFWEEK(date)", "time.temporal:extract", (DATE_LIKE,), BIGINT).described(
        "The day of a date in its week, 1 for Sunday.", "DAYOFWEEK(DATE '2020-03-04')", "4"
    ),
    scalar("HOUR(timestamp)", "time.temporal:extract", (TEMPORAL,), BIGINT).described(
        "The hour of a time, 0 to 23.", "HOUR(TIMESTAMP '2020-03-04 10:20:30')", "10"
    ),
    scalar("MINUTE(timestamp)", "time.temporal:extract", (TEMPORAL,), BIGINT).described(
        "The minute of a time, 0 to 59.", "MINUTE(TIMESTAMP '2020-03-04 10:20:30')", "20"
    ),
    scalar("SECOND(timestamp)", "time.temporal:extract", (TEMPORAL,), BIGINT).described(
        "The second of a time, 0 to 59.", "SECOND(TIMESTAMP '2020-03-04 10:20:30')", "30"
    ),
    scalar(
        "DATE_FORMAT(timestamp, pattern)",
        "time.temporal:DATE_FORMAT",
        (_TIMESTAMP_OR_TEXT, TEXT),
        _formatted,
        check=_check_format,
        rejects=Rejects.PARAMETERS,
    ).described(
        "A time as text, by a pattern.",
        "DATE_FORMAT(TIMESTAMP '2020-03-04 10:20:30', 'yyyy/MM/dd')",
        "2020/03/04",
    ),
    scalar(
        "TO_TIMESTAMP(string[, pattern])",
        "time.temporal:TO_TIMESTAMP",
        (TEXT, TEXT),
        always(timestamp(3)),
        check=_check_parse,
        rejects=Rejects.PARAMETERS,
    ).described(
        "The TIMESTAMP in a text, by a pattern; NULL when the text does not match.",
        "TO_TIMESTAMP('04.03.2020', 'dd.MM.yyyy')",
        "2020-03-04 00:00:00.000",
    ),
    scalar(
        "TO_DATE(string[, pattern])",
        "time.temporal:TO_DATE",
        (TEXT, TEXT),
        always(DATE),
        check=_check_parse,
        rejects=Rejects.PARAMETERS,
    ).described("The DATE in a text, by a pattern.", "TO_DATE('2020-03-04')", "2020-03-04"),
    scalar(
        "TO_TIMESTAMP_LTZ(epoch[, precision]) or TO_TIMESTAMP_LTZ(string[, pattern[, time zone]])",
        "time.temporal:TO_TIMESTAMP_LTZ",
        (_NUMBER_OR_TEXT, _INTEGER_OR_TEXT, TEXT),
        _timestamp_ltz,
        args=(1, 3),
        refine=_as_fine_as_literal,
        check=_check_to_instant,
        rejects=Rejects.PARAMETERS,
    ).described(
        "A moment from seconds or milliseconds since 1970, or from a text.",
        "EXTRACT(EPOCH FROM TO_TIMESTAMP_LTZ(60, 0))",
        "60",
    ),
    scalar(
        "FROM_UNIXTIME(seconds[, pattern])",
        "time.temporal:FROM_UNIXTIME",
        (AS_BIGINT, TEXT),
        always(STRING),
        check=_check_format,
        rejects=Rejects.PARAMETERS,
    ).described(
        "Seconds since 1970 as text in the session's time zone, by a pattern.",
        "UNIX_TIMESTAMP(FROM_UNIXTIME(60))",
        "60",
    ),
    scalar(
        "CONVERT_TZ(string, from_zone, to_zone)",
        "time.temporal:CONVERT_TZ",
        (TEXT, TEXT, TEXT),
        always(STRING),
        check=_check_zones,
        rejects=Rejects.PARAMETERS,
    ).described(
        "A time as text in one time zone as text in another.",
        "CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')",
        "1969-12-31 16:00:00",
    ),
    scalar("CURRENT_DATABASE()", "text.characters:current_database", (), always(STRING.not_null())).described(
        "The current database of the session.", "CURRENT_DATABASE()", "default_database"
    ),
    scalar(
        "UNIX_TIMESTAMP(string[, pattern])",
        "time.temporal:UNIX_TIMESTAMP",
        (TEXT, TEXT),
        returns(BIGINT),
        args=(0, 2),
        is_deterministic=False,
        check=_check_simple_parse,
        rejects=Rejects.PARAMETERS,
    ).described(
        "Seconds since 1970 of now, or of the time in a text.",
        "UNIX_TIMESTAMP('1970-01-02 00:00:00') - UNIX_TIMESTAMP('1970-01-01 00:00:00')",
        "86400",
    ),
    scalar(
        "TIMESTAMPADD(unit, count, timepoint)",
        "time.temporal:timestamp_add",
        (SYMBOL, AS_INT, TEMPORAL),
        _added,
        refine=_added_by_unit,
        check=_check_moved,
    ).described(
        "A time moved by a number of units.", "TIMESTAMPADD(DAY, 2, DATE '2020-02-28')", "2020-03-01"
    ),
    scalar(
        "TIMESTAMPDIFF(unit, timepoint1, timepoint2)",
        "time.temporal:timestamp_diff",
        (SYMBOL, DATE_LIKE, DATE_LIKE),
        INT,
        refine=_difference_by_unit,
        check=one_of(0, MOVED_UNITS, "with unit"),
    ).described(
        "Whole units from the first time to the second.",
        "TIMESTAMPDIFF(HOUR, TIMESTAMP '2020-01-01 00:00:00', TIMESTAMP '2020-01-02 01:59:00')",
        "25",
    ),
    _clock("CURRENT_TIMESTAMP", timestamp_ltz(3)).described(
        "The moment at which the row is computed.", "CURRENT_TIMESTAMP = NOW()", "TRUE"
    ),
    _clock("CURRENT_ROW_TIMESTAMP", timestamp_ltz(3)).described(
        "The moment at which the row is computed.", "CURRENT_ROW_TIMESTAMP() = NOW()", "TRUE"
    ),
    _clock("NOW", timestamp_ltz(3)).described(
        "The moment at which the row is computed.", "NOW() = CURRENT_TIMESTAMP", "TRUE"
    ),
    _clock("LOCALTIMESTAMP", timestamp(3)).described(
        "The session's date and time at which the row is computed.",
        "CAST(LOCALTIMESTAMP AS DATE) = CURRENT_DATE",
        "TRUE",
    ),
    _clock("CURRENT_DATE", DATE).described(
        "The session's date at which the row is computed.", "CURRENT_DATE > DATE '2020-01-01'", "TRUE"
    ),
    _clock("CURRENT_TIME", sql.time(0)).described(
        "The session's time of day at which the row is computed.", "CURRENT_TIME = LOCALTIME", "TRUE"
    ),
    _clock("LOCALTIME", sql.time(0)).described(
        "The session's time of day at which the row is computed.", "LOCALTIME >= TIME '00:00:00'", "TRUE"
    ),
    scalar(
        "CURRENT_WATERMARK(rowtime)",
        "time.temporal:current_watermark",
        (TIMESTAMP,),
        _watermark,
        is_deterministic=False,
    ).described("The watermark that arrived before the row; NULL before the first."),
    scalar("PROCTIME()", "time.temporal:now", (), always(sql.PROCTIME), is_deterministic=False).described(
        "Processing time, as a time attribute of a computed column."
    ),
)

CLOCKS = frozenset(function.name for function in FUNCTIONS if not function.is_deterministic)
"""Functions that read the clock, or the watermark: a batch query has one value of each."""
