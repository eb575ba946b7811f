"""CAST and TRY_CAST with Flink's results, as DuckDB SQL."""

from __future__ import annotations

from planner.lower.duckdb_types import text, type_name
from planner.lower.refusals import refuse
from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_INTEGER = r"[+-]?[0-9]+(\.[0-9]*)?"
# Years begin with 0001.
_DATE = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_SPACES = r"chr(32) || chr(9) || chr(10) || chr(13)"


def cast(value: str, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool) -> str:
    """`value`, SQL of type `source`, as `target`."""
    name = type_name(target)
    if source.root is TypeRoot.NULL:
        return f"CAST(NULL AS {name})"
    if sql.is_string(target):
        return _to_text(value, source, target, time_zone)
    if source.same_as(target):
        return value
    if sql.is_string(source):
        return _from_text(value, target, time_zone, is_try)
    if TypeRoot.TIMESTAMP_LTZ in (source.root, target.root) and source.root is not target.root:
        require_utc(time_zone)
    if sql.is_timestamp(source) and sql.is_timestamp(target):
        return cut_off(value, target.precision) if target.precision < source.precision else value
    if target.root is TypeRoot.BOOLEAN:
        return f"({value} <> 0)"
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(value, source, name)
    if sql.is_integer(target) and source.root in (TypeRoot.DECIMAL, *sql.APPROXIMATE_ROOTS):
        return f"CAST(trunc({value}) AS {name})"
    if source.root in _PLAINLY and target.root in _PLAINLY:
        return f"CAST({value} AS {name})"
    if sql.is_interval(source) or sql.is_interval(target):
        return f"CAST({value} AS {name})"
    if (
        source.root in _DATETIME
        and target.root in _DATETIME
        and TypeRoot.TIME not in (source.root, target.root)
    ):
        return f"CAST({value} AS {name})"
    raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")


_PLAINLY = (TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS)
_DATETIME = (TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS)


def require_utc(time_zone: str) -> None:
    """UserError SS3301 for another time zone, which would need DuckDB's time zone data."""
    if time_zone != "UTC":
        raise refuse(f'TIMESTAMP_LTZ in time zone "{time_zone}"', hint="SET 'table.local-time-zone' = 'UTC'")


def cut_off(value: str, precision: int) -> str:
    """A timestamp truncated to `precision` digits."""
    step = 10 ** (6 - precision)
    micros = f"epoch_us({value})"
    return f"make_timestamp({micros} - (({micros} % {step}) + {step}) % {step})"


def _to_decimal(value: str, source: LogicalType, name: str) -> str:
    """`value` as a decimal, rounded half up; NULL when it does not fit."""
    if source.root in sql.APPROXIMATE_ROOTS:
        # Through text: Java converts the shortest decimal that prints as the number.
        return f"TRY_CAST(CAST({value} AS VARCHAR) AS {name})"
    if source.root is TypeRoot.BOOLEAN:
        value = f"CAST({value} AS TINYINT)"
    return f"TRY_CAST({value} AS {name})"


def _to_text(value: str, source: LogicalType, target: LogicalType, time_zone: str) -> str:
    written = value if sql.is_string(source) else _written(value, source, time_zone)
    if target.length < sql.VARCHAR_LENGTH_MAX and not (
        sql.is_string(source) and source.length <= target.length
    ):
        written = f"substr({written}, 1, {target.length})"
    if target.root is TypeRoot.CHAR and not (source.root is TypeRoot.CHAR and source.length == target.length):
        written = f"rpad({written}, {target.length}, ' ')"
    return written


def _written(value: str, source: LogicalType, time_zone: str) -> str:
    if source.root is TypeRoot.DECIMAL and source.precision == source.scale < sql.DECIMAL_PRECISION_MAX:
        # DuckDB leaves out the 0 of 0.5 where the type has no digit for it.
        value = f"CAST({value} AS DECIMAL({source.precision + 1}, {source.scale}))"
    if sql.is_integer(source) or source.root in (TypeRoot.DECIMAL, TypeRoot.DATE):
        return f"CAST({value} AS VARCHAR)"
    if source.root is TypeRoot.BOOLEAN:
        return f"upper(CAST({value} AS VARCHAR))"
    if source.root in sql.APPROXIMATE_ROOTS:
        # Beyond these bounds Java writes an exponent in a form of its own.
        fail = "CAST(error('text of this number has no exact counterpart in DuckDB') AS VARCHAR)"
        is_plain = f"{value} = 0 OR (abs({value}) >= 0.001 AND abs({value}) < 10000000)"
        return f"CASE WHEN {value} IS NULL OR {is_plain} THEN CAST({value} AS VARCHAR) ELSE {fail} END"
    if sql.is_timestamp(source):
        if source.root is TypeRoot.TIMESTAMP_LTZ:
            require_utc(time_zone)
        width = 19 + (source.precision + 1 if source.precision else 0)
        return f"substr(strftime({value}, '%Y-%m-%d %H:%M:%S.%f'), 1, {width})"
    raise refuse(f"text of {source.with_nullable(True)}")


def _from_text(value: str, target: LogicalType, time_zone: str, is_try: bool) -> str:
    """Read text in the usual forms only; other text is NULL with TRY_CAST and else an error, as malformed text is."""
    trimmed, name = f"trim({value}, {_SPACES})", type_name(target)
    if target.root is TypeRoot.BOOLEAN:
        lowered = f"lower({trimmed})"
        is_read = f"{lowered} IN ('t', 'true', 'y', 'yes', '1', 'f', 'false', 'n', 'no', '0')"
        read = f"{lowered} IN ('t', 'true', 'y', 'yes', '1')"
        return _guarded(value, is_read, read, name, is_try)
    if sql.is_integer(target):
        read, regex = f"regexp_replace({trimmed}, '[.].*$', '')", _INTEGER
    elif sql.is_numeric(target):
        read, regex = trimmed, _NUMBER
        if target.root is TypeRoot.DECIMAL:
            return _guarded(value, _matches(trimmed, regex), f"TRY_CAST({read} AS {name})", name, is_try)
    elif target.root is TypeRoot.DATE:
        read, regex = trimmed, _DATE
    elif sql.is_timestamp(target):
        if target.root is TypeRoot.TIMESTAMP_LTZ:
            require_utc(time_zone)
        read, regex = trimmed, f"{_DATE}([ T]{_TIME})?"
    else:
        raise refuse(f"CAST of text to {target.with_nullable(True)}")
    function = "TRY_CAST" if is_try else "CAST"
    result = f"{function}({read} AS {name})"
    if sql.is_timestamp(target) and target.precision < 6:
        result = cut_off(result, target.precision)
    return _guarded(value, _matches(trimmed, regex), result, name, is_try)


def _matches(value: str, regex: str) -> str:
    return f"regexp_full_match({value}, {text(regex)})"


def _guarded(value: str, condition: str, read: str, name: str, is_try: bool) -> str:
    otherwise = "NULL" if is_try else f"CAST(error('cannot cast text to {name}') AS {name})"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {condition} THEN {read} ELSE {otherwise} END"
