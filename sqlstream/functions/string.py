"""Functions of character strings."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.arguments import (
    AS_INT,
    MANY,
    SYMBOL,
    TEXT,
    TEXT_OR_BYTES,
    Argument,
    always,
    is_any_nullable,
    returns,
    scalar,
)
from sqlstream.functions.checks import literals, one_of, regex_at, unsupported
from sqlstream.functions.signature import Rejects, ScalarFunction
from sqlstream.types import INT, STRING, LogicalType, TypeRoot

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


def _null_with_first(types: tuple[LogicalType, ...]) -> LogicalType:
    """A text that is NULL only when the first argument is: the separator of CONCAT_WS, the text of TRANSLATE."""
    return STRING.with_nullable(types[0].nullable)


_TEXT_OR_NULL = always(STRING)
"""NULL for some arguments that are not: a negative length, a part that is not there."""


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
    scalar(
        "string1 || string2",
        "text.string:concat",
        (TEXT_OR_BYTES, TEXT_OR_BYTES),
        _concatenated,
        name="||",
        args=(2, MANY),
    ),
    scalar("CONCAT(string1, string2, ...)", "text.string:concat", (TEXT,), STRING, args=(1, MANY)).described(
        "All texts joined; NULL when one is NULL.", "CONCAT('a', 'b', 'c')", "abc"
    ),
    scalar(
        "CONCAT_WS(separator, string1, ...)",
        "text.string:concat_with_separator",
        (TEXT, TEXT),
        _null_with_first,
        args=(2, MANY),
    ).described("All texts that are not NULL, with a separator between.", "CONCAT_WS('-', 'a', 'b')", "a-b"),
    scalar("CHAR_LENGTH(string)", "text.string:char_length", (TEXT,), INT).described(
        "The number of characters.", "CHAR_LENGTH('héllo')", "5"
    ),
    scalar("CHARACTER_LENGTH(string)", "text.string:char_length", (TEXT,), INT).described(
        "The number of characters.", "CHARACTER_LENGTH('héllo')", "5"
    ),
    scalar("UPPER(string)", "text.characters:upper", (TEXT,), STRING).described(
        "The text in capitals.", "UPPER('sql')", "SQL"
    ),
    scalar("LOWER(string)", "text.characters:lower", (TEXT,), STRING).described(
        "The text in small letters.", "LOWER('SQL')", "sql"
    ),
    scalar("INITCAP(string)", "text.characters:initcap", (TEXT,), STRING).described(
        "Each word with a capital in front.", "INITCAP('flink sql')", "Flink Sql"
    ),
    scalar("REVERSE(string)", "text.string:REVERSE", (TEXT,), STRING).described(
        "The characters from last to first.", "REVERSE('abc')", "cba"
    ),
    scalar("TO_BASE64(string)", "text.string:TO_BASE64", (TEXT,), STRING).described(
        "The text's bytes in base 64.", "TO_BASE64('hello')", "aGVsbG8="
    ),
    scalar(
        "FROM_BASE64(string)", "text.string:from_base64", (TEXT,), STRING, rejects=Rejects.VALUES
    ).described("The text that base 64 encodes.", "FROM_BASE64('aGVsbG8=')", "hello"),
    scalar(
        "TRIM([BOTH | LEADING | TRAILING] [chars FROM] string)",
        "text.string:trim_from",
        (SYMBOL, TEXT, TEXT),
        STRING,
        check=one_of(0, TRIM_SIDES, "of"),
    ).described("The text without blanks, or given characters, at its ends.", "TRIM('  a ')", "a"),
    scalar("LTRIM(string[, chars])", "text.string:trim", (TEXT, TEXT), STRING).described(
        "The text without blanks, or given characters, at its start.", "LTRIM('xxa', 'x')", "a"
    ),
    scalar("RTRIM(string[, chars])", "text.string:trim", (TEXT, TEXT), STRING).described(
        "The text without blanks, or given characters, at its end.", "RTRIM('axx', 'x')", "a"
    ),
    scalar("BTRIM(string[, chars])", "text.string:trim", (TEXT, TEXT), STRING).described(
        "The text without blanks, or given characters, at both ends.", "BTRIM('xax', 'x')", "a"
    ),
    scalar(
        "SUBSTRING(string, start[, length])",
        "text.string:SUBSTRING",
        (TEXT, AS_INT, AS_INT),
        STRING,
        refine=_substring,
    ).described("A part of a text; the first character is 1.", "SUBSTRING('stream', 2, 3)", "tre"),
    scalar(
        "SUBSTR(string, start[, length])",
        "text.string:SUBSTRING",
        (TEXT, AS_INT, AS_INT),
        STRING,
        refine=_substring,
    ).described("A part of a text; the first character is 1.", "SUBSTR('stream', 4)", "eam"),
    scalar("LEFT(string, length)", "text.string:LEFT", (TEXT, AS_INT), STRING).described(
        "The first characters of a text.", "LEFT('stream', 3)", "str"
    ),
    scalar("RIGHT(string, length)", "text.string:RIGHT", (TEXT, AS_INT), STRING).described(
        "The last characters of a text.", "RIGHT('stream', 3)", "eam"
    ),
    scalar(
        "REPLACE(string, search, replacement)", "text.string:replace", (TEXT, TEXT, TEXT), STRING
    ).described("The text with each occurrence of a text replaced.", "REPLACE('a-b', '-', '+')", "a+b"),
    scalar(
        "OVERLAY(string PLACING string FROM start [FOR length])",
        "text.string:OVERLAY",
        (TEXT, TEXT, AS_INT, AS_INT),
        STRING,
        args=(3, 4),
    ).described(
        "The text with another put over a part of it.", "OVERLAY('abcd' PLACING 'X' FROM 2 FOR 2)", "aXd"
    ),
    scalar(
        "TRANSLATE(string, from, to)", "text.string:TRANSLATE", (TEXT, TEXT, TEXT), _null_with_first
    ).described("The text with characters replaced one for one.", "TRANSLATE('abc', 'ab', 'xy')", "xyc"),
    scalar(
        "LPAD(string, length, pad)",
        "text.string:LPAD",
        (TEXT, AS_INT, TEXT),
        _TEXT_OR_NULL,
        rejects=Rejects.PARAMETERS,
    ).described("The text filled up, or cut, to a length at its start.", "LPAD('7', 3, '0')", "007"),
    scalar(
        "RPAD(string, length, pad)",
        "text.string:RPAD",
        (TEXT, AS_INT, TEXT),
        _TEXT_OR_NULL,
        rejects=Rejects.PARAMETERS,
    ).described("The text filled up, or cut, to a length at its end.", "RPAD('7', 3, '0')", "700"),
    scalar(
        "REPEAT(string, times)", "text.string:REPEAT", (TEXT, AS_INT), STRING, rejects=Rejects.PARAMETERS
    ).described("The text repeated a number of times.", "REPEAT('ab', 2)", "abab"),
    scalar("POSITION(string1 IN string2)", "text.string:POSITION", (TEXT, TEXT), INT).described(
        "Where a text occurs first in another, from 1; 0 when it does not.", "POSITION('b' IN 'abc')", "2"
    ),
    scalar(
        "INSTR(string, search[, start[, appearance]])",
        "text.string:INSTR",
        (TEXT, TEXT, AS_INT, AS_INT),
        INT,
        check=_check_appearance,
        rejects=Rejects.VALUES,
    ).described(
        "The position, from 1, of the first or given occurrence of a text; 0 without one. A negative start searches backwards.",
        "INSTR('abcabc', 'c', 1, 2)",
        "6",
    ),
    scalar("LOCATE(search, string[, start])", "text.string:LOCATE", (TEXT, TEXT, AS_INT), INT).described(
        "Where a text occurs first, from 1 or a start; 0 when it does not.", "LOCATE('b', 'abcb', 3)", "4"
    ),
    scalar(
        "SPLIT_INDEX(string, delimiter, index)",
        "text.string:SPLIT_INDEX",
        (TEXT, _TEXT_OR_INTEGER, AS_INT),
        _TEXT_OR_NULL,
    ).described("One of the parts between delimiters; the first is 0.", "SPLIT_INDEX('a/b/c', '/', 1)", "b"),
    scalar(
        "REGEXP_EXTRACT(string, regex[, group])",
        "text.pattern:REGEXP_EXTRACT",
        (TEXT, TEXT, AS_INT),
        _TEXT_OR_NULL,
        check=regex_at(1, beside=2),
    ).described(
        "What a regular expression, or one of its groups, matches first.",
        "REGEXP_EXTRACT('id=42', 'id=([0-9]+)', 1)",
        "42",
    ),
    scalar(
        "REGEXP_REPLACE(string, regex, replacement)",
        "text.pattern:REGEXP_REPLACE",
        (TEXT, TEXT, TEXT),
        _TEXT_OR_NULL,
        check=regex_at(1, beside=2),
    ).described(
        "The text with each match of a regular expression replaced.",
        "REGEXP_REPLACE('a1b2', '[0-9]', '')",
        "ab",
    ),
    scalar(
        "REGEXP_COUNT(string, regex)",
        "text.pattern:REGEXP_COUNT",
        (TEXT, TEXT),
        lambda types: INT,
        check=regex_at(1),
    ).described("How often a regular expression matches.", "REGEXP_COUNT('a1b2', '[0-9]')", "2"),
    scalar("ASCII(string)", "text.string:ASCII", (TEXT,), INT).described(
        "The number of a text's first character.", "ASCII('A')", "65"
    ),
    scalar("CHR(integer)", "text.string:CHR", (AS_INT,), STRING).described(
        "The character of a number.", "CHR(65)", "A"
    ),
    scalar("HEX(integer) or HEX(string)", "text.string:HEX", (_TEXT_OR_INTEGER,), STRING).described(
        "A whole number, or the bytes of a text, in hexadecimal digits.", "HEX(255)", "FF"
    ),
    scalar("UUID()", "text.string:uuid", (), returns(STRING), is_deterministic=False).described(
        "A random UUID, a new one per row.", "CHAR_LENGTH(UUID())", "36"
    ),
)
