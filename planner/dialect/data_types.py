"""Data types as Flink writes them → LogicalType."""

from __future__ import annotations

from planner.dialect.tokens import Cursor, Token, TokenKind
from sqlstream import types
from sqlstream.errors import Span, UserError
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
    "INT32": "INT",
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP(3)",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(3)",
    "BLOB": "BYTES",
    "JSON": "STRING",
    "FLOAT64": "DOUBLE",
    "STRUCT": "ROW<…>",
    "UUID": "STRING",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
}
_UNIT_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


def data_type(cursor: Cursor) -> LogicalType:
    """Read a type with its suffixes: `[NOT] NULL`, and `ARRAY` or `MULTISET` after the element's type."""
    cursor.enter()
    result = _nullability(cursor, _type(cursor))
    while suffix := cursor.accept_any("ARRAY", "MULTISET"):
        wrapped = types.array(result) if suffix == "ARRAY" else types.multiset(result)
        result = _nullability(cursor, wrapped)
    cursor.leave()
    return result


def _nullability(cursor: Cursor, plain: LogicalType) -> LogicalType:
    if cursor.accept("NOT", "NULL"):
        return plain.not_null()
    cursor.accept("NULL")
    return plain


def _type(cursor: Cursor) -> LogicalType:
    token = cursor.token
    if token.kind is not TokenKind.WORD:
        raise cursor.unexpected("a data type")
    cursor.advance()
    name = token.upper
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _LENGTH:
        return _with_length(cursor, token)
    if name in ("ROW", "ARRAY", "MAP", "MULTISET"):
        return _constructed(cursor, name)
    reader = _READERS.get(name)
    if reader is not None:
        return reader(cursor)
    hint = f"use {_FOREIGN[name]}" if name in _FOREIGN else "see the data types of Flink SQL"
    raise UserError("SS1001", f'unknown data type "{token.text}"', span=token.span, hint=hint)


def _bounded(cursor: Cursor, what: str, low: int, high: int) -> int:
    token = cursor.token
    value = cursor.unsigned_integer()
    if not low <= value <= high:
        raise UserError("SS1001", f"{what} must be between {low} and {high}, not {value}", span=token.span)
    return value


def _with_length(cursor: Cursor, name: Token) -> LogicalType:
    kind = name.upper
    if kind in ("CHAR", "CHARACTER") and cursor.accept("VARYING"):
        kind = "VARCHAR"
    elif kind == "BINARY" and cursor.accept("VARYING"):
        kind = "VARBINARY"
    length = 1
    if cursor.accept("("):
        length = _bounded(cursor, f"the length of {kind}", 1, types.VARCHAR_LENGTH_MAX)
        cursor.expect(")")
    # SQL's default length is 1, also for VARCHAR: that is Flink's rule, STRING is the unbounded one.
    return _LENGTH[kind](length)


def _decimal(cursor: Cursor) -> LogicalType:
    if not cursor.accept("("):
        return types.decimal()
    precision = _bounded(cursor, "the precision of DECIMAL", 1, types.DECIMAL_PRECISION_MAX)
    scale = _bounded(cursor, "the scale of DECIMAL", 0, precision) if cursor.accept(",") else 0
    cursor.expect(")")
    return types.decimal(precision, scale)


def _double(cursor: Cursor) -> LogicalType:
    cursor.accept("PRECISION")
    return types.DOUBLE


def _precision(cursor: Cursor, what: str, default: int, high: int = 9) -> int:
    if not cursor.accept("("):
        return default
    value = _bounded(cursor, f"the precision of {what}", 0, high)
    cursor.expect(")")
    return value


def _time(cursor: Cursor) -> LogicalType:
    precision = _precision(cursor, "TIME", 0)
    if cursor.at("WITH"):
        raise cursor.unexpected("a TIME without time zone")
    if cursor.at("WITHOUT"):
        cursor.expect("WITHOUT", "TIME", "ZONE")
    return types.time(precision)


def _timestamp(cursor: Cursor) -> LogicalType:
    start = cursor.token.start
    precision = _precision(cursor, "TIMESTAMP", 6)
    if cursor.accept("WITHOUT"):
        cursor.expect("TIME", "ZONE")
    elif cursor.at("WITH", "LOCAL"):
        cursor.expect("WITH", "LOCAL", "TIME", "ZONE")
        return types.timestamp_ltz(precision)
    elif cursor.at("WITH", "TIME", "ZONE"):
        cursor.expect("WITH", "TIME", "ZONE")
        span = Span(start, cursor.previous_end)
        hint = "use TIMESTAMP_LTZ, an instant shown in the session's time zone"
        raise UserError("SS1003", "TIMESTAMP WITH TIME ZONE is not supported", span=span, hint=hint)
    return types.timestamp(precision)


def _timestamp_ltz(cursor: Cursor) -> LogicalType:
    return types.timestamp_ltz(_precision(cursor, "TIMESTAMP_LTZ", 6))


def _interval(cursor: Cursor) -> LogicalType:
    fields = []
    for _ in range(2):
        token = cursor.token
        field = cursor.accept_any(*_UNIT_FIELDS)
        if field is None:
            raise cursor.unexpected("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
        fields.append((field, token))
        _precision(cursor, field, 0)
        if not cursor.accept("TO"):
            break
    is_year_month = fields[0][0] in ("YEAR", "MONTH")
    if any((f in ("YEAR", "MONTH")) != is_year_month for f, _ in fields):
        hint = "months and days cannot be mixed: their ratio is not fixed"
        raise UserError("SS1001", "illegal interval type", span=fields[1][1].span, hint=hint)
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


def _constructed(cursor: Cursor, name: str) -> LogicalType:
    if name == "ROW" and cursor.accept("("):
        return _row(cursor, ")")
    # `ROW<>` is lexed as ROW and the not-equals sign.
    if name == "ROW" and cursor.accept("<>"):
        return types.row()
    cursor.expect("<", hint=f"write the types of its parts, such as {_EXAMPLES[name]}")
    if name == "ROW":
        return _row(cursor, ">")
    first = data_type(cursor)
    if name == "MAP":
        cursor.expect(",")
        value = data_type(cursor)
        cursor.expect(">")
        return types.map_of(first, value)
    cursor.expect(">")
    return LogicalType(TypeRoot[name], element=first)


_EXAMPLES = {
    "ROW": "ROW<a INT, b STRING>",
    "ARRAY": "ARRAY<INT>",
    "MAP": "MAP<STRING, INT>",
    "MULTISET": "MULTISET<INT>",
}


def _row(cursor: Cursor, closing: str) -> LogicalType:
    fields: list[RowField] = []
    while not cursor.accept(closing):
        if fields:
            cursor.expect(",")
        token = cursor.token
        name = cursor.name("a field name").name
        if any(f.name == name for f in fields):
            raise UserError("SS1001", f'field "{name}" is defined twice', span=token.span)
        fields.append(RowField(name, data_type(cursor)))
        # A field's comment is no part of the type's identity, so the type does not keep it.
        if cursor.token.kind is TokenKind.STRING or cursor.accept("COMMENT"):
            cursor.string("the comment in single quotes")
    return LogicalType(TypeRoot.ROW, fields=tuple(fields))
