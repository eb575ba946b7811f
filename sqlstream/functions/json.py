"""Functions of JSON. The binder makes those with clauses (planner/bind/json_functions.py), which follow the arguments here."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.functions.arguments import (
    ANY,
    BOOL,
    SYMBOL,
    TEXT,
    Argument,
    always,
    returns,
    scalar,
)
from sqlstream.functions.signature import ScalarFunction
from sqlstream.types import TypeRoot

_MANY = 100_000
_JSON = Argument(lambda t: sql.is_string(t) or t.root is TypeRoot.VARIANT, sql.STRING)
_TEXTS = Argument(
    lambda t: t.root is TypeRoot.ARRAY and t.element is not None and sql.is_string(t.element),
    sql.array(sql.STRING),
)
_NOT_INTERVAL = Argument(lambda t: not sql.is_interval(t), sql.NULL)

FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("IS JSON", "text IS JSON [VALUE | SCALAR | ARRAY | OBJECT]", (TEXT, SYMBOL), sql.BOOLEAN),
    scalar(
        "JSON_EXISTS",
        "JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR])",
        (TEXT, TEXT, SYMBOL),
        sql.BOOLEAN,
        args_min=2,
    ),
    scalar(
        "JSON_VALUE",
        "JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY] [… ON ERROR])",
        (TEXT, TEXT, SYMBOL, ANY, SYMBOL, ANY),
        always(sql.STRING),
        args_min=2,
    ),
    scalar(
        "JSON_QUERY",
        "JSON_QUERY(json, path [RETURNING type] [{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} [ARRAY] WRAPPER]"
        " [{NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [… ON ERROR])",
        (TEXT, TEXT, SYMBOL, SYMBOL, SYMBOL),
        always(sql.STRING),
        args_min=2,
    ),
    scalar("JSON_STRING", "JSON_STRING(value)", (_NOT_INTERVAL,), returns(sql.STRING)),
    scalar(
        "JSON_OBJECT",
        "JSON_OBJECT([KEY] key VALUE value, … [{NULL | ABSENT} ON NULL])",
        (SYMBOL, TEXT),
        always(sql.STRING.not_null()),
        args_min=1,
        args_max=_MANY,
    ),
    scalar(
        "JSON_ARRAY",
        "JSON_ARRAY(value, … [{NULL | ABSENT} ON NULL])",
        (SYMBOL, TEXT),
        always(sql.STRING.not_null()),
        args_min=1,
        args_max=_MANY,
    ),
    scalar("JSON", "JSON(text), inside of JSON_OBJECT or JSON_ARRAY", (TEXT,), always(sql.STRING)),
    scalar("JSON_QUOTE", "JSON_QUOTE(string)", (TEXT,), sql.STRING),
    scalar("JSON_UNQUOTE", "JSON_UNQUOTE(string)", (TEXT,), sql.STRING),
    scalar("JSON_LENGTH", "JSON_LENGTH(json[, path])", (_JSON, TEXT), always(sql.INT), args_min=1),
    scalar("JSON_TYPE", "JSON_TYPE(json[, path])", (_JSON, TEXT), always(sql.STRING), args_min=1),
    scalar(
        "PARSE_JSON",
        "PARSE_JSON(json[, allow_duplicate_keys])",
        (TEXT, BOOL),
        returns(sql.VARIANT),
        args_min=1,
    ),
    scalar(
        "TRY_PARSE_JSON",
        "TRY_PARSE_JSON(json[, allow_duplicate_keys])",
        (TEXT, BOOL),
        always(sql.VARIANT),
        args_min=1,
    ),
    scalar("VARIANT_TEXT", "CAST(variant AS STRING)", (_JSON,), always(sql.STRING)),
    scalar("JSON_ITEMS", "JSON_ITEMS(array)", (_TEXTS,), always(sql.STRING.not_null())),
    scalar("JSON_MEMBER", "JSON_MEMBER(key, value)", (SYMBOL, TEXT, TEXT), always(sql.STRING)),
    scalar("JSON_MEMBERS", "JSON_MEMBERS(array)", (_TEXTS,), always(sql.STRING.not_null())),
)

JSON_REASON = "an engine reads the paths and writes the numbers and names of JSON in its own way"
"""Why no batch engine computes these functions."""

RETURNING = frozenset({
    TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS,
    TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS,
})  # fmt: skip
"""Types that JSON_VALUE returns."""
