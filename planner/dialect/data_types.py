"""Data types as Flink writes them → LogicalType."""

from __future__ import annotations

from sqlglot import Token

from sqlstream import types
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect.reading import Reader
from sqlstream.planner.dialect.tokens import is_word, span, word
from sqlstream.types import LogicalType, RowField, TypeRoot

_PLAIN = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INT,
    "INTEGER": types.INT,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "REAL": types.FLOAT,
    "DATE": types.DATE,
    "STRING": types.STRING,
    "BYTES": types.BYTES,
    "NULL": types.NULL,
    "VARIANT": types.VARIANT,
    "BITMAP": types.BITMAP,
}
_LENGTH = {
    "CHAR": types.char,
    "CHARACTER": types.char,
    "VARCHAR": types.varchar,
    "BINARY": types.binary,
    "VARBINARY": types.varbinary,
}
_FOREIGN = {
    "TEXT": "STRING",
    "LONG": "BIGINT",
    "INT64": "BIGINT",
    "INT8": "BIGINT",
    "INT4": "INT",
    "INT2": "SMALLINT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "HUGEINT": "DECIMAL(38, 0)",
    "INT32": "INT",
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP(3)",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(3)",
    "BLOB": "BYTES",
    "JSON": "STRING",
    "FLOAT64": "DOUBLE",
    "STRUCT": "ROW<…>",
    "UUID": "STRING",
    "NUMBER": "DECIMAL(p, s)",
    "VARCHAR2": "STRING",
    "NVARCHAR": "STRING",
    "SERIAL": "BIGINT",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
}
_DEPTH_MAX = 48
"""Levels of a type: each is one of Arrow's."""
_UNIT_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


def data_type(parser: Reader) -> LogicalType:
    """Read a type with its suffixes: `[NOT] NULL`, and `ARRAY` or `MULTISET` after the element's type."""
    parser.enter(_DEPTH_MAX)
    result = _nullability(parser, _type(parser))
    while suffix := parser.accept_any("ARRAY", "MULTISET"):
        wrapped = types.array(result) if suffix == "ARRAY" else types.multiset(result)
        result = _nullability(parser, wrapped)
    parser.leave()
    return result


def _nullability(parser: Reader, plain: LogicalType) -> LogicalType:
    if parser.accept("NOT", "NULL"):
        return plain.not_null()
    # In `RETURNING INT NULL ON ERROR` it begins the clause behind the type.
    if not parser.at("NULL", "ON"):
        parser.accept("NULL")
    return plain


def _type(parser: Reader) -> LogicalType:
    token = parser.token
    if not is_word(token):
        raise parser.unexpected("a data type")
    parser.advance()
    name = word(token)
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _LENGTH:
        return _with_length(parser, token)
    if name in ("ROW", "ARRAY", "MAP", "MULTISET"):
        return _constructed(parser, name)
    reader = _READERS.get(name)
    if reader is not None:
        return reader(parser)
    hint = f"use {_FOREIGN[name]}" if name in _FOREIGN else did_you_mean(name, _names())
    hint = hint or f"the types are {', '.join(_names())}"
    raise UserError("SS1001", f'unknown data type "{token.text}"', span=span(token), hint=hint)


def _bounded(parser: Reader, what: str, low: int, high: int) -> int:
    token = parser.token
    value = parser.unsigned_integer()
    if not low <= value <= high:
        raise UserError(
            "SS1001",
            f"{what} must be between {low} and {high}, not {value}",
            span=span(token),
            hint=f"write a number from {low} to {high}",
        )
    return value


def _with_length(parser: Reader, name: Token) -> LogicalType:
    kind = word(name)
    if kind in ("CHAR", "CHARACTER") and parser.accept("VARYING"):
        kind = "VARCHAR"
    elif kind == "BINARY" and parser.accept("VARYING"):
        kind = "VARBINARY"
    if not parser.accept("("):
        # Without a length VARCHAR and VARBINARY are unbounded, CHAR and BINARY hold one.
        return _LENGTH[kind]()
    length = _bounded(parser, f"the length of {kind}", 1, types.VARCHAR_LENGTH_MAX)
    parser.expect(")")
    return _LENGTH[kind](length)


def _decimal(parser: Reader) -> LogicalType:
    if not parser.accept("("):
        return types.decimal()
    precision = _bounded(parser, "the precision of DECIMAL", 1, types.DECIMAL_PRECISION_MAX)
    scale = _bounded(parser, "the scale of DECIMAL", 0, precision) if parser.accept(",") else 0
    parser.expect(")")
    return types.decimal(precision, scale)


def _double(parser: Reader) -> LogicalType:
    parser.accept("PRECISION")
    return types.DOUBLE


def _precision(parser: Reader, what: str, default: int, high: int = 9) -> int:
    if not parser.accept("("):
        return default
    value = _bounded(parser, f"the precision of {what}", 0, high)
    parser.expect(")")
    return value


def _time(parser: Reader) -> LogicalType:
    precision = _precision(parser, "TIME", 0)
    if parser.at("WITH"):
        raise parser.unexpected("a TIME without time zone")
    if parser.at("WITHOUT"):
        parser.expect("WITHOUT", "TIME", "ZONE")
    return types.time(precision)


def _timestamp(parser: Reader) -> LogicalType:
    start = parser.token.start
    precision = _precision(parser, "TIMESTAMP", 6)
    if parser.accept("WITHOUT"):
        parser.expect("TIME", "ZONE")
    elif parser.at("WITH", "LOCAL"):
        parser.expect("WITH", "LOCAL", "TIME", "ZONE")
        return types.timestamp_ltz(precision)
    elif parser.at("WITH", "TIME", "ZONE"):
        parser.expect("WITH", "TIME", "ZONE")
        span = Span(start, parser.previous_end)
        hint = "use TIMESTAMP_LTZ, an instant shown in the session's time zone"
        raise UserError("SS1003", "TIMESTAMP WITH TIME ZONE is not supported", span=span, hint=hint)
    return types.timestamp(precision)


def _timestamp_ltz(parser: Reader) -> LogicalType:
    return types.timestamp_ltz(_precision(parser, "TIMESTAMP_LTZ", 6))


def _interval(parser: Reader) -> LogicalType:
    fields = []
    for _ in range(2):
        token = parser.token
        field = parser.accept_any(*_UNIT_FIELDS)
        if field is None:
            raise parser.unexpected("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
        fields.append((field, token))
        _precision(parser, field, 0)
        if not parser.accept("TO"):
            break
    is_year_month = fields[0][0] in ("YEAR", "MONTH")
    if any((f in ("YEAR", "MONTH")) != is_year_month for f, _ in fields):
        hint = "months and days cannot be mixed: their ratio is not fixed"
        raise UserError("SS1001", "illegal interval type", span=span(fields[1][1]), hint=hint)
    return types.INTERVAL_YEAR_MONTH if is_year_month else types.INTERVAL_DAY_TIME


_READERS = {
    "DECIMAL": _decimal,
    "DEC": _decimal,
    "NUMERIC": _decimal,
    "DOUBLE": _double,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp_ltz,
    "INTERVAL": _interval,
}


def _constructed(parser: Reader, name: str) -> LogicalType:
    if name == "ROW" and parser.accept("("):
        return _row(parser, ")")
    # `ROW<>` is lexed as ROW and the not-equals sign.
    if name == "ROW" and parser.accept("<>"):
        return types.row()
    parser.expect("<", hint=f"write the types of its parts, such as {_EXAMPLES[name]}")
    if name == "ROW":
        return _row(parser, ">")
    first = data_type(parser)
    if name == "MAP":
        parser.expect(",", hint="write the types of the keys and of the values: MAP<STRING, INT>")
        value = data_type(parser)
        parser.expect(">")
        return types.map_of(first, value)
    parser.expect(">")
    return LogicalType(TypeRoot[name], element=first)


_EXAMPLES = {
    "ROW": "ROW<a INT, b STRING>",
    "ARRAY": "ARRAY<INT>",
    "MAP": "MAP<STRING, INT>",
    "MULTISET": "MULTISET<INT>",
}


def _row(parser: Reader, closing: str) -> LogicalType:
    fields: list[RowField] = []
    while not parser.accept(closing):
        if fields:
            parser.expect(",")
        token = parser.token
        name = parser.name("a field name").name
        if any(f.name == name for f in fields):
            raise UserError("SS1001", f'field "{name}" is defined twice', span=span(token), hint="rename one")
        if parser.at(closing) or parser.at(","):
            raise parser.unexpected("a data type", "write a name and a type for each field: ROW<a INT>")
        fields.append(RowField(name, data_type(parser)))
        # A field's comment is no part of the type's identity, so the type does not keep it.
        if parser.at_string() or parser.accept("COMMENT"):
            parser.string("the comment in single quotes")
    return LogicalType(TypeRoot.ROW, fields=tuple(fields))


def is_type_name(name: str) -> bool:
    """Whether a word in upper case begins a data type."""
    return name in {*_PLAIN, *_LENGTH, *_READERS, "ARRAY", "MAP", "MULTISET", "ROW"}


def _names() -> list[str]:
    """The types that can be written, each by its shortest name."""
    return sorted(
        {*_PLAIN, *_LENGTH, *_READERS, "ARRAY", "MAP", "ROW"} - {"CHARACTER", "DEC", "INTEGER", "NULL"}
    )
