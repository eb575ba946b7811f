"""Functions of JSON. The binder makes those with clauses (bind/expressions/json_functions.py), after the arguments here."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, LiteralValue
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
from sqlstream.functions.checks import constant, constant_at, unsupported
from sqlstream.functions.signature import ScalarFunction
from sqlstream.text.json_path import MalformedPath, Path, has_mode, parse_path
from sqlstream.types import LogicalType, TypeRoot

_MANY = 100_000
_JSON = Argument(lambda t: sql.is_string(t) or t.root is TypeRoot.VARIANT, sql.STRING)
_TEXTS = Argument(
    lambda t: t.root is TypeRoot.ARRAY and t.element is not None and sql.is_string(t.element),
    sql.array(sql.STRING),
)
_NOT_INTERVAL = Argument(lambda t: not sql.is_interval(t), sql.NULL)


def _check_path(call: Call) -> None:
    """The path, and behind it the clauses, which the binder has made constants; of JSON_VALUE's defaults there may be columns."""
    path = constant(call, 1)
    if path is not None:
        parse_path(str(path.value))
    step = 2 if call.function == "JSON_VALUE" else 1
    constant_at(*range(2, len(call.args), step))(call)


def plain_path(call: Call, path: LiteralValue) -> Path | None:
    """The path of JSON_LENGTH and JSON_TYPE, which must lead to one value; None where it is malformed."""
    if path is None:
        return None
    if has_mode(str(path)):
        raise UserError(
            "SS3452", f"the path of {call.function} takes no lax or strict", hint="leave the mode out"
        )
    try:
        return parse_path(str(path))
    except MalformedPath:
        return None


def _check_plain_path(call: Call) -> None:
    path = constant(call, 1) if len(call.args) == 2 else None
    if path is not None:
        plain_path(call, path.value)


def _check_names(call: Call) -> None:
    constant_at(0, *range(1, len(call.args), 2))(call)


def _check_value(call: Call) -> None:
    _check_written(call, call.args[0].type)


def _check_written(call: Call, t: LogicalType) -> None:
    """UserError SS3102 for a type whose values have no form as JSON."""
    if t.root not in _WRITTEN and not sql.is_numeric(t) and not sql.is_timestamp(t):
        raise unsupported(call, f"of {t.with_nullable(True)}", "CAST the value to STRING")
    if t.key is not None and not sql.is_string(t.key):
        reason = f"of a MAP with keys of type {t.key.with_nullable(True)}"
        raise unsupported(call, reason, "use keys of type STRING")
    for part in (t.element, *(f.type for f in t.fields)):
        if part is not None:
            _check_written(call, part)


_WRITTEN = frozenset({
    TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME, TypeRoot.VARIANT, TypeRoot.NULL,
    *sql.STRING_ROOTS, *sql.BINARY_ROOTS, *sql.NESTED_ROOTS,
})  # fmt: skip

FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar(
        "IS JSON",
        "text IS JSON [VALUE | SCALAR | ARRAY | OBJECT]",
        (TEXT, SYMBOL),
        sql.BOOLEAN,
        check=constant_at(1),
    ),
    scalar(
        "JSON_EXISTS",
        "JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR])",
        (TEXT, TEXT, SYMBOL),
        sql.BOOLEAN,
        args_min=2,
        check=_check_path,
    ),
    scalar(
        "JSON_VALUE",
        "JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY] [… ON ERROR])",
        (TEXT, TEXT, SYMBOL, ANY, SYMBOL, ANY),
        always(sql.STRING),
        args_min=2,
        check=_check_path,
    ),
    scalar(
        "JSON_QUERY",
        "JSON_QUERY(json, path [RETURNING type] [{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} [ARRAY] WRAPPER]"
        " [{NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [… ON ERROR])",
        (TEXT, TEXT, SYMBOL, SYMBOL, SYMBOL),
        always(sql.STRING),
        args_min=2,
        check=_check_path,
    ),
    scalar("JSON_STRING", "JSON_STRING(value)", (_NOT_INTERVAL,), returns(sql.STRING), check=_check_value),
    scalar(
        "JSON_OBJECT",
        "JSON_OBJECT([KEY] key VALUE value, … [{NULL | ABSENT} ON NULL])",
        (SYMBOL, TEXT),
        always(sql.STRING.not_null()),
        args_min=1,
        args_max=_MANY,
        check=_check_names,
    ),
    scalar(
        "JSON_ARRAY",
        "JSON_ARRAY(value, … [{NULL | ABSENT} ON NULL])",
        (SYMBOL, TEXT),
        always(sql.STRING.not_null()),
        args_min=1,
        args_max=_MANY,
        check=constant_at(0),
    ),
    scalar("JSON", "JSON(text), inside of JSON_OBJECT or JSON_ARRAY", (TEXT,), always(sql.STRING)),
    scalar("JSON_QUOTE", "JSON_QUOTE(string)", (TEXT,), sql.STRING),
    scalar("JSON_UNQUOTE", "JSON_UNQUOTE(string)", (TEXT,), sql.STRING),
    scalar(
        "JSON_LENGTH",
        "JSON_LENGTH(json[, path])",
        (_JSON, TEXT),
        always(sql.INT),
        args_min=1,
        check=_check_plain_path,
    ),
    scalar(
        "JSON_TYPE",
        "JSON_TYPE(json[, path])",
        (_JSON, TEXT),
        always(sql.STRING),
        args_min=1,
        check=_check_plain_path,
    ),
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
    scalar(
        "JSON_MEMBER",
        "JSON_MEMBER(key, value)",
        (SYMBOL, TEXT, TEXT),
        always(sql.STRING),
        check=constant_at(0),
    ),
    scalar("JSON_MEMBERS", "JSON_MEMBERS(array)", (_TEXTS,), always(sql.STRING.not_null())),
)

JSON_REASON = "an engine reads the paths and writes the numbers and names of JSON in its own way"
"""Why no batch engine computes these functions."""

RETURNING = frozenset({
    TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS,
    TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS,
})  # fmt: skip
"""Types that JSON_VALUE returns."""
