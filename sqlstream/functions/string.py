"""Functions of character strings."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.arguments import (
    AS_INT,
    SYMBOL,
    TEXT,
    TEXT_OR_BYTES,
    Argument,
    is_any_nullable,
    returns,
    scalar,
)
from sqlstream.functions.checks import literals, one_of, regex_at, unsupported
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import INT, STRING, LogicalType, TypeRoot

_MANY = 100_000
_TEXT_OR_INTEGER = Argument(lambda t: sql.is_string(t) or sql.is_integer(t), STRING)


def _concatenated(types: tuple[LogicalType, ...]) -> LogicalType | None:
    """`||` adds the lengths; CHAR || CHAR stays CHAR."""
    if len({sql.is_string(t) for t in types}) != 1:
        return None
    length = min(sum(t.length for t in types), sql.VARCHAR_LENGTH_MAX)
    if not sql.is_string(types[0]):
        return sql.varbinary(length).with_nullable(is_any_nullable(types))
    make = sql.char if all(t.root is TypeRoot.CHAR for t in types) else sql.varchar
    return make(length).with_nullable(is_any_nullable(types))


def _separated(types: tuple[LogicalType, ...]) -> LogicalType:
    """CONCAT_WS skips NULLs, and is NULL only when the separator is NULL."""
    return STRING.with_nullable(types[0].nullable)


def _translated(types: tuple[LogicalType, ...]) -> LogicalType:
    """TRANSLATE is NULL only when the text is NULL."""
    return STRING.with_nullable(types[0].nullable)


def _padded(types: tuple[LogicalType, ...]) -> LogicalType:
    """NULL for a negative length."""
    return STRING


def _substring(result: LogicalType, args: tuple[Expression, ...]) -> LogicalType:
    """NULL for a negative length."""
    length = args[2] if len(args) == 3 else None
    is_known = length is None or (
        isinstance(length, Literal) and isinstance(length.value, int) and length.value >= 0
    )
    return result if is_known else result.with_nullable(True)


def _check_appearance(call: Call) -> None:
    found = literals(call, 3) if len(call.args) == 4 else None
    if found is not None and isinstance(found[0], int) and found[0] < 1:
        raise unsupported(call, f"with appearance {found[0]}", INSTR_HINT)


INSTR_HINT = "count appearances from 1"
TRIM_SIDES = ("BOTH", "LEADING", "TRAILING")

FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("||", "string1 || string2", (TEXT_OR_BYTES, TEXT_OR_BYTES), _concatenated, args_max=_MANY),
    scalar("CONCAT", "CONCAT(string1, string2, ...)", (TEXT,), STRING, args_max=_MANY),
    scalar("CONCAT_WS", "CONCAT_WS(separator, string1, ...)", (TEXT, TEXT), _separated, args_max=_MANY),
    scalar("CHAR_LENGTH", "CHAR_LENGTH(string)", (TEXT,), INT),
    scalar("CHARACTER_LENGTH", "CHARACTER_LENGTH(string)", (TEXT,), INT),
    *(
        scalar(name, f"{name}(string)", (TEXT,), STRING)
        for name in ("UPPER", "LOWER", "INITCAP", "REVERSE", "TO_BASE64", "FROM_BASE64")
    ),
    scalar(
        "TRIM",
        "TRIM([BOTH | LEADING | TRAILING] [chars FROM] string)",
        (SYMBOL, TEXT, TEXT),
        STRING,
        check=one_of(0, TRIM_SIDES, "of"),
    ),
    *(
        scalar(name, f"{name}(string[, chars])", (TEXT, TEXT), STRING, args_min=1)
        for name in ("LTRIM", "RTRIM", "BTRIM")
    ),
    *(
        scalar(
            name,
            f"{name}(string, start[, length])",
            (TEXT, AS_INT, AS_INT),
            STRING,
            args_min=2,
            refine=_substring,
        )
        for name in ("SUBSTRING", "SUBSTR")
    ),
    scalar("LEFT", "LEFT(string, length)", (TEXT, AS_INT), STRING),
    scalar("RIGHT", "RIGHT(string, length)", (TEXT, AS_INT), STRING),
    scalar("REPLACE", "REPLACE(string, search, replacement)", (TEXT, TEXT, TEXT), STRING),
    scalar(
        "OVERLAY",
        "OVERLAY(string PLACING string FROM start [FOR length])",
        (TEXT, TEXT, AS_INT, AS_INT),
        STRING,
        args_min=3,
    ),
    scalar("TRANSLATE", "TRANSLATE(string, from, to)", (TEXT, TEXT, TEXT), _translated),
    scalar("LPAD", "LPAD(string, length, pad)", (TEXT, AS_INT, TEXT), _padded),
    scalar("RPAD", "RPAD(string, length, pad)", (TEXT, AS_INT, TEXT), _padded),
    scalar("REPEAT", "REPEAT(string, times)", (TEXT, AS_INT), STRING),
    scalar("POSITION", "POSITION(string1 IN string2)", (TEXT, TEXT), INT),
    scalar(
        "INSTR",
        "INSTR(string, search[, start[, appearance]])",
        (TEXT, TEXT, AS_INT, AS_INT),
        INT,
        args_min=2,
        check=_check_appearance,
    ),
    scalar("LOCATE", "LOCATE(search, string[, start])", (TEXT, TEXT, AS_INT), INT, args_min=2),
    scalar(
        "SPLIT_INDEX",
        "SPLIT_INDEX(string, delimiter, index)",
        (TEXT, _TEXT_OR_INTEGER, AS_INT),
        lambda types: STRING,
    ),
    scalar(
        "REGEXP_EXTRACT",
        "REGEXP_EXTRACT(string, regex[, group])",
        (TEXT, TEXT, AS_INT),
        lambda types: STRING,
        args_min=2,
        check=regex_at(1, beside=2),
    ),
    scalar(
        "REGEXP_REPLACE",
        "REGEXP_REPLACE(string, regex, replacement)",
        (TEXT, TEXT, TEXT),
        lambda types: STRING,
        check=regex_at(1, beside=2),
    ),
    scalar(
        "REGEXP_COUNT",
        "REGEXP_COUNT(string, regex)",
        (TEXT, TEXT),
        lambda types: INT,
        check=regex_at(1),
    ),
    scalar("ASCII", "ASCII(string)", (TEXT,), INT),
    scalar("CHR", "CHR(integer)", (AS_INT,), STRING),
    scalar("HEX", "HEX(integer) or HEX(string)", (_TEXT_OR_INTEGER,), STRING),
    scalar("UUID", "UUID()", (), returns(STRING), is_deterministic=False),
)
