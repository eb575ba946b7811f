"""CAST and TRY_CAST with Flink's results in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from planner.lower import tree
from planner.lower.duckdb.bound import bound
from planner.lower.duckdb.refusals import refuse
from planner.lower.duckdb.types import TEXT, TINYINT, decimal, failure, type_
from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot

_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_INTEGER = r"[+-]?[0-9]+(\.[0-9]*)?"
# Years begin with 0001.
_DATE = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")

_PLAINLY = (TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS)
_DATETIME = (TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS)


def cast(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    """`value`, of type `source`, as `target`."""
    if source.root is TypeRoot.NULL:
        return tree.cast(tree.null(), type_(target))
    if sql.is_string(target):
        return _to_text(value, source, target, time_zone)
    if source.same_as(target):
        return value
    if sql.is_string(source):
        return _from_text(value, target, time_zone, is_try)
    if TypeRoot.TIMESTAMP_LTZ in (source.root, target.root) and source.root is not target.root:
        require_utc(time_zone)
    if sql.is_timestamp(source) and sql.is_timestamp(target):
        type_(target)
        return cut_off(value, target.precision) if target.precision < source.precision else value
    if target.root is TypeRoot.BOOLEAN:
        return tree.operate(exp.NEQ, value, tree.number(0))
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(value, source, type_(target))
    if sql.is_integer(target) and source.root in (TypeRoot.DECIMAL, *sql.APPROXIMATE_ROOTS):
        return tree.cast(tree.call("trunc", value), type_(target))
    is_plain = source.root in _PLAINLY and target.root in _PLAINLY
    is_interval = sql.is_interval(source) or sql.is_interval(target)
    roots = (source.root, target.root)
    is_datetime = all(root in _DATETIME for root in roots) and TypeRoot.TIME not in roots
    if is_plain or is_interval or is_datetime:
        return tree.cast(value, type_(target))
    raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")


def require_utc(time_zone: str) -> None:
    """UserError SS3301 for another time zone, which would need DuckDB's time zone data."""
    if time_zone != "UTC":
        raise refuse(f'TIMESTAMP_LTZ in time zone "{time_zone}"', hint="SET 'table.local-time-zone' = 'UTC'")


def cut_off(value: exp.Expr, precision: int) -> exp.Expr:
    """A timestamp truncated to `precision` digits."""
    step = tree.number(10 ** (6 - precision))

    def truncated(micros: exp.Expr) -> exp.Expr:
        rest = tree.operate(exp.Mod, tree.operate(exp.Add, tree.operate(exp.Mod, micros, step), step), step)
        return tree.call("make_timestamp", tree.operate(exp.Sub, micros, rest))

    return bound(tree.call("epoch_us", value), truncated)


def _to_decimal(value: exp.Expr, source: LogicalType, target: exp.DataType) -> exp.Expr:
    """`value` as a decimal, rounded half up; NULL when it does not fit."""
    if source.root in sql.APPROXIMATE_ROOTS:
        # Through text: Java converts the shortest decimal that prints as the number.
        value = tree.cast(value, TEXT)
    elif source.root is TypeRoot.BOOLEAN:
        value = tree.cast(value, TINYINT)
    return tree.try_cast(value, target)


def _to_text(value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str) -> exp.Expr:
    is_text = sql.is_string(source)
    written = value if is_text else _written(value, source, time_zone)
    if target.length < sql.VARCHAR_LENGTH_MAX and not (is_text and source.length <= target.length):
        written = tree.call("substr", written, tree.number(1), tree.number(target.length))
    if target.root is TypeRoot.CHAR and not (source.root is TypeRoot.CHAR and source.length == target.length):
        written = tree.call("rpad", written, tree.number(target.length), tree.text(" "))
    return written


def _written(value: exp.Expr, source: LogicalType, time_zone: str) -> exp.Expr:
    if source.root is TypeRoot.DECIMAL and source.precision == source.scale < sql.DECIMAL_PRECISION_MAX:
        # DuckDB leaves out the 0 of 0.5 where the type has no digit for it.
        value = tree.cast(value, decimal(source.precision + 1, source.scale))
    if sql.is_integer(source) or source.root in (TypeRoot.DECIMAL, TypeRoot.DATE):
        return tree.cast(value, TEXT)
    if source.root is TypeRoot.BOOLEAN:
        return tree.call("upper", tree.cast(value, TEXT))
    if source.root in sql.APPROXIMATE_ROOTS:
        return bound(value, _written_float)
    if sql.is_timestamp(source):
        if source.root is TypeRoot.TIMESTAMP_LTZ:
            require_utc(time_zone)
        width = 19 + (source.precision + 1 if source.precision else 0)
        written = tree.call("strftime", value, tree.text("%Y-%m-%d %H:%M:%S.%f"))
        return tree.call("substr", written, tree.number(1), tree.number(width))
    raise refuse(f"text of {source.with_nullable(True)}")


def _written_float(value: exp.Expr) -> exp.Expr:
    # Beyond these bounds Java writes an exponent in a form of its own.
    fail = failure("text of this number has no exact counterpart in DuckDB", TEXT)
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
    return tree.case([(is_plain, tree.cast(value, TEXT))], fail)


def _from_text(value: exp.Expr, target: LogicalType, time_zone: str, is_try: bool) -> exp.Expr:
    """Read text in the usual forms only; other text is NULL with TRY_CAST and else an error, as malformed text is."""
    made = type_(target)
    if target.root is TypeRoot.TIMESTAMP_LTZ:
        require_utc(time_zone)
    otherwise = tree.null() if is_try else failure(f"cannot cast text to {made.sql(dialect='duckdb')}", made)

    def read(value: exp.Expr) -> exp.Expr:
        is_read, result = _reading(_trimmed(value), target, is_try)
        return tree.case([(tree.is_null(value), tree.null()), (is_read, result)], otherwise)

    return bound(value, read)


def _trimmed(value: exp.Expr) -> exp.Expr:
    spaces = tree.operate(exp.DPipe, *(tree.call("chr", tree.number(code)) for code in (32, 9, 10, 13)))
    return tree.call("trim", value, spaces)


def _reading(trimmed: exp.Expr, target: LogicalType, is_try: bool) -> tuple[exp.Expr, exp.Expr]:
    """Whether text can be read as `target`, and what it is then."""
    made = type_(target)
    cast = tree.try_cast if is_try else tree.cast
    if target.root is TypeRoot.BOOLEAN:
        lowered = tree.call("lower", trimmed)
        return tree.is_in(lowered, map(tree.text, _TRUE + _FALSE)), tree.is_in(lowered, map(tree.text, _TRUE))
    if sql.is_integer(target):
        whole = tree.call("regexp_replace", trimmed, tree.text("[.].*$"), tree.text(""))
        return _matches(trimmed, _INTEGER), cast(whole, made)
    if target.root is TypeRoot.DECIMAL:
        return _matches(trimmed, _NUMBER), tree.try_cast(trimmed, made)
    if sql.is_numeric(target):
        return _matches(trimmed, _NUMBER), cast(trimmed, made)
    if target.root is TypeRoot.DATE:
        return _matches(trimmed, _DATE), cast(trimmed, made)
    if sql.is_timestamp(target):
        result = cast(trimmed, made)
        if target.precision < 6:
            result = cut_off(result, target.precision)
        return _matches(trimmed, f"{_DATE}([ T]{_TIME})?"), result
    raise refuse(f"CAST of text to {target.with_nullable(True)}")


def _matches(value: exp.Expr, regex: str) -> exp.Expr:
    return tree.call("regexp_full_match", value, tree.text(regex))
