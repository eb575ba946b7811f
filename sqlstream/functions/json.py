"""Functions of JSON. The binder makes those with clauses (bind/expressions/json_functions.py), after the arguments here."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call, LiteralValue
from sqlstream.functions.arguments import (
    ANY,
    BOOL,
    MANY,
    SYMBOL,
    TEXT,
    Argument,
    always,
    returns,
    scalar,
)
from sqlstream.functions.checks import constant, constant_at, unsupported
from sqlstream.functions.signature import Rejects, ScalarFunction
from sqlstream.text.json_path import Path, has_mode, parse_path
from sqlstream.types import LogicalType, TypeRoot

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
    """The path of JSON_LENGTH and JSON_TYPE, which must lead to one value; None for NULL."""
    if path is None:
        return None
    if has_mode(str(path)):
        raise UserError(
            "SS3452", f"the path of {call.function} takes no lax or strict", hint="leave the mode out"
        )
    return parse_path(str(path))


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
        "text IS JSON [VALUE | SCALAR | ARRAY | OBJECT]",
        "json.extract:is_json",
        (TEXT, SYMBOL),
        sql.BOOLEAN,
        name="IS JSON",
        check=constant_at(1),
    ),
    scalar(
        "JSON_EXISTS(json, path [{TRUE | FALSE | UNKNOWN | ERROR} ON ERROR])",
        "json.extract:json_exists",
        (TEXT, TEXT, SYMBOL),
        sql.BOOLEAN,
        args=(2, 3),
        check=_check_path,
    ).described(
        "Whether a path of a JSON text leads to a value.", """JSON_EXISTS('{"a": true}', '$.a')""", "TRUE"
    ),
    scalar(
        "JSON_VALUE(json, path [RETURNING type] [{NULL | ERROR | DEFAULT value} ON EMPTY] [… ON ERROR])",
        "json.extract:json_value",
        (TEXT, TEXT, SYMBOL, ANY, SYMBOL, ANY),
        always(sql.STRING),
        args=(2, 6),
        check=_check_path,
    ).described(
        "The text, number or BOOLEAN at a path of a JSON text.",
        """JSON_VALUE('{"a": 1.50}', '$.a')""",
        "1.50",
    ),
    scalar(
        "JSON_QUERY(json, path [RETURNING type] [{WITHOUT | WITH [CONDITIONAL | UNCONDITIONAL]} [ARRAY] WRAPPER]"
        " [{NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR} ON EMPTY] [… ON ERROR])",
        "json.extract:json_query",
        (TEXT, TEXT, SYMBOL, SYMBOL, SYMBOL),
        always(sql.STRING),
        args=(2, 5),
        check=_check_path,
    ).described(
        "The object or array at a path of a JSON text.", """JSON_QUERY('{"a": [1, 2]}', '$.a')""", "[1,2]"
    ),
    scalar(
        "JSON_STRING(value)",
        "json.construct:json_string",
        (_NOT_INTERVAL,),
        returns(sql.STRING),
        check=_check_value,
    ).described("A value as JSON; NULL for NULL.", "JSON_STRING(ARRAY['a', 'b'])", '["a","b"]'),
    scalar(
        "JSON_OBJECT([KEY] key VALUE value, … [{NULL | ABSENT} ON NULL])",
        "json.construct:json_object",
        (SYMBOL, TEXT),
        always(sql.STRING.not_null()),
        args=(1, MANY),
        check=_check_names,
    ).described(
        "A JSON object of keys and values.", "JSON_OBJECT('a' VALUE 1, 'b' VALUE 'x')", '{"a":1,"b":"x"}'
    ),
    scalar(
        "JSON_ARRAY(value, … [{NULL | ABSENT} ON NULL])",
        "json.construct:json_array",
        (SYMBOL, TEXT),
        always(sql.STRING.not_null()),
        args=(1, MANY),
        check=constant_at(0),
    ).described("A JSON array of the values.", "JSON_ARRAY(1, 'x')", '[1,"x"]'),
    scalar(
        "JSON(text), inside of JSON_OBJECT or JSON_ARRAY",
        "json.construct:json_raw",
        (TEXT,),
        always(sql.STRING),
        rejects=Rejects.VALUES,
    ).described(
        "A JSON text that JSON_OBJECT or JSON_ARRAY inserts as it is.",
        "JSON_ARRAY(JSON('{\"a\": 1}'))",
        '[{"a":1}]',
    ),
    scalar("JSON_QUOTE(string)", "json.quoting:json_quote", (TEXT,), sql.STRING).described(
        "A text as a JSON string.", "JSON_QUOTE('a\"b')", '"a\\"b"'
    ),
    scalar("JSON_UNQUOTE(string)", "json.quoting:json_unquote", (TEXT,), sql.STRING).described(
        "The characters of a JSON string.", """JSON_UNQUOTE('"a"')""", "a"
    ),
    scalar(
        "JSON_LENGTH(json[, path])",
        "json.extract:json_length",
        (_JSON, TEXT),
        always(sql.INT),
        check=_check_plain_path,
    ).described("The number of elements or members at a path of a JSON text.", "JSON_LENGTH('[1, 2]')", "2"),
    scalar(
        "JSON_TYPE(json[, path])",
        "json.extract:json_type",
        (_JSON, TEXT),
        always(sql.STRING),
        check=_check_plain_path,
    ).described(
        "The kind of the value at a path of a JSON text.", """JSON_TYPE('{"a": 1}', '$.a')""", "number"
    ),
    scalar(
        "PARSE_JSON(json[, allow_duplicate_keys])",
        "json.variant:parse_json",
        (TEXT, BOOL),
        returns(sql.VARIANT),
        rejects=Rejects.VALUES,
    ).described(
        "The VARIANT of a JSON text; other text fails the job.",
        """PARSE_JSON('{"a": [7, 8]}')['a'][1]""",
        "7",
    ),
    scalar(
        "TRY_PARSE_JSON(json[, allow_duplicate_keys])",
        "json.variant:parse_json",
        (TEXT, BOOL),
        always(sql.VARIANT),
    ).described(
        "The VARIANT of a JSON text, NULL for other text.",
        """TRY_PARSE_JSON('{"b": 1, "a": 2}')""",
        '{"a":2,"b":1}',
    ),
    scalar(
        "CAST(variant AS STRING)",
        "json.variant:variant_text",
        (_JSON,),
        always(sql.STRING),
        name="VARIANT_TEXT",
    ),
    scalar("JSON_ITEMS(array)", "json.construct:json_items", (_TEXTS,), always(sql.STRING.not_null())),
    scalar(
        "JSON_MEMBER(key, value)",
        "json.construct:json_member",
        (SYMBOL, TEXT, TEXT),
        always(sql.STRING),
        args=(3, 3),
        check=constant_at(0),
        rejects=Rejects.VALUES,
    ),
    scalar(
        "JSON_MEMBERS(array)",
        "json.construct:json_members",
        (_TEXTS,),
        always(sql.STRING.not_null()),
        rejects=Rejects.VALUES,
    ),
)

JSON_REASON = "an engine reads the paths and writes the numbers and names of JSON in its own way"
"""Why no batch engine computes these functions."""

RETURNING = frozenset({
    TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS,
    TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS,
})  # fmt: skip
"""Types that JSON_VALUE returns."""
