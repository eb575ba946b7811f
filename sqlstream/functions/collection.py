"""Functions that build and read rows, arrays and maps."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.functions.arguments import (
    COLLECTION,
    MANY,
    as_given,
    returns,
    scalar,
    to_shared,
)
from sqlstream.functions.checks import literals, unsupported
from sqlstream.functions.merging import common_type
from sqlstream.functions.signature import DescribedFunction, Rejects, ScalarFunction
from sqlstream.types import LogicalType, TypeRoot

Types = tuple[LogicalType, ...]


def _field(types: Types) -> LogicalType | None:
    """FIELD(row, index): the index, from 0, is literal and determines the type (`ScalarFunction.type_of`)."""
    return types[0] if types[0].root is TypeRoot.ROW else None


def _field_at(row: LogicalType, args: tuple[Expression, ...]) -> LogicalType:
    index = args[1]
    assert isinstance(index, Literal)
    assert isinstance(index.value, int)
    field = row.fields[index.value].type
    return field.with_nullable(field.nullable or row.nullable)


def _row(types: Types) -> LogicalType:
    return sql.row(*((f"EXPR${i}", t) for i, t in enumerate(types))).not_null()


def _array(types: Types) -> LogicalType | None:
    element = common_type(types)
    return None if element is None else sql.array(element).not_null()


def _same_entries(types: Types) -> Types | None:
    keys, values = to_shared(types[0::2]), to_shared(types[1::2])
    if len(types) % 2 or keys is None or values is None:
        return None
    return tuple(t for pair in zip(keys, values, strict=True) for t in pair)


def _map(types: Types) -> LogicalType | None:
    key, value = common_type(types[0::2]), common_type(types[1::2])
    if key is None or value is None or key.root is TypeRoot.NULL:
        return None
    return sql.map_of(key, value).not_null()


def _item_arguments(types: Types) -> Types | None:
    collection, place = types
    if collection.root is TypeRoot.VARIANT:
        wanted = sql.STRING if sql.is_string(place) else sql.INT if sql.is_integer(place) else None
        return None if wanted is None else (collection, wanted.with_nullable(place.nullable))
    if collection.root is TypeRoot.ARRAY:
        return (collection, sql.INT.with_nullable(place.nullable)) if sql.is_integer(place) else None
    if collection.root is not TypeRoot.MAP or collection.key is None:
        return None
    if common_type((collection.key, place)) is None:
        return None
    return collection, collection.key.with_nullable(place.nullable)


def _item(types: Types) -> LogicalType | None:
    element = types[0] if types[0].root is TypeRoot.VARIANT else types[0].element
    return None if element is None else element.with_nullable(True)


def _check_keys(call: Call) -> None:
    key = call.args[0].type
    if key.root in (*sql.NESTED_ROOTS, TypeRoot.VARIANT, TypeRoot.BITMAP):
        raise unsupported(call, f"with keys of type {key.with_nullable(True)}", "use a scalar as key")


def _check_position(call: Call) -> None:
    found = literals(call, 1) if call.args[0].type.root is TypeRoot.ARRAY else None
    if found is not None and isinstance(found[0], int) and found[0] < 1:
        raise unsupported(call, f"at position {found[0]}", "the first element is at position 1")


FUNCTIONS: tuple[ScalarFunction, ...] = (
    scalar("row.field", "collection:field_of", as_given, _field, name="FIELD", args=(2, 2), refine=_field_at),
    scalar("ROW(value1 [, value2]*)", "collection:row_of", as_given, _row).described(
        "A row of the values.", "ROW(1, 'a')", "(1, a)"
    ),
    scalar(
        "ARRAY[value1 [, value2]*]", "collection:array_of", to_shared, _array, name="ARRAY", args=(0, MANY)
    ).described("An array of the values.", "ARRAY[1, 2]", "[1, 2]"),
    scalar(
        "MAP[key1, value1 [, key2, value2]*]",
        "collection:map_of",
        _same_entries,
        _map,
        name="MAP",
        args=(2, MANY),
        check=_check_keys,
        rejects=Rejects.VALUES,
    ).described("A map of keys and values.", "MAP['a', 1]", "{a=1}"),
    scalar(
        "array[index], map[key] or variant[index or key]",
        "collection:item_of",
        _item_arguments,
        _item,
        name="ITEM",
        args=(2, 2),
        check=_check_position,
    ),
    scalar(
        "CARDINALITY(array, map or multiset)", "collection:cardinality_of", (COLLECTION,), returns(sql.INT)
    ).described("The number of elements or entries.", "CARDINALITY(ARRAY[1, 2])", "2"),
)

REWRITTEN = (
    DescribedFunction("OBJECT_OF", "OBJECT_OF(class_name[, key, value]*)").described(
        "An object with these values under their keys, which are literals: a ROW with named fields.",
        "OBJECT_OF('com.example.User', 'name', 'Bob', 'age', 21).name",
        "Bob",
    ),
    DescribedFunction("OBJECT_UPDATE", "OBJECT_UPDATE(object, key, value[, key, value]*)").described(
        "The object or ROW with other values under some of its keys; NULL where the object is.",
        "OBJECT_UPDATE(OBJECT_OF('com.example.User', 'name', 'Bob', 'age', 14), 'age', 30).age",
        "30",
    ),
)
"""Functions that the binder writes as a ROW."""
