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
from sqlstream.functions.signature import Rejects, ScalarFunction
from sqlstream.text.regular_expressions import linear_regex
from sqlstream.types import STRING, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
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
    scalar("MAP_KEYS(map)", "maps:MAP_KEYS", (_MAP,), _keys).described(
        "The keys of a map.", "MAP_KEYS(MAP['a', 1])", "[a]"
    ),
    scalar("MAP_VALUES(map)", "maps:MAP_VALUES", (_MAP,), _values).described(
        "The values of a map.", "MAP_VALUES(MAP['a', 1])", "[1]"
    ),
    scalar("MAP_ENTRIES(map)", "maps:MAP_ENTRIES", (_MAP,), _entries).described(
        "The entries of a map as rows of key and value.", "MAP_ENTRIES(MAP['a', 1])", "[(a, 1)]"
    ),
    scalar(
        "MAP_FROM_ARRAYS(keys, values)",
        "maps:MAP_FROM_ARRAYS",
        convert_each(ARRAY, ARRAY),
        _of_arrays,
        rejects=Rejects.VALUES,
    ).described(
        "The map of an array of keys and one of values.", "MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])", "{a=1}"
    ),
    scalar("MAP_UNION(map1 [, map2]*)", "maps:MAP_UNION", _alike, _merged).described(
        "The entries of all maps; of equal keys that of the last.",
        "MAP_UNION(MAP['a', 1], MAP['a', 2])",
        "{a=2}",
    ),
    scalar(
        "STR_TO_MAP(string[, pair_delimiter, value_delimiter])",
        "maps:map_from_text",
        (TEXT, TEXT, TEXT),
        returns(sql.map_of(STRING, STRING)),
        check=_check_delimiters,
        rejects=Rejects.PARAMETERS,
    ).described(
        "The map in a text: pairs between commas, key and value between equals signs, or by other regular expressions.",
        "STR_TO_MAP('a=1')",
        "{a=1}",
    ),
)
