"""CAST and TRY_CAST with Flink's results in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.local_time import from_local, to_local, within_years
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.second_digits import cut_off
from sqlstream.planner.lower.duckdb.time_text import read_micros_of_day, read_timestamp
from sqlstream.planner.lower.duckdb.types import (
    BIGINT,
    DATE,
    DOUBLE,
    HUGEINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TINYINT,
    decimal,
    failure,
    type_,
)
from sqlstream.planner.lower.duckdb.wrapping import BITS, wrapped
from sqlstream.planner.lower.failed_cast import failed_cast
from sqlstream.planner.lower.java_pattern import SQL_DATE, SQL_TIME, SQL_TIMESTAMP
from sqlstream.planner.lower.wider import is_wider
from sqlstream.times import DAY_MS
from sqlstream.types import LogicalType, TypeRoot

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_FLOAT = rf"{_NUMBER}|NaN|[+-]?Infinity"
_INTEGER = r"[+-]?[0-9]+(\.[0-9]*)?"
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")

_BIGINT_DIGITS = 18
"""Every whole number of so many digits is a BIGINT."""

_FLOAT_MAX, _FLOAT_BOUND = "3.4028234663852886e38", "3.4028235677973366e38"
"""The greatest FLOAT, and the least number that is rounded to infinity."""

_NUMBERS = (TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS)
_DATETIME = (TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS)


def cast(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    """`value`, of type `source`, as `target`."""
    made = type_(target)
    if source.root is TypeRoot.NULL:
        return tree.cast(tree.null(), made)
    if sql.is_string(target):
        return _to_text(value, source, target, time_zone, is_try)
    if target.root in sql.BINARY_ROOTS:
        return _to_bytes(value, source, target)
    if source.same_as(target):
        return value
    if sql.is_string(source):
        return _from_text(value, target, time_zone, is_try)
    if source.root is target.root and (source.element is not None or source.fields):
        return _nested(value, source, target, time_zone, is_try)
    if source.root in _DATETIME and target.root in _DATETIME:
        return _between_times(value, source, target, time_zone, is_try)
    if target.root is TypeRoot.BOOLEAN:
        return tree.operate(exp.NEQ, value, tree.number(0))
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(value, source, made)
    if sql.is_integer(target) and source.root in _NUMBERS:
        return _to_integer(value, source, target)
    if (source.root, target.root) == (TypeRoot.DOUBLE, TypeRoot.FLOAT):
        return bound(value, lambda v: _narrowed(v, made))
    if source.root in _NUMBERS and target.root in _NUMBERS:
        return tree.cast(value, made)
    if sql.is_interval(source) and sql.is_integer(target):
        return _to_integer(value, sql.BIGINT, target)
    if sql.is_interval(target) and sql.is_integer(source):
        return (tree.try_cast if is_try else tree.cast)(value, made)
    raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")


def _to_integer(value: exp.Expr, source: LogicalType, target: LogicalType) -> exp.Expr:
    """Whole numbers keep their low bits, FLOAT and DOUBLE saturate, as in Java."""
    made = type_(target)
    if source.root in sql.APPROXIMATE_ROOTS:
        return bound(tree.cast(value, exp.DataType(this=exp.DType.DOUBLE)), lambda v: _saturated(v, target))
    if source.root is TypeRoot.DECIMAL:
        whole = tree.call("trunc", value)
        if target.root is TypeRoot.BIGINT or source.precision - source.scale > _BIGINT_DIGITS:
            return tree.cast(whole, made)
        return wrapped(whole, target.root)
    if BITS.get(source.root, 0) <= BITS[target.root]:
        return tree.cast(value, made)
    return wrapped(value, target.root)


def _saturated(value: exp.Expr, target: LogicalType) -> exp.Expr:
    """NaN becomes 0, too large a value the largest INT or BIGINT; narrower types take the low bits of that."""
    is_long = target.root is TypeRoot.BIGINT
    bits = 64 if is_long else 32
    least, greatest = tree.number(-(2 ** (bits - 1))), tree.number(2 ** (bits - 1) - 1)
    wide = BIGINT
    whole = tree.case(
        [
            (tree.call("isnan", value), tree.cast(tree.number(0), wide)),
            (tree.operate(exp.GTE, value, tree.cast(greatest, DOUBLE)), tree.cast(greatest, wide)),
            (tree.operate(exp.LTE, value, tree.cast(least, DOUBLE)), tree.cast(least, wide)),
        ],
        tree.cast(tree.call("trunc", value), wide),
    )
    return whole if is_long else wrapped(whole, target.root)


def _narrowed(value: exp.Expr, made: exp.DataType) -> exp.Expr:
    """A DOUBLE as FLOAT; DuckDB fails where it is beyond the greatest one, instead of rounding to that or to infinity."""
    size = tree.call("abs", value)
    sign = tree.call("sign", value)

    def signed(size: str) -> exp.Expr:
        return tree.cast(tree.operate(exp.Mul, sign, tree.cast(tree.text(size), DOUBLE)), made)

    is_infinite = tree.operate(exp.GTE, size, tree.cast(tree.text(_FLOAT_BOUND), DOUBLE))
    is_beyond = tree.operate(exp.GT, size, tree.cast(tree.text(_FLOAT_MAX), DOUBLE))
    return tree.case(
        [
            (tree.call("isnan", value), tree.cast(value, made)),
            (is_infinite, signed("Infinity")),
            (is_beyond, signed(_FLOAT_MAX)),
        ],
        tree.cast(value, made),
    )


def _to_bytes(value: exp.Expr, source: LogicalType, target: LogicalType) -> exp.Expr:
    data = tree.call("encode", value) if sql.is_string(source) else value
    is_cut = target.length < sql.VARCHAR_LENGTH_MAX and not source.same_as(target)
    if is_cut or target.root is TypeRoot.BINARY:
        raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")
    return data


def _nested(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, is_try: bool
) -> exp.Expr:
    """Element by element."""
    what = f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}"
    if is_try:
        raise refuse(f"TRY_{what}")
    if source.root is TypeRoot.ROW:
        fields = [
            cast(
                tree.call("struct_extract", value, tree.text(s.name)), s.type, t.type, time_zone, is_try=False
            )
            for s, t in zip(source.fields, target.fields, strict=True)
        ]
        made = tree.cast(tree.call("row", *fields), type_(target))
        return tree.case([(tree.is_not_null(value), made)])
    if source.root is TypeRoot.MAP and is_wider(source, target):
        return tree.cast(value, type_(target))
    if source.root is not TypeRoot.ARRAY or source.element is None or target.element is None:
        raise refuse(what)
    element, wanted = source.element, target.element
    if element.element is not None or element.fields:
        raise refuse(what)
    body = cast(tree.column("p"), element, wanted, time_zone, is_try=False)
    each = exp.Lambda(this=body, expressions=[exp.to_identifier("p")])
    return tree.cast(tree.call("list_transform", value, each), type_(target))


def _between_times(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, is_try: bool
) -> exp.Expr:
    if source.root is TypeRoot.TIME and target.root is TypeRoot.TIME:
        return _time_cut_off(tree.call("epoch_ms", value), target.precision)
    if source.root is TypeRoot.TIME:
        if target.root is not TypeRoot.TIMESTAMP:
            raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")
        micros = tree.operate(exp.Mul, tree.call("epoch_ms", value), tree.number(1000))
        return cut_off(tree.call("make_timestamp", micros), target.precision)
    if source.root is target.root:
        return cut_off(value, target.precision) if target.precision < source.precision else value
    local = to_local(value, time_zone) if source.root is TypeRoot.TIMESTAMP_LTZ else value
    if source.root is TypeRoot.DATE:
        local = tree.cast(local, TIMESTAMP)
    if target.root is TypeRoot.DATE:
        return tree.cast(local, DATE)
    if target.root is TypeRoot.TIME:
        of_day = tree.call("epoch_ms", tree.cast(cut_off(local, 3), TIME))
        return _time_cut_off(of_day, target.precision)
    local = cut_off(local, target.precision) if target.precision < source.precision else local
    if target.root is not TypeRoot.TIMESTAMP_LTZ or time_zone == "UTC":
        return local
    return within_years(from_local(local, time_zone), is_required=not is_try)


def _time_cut_off(milliseconds: exp.Expr, precision: int) -> exp.Expr:
    """A TIME of this precision. Flink's TIME keeps milliseconds whatever its precision; text is cut off to it."""
    micros = tree.call("to_microseconds", tree.operate(exp.Mul, milliseconds, tree.number(1000)))
    return tree.operate(exp.Add, tree.cast(tree.text("00:00:00"), TIME), micros)


def _to_decimal(value: exp.Expr, source: LogicalType, target: exp.DataType) -> exp.Expr:
    """`value` as a decimal, rounded half up; NULL when it does not fit."""
    if source.root in sql.APPROXIMATE_ROOTS:
        # Through text: Java converts the shortest decimal that prints as the number.
        value = tree.cast(value, TEXT)
    elif source.root is TypeRoot.BOOLEAN:
        value = tree.cast(value, TINYINT)
    return tree.try_cast(value, target)


def _to_text(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, is_try: bool
) -> exp.Expr:
    is_text = sql.is_string(source)
    written = value if is_text else _written(value, source, time_zone, is_try)
    if target.length < sql.VARCHAR_LENGTH_MAX and not (is_text and source.length <= target.length):
        written = tree.call("substr", written, tree.number(1), tree.number(target.length))
    if target.root is TypeRoot.CHAR and not (source.root is TypeRoot.CHAR and source.length == target.length):
        written = tree.call("rpad", written, tree.number(target.length), tree.text(" "))
    return written


def _written(value: exp.Expr, source: LogicalType, time_zone: str, is_try: bool) -> exp.Expr:
    if source.root is TypeRoot.DECIMAL and source.precision == source.scale < sql.DECIMAL_PRECISION_MAX:
        # DuckDB leaves out the 0 of 0.5 where the type has no digit for it.
        value = tree.cast(value, decimal(source.precision + 1, source.scale))
    if sql.is_integer(source) or source.root in (TypeRoot.DECIMAL, TypeRoot.DATE):
        return tree.cast(value, TEXT)
    if source.root is TypeRoot.BOOLEAN:
        return tree.call("upper", tree.cast(value, TEXT))
    if source.root is TypeRoot.DOUBLE:
        return bound(value, _written_double)
    if source.root is TypeRoot.FLOAT:
        # DuckDB writes more digits than it takes.
        raise refuse("text of FLOAT", hint="CAST it to DOUBLE first")
    if source.root in sql.BINARY_ROOTS:
        return tree.call("try", tree.call("decode", value)) if is_try else tree.call("decode", value)
    if sql.is_timestamp(source):
        local = to_local(value, time_zone) if source.root is TypeRoot.TIMESTAMP_LTZ else value
        return _written_digits(local, "%Y-%m-%d %H:%M:%S", source.precision)
    if source.root is TypeRoot.TIME:
        micros = tree.operate(exp.Mul, tree.call("epoch_ms", value), tree.number(1000))
        return _written_digits(tree.call("make_timestamp", micros), "%H:%M:%S", source.precision)
    if source.root is TypeRoot.INTERVAL_DAY_TIME:
        return bound(value, _written_day_time)
    if source.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return bound(value, _written_year_month)
    raise refuse(f"text of {source.with_nullable(True)}")


def _written_digits(point: exp.Expr, pattern: str, precision: int) -> exp.Expr:
    """A point in time, cut off to the digits of its type."""
    if not precision:
        return tree.call("strftime", point, tree.text(pattern))
    written = tree.call("strftime", point, tree.text(f"{pattern}.%f"))
    return tree.call("substr", written, tree.number(1), _less(tree.call("length", written), 6 - precision))


def _less(value: exp.Expr, amount: int) -> exp.Expr:
    return tree.operate(exp.Sub, value, tree.number(amount))


def _sign(value: exp.Expr) -> exp.Expr:
    return tree.case([(tree.operate(exp.LT, value, tree.number(0)), tree.text("-"))], tree.text("+"))


def _written_day_time(value: exp.Expr) -> exp.Expr:
    """+1 02:03:04.005"""
    size = tree.call("abs", tree.cast(value, HUGEINT))
    days = tree.operate(exp.IntDiv, size, tree.number(DAY_MS))
    of_day = tree.cast(tree.operate(exp.Mod, size, tree.number(DAY_MS)), BIGINT)
    moment = tree.call("make_timestamp", tree.operate(exp.Mul, of_day, tree.number(1000)))
    clock = _written_digits(moment, "%H:%M:%S", 3)
    text = tree.operate(exp.DPipe, _sign(value), tree.cast(days, TEXT), tree.text(" "), clock)
    return tree.case([(tree.is_not_null(value), text)])


def _written_year_month(value: exp.Expr) -> exp.Expr:
    """+1-02"""
    size, year = tree.call("abs", tree.cast(value, BIGINT)), tree.number(12)
    months = tree.call(
        "lpad", tree.cast(tree.operate(exp.Mod, size, year), TEXT), tree.number(2), tree.text("0")
    )
    years = tree.cast(tree.operate(exp.IntDiv, size, year), TEXT)
    text = tree.operate(exp.DPipe, _sign(value), years, tree.text("-"), months)
    return tree.case([(tree.is_not_null(value), text)])


def _written_double(value: exp.Expr) -> exp.Expr:
    size = tree.call("abs", value)
    is_plain = tree.any_of(
        [
            tree.is_null(value),
            tree.operate(exp.EQ, value, tree.number(0)),
            tree.all_of(
                [
                    tree.operate(exp.GTE, size, tree.number("0.001")),
                    tree.operate(exp.LT, size, tree.number(10_000_000)),
                ]
            ),
        ]
    )
    special = [
        (tree.call("isnan", value), tree.text("NaN")),
        (tree.call("isinf", value), tree.operate(exp.DPipe, _minus(value), tree.text("Infinity"))),
    ]
    return tree.case(
        [(is_plain, tree.cast(value, TEXT)), *special],
        tree.operate(exp.DPipe, _minus(value), bound(tree.cast(size, TEXT), _with_exponent)),
    )


def _minus(value: exp.Expr) -> exp.Expr:
    return tree.case([(tree.operate(exp.LT, value, tree.number(0)), tree.text("-"))], tree.text(""))


def _with_exponent(written: exp.Expr) -> exp.Expr:
    """A positive number as Java writes the small and the large ones: 1.25E-7. DuckDB has the same digits in other forms."""
    zero, one = tree.text("0"), tree.number(1)
    mantissa = tree.call("split_part", written, tree.text("e"), one)
    exponent = tree.try_cast(tree.call("split_part", written, tree.text("e"), tree.number(2)), BIGINT)
    whole = tree.call("split_part", mantissa, tree.text("."), one)

    def joined(significant: exp.Expr) -> exp.Expr:
        """`significant`: the digits from the first that is no zero on."""
        digits = tree.call("rtrim", significant, zero)
        # Of texts: what is there comes behind "0", unless it is empty.
        behind = tree.call("greatest", tree.call("substr", digits, tree.number(2)), zero)
        zeros = tree.operate(
            exp.Sub,
            tree.call("length", tree.call("replace", mantissa, tree.text("."), tree.text(""))),
            tree.call("length", significant),
        )
        shift = tree.operate(exp.Sub, tree.operate(exp.Sub, tree.call("length", whole), zeros), one)
        power = tree.operate(exp.Add, tree.call("coalesce", exponent, tree.number(0)), shift)
        first = tree.call("substr", digits, one, one)
        return tree.operate(exp.DPipe, first, tree.text("."), behind, tree.text("E"), tree.cast(power, TEXT))

    all_digits = tree.call("replace", mantissa, tree.text("."), tree.text(""))
    return bound(tree.call("ltrim", all_digits, zero), joined)


def _from_text(value: exp.Expr, target: LogicalType, time_zone: str, is_try: bool) -> exp.Expr:
    """What cannot be read is NULL with TRY_CAST, and else an error."""
    made = type_(target)

    def read(value: exp.Expr) -> exp.Expr:
        fail = failure(failed_cast(value, target), made)
        if target.root in _DATETIME:
            point = _read_time(value, target, time_zone)
            return point if is_try else bound(point, lambda p: _unless_lost(value, p, fail))
        is_read, result = _reading(_trimmed(value), target, is_try)
        if not is_try and sql.is_integer(target):
            # A number of too many digits.
            result = tree.call("coalesce", result, fail)
        otherwise = tree.null() if is_try else fail
        return tree.case([(tree.is_null(value), tree.null()), (is_read, result)], otherwise)

    return bound(value, read)


def _unless_lost(value: exp.Expr, result: exp.Expr, fail: exp.Expr) -> exp.Expr:
    is_lost = tree.all_of([tree.is_not_null(value), tree.is_null(result)])
    return tree.case([(is_lost, fail)], result)


def _read_time(value: exp.Expr, target: LogicalType, time_zone: str) -> exp.Expr:
    """NULL for text that is none."""
    if target.root is TypeRoot.DATE:
        return tree.cast(read_timestamp(value, SQL_DATE), DATE)
    if target.root is TypeRoot.TIME:
        step = 10 ** (6 - min(target.precision, 3))
        micros = read_micros_of_day(value, SQL_TIME)
        whole = tree.operate(
            exp.Mul, tree.operate(exp.IntDiv, micros, tree.number(step)), tree.number(step // 1000)
        )
        return _time_cut_off(whole, target.precision)
    local = read_timestamp(value, SQL_TIMESTAMP)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        local = within_years(from_local(local, time_zone), is_required=False)
    return cut_off(local, target.precision)


def _trimmed(value: exp.Expr) -> exp.Expr:
    spaces = tree.operate(exp.DPipe, *(tree.call("chr", tree.number(code)) for code in (32, 9, 10, 13)))
    return tree.call("trim", value, spaces)


def _reading(trimmed: exp.Expr, target: LogicalType, is_try: bool) -> tuple[exp.Expr, exp.Expr]:
    """Whether text can be read as `target`, and what it is then."""
    made = type_(target)
    if target.root is TypeRoot.BOOLEAN:
        lowered = tree.call("lower", trimmed)
        return tree.is_in(lowered, map(tree.text, _TRUE + _FALSE)), tree.is_in(lowered, map(tree.text, _TRUE))
    if sql.is_integer(target):
        whole = tree.call("regexp_replace", trimmed, tree.text("[.].*$"), tree.text(""))
        return _matches(trimmed, _INTEGER), tree.try_cast(whole, made)
    if target.root is TypeRoot.DECIMAL:
        return _matches(trimmed, _NUMBER), tree.try_cast(trimmed, made)
    if sql.is_numeric(target):
        cast = tree.try_cast if is_try else tree.cast
        return _matches(trimmed, _FLOAT), cast(trimmed, made)
    raise refuse(f"CAST of text to {target.with_nullable(True)}")


def _matches(value: exp.Expr, regex: str) -> exp.Expr:
    return tree.call("regexp_full_match", value, tree.text(regex))
