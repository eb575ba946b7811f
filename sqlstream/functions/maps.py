"""Functions of maps."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.functions.arguments import (
    ARRAY,
    TEXT,
    Argument,
    convert_each,
    is_any_nullable,
    returns,
    scalar,
)
from sqlstream.functions.arrays import has_equality
from sqlstream.functions.checks import literals
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import ScalarFunction
from sqlstream.text.regular_expressions import linear_regex
from sqlstream.types import STRING, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
_MANY = 100_000
_MAP = Argument(lambda t: t.root is TypeRoot.MAP, sql.map_of(STRING, STRING))


def _keys(types: Types) -> LogicalType | None:
    key = types[0].key
    return None if key is None else sql.array(key).with_nullable(types[0].nullable)


def _values(types: Types) -> LogicalType | None:
    value = types[0].element
    return None if value is None else sql.array(value).with_nullable(types[0].nullable)


def _entries(types: Types) -> LogicalType | None:
    key, value = types[0].key, types[0].element
    if key is None or value is None:
        return None
    entry = sql.row(("key", key), ("value", value)).not_null()
    return sql.array(entry).with_nullable(types[0].nullable)


def _of_arrays(types: Types) -> LogicalType | None:
    keys, values = types[0].element, types[1].element
    if keys is None or values is None or not has_equality(keys) or keys.root in (TypeRoot.ROW, TypeRoot.NULL):
        return None
    return sql.map_of(keys, values).with_nullable(is_any_nullable(types))


def _alike(types: Types) -> Types | None:
    shared = common_type(types)
    if shared is None or shared.root is not TypeRoot.MAP or shared.key is None:
        return None
    if not has_equality(shared.key) or shared.key.root is TypeRoot.ROW:
        return None
    return tuple(shared.with_nullable(t.nullable) for t in types)


def _merged(types: Types) -> LogicalType:
    return types[0].with_nullable(is_any_nullable(types))


def _check_delimiters(call: Call) -> None:
    """Both are regular expressions."""
    for delimiter in literals(call, 1, 2) or ():
        linear_regex(str(delimiter))


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("MAP_KEYS", "MAP_KEYS(map)", (_MAP,), _keys),
    scalar("MAP_VALUES", "MAP_VALUES(map)", (_MAP,), _values),
    scalar("MAP_ENTRIES", "MAP_ENTRIES(map)", (_MAP,), _entries),
    ScalarFunction(
        "MAP_FROM_ARRAYS", "MAP_FROM_ARRAYS(keys, values)", 2, 2, _of_arrays, convert_each(ARRAY, ARRAY)
    ),
    ScalarFunction("MAP_UNION", "MAP_UNION(map1 [, map2]*)", 1, _MANY, _merged, _alike),
    scalar(
        "STR_TO_MAP",
        "STR_TO_MAP(string[, pair_delimiter, value_delimiter])",
        (TEXT, TEXT, TEXT),
        returns(sql.map_of(STRING, STRING)),
        args_min=1,
        check=_check_delimiters,
    ),
)
